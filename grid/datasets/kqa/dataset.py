"""KQA Pro and its synthetic stand-in as datasets of the grid: same files, same tools (planning_horizon §4.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from grid.code_digest import digest_of
from grid.core.cache import made_once
from grid.core.errors import ConfigError
from grid.core.problem import Outline
from grid.core.strict import STRICT
from grid.core.types import Skipped, ToolSpec
from grid.datasets.balance import balanced
from grid.datasets.files import fingerprint, folder
from grid.datasets.kqa.generate import generate
from grid.datasets.kqa.program import Executor, executor
from grid.datasets.kqa.records import KB, TEST, TRAIN, Question, read_questions, sample
from grid.datasets.kqa.validation import faults
from grid.datasets.nearest import HoldOut
from grid.datasets.question_answering import QuestionAnswering
from grid.datasets.sampling import Order
from grid.engines.sources import Hub
from grid.retrievers.sources import Wheel
from grid.worlds.kopl.base import KnowledgeBase
from grid.worlds.kopl.functions import TOOLS
from grid.worlds.kopl.glossary import GLOSSARY
from grid.worlds.kopl.reading import read
from grid.worlds.kopl.world import KoplWorld

ADAPTER = 2
"""Raise when the same files give other cases or outcomes."""


class Kqa(QuestionAnswering[Question]):
    """What both datasets share, over a folder with `kb.json`, `train.json` and `val.json`."""

    notes: ClassVar[tuple[str, ...]] = GLOSSARY
    limit: int | None
    seed: int

    @property
    def root(self) -> Path:
        """The folder."""
        raise NotImplementedError

    @property
    def sizes(self) -> tuple[int | None, int | None]:
        """How many questions to draw from `val.json` and from `train.json`; None: all."""
        return None, None

    @cached_property
    def version(self) -> str:
        """The adapter, the files' fingerprint, what the samples are drawn by, and a sentence model's folder."""
        drawn = "-".join(str(part) for part in (*self.sizes, self.seed) if part is not None)
        files = fingerprint(*(self.root / name for name in (KB, TRAIN, TEST)))
        return f"{type(self).__name__.lower()}-a{ADAPTER}-{files}-{drawn}{self._model_version()}"

    @cached_property
    def kb(self) -> KnowledgeBase:
        """The knowledge base, its remarks included."""
        return read(self.root / KB)

    @property
    def tools(self) -> Mapping[str, ToolSpec]:
        """The 27 functions."""
        _ = self.root  # raises ConfigError where there is none
        return TOOLS

    @property
    def skipped(self) -> Sequence[Skipped]:
        """Facts of the base and records of both splits that cannot be used, and why."""
        return (*self.kb.remarks, *self._tests[1], *self._trainings[1])

    @property
    def questions(self) -> Mapping[str, Question]:
        """The usable test questions by id."""
        return self._tests[0]

    @cached_property
    def trainings(self) -> Sequence[Question]:
        """The usable training questions."""
        return tuple(self._trainings[0].values())

    def case_ids(self) -> Sequence[str]:
        """The first `limit` test questions."""
        return list(self.questions)[: self.limit]

    def cluster(self, case_id: str) -> str:
        """The shape of the question's program: its DAG's functions in their order, whatever they are asked about."""
        return " ".join(step.function for step in self.questions[case_id].dag)

    def world(self, question: Question, answered: bool) -> KoplWorld:
        """The functions over the knowledge base."""
        return KoplWorld(self.kb, (question.answer,), answered)

    @cached_property
    def _run(self) -> Executor:
        return executor(self.kb)

    @cached_property
    def _tests(self) -> tuple[dict[str, Question], list[Skipped]]:
        tests, skipped = self._split(TEST, self.sizes[0])
        if not tests:
            raise ConfigError("dataset.path", str(self.root), f"{TEST} holds no usable question")
        return tests, skipped

    @cached_property
    def _trainings(self) -> tuple[dict[str, Question], list[Skipped]]:
        return self._split(TRAIN, self.sizes[1])

    def _split(self, name: str, size: int | None) -> tuple[dict[str, Question], list[Skipped]]:
        questions, unreadable = read_questions(self.root / name)
        if size is None and name == TRAIN:
            reasons = faults(self.root, name, questions, lambda: self._run)
            failed = [Skipped(identity, reason) for identity, reason in reasons.items()]
            return {q.id: q for q in questions if q.id not in reasons}, [*unreadable, *failed]
        chosen, failed = sample(questions, size, self.seed, self._run)
        return {question.id: question for question in chosen}, [*unreadable, *failed]


@dataclass(config=STRICT)
class KqaPro(Kqa):
    """The released KQA Pro: questions drawn from `val.json` by `seed`, demonstrations out of all of `train.json`.

    What is drawn is balanced by DAG nodes, and so is every first part that `limit` takes; `order` file leaves the
    questions that were drawn as they stand in the file. A case is resolved by its program's answer, found in whatever
    way. By default it is shown no question of its own template: the
    same functions and texts but for entities and values.

    Args:
        demonstrations_from: draw so many training questions first, as the questions are; None: all whose programs
            give their answers.
        demonstrations_by: what 'nearest' means: the words of both questions (bm25), or the cosine of their embeddings.
        demonstrations_hold_out: which training questions a case is not shown.
        hub: a sentence-transformers model of the hub; needs the extra `dense`.
        wheel: what holds the same files where the hub cannot be reached.
        sentence_model: a folder with such a model, instead of both.
    """

    path: str | None = None
    limit: Annotated[int, Field(ge=1)] | None = None
    order: Order = "sampled"
    cases: Annotated[int, Field(ge=1)] | None = 1000
    demonstrations_from: Annotated[int, Field(ge=1)] | None = None
    demonstrations_by: Literal["bm25", "embeddings"] = "bm25"
    demonstrations_hold_out: HoldOut = "template"
    hub: Hub | None = None
    wheel: Wheel | None = None
    sentence_model: str | None = None
    seed: Annotated[int, Field(ge=0)] = 0
    outline: Outline = "hidden"

    @cached_property
    def root(self) -> Path:
        """The folder with the released files."""
        return folder("dataset.path", self.path, KB, TRAIN, TEST)

    @property
    def sizes(self) -> tuple[int | None, int | None]:
        """As configured."""
        return self.cases, self.demonstrations_from

    def case_ids(self) -> Sequence[str]:
        """The first `limit` of the questions that were drawn."""
        questions = list(self.questions.values())
        if self.order == "file":
            questions.sort(key=lambda question: int(question.id.rpartition("-")[2]))
        elif self.cases is None:  # all, as they stand
            questions = list(balanced(questions, self.seed, nodes=lambda question: len(question.dag)))
        return [question.id for question in questions[: self.limit]]


@dataclass(config=STRICT)
class KqaSynthetic(Kqa):
    """A generated knowledge base with 500 test and 1,000 training questions, made once for a seed and cached.

    The questions stand in a balanced order, so that the first so many are a sample.
    """

    limit: Annotated[int, Field(ge=1)] | None = None
    demonstrations_hold_out: HoldOut = "template"
    seed: Annotated[int, Field(ge=0)] = 0
    outline: Outline = "hidden"

    @cached_property
    def root(self) -> Path:
        """The cached folder."""
        return generated(self.seed)


def generated(seed: int) -> Path:
    """The cached folder of one seed."""
    return made_once("kqa", f"{digest_of(generate)}-s{seed}", (KB, TRAIN, TEST), partial(generate, seed=seed))
