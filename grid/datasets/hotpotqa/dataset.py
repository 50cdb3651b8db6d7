"""Multi-objective HotpotQA (planning_horizon §4.1, B.1.3): several independent questions, answered through searches."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache, partial
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import Field
from pydantic.dataclasses import dataclass

from grid.code_digest import digest_of
from grid.core.errors import ConfigError, DataError
from grid.core.problem import BRANCHING, DEMONSTRATIONS, EXAMINED, HIDDEN, REFERENCES, SIMULATED, Problem, Reference
from grid.core.types import Case, Demonstration, Json, Plan, Skipped, ToolSpec, Trajectory, to_json
from grid.core.untrusted import loads
from grid.core.util import STRICT, made_once
from grid.datasets.dataset import RecordDataset, Stratum
from grid.datasets.files import fingerprint, read_jsonl
from grid.datasets.grading import NUMBERED, WITHOUT_AN_ANSWER
from grid.datasets.hotpotqa.parts import (
    BRIDGE,
    COMPARISON,
    KINDS,
    MAX_PARAGRAPH_CHARACTERS,
    MAX_QUESTION_CHARACTERS,
    OF_DEMONSTRATIONS,
    Constants,
    Part,
    PartStep,
    Sample,
    bounds,
    draw,
    objects,
    one_line,
    part_of,
    question,
)
from grid.datasets.question_answering import HoldOut, Nearest, question_words, sentence_model_folder
from grid.engines.wheels import Hub
from grid.retrievers.scored import Scorer, bm25_texts, dense_texts, embedder_of
from grid.retrievers.sources import Wheel
from grid.retrievers.sources import fingerprint as model_fingerprint
from grid.text.answers import exact_match, f1, parts_of
from grid.text.words import TERMS, terms
from grid.worlds.readers import Corpus, Paragraph
from grid.worlds.search import TOOLS, QuestionWorld

ADAPTER = 2
"""Increase this number when changed code yields different cases or outcomes for the same files."""
SEVERAL = "A request with numbered questions is answered by finishing with one numbered line for each, in their order."
SHORT = "An answer is short: a name, a date, a number, yes or no."
_OBJECTIVES = re.compile(r"([1-9])(?:\.\.([1-9]))?")


@dataclass(config=STRICT)
class HotpotQAMulti(RecordDataset[Sample]):
    """Cases from a distractor file: `cases` for each number of questions in `objectives`.

    The cases with a given number of questions are drawn with `seed` plus this number.

    A case is resolved when all its parts are answered correctly (by HotpotQA's exact match) and in order; `answer_em`
    and `answer_f1` are means over the parts. A case's cluster is the set of its questions, whatever their order. By
    default, a case's demonstrations contain no question that differs from one of the case's questions only in names.
    Cases in different clusters can share questions (`--stats` shows how often). Confidence intervals therefore apply
    only to further cases that are made from the same questions.

    Args:
        path: the file, or a folder that contains it.
        objectives: a number of questions from 1 to 9, or a range such as 1..5.
        train: the file with questions for demonstrations; without it, half of the questions in `path` are used.
        corpus: JSON Lines with titles and texts to search; without it, the paragraphs of all questions are searched.
        retrieval: how paragraphs are retrieved: by their words, or by the cosine of their embeddings.
        paragraphs: the maximum number of paragraphs that a search uses (settings for tool robustness have their own
            number).
        demonstrations_from: for each number of questions, how many cases are drawn for demonstrations.
        demonstrations_by: how the 'nearest' solved cases are found: by words, or by the cosine of embeddings.
        demonstrations_hold_out: which solved cases are not used as demonstrations for a case: cases with a question
            that differs from one of the case's questions only in names, or only the case itself.
        hub, wheel, sentence_model, query_prefix: the embedding model, configured as for a dense retriever.
    """

    provides: ClassVar[frozenset[str]] = frozenset({DEMONSTRATIONS, BRANCHING, REFERENCES, EXAMINED, SIMULATED})
    path: str | None = None
    train: str | None = None
    corpus: str | None = None
    objectives: int | str = "1..5"
    cases: Annotated[int, Field(ge=1, le=100_000)] = 200
    retrieval: Literal["bm25", "dense"] = "bm25"
    paragraphs: Annotated[int, Field(ge=1, le=100)] = 10
    demonstrations_from: Annotated[int, Field(ge=1, le=100_000)] = 400
    demonstrations_by: Literal["bm25", "embeddings"] = "bm25"
    demonstrations_hold_out: HoldOut = "template"
    hub: Hub | None = None
    wheel: Wheel | None = None
    sentence_model: str | None = None
    query_prefix: str = ""
    seed: Annotated[int, Field(ge=0)] = 42

    def __post_init__(self) -> None:
        """Raise ConfigError if `objectives` is neither a number from 1 to 9 nor a range of them that does not fall."""
        match = _OBJECTIVES.fullmatch(str(self.objectives))
        if match is None or int(match[1]) > int(match[2] or match[1]):
            allowed = "a number from 1 to 9, or a range such as 1..5"
            raise ConfigError("dataset.objectives", self.objectives, allowed)

    @cached_property
    def version(self) -> str:
        """The adapter, the files' fingerprint, the seed, the number of cases, and the fingerprint of a model folder."""
        drawn = f"{self.seed}-{self.cases}"
        embeds = self.retrieval == "dense" or self.demonstrations_by == "embeddings"
        own = f"-{model_fingerprint(self._model)}" if embeds and self.sentence_model is not None else ""
        return f"hotpotqa-multi-a{ADAPTER}-{fingerprint(*self._files)}-{drawn}{own}"

    @property
    def tools(self) -> Mapping[str, ToolSpec]:
        """`search` and `commonsense`."""
        _ = self._files  # raises ConfigError if there is none
        return TOOLS

    @cached_property
    def skipped(self) -> Sequence[Skipped]:
        """Unusable records, invalid paragraphs, and numbers of parts for which there are too few questions."""
        short = [
            Skipped(f"k={number}", f"{self.cases} cases are asked for, but only {len(found)} can be drawn")
            for number, found in self._drawn.items()
            if len(found) < self.cases
        ]
        lacking = [
            Skipped(f"k={number}", "there are too few questions for demonstrations with so many parts")
            for number in self.numbers
            if bounds(self.trainings, number) is None
        ]
        files = [skip for pool in self._pools for skip in pool.skipped]
        return (*short, *lacking, *files, *self._own_corpus[1])

    @property
    def numbers(self) -> range:
        """The numbers of parts for which there are cases."""
        first, _, last = str(self.objectives).partition("..")
        return range(int(first), int(last or first) + 1)

    @cached_property
    def records(self) -> Mapping[str, Sample]:
        """All cases by id."""
        return {
            f"k{number}-{place:04d}": Sample(f"k{number}-{place:04d}", parts)
            for number, found in self._drawn.items()
            for place, parts in enumerate(found)
        }

    @property
    def parts(self) -> Sequence[Part]:
        """The questions from which cases are made."""
        return self._split[0]

    @property
    def trainings(self) -> Sequence[Part]:
        """The questions from which demonstrations are made. No case contains any of these questions."""
        return self._split[1]

    def strata(self) -> Sequence[Stratum]:
        """Two levels of strata: the number of questions, then the sequence of their types."""
        return lambda case: str(len(self.records[case].parts)), lambda case: " ".join(self.records[case].kinds)

    def cluster(self, case_id: str) -> str:
        """The questions of a case. Cases with the same questions in different orders belong to one cluster.

        The sequence of the parts' types cannot be the cluster, because this sequence determines the number of
        parts and the regression's control variables.
        """
        return " ".join(sorted(part.id for part in self.records[case_id].parts))

    def problem(self, case_id: str) -> Problem:
        """One case, with the data set's two tools."""
        sample = self.records[case_id]
        world = self.world(sample)
        notes = (SHORT, SEVERAL) if len(sample.parts) > 1 else (SHORT,)
        return Problem(
            case=Case(case_id, sample.query, Plan(()), answered=world.answered, notes=notes),
            reference=Reference(sample.calls(), sample.resolution(), followed=False),
            world=world,
            candidates=lambda case, substep: tuple(TOOLS.values()),
            library=TOOLS,
            same_function={},
            own=tuple(TOOLS),
            demonstrations=partial(self.demonstrations, case_id),
            measure=partial(_measured, world.wanted),
            examine=partial(NUMBERED.graded, sample.query, sample.answer),
            baselines=partial(self.constants.right, sample),
            controls={"has_bridge": BRIDGE in sample.kinds, "has_comparison": COMPARISON in sample.kinds},
        )

    def unsolved(self, case_id: str) -> Mapping[str, Any]:
        """The scores of an aborted episode, which has no answer."""
        return {**WITHOUT_AN_ANSWER}

    def world(self, sample: Sample) -> QuestionWorld:
        """The tools of a case. If an outline is shown, the case ends with the outline, without a final answer."""
        wanted = tuple(part.answer for part in sample.parts)
        return QuestionWorld(self.searched, wanted, sample.evidence(), self.paragraphs, self.outline == HIDDEN)

    def demonstrations(self, case_id: str, count: int) -> tuple[Demonstration, ...]:
        """The most similar solved cases with the same number of questions, most similar first (B.1.3).

        By default, solved cases that share a part's template with the case are left out, unlike in the paper.
        """
        sample = self.records[case_id]
        held_out = sample.templates if self.demonstrations_hold_out == "template" else frozenset[str]()
        return self._nearest[len(sample.parts)](sample.query, count, held_out)

    @cached_property
    def searched(self) -> Corpus:
        """The paragraphs that are searched."""
        model = self._model if self.retrieval == "dense" else None
        own = self._own_corpus[0]
        return corpus_of((own,) if own else tuple(pool.paragraphs for pool in self._pools), model, self.query_prefix)

    @cached_property
    def constants(self) -> Constants:
        """Constant answers, computed from the questions for demonstrations."""
        return Constants(self.trainings)

    @cached_property
    def _files(self) -> tuple[Path, ...]:
        named = {"path": self.path} | {key: value for key in ("train", "corpus") if (value := getattr(self, key))}
        return tuple(file_of(f"dataset.{key}", value) for key, value in named.items())

    @cached_property
    def _pools(self) -> list[Pool]:
        keys = ("dataset.path", "dataset.train") if self.train else ("dataset.path",)
        return [read_pool(key, path) for key, path in zip(keys, self._files, strict=False)]

    @cached_property
    def _own_corpus(self) -> tuple[tuple[Paragraph, ...], tuple[Skipped, ...]]:
        return read_paragraphs(self._files[-1]) if self.corpus else ((), ())

    @cached_property
    def _split(self) -> tuple[Sequence[Part], Sequence[Part]]:
        """The questions for cases, and the questions for demonstrations."""
        first = self._pools[0].parts
        return (first, others(self._pools[1].parts, first)) if self.train else halved(first)

    @cached_property
    def _drawn(self) -> dict[int, list[tuple[Part, ...]]]:
        """The parts of each case, by number of parts. Raises ConfigError if there are too few questions."""
        for number in self.numbers:
            if bounds(self.parts, number) != (0, number) and (number > 1 or not self.parts):
                of = {kind: sum(part.kind == kind for part in self.parts) for kind in (BRIDGE, COMPARISON)}
                half = "" if self.train else " (half of the file; with dataset.train=FILE, the whole file)"
                told = " and ".join(f"{count} {kind}" for kind, count in of.items())
                allowed = f"at most {max(1, min(of.values()))}, because there are {told} questions to draw from{half}"
                raise ConfigError("dataset.objectives", self.objectives, allowed)
        return {number: draw(self.parts, number, self.cases, self.seed + number) for number in self.numbers}

    @cached_property
    def _nearest(self) -> dict[int, Nearest[Demonstration]]:
        """For each number of parts, the solved cases with that many parts."""
        return {number: self._solved(number) for number in self.numbers}

    def _solved(self, number: int) -> Nearest[Demonstration]:
        seed = self.seed + OF_DEMONSTRATIONS + number
        drawn = draw(self.trainings, number, self.demonstrations_from, seed)
        samples = [Sample(str(place), parts) for place, parts in enumerate(drawn)]
        texts = [sample.query for sample in samples]
        parts = [frozenset(part.id for part in sample.parts) for sample in samples]
        templates = [sample.templates for sample in samples]
        return Nearest(texts, lambda place: _demonstration(samples[place]), self._scorer(texts), templates, parts)

    def _scorer(self, texts: Sequence[str]) -> Scorer:
        if self.demonstrations_by == "bm25":
            return bm25_texts(lambda: texts, question_words)
        return dense_texts(lambda: texts, lambda: embedder_of(self._model), self.query_prefix)

    @cached_property
    def _model(self) -> Path:
        """The folder of the sentence model. Raises ConfigError if there is no model, or no package that can load it."""
        dense = self.retrieval == "dense"
        asked_by = ("dataset.retrieval", "dense") if dense else ("dataset.demonstrations_by", self.demonstrations_by)
        return sentence_model_folder(self.hub, self.wheel, self.sentence_model, asked_by)


def _demonstration(sample: Sample) -> Demonstration:
    return Demonstration(sample.query, sample.calls(), sample.answer, sample.resolution())


def _measured(wanted: Sequence[str], trajectory: Trajectory) -> Mapping[str, Any]:
    """HotpotQA's official exact match and F1, averaged over parts; no arguments are compared, so `usage` is None."""
    pairs = list(zip(parts_of(trajectory.answer, len(wanted)), wanted, strict=True))
    return {
        "usage": None,
        "answer_em": fmean(exact_match(given, right) for given, right in pairs),
        "answer_f1": fmean(f1(given, right) for given, right in pairs),
    }


# The paragraphs that are searched, prepared once per process for all data sets with the same files.


@lru_cache(maxsize=4)
def corpus_of(paragraphs: tuple[tuple[Paragraph, ...], ...], model: Path | None, query_prefix: str) -> Corpus:
    """A corpus of the paragraphs of several pools, each paragraph once.

    The corpus is searched by embeddings or, if there is no model, by words.
    """
    distinct = tuple(dict.fromkeys(one for part in paragraphs for one in part))

    def texts() -> Sequence[str]:
        return [one.shown for one in distinct]

    if model is None:
        return Corpus(distinct, bm25_texts(texts, terms, TERMS))
    return Corpus(distinct, dense_texts(texts, lambda: embedder_of(model), query_prefix), matching=False)


# Reads each of HotpotQA's files once per process, as a pool of parts and paragraphs, and splits a file into two pools.


CORPUS = "dataset.corpus"
DEV, SAMPLE = "hotpot_dev_distractor_v1.json", "distractor_sample.jsonl"
"""If a folder is given, its first existing file with one of these names is used."""


def file_of(key: str, path: str | None) -> Path:
    """The file at `path` or, if that is a folder, a file in it. Raises ConfigError for `key` if there is no file."""
    paragraphs = "a JSON Lines file with title and text"
    questions = f"a file of HotpotQA's distractor setting, or a folder with {DEV} or {SAMPLE}"
    allowed = paragraphs if key == CORPUS else questions
    if path is None:
        raise ConfigError(key, None, allowed)
    named = Path(path).expanduser()
    try:
        if named.is_dir():
            named = next((named / name for name in (DEV, SAMPLE) if (named / name).is_file()), named)
        if named.is_file():
            return named
    except OSError as error:  # for example, because a name is too long
        raise ConfigError(key, f"{path:.80}", f"{allowed} ({error.strerror})") from None
    raise ConfigError(key, path, allowed)


def read_pool(key: str, path: Path) -> Pool:
    """Read a file of questions.

    Raises:
        DataError: the file is broken, or its cached content is damaged.
        ConfigError: no question lists a paragraph, or no question can be a part of a case.
    """
    pool = _read(path, *_state(path))
    if not pool.paragraphs:
        raise ConfigError(
            key,
            str(path),
            "questions that list their paragraphs (`context`), as in HotpotQA's distractor setting; "
            f"none of {pool.records:,} records here lists paragraphs{_commonest(pool.skipped)}",
        )
    if not pool.parts:
        allowed = f"questions with two supporting paragraphs; none of {pool.records:,} records here can be used"
        raise ConfigError(key, str(path), f"{allowed}{_commonest(pool.skipped)}")
    return pool


@lru_cache(maxsize=4)
def _read(path: Path, size: int, changed: int) -> Pool:
    """A file's pool, cached as long as the file's size and modification time stay the same."""
    return kept(path, _made)


def _made(path: Path) -> Pool:
    parts: dict[str, Part] = {}
    texts: dict[str, str] = {}
    paragraphs: dict[Paragraph, None] = {}
    skipped, records = list[Skipped](), 0
    for place, record in objects(path):
        records += 1
        identity = place
        try:
            found = question(record)
            identity = f"{place}, {found.id}"
            paragraphs.update(dict.fromkeys(Paragraph(context.title, context.text) for context in found.contexts))
            if found.id in parts:
                raise ValueError("an earlier record has this _id")
            if found.text in texts:
                raise ValueError(f"the question is the same as in {texts[found.text]}")
            parts[found.id] = part_of(found)
            texts[found.text] = found.id
        except ValueError as error:
            skipped.append(Skipped(identity, str(error)))
    return Pool(tuple(parts.values()), tuple(paragraphs), tuple(skipped), records)


def read_paragraphs(path: Path) -> tuple[tuple[Paragraph, ...], tuple[Skipped, ...]]:
    """The paragraphs of a file of JSON Lines with `title` and `text`, each once, and the lines without a paragraph.

    Raises:
        DataError: the file is broken.
        ConfigError: the file has no paragraph.
    """
    found, skipped = _paragraphs(path, *_state(path))
    if not found:
        raise ConfigError(CORPUS, str(path), f"JSON Lines with title and text{_commonest(skipped)}")
    return found, skipped


@lru_cache(maxsize=2)
def _paragraphs(path: Path, size: int, changed: int) -> tuple[tuple[Paragraph, ...], tuple[Skipped, ...]]:
    found: dict[Paragraph, None] = {}
    skipped = []
    for number, record in read_jsonl(path):
        title, text = record.get("title"), record.get("text")
        if not isinstance(title, str) or not isinstance(text, str) or not one_line(title) or not one_line(text):
            skipped.append(Skipped(f"corpus, line {number}", "title and text must be texts that are not empty"))
        elif len(title) > MAX_QUESTION_CHARACTERS or len(text) > MAX_PARAGRAPH_CHARACTERS:
            why = f"the paragraph has more than {MAX_PARAGRAPH_CHARACTERS:,} characters"
            skipped.append(Skipped(f"corpus, line {number}", why))
        else:
            found[Paragraph(one_line(title), one_line(text))] = None
    return tuple(found), tuple(skipped)


def halved(parts: Sequence[Part]) -> tuple[list[Part], list[Part]]:
    """Halve the parts of each kind, sorted by the hashes of their ids: one half for cases, one for demonstrations.

    Every second part goes into the second half. Both lists keep the parts' order. If a kind has an odd number of parts,
    the first list gets one part more.
    """
    for_cases: set[str] = set()
    for kind in KINDS:
        own = sorted((part.id for part in parts if part.kind == kind), key=_hashed)
        for_cases.update(own[::2])
    return [part for part in parts if part.id in for_cases], [part for part in parts if part.id not in for_cases]


def others(parts: Iterable[Part], used: Iterable[Part]) -> list[Part]:
    """The parts that have neither the id nor the question of any used part."""
    used = list(used)
    ids, texts = {part.id for part in used}, {part.question for part in used}
    return [part for part in parts if part.id not in ids and part.question not in texts]


def _hashed(identity: str) -> str:
    return hashlib.sha256(identity.encode("utf-8", "replace")).hexdigest()


def _state(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_size, found.st_mtime_ns


def _commonest(skipped: Sequence[Skipped]) -> str:
    """The most frequent reason in `skipped`, as a text for an error message."""
    reasons = Counter(skip.reason for skip in skipped).most_common(1)
    return f" (most frequent reason: {reasons[0][0]:.120})" if reasons else ""


# The pool of a large file is stored in the user's cache, which is read in seconds; reading the file itself takes a
# minute.


_LARGE = 100_000_000
"""A file's pool is cached if the file has at least this many bytes."""
_PARTS, _PARAGRAPHS, _SKIPPED, _COUNT = "parts.jsonl", "paragraphs.jsonl", "skipped.jsonl", "records.json"


class Pool(NamedTuple):
    """A file of questions: its parts in order, its paragraphs (each once), and the records that cannot be parts.

    `records` is the number of records in the file.
    """

    parts: tuple[Part, ...]
    paragraphs: tuple[Paragraph, ...]
    skipped: tuple[Skipped, ...]
    records: int


def kept(path: Path, make: Callable[[Path], Pool]) -> Pool:
    """The pool of a file. The pool comes from the cache if the file is large, and the file and the code are unchanged.

    Raises DataError if the cache is damaged; also passes on every error that `make` raises.
    """
    if path.stat().st_size < _LARGE:
        return make(path)
    key = f"{fingerprint(path)}-{digest_of(make)}"
    folder = made_once("hotpotqa", key, (_PARTS, _PARAGRAPHS, _SKIPPED, _COUNT), partial(_write, partial(make, path)))
    try:
        (count,) = _lines(folder / _COUNT)
        return Pool(
            tuple(_part(*line) for line in _lines(folder / _PARTS)),
            tuple(Paragraph(*line) for line in _lines(folder / _PARAGRAPHS)),
            tuple(Skipped(*line) for line in _lines(folder / _SKIPPED)),
            int(*count),
        )
    except (OSError, ValueError, TypeError, RecursionError):
        raise DataError(folder, None, "the cached content of a file cannot be read; remove the folder") from None


def _write(make: Callable[[], Pool], target: Path) -> None:
    pool = make()
    written: dict[str, Iterator[Json]] = {
        _PARTS: map(_told, pool.parts),
        _PARAGRAPHS: ([one.title, one.text] for one in pool.paragraphs),
        _SKIPPED: ([skip.record, skip.reason] for skip in pool.skipped),
        _COUNT: iter([[pool.records]]),
    }
    for name, lines in written.items():
        with (target / name).open("w", encoding="utf-8") as file:
            file.writelines(f"{to_json(line)}\n" for line in lines)


def _lines(file: Path) -> Iterator[list[Any]]:
    """The lists in a file written by `_write`."""
    with file.open(encoding="utf-8") as lines:
        for line in lines:
            yield loads(line)


def _told(part: Part) -> Json:
    steps: list[Json] = [[step.tool, [*step.pieces], step.result, step.title] for step in part.steps]
    return [part.id, part.question, part.answer, part.kind, steps]


def _part(identity: str, question: str, answer: str, kind: str, steps: Iterable[Sequence[Any]]) -> Part:
    own = (PartStep(tool, tuple(pieces), result, title) for tool, pieces, result, title in steps)
    return Part(identity, question, answer, kind, tuple(own))
