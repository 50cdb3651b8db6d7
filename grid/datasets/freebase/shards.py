"""Questions put together in as few graphs as they can be right in."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from grid.datasets.freebase.denotation import Watch, bounds_of, denoted, is_open
from grid.datasets.freebase.facts import Fact, Facts, Node
from grid.datasets.freebase.literals import Literals
from grid.datasets.freebase.ontology import Ontology
from grid.datasets.freebase.planting import Planter, UnplantableError
from grid.datasets.freebase.records import Question
from grid.worlds.sparql.queries import TYPE, XSD, Class, Count, Expression, TimeConstraint, Value, walk


class Shard:
    """One graph and the questions that are right in it."""

    def __init__(self, ontology: Ontology, literals: Literals, fresh: Callable[[], str], seed: int) -> None:
        self.facts = Facts(ontology.inverses)
        self.planter = Planter(self.facts, ontology, literals, fresh, seed)
        self.questions: list[Question] = []
        self._wanted: list[set[Node]] = []
        self._watches: list[Watch | None] = []  # None: facts about anything concern the question
        self._users: dict[str, list[int]] = {}

    def accept(self, question: Question) -> bool:
        """Plant a question, unless it or another would not be right then; raises UnplantableError."""
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
        """Whether every question that facts since a mark may concern still denotes its answers."""
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
        """Add one fact, unless it stands there or a question would not be right then."""
        mark = len(self.facts)
        if not self.facts.add(subject, relation, node):
            return False
        if self._settled(mark):
            return True
        self.facts.undo(mark)
        return False

    def asks(self, name: str) -> bool:
        """Whether a question looks at a relation or a class."""
        return name in self._users

    def try_out(self, plant: Callable[[], None]) -> bool:
        """Run what adds facts, and take them back where a question is not right then."""
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
    """Each question in the first graph that it fits in, a new one where it fits in none; by form why some are left out.

    `make` gives the empty graph of a number.
    """
    shards: list[Shard] = []
    reasons: dict[str, str] = {}
    for question in questions:
        try:
            if any(shard.accept(question) for shard in shards):
                continue
            new = make(len(shards))
            if new.accept(question):
                shards.append(new)
                continue
            reasons[question.form] = "no facts make its S-expression denote its answers"
        except UnplantableError as error:
            reasons[question.form] = str(error)
    return shards, reasons


def nodes_of(question: Question) -> tuple[Node, ...]:
    """A question's answers as nodes; raises UnplantableError where no query can give them."""
    named = set(question.entities) & {answer.value for answer in question.answers}
    if named:
        raise UnplantableError("an answer is an entity that it names, which a query leaves out")
    if isinstance(question.expression, Count):
        return tuple(Value(answer.value, f"{XSD}integer") for answer in question.answers)
    return tuple(answer.value if answer.is_entity else Value(answer.value) for answer in question.answers)


def parts_of(expression: Expression) -> dict[str, bool]:
    """The relations and classes that an expression looks at; whether each is a class."""
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
    """A fact's relation or, where it says of what class something is, the class: no name is both."""
    return str(fact.object) if fact.relation == TYPE else fact.relation
