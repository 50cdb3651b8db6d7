"""Noun phrases with the programs that they mean: an entity by its name, by a relation, or by what only it fulfils."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

from grid.datasets.kqa.facts import BACK, Attribute, Facts, Relation, Value
from grid.datasets.kqa.program import Executor, Tree, find, find_all, joined
from grid.datasets.kqa.words import Compared, Operator, Words
from grid.datasets.kqa.world import PRESENT, WorldStock
from grid.worlds.kopl.values import KoplError

FILTERS = {"string": "Str", "quantity": "Num", "year": "Year", "date": "Date"}
_NESTED = 2
"""Relative clauses inside one noun phrase or clause at most; a noun that clauses describe may have one more."""
_NOMINAL = re.compile(r"the [^{]+ of \{x\}")
_OF_A_PERSON = {"w": "who", "who": "Who", "it": "this person", "its": "this person's"}
_OF_A_THING = {"w": "that", "who": "Which", "it": "it", "its": "its"}
Fact = TypeVar("Fact", Attribute, Relation)


@dataclass(frozen=True)
class Phrase:
    """What a text means: `tree` finds the entities; `target` is the one, or one among them."""

    text: str
    tree: Tree
    target: str
    clauses: int = 0
    """How many nouns have a clause rather than 'of'."""


class Phrases:
    """Makes noun phrases about a knowledge base; every entity at most once in one question (`fresh` begins one)."""

    def __init__(self, facts: Facts, words: Words, stock: WorldStock, run: Executor, rng: random.Random) -> None:
        self.facts, self.words, self.stock, self.run, self.rng = facts, words, stock, run, rng
        self.used: set[str] = set()

    def fresh(self) -> None:
        """Begin another question."""
        self.used = set()

    def worded(self, wordings: Sequence[str], about: str, fixed: Mapping[str, str] | None = None, **texts: str) -> str:
        """One of the wordings about an entity, its slots filled; raises Dead where none suits the noun phrases `texts`.

        A long phrase stands last, or before a comma or colon: within a clause a reader would lose the thread.
        """
        suited = [
            wording
            for wording in wordings
            if wording and all(_suits(wording, slot, text) for slot, text in texts.items())
        ]
        if not suited:
            raise Dead
        person = self.facts.kind(about) == "person"
        spoken = _OF_A_PERSON if person else _OF_A_THING
        said = self.rng.choice(suited).format(
            c=self.noun(self.facts.kind(about))[0], **spoken, **(fixed or {}), **texts
        )
        if len(RELATIVE.findall(said)) > _NESTED:
            raise Dead
        return said

    def noun(self, concept: str) -> tuple[str, str]:
        """A word for a concept, and its plural."""
        known = self.stock.concepts[concept]
        return self.rng.choice([(concept, known.plural), *known.also.items()])

    def any_of(self, facts: Sequence[Fact]) -> Fact:
        """One of the facts, each key as likely as any other; raises Dead where there is none."""
        keys = list(dict.fromkeys(fact.name for fact in facts))
        if not keys:
            raise Dead
        key = self.rng.choice(keys)
        return self.rng.choice([fact for fact in facts if fact.name == key])

    def entity(self, target: str, hops: int, titled: bool = True) -> Phrase:
        """A phrase for one entity, `hops` relations away from a name; raises Dead where there is none.

        `titled` allows the concept before the name.
        """
        if target in self.used:
            raise Dead
        self.used.add(target)
        if hops == 0:
            name = self.facts.name[target]
            concept = self.facts.concepts[target][0]
            plain = not titled or concept in name.lower() or self.rng.random() < 0.88
            shown = name if plain else f"the {self.noun(concept)[0]} {name}"
            return Phrase(shown, find(name), target)
        ways = [fact for fact in self.facts.leading[target] if fact.other not in self.used and self._wordings(fact)]
        way = self.any_of(ways)
        start = self.entity(way.other, hops - 1)
        wordings = self._wordings(way)
        tree = start.tree.then("Relate", way.name, BACK[way.direction])
        suited = wordings if start.clauses < _NESTED else [w for w in wordings if _NOMINAL.fullmatch(w)]
        template = self.rng.choice(suited or [""])
        text = self.worded([template], target, x=start.text)
        return Phrase(text, tree, target, start.clauses + (not _NOMINAL.fullmatch(template)))

    def _wordings(self, fact: Relation) -> list[str]:
        """What a fact's own end is called by the other one."""
        words = self.words.relations[fact.name]
        return words.object if fact.direction == "backward" else words.subject

    def described(self, target: str, clauses: Sequence[Clause], concept: str) -> Phrase:
        """'The film directed by A ...': raises Dead unless the target alone fulfils the clauses."""
        phrase = self.set_of(target, clauses, concept, plural=False)
        if self.names(phrase.tree) != {self.facts.name[target]}:
            raise Dead
        return Phrase(f"the {phrase.text}", phrase.tree, target)

    def set_of(
        self, target: str, clauses: Sequence[Clause], concept: str, join: str = "And", plural: bool = True
    ) -> Phrase:
        """'Films directed by A ...': all of a concept that fulfil the clauses (any of the relations for `Or`)."""
        sources = [clause.source for clause in clauses if clause.source]
        filters = [clause for clause in clauses if not clause.source]
        if len(sources) > 1:
            tree = joined(join, [source.then("FilterConcept", concept) for source in sources])
        else:
            tree = sources[0] if sources else find_all()
        for clause in filters:
            tree = clause.over(tree)
        if len(sources) < 2:
            tree = tree.then("FilterConcept", concept)
        text = f"{self.noun(concept)[plural]} {said(clauses, join)}"
        if len(RELATIVE.findall(text)) > _NESTED + 1:
            raise Dead
        return Phrase(text, tree, target)

    def names(self, tree: Tree) -> set[str]:
        """The names of what a tree finds; none where it fails."""
        try:
            return set(self.run(tree.then("QueryName").program()))
        except KoplError:
            return set()

    def attribute_clause(self, target: str, qualified: bool = False) -> Clause:
        """A clause over one of the target's attributes that is true of it."""
        facts = self.facts.attributes[target] if qualified else self.facts.single(target)
        facts = [fact for fact in facts if not qualified or fact.qualifiers]
        fact = self.any_of(facts)
        text, step = self.condition(self.words.attributes[fact.name].where, fact.name, fact.value, "Filter")
        if not qualified:
            return Clause(text, None, (step,))
        said, qstep = self.qualifier(fact)
        return Clause(f"{text} {said}", None, (step, qstep))

    def qualifier(self, fact: Attribute | Relation) -> tuple[str, tuple[str, ...]]:
        """A condition on one of a fact's qualifiers that is true of it."""
        if not fact.qualifiers:
            raise Dead
        key, value = self.rng.choice(fact.qualifiers)
        return self.condition(self.words.qualifiers[key], key, value, "QFilter")

    def condition(self, wordings: Compared, key: str, value: Value, family: str) -> tuple[str, tuple[str, ...]]:
        """A true condition on a value: its text and its filter step."""
        operators: list[Operator] = ["="] if value.kind == "string" else ["=", "<", "<", ">", ">", "!="]
        operator = self.rng.choice([op for op in operators if op in wordings])
        kind, bound = self.bound(value, operator)
        said = self.said(self.rng.choice(wordings[operator]), kind, bound)
        inputs = (key, bound) if kind == "string" else (key, bound, operator)
        return said, (f"{family}{FILTERS[kind]}", *inputs)

    def bound(self, value: Value, operator: Operator, holds: bool = True) -> tuple[str, str]:
        """Kind and text of a value that the given one stands to as the operator says (or does not)."""
        if value.kind == "string":
            return value.kind, value.text
        equal = operator in ("=", "!=") and (operator == "=") == holds
        if value.kind == "quantity":
            if equal:
                return value.kind, value.text
            up = self.rng.random() < 0.5 if operator in ("=", "!=") else (operator == "<") == holds
            return value.kind, _rounded(value, up, self.rng)
        dated = value.kind == "date" and self.rng.random() < 0.5
        if equal:
            return ("date", value.text) if dated else ("year", value.year)
        up = self.rng.random() < 0.5 if operator in ("=", "!=") else (operator == "<") == holds
        year = int(value.year) + self.rng.randint(1, 12) * (1 if up else -1)
        if year > PRESENT + 1:
            raise Dead
        if dated:
            return "date", f"{year:04d}{value.text[4:8]}{self.rng.randint(1, 28):02d}"
        return "year", str(year)

    def said(self, template: str, kind: str, text: str) -> str:
        """A wording with its value, units in the plural and days with their own preposition."""
        return self.dated(template, kind).replace("{v}", self.spoken(kind, text))

    def dated(self, template: str, kind: str) -> str:
        """A wording with the preposition that its value takes."""
        return template.replace("in {v}", "on {v}") if kind == "date" else template

    def spoken(self, kind: str, text: str) -> str:
        """A value as people write it."""
        number, _, unit = text.partition(" ")
        if kind != "quantity" or not unit:
            return text
        return f"{number} {unit if number == '1' else self.words.units.get(unit, f'{unit}s')}"

    def relation_clause(self, target: str, hops: int, qualified: bool = False) -> Clause:
        """A clause by one of the target's relations that is true of it; raises Dead where there is none."""
        facts = [
            fact
            for fact in self.facts.relations[target]
            if fact.other not in self.used and (not qualified or (fact.qualifiers and fact.direction == "forward"))
        ]
        if not facts:
            raise Dead
        rare = [f for f in facts if qualified and any(value.kind in ("date", "quantity") for _, value in f.qualifiers)]
        fact = self.any_of(rare if rare and self.rng.random() < 0.7 else facts)
        other = self.entity(fact.other, hops)
        if other.clauses >= _NESTED:
            raise Dead
        words = self.words.relations[fact.name]
        forward = [*words.subjects, *([] if qualified else words.states)]
        wordings = forward if fact.direction == "forward" else words.objects
        tree = other.tree.then("Relate", fact.name, BACK[fact.direction])
        if not qualified:
            return Clause(self.worded(wordings, target, x=other.text), tree)
        said, step = self.qualifier(fact)
        template = self.rng.choice(wordings)
        first, _, rest = template.partition(" ")
        if len(other.text) > LONG:
            if first not in ("who", "that", "{w}"):
                raise Dead
            whole = f"{first}, {said}, {rest}"
        else:
            whole = f"{template} {said}"
        return Clause(self.worded([whole], target, x=other.text), tree.then(*step))


def _rounded(value: Value, up: bool, rng: random.Random) -> str:
    """A round quantity above or below the given one, with its unit."""
    aim = value.number * (rng.uniform(1.03, 1.5) if up else rng.uniform(0.6, 0.97))
    digits = 10 ** max(0, len(str(int(value.number))) - 2)
    rounded = round(aim / digits) * digits
    if up and rounded <= value.number:
        rounded = int(value.number) + digits
    if not up and rounded >= value.number:
        rounded = int(value.number) - digits
    if rounded <= 0 or (value.text.endswith(" percent") and rounded >= 100):
        raise Dead
    return f"{rounded}{value.text[len(value.text.split(' ')[0]) :]}"


def _suits(wording: str, slot: str, text: str) -> bool:
    """Whether a noun phrase may stand in a slot: a long one does not within a clause."""
    after = wording.partition(f"{{{slot}}}")[2]
    return len(text) <= LONG or after[:1] in ("", ",", ":", ".", "?")


# How the clauses behind a noun stand together.


LONG = 32
"""Characters from which a noun phrase stands last in a clause."""
RELATIVE = re.compile(r"\b(?:who|whom|whose|that|where|which)\b|(?:in|to|through|on) (?=which|whom)")


@dataclass(frozen=True)
class Clause:
    """What follows a noun. `source` finds all that it is true of; without one, `filters` are steps over a set."""

    text: str
    source: Tree | None = None
    filters: tuple[tuple[str, ...], ...] = ()

    def over(self, tree: Tree) -> Tree:
        """The clause's filters over a set."""
        for function, *inputs in self.filters:
            tree = tree.then(function, *inputs)
        return tree


class Dead(Exception):  # noqa: N818 - no error: the maker turns and tries another way
    """This way leads to no question."""


def said(clauses: Sequence[Clause], join: str) -> str:
    """The clauses one after another, relative ones last; raises Dead where nobody would say so."""
    plain = sorted((c.text for c in clauses if not c.source), key=lambda text: text.startswith("with"))
    related = sorted((c.text for c in clauses if c.source), key=len)
    relative = [text for text in related if RELATIVE.match(text)]
    other = [text for text in related if text not in relative]
    if join == "Or" and len(related) > 1:
        if relative and other:
            raise Dead
        either = " or ".join(related) if relative else f"either {' or '.join(related)}"
        return _beside(plain, either)
    if relative and other and (len(relative) > 1 or max(map(len, other)) > LONG + 20):
        raise Dead
    following = " and ".join(relative)
    if relative and other and relative[0].split()[0] in ("who", "that"):
        following = relative[0].replace(" ", " also ", 1)
    before = _beside(plain, listed(other)) if len(plain) < 2 or not other else listed([*plain, *other])
    return f"{before} {following}".strip()


def _beside(plain: Sequence[str], text: str) -> str:
    """Attributes and what else is said; 'with ...' needs no 'and' before it."""
    first = plain[0] if plain else ""
    for before, more in pairwise(plain):
        first += f" {more}" if more.startswith("with") and not before.startswith("with") else f" and {more}"
    if not first or not text:
        return first or text
    return f"{first} {text}" if RELATIVE.match(text) else f"{first} and {text}"


def listed(texts: Sequence[str]) -> str:
    """'a, b and c'."""
    return " and ".join([", ".join(texts[:-1]), texts[-1]] if len(texts) > 1 else texts)
