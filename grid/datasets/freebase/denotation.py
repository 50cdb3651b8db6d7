"""What an S-expression denotes among facts in memory, as `queries.query` asks it of a SPARQL engine, and much faster.

A graph that grows asks it at every step. Whether both agree is looked at when a graph is finished.
"""

from __future__ import annotations

from collections.abc import Collection

from grid.datasets.freebase.facts import Facts, Node
from grid.worlds.sparql.queries import (
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

_NUMBERS = frozenset(f"{XSD}{name}" for name in ("integer", "float", "double", "decimal"))


class Watch:
    """Where new facts may change what an expression denotes, as far as it is not `is_open`."""

    def __init__(self) -> None:
        self._subjects: dict[str, set[Node]] = {}
        self._objects: dict[str, set[Node]] = {}

    def follow(self, relation: str, targets: set[Node], reverse: bool) -> None:
        """What leads to targets or, in reverse, what they lead to is asked for."""
        (self._subjects if reverse else self._objects).setdefault(relation, set()).update(targets)

    def test(self, expression: Expression, nodes: set[Node]) -> None:
        """Of nodes it is asked whether they are of a class, or have a value."""
        match expression:
            case Class(name) | Compare(_, name) | Join(name) | Arg(_, _, name):
                self.follow(name, nodes, reverse=True)
            case TimeConstraint(_, name):
                for one in bounds_of(name):
                    self.follow(one, nodes, reverse=True)

    def concerned(self, subject: Node, name: str, node: Node) -> bool:
        """Whether a fact matters; its name is its relation or, of a fact about a class, the class."""
        return subject in self._subjects.get(name, ()) or node in self._objects.get(name, ())


def denoted(facts: Facts, expression: Expression, watch: Watch | None = None) -> set[Node]:
    """What an expression denotes; of a COUNT the number as a literal. `watch` learns what it looks at."""
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
    """Whether a fact about any entity may change what an expression denotes: a class or a comparison is all of it."""
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
    """Whether it is open by itself, and yet changes nothing about what is not in the other set of an AND."""
    match expression:
        case Class() | Compare() | Join(_, Value()):
            return True
        case _:
            return False


def comparable(value: Value) -> float | str:
    """What a literal is compared by: a number, or the text of a date."""
    if value.datatype not in _NUMBERS:
        return value.text
    try:
        return float(value.text)
    except ValueError:
        return float("nan")  # equal to nothing, as an engine's error is


def compares(one: Node, sign: Comparison, other: Value) -> bool:
    """Whether a literal compares so with another of its kind."""
    if not isinstance(one, Value) or (one.datatype in _NUMBERS) != (other.datatype in _NUMBERS):
        return False
    if one.datatype not in _NUMBERS and one.datatype != other.datatype:
        return False
    left, right = comparable(one), comparable(other)
    less, equal = left < right, left == right  # type: ignore[operator]
    return {"lt": less, "le": less or equal, "gt": not less and not equal, "ge": not less}[sign]


def _members(facts: Facts, expression: Expression, passed: set[Node], watch: Watch) -> set[Node]:
    """The members of a set; `passed` gains all that lies on the way to them."""
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
    if isinstance(target, Class):  # not from all members: most have nothing of the relation
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
    """What is in both sets; of a set by itself that is large only those that are in the other."""
    for side, other in ((left, right), (right, left)):
        if _is_loose(side):
            found = _members(facts, other, passed, watch)
            watch.test(side, found)
            if isinstance(side, Class):
                return {node for node in found if isinstance(node, str) and side.id in facts.types(node)}
            return found & _members(facts, side, passed, watch)
    return _members(facts, left, passed, watch) & _members(facts, right, passed, watch)


def _reached(facts: Facts, expression: Expression, node: Node, banned: Node) -> bool:
    """Whether a node is a member by a way on which the banned one does not lie."""
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
    """What leads to a node or, in reverse, what it leads to."""
    if not reverse:
        return facts.subjects(relation, node)
    return facts.objects(node, relation) if isinstance(node, str) else ()


def _best(facts: Facts, arg: Arg, watch: Watch) -> float | str | None:
    """The greatest or least value among the operand's members; None without any."""
    members = denoted(facts, arg.operand, watch)
    watch.test(arg, members)
    found = [value for node in members if isinstance(node, str) for value in facts.objects(node, arg.relation)]
    values = [comparable(value) for value in found if isinstance(value, Value)]
    if not values:
        return None
    return max(values) if arg.mode == "ARGMAX" else min(values)


def _has(facts: Facts, node: Node, relation: str, best: float | str | None) -> bool:
    if not isinstance(node, str) or best is None:
        return False
    return any(isinstance(value, Value) and comparable(value) == best for value in facts.objects(node, relation))


def _same(node: Node, value: Value) -> bool:
    return isinstance(node, Value) and (node == value or comparable(node) == comparable(value))


def bounds_of(relation: str) -> tuple[str, ...]:
    """The relations that say since when and until when, where there is one."""
    until = ending(relation)
    return (relation,) if until is None else (relation, until)


def _holds(facts: Facts, constraint: TimeConstraint, node: Node) -> bool:
    """Begun by then, and not over; a missing bound does not exclude."""
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
    last = {4: "-12-31", 7: "-31"}.get(len(text), "")  # of a bare year or month
    return f"{text}{last}"[:10] >= TODAY
