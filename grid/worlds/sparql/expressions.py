"""S-expressions: what a question over Freebase asks for, as a tree (planning_horizon §B.1.2, table 8; GrailQA)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Literal as One
from typing import TypeAlias, get_args

from grid.worlds.sparql.errors import SparqlError

MAX_CHARACTERS = 20_000
MAX_DEPTH = 64
XSD = "http://www.w3.org/2001/XMLSchema#"
ENTITY = re.compile(r"[mg]\.[0-9a-z_]{1,64}")
"""A Freebase identifier: `m.02mjmr`."""
NAME = re.compile(r"[a-z][a-z0-9_]{0,99}(\.[A-Za-z0-9_\-]{1,100}){1,6}")
"""A class or a relation of the schema: `film.film`, `film.film.genre`."""
NOW = "NOW"
MASK = "*"
"""What stands for an entity, a literal or a time in a template."""
_TIME = re.compile(rf"[0-9]{{4}}|{NOW}")
_TOKEN = re.compile(r'\s*(?:([()])|("(?:[^"\\]|\\.)*"(?:\^\^[^\s()]+)?|[^\s()"][^\s()]*))')

Comparison: TypeAlias = One["lt", "le", "gt", "ge"]
Extreme: TypeAlias = One["ARGMAX", "ARGMIN"]
SIGNS: dict[Comparison, str] = {"lt": "<", "le": "<=", "gt": ">", "ge": ">="}


class ExpressionError(SparqlError):
    """An S-expression that cannot be one; the message says where and why in one sentence."""


@dataclass(frozen=True)
class Entity:
    """One entity."""

    id: str


@dataclass(frozen=True)
class Class:
    """All entities of a class."""

    id: str


@dataclass(frozen=True)
class Value:
    """A literal: its text and its datatype, a full IRI."""

    text: str
    datatype: str = f"{XSD}string"


@dataclass(frozen=True)
class Join:
    """What leads to one of the targets by a relation; `reverse`: what one of the targets leads to."""

    relation: str
    target: Expression
    reverse: bool = False


@dataclass(frozen=True)
class And:
    """What is in both sets."""

    left: Expression
    right: Expression


@dataclass(frozen=True)
class Arg:
    """The members of a set whose value of a property is the greatest or the least; several where they tie."""

    mode: Extreme
    operand: Expression
    relation: str


@dataclass(frozen=True)
class Compare:
    """The entities whose value of a property compares so with a literal."""

    operator: Comparison
    relation: str
    value: Value


@dataclass(frozen=True)
class TimeConstraint:
    """The members of a set that hold in a year, or NOW, by a relation that says since when and its twin until when."""

    operand: Expression
    relation: str
    time: str


@dataclass(frozen=True)
class Count:
    """How many members a set has."""

    operand: Expression


Expression: TypeAlias = Entity | Class | Value | Join | And | Arg | Compare | TimeConstraint | Count
Tree: TypeAlias = "str | list[Tree]"


def children(expression: Expression) -> tuple[Expression, ...]:
    """The expressions that one is made of, in their order."""
    match expression:
        case Join(target=target):
            return (target,)
        case And(left, right):
            return left, right
        case Arg(operand=operand) | TimeConstraint(operand=operand) | Count(operand):
            return (operand,)
        case Compare(value=value):
            return (value,)
    return ()


def walk(expression: Expression) -> Iterator[Expression]:
    """An expression and all within it, each after what it is made of."""
    for child in children(expression):
        yield from walk(child)
    yield expression


def read(text: object) -> Expression:
    """An S-expression from a text that nobody vouches for; raises ExpressionError."""
    if not isinstance(text, str) or len(text) > MAX_CHARACTERS:
        raise ExpressionError(f"an S-expression is a text of at most {MAX_CHARACTERS:,} characters")
    return _expression(_tree(text))


def written(expression: Expression, masked: bool = False) -> str:
    """The S-expression as a text, as GrailQA writes it; `masked`: with `*` for every entity, literal and time."""
    inner = partial(written, masked=masked)
    match expression:
        case Entity() | Value() if masked:
            return MASK
        case Entity(identity) | Class(identity):
            return identity
        case Value():
            return _literal(expression)
        case Join(relation, target, reverse):
            return f"(JOIN {f'(R {relation})' if reverse else relation} {inner(target)})"
        case And(left, right):
            return f"(AND {inner(left)} {inner(right)})"
        case Arg(mode, operand, relation):
            return f"({mode} {inner(operand)} {relation})"
        case Compare(operator, relation, value):
            return f"({operator} {relation} {inner(value)})"
        case TimeConstraint(operand, relation, time):
            return f"(TC {inner(operand)} {relation} {MASK if masked else time})"
        case Count(operand):
            return f"(COUNT {inner(operand)})"


def atom(text: str) -> Entity | Class | Value:
    """What a word stands for: an entity, a class or a literal; raises ExpressionError for none of these."""
    if ENTITY.fullmatch(text):
        return Entity(text)
    if text.startswith('"'):
        body, _, datatype = text.rpartition('"')
        return Value(re.sub(r"\\(.)", r"\1", body[1:]), datatype.removeprefix("^^") or f"{XSD}string")
    if "^^" in text:
        body, _, datatype = text.partition("^^")
        return Value(body, datatype)
    if NAME.fullmatch(text):
        return Class(text)
    raise ExpressionError(f"{text!r:.80} is no entity, class or literal")


def _tree(text: str) -> Tree:
    """The brackets as lists, without recursion: a text may nest as deep as it is long."""
    open_lists: list[list[Tree]] = [[]]
    place = 0
    text = text.rstrip()
    while place < len(text):
        found = _TOKEN.match(text, place)
        if found is None:
            raise ExpressionError(f"it cannot be read from character {place + 1:,} on")
        place = found.end()
        if found[1] == "(":
            if len(open_lists) > MAX_DEPTH:
                raise ExpressionError(f"it nests more than {MAX_DEPTH} deep")
            open_lists.append([])
        elif found[1] == ")":
            if len(open_lists) == 1:
                raise ExpressionError(f"a bracket closes at character {place:,} that was never opened")
            closed = open_lists.pop()
            open_lists[-1].append(closed)
        else:
            open_lists[-1].append(found[2])
    if len(open_lists) > 1 or len(open_lists[0]) != 1:
        raise ExpressionError("it is not one expression with all its brackets closed")
    return open_lists[0][0]


def _expression(tree: Tree) -> Expression:
    if isinstance(tree, str):
        return atom(tree)
    head, *rest = tree or [""]
    match head, rest:
        case "JOIN", [relation, target]:
            reverse = isinstance(relation, list) and relation[:1] == ["R"] and len(relation) == 2
            name = relation[1] if reverse else relation
            return Join(_name(name), _expression(target), reverse)
        case "AND", [left, right]:
            return And(_expression(left), _expression(right))
        case ("ARGMAX" | "ARGMIN") as mode, [operand, relation]:
            return Arg(mode, _expression(operand), _name(relation))
        case "COUNT", [operand]:
            return Count(_expression(operand))
        case "TC", [operand, relation, str(time)] if _TIME.fullmatch(time):
            return TimeConstraint(_expression(operand), _name(relation), time)
        case str(operator), [relation, str(literal)] if operator in get_args(Comparison):
            value = atom(literal)
            if isinstance(value, Value):
                return Compare(operator, _name(relation), value)  # type: ignore[arg-type]
    raise ExpressionError(f"{head!r:.80} with {len(rest)} parts is no function of S-expressions")


def _name(tree: Tree) -> str:
    """A relation; raises ExpressionError, also for a path of several, which no tool takes."""
    if isinstance(tree, list):
        raise ExpressionError("a relation stands where a path of relations is given")
    if not NAME.fullmatch(tree):
        raise ExpressionError(f"{tree!r:.80} is no relation")
    return tree


def _literal(value: Value) -> str:
    if value.datatype == f"{XSD}string":
        escaped = re.sub(r'(["\\])', r"\\\1", value.text)
        return f'"{escaped}"'
    return f"{value.text}^^{value.datatype}"
