"""Distribute questions over graphs in which they keep their answers; add facts that match only part of a question."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from grid.core.util import derive_seed
from grid.datasets.freebase.facts import (
    Fact,
    Facts,
    Literals,
    Node,
    Ontology,
    Watch,
    bounds_of,
    compares,
    denoted,
    is_open,
)
from grid.datasets.freebase.records import Planter, Question, UnplantableError
from grid.worlds.sparql.queries import (
    TYPE,
    XSD,
    And,
    Arg,
    Class,
    Compare,
    Comparison,
    Count,
    Expression,
    Join,
    TimeConstraint,
    Value,
    children,
    walk,
)


class Shard:
    """One graph, and the questions that have their released answers in this graph."""

    def __init__(self, ontology: Ontology, literals: Literals, fresh: Callable[[], str], seed: int) -> None:
        self.facts = Facts(ontology.inverses)
        self.planter = Planter(self.facts, ontology, literals, fresh, seed)
        self.questions: list[Question] = []
        self._wanted: list[set[Node]] = []
        self._watches: list[Watch | None] = []  # None: any fact may affect the question
        self._users: dict[str, list[int]] = {}

    def accept(self, question: Question) -> bool:
        """Plant a question, unless any question would then have wrong answers; return whether it was planted.

        Raises UnplantableError; the facts are then as before.
        """
        mark, sets = len(self.facts), dict(self.planter.sets)
        wanted = nodes_of(question)
        watch = Watch()
        try:
            self.planter.answer(question.expression, list(wanted))
            right = denoted(self.facts, question.expression, watch) == set(wanted) and self._settled(mark)
        except UnplantableError:
            self._back(mark, sets)
            raise
        if not right:
            self._back(mark, sets)
            return False
        for name in parts_of(question.expression):
            self._users.setdefault(name, []).append(len(self.questions))
        self.questions.append(question)
        self._wanted.append(set(wanted))
        self._watches.append(None if is_open(question.expression) else watch)
        return True

    def _settled(self, mark: int) -> bool:
        """Whether new facts (after the first `mark` facts) leave the answers to all questions unchanged."""
        concerned: set[int] = set()
        for fact in self.facts.since(mark):
            name = name_of(fact)
            for place in self._users.get(name, ()):
                watch = self._watches[place]
                if watch is None or watch.concerned(fact.subject, name, fact.object):
                    concerned.add(place)
        now: dict[int, Watch] = {}
        for place in sorted(concerned):
            now[place] = Watch()
            if denoted(self.facts, self.questions[place].expression, now[place]) != self._wanted[place]:
                return False
        for place, watch in now.items():
            self._watches[place] = None if self._watches[place] is None else watch
        return True

    def add(self, subject: str, relation: str, node: Node) -> bool:
        """Add one fact, unless the graph already has it or the fact would change a question's answers.

        Return whether the fact was added.
        """
        mark = len(self.facts)
        if not self.facts.add(subject, relation, node):
            return False
        if self._settled(mark):
            return True
        self.facts.undo(mark)
        return False

    def asks(self, name: str) -> bool:
        """Whether any question uses the relation or class."""
        return name in self._users

    def try_out(self, plant: Callable[[], None]) -> bool:
        """Call `plant`, which adds facts; return whether the facts are kept.

        The facts are removed if they change a question's answers or `plant` raises UnplantableError.
        """
        mark, sets = len(self.facts), dict(self.planter.sets)
        try:
            plant()
            if self._settled(mark):
                return True
        except UnplantableError:
            pass
        self._back(mark, sets)
        return False

    def _back(self, mark: int, sets: dict[str, tuple[Node, ...]]) -> None:
        self.facts.undo(mark)
        self.planter.sets = sets


def spread(questions: Sequence[Question], make: Callable[[int], Shard]) -> tuple[list[Shard], dict[str, str]]:
    """Put each question into the first graph that accepts the question or, if no graph does, into a new graph.

    Also return, by S-expression, the reasons why questions are left out. `make(number)` creates an empty graph.
    """
    shards: list[Shard] = []
    reasons: dict[str, str] = {}
    for question in questions:
        if any(_refusal(shard, question) is None for shard in shards):
            continue
        new = make(len(shards))
        reason = _refusal(new, question)
        if reason is None:
            shards.append(new)
        else:
            reasons[question.form] = reason
    return shards, reasons


def _refusal(shard: Shard, question: Question) -> str | None:
    """Put a question into a graph or, if the graph does not accept the question, return the reason."""
    try:
        return None if shard.accept(question) else "no facts give the S-expression these answers"
    except UnplantableError as error:  # another graph may accept the question
        return str(error)


def nodes_of(question: Question) -> tuple[Node, ...]:
    """A question's answers as nodes. Raises UnplantableError if no query can return these answers."""
    named = set(question.entities) & {answer.value for answer in question.answers}
    if named:
        raise UnplantableError("an answer is an entity that the question names; queries leave such entities out")
    if isinstance(question.expression, Count):
        return tuple(Value(answer.value, f"{XSD}integer") for answer in question.answers)
    return tuple(answer.value if answer.is_entity else Value(answer.value) for answer in question.answers)


def parts_of(expression: Expression) -> dict[str, bool]:
    """Maps the name of each relation or class in an expression to true for a class and to false for a relation."""
    found: dict[str, bool] = {}
    for part in walk(expression):
        relation = getattr(part, "relation", None)
        if isinstance(relation, str):
            found[relation] = False
        if isinstance(part, TimeConstraint):
            found |= dict.fromkeys(bounds_of(part.relation), False)
        if isinstance(part, Class):
            found[part.id] = True
    return found


def name_of(fact: Fact) -> str:
    """A fact's relation or, if the fact states the class of an entity, that class. No relation has a class's name."""
    return str(fact.object) if fact.relation == TYPE else fact.relation


# Facts that match only part of a question (decoys). Decoys are added so that a plan gives wrong answers if one of
# its steps is left out.


_MOST = 3
"""Maximum number of decoys of one kind for one step."""
_TRIES = 4
_INVENTED = 0.4
"""If an existing thing could serve as a decoy: the probability that a new thing is made nevertheless."""
_OPPOSITE: dict[Comparison, Comparison] = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt"}


def add_decoys(shard: Shard, fresh: Callable[[], str], seed: int) -> None:
    """For each step of a question that selects part of a set, add one to three decoys if possible."""
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
        """Add decoys for one step; if the next step follows a relation, the decoys get facts with this relation."""
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
            return  # a class has many more members anyway
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
        """Plant a node that starts too late for a constraint or, if the schema has an end relation, ends too early."""
        planter = self._shard.planter
        planter.plant(constraint.operand, [node])
        since, *until = [name for name in bounds_of(constraint.relation) if name in planter.ontology.roles]
        years = self._rng.randint(2, 12)
        if until and self._rng.random() < 0.5:
            planter.bound(node, until[0], constraint.time, "le", -years)
        else:
            planter.bound(node, since, constraint.time, "ge", years)
        if node in denoted(self._shard.facts, constraint):
            raise UnplantableError("the fact already holds at the time")

    def _heads(self, expression: Expression) -> str | None:
        """A class to which all members of a set must belong; None if no class is certain."""
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
        """A new thing, or a class member that occurs neither in the question nor in its answers."""
        members: Sequence[Node] = list(self._shard.facts.subjects(TYPE, head))
        if members and self._rng.random() >= _INVENTED:
            for _ in range(_TRIES):
                found = self._rng.choice(members)
                if isinstance(found, str) and found not in self._avoided:
                    return found
        return self._fresh()
