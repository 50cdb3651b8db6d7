"""Facts that no question asks for: of everything at least ten relations each way, as far as the schema has them."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TypeAlias

from grid.core.seeds import derive_seed
from grid.datasets.freebase.facts import Fact, Node
from grid.datasets.freebase.ontology import TOPIC, Ontology
from grid.datasets.freebase.shards import Shard, parts_of
from grid.worlds.sparql.expressions import ENTITY
from grid.worlds.sparql.queries import TYPE

LEAST = 10
"""Relations that everything has at least, each way."""
_MORE = 5
_MEMBERS = 6
"""Members that a class of a question has at least, and half as many one that is a relation away."""
_KNOWN = 0.7
"""How often a new member of a class is something released, of its domain, where there is any."""
_SPREAD = 1.8
_MOST_ENDS = 40
"""Of how many facts one relation of one entity is made: a Pareto distribution, cut."""
_MANY, _AS_MANY = 2, 0.6
"""Of what a question's relation leads to more than so many, this share of other relations leads to about as many."""
_COMMON = 0.15
"""How much rarer relations between any two topics are than those of an entity's own classes."""
_Had: TypeAlias = dict[bool, dict[str, set[str]]]
"""By direction (whether forth) and entity its relations."""


_UNTOLD = re.compile(
    r"abus|accus|arrest|brothel|celebrit|convict|crime|infidel|lawsuit|popstra|porn|prostitut|rehab|sexual"
)
"""Nothing of this is made up about people who have real names, unless a question is about it."""
_CLASSES = 50
"""That are tried for what has too few relations."""


class Noise:
    """Adds facts to one shard. How often a relation comes does not depend on whether questions ask for it."""

    def __init__(self, shard: Shard, fresh: Callable[[], str], seed: int) -> None:
        self._shard, self._fresh, self._seed = shard, fresh, seed
        self._ontology: Ontology = shard.planter.ontology
        self._rng = random.Random(derive_seed(seed, "noise"))
        self._weights: dict[str, float] = {}
        self._members: dict[str, list[str]] = {}
        self._largest: dict[tuple[str, bool], int] = {}
        self._kin: dict[tuple[str, bool], list[str]] = {}

    def add(self) -> None:
        """New things for the classes, then facts about everything, what questions speak of and what not alike."""
        self._measure()
        self._note_kin()
        self._populate()
        for name, subject in sorted((str(name), subject) for subject, name in self._shard.facts.pairs(TYPE)):
            self._members.setdefault(name, []).append(subject)
        everything = sorted({subject for subject, _ in self._shard.facts.pairs(TYPE)})
        had = {forth: self._relations(forth) for forth in (True, False)}
        for forth in (True, False):
            self._rng.shuffle(everything)
            for node in everything:
                self._fill(node, forth, had)
        for node in everything:
            self._widen(node, had)

    def _widen(self, node: str, had: _Had) -> None:
        """More classes of the same domain, then of any, for what has too few relations with those that it has."""
        if self._total(node, had) >= LEAST:
            return
        own = {str(name) for name in self._shard.facts.types(node)}
        named = any(map(self._ontology.has_names, own))
        domains = {_domain(name) for name in own if name != TOPIC}
        every = dict.fromkeys([*self._members, *self._ontology.leading_from])
        alike = [name for name in every if name not in own and self._ontology.has_names(name) == named]
        self._rng.shuffle(alike)
        alike.sort(
            key=lambda name: (not self._suits(node, name), _domain(name) not in domains, name not in self._members)
        )
        for name in alike[:_CLASSES]:
            if self._shard.try_out(partial(self._shard.planter.classify, node, name)):
                for forth in (True, False):
                    self._fill(node, forth, had)
            if self._total(node, had) >= LEAST:
                return

    def _total(self, node: str, had: _Had) -> int:
        return sum(len(had[forth].get(node, ())) for forth in (True, False))

    def _measure(self) -> None:
        """How much each entity's largest relation leads to, each way, before there is noise."""
        counts: Counter[tuple[str, bool, str]] = Counter()
        for subject, relation, node in self._shard.facts:
            if relation != TYPE:
                counts[subject, True, relation] += 1
                if isinstance(node, str):
                    counts[node, False, relation] += 1
        for (node, forth, _), count in counts.items():
            self._largest[node, forth] = max(count, self._largest.get((node, forth), 0))

    def _populate(self) -> None:
        """Members for the classes of questions, and for those that they lead to."""
        roles = self._ontology.roles
        near: dict[str, None] = {}
        for question in self._shard.questions:
            for name, is_class in sorted(parts_of(question.expression).items()):
                near |= dict.fromkeys([name] if is_class else roles.get(name, ()))
        far: dict[str, None] = {}
        for name in near:
            for relation in self._ontology.leading_from.get(name, ()):
                far[roles[relation][1]] = None
            for relation in self._ontology.leading_to.get(name, ()):
                far[roles[relation][0]] = None
        for names, least in ((near, _MEMBERS), (far, _MEMBERS // 2)):
            for name in names:
                if not name.startswith("type."):
                    self._fill_class(name, least)

    def _fill_class(self, name: str, least: int) -> None:
        """Members for a class: others of its domain, so that not only its answers have real names, and new things."""
        missing = least - len(self._shard.facts.subjects(TYPE, name))
        named = self._ontology.has_names(name)
        kin = [node for node in self._kin.get((_domain(name), named), ()) if self._suits(node, name)]
        for _ in range(missing):
            nodes = [self._rng.choice(kin)] if kin and self._rng.random() < _KNOWN else []
            for node in (*nodes, self._fresh()):
                if self._shard.try_out(partial(self._shard.planter.classify, node, name)):
                    break

    def _suits(self, node: str, name: str) -> bool:
        """Whether an entity is already all that a class stands below: a book is no actor, since it is no person."""
        above = {other for other in self._ontology.above(name) if other not in (name, TOPIC)}
        return name != TOPIC and above <= set(self._shard.facts.types(node))

    def _note_kin(self) -> None:
        """What is released of each domain, things with names apart from what ties others together."""
        released = sorted({node for node, _ in self._shard.facts.pairs(TYPE) if ENTITY.fullmatch(node)})
        for node in released:
            classes = [str(name) for name in self._shard.facts.types(node)]
            named = any(map(self._ontology.has_names, classes))
            for domain in dict.fromkeys(map(_domain, classes)):
                self._kin.setdefault((domain, named), []).append(node)

    def _relations(self, forth: bool) -> dict[str, set[str]]:
        """By entity the relations that lead from it, or to it."""
        had: dict[str, set[str]] = {}
        for fact in self._shard.facts:
            if fact.relation != TYPE:
                self._note(had, fact, forth)
        return had

    @staticmethod
    def _note(had: dict[str, set[str]], fact: Fact, forth: bool) -> None:
        end = fact.subject if forth else fact.object
        if isinstance(end, str):
            had.setdefault(end, set()).add(fact.relation)

    def _fill(self, node: str, forth: bool, had: _Had) -> None:
        """Relations that an entity's classes have, until it has enough."""
        wanted = LEAST + self._rng.randrange(_MORE)
        own = had[forth].setdefault(node, set())
        for relation in self._drawn(node, forth):
            if len(own) >= wanted:
                return
            if relation in own:
                continue
            for first, last in self._ends(node, relation, forth):
                mark = len(self._shard.facts)
                if self._shard.add(first, relation, last):
                    for fact in self._shard.facts.since(mark):
                        for way, relations in had.items():
                            self._note(relations, fact, way)

    def _drawn(self, node: str, forth: bool) -> Iterable[str]:
        """The relations of an entity's classes in a random order, the frequent ones early."""
        by_class = self._ontology.leading_from if forth else self._ontology.leading_to
        keys: dict[str, float] = {}
        for name in self._shard.facts.types(node):
            rarer = _COMMON if name == TOPIC else 1.0
            for relation in by_class.get(str(name), ()):
                if _UNTOLD.search(relation) and not self._shard.asks(relation):
                    continue
                keys[relation] = self._rng.expovariate(1.0) / (self._weight(relation) * rarer)
        return sorted(keys, key=keys.__getitem__)

    def _weight(self, relation: str) -> float:
        if relation not in self._weights:
            rng = random.Random(derive_seed(self._seed, "weight", relation))
            self._weights[relation] = rng.lognormvariate(0.0, 0.4)
        return self._weights[relation]

    def _ends(self, node: str, relation: str, forth: bool) -> Iterator[tuple[str, Node]]:
        """The facts to add: one of a literal, or some with other members of the class at the far end."""
        if forth and relation in self._shard.planter.literals:
            if not self._shard.facts.objects(node, relation):
                yield node, self._shard.planter.literals.draw(relation, self._rng)
            return
        others: Sequence[str] = self._members.get(self._ontology.roles[relation][1 if forth else 0], ())
        if not others:
            return
        for other in self._rng.sample(others, min(self._count(node, forth), len(others))):
            if other != node:
                yield (node, other) if forth else (other, node)

    def _count(self, node: str, forth: bool) -> int:
        """How many facts a relation of an entity gets."""
        largest = self._largest.get((node, forth), 0)
        if largest > _MANY and self._rng.random() < _AS_MANY:
            return max(1, int(largest * self._rng.lognormvariate(0.3, 0.5)))
        return min(int(self._rng.paretovariate(_SPREAD)), _MOST_ENDS)


def _domain(name: str) -> str:
    """Of a class."""
    return name.rpartition(".")[0]
