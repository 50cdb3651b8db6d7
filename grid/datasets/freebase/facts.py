"""Facts that are added and taken back while a witness graph grows, found from both their ends."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple, TypeAlias

from grid.worlds.sparql.queries import TYPE, Value

Node: TypeAlias = str | Value
"""An entity's id, or a literal."""


class Fact(NamedTuple):
    """A relation leads from an entity to another, to a literal or, where it is TYPE, to a class."""

    subject: str
    relation: str
    object: Node


class Facts:
    """A set of facts in the order of their adding. With a fact stands the one that its relation's inverse makes of it.

    `inverses`: by relation the one that leads back.
    """

    def __init__(self, inverses: Mapping[str, str]) -> None:
        self._inverses = inverses
        self._from: dict[str, dict[str, dict[Node, None]]] = {}
        self._to: dict[str, dict[Node, dict[str, None]]] = {}
        self._log: list[Fact] = []

    def __len__(self) -> int:
        return len(self._log)

    def __iter__(self) -> Iterator[Fact]:
        return iter(self._log)

    def __contains__(self, fact: object) -> bool:
        return isinstance(fact, Fact) and fact.object in self.objects(fact.subject, fact.relation)

    def add(self, subject: str, relation: str, node: Node) -> bool:
        """Add a fact and its inverse; whether it is new."""
        fact = Fact(subject, relation, node)
        if fact in self:
            return False
        self._put(fact)
        back = self._inverses.get(relation)
        if back is not None and relation != TYPE and isinstance(node, str) and Fact(node, back, subject) not in self:
            self._put(Fact(node, back, subject))
        return True

    def since(self, mark: int) -> list[Fact]:
        """The facts that were added since there were `mark`."""
        return self._log[mark:]

    def undo(self, mark: int) -> None:
        """Take back what was added since there were `mark` facts."""
        while len(self._log) > mark:
            subject, relation, node = self._log.pop()
            del self._from[relation][subject][node]
            del self._to[relation][node][subject]

    def objects(self, subject: str, relation: str) -> Collection[Node]:
        """What a relation leads to from an entity."""
        return self._from.get(relation, _NONE).get(subject, _NOTHING)

    def subjects(self, relation: str, node: Node) -> Collection[str]:
        """What a relation leads to a node from."""
        return self._to.get(relation, _NO_WAY).get(node, _NOBODY)

    def pairs(self, relation: str) -> Iterator[tuple[str, Node]]:
        """All that a relation ties together."""
        for subject, nodes in self._from.get(relation, _NONE).items():
            for node in nodes:
                yield subject, node

    def types(self, subject: str) -> Collection[Node]:
        """An entity's classes."""
        return self.objects(subject, TYPE)

    def _put(self, fact: Fact) -> None:
        self._from.setdefault(fact.relation, {}).setdefault(fact.subject, {})[fact.object] = None
        self._to.setdefault(fact.relation, {}).setdefault(fact.object, {})[fact.subject] = None
        self._log.append(fact)


_NOTHING: dict[Node, None] = {}
_NOBODY: dict[str, None] = {}
_NONE: dict[str, dict[Node, None]] = {}
_NO_WAY: dict[Node, dict[str, None]] = {}
