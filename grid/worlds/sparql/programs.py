"""S-expressions as chains of tool calls (planning_horizon §B.1.2, 'Plan DAG Annotation')."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from grid.core.types import RESULT, Json, ToolCall
from grid.text.references import reference
from grid.worlds.sparql import tools
from grid.worlds.sparql.expressions import (
    SIGNS,
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
)
from grid.worlds.sparql.literals import spoken

FINISHING = 1
"""The published function lists end in STOP, which is counted among a plan's nodes."""


def calls(expression: Expression, name: Callable[[str], str]) -> dict[str, ToolCall]:
    """The calls by step number, each behind those it takes results of; nothing is merged, as published.

    `name` gives the text by which an entity of this id is asked for.
    """
    found: dict[str, ToolCall] = {}
    numbers = count()

    def step(tool: str, **arguments: Json) -> str:
        number = str(next(numbers))
        found[number] = ToolCall(tool, arguments)
        return reference(number, RESULT)

    def result(part: Expression) -> str:
        match part:
            case Entity(identity):
                return step(tools.EXTRACT, input_value=name(identity))
            case Class(identity):
                return step(tools.EXTRACT, input_value=identity)
            case Value():
                return step(tools.EXTRACT, input_value=spoken(part))
            case Join(relation, target, reverse):
                target_ref = result(target)
                direction = tools.BACKWARD if reverse else tools.FORWARD
                return step(tools.FIND, relation=relation, direction=direction, target_ref=target_ref)
            case And(left, right):
                first, second = result(left), result(right)
                return step(tools.MERGE, input_ref1=first, input_ref2=second)
            case Arg(mode, operand, relation):
                of = result(operand)
                return step(tools.ORDER, mode=mode, input_ref=of, property_relation=relation)
            case Compare(operator, relation, value):
                literal = result(value)
                return step(tools.COMPARE, operator=SIGNS[operator], property_relation=relation, literal_ref=literal)
            case TimeConstraint(operand, relation, time):
                of = result(operand)
                return step(tools.TIME, input_ref=of, temporal_relation=relation, temporal_literal=time)
            case Count(operand):
                return step(tools.COUNT, input_ref=result(operand))

    result(expression)
    return found
