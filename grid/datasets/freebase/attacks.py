"""What guessing the relations of a plan is worth, when all else of the plan is told: cheap policies, no model."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from grid.datasets.freebase.denotation import denoted
from grid.datasets.freebase.facts import Facts, Node
from grid.datasets.freebase.records import Question
from grid.seeds import derive_seed
from grid.worlds.sparql.expressions import And, Arg, Count, Expression, Join, TimeConstraint, Value

Policy: TypeAlias = Callable[[Question, Sequence[str]], str]
"""Chooses one of the relations that a set has in a direction, sorted as they are shown."""
_WORD = re.compile(r"[a-z]+")


class Attacks:
    """The policies over the facts of one shard."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._counts: Counter[str] = Counter()
        self._from: dict[str, set[str]] = {}
        self._to: dict[Node, set[str]] = {}
        for subject, relation, node in facts:
            self._counts[relation] += 1
            self._from.setdefault(subject, set()).add(relation)
            self._to.setdefault(node, set()).add(relation)

    @property
    def policies(self) -> Mapping[str, Policy]:
        """By name."""
        return {
            "first": lambda question, offered: offered[0],
            "any": lambda question, offered: random.Random(derive_seed(0, question.id, *offered)).choice(offered),
            "rarest": lambda question, offered: min(offered, key=lambda name: (self._counts[name], name)),
            "most frequent": lambda question, offered: max(offered, key=lambda name: (self._counts[name], name)),
            "most words of the question": overlap,
        }

    def guesses(self, question: Question, policy: Policy) -> bool:
        """Whether the plan gives the answers when a policy chooses every relation that find_relation follows."""
        expression = self._chosen(question.expression, question, policy)
        wanted = {answer.value for answer in question.answers}
        if expression is None:
            return False
        found = denoted(self._facts, expression)
        return {node.text if isinstance(node, Value) else node for node in found} == wanted

    def offered(self, nodes: Collection[Node], reverse: bool) -> list[str]:
        """The relations that lead to, or in reverse from, any of the nodes."""
        ways = self._from if reverse else self._to
        return sorted({relation for node in nodes for relation in ways.get(node, ())})  # type: ignore[call-overload]

    def steps(self, expression: Expression) -> list[list[str]]:
        """What is offered at each find_relation of a plan that is followed."""
        found: list[list[str]] = []
        for part in _joins(expression):
            found.append(self.offered(self._targets(part), part.reverse))
        return found

    def _targets(self, join: Join) -> Collection[Node]:
        if isinstance(join.target, Value):
            return {join.target}
        return denoted(self._facts, join.target)

    def _chosen(self, expression: Expression, question: Question, policy: Policy) -> Expression | None:
        match expression:
            case Join(_, target, reverse):
                inner = self._chosen(target, question, policy)
                if inner is None:
                    return None
                offered = self.offered(self._targets(Join("", inner)), reverse)
                return Join(policy(question, offered), inner, reverse) if offered else None
            case And(left, right):
                sides = [self._chosen(side, question, policy) for side in (left, right)]
                return None if sides[0] is None or sides[1] is None else And(sides[0], sides[1])
            case Arg(operand=operand) | TimeConstraint(operand=operand) | Count(operand=operand):
                inner = self._chosen(operand, question, policy)
                return None if inner is None else replace(expression, operand=inner)
            case _:
                return expression


def overlap(question: Question, offered: Sequence[str]) -> str:
    """The relation with the largest share of its words in the question, of equals the first."""
    asked = set(_WORD.findall(question.text.lower()))

    def score(name: str) -> float:
        words = _WORD.findall(name.replace("_", " "))
        return sum(any(word.startswith(other) or other.startswith(word) for other in asked) for word in words) / len(
            words
        )

    return max(offered, key=score)


def _joins(expression: Expression) -> list[Join]:
    from grid.worlds.sparql.expressions import walk

    return [part for part in walk(expression) if isinstance(part, Join)]
