"""From a call to the expressions that it may stand for (planning_horizon §B.1.2: the hidden function list)."""

from __future__ import annotations

import re
from collections.abc import Mapping

from grid.worlds.handles import shown
from grid.worlds.sparql import tools
from grid.worlds.sparql.errors import SparqlError
from grid.worlds.sparql.expressions import (
    NAME,
    NOW,
    SIGNS,
    And,
    Arg,
    Compare,
    Comparison,
    Count,
    Expression,
    Extreme,
    Join,
    TimeConstraint,
    Value,
)
from grid.worlds.sparql.literals import number
from grid.worlds.sparql.results import Result

_TIME = re.compile(rf"[0-9]{{4}}|{NOW}")
_OPERATORS: Mapping[str, Comparison] = {sign: operator for operator, sign in SIGNS.items()}
_EXTREMES: Mapping[str, Extreme] = {"ARGMAX": "ARGMAX", "ARGMIN": "ARGMIN"}


def expressions(tool: str, words: Mapping[str, str], given: Mapping[str, Result]) -> list[Expression]:
    """What a call of any tool but extract_entity stands for; the second where the first denotes nothing.

    There are two where four digits may be a year or a number. Raises SparqlError.
    """
    for name in RELATIONS:
        if name in words and not NAME.fullmatch(words[name]):
            raise SparqlError(f"{name}: {shown(words[name])} is no relation's identifier")
    for parameter in tools.TOOLS[tool].parameters:
        if parameter.values and words[parameter.name] not in parameter.values:
            allowed = ", ".join(parameter.values)
            raise SparqlError(f"{parameter.name}: {shown(words[parameter.name])} is none of {allowed}")
    operands = [result.expression for result in given.values()]
    match tool:
        case tools.FIND:
            backward = words["direction"] == tools.BACKWARD
            return [Join(words["relation"], target, backward) for target in _readings(operands[0])]
        case tools.MERGE:
            return [And(*operands)]
        case tools.ORDER:
            return [Arg(_EXTREMES[words["mode"]], operands[0], words["property_relation"])]
        case tools.COMPARE:
            value = given["literal_ref"].literal
            if value is None:
                raise SparqlError("literal_ref: that step's result is not one literal")
            operator = _OPERATORS[words["operator"]]
            return [Compare(operator, words["property_relation"], found) for found in _values(value)]
        case tools.TIME:
            time = words["temporal_literal"]
            if not _TIME.fullmatch(time):
                raise SparqlError(f"temporal_literal: {shown(time)} is neither a year of four digits nor {NOW}")
            return [TimeConstraint(operands[0], words["temporal_relation"], time)]
        case tools.COUNT:
            return [Count(operands[0])]
    raise SparqlError(f"there is no tool {shown(tool)}")


RELATIONS = ("relation", "property_relation", "temporal_relation")
"""The parameters that take a relation's identifier."""
_NOTHING = {
    tools.EXTRACT: "there is no entity or class {input_value}",
    tools.FIND: "nothing is connected with the target by {relation} ({direction})",
    tools.MERGE: "the two sets have nothing in common",
    tools.ORDER: "no member of the set has a value of {property_relation}",
    tools.COMPARE: "no entity has a value of {property_relation} that is {operator} the literal",
    tools.TIME: "no member of the set holds at {temporal_literal} by {temporal_relation}",
}


def nothing(tool: str, words: Mapping[str, str]) -> str:
    """What an empty result means."""
    return _NOTHING[tool].format_map({name: shown(text) for name, text in words.items()})


def _readings(target: Expression) -> list[Expression]:
    return list(_values(target)) if isinstance(target, Value) else [target]


def _values(value: Value) -> list[Value]:
    """A literal, and the number that four digits are too."""
    return list(dict.fromkeys([value, number(value)]))
