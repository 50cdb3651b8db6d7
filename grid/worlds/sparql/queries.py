"""S-expressions as SPARQL 1.1 (planning_horizon §B.1.2; the conversion of GrailQA and KBQA-o1)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Literal, TypeAlias, get_args
from typing import Literal as One
from urllib.parse import quote

from grid.worlds.handles import CallError

# Reasons why a query over a graph, or a call of its tools, has no result.


class SparqlError(CallError):
    """A query or a call that cannot have a result; the message says why in one sentence."""


# S-expressions: a question over Freebase as a tree (planning_horizon §B.1.2, table 8; GrailQA).


MAX_CHARACTERS = 20_000
MAX_DEPTH = 64
XSD = "http://www.w3.org/2001/XMLSchema#"
ENTITY = re.compile(r"[mg]\.[0-9a-z_]{1,64}")
"""A Freebase identifier: `m.02mjmr`."""
NAME = re.compile(r"[a-z][a-z0-9_]{0,99}(\.[A-Za-z0-9_\-]{1,100}){1,6}")
"""A class or a relation of the schema: `film.film`, `film.film.genre`."""
NOW = "NOW"
MASK = "*"
"""The sign for an entity, a literal or a time in a template."""
_TIME = re.compile(rf"[0-9]{{4}}|{NOW}")
_TOKEN = re.compile(r'\s*(?:([()])|("(?:[^"\\]|\\.)*"(?:\^\^[^\s()]+)?|[^\s()"][^\s()]*))')

Comparison: TypeAlias = One["lt", "le", "gt", "ge"]
Extreme: TypeAlias = One["ARGMAX", "ARGMIN"]
SIGNS: dict[Comparison, str] = {"lt": "<", "le": "<=", "gt": ">", "ge": ">="}


class ExpressionError(SparqlError):
    """A text that is no S-expression; the message says where and why in one sentence."""


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
    """All things that lead to one of the targets by a relation; `reverse`: all things to which a target leads."""

    relation: str
    target: Expression
    reverse: bool = False


@dataclass(frozen=True)
class And:
    """The members of both sets."""

    left: Expression
    right: Expression


@dataclass(frozen=True)
class Arg:
    """The members of a set whose value of a property is the greatest or the least; several if they tie."""

    mode: Extreme
    operand: Expression
    relation: str


@dataclass(frozen=True)
class Compare:
    """The entities whose value of a property compares with a literal as the operator says."""

    operator: Comparison
    relation: str
    value: Value


@dataclass(frozen=True)
class TimeConstraint:
    """The members of a set that hold in a year, or NOW: `relation` says since when, and its twin until when."""

    operand: Expression
    relation: str
    time: str


@dataclass(frozen=True)
class Count:
    """The number of a set's members."""

    operand: Expression


Expression: TypeAlias = Entity | Class | Value | Join | And | Arg | Compare | TimeConstraint | Count
Tree: TypeAlias = "str | list[Tree]"


def children(expression: Expression) -> tuple[Expression, ...]:
    """The expressions that an expression is made of, in their order."""
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
    """An expression and all expressions within it, each after those that it is made of."""
    for child in children(expression):
        yield from walk(child)
    yield expression


def read(text: object) -> Expression:
    """An S-expression from a text of unknown origin; raises ExpressionError."""
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
    """An entity, a class or a literal from a word; raises ExpressionError if it is none of these."""
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
    """The brackets as lists, made without recursion, since a text may nest as deep as it is long."""
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
    """A relation; raises ExpressionError, also for a path of several relations, which no tool accepts."""
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


NS = "http://rdf.freebase.com/ns/"
TYPE = "type.object.type"
TODAY = "2015-08-10"
"""The date that NOW means in Freebase's last dump (KBQA-o1)."""
Dialect = Literal["sparql", "virtuoso"]
"""`virtuoso`: dates as in Freebase's dump there, with the offset -08:00."""
OFFSET = "-08:00"
_PLAIN = ("integer", "float", "double", "decimal", "dateTime", "string", "boolean")
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"})
Solved = Mapping[Expression, str | None]
"""The best value of an ARGMAX or ARGMIN, and the number of a COUNT, as SPARQL writes them; None if there is none."""


def query(expression: Expression, dialect: Dialect = "sparql") -> str:
    """The SELECT whose `?x` are the things that an expression denotes, each once; for a COUNT, the number.

    As in the published conversion, an answer is no entity that the expression names, and nothing on the way to the
    answer; a text has no language or is English. ARGMAX and ARGMIN return all that tie. Inside another expression, they
    and COUNT are sub-queries of their own.
    """
    patterns = _Patterns(dialect, count(1), {})
    if isinstance(expression, Count):
        return f"SELECT {patterns.counted(expression, '?x')}"
    return f"SELECT DISTINCT ?x WHERE {{ {patterns.whole(expression, '?x')} }}"


def members(expression: Expression, solved: Solved) -> str:
    """Like `query`, but a thing comes once for each way to it, and the first time as soon as a way is found."""
    return f"SELECT ?x WHERE {{ {_Patterns('sparql', count(1), solved).whole(expression, '?x')} }}"


def ordered_by(arg: Arg, solved: Solved) -> str:
    """The SELECT whose `?x` are the values by which the members of an ARGMAX or ARGMIN are ordered, as often as found.

    It serves to find the best of them, which then goes into `solved`.
    """
    return f"SELECT ?x WHERE {{ {_Patterns('sparql', count(1), solved).ordered(arg, '?x')} }}"


def iri(name: str) -> str:
    """An entity, a class or a relation as SPARQL writes it; characters that no such name has are escaped."""
    return f"<{NS}{quote(name, safe='', errors='replace')}>"


def literal(value: Value, dialect: Dialect = "sparql") -> str:
    """A literal as SPARQL writes it, escaped."""
    kind = value.datatype.rpartition("#")[2]
    offset = OFFSET if dialect == "virtuoso" and kind not in _PLAIN else ""
    datatype = re.sub(r"[^\w:/.#\-]", "", value.datatype)  # nothing that ends an IRI
    return f'"{value.text.translate(_ESCAPES)}{offset}"^^<{datatype}>'


class _Patterns:
    """Graph patterns whose variables are each used once; `passed` are the variables on the way to the answer."""

    def __init__(self, dialect: Dialect, numbers: count[int], solved: Solved) -> None:
        self._dialect: Dialect = dialect
        self._numbers = numbers
        self._solved = solved
        self.passed: list[str] = []

    def whole(self, expression: Expression, variable: str) -> str:
        """The conditions on a variable: the pattern, and that it equals nothing that was named or passed.

        An entity by itself has the pattern alone.
        """
        own = _Patterns(self._dialect, self._numbers, self._solved)
        found = own.of(expression, variable)
        if isinstance(expression, Entity):
            return found
        named = dict.fromkeys(iri(part.id) for part in walk(expression) if isinstance(part, Entity))
        tests = [f"{variable} != {other}" for other in named]
        same = "{} != {}" if self._dialect == "virtuoso" else "!sameTerm({}, {})"  # != of unknown datatypes is an error
        tests += [same.format(variable, other) for other in own.passed]
        if _has_literals(expression):
            tests.append(f'!isLiteral({variable}) || LANG({variable}) = "" || LANGMATCHES(LANG({variable}), "en")')
        return " ".join([found, *(f"FILTER({test})" for test in tests)])

    def counted(self, expression: Count, variable: str) -> str:
        """The number of a set's members, as the rest of a SELECT."""
        own = self._new()
        return f"(COUNT(DISTINCT {own}) AS {variable}) WHERE {{ {self.whole(expression.operand, own)} }}"

    def of(self, expression: Expression, variable: str) -> str:
        """The pattern under which a variable is one of the things that the expression denotes."""
        match expression:
            case Entity(identity):
                return f"VALUES {variable} {{ {iri(identity)} }}"
            case Value():
                return f"VALUES {variable} {{ {literal(expression, self._dialect)} }}"
            case Class(identity):
                return f"{variable} {iri(TYPE)} {iri(identity)} ."
            case Join():
                return self._join(expression, variable)
            case And(left, right):
                first, second = sorted((left, right), key=_breadth)  # stores evaluate them in the written order
                return f"{self.of(first, variable)} {self.of(second, variable)}"
            case Arg():
                return self._extreme(expression, variable)
            case Compare(operator, relation, value):
                own = self._new()
                compared = f"FILTER({own} {SIGNS[operator]} {literal(value, self._dialect)})"
                return f"{variable} {iri(relation)} {own} . {compared}"
            case TimeConstraint():
                return f"{self.of(expression.operand, variable)} {self._holds(expression, variable)}"
            case Count():
                return self._number(expression, variable)

    def _join(self, join: Join, variable: str) -> str:
        target = join.target
        if isinstance(target, Entity):
            return _triple(variable, join.relation, iri(target.id), join.reverse)
        own = self._new()
        if isinstance(target, Value):  # compared by its meaning: 365 is 365.0
            same = f"FILTER({own} = {literal(target, self._dialect)})"
            return f"{_triple(variable, join.relation, own, join.reverse)} {same}"
        if isinstance(target, Count):
            number = self._new()
            found = f"{_triple(variable, join.relation, own, join.reverse)} FILTER({own} = {number})"
            return f"{self._number(target, number)} {found}"
        self.passed.append(own)
        return f"{_triple(variable, join.relation, own, join.reverse)} {self.of(target, own)}"

    def _number(self, expression: Count, variable: str) -> str:
        if expression in self._solved:
            return f"VALUES {variable} {{ {self._solved[expression]} }}"
        return f"{{ SELECT {self.counted(expression, variable)} }}"

    def ordered(self, arg: Arg, value: str) -> str:
        """The pattern under which a variable is a value by which a member is ordered."""
        member = self._new()
        return f"{self.whole(arg.operand, member)} {member} {iri(arg.relation)} {value} ."

    def _extreme(self, arg: Arg, variable: str) -> str:
        """Two copies of the operand: one finds the best value, the other all members that have it."""
        own = self._new()
        outer = f"{self.of(arg.operand, variable)} {variable} {iri(arg.relation)} {own} ."
        if arg in self._solved:
            best = self._solved[arg]
            return f"{outer} FILTER({'false' if best is None else f'{own} = {best}'})"
        value = self._new()
        order = f"DESC({value})" if arg.mode == "ARGMAX" else value
        found = f"{{ SELECT {value} WHERE {{ {self.ordered(arg, value)} }} ORDER BY {order} LIMIT 1 }}"
        return f"{found} {outer} FILTER({own} = {value})"

    def _holds(self, constraint: TimeConstraint, variable: str) -> str:
        """The start is not later than the time, and the end is not earlier; a missing bound does not exclude."""
        tests = [(constraint.relation, "<=")]
        until = ending(constraint.relation)
        if until is not None:
            tests.append((until, ">="))
        parts = []
        for relation, sign in tests:
            own = self._new()
            test = _date_test(own, sign) if constraint.time == NOW else _year_test(own, sign, int(constraint.time))
            has = f"{variable} {iri(relation)} {own} ."
            parts.append(f"FILTER(NOT EXISTS {{ {has} }} || EXISTS {{ {has} FILTER({test}) }})")
        return " ".join(parts)

    def _new(self) -> str:
        return f"?v{next(self._numbers)}"


def ending(relation: str) -> str | None:
    """The relation that says until when, for a relation that says since when; None for names without such a twin."""
    for since, until in (("from", "to"), ("from_date", "to_date")):
        if relation.endswith(since):
            return f"{relation.removesuffix(since)}{until}"
    return None


def _breadth(expression: Expression) -> int:
    """A rough rank of how many things an expression denotes: 1 for an entity, 2 for a class, 3 for all with a value."""
    match expression:
        case Class():
            return 2
        case Compare() | Join(target=Value() | Count()):
            return 3
        case Join(target=target):
            return _breadth(target)
        case Arg(operand=operand) | TimeConstraint(operand=operand):
            return _breadth(operand)
        case And(left, right):
            return min(_breadth(left), _breadth(right))
    return 1


def _has_literals(expression: Expression) -> bool:
    """Whether an expression may denote literals of a graph."""
    match expression:
        case Join(reverse=reverse):
            return reverse
        case And(left, right):
            return _has_literals(left) and _has_literals(right)
        case Arg(operand=operand) | TimeConstraint(operand=operand):
            return _has_literals(operand)
    return False


def _triple(subject: str, relation: str, target: str, reverse: bool) -> str:
    first, last = (target, subject) if reverse else (subject, target)
    return f"{first} {iri(relation)} {last} ."


def _year_test(variable: str, sign: str, year: int) -> str:
    return f'<http://www.w3.org/2001/XMLSchema#integer>(REPLACE(STR({variable}), "^(-?[0-9]+).*$", "$1")) {sign} {year}'


def _date_test(variable: str, sign: str) -> str:
    """A test on the text's first ten characters; a bare year or month that is an end counts as its last day."""
    day = f'SUBSTR(REPLACE(STR({variable}), "(Z|[+-][0-9][0-9]:[0-9][0-9])$", ""), 1, 10)'
    last = f'SUBSTR(CONCAT({day}, IF(STRLEN({day}) = 4, "-12-31", "-31")), 1, 10)'
    return f'{last if sign == ">=" else day} {sign} "{TODAY}"'
