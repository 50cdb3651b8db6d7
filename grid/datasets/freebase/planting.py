"""Facts by which an S-expression denotes given answers, with invented things in between."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from grid.core.errors import GridError
from grid.core.types import Skipped
from grid.core.util import derive_seed
from grid.datasets.freebase.denotation import bounds_of, comparable, compares, denoted
from grid.datasets.freebase.facts import Facts, Node
from grid.datasets.freebase.literals import Literals
from grid.datasets.freebase.ontology import Ontology
from grid.datasets.freebase.records import Question, read_questions, released_names
from grid.datasets.sampling import ATOMIC, balanced
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
    written,
)

_SIZES, _WEIGHTS = (1, 2, 3), (6, 3, 1)
"""How many invented things lie between, and how often."""


class UnplantableError(GridError):
    """No facts can make an expression denote these answers; the message says why."""


class Planter:
    """Adds facts to one graph. The same sub-expression means the same invented things in every question.

    Args:
        facts: the graph.
        fresh: gives ids that nothing has.
        seed: of what is drawn.
    """

    def __init__(
        self, facts: Facts, ontology: Ontology, literals: Literals, fresh: Callable[[], str], seed: int
    ) -> None:
        self.facts, self.ontology, self.literals, self.fresh = facts, ontology, literals, fresh
        self._seed = seed
        self.sets: dict[str, tuple[Node, ...]] = {}

    def answer(self, expression: Expression, answers: Sequence[Node]) -> None:
        """Make an expression denote answers, of a COUNT as many; raises UnplantableError."""
        if isinstance(expression, Count):
            number = answers[0] if len(answers) == 1 and isinstance(answers[0], Value) else None
            if number is None or not number.text.isdecimal():
                raise UnplantableError("the answer to a COUNT is one number")
            self.plant(expression.operand, self.members(expression.operand, int(number.text)))
            return
        self.sets.setdefault(written(expression), tuple(answers))
        self.plant(expression, answers)

    def members(self, expression: Expression, size: int | None = None) -> tuple[Node, ...]:
        """The members of a set: those that it has been given, else invented ones, of which facts are planted."""
        key = written(expression)
        if key not in self.sets:
            rng = self._rng("set", key)
            count = rng.choices(_SIZES, _WEIGHTS)[0] if size is None else size
            self.sets[key] = tuple(self.fresh() for _ in range(count))
            self.plant(expression, self.sets[key])
        return self.sets[key]

    def plant(self, expression: Expression, nodes: Sequence[Node]) -> None:
        """Make nodes members of what an expression denotes; raises UnplantableError."""
        match expression:
            case Class(identity):
                for node in nodes:
                    self.classify(node, identity)
            case Join():
                self._join(expression, nodes)
            case And(left, right):
                self.plant(left, nodes)
                self.plant(right, nodes)
            case Arg():
                self._extreme(expression, nodes)
            case Compare():
                self._compare(expression, nodes)
            case TimeConstraint():
                self._hold(expression, nodes)
            case _:
                raise UnplantableError(f"a {type(expression).__name__} stands where a set is expected")

    def classify(self, node: Node, identity: str) -> None:
        """Make an entity a member of a class and of those above it."""
        if not isinstance(node, str):
            raise UnplantableError("a literal is member of a class")
        for name in self.ontology.above(identity):
            self.facts.add(node, TYPE, name)

    def link(self, subject: Node, relation: str, node: Node) -> None:
        """Add a fact, with the classes that its relation leads from and to; raises UnplantableError."""
        roles = self.ontology.roles.get(relation)
        if roles is None:
            raise UnplantableError(f"its relation {relation} is not in the ontology")
        if not isinstance(subject, str):
            raise UnplantableError("a relation leads from a literal")
        self.facts.add(subject, relation, node)
        self.classify(subject, roles[0])
        if isinstance(node, str):
            self.classify(node, roles[1])

    def value(self, node: Node, relation: str, fits: Callable[[Node], bool], drawn: Value | None) -> None:
        """Give an entity a value, unless it has one that fits; raises UnplantableError where it has another."""
        if not isinstance(node, str):
            raise UnplantableError("a literal has values")
        had = self.facts.objects(node, relation)
        if any(fits(value) for value in had):
            return
        if had:
            raise UnplantableError("an entity has another value of its relation already")
        if drawn is None:
            raise UnplantableError(f"no number or date of {relation} compares so")
        self.link(node, relation, drawn)

    def _join(self, join: Join, nodes: Sequence[Node]) -> None:
        if isinstance(join.target, Entity):
            others: Sequence[Node] = (join.target.id,)
        elif isinstance(join.target, Value):
            others = (join.target,)
        else:
            others = self.members(join.target)
        for place, node in enumerate(nodes):
            other = others[place % len(others)]
            first, last = (other, node) if join.reverse else (node, other)
            self.link(first, join.relation, last)

    def _compare(self, compare: Compare, nodes: Sequence[Node]) -> None:
        sign, relation, value = compare.operator, compare.relation, compare.value
        for node in nodes:
            drawn = self.literals.such(relation, sign, value, self._rng("value", node, relation))
            self.value(node, relation, lambda found: compares(found, sign, value), drawn)

    def _extreme(self, arg: Arg, nodes: Sequence[Node]) -> None:
        """The nodes tie; where one has a value it is the best."""
        self.plant(arg.operand, nodes)
        had = self._values(nodes, arg.relation)
        if not had:
            if arg.relation not in self.literals:
                known = arg.relation in self.ontology.roles
                wrong = "leads to no number or date" if known else "is not in the ontology"
                raise UnplantableError(f"its relation {arg.relation} {wrong}")
            rng = self._rng("best", written(arg))
            drawn = [self.literals.draw(arg.relation, rng) for _ in range(3)]
            had = drawn + self._values(denoted(self.facts, arg.operand), arg.relation)
        best = sorted(had, key=comparable)[-1 if arg.mode == "ARGMAX" else 0]
        for node in nodes:
            self.value(node, arg.relation, lambda found: found == best, best)

    def _values(self, nodes: Iterable[Node], relation: str) -> list[Value]:
        found = sorted(node for node in nodes if isinstance(node, str))
        values = [value for node in found for value in self.facts.objects(node, relation)]
        return [value for value in values if isinstance(value, Value)]

    def _hold(self, constraint: TimeConstraint, nodes: Sequence[Node]) -> None:
        """Each node begins some years before, and ends some years after or, where it holds now, never."""
        self.plant(constraint.operand, nodes)
        relations = bounds_of(constraint.relation)
        for node in nodes:
            years = self._rng("time", written(constraint), node)
            self.bound(node, relations[0], constraint.time, "le", -years.randint(1, 9))
            if len(relations) > 1 and constraint.time != NOW:
                self.bound(node, relations[1], constraint.time, "ge", years.randint(1, 9))

    def bound(self, node: Node, relation: str, time: str, sign: Comparison, years: int) -> None:
        """Let an entity begin or end so many years from a time, unless it does on the same side of it already."""
        if relation not in self.ontology.roles:
            if sign == "le":
                raise UnplantableError(f"its relation {relation} is not in the ontology")
            return  # then nothing says until when
        year = int((TODAY if time == NOW else time)[:4])
        limit, drawn = (Value(f"{min(max(y, 1), 9999):04d}-07-01", f"{XSD}date") for y in (year, year + years))
        self.value(node, relation, lambda found: compares(found, sign, limit), drawn)

    def _rng(self, *key: object) -> random.Random:
        return random.Random(derive_seed(self._seed, *key))


# Which questions are cases, and which are shown solved (planning_horizon §B.1.2, 'Preprocessing').


_SAME = "another question with this S-expression was drawn by lot"


@dataclass(frozen=True)
class Split:
    """Test questions and training questions, no two of which have the same S-expression, and what was left out."""

    tests: Sequence[Question]
    trainings: Sequence[Question]
    skipped: Sequence[Skipped]


def split(test: Path, train: Path | None, held_out: float, seed: int) -> Split:
    """The questions of a test and a training file or, without the latter, a share of the test file held out.

    Of questions with the same S-expression one is drawn. Which are held out follows from seed and S-expression, so that
    a file of more questions moves none.
    """
    tests, skipped = read_questions(test)
    trainings, more = read_questions(train) if train else ([], [])
    skipped += more
    names = released_names([*tests, *trainings])
    tests, trainings = ([question.known_as(names) for question in part] for part in (tests, trainings))
    tests = _one_of_each(tests, seed, skipped)
    if train is None:
        held = [_lot(seed, "held out", question.form) < held_out for question in tests]
        trainings = [question for question, is_held in zip(tests, held, strict=True) if is_held]
        tests = [question for question, is_held in zip(tests, held, strict=True) if not is_held]
        return Split(tests, trainings, skipped)
    known = {question.form for question in tests}
    seen = [question for question in trainings if question.form in known]
    skipped += [Skipped(question.id, "a test question has the same S-expression") for question in seen]
    unseen = [question for question in trainings if question.form not in known]
    return Split(tests, _one_of_each(unseen, seed, skipped), skipped)


def draw(
    questions: Iterable[Question], cases: int | None, seed: int, fault: Callable[[Question], str | None]
) -> tuple[list[Question], list[Skipped]]:
    """At most `cases` questions without a fault, balanced by plan nodes, and why others that were drawn are none."""
    skipped: list[Skipped] = []

    def usable(question: Question) -> bool:
        reason = fault(question)
        if reason is not None:
            skipped.append(Skipped(question.id, reason))
        return reason is None

    found = balanced(list(questions), seed, nodes=lambda question: question.nodes, usable=usable, most=ATOMIC)
    return list(islice(found, cases)), skipped


def unnamed(question: Question) -> str | None:
    """Why a planner cannot ask for all that a question names: one of its entities has no name; None: it can."""
    return f"its entity {question.unnamed[0]} has no name" if question.unnamed else None


def _one_of_each(questions: Sequence[Question], seed: int, skipped: list[Skipped]) -> list[Question]:
    """One question, drawn by lot, of each S-expression, in their order."""
    chosen: dict[str, Question] = {}
    for question in sorted(questions, key=lambda one: _lot(seed, "one of", one.form, one.id)):
        chosen.setdefault(question.form, question)
    skipped += [Skipped(one.id, _SAME) for one in questions if chosen[one.form] is not one]
    return [one for one in questions if chosen[one.form] is one]


def _lot(seed: int, *key: object) -> float:
    return derive_seed(seed, *key) / 2**63
