"""What guessing is worth: relations chosen by cheap policies, all else of the plan told, and plans with a step less."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from typing import TypeAlias

from grid.core.seeds import derive_seed
from grid.datasets.freebase.denotation import denoted
from grid.datasets.freebase.facts import Facts, Node
from grid.datasets.freebase.records import Question
from grid.worlds.sparql.expressions import (
    And,
    Arg,
    Class,
    Compare,
    Count,
    Entity,
    Expression,
    Join,
    TimeConstraint,
    Value,
    walk,
)
from grid.worlds.sparql.queries import TYPE

Offered: TypeAlias = Mapping[str, int]
"""The relations that a set has in a direction, as they are shown (sorted), and what each leads to: how many things."""
Policy: TypeAlias = Callable[[Question, Offered], str]
_WORD = re.compile(r"[a-z]+")
_SHORT = 3
"""Letters of a word that may begin another."""


class Attacks:
    """The policies over the facts of one graph."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._counts: Counter[str] = Counter()
        self._from: dict[Node, set[str]] = {}
        self._to: dict[Node, set[str]] = {}
        properties: set[str] = set()
        for subject, relation, node in facts:
            if relation != TYPE:
                self._counts[relation] += 1
                self._from.setdefault(subject, set()).add(relation)
                self._to.setdefault(node, set()).add(relation)
                properties |= {relation} if isinstance(node, Value) else set()
        self._properties = dict.fromkeys(sorted(properties), 1)

    @property
    def policies(self) -> Mapping[str, Policy]:
        """By what they choose; the last is a fair one, of which a planner's own reading is a better form."""
        return {
            "the first": lambda _, offered: min(offered),
            "any": lambda question, offered: random.Random(derive_seed(0, question.id, *offered)).choice(list(offered)),
            "the rarest in the graph": lambda _, offered: min(offered, key=lambda name: (self._counts[name], name)),
            "the most frequent in the graph": lambda _, offered: max(
                offered, key=lambda name: (self._counts[name], name)
            ),
            "the one with the fewest results": lambda _, offered: min(offered, key=lambda name: (offered[name], name)),
            "the one with the most results": lambda _, offered: max(offered, key=lambda name: (offered[name], name)),
            "the most words of the question": overlap,
        }

    def guesses(self, question: Question, policy: Policy) -> bool:
        """Whether the plan gives the answers when a policy chooses every relation that find_relation follows."""
        expression = self._chosen(question.expression, question, policy)
        return expression is not None and self._right(question, expression)

    def known(self, question: Question, invented: Collection[str]) -> bool:
        """Whether the answers are those members of a class, which the plan asks for, that are no invented things."""
        classes = [part.id for part in walk(question.expression) if isinstance(part, Class)]
        wanted = {answer.value for answer in question.answers}
        return any(
            {node for node in self._facts.subjects(TYPE, name) if node not in invented} == wanted for name in classes
        )

    def shorter(self, question: Question) -> Mapping[str, tuple[int, int]]:
        """By kind of step how many a plan has, and how many could be left out with the same answers."""
        found: dict[str, tuple[int, int]] = {}
        for kind, less in _without(question.expression):
            steps, needless = found.get(kind, (0, 0))
            found[kind] = steps + 1, needless + self._right(question, less)
        return found

    def offered(self, join: Join) -> Offered:
        """What a planner may follow where a plan has a find_relation."""
        if isinstance(join.target, Value):
            return self._properties
        targets = denoted(self._facts, join.target)
        ways = self._from if join.reverse else self._to
        found: Counter[str] = Counter()
        for node in targets:
            for relation in ways.get(node, ()):
                found[relation] += len(self._along(relation, node, join.reverse))
        return dict(sorted(found.items()))

    def _along(self, relation: str, node: Node, reverse: bool) -> Collection[Node]:
        if not reverse:
            return self._facts.subjects(relation, node)
        return self._facts.objects(node, relation) if isinstance(node, str) else ()

    def _right(self, question: Question, expression: Expression) -> bool:
        found = denoted(self._facts, expression)
        values = {node.text if isinstance(node, Value) else node for node in found}
        return values == {answer.value for answer in question.answers}

    def _chosen(self, expression: Expression, question: Question, policy: Policy) -> Expression | None:
        match expression:
            case Join(_, target, reverse):
                inner = self._chosen(target, question, policy)
                if inner is None:
                    return None
                offered = self.offered(Join("", inner, reverse))
                return Join(policy(question, offered), inner, reverse) if offered else None
            case And(left, right):
                one, other = (self._chosen(side, question, policy) for side in (left, right))
                return None if one is None or other is None else And(one, other)
            case Arg(operand=operand) | TimeConstraint(operand=operand) | Count(operand=operand):
                inner = self._chosen(operand, question, policy)
                return None if inner is None else replace(expression, operand=inner)
            case _:
                return expression


def overlap(question: Question, offered: Offered) -> str:
    """The relation with the largest share of its words in the question, of equals the first."""
    asked = set(_WORD.findall(question.text.lower()))

    def score(name: str) -> float:
        words = _WORD.findall(name.replace("_", " "))
        return sum(any(_alike(word, other) for other in asked) for word in words) / max(1, len(words))

    return max(sorted(offered), key=score)


def joins(expression: Expression) -> list[Join]:
    """The find_relation steps of a plan."""
    return [part for part in walk(expression) if isinstance(part, Join)]


def _alike(one: str, other: str) -> bool:
    shorter, longer = sorted((one, other), key=len)
    return one == other or (len(shorter) > _SHORT and longer.startswith(shorter))


def _without(expression: Expression) -> Iterator[tuple[str, Expression]]:
    """The expression with one step less, and its kind: a class or a set to be merged with, an order, a time."""
    match expression:
        case And(left, right):
            for one, other in ((left, right), (right, left)):
                if not isinstance(other, (Class, Compare)):
                    yield _kind(one), other
                for kind, less in _without(one):
                    yield kind, And(less, other)
        case Arg(_, operand) | TimeConstraint(operand):
            yield "order" if isinstance(expression, Arg) else "time", operand
            for kind, less in _without(operand):
                yield kind, replace(expression, operand=less)
        case Join(relation, target, reverse):
            for kind, less in _without(target):
                yield kind, Join(relation, less, reverse)
        case Count(operand):
            for kind, less in _without(operand):
                yield kind, Count(less)


def _kind(part: Expression) -> str:
    return {Class: "class", Compare: "comparison", Entity: "entity"}.get(type(part), "set")
