"""S-expressions, and their conversion to SPARQL 1.1 (planning_horizon §B.1.2; as in GrailQA and KBQA-o1)."""

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

# Errors raised if a query over a graph, or a call of the graph's tools, has no result.


class SparqlError(CallError):
    """A query or a call cannot have a result; the message gives the reason in one sentence."""


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
"""The character that replaces entities, literals and times in a template."""
_TIME = re.compile(rf"[0-9]{{4}}|{NOW}")
_TOKEN = re.compile(r'\s*(?:([()])|("(?:[^"\\]|\\.)*"(?:\^\^[^\s()]+)?|[^\s()"][^\s()]*))')

Comparison: TypeAlias = One["lt", "le", "gt", "ge"]
Extreme: TypeAlias = One["ARGMAX", "ARGMIN"]
SIGNS: dict[Comparison, str] = {"lt": "<", "le": "<=", "gt": ">", "ge": ">="}


class ExpressionError(SparqlError):
    """A text is not an S-expression; the message gives the place and the reason in one sentence."""


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
    """A literal, with its text and its datatype (a full IRI)."""

    text: str
    datatype: str = f"{XSD}string"


@dataclass(frozen=True)
class Join:
    """All nodes from which a relation leads to one of the targets.

    If `reverse` is set, all nodes to which the relation leads from one of the targets.
    """

    relation: str
    target: Expression
    reverse: bool = False


@dataclass(frozen=True)
class And:
    """The members that two sets have in common."""

    left: Expression
    right: Expression


@dataclass(frozen=True)
class Arg:
    """The member of a set with the largest or smallest value of a property; several members if there is a tie."""

    mode: Extreme
    operand: Expression
    relation: str


@dataclass(frozen=True)
class Compare:
    """The entities with a value of a property for which `value operator literal` is true."""

    operator: Comparison
    relation: str
    value: Value


@dataclass(frozen=True)
class TimeConstraint:
    """The members of a set that are valid at a time, which is a year or NOW.

    `relation` leads to the start of validity; a second relation (see `ending`) leads to the end.
    """

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
    """The expressions of which an expression directly consists, in order."""
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
    """An expression and all expressions within it. Each expression comes after the expressions of which it consists."""
    for child in children(expression):
        yield from walk(child)
    yield expression


def read(text: object) -> Expression:
    """An S-expression from a text of unknown origin; raises ExpressionError."""
    if not isinstance(text, str) or len(text) > MAX_CHARACTERS:
        raise ExpressionError(f"an S-expression must be a text of at most {MAX_CHARACTERS:,} characters")
    return _expression(_tree(text))


def written(expression: Expression, masked: bool = False) -> str:
    """The S-expression as a text in GrailQA's form. If `masked`, `*` replaces every entity, literal and time."""
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
    """The entity, class or literal that a token denotes; raises ExpressionError if the token denotes none of these."""
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
    raise ExpressionError(f"{text!r:.80} is not an entity, class or literal")


def _tree(text: str) -> Tree:
    """The text as nested lists, one for each pair of brackets.

    The function does not recurse, since texts may be deeply nested.
    """
    open_lists: list[list[Tree]] = [[]]
    place = 0
    text = text.rstrip()
    while place < len(text):
        found = _TOKEN.match(text, place)
        if found is None:
            raise ExpressionError(f"the text cannot be read from character {place + 1:,} on")
        place = found.end()
        if found[1] == "(":
            if len(open_lists) > MAX_DEPTH:
                raise ExpressionError(f"brackets are nested more than {MAX_DEPTH} levels deep")
            open_lists.append([])
        elif found[1] == ")":
            if len(open_lists) == 1:
                raise ExpressionError(f"the bracket that closes at character {place:,} was never opened")
            closed = open_lists.pop()
            open_lists[-1].append(closed)
        else:
            open_lists[-1].append(found[2])
    if len(open_lists) > 1 or len(open_lists[0]) != 1:
        raise ExpressionError("the text is not one expression with all brackets closed")
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
    raise ExpressionError(f"{head!r:.80} with {len(rest)} parts is not a function of S-expressions")


def _name(tree: Tree) -> str:
    """The name of a relation.

    Raises ExpressionError for anything else, including a path of relations, which no tool accepts.
    """
    if isinstance(tree, list):
        raise ExpressionError("a path of relations is given, but a single relation is expected")
    if not NAME.fullmatch(tree):
        raise ExpressionError(f"{tree!r:.80} is not a relation")
    return tree


def _literal(value: Value) -> str:
    if value.datatype == f"{XSD}string":
        escaped = re.sub(r'(["\\])', r"\\\1", value.text)
        return f'"{escaped}"'
    return f"{value.text}^^{value.datatype}"


NS = "http://rdf.freebase.com/ns/"
TYPE = "type.object.type"
TODAY = "2015-08-10"
"""The date used for NOW, which is the date of Freebase's last dump (KBQA-o1)."""
Dialect = Literal["sparql", "virtuoso"]
"""The form of a query. With `virtuoso`, dates have the offset -08:00, as in Freebase's dump in Virtuoso."""
OFFSET = "-08:00"
_PLAIN = ("integer", "float", "double", "decimal", "dateTime", "string", "boolean")
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"})
Solved = Mapping[Expression, str | None]
"""Results known before the query, in SPARQL's notation.

These results are the best value of an ARGMAX or ARGMIN (None if there is no value), and the number of a COUNT.
"""


def query(expression: Expression, dialect: Dialect = "sparql") -> str:
    """The SELECT that finds the distinct nodes that an expression denotes, as `?x`. A COUNT gives a number.

    As in the published conversion, the answer contains neither the entities that the expression names nor the nodes on
    the path to the answer. A text in the answer has no language or is English. ARGMAX and ARGMIN return all members
    that tie. Inside a larger expression, ARGMAX, ARGMIN and COUNT become sub-queries.
    """
    patterns = _Patterns(dialect, count(1), {})
    if isinstance(expression, Count):
        return f"SELECT {patterns.counted(expression, '?x')}"
    return f"SELECT DISTINCT ?x WHERE {{ {patterns.whole(expression, '?x')} }}"


def members(expression: Expression, solved: Solved) -> str:
    """Like `query`, but a node is repeated for each path that leads to it, so rows come as soon as they are found."""
    return f"SELECT ?x WHERE {{ {_Patterns('sparql', count(1), solved).whole(expression, '?x')} }}"


def ordered_by(arg: Arg, solved: Solved) -> str:
    """The SELECT that finds, as `?x`, the values by which an ARGMAX or ARGMIN orders its members.

    The values may be repeated. The caller then puts the best value into `solved`.
    """
    return f"SELECT ?x WHERE {{ {_Patterns('sparql', count(1), solved).ordered(arg, '?x')} }}"


def iri(name: str) -> str:
    """The IRI of an entity, a class or a relation in SPARQL's form.

    Characters that do not occur in Freebase names are escaped.
    """
    return f"<{NS}{quote(name, safe='', errors='replace')}>"


def literal(value: Value, dialect: Dialect = "sparql") -> str:
    """A literal in SPARQL's notation, escaped."""
    kind = value.datatype.rpartition("#")[2]
    offset = OFFSET if dialect == "virtuoso" and kind not in _PLAIN else ""
    datatype = re.sub(r"[^\w:/.#\-]", "", value.datatype)  # removes characters that would end an IRI
    return f'"{value.text.translate(_ESCAPES)}{offset}"^^<{datatype}>'


class _Patterns:
    """Builds graph patterns, each with new variables. `passed` has the variables on the path to the answer."""

    def __init__(self, dialect: Dialect, numbers: count[int], solved: Solved) -> None:
        self._dialect: Dialect = dialect
        self._numbers = numbers
        self._solved = solved
        self.passed: list[str] = []

    def whole(self, expression: Expression, variable: str) -> str:
        """The pattern for a variable, with filters that exclude named entities and the values of variables on the path.

        If the expression may denote literals, a further filter excludes texts in languages other than English. If the
        expression is only an entity, there are no filters.
        """
        own = _Patterns(self._dialect, self._numbers, self._solved)
        found = own.of(expression, variable)
        if isinstance(expression, Entity):
            return found
        named = dict.fromkeys(iri(part.id) for part in walk(expression) if isinstance(part, Entity))
        tests = [f"{variable} != {other}" for other in named]
        same = "{} != {}" if self._dialect == "virtuoso" else "!sameTerm({}, {})"  # != fails for unknown datatypes
        tests += [same.format(variable, other) for other in own.passed]
        if _has_literals(expression):
            tests.append(f'!isLiteral({variable}) || LANG({variable}) = "" || LANGMATCHES(LANG({variable}), "en")')
        return " ".join([found, *(f"FILTER({test})" for test in tests)])

    def counted(self, expression: Count, variable: str) -> str:
        """The part of a SELECT after its first word, for a query that counts the members of a set."""
        own = self._new()
        return f"(COUNT(DISTINCT {own}) AS {variable}) WHERE {{ {self.whole(expression.operand, own)} }}"

    def of(self, expression: Expression, variable: str) -> str:
        """The pattern that binds a variable to the nodes that the expression denotes."""
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
                first, second = sorted((left, right), key=_breadth)  # stores evaluate them in this order
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
        if isinstance(target, Value):  # compared by value: 365 equals 365.0
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
        """The pattern that binds a variable to the values by which members are ordered."""
        member = self._new()
        return f"{self.whole(arg.operand, member)} {member} {iri(arg.relation)} {value} ."

    def _extreme(self, arg: Arg, variable: str) -> str:
        """The pattern of an ARGMAX or ARGMIN.

        The pattern has the operand twice: once to find the best value, and once to find all members with this value.
        """
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
        """The pattern for validity: the start is not after the given time, and the end is not before it.

        A missing start or end excludes nothing.
        """
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
    """For a relation that leads to the start of validity, the relation that leads to its end; None if there is none."""
    for since, until in (("from", "to"), ("from_date", "to_date")):
        if relation.endswith(since):
            return f"{relation.removesuffix(since)}{until}"
    return None


def _breadth(expression: Expression) -> int:
    """A rough rank for the number of nodes that an expression denotes.

    The rank is 1 for an entity, 2 for a class, 3 for all nodes with a certain value.
    """
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
    """Whether an expression may denote literals that are in the graph."""
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
    """The test that compares a date with TODAY.

    An end given only as a year or month counts as the last day of that year or month.
    """
    day = f'SUBSTR(REPLACE(STR({variable}), "(Z|[+-][0-9][0-9]:[0-9][0-9])$", ""), 1, 10)'
    last = f'SUBSTR(CONCAT({day}, IF(STRLEN({day}) = 4, "-12-31", "-31")), 1, 10)'
    return f'{last if sign == ">=" else day} {sign} "{TODAY}"'
