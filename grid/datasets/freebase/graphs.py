"""Where the answers come from: the witness graph, a graph of one's own, or an endpoint that has Freebase."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias

from grid.code_digest import digest_of
from grid.core.errors import ConfigError, DataError, EngineError
from grid.core.types import Skipped
from grid.core.util import made_once
from grid.datasets.files import fingerprint, read_json
from grid.datasets.freebase import witness
from grid.datasets.freebase.ontology import CLASSES, INVERSES, ROLES, Ontology, read_ontology
from grid.datasets.freebase.planting import unnamed
from grid.datasets.freebase.records import Question, released_names
from grid.worlds.kopl.queries import same_answer
from grid.worlds.sparql import programs
from grid.worlds.sparql.endpoint import EndpointGraph
from grid.worlds.sparql.graph import KnowledgeGraph, Limits, StoreGraph, text_of
from grid.worlds.sparql.queries import Dialect, SparqlError

WITNESS = "-witness"
"""What a dataset's version holds where its facts are invented; reports look for it."""
SCHEMA = (ROLES, CLASSES, INVERSES)
_CURRENT = "CURRENT"
"""The file by which a folder is known for a store."""


_ASKED = "asked.json"
Draw: TypeAlias = Callable[[Callable[[Question], str | None]], tuple[list[Question], list[Skipped]]]


class Kept(NamedTuple):
    """Cases' questions, questions that are shown solved, and what is neither."""

    tests: list[Question]
    trainings: list[Question]
    skipped: list[Skipped]


class Source(Protocol):
    """A graph, or several, that questions are asked of."""

    @property
    def version(self) -> str:
        """Changes when any answer does, as far as that can be known."""
        ...

    @property
    def remarks(self) -> Sequence[Skipped]:
        """What of the graph's own files cannot be used."""
        ...

    def fault(self, question: Question) -> str | None:
        """Why a question does not have its answers here; None where it has (B.1.2, 'Validation')."""
        ...

    def graph(self, question: Question) -> KnowledgeGraph:
        """The graph that a question is asked of."""
        ...


class Witnessed:
    """Graphs invented for questions, made once for the same questions, schema and seed, and cached.

    Args:
        questions: in an order that is always the same; of equal S-expressions one is enough.
        folder: of the ontology.
        key: tells the questions from others, by their files and how they are drawn.
    """

    def __init__(self, questions: Sequence[Question], folder: Path, key: str, seed: int) -> None:
        self._questions, self._folder, self._key, self._seed = questions, folder, key, seed

    @cached_property
    def root(self) -> Path:
        """The folder with the graphs' files."""
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
        """Of the facts."""
        return f"{WITNESS.removeprefix('-')}-{fingerprint(self.root / witness.FACTS)}"

    @property
    def remarks(self) -> Sequence[Skipped]:
        """Lines of the ontology."""
        return self.ontology.skipped

    @cached_property
    def account(self) -> Mapping[str, Any]:
        """What `witness.write` says of the graphs."""
        found = read_json(self.root / witness.ACCOUNT)
        if not isinstance(found, dict) or not all(isinstance(found.get(key), dict) for key in ("shards", "left_out")):
            raise DataError(self.root / witness.ACCOUNT, None, "an account of graphs is expected: remove the folder")
        return found

    def fault(self, question: Question) -> str | None:
        """As the account says."""
        if question.form in self.account["shards"]:
            return None
        reason = self.account["left_out"].get(question.form, "it is in no graph")
        return f"it cannot have its answers in invented facts: {reason}"

    def graph(self, question: Question) -> StoreGraph:
        """The graph in which it has its answers."""
        number: int = self.account["shards"][question.form]
        return self.graphs[number]

    @cached_property
    def graphs(self) -> Sequence[StoreGraph]:
        """All of them."""
        store = programs.opened(self.root / witness.STORE)
        return [StoreGraph(store, witness.shard_name(number)) for number in range(self.account["graphs"])]


class Asked:
    """One graph of which questions are asked before they are cases.

    Args:
        only: the graph.
        version: of it.
        remarks: what of its files cannot be used.
    """

    def __init__(self, only: KnowledgeGraph, version: str, remarks: Sequence[Skipped] = ()) -> None:
        self._graph, self.version, self.remarks = only, version, remarks
        self._names: dict[str, str] = {}

    def fault(self, question: Question) -> str | None:
        """Whether its S-expression denotes other things than its answers."""
        try:
            if question.unnamed:
                self._names |= self._graph.names(question.unnamed)
            reason = unnamed(question.known_as(self._names))
            if reason is not None:
                return reason
            found = {text_of(node) for node in self._graph.denotes(question.expression)}
        except SparqlError as error:
            return f"its S-expression cannot be asked for: {error}"
        wanted = {answer.value for answer in question.answers}
        return None if same_answer(found, wanted) else "its S-expression has other answers in this graph"

    def graph(self, question: Question) -> KnowledgeGraph:
        """The only one."""
        return self._graph

    def kept(self, key: str, draw: Draw, others: Sequence[Question]) -> Kept:
        """The questions that are drawn and have their answers here, asked once for each graph and kept.

        `draw` is given what says why a question is no case; `key` tells what it draws from. `others` are asked for
        names only.
        """
        known = f"{digest_of(type(self))}-{hashlib.sha256(f'{self.version} {key}'.encode()).hexdigest()[:16]}"
        ask = partial(self._ask, draw=draw, others=others)
        place = made_once("freebase_asked", known, (_ASKED,), ask) / _ASKED
        found = read_json(place)
        if not isinstance(found, dict) or not all(isinstance(found.get(part), dict) for part in ("faults", "names")):
            raise DataError(place, None, "faults and names are expected: remove the file")
        questions, skipped = draw(lambda question: found["faults"].get(question.id))
        tests, trainings = ([one.known_as(found["names"]) for one in part] for part in (questions, others))
        return Kept(tests, trainings, skipped)

    def _ask(self, target: Path, draw: Draw, others: Sequence[Question]) -> None:
        try:
            skipped = draw(self.fault)[1]
            self._names |= self._graph.names(sorted({identity for question in others for identity in question.unnamed}))
        except EngineError as error:
            raise ConfigError("dataset.endpoint", self.version, f"a server that answers ({error})") from None
        told = {"faults": {skip.record: skip.reason for skip in skipped}, "names": self._names}
        (target / _ASKED).write_text(json.dumps(told), encoding="utf-8")


def own_graph(path: str, name: str | None, limits: Limits) -> Asked:
    """A graph of facts in a file (N-Triples or N-Quads, `.gz` too), put into a store once, or in a store's folder.

    Raises:
        ConfigError: there is neither.
        DataError: it cannot be read.
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
        remarks.append(Skipped(place.name, f"{more:,} more lines that cannot be used"))
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
    """A graph behind an endpoint, which is taken to stay the same; raises ConfigError where the URL is none."""
    place = hashlib.sha256(f"{url} {name} {dialect} {limits.seconds:g}".encode()).hexdigest()[:12]
    return Asked(EndpointGraph(url, name, dialect, limits), f"endpoint-{place}")
