"""Read released questions over Freebase, with limits, and plant facts that answer them (planning_horizon §B.1.2)."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from grid.core.errors import DataError, GridError, one_line
from grid.core.types import BETWEEN, Skipped, ToolCall
from grid.core.util import derive_seed
from grid.datasets.dataset import ATOMIC, balanced
from grid.datasets.files import read_json_list
from grid.datasets.freebase.facts import Facts, Literals, Node, Ontology, bounds_of, compares, denoted, sortable
from grid.worlds.sparql.programs import FINISHING, calls
from grid.worlds.sparql.queries import (
    ENTITY,
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
    ExpressionError,
    Join,
    TimeConstraint,
    Value,
    read,
    walk,
    written,
)

MAX_RECORDS = 200_000
MAX_ANSWERS = 10_000
MAX_QUESTION_CHARACTERS = 10_000
MAX_NAME_CHARACTERS = 2_000
_TOLD = 10
NO_NAMES = ("", "null", "none")
"""The texts (in lower case) that files contain in place of a missing name."""


@dataclass(frozen=True)
class Answer:
    """One answer to a question: an entity's id or a literal's text, and the released name if there is one."""

    value: str
    name: str | None = None

    @property
    def is_entity(self) -> bool:
        """Whether the answer is an entity's id."""
        return ENTITY.fullmatch(self.value) is not None

    @property
    def text(self) -> str:
        """The answer as shown to a reader."""
        return self.name or self.value


@dataclass(frozen=True)
class Question:
    """One question with its logical form and all its answers.

    `mentions` are pairs of an entity's name and id from the question's released record, the most likely pair first.
    """

    id: str
    text: str
    expression: Expression
    answers: tuple[Answer, ...]
    mentions: tuple[tuple[str, str], ...] = ()
    source: str = ""

    @cached_property
    def form(self) -> str:
        """The S-expression in GrailQA's form; equal logical forms have equal texts."""
        return written(self.expression)

    @cached_property
    def entities(self) -> tuple[str, ...]:
        """The ids of the entities in the logical form, each once."""
        return tuple(dict.fromkeys(part.id for part in walk(self.expression) if isinstance(part, Entity)))

    @cached_property
    def template(self) -> str:
        """The S-expression without entities, literals and times.

        Questions with the same template differ only in their entities, literals and times.
        """
        return written(self.expression, masked=True)

    @property
    def unnamed(self) -> tuple[str, ...]:
        """The entities in the logical form for which the question has no name."""
        own = {identity for _, identity in self.mentions}
        return tuple(identity for identity in self.entities if identity not in own)

    def known_as(self, names: Mapping[str, str]) -> Question:
        """The question, with names from `names` (id to name) added for entities that the question does not name."""
        more = tuple((names[identity], identity) for identity in self.unnamed if identity in names)
        return replace(self, mentions=_kept((*self.mentions, *more))) if more else self

    def asked(self, identity: str) -> str:
        """How to refer to an entity: by one of its names or, if it has none, by its id.

        A name in the question's text is preferred; if there is none, the first of the entity's names is used.
        """
        names = [name for name, meant in self.mentions if meant == identity]
        text = self.text.casefold()
        return next((name for name in names if name.casefold() in text), names[0] if names else identity)

    @cached_property
    def calls(self) -> dict[str, ToolCall]:
        """The plan as tool calls by step number, without the finishing step."""
        return calls(self.expression, self.asked)

    @property
    def nodes(self) -> int:
        """The number of nodes of the plan, including the finishing step, as in the paper."""
        return len(self.calls) + FINISHING

    @property
    def last(self) -> str:
        """The tool of the last call."""
        return list(self.calls.values())[-1].tool

    @property
    def told(self) -> str:
        """The answers as a demonstration shows them: at most ten, followed by the total number if there are more."""
        found = self.answer.split(BETWEEN)
        more = f" ... ({len(found):,} in all)" if len(found) > _TOLD else ""
        return f"{BETWEEN.join(found[:_TOLD])}{more}"

    @property
    def right(self) -> str:
        """All answers, in the order of their ids. An entity with a name is written as its name followed by its id."""
        found = sorted(self.answers, key=lambda answer: answer.value)
        return BETWEEN.join(f"{one.name} ({one.value})" if one.is_entity and one.name else one.text for one in found)

    @property
    def answer(self) -> str:
        """All answers as one text, in order of their ids. A name, if there is one, replaces the id."""
        return BETWEEN.join(dict.fromkeys(answer.text for answer in sorted(self.answers, key=lambda a: a.value)))


def read_questions(path: Path) -> tuple[list[Question], list[Skipped]]:
    """The questions of a file, and the records that are not usable questions.

    Files of GrailQA and GraphQuestions, AgentBench (knowledge graph), WebQSP with S-expressions (RNG-KBQA), and KBQA-o1
    are distinguished by their fields. A question's id is its record's id or, if it has none, the file's name and the
    record's index. Raises DataError for a broken file, and for a file with too many records.
    """
    found: dict[str, Question] = {}
    skipped: list[Skipped] = []
    for number, record in read_json_list(path):
        if number > MAX_RECORDS:
            raise DataError(path, None, f"the file has more than {MAX_RECORDS:,} records")
        identity = _identity(record, f"{path.stem}-{number - 1}")
        try:
            question = _question(record, identity)
            if question.id in found:
                raise ValueError("an earlier record has this id")
            found[question.id] = question
        except ValueError as error:
            skipped.append(Skipped(identity, one_line(error)))
    return list(found.values()), skipped


def _question(record: Any, own: str) -> Question:
    """Read a record as a question. Raises ValueError with the reason if the record is not a usable question."""
    if not isinstance(record, dict):
        raise ValueError(f"an object is expected, not {type(record).__name__}")
    text = next((record[key] for key in ("question", "ProcessedQuestion", "RawQuestion") if key in record), None)
    if not isinstance(text, str) or not 1 <= len(text.strip()) <= MAX_QUESTION_CHARACTERS:
        raise ValueError(f"the record has no question of 1 to {MAX_QUESTION_CHARACTERS:,} characters")
    source = record.get("source", record.get("level", ""))
    kept = source if isinstance(source, str) else ""
    if "Parses" in record:
        return _parsed(record, own, text, kept)
    expression = _expression(record.get("s_expression", record.get("sexpr")))
    mentions = _mentions(record)
    return Question(own, text, expression, _answers(record.get("answer")), mentions, kept)


def _parsed(record: dict[str, Any], identity: str, text: str, source: str) -> Question:
    """A question of WebQSP, made from its first parse that has a logical form and answers."""
    reason = ValueError("the record has no parse")
    parses = record["Parses"]
    for parse in parses if isinstance(parses, list) else []:
        if not isinstance(parse, dict):
            continue
        try:
            expression, answers = _expression(parse.get("SExpr")), _answers(parse.get("Answers"))
        except ValueError as error:
            reason = error
            continue
        mentions = [(parse.get(key), parse.get("TopicEntityMid")) for key in _WEBQSP_NAMES]
        limits = parse.get("Constraints")
        named = [limit for limit in limits if isinstance(limit, dict)] if isinstance(limits, list) else []
        mentions += [(limit.get("EntityName"), limit.get("Argument")) for limit in named]
        return Question(identity, text, expression, answers, _kept(mentions), source)
    raise reason


_WEBQSP_NAMES = ("TopicEntityName", "PotentialTopicEntityMention")


def _identity(record: Any, other: str) -> str:
    found = [record.get(key) for key in ("qid", "QuestionId", "ID", "id")] if isinstance(record, dict) else []
    for own in found:
        if isinstance(own, (str, int)) and not isinstance(own, bool) and 0 < len(str(own).strip()) <= 200:
            return one_line(own)
    return other


def _expression(text: Any) -> Expression:
    if text in (None, "", "null"):
        raise ValueError("the record has no S-expression")
    try:
        return read(text)
    except ExpressionError as error:
        raise ValueError(f"the S-expression cannot be read: {error}") from None


def _answers(found: Any) -> tuple[Answer, ...]:
    """The answers, each once.

    Raises ValueError if there are no answers or too many, or if an answer cannot be read.
    """
    if not isinstance(found, list) or not found:
        raise ValueError("the record has no answer")
    if len(found) > MAX_ANSWERS:
        raise ValueError(f"the record has {len(found):,} answers; at most {MAX_ANSWERS:,} are read")
    answers: dict[str, Answer] = {}
    for item in found:
        if isinstance(item, dict):
            value = item.get("answer_argument", item.get("AnswerArgument"))
            name = item.get("entity_name", item.get("EntityName"))
        else:
            value, name = item, None
        if not isinstance(value, (str, int, float)) or isinstance(value, bool) or not str(value).strip():
            raise ValueError(f"{one_line(repr(item), 80)} is not an answer")
        text = one_line(value, MAX_NAME_CHARACTERS)
        answers.setdefault(text, Answer(text, name_of(name)))
    return tuple(answers.values())


def _mentions(record: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    """Entities' names and ids, from `entities` (AgentBench, KBQA-o1) or `topic_entity` and `graph_query` (GrailQA)."""
    pairs: list[tuple[Any, Any]] = []
    entities, topics, graph = (record.get(key) for key in ("entities", "topic_entity", "graph_query"))
    if isinstance(entities, dict):
        pairs += entities.items()
    elif isinstance(entities, list):
        pairs += [tuple(pair) for pair in entities if isinstance(pair, list) and len(pair) == 2]
    if isinstance(topics, dict):
        pairs += [(name, identity) for identity, name in topics.items()]
    nodes = graph.get("nodes") if isinstance(graph, dict) else None
    for node in nodes if isinstance(nodes, list) else []:
        if isinstance(node, dict) and node.get("node_type") == "entity":
            pairs.append((node.get("friendly_name"), node.get("id")))
    return _kept(pairs)


def _kept(pairs: Iterable[tuple[Any, Any]]) -> tuple[tuple[str, str], ...]:
    """The pairs of a name and an entity's id, each once. A name that two entities share is dropped."""
    found: dict[tuple[str, str], None] = {}
    for name, identity in pairs:
        text = name_of(name)
        if text is not None and isinstance(identity, str) and ENTITY.fullmatch(identity):
            found[text, identity] = None
    meant: dict[str, set[str]] = {}
    for text, identity in found:
        meant.setdefault(text, set()).add(identity)
    return tuple(pair for pair in found if len(meant[pair[0]]) == 1)


def released_names(questions: Iterable[Question]) -> dict[str, str]:
    """For each id, its name in the questions: from an answer or, if no answer names it, from a mention."""
    every = list(questions)
    found = {a.value: a.name for question in reversed(every) for a in question.answers if a.is_entity and a.name}
    for question in every:
        for name, identity in question.mentions:
            found.setdefault(identity, name)
    return found


def name_of(name: Any) -> str | None:
    """A released name on one line; None if the name is missing or too long."""
    text = " ".join(name.split()) if isinstance(name, str) else ""
    return None if text.casefold() in NO_NAMES or len(text) > MAX_NAME_CHARACTERS else text


# Facts that make an S-expression denote given answers; invented things link the answers to the expression's entities.


_SIZES, _WEIGHTS = (1, 2, 3), (6, 3, 1)
"""The possible numbers of members of an invented set, and their weights in the draw."""


class UnplantableError(GridError):
    """No facts can make an expression denote the given answers; the message says why."""


class Planter:
    """Adds facts to one graph. Equal sub-expressions in different questions denote the same invented things.

    Args:
        facts: the graph.
        fresh: a function that returns an unused id each time.
        seed: the seed of all draws.
    """

    def __init__(
        self, facts: Facts, ontology: Ontology, literals: Literals, fresh: Callable[[], str], seed: int
    ) -> None:
        self.facts, self.ontology, self.literals, self.fresh = facts, ontology, literals, fresh
        self._seed = seed
        self.sets: dict[str, tuple[Node, ...]] = {}

    def answer(self, expression: Expression, answers: Sequence[Node]) -> None:
        """Make an expression denote the answers. For a COUNT, plant the given number of members.

        Raises UnplantableError.
        """
        if isinstance(expression, Count):
            number = answers[0] if len(answers) == 1 and isinstance(answers[0], Value) else None
            if number is None or not number.text.isdecimal():
                raise UnplantableError("the answer to COUNT must be one number")
            self.plant(expression.operand, self.members(expression.operand, int(number.text)))
            return
        self.sets.setdefault(written(expression), tuple(answers))
        self.plant(expression, answers)

    def members(self, expression: Expression, size: int | None = None) -> tuple[Node, ...]:
        """The members of the set that an expression denotes; unknown members are invented, and their facts planted.

        `size` is the number of members to invent; None: a random number. Raises UnplantableError.
        """
        key = written(expression)
        if key not in self.sets:
            rng = self._rng("set", key)
            count = rng.choices(_SIZES, _WEIGHTS)[0] if size is None else size
            self.sets[key] = tuple(self.fresh() for _ in range(count))
            self.plant(expression, self.sets[key])
        return self.sets[key]

    def plant(self, expression: Expression, nodes: Sequence[Node]) -> None:
        """Make nodes members of the set that an expression denotes. Raises UnplantableError."""
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
                raise UnplantableError(f"a {type(expression).__name__} is given, but a set is expected")

    def classify(self, node: Node, identity: str) -> None:
        """Make an entity a member of a class and of all its superclasses. Raises UnplantableError for a literal."""
        if not isinstance(node, str):
            raise UnplantableError("a literal cannot be a member of a class")
        for name in self.ontology.above(identity):
            self.facts.add(node, TYPE, name)

    def link(self, subject: Node, relation: str, node: Node) -> None:
        """Add a fact, and make its ends members of the relation's domain and range. Raises UnplantableError."""
        roles = self.ontology.roles.get(relation)
        if roles is None:
            raise UnplantableError(f"the relation {relation} is not in the ontology")
        if not isinstance(subject, str):
            raise UnplantableError("a relation cannot start at a literal")
        self.facts.add(subject, relation, node)
        self.classify(subject, roles[0])
        if isinstance(node, str):
            self.classify(node, roles[1])

    def value(self, node: Node, relation: str, fits: Callable[[Node], bool], drawn: Value | None) -> None:
        """Give an entity the value `drawn`, unless one of its values fits.

        Raises UnplantableError if the entity has values but none fits, if `drawn` is None, if the node is a literal, or
        if the relation is not in the ontology.
        """
        if not isinstance(node, str):
            raise UnplantableError("a literal cannot have values")
        had = self.facts.objects(node, relation)
        if any(fits(value) for value in had):
            return
        if had:
            raise UnplantableError("an entity already has another value of the relation")
        if drawn is None:
            raise UnplantableError(f"no number or date of {relation} meets the comparison")
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
        """Give all nodes the same value: the best of some drawn values and of the values of the operand's members.

        If any of the nodes already have values, use the best of these values instead.
        """
        self.plant(arg.operand, nodes)
        had = self._values(nodes, arg.relation)
        if not had:
            if arg.relation not in self.literals:
                known = arg.relation in self.ontology.roles
                wrong = "leads to no number or date" if known else "is not in the ontology"
                raise UnplantableError(f"the relation {arg.relation} {wrong}")
            rng = self._rng("best", written(arg))
            drawn = [self.literals.draw(arg.relation, rng) for _ in range(3)]
            had = drawn + self._values(denoted(self.facts, arg.operand), arg.relation)
        best = sorted(had, key=sortable)[-1 if arg.mode == "ARGMAX" else 0]
        for node in nodes:
            self.value(node, arg.relation, lambda found: found == best, best)

    def _values(self, nodes: Iterable[Node], relation: str) -> list[Value]:
        found = sorted(node for node in nodes if isinstance(node, str))
        values = [value for node in found for value in self.facts.objects(node, relation)]
        return [value for value in values if isinstance(value, Value)]

    def _hold(self, constraint: TimeConstraint, nodes: Sequence[Node]) -> None:
        """Make each node start some years before the time and, unless the time is now, end some years after it."""
        self.plant(constraint.operand, nodes)
        relations = bounds_of(constraint.relation)
        for node in nodes:
            years = self._rng("time", written(constraint), node)
            self.bound(node, relations[0], constraint.time, "le", -years.randint(1, 9))
            if len(relations) > 1 and constraint.time != NOW:
                self.bound(node, relations[1], constraint.time, "ge", years.randint(1, 9))

    def bound(self, node: Node, relation: str, time: str, sign: Comparison, years: int) -> None:
        """Make an entity start or end `years` years from a time, unless it has a bound on that side of the time.

        `sign` is the side: `le` or `ge`. If the relation is not in the ontology, nothing is added for `ge`.

        Raises UnplantableError if the entity has only bounds on the other side, if the node is a literal, or if `sign`
        is `le` and the relation is not in the ontology.
        """
        if relation not in self.ontology.roles:
            if sign == "le":
                raise UnplantableError(f"the relation {relation} is not in the ontology")
            return  # then no relation gives the end
        year = int((TODAY if time == NOW else time)[:4])
        limit, drawn = (Value(f"{min(max(y, 1), 9999):04d}-07-01", f"{XSD}date") for y in (year, year + years))
        self.value(node, relation, lambda found: compares(found, sign, limit), drawn)

    def _rng(self, *key: object) -> random.Random:
        return random.Random(derive_seed(self._seed, *key))


# The questions for cases and the questions for demonstrations (planning_horizon §B.1.2, 'Preprocessing').


_SAME = "another question with the same S-expression was drawn at random"
_TESTED = "a test question has the same S-expression"
REPEATED = frozenset((_SAME, _TESTED))
"""The reasons why `split` skips questions that can be read."""


@dataclass(frozen=True)
class Split:
    """Test and training questions, and the records left out. No two questions have the same S-expression."""

    tests: Sequence[Question]
    trainings: Sequence[Question]
    skipped: Sequence[Skipped]


def split(test: Path, train: Path | None, held_out: float, seed: int) -> Split:
    """The questions of a test file and a training file.

    Without a training file, the share `held_out` of the test questions is used for training. Training questions with
    the S-expression of a test question are left out. Raises DataError as `read_questions` does.

    Of several questions with the same S-expression, one is drawn. Whether a question is held out depends only on the
    seed and the S-expression, not on the other questions in the file.
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
    skipped += [Skipped(question.id, _TESTED) for question in seen]
    unseen = [question for question in trainings if question.form not in known]
    return Split(tests, _one_of_each(unseen, seed, skipped), skipped)


def draw(
    questions: Iterable[Question], cases: int | None, seed: int, fault: Callable[[Question], str | None]
) -> tuple[list[Question], list[Skipped]]:
    """At most `cases` questions without a fault, balanced by plan nodes; also the drawn questions with a fault."""
    skipped: list[Skipped] = []

    def usable(question: Question) -> bool:
        reason = fault(question)
        if reason is not None:
            skipped.append(Skipped(question.id, reason))
        return reason is None

    found = balanced(list(questions), seed, nodes=lambda question: question.nodes, usable=usable, most=ATOMIC)
    return list(islice(found, cases)), skipped


def unnamed(question: Question) -> str | None:
    """Why a planner cannot be asked a question: one of the question's entities has no name. None if all have names."""
    return f"the entity {question.unnamed[0]} has no name" if question.unnamed else None


def _one_of_each(questions: Sequence[Question], seed: int, skipped: list[Skipped]) -> list[Question]:
    """For each S-expression, one question drawn at random; the drawn questions keep their order."""
    chosen: dict[str, Question] = {}
    for question in sorted(questions, key=lambda one: _lot(seed, "one of", one.form, one.id)):
        chosen.setdefault(question.form, question)
    skipped += [Skipped(one.id, _SAME) for one in questions if chosen[one.form] is not one]
    return [one for one in questions if chosen[one.form] is one]


def _lot(seed: int, *key: object) -> float:
    return derive_seed(seed, *key) / 2**63
