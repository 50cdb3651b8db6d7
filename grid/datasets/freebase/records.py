"""Questions over Freebase in their released forms, read with limits (planning_horizon §B.1.2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from grid.core.errors import DataError, one_line
from grid.core.types import BETWEEN, Skipped, ToolCall
from grid.datasets.files import read_json_list
from grid.worlds.sparql.programs import FINISHING, calls
from grid.worlds.sparql.queries import ENTITY, Entity, Expression, ExpressionError, read, walk, written

MAX_RECORDS = 200_000
MAX_ANSWERS = 10_000
MAX_QUESTION_CHARACTERS = 10_000
MAX_NAME_CHARACTERS = 2_000
_TOLD = 10
NO_NAMES = ("", "null", "none")
"""What files have in the place of a name that there is not."""


@dataclass(frozen=True)
class Answer:
    """One of a question's answers: an entity's id or a literal's text, and the released name, where there is one."""

    value: str
    name: str | None = None

    @property
    def is_entity(self) -> bool:
        """Whether it is an entity's id."""
        return ENTITY.fullmatch(self.value) is not None

    @property
    def text(self) -> str:
        """What a reader is told."""
        return self.name or self.value


@dataclass(frozen=True)
class Question:
    """One question with its logical form and all its answers.

    `mentions` are the question's own names of entities with their ids, as released, the likeliest first.
    """

    id: str
    text: str
    expression: Expression
    answers: tuple[Answer, ...]
    mentions: tuple[tuple[str, str], ...] = ()
    source: str = ""

    @cached_property
    def form(self) -> str:
        """The S-expression as GrailQA writes it: equal for equal logical forms."""
        return written(self.expression)

    @cached_property
    def entities(self) -> tuple[str, ...]:
        """The ids that the logical form names, each once."""
        return tuple(dict.fromkeys(part.id for part in walk(self.expression) if isinstance(part, Entity)))

    @cached_property
    def template(self) -> str:
        """The S-expression without entities, literals and times: questions of one template differ in these alone."""
        return written(self.expression, masked=True)

    @property
    def unnamed(self) -> tuple[str, ...]:
        """Entities of the logical form that the question has no name for."""
        own = {identity for _, identity in self.mentions}
        return tuple(identity for identity in self.entities if identity not in own)

    def known_as(self, names: Mapping[str, str]) -> Question:
        """The question with names, by id, for entities that it has none for."""
        more = tuple((names[identity], identity) for identity in self.unnamed if identity in names)
        return replace(self, mentions=_kept((*self.mentions, *more))) if more else self

    def asked(self, identity: str) -> str:
        """By which name an entity is asked for: one that stands in the question, else the first; its id without any."""
        names = [name for name, meant in self.mentions if meant == identity]
        text = self.text.casefold()
        return next((name for name in names if name.casefold() in text), names[0] if names else identity)

    @cached_property
    def calls(self) -> dict[str, ToolCall]:
        """The plan as tool calls by step number, without the finish."""
        return calls(self.expression, self.asked)

    @property
    def nodes(self) -> int:
        """Nodes of the plan, the finish among them, as published."""
        return len(self.calls) + FINISHING

    @property
    def last(self) -> str:
        """The tool of the last call."""
        return list(self.calls.values())[-1].tool

    @property
    def told(self) -> str:
        """The answers for a reader of a demonstration: ten at most, then how many there are."""
        found = self.answer.split(BETWEEN)
        more = f" ... ({len(found):,} in all)" if len(found) > _TOLD else ""
        return f"{BETWEEN.join(found[:_TOLD])}{more}"

    @property
    def right(self) -> str:
        """All answers, in the order of their ids: an entity's name with its id, where it has one."""
        found = sorted(self.answers, key=lambda answer: answer.value)
        return BETWEEN.join(f"{one.name} ({one.value})" if one.is_entity and one.name else one.text for one in found)

    @property
    def answer(self) -> str:
        """All answers as one text, by name where they have one, in the order of their ids."""
        return BETWEEN.join(dict.fromkeys(answer.text for answer in sorted(self.answers, key=lambda a: a.value)))


def read_questions(path: Path) -> tuple[list[Question], list[Skipped]]:
    """A file's questions and what cannot be one.

    Of GrailQA and GraphQuestions, AgentBench (knowledge graph), WebQSP with S-expressions (RNG-KBQA) and KBQA-o1, told
    apart by their fields. An id is the record's own; raises DataError for a broken file, and for one of too many
    records.
    """
    found: dict[str, Question] = {}
    skipped: list[Skipped] = []
    for number, record in read_json_list(path):
        if number > MAX_RECORDS:
            raise DataError(path, None, f"more than {MAX_RECORDS:,} records")
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
    """A record as a question; raises ValueError for why it cannot be one."""
    if not isinstance(record, dict):
        raise ValueError(f"an object is expected, not {type(record).__name__}")
    text = next((record[key] for key in ("question", "ProcessedQuestion", "RawQuestion") if key in record), None)
    if not isinstance(text, str) or not 1 <= len(text.strip()) <= MAX_QUESTION_CHARACTERS:
        raise ValueError(f"it lacks a question of 1 to {MAX_QUESTION_CHARACTERS:,} characters")
    source = record.get("source", record.get("level", ""))
    kept = source if isinstance(source, str) else ""
    if "Parses" in record:
        return _parsed(record, own, text, kept)
    expression = _expression(record.get("s_expression", record.get("sexpr")))
    mentions = _mentions(record)
    return Question(own, text, expression, _answers(record.get("answer")), mentions, kept)


def _parsed(record: dict[str, Any], identity: str, text: str, source: str) -> Question:
    """A question of WebQSP: the first of its parses that has a logical form and answers."""
    reason = ValueError("it has no parse")
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
        raise ValueError("it has no S-expression")
    try:
        return read(text)
    except ExpressionError as error:
        raise ValueError(f"its S-expression cannot be read: {error}") from None


def _answers(found: Any) -> tuple[Answer, ...]:
    """The answers, each once; raises ValueError where there are none, too many, or one that cannot be read."""
    if not isinstance(found, list) or not found:
        raise ValueError("it has no answer")
    if len(found) > MAX_ANSWERS:
        raise ValueError(f"it has {len(found):,} answers; at most {MAX_ANSWERS:,} are read")
    answers: dict[str, Answer] = {}
    for item in found:
        if isinstance(item, dict):
            value = item.get("answer_argument", item.get("AnswerArgument"))
            name = item.get("entity_name", item.get("EntityName"))
        else:
            value, name = item, None
        if not isinstance(value, (str, int, float)) or isinstance(value, bool) or not str(value).strip():
            raise ValueError(f"{one_line(repr(item), 80)} is no answer")
        text = one_line(value, MAX_NAME_CHARACTERS)
        answers.setdefault(text, Answer(text, name_of(name)))
    return tuple(answers.values())


def _mentions(record: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    """Names with ids: AgentBench's and KBQA-o1's `entities`, GrailQA's `topic_entity` and the nodes of its query."""
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
    """The pairs of a name and an entity's id, each once; a name that stands for two entities is none."""
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
    """By id the names that questions have: as an answer's, else as mentioned."""
    every = list(questions)
    found = {a.value: a.name for question in reversed(every) for a in question.answers if a.is_entity and a.name}
    for question in every:
        for name, identity in question.mentions:
            found.setdefault(identity, name)
    return found


def name_of(name: Any) -> str | None:
    """A released name on one line; None where there is none."""
    text = " ".join(name.split()) if isinstance(name, str) else ""
    return None if text.casefold() in NO_NAMES or len(text) > MAX_NAME_CHARACTERS else text
