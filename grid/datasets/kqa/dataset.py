"""KQA Pro, and a synthetic replacement with the same file formats and tools (planning_horizon §4.1)."""

from __future__ import annotations

import json
import logging
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from grid.code_digest import digest_of
from grid.core.errors import ConfigError, DataError
from grid.core.problem import Outline
from grid.core.types import Skipped, ToolSpec
from grid.core.util import STRICT, derive_seed, made_once
from grid.datasets.dataset import KQA, Order, balanced, bin_of, bins
from grid.datasets.files import fingerprint, folder, read_json
from grid.datasets.kqa import world
from grid.datasets.kqa.phrases import Dead, Phrases
from grid.datasets.kqa.program import (
    KB,
    TEST,
    TRAIN,
    Executor,
    Facts,
    Program,
    Question,
    depth,
    executor,
    fault,
    read_questions,
    sample,
)
from grid.datasets.kqa.questions import Draft, Questions
from grid.datasets.kqa.world import load_words
from grid.datasets.question_answering import HoldOut, QuestionAnswering
from grid.engines.wheels import Hub
from grid.retrievers.sources import Wheel
from grid.worlds.kopl.functions import TOOLS
from grid.worlds.kopl.values import GLOSSARY, KnowledgeBase, KoplError
from grid.worlds.kopl.world import KoplWorld, parse, read

ADAPTER = 3
"""Increase this number when changed code yields different cases or outcomes for the same files."""


class Kqa(QuestionAnswering[Question]):
    """The base class of both datasets. Each dataset reads a folder with `kb.json`, `train.json` and `val.json`."""

    notes: ClassVar[tuple[str, ...]] = GLOSSARY
    limit: int | None
    seed: int

    @property
    def root(self) -> Path:
        """The folder of the files."""
        raise NotImplementedError

    @property
    def sizes(self) -> tuple[int | None, int | None]:
        """The numbers of questions to draw from `val.json` and from `train.json`; None: all."""
        return None, None

    @cached_property
    def version(self) -> str:
        """The adapter, the files' fingerprint, the samples' sizes and seed, and any sentence model."""
        drawn = "-".join(str(part) for part in (*self.sizes, self.seed) if part is not None)
        files = fingerprint(*(self.root / name for name in (KB, TRAIN, TEST)))
        return f"{type(self).__name__.lower()}-a{ADAPTER}-{files}-{drawn}{self._model_version()}"

    @cached_property
    def kb(self) -> KnowledgeBase:
        """The knowledge base, with the remarks about it."""
        return read(self.root / KB)

    @property
    def tools(self) -> Mapping[str, ToolSpec]:
        """The 27 functions."""
        _ = self.root  # raises ConfigError if there is none
        return TOOLS

    @property
    def skipped(self) -> Sequence[Skipped]:
        """Facts of the knowledge base and records of both splits that cannot be used, each with a reason."""
        return (*self.kb.remarks, *self._tests[1], *self._trainings[1])

    @property
    def questions(self) -> Mapping[str, Question]:
        """The usable test questions by id. Raises ConfigError if there are none."""
        return self._tests[0]

    @cached_property
    def trainings(self) -> Sequence[Question]:
        """The usable training questions."""
        return tuple(self._trainings[0].values())

    def case_ids(self) -> Sequence[str]:
        """The first `limit` test questions."""
        return list(self.questions)[: self.limit]

    def cluster(self, case_id: str) -> str:
        """The functions of the program's DAG in order; questions with the same functions form one cluster."""
        return " ".join(step.function for step in self.questions[case_id].dag)

    def world(self, question: Question, answered: bool) -> KoplWorld:
        """The functions, which query the knowledge base."""
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
    """The released KQA Pro: questions drawn from `val.json` with `seed`, demonstrations from all of `train.json`.

    The drawn questions are balanced by the number of DAG nodes, and so is every prefix of them (`limit`). With `order`
    file, the questions keep their order in the file. A case is resolved if the answer equals the result of the
    question's program, however the planner found the answer. By default, a case's demonstrations do not include
    questions of the case's own template. Two questions have the same template if their programs differ only in entities
    and values.

    Args:
        demonstrations_from: the number of training questions to draw for demonstrations, also balanced by DAG nodes.
            None: all training questions whose programs give their answers.
        demonstrations_by: how the 'nearest' questions are found: by words (bm25), or by the cosine of their embeddings.
        demonstrations_hold_out: which training questions are not used as demonstrations for a case.
        hub: a sentence-transformers model on the hub; needs the extra `dense`.
        wheel: a wheel that contains the model's files, for use if the hub cannot be reached.
        sentence_model: a folder with a sentence-transformers model, instead of `hub` and `wheel`.
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
        """The configured numbers: `cases` and `demonstrations_from`."""
        return self.cases, self.demonstrations_from

    def case_ids(self) -> Sequence[str]:
        """The first `limit` of the drawn questions."""
        questions = list(self.questions.values())
        if self.order == "file":
            questions.sort(key=lambda question: int(question.id.rpartition("-")[2]))
        elif self.cases is None:  # all of them, in the file's order
            questions = list(balanced(questions, self.seed, nodes=lambda question: len(question.dag)))
        return [question.id for question in questions[: self.limit]]


@dataclass(config=STRICT)
class KqaSynthetic(Kqa):
    """A generated knowledge base with 500 test and 1,000 training questions, made once for each seed and cached.

    The questions are ordered so that every prefix is a balanced sample.
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
    """The cached folder for one seed."""
    return made_once("kqa", f"{digest_of(generate)}-s{seed}", (KB, TRAIN, TEST), partial(generate, seed=seed))


# Which questions of a split have programs that give their answers (planning_horizon B.1.1), determined once and cached.


_FAULTS = "faults.json"
_TOLD = 10_000
"""A line is logged each time this many programs have been run."""
_log = logging.getLogger(__name__)


def faults(root: Path, name: str, questions: Sequence[Question], run: Callable[[], Executor]) -> dict[str, str]:
    """Maps the id of each question with a fault to the reason why the question's program does not give its answer.

    The first time, all programs are run, several thousand per second. Later, the reasons come from the user's cache as
    long as both files and the code are unchanged. Raises DataError if the cache is damaged.
    """
    key = f"{fingerprint(root / KB, root / name)}-{digest_of(_write, executor)}"
    kept = made_once("kqa_faults", key, (_FAULTS,), partial(_write, questions=questions, run=run)) / _FAULTS
    found = read_json(kept)
    if not isinstance(found, dict) or not all(isinstance(reason, str) for reason in found.values()):
        raise DataError(kept, None, "the file is not an object of reasons; remove the file")
    return found


def _write(target: Path, questions: Sequence[Question], run: Callable[[], Executor]) -> None:
    execute, found = run(), dict[str, str]()
    for number, question in enumerate(questions, 1):
        reason = fault(question, execute)
        if reason is not None:
            found[question.id] = reason
        if number % _TOLD == 0:
            _log.info("%s of %s training questions run", f"{number:,}", f"{len(questions):,}")
    (target / _FAULTS).write_text(json.dumps(found), encoding="utf-8")


# `kqa_synthetic`: a seeded knowledge base and its questions, written to files in KQA Pro's format.


TESTS, TRAININGS = 500, 1000
MAX_NODES, MAX_DEPTH = 14, 10
UNSEEN = 1 / 3
"""Share of attributes and relations that no training question uses, as with GrailQA's zero-shot questions."""
CHOICE = 3
"""For each question that is chosen from a bin, this many questions are made for the bin."""
_ROUNDS = 20_000


def generate(target: Path, seed: int) -> None:
    """Write `kb.json`, `train.json` and `val.json` into an existing folder."""
    holds = world.load_world()
    kb = world.build(holds, world.load_names(), seed)
    run = executor(parse(kb, target / KB))
    known: set[str | Program] = set()
    trainings, tests = (
        _questions(Facts(kb, without), holds, run, derive_seed(seed, part), size, known)
        for part, size, without in ((TRAIN, TRAININGS, unseen(holds, seed)), (TEST, TESTS, set[str]()))
    )
    for name, content in ((KB, kb), (TEST, _records(tests)), (TRAIN, _records(trainings))):
        (target / name).write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")


def unseen(holds: world.WorldStock, seed: int) -> set[str]:
    """Draw the attributes and relations that no training question uses: an equal share of each of the two."""
    rng = random.Random(derive_seed(seed, "unseen"))
    parts = ("attributes", "relations")
    keys = [sorted({key for cls in holds.classes.values() for key in getattr(cls, part)}) for part in parts]
    return {key for part in keys for key in rng.sample(part, round(UNSEEN * len(part)))}


def _questions(
    facts: Facts, holds: world.WorldStock, run: Executor, seed: int, size: int, known: set[str | Program]
) -> list[Question]:
    """The questions of one split: a sample balanced by number of nodes, then depth, then last function."""
    words, rng = load_words(holds), random.Random(seed)
    maker = Questions(facts, words, Phrases(facts, words, holds, run, rng), rng)
    pool = _pool(maker, run, size, known)
    within = (lambda question: question.depth, lambda question: question.last)
    return list(islice(balanced(pool, seed, lambda question: len(question.dag), within=within), size))


def _pool(maker: Questions, run: Executor, size: int, known: set[str | Program]) -> list[Question]:
    """Make questions with answers until each bin has `CHOICE` times its share; skip texts and DAGs in `known`."""
    found: list[Question] = []
    full: Counter[str] = Counter()
    wanted = CHOICE * size // len(bins(KQA))
    for _ in range(_ROUNDS):
        for function in maker.makers:
            try:
                draft = maker.make(function)
            except Dead:
                continue
            dag = draft.tree.dag()
            name = bin_of(len(dag))
            if full[name] >= wanted or draft.text in known or dag in known:
                continue
            answer = _answer(draft, dag, run)
            if answer is None:
                continue
            found.append(Question("", f"{draft.text[0].upper()}{draft.text[1:]}", draft.tree.program(), answer))
            known |= {draft.text, dag}
            full[name] += 1
        if all(full[name] >= wanted for name in bins(KQA)):
            return found
    raise ValueError(f"the stock gives too few questions: {dict(full)}")


def _answer(draft: Draft, dag: Program, run: Executor) -> str | None:
    """The draft's only answer; None if it has no answer or several answers, or if the program is too large."""
    if len(dag) > MAX_NODES or depth(dag) > MAX_DEPTH:
        return None
    try:
        values = set(run(dag))
    except KoplError:
        return None
    if len(values) != 1 or "not sure" in values:
        return None
    return values.pop()


def _records(questions: list[Question]) -> list[dict[str, object]]:
    return [question.record() for question in questions]
