"""Noun phrases with their programs: a phrase names an entity, or describes it by a relation or by clauses."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from grid.datasets.kqa.program import (
    BACK,
    Attribute,
    Clause,
    Executor,
    Facts,
    Relation,
    Tree,
    Value,
    find,
    find_all,
    joined,
    listed,
)
from grid.datasets.kqa.world import PRESENT, Compared, Operator, Words, WorldStock
from grid.worlds.kopl.values import KoplError

FILTERS = {"string": "Str", "quantity": "Num", "year": "Year", "date": "Date"}
_NESTED = 2
"""Maximum number of relative clauses in one noun phrase or clause.

A noun that is described by clauses may have one more relative clause.
"""
_NOMINAL = re.compile(r"the [^{]+ of \{x\}")
_OF_A_PERSON = {"w": "who", "who": "Who", "it": "this person", "its": "this person's", "own": "their"}
_OF_A_THING = {"w": "that", "who": "Which", "it": "it", "its": "its", "own": "the"}
_WITH_ARTICLE = re.compile(
    r"(?:River|University of) .+|.+ (?:Award|Prize|Medal|Institute of Technology|Republic|Union)"
)
"""Names that follow 'the' in a sentence."""
Fact = TypeVar("Fact", Attribute, Relation)


@dataclass(frozen=True)
class Phrase:
    """A text with its meaning: `tree` finds one or more entities, one of which is `target`."""

    text: str
    tree: Tree
    target: str
    clauses: int = 0
    """The number of nouns in the phrase that are described by a clause and not by 'of'."""


class Phrases:
    """Makes noun phrases about a knowledge base. Every entity occurs at most once in a question."""

    def __init__(self, facts: Facts, words: Words, stock: WorldStock, run: Executor, rng: random.Random) -> None:
        self.facts, self.words, self.stock, self.run, self.rng = facts, words, stock, run, rng
        self.used: set[str] = set()
        self.plurals = re.compile(rf"(?<![\d.])1 ({'|'.join(map(re.escape, words.singular))})\b")

    def fresh(self) -> None:
        """Start a new question, in which every entity may occur again."""
        self.used = set()

    def worded(self, wordings: Sequence[str], about: str, fixed: Mapping[str, str] | None = None, **texts: str) -> str:
        """One of the wordings about an entity, with its slots filled.

        A long phrase comes last, or before a comma, colon, full stop or question mark, because it would be hard to read
        inside a clause. Raises Dead if no wording suits all `texts`, or if the result has too many relative clauses.
        """
        suited = [
            wording
            for wording in wordings
            if wording and all(_suits(wording, slot, text) for slot, text in texts.items())
        ]
        if not suited:
            raise Dead
        said = self.rng.choice(suited).format(
            c=self.noun(self.facts.kind(about))[0], **self.spoken_of(about), **(fixed or {}), **texts
        )
        said = self.counted(said)
        if len(RELATIVE.findall(said)) > _NESTED:
            raise Dead
        return said

    def spoken_of(self, about: str) -> Mapping[str, str]:
        """The words that stand for an entity, as in 'this person' or 'it'."""
        return _OF_A_PERSON if self.facts.kind(about) == "person" else _OF_A_THING

    def counted(self, text: str) -> str:
        """A text in which nouns after the number 1 are in the singular: '1 museum'."""
        return self.plurals.sub(lambda found: f"1 {self.words.singular[found[1]]}", text)

    def noun(self, concept: str) -> tuple[str, str]:
        """A word for a concept, and its plural."""
        known = self.stock.concepts[concept]
        return self.rng.choice([(concept, known.plural), *known.also.items()])

    def any_of(self, facts: Sequence[Fact]) -> Fact:
        """One of the facts, drawn so that each key is equally likely. Raises Dead if there are no facts."""
        keys = list(dict.fromkeys(fact.name for fact in facts))
        if not keys:
            raise Dead
        key = self.rng.choice(keys)
        return self.rng.choice([fact for fact in facts if fact.name == key])

    def entity(self, target: str, hops: int, titled: bool = True) -> Phrase:
        """A phrase that describes an entity by a path of `hops` relations from a name.

        Raises Dead if there is no such phrase. If `titled`, the phrase may have a concept before the name.
        """
        if target in self.used:
            raise Dead
        self.used.add(target)
        if hops == 0:
            name = self.facts.name[target]
            concept = self.facts.concepts[target][0]
            plain = not titled or concept in name.lower() or self.rng.random() < 0.88
            if _WITH_ARTICLE.fullmatch(name):
                return Phrase(f"the {name}", find(name), target)
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
        """The wordings that describe the entity to which a fact belongs in terms of the fact's other entity."""
        words = self.words.relations[fact.name]
        return words.object if fact.direction == "backward" else words.subject

    def described(self, target: str, clauses: Sequence[Clause], concept: str) -> Phrase:
        """A phrase such as 'The film directed by A ...'. Raises Dead if other entities also fulfil the clauses."""
        phrase = self.set_of(target, clauses, concept, plural=False)
        if self.names(phrase.tree) != {self.facts.name[target]}:
            raise Dead
        return Phrase(f"the {phrase.text}", phrase.tree, target)

    def set_of(
        self, target: str, clauses: Sequence[Clause], concept: str, join: str = "And", plural: bool = True
    ) -> Phrase:
        """A phrase such as 'Films directed by A ...', for all entities of a concept that fulfil the clauses.

        If `join` is `Or`, an entity need fulfil only one of the relation clauses, but all attribute clauses. Raises
        Dead if the text would be unnatural or has too many relative clauses.
        """
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
        """The names of the entities that a tree finds; an empty set if the tree fails."""
        try:
            return set(self.run(tree.then("QueryName").program()))
        except KoplError:
            return set()

    def attribute_clause(self, target: str, qualified: bool = False) -> Clause:
        """A true clause about one of the target's attributes. Raises Dead if there is no such clause."""
        facts = self.facts.attributes[target] if qualified else self.facts.single(target)
        facts = [fact for fact in facts if not qualified or fact.qualifiers]
        fact = self.any_of(facts)
        text, step = self.condition(self.words.attributes[fact.name].where, fact.name, fact.value, "Filter")
        text = text.replace("{own}", self.spoken_of(target)["own"])
        if not qualified:
            return Clause(text, None, (step,))
        said, qstep = self.qualifier(fact)
        return Clause(f"{text} {said}", None, (step, qstep))

    def qualifier(self, fact: Attribute | Relation) -> tuple[str, tuple[str, ...]]:
        """A true condition on one of a fact's qualifiers: its text and filter step. Raises Dead if there is none."""
        if not fact.qualifiers:
            raise Dead
        key, value = self.rng.choice(fact.qualifiers)
        wordings = self.words.qualifiers[key]
        if isinstance(fact, Attribute):
            wordings = self.words.qualifiers.get(f"{key} of a value", wordings)
        return self.condition(wordings, key, value, "QFilter")

    def condition(self, wordings: Compared, key: str, value: Value, family: str) -> tuple[str, tuple[str, ...]]:
        """A true condition on a value: its text and its filter step. Raises Dead if no bound is found."""
        operators: list[Operator] = ["="] if value.kind == "string" else ["=", "<", "<", ">", ">", "!="]
        operator = self.rng.choice([op for op in operators if op in wordings])
        kind, bound = self.bound(value, operator)
        said = self.said(self.rng.choice(wordings[operator]), kind, bound)
        inputs = (key, bound) if kind == "string" else (key, bound, operator)
        return said, (f"{family}{FILTERS[kind]}", *inputs)

    def bound(self, value: Value, operator: Operator, holds: bool = True) -> tuple[str, str]:
        """The kind and text of a bound such that `value operator bound` is true if `holds`, and false otherwise.

        For a string, the bound is always the string itself. Raises Dead if the drawn bound is not plausible.
        """
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
        """A wording with its value filled in; `spoken` gives the value's form, and `dated` the preposition."""
        return self.counted(self.dated(template, kind).replace("{v}", self.spoken(kind, text)))

    def dated(self, template: str, kind: str) -> str:
        """A wording with the preposition for its value: 'on' before dates."""
        return template.replace("in {v}", "on {v}") if kind == "date" else template

    def spoken(self, kind: str, text: str) -> str:
        """A value as people write it, with its unit in the singular or plural."""
        number, _, unit = text.partition(" ")
        if kind != "quantity" or not unit:
            return text
        return f"{number} {unit if number == '1' else self.words.units.get(unit, f'{unit}s')}"

    def relation_clause(self, target: str, hops: int, qualified: bool = False) -> Clause:
        """A true clause about one of the target's relations. Raises Dead if there is no such clause."""
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
    """A round quantity above or below the given one, with the same unit."""
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
    """Whether a noun phrase may fill a slot. A long phrase must not be inside a clause."""
    after = wording.partition(f"{{{slot}}}")[2]
    return len(text) <= LONG or after[:1] in ("", ",", ":", ".", "?")


# The order of the clauses after a noun.


LONG = 32
"""A noun phrase with more characters than this comes last in a clause."""
RELATIVE = re.compile(r"\b(?:who|whom|whose|that|where|which)\b|(?:in|to|through|on) (?=which|whom)")


class Dead(Exception):  # noqa: N818 - no error: the maker turns and tries another way
    """The attempt does not lead to a question."""


def said(clauses: Sequence[Clause], join: str) -> str:
    """The clauses joined into one text, relative clauses last. Raises Dead if the text would be unnatural."""
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
    before = listed([*plain, *other]) if other and len(plain) + len(other) > 2 else _beside(plain, listed(other))
    return f"{before} {following}".strip()


def _beside(plain: Sequence[str], text: str) -> str:
    """Join attribute clauses and a further text, without 'and' before the first 'with ...' clause."""
    parts = [[one for one in plain if one.startswith("with") == late] for late in (False, True)]
    first = " ".join(listed(part) for part in parts if part)
    if not first or not text:
        return first or text
    return f"{first} {text}" if RELATIVE.match(text) else f"{first} and {text}"
