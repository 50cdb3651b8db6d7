"""Noun phrases with the programs that they mean: an entity by its name, by a relation, or by what only it fulfils."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from grid.datasets.kqa.facts import BACK, Attribute, Facts, Relation, Value
from grid.datasets.kqa.program import Executor
from grid.datasets.kqa.stock import Operator, Words, WorldStock
from grid.datasets.kqa.trees import Tree, find, find_all, joined
from grid.datasets.kqa.world import PRESENT
from grid.worlds.kopl.errors import KoplError

FILTERS = {"string": "Str", "quantity": "Num", "year": "Year", "date": "Date"}
_LONG = 32
"""Characters from which a noun phrase stands last in a clause."""


@dataclass(frozen=True)
class Phrase:
    """What a text means: `tree` finds the entities; `target` is the one, or one among them."""

    text: str
    tree: Tree
    target: str


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


class Phrases:
    """Makes noun phrases about a knowledge base; every entity at most once in one question (`fresh` begins one)."""

    def __init__(self, facts: Facts, words: Words, stock: WorldStock, run: Executor, rng: random.Random) -> None:
        self.facts, self.words, self.stock, self.run, self.rng = facts, words, stock, run, rng
        self.used: set[str] = set()

    def fresh(self) -> None:
        """Begin another question."""
        self.used = set()

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
            shown = name if plain else f"the {concept} {name}"
            return Phrase(shown, find(name), target)
        ways = [fact for fact in self.facts.relations[target] if self._leads_back(fact, target)]
        if not ways:
            raise Dead
        way = self.rng.choice(ways)
        start = self.entity(way.other, hops - 1)
        words = self.words.relations[way.name]
        wordings = words.object if way.direction == "backward" else words.subject
        tree = start.tree.then("Relate", way.name, BACK[way.direction])
        return Phrase(self.rng.choice(wordings).format(x=start.text), tree, target)

    def _leads_back(self, fact: Relation, target: str) -> bool:
        """Whether the fact's other end relates to the target alone, and there are words for it."""
        words = self.words.relations[fact.name]
        if fact.other in self.used or not (words.object if fact.direction == "backward" else words.subject):
            return False
        return {f.other for f in self.facts.related(fact.other, fact.name, BACK[fact.direction])} == {target}

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
        noun = self.stock.concepts[concept].plural if plural else concept
        return Phrase(f"{noun} {_said(clauses, join, plural)}", tree, target)

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
        if not facts:
            raise Dead
        fact = self.rng.choice(facts)
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

    def condition(
        self, wordings: dict[Operator, str], key: str, value: Value, family: str
    ) -> tuple[str, tuple[str, ...]]:
        """A true condition on a value: its text and its filter step."""
        operators: list[Operator] = ["="] if value.kind == "string" else ["=", "<", "<", ">", ">", "!="]
        operator = self.rng.choice([op for op in operators if op in wordings])
        kind, bound = self.bound(value, operator)
        said = self.said(wordings[operator], kind, bound)
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
        if kind == "date":
            template = template.replace("in {v}", "on {v}")
        return template.replace("{v}", self.spoken(kind, text))

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
        fact = self.rng.choice(rare if rare and self.rng.random() < 0.7 else facts)
        other = self.entity(fact.other, hops)
        words = self.words.relations[fact.name]
        template = words.subjects if fact.direction == "forward" else words.objects
        tree = other.tree.then("Relate", fact.name, BACK[fact.direction])
        if not qualified:
            return Clause(template.format(x=other.text), tree)
        said, step = self.qualifier(fact)
        first, _, rest = template.partition(" ")
        if first in ("who", "that") and len(other.text) > _LONG:
            text = f"{first}, {said}, {rest.format(x=other.text)}"
        else:
            text = f"{template.format(x=other.text)} {said}"
        return Clause(text, tree.then(*step))


def _rounded(value: Value, up: bool, rng: random.Random) -> str:
    """A round quantity above or below the given one, with its unit."""
    aim = value.number * (rng.uniform(1.03, 1.5) if up else rng.uniform(0.6, 0.97))
    digits = 10 ** max(0, len(str(int(value.number))) - 2)
    rounded = round(aim / digits) * digits
    if up and rounded <= value.number:
        rounded = int(value.number) + digits
    if not up and rounded >= value.number:
        rounded = int(value.number) - digits
    if rounded <= 0:
        raise Dead
    return f"{rounded}{value.text[len(value.text.split(' ')[0]) :]}"


def _said(clauses: Sequence[Clause], join: str, plural: bool) -> str:
    """The clauses one after another: attributes first, then relations, those with long texts last."""
    plain = listed(sorted((c.text for c in clauses if not c.source), key=lambda text: text.startswith("with")))
    related = sorted((c.text for c in clauses if c.source), key=len)
    relative = [clause.split()[0].strip(",") in _RELATIVES for clause in related]
    if len(related) < 2:
        glue = " and " if plain and related and not relative[0] else " "
        return f"{plain}{glue}{''.join(related)}".strip()
    word = "and" if join == "And" else "or"
    if any(relative) and not all(relative):
        verb = "are" if plural else "is"
        grouped = f"that {verb} among those {f' {word} among those '.join(related)}"
    elif all(relative):
        grouped = f" {word} ".join(related)
    else:
        grouped = f"{'both' if join == 'And' else 'either'} {f' {word} '.join(related)}"
    return f"{plain}, {grouped}" if plain else grouped


def listed(texts: Sequence[str]) -> str:
    """'a, b and c'."""
    return " and ".join([", ".join(texts[:-1]), texts[-1]] if len(texts) > 1 else texts)


_RELATIVES = frozenset({"who", "that", "whose", "where", "in", "to", "through", "on"})
