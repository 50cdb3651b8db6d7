"""The parts of a witness graph: facts, the nodes that expressions denote, literals, and Freebase's schema.

While the graph grows, facts are added and sometimes removed again. A fact can be looked up by its subject or by its
object.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cached_property
from operator import ge, gt, le, lt
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from grid.core.errors import DataError
from grid.core.types import Skipped
from grid.datasets.files import MAX_FILE_BYTES
from grid.worlds.sparql.queries import (
    NAME,
    NOW,
    TODAY,
    TYPE,
    XSD,
    And,
    Arg,
    Class,
    Compare,
    Comparison,
    Count,
    Entity,
    Expression,
    Join,
    TimeConstraint,
    Value,
    ending,
    walk,
)

Node: TypeAlias = str | Value
"""An entity's id, or a literal."""


class Fact(NamedTuple):
    """A relation from an entity to another entity or a literal or, if the relation is TYPE, to a class."""

    subject: str
    relation: str
    object: Node


class Facts:
    """A set of facts in order of addition. If a relation has an inverse, the inverse of each fact is added as well.

    `inverses` maps a relation to its inverse relation.
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
        """Add a fact and its inverse; return whether the fact is new."""
        fact = Fact(subject, relation, node)
        if fact in self:
            return False
        self._put(fact)
        back = self._inverses.get(relation)
        if back is not None and relation != TYPE and isinstance(node, str) and Fact(node, back, subject) not in self:
            self._put(Fact(node, back, subject))
        return True

    def since(self, mark: int) -> list[Fact]:
        """All facts after the first `mark` facts."""
        return self._log[mark:]

    def undo(self, mark: int) -> None:
        """Remove all facts after the first `mark` facts."""
        while len(self._log) > mark:
            subject, relation, node = self._log.pop()
            del self._from[relation][subject][node]
            del self._to[relation][node][subject]

    def objects(self, subject: str, relation: str) -> Collection[Node]:
        """The nodes to which a relation leads from an entity."""
        return self._from.get(relation, _NONE).get(subject, _NOTHING)

    def subjects(self, relation: str, node: Node) -> Collection[str]:
        """The entities from which a relation leads to a node."""
        return self._to.get(relation, _NO_WAY).get(node, _NOBODY)

    def pairs(self, relation: str) -> Iterator[tuple[str, Node]]:
        """All pairs of subject and object that a relation connects."""
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


# Searches the facts in memory for the nodes that an S-expression denotes. A SPARQL engine would find the same nodes
# (see `queries.query`), but much more slowly.
#
# The nodes are needed at every step while the graph grows. When the graph is finished, the nodes are compared with the
# SPARQL engine's results.


_NUMBERS = frozenset(f"{XSD}{name}" for name in ("integer", "float", "double", "decimal"))
_TESTS: Mapping[Comparison, Callable[[Any, Any], bool]] = {"lt": lt, "le": le, "gt": gt, "ge": ge}


class Watch:
    """For an expression that is not open (`is_open`), records the nodes for which new facts may change its result."""

    def __init__(self) -> None:
        self._subjects: dict[str, set[Node]] = {}
        self._objects: dict[str, set[Node]] = {}

    def follow(self, relation: str, targets: set[Node], reverse: bool) -> None:
        """Record that a relation's facts matter if they lead to the targets or, with `reverse`, from the targets."""
        (self._subjects if reverse else self._objects).setdefault(relation, set()).update(targets)

    def test(self, expression: Expression, nodes: set[Node]) -> None:
        """Record that the expression tests the nodes for membership of a class or for a value."""
        match expression:
            case Class(name) | Compare(_, name) | Join(name) | Arg(_, _, name):
                self.follow(name, nodes, reverse=True)
            case TimeConstraint(_, name):
                for one in bounds_of(name):
                    self.follow(one, nodes, reverse=True)

    def concerned(self, subject: Node, name: str, node: Node) -> bool:
        """Whether a fact matters. `name` is the fact's relation or, if the fact states an entity's class, the class."""
        return subject in self._subjects.get(name, ()) or node in self._objects.get(name, ())


def denoted(facts: Facts, expression: Expression, watch: Watch | None = None) -> set[Node]:
    """The nodes that an expression denotes; for a COUNT, a literal with the number. `watch` records visited nodes.

    The entities that the expression names are left out, unless the expression is only an entity.
    """
    watch = watch or Watch()
    if isinstance(expression, Count):
        return {Value(str(len(denoted(facts, expression.operand, watch))), f"{XSD}integer")}
    if isinstance(expression, Entity):
        return {expression.id}
    passed: set[Node] = set()
    found = _members(facts, expression, passed, watch)
    found = found - {part.id for part in walk(expression) if isinstance(part, Entity)}
    return {node for node in found if node not in passed or _reached(facts, expression, node, node)}


def is_open(expression: Expression) -> bool:
    """Whether new facts about any entity may change the result.

    New facts may change the result if the expression has a class or comparison that no other set limits.
    """
    match expression:
        case And(left, right):
            loose = [side for side in (left, right) if _is_loose(side)]
            return len(loose) == 2 or any(is_open(side) for side in (left, right) if side not in loose)
        case Class() | Compare() | Join(_, Value()):
            return True
        case Join(_, target):
            return is_open(target)
        case Arg(_, operand) | TimeConstraint(operand) | Count(operand):
            return is_open(operand)
        case _:
            return False


def _is_loose(expression: Expression) -> bool:
    """Whether facts about any entity may add members to a set.

    In an AND with one loose set, only the other set's members are tested for membership in the loose set.
    """
    match expression:
        case Class() | Compare() | Join(_, Value()):
            return True
        case _:
            return False


def comparable(value: Value) -> float | str:
    """The key for comparing a literal: its number (NaN if the text is not a number), or the text of another literal."""
    if value.datatype not in _NUMBERS:
        return value.text
    try:
        return float(value.text)
    except ValueError:
        return float("nan")  # unequal to everything, like an error in an engine


def sortable(value: Value) -> tuple[bool, float | str]:
    """The key for sorting literals of all kinds; numbers come before other literals."""
    key = comparable(value)
    return isinstance(key, str), key


def compares(one: Node, sign: Comparison, other: Value) -> bool:
    """Whether `one sign other` is true; false if the two operands are not literals of the same kind."""
    if not isinstance(one, Value) or (one.datatype in _NUMBERS) != (other.datatype in _NUMBERS):
        return False
    if one.datatype not in _NUMBERS and one.datatype != other.datatype:
        return False
    return _TESTS[sign](comparable(one), comparable(other))


def _members(facts: Facts, expression: Expression, passed: set[Node], watch: Watch) -> set[Node]:
    """The members of a set. All nodes passed on the way to the members are added to `passed`."""
    match expression:
        case Entity(identity):
            return {identity}
        case Value():
            return {expression}
        case Class(identity):
            return set(facts.subjects(TYPE, identity))
        case Compare(sign, relation, value):
            return {subject for subject, node in facts.pairs(relation) if compares(node, sign, value)}
        case Join(relation, Value() as value):
            return {subject for subject, node in facts.pairs(relation) if _same(node, value)}
        case Join():
            return _joined(facts, expression, passed, watch)
        case And(left, right):
            return _both(facts, left, right, passed, watch)
        case Arg(_, operand, relation):
            best = _best(facts, expression, watch)
            found = _members(facts, operand, passed, watch)
            watch.test(expression, found)
            return {node for node in found if _has(facts, node, relation, best)}
        case TimeConstraint(operand):
            found = _members(facts, operand, passed, watch)
            watch.test(expression, found)
            return {node for node in found if _holds(facts, expression, node)}
        case _:
            return denoted(facts, expression, watch)


def _joined(facts: Facts, join: Join, passed: set[Node], watch: Watch) -> set[Node]:
    relation, target, reverse = join.relation, join.target, join.reverse
    if isinstance(target, Class):  # not by way of all members, since most lack the relation
        ends = [(node, subject) if reverse else (subject, node) for subject, node in facts.pairs(relation)]
        tied = [(node, end) for node, end in ends if isinstance(end, str) and target.id in facts.types(end)]
        passed |= {end for _, end in tied}
        return {node for node, _ in tied}
    targets = _members(facts, target, passed, watch)
    watch.follow(relation, targets, reverse)
    if not isinstance(target, Entity):
        passed |= targets
    return {node for one in targets for node in _along(facts, relation, one, reverse)}


def _both(facts: Facts, left: Expression, right: Expression, passed: set[Node], watch: Watch) -> set[Node]:
    """The nodes in both sets.

    If one set is loose, it may be large, so the other set's members are tested one by one.
    """
    for side, other in ((left, right), (right, left)):
        if _is_loose(side):
            found = _members(facts, other, passed, watch)
            watch.test(side, found)
            if isinstance(side, Class):
                return {node for node in found if isinstance(node, str) and side.id in facts.types(node)}
            return found & _members(facts, side, passed, watch)
    return _members(facts, left, passed, watch) & _members(facts, right, passed, watch)


def _reached(facts: Facts, expression: Expression, node: Node, banned: Node) -> bool:
    """Whether a node is a member of the set by way of a path that avoids the banned node."""
    match expression:
        case Class(identity):
            return isinstance(node, str) and identity in facts.types(node)
        case Join(relation, Entity(identity), reverse):
            return identity in _along(facts, relation, node, not reverse)
        case Join(relation, target, reverse) if not isinstance(target, Value):
            return any(
                other != banned and _reached(facts, target, other, banned)
                for other in _along(facts, relation, node, not reverse)
            )
        case And(left, right):
            return _reached(facts, left, node, banned) and _reached(facts, right, node, banned)
        case Arg(_, operand, relation):
            best = _best(facts, expression, Watch())
            return _reached(facts, operand, node, banned) and _has(facts, node, relation, best)
        case TimeConstraint(operand):
            return _reached(facts, operand, node, banned) and _holds(facts, expression, node)
        case _:
            return node in _members(facts, expression, set(), Watch())


def _along(facts: Facts, relation: str, node: Node, reverse: bool) -> Collection[Node]:
    """The subjects from which a relation leads to a node or, with `reverse`, the objects to which it leads."""
    if not reverse:
        return facts.subjects(relation, node)
    return facts.objects(node, relation) if isinstance(node, str) else ()


def _best(facts: Facts, arg: Arg, watch: Watch) -> float | str | None:
    """The greatest or least value of the relation among the operand's members; None if no member has a value."""
    members = denoted(facts, arg.operand, watch)
    watch.test(arg, members)
    found = [value for node in members if isinstance(node, str) for value in facts.objects(node, arg.relation)]
    values = [value for value in found if isinstance(value, Value)]
    if not values:
        return None
    return comparable(max(values, key=sortable) if arg.mode == "ARGMAX" else min(values, key=sortable))


def _has(facts: Facts, node: Node, relation: str, best: float | str | None) -> bool:
    if not isinstance(node, str) or best is None:
        return False
    return any(isinstance(value, Value) and comparable(value) == best for value in facts.objects(node, relation))


def _same(node: Node, value: Value) -> bool:
    return isinstance(node, Value) and (node == value or comparable(node) == comparable(value))


def bounds_of(relation: str) -> tuple[str, ...]:
    """The relation that gives the start of a period and, if there is one, the relation that gives the period's end."""
    until = ending(relation)
    return (relation,) if until is None else (relation, until)


def _holds(facts: Facts, constraint: TimeConstraint, node: Node) -> bool:
    """Whether a node has started by the constraint's time and has not yet ended. A missing bound excludes no node."""
    if not isinstance(node, str):
        return True
    for relation, test in zip(bounds_of(constraint.relation), (_begun, _not_over), strict=False):
        bounds = [value.text for value in facts.objects(node, relation) if isinstance(value, Value)]
        if bounds and not any(test(text, constraint.time) for text in bounds):
            return False
    return True


def _begun(text: str, time: str) -> bool:
    return text[:10] <= TODAY if time == NOW else int(text[:4]) <= int(time)


def _not_over(text: str, time: str) -> bool:
    if time != NOW:
        return int(text[:4]) >= int(time)
    last = {4: "-12-31", 7: "-31"}.get(len(text), "")  # for a year or month without a day
    return f"{text}{last}"[:10] >= TODAY


# Numbers and dates in the invented facts of a witness graph.


_KINDS = {"type.int": f"{XSD}integer", "type.float": f"{XSD}float", "type.datetime": f"{XSD}date"}
_FIRST, _LAST = date(1850, 1, 1), date(2014, 12, 31)
_TRIES = 60


class Literals:
    """The kind of literal to which each relation leads, according to the questions or, failing that, the schema.

    `roles` maps a relation to its domain and its range.
    """

    def __init__(self, roles: Mapping[str, tuple[str, str]], expressions: Iterable[Expression]) -> None:
        self._kinds = {name: _KINDS[target] for name, (_, target) in roles.items() if target in _KINDS}
        self._asked: dict[str, list[Value]] = {}
        for expression in expressions:
            for part in walk(expression):
                value = part.target if isinstance(part, Join) else part.value if isinstance(part, Compare) else None
                if isinstance(value, Value) and isinstance(part, (Join, Compare)):
                    self._kinds[part.relation] = value.datatype
                    self._asked.setdefault(part.relation, []).append(value)

    def __contains__(self, relation: object) -> bool:
        return self._kinds.get(str(relation), "") in _KINDS.values()

    def draw(self, relation: str, rng: random.Random) -> Value:
        """A random value of a relation: a date, a year if the relation's name ends in `year`, or a number.

        If questions mention values of the relation, the number is near one of these values; if not, the number is
        mostly small.
        """
        kind = self._kinds[relation]
        if kind == _KINDS["type.datetime"]:
            day = _FIRST + timedelta(days=rng.randrange((_LAST - _FIRST).days + 1))
            return Value(day.isoformat(), kind)
        if relation.endswith("year"):
            return self._number(rng.randint(_FIRST.year, _LAST.year), kind)
        asked = self._asked.get(relation)
        if asked:
            return self._number(_about(rng.choice(asked), rng), kind)
        return self._number(rng.lognormvariate(4.0, 1.5), kind)

    def such(self, relation: str, sign: Comparison, value: Value, rng: random.Random) -> Value | None:
        """A random literal for which `literal sign value` is true; None if none was found."""
        for attempt in range(_TRIES):
            drawn = self.draw(relation, rng) if attempt % 2 or relation not in self else self._near(value, rng)
            if compares(drawn, sign, value):
                return drawn
        return None

    def _near(self, value: Value, rng: random.Random) -> Value:
        if value.datatype == _KINDS["type.datetime"]:
            try:
                day = date.fromisoformat(value.text) + timedelta(days=rng.randint(-3000, 3000))
            except (ValueError, OverflowError):  # only a year, or a year BC
                return value
            return Value(day.isoformat(), value.datatype)
        return self._number(_about(value, rng), value.datatype)

    def _number(self, number: float, kind: str) -> Value:
        whole = kind == _KINDS["type.int"]
        return Value(str(max(1, round(number))) if whole else f"{float(f'{number:.3g}'):.12g}", kind)


def _about(value: Value, rng: random.Random) -> float:
    """A random number of about the same size as the value; a random small number if the value is not a number."""
    try:
        return float(value.text) * rng.lognormvariate(0.0, 0.5)
    except ValueError:
        return rng.lognormvariate(4.0, 1.5)


# Freebase's schema as released with GrailQA: the two classes that a relation connects, and its inverse.


ROLES, CLASSES, INVERSES = "fb_roles", "fb_types", "reverse_properties"
TOPIC = "common.topic"
"""Every class whose members have names has this superclass; members of the other classes only connect facts."""
MAX_LINES = 1_000_000


@dataclass(frozen=True)
class Ontology:
    """The relations with the classes at their two ends, the inverse relations, and the classes' parents.

    Attributes:
        roles: for each relation, its domain and its range; the range is a class or a kind of literal (`type.int`).
        inverses: for each relation that has one, its inverse relation; if b is the inverse of a, then a is the inverse
            of b.
        parents: for each class, its parent classes.
        skipped: lines that cannot be read, and inverses that do not connect the same two classes.
    """

    roles: Mapping[str, tuple[str, str]]
    inverses: Mapping[str, str]
    parents: Mapping[str, Sequence[str]]
    skipped: Sequence[Skipped] = ()

    def above(self, name: str) -> tuple[str, ...]:
        """A class and all its superclasses, the class itself first. Cycles among classes do no harm."""
        return self._above(name)

    @cached_property
    def _known(self) -> dict[str, tuple[str, ...]]:
        return {}

    def _above(self, name: str) -> tuple[str, ...]:
        if name not in self._known:
            found, pending = {name: None}, [name]
            while pending:
                for parent in self.parents.get(pending.pop(), ()):
                    if parent not in found:
                        found[parent] = None
                        pending.append(parent)
            self._known[name] = tuple(found)
        return self._known[name]

    def has_names(self, name: str) -> bool:
        """Whether the members of a class have names."""
        return TOPIC in self.above(name)

    @cached_property
    def leading_from(self) -> Mapping[str, Sequence[str]]:
        """For each class, the relations that lead from the class, sorted."""
        return self._by_class(0)

    @cached_property
    def leading_to(self) -> Mapping[str, Sequence[str]]:
        """For each class or kind of literal, the relations that lead to it, sorted."""
        return self._by_class(1)

    def _by_class(self, place: int) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for relation in sorted(self.roles):
            found.setdefault(self.roles[relation][place], []).append(relation)
        return found


def read_ontology(folder: Path) -> Ontology:
    """Read the three files of a folder. Raises DataError if a file cannot be read or is too large."""
    skipped: list[Skipped] = []
    roles: dict[str, tuple[str, str]] = {}
    for place, (domain, relation, target) in _lines(folder / ROLES, 3, skipped):
        if roles.setdefault(relation, (domain, target)) != (domain, target):
            skipped.append(Skipped(place, "the relation already has another domain or range"))
    parents: dict[str, list[str]] = {}
    for _, (name, _, parent) in _lines(folder / CLASSES, 3, skipped):
        parents.setdefault(name, []).append(parent)
    inverses: dict[str, str] = {}
    for place, (one, other) in _lines(folder / INVERSES, 2, skipped):
        if one not in roles or other not in roles:
            continue  # an unused relation
        if roles[one] != roles[other][::-1] or inverses.get(one, other) != other or inverses.get(other, one) != one:
            skipped.append(Skipped(place, "the two relations do not connect the same classes in opposite directions"))
            continue
        inverses[one], inverses[other] = other, one
    return Ontology(roles, inverses, parents, tuple(skipped))


def _lines(path: Path, fields: int, skipped: list[Skipped]) -> Iterator[tuple[str, list[str]]]:
    """Each line's place and its names, without the dot at the end. Lines without exactly `fields` names are skipped."""
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise DataError(path, None, f"the file has more than {MAX_FILE_BYTES:,} bytes")
        with path.open(encoding="utf-8", errors="replace") as file:
            for number, line in enumerate(file, 1):
                if number > MAX_LINES:
                    raise DataError(path, number, f"the file has more than {MAX_LINES:,} lines")
                found = line.split()
                if len(found) == fields + 1 and found[-1] == ".":
                    found.pop()
                place = f"{path.name}:{number}"
                if found and (len(found) != fields or not all(map(NAME.fullmatch, (found[0], found[-1])))):
                    skipped.append(Skipped(place, f"the line must have {fields} names"))
                elif found:
                    yield place, found
    except OSError as error:
        raise DataError(path, None, f"cannot be read: {error.strerror}") from None
