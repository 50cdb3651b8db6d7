"""Facts that meet a part of a question but not all of it, so that no step of its plan can be left out."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from grid.core.util import derive_seed
from grid.datasets.freebase.denotation import bounds_of, compares, denoted
from grid.datasets.freebase.facts import Node
from grid.datasets.freebase.planting import UnplantableError
from grid.datasets.freebase.records import Question
from grid.datasets.freebase.shards import Shard
from grid.worlds.sparql.queries import (
    TYPE,
    And,
    Arg,
    Class,
    Compare,
    Comparison,
    Expression,
    Join,
    TimeConstraint,
    Value,
    children,
)

_MOST = 3
"""Decoys of one kind for one step."""
_TRIES = 4
_INVENTED = 0.4
"""The share of decoys that are new things, where others would do as well."""
_OPPOSITE: dict[Comparison, Comparison] = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt"}


def add_decoys(shard: Shard, fresh: Callable[[], str], seed: int) -> None:
    """One to three decoys for each step of each question that takes a part of a set, where there can be any."""
    for question in shard.questions:
        rng = random.Random(derive_seed(seed, "decoys", question.form))
        maker = _Decoys(shard, fresh, question, rng)
        for part, parent in _parts(question.expression, None):
            maker.beside(part, parent)


def _parts(expression: Expression, parent: Expression | None) -> Iterator[tuple[Expression, Expression | None]]:
    yield expression, parent
    for child in children(expression):
        yield from _parts(child, expression)


class _Decoys:
    def __init__(self, shard: Shard, fresh: Callable[[], str], question: Question, rng: random.Random) -> None:
        self._shard, self._fresh, self._rng = shard, fresh, rng
        self._avoided = {*question.entities, *(answer.value for answer in question.answers)}

    def beside(self, part: Expression, parent: Expression | None) -> None:
        """Decoys for one step, and what leads on from them where the next step follows a relation."""
        match part:
            case And(left, right):
                for met, missed in ((left, right), (right, left)):
                    self._several(met, partial(self._half, part, met, missed), parent)
            case Arg(mode, operand, relation):
                sign: Comparison = "lt" if mode == "ARGMAX" else "gt"
                self._several(operand, partial(self._worse, part, operand, relation, sign), parent)
            case TimeConstraint(operand):
                self._several(operand, partial(self._untimely, part), parent)

    def _several(self, met: Expression, plant: Callable[[str], None], parent: Expression | None) -> None:
        heads = self._heads(met)
        if isinstance(met, (Class, Compare)) or heads is None:
            return  # a class has many other members anyway
        for _ in range(self._rng.randint(1, _MOST)):
            for _ in range(_TRIES):
                node = self._candidate(heads)
                if self._shard.try_out(partial(self._both, plant, node, parent)):
                    break

    def _both(self, plant: Callable[[str], None], node: str, parent: Expression | None) -> None:
        plant(node)
        if isinstance(parent, Join):
            roles = self._shard.planter.ontology.roles[parent.relation]
            onward = self._candidate(roles[1 if parent.reverse else 0])
            first, last = (node, onward) if parent.reverse else (onward, node)
            self._shard.planter.link(first, parent.relation, last)

    def _half(self, both: And, met: Expression, missed: Expression, node: str) -> None:
        planter = self._shard.planter
        planter.plant(met, [node])
        if isinstance(missed, Compare):
            failing = _OPPOSITE[missed.operator]
            drawn = planter.literals.such(missed.relation, failing, missed.value, self._rng)
            planter.value(node, missed.relation, lambda found: compares(found, failing, missed.value), drawn)
        if node in denoted(self._shard.facts, both):
            raise UnplantableError("it meets both parts")

    def _worse(self, arg: Arg, operand: Expression, relation: str, sign: Comparison, node: str) -> None:
        planter = self._shard.planter
        best = next((v for v in self._values(arg, relation)), None)
        if best is None:
            raise UnplantableError("nothing has a value")
        planter.plant(operand, [node])
        drawn = planter.literals.such(relation, sign, best, self._rng)
        planter.value(node, relation, lambda found: compares(found, sign, best), drawn)

    def _values(self, arg: Arg, relation: str) -> list[Value]:
        found = sorted(node for node in denoted(self._shard.facts, arg) if isinstance(node, str))
        values = [value for node in found for value in self._shard.facts.objects(node, relation)]
        return [value for value in values if isinstance(value, Value)]

    def _untimely(self, constraint: TimeConstraint, node: str) -> None:
        """It begins too late or, where the schema has an end, is over before."""
        planter = self._shard.planter
        planter.plant(constraint.operand, [node])
        since, *until = [name for name in bounds_of(constraint.relation) if name in planter.ontology.roles]
        years = self._rng.randint(2, 12)
        if until and self._rng.random() < 0.5:
            planter.bound(node, until[0], constraint.time, "le", -years)
        else:
            planter.bound(node, since, constraint.time, "ge", years)
        if node in denoted(self._shard.facts, constraint):
            raise UnplantableError("it holds at the time")

    def _heads(self, expression: Expression) -> str | None:
        """The class that members of a set are of for certain; None of none."""
        match expression:
            case Class(identity):
                return identity
            case Join(relation, _, reverse):
                roles = self._shard.planter.ontology.roles.get(relation)
                return None if roles is None else roles[1 if reverse else 0]
            case And(left, right):
                own = [head for head in map(self._heads, (right, left)) if head]
                return own[0] if own else None
            case Arg(_, operand) | TimeConstraint(operand):
                return self._heads(operand)
            case Compare(_, relation):
                return self._shard.planter.ontology.roles.get(relation, (None, None))[0]
            case _:
                return None

    def _candidate(self, head: str) -> str:
        """Something of a class that the question does not speak of, or something new."""
        members: Sequence[Node] = list(self._shard.facts.subjects(TYPE, head))
        if members and self._rng.random() >= _INVENTED:
            for _ in range(_TRIES):
                found = self._rng.choice(members)
                if isinstance(found, str) and found not in self._avoided:
                    return found
        return self._fresh()
