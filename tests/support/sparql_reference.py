"""S-expressions evaluated over plain sets, without SPARQL: what the graph is held against."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

from grid.worlds.sparql.queries import (
    XSD,
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


@dataclass(frozen=True)
class Text:
    """A literal of a graph: its text, its datatype's last part, its language."""

    text: str
    kind: str = "string"
    language: str = ""

    @property
    def key(self) -> tuple[str, Any]:
        """What it is compared by: what can be compared has the same first part."""
        if self.kind in ("integer", "float", "double", "decimal"):
            return "number", Fraction(self.text)
        return f"{self.kind}{self.language}", self.text


Thing: TypeAlias = str | Text
_TWINS = {".from": ".to", ".from_date": ".to_date"}
Facts: TypeAlias = frozenset[tuple[str, str, Thing]]


def denotes(facts: Facts, expression: Expression) -> set[Thing]:
    """What an expression denotes: for each thing the tree is gone through with the thing taken out of its middle."""
    if isinstance(expression, Entity):
        return {expression.id}
    named = {part.id for part in walk(expression) if isinstance(part, Entity)}
    things: Iterable[Thing] = _of(facts, expression, None)
    return {
        thing
        for thing in things
        if thing not in named
        and not (isinstance(thing, Text) and thing.language not in ("", "en", "en-gb"))
        and thing in _of(facts, expression, thing)
    }


def _of(facts: Facts, expression: Expression, without: Thing | None) -> set[Thing]:
    match expression:
        case Entity(identity):
            return {identity}
        case Value():
            return {_text(expression)}
        case Class(identity):
            return {s for s, r, o in facts if r == "type.object.type" and o == identity}
        case Join():
            return _join(facts, expression, without)
        case And(left, right):
            return _of(facts, left, without) & _of(facts, right, without)
        case Arg(mode, operand, relation):
            members = denotes(facts, operand)
            values = [_key(o) for s, r, o in facts if r == relation and s in members]
            if not values:
                return set()
            best = max(values) if mode == "ARGMAX" else min(values)
            found = {s for s, r, o in facts if r == relation and _key(o) == best}
            return {thing for thing in _of(facts, operand, without) if thing in found}
        case Compare(operator, relation, value):
            return {s for s, r, o in facts if r == relation and _compares(o, operator, _text(value))}
        case TimeConstraint(operand, relation, time):
            return {thing for thing in _of(facts, operand, without) if _holds(facts, thing, relation, time)}
        case Count(operand):
            return {Text(str(len(denotes(facts, operand))), "integer")}


def _join(facts: Facts, join: Join, without: Thing | None) -> set[Thing]:
    found = _of(facts, join.target, without)
    if isinstance(join.target, Value | Count):
        keys = {_key(thing) for thing in found}
        return set() if join.reverse else {s for s, r, o in facts if r == join.relation and _key(o) in keys}
    if not isinstance(join.target, Entity):
        found = found - {without} if without is not None else found
    if join.reverse:
        return {o for s, r, o in facts if r == join.relation and s in found}
    return {s for s, r, o in facts if r == join.relation and o in found}


def _key(thing: Thing) -> tuple[str, Any]:
    return thing.key if isinstance(thing, Text) else ("", thing)


def _compares(thing: Thing, operator: str, value: Text) -> bool:
    (kind, one), (other_kind, other) = _key(thing), value.key
    if kind != other_kind or not kind:
        return False
    less = one < other
    found: Mapping[str, bool] = {
        "lt": less,
        "le": less or one == other,
        "gt": not less and one != other,
        "ge": not less,
    }
    return found[operator]


def _holds(facts: Facts, thing: Thing, relation: str, time: str) -> bool:
    ends = [relation[: -len(one)] + two for one, two in _TWINS.items() if relation.endswith(one)]
    since = [o for s, r, o in facts if s == thing and r == relation]
    ending = [o for s, r, o in facts if s == thing and r in ends]
    return (not since or any(_begun(o, time) for o in since)) and (not ending or any(_lasts(o, time) for o in ending))


def _begun(thing: Thing, time: str) -> bool:
    text = thing.text if isinstance(thing, Text) else thing
    return text[:10] <= "2015-08-10" if time == "NOW" else _year(text) <= int(time)


def _lasts(thing: Thing, time: str) -> bool:
    text = thing.text if isinstance(thing, Text) else thing
    if time != "NOW":
        return _year(text) >= int(time)
    return (text + {4: "-12-31", 7: "-31"}.get(len(text), ""))[:10] >= "2015-08-10"


def _year(text: str) -> int:
    found = re.match(r"-?\d+", text)
    assert found
    return int(found[0])


def _text(value: Value) -> Text:
    return Text(value.text, value.datatype.removeprefix(XSD))
