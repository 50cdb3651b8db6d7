"""TRAJECT-Bench, the released `public_data` folder as cases (traject_bench §3, §4.1).

The tools of a domain are those of its file; many stand in several files, and a case sees those of its own domain with
that domain as their category. 250 of the 587 names that the files define come in two to five of them, mostly under the
same definition; the first holds. What the model is shown of a tool is what the authors' prompts show: name,
description, parameters with types, descriptions and defaults.

A quarter of the sequential queries (315 of 1,270) call tools that no file defines (25 tools). Without them most of
Mapping and half of Gaming would be left out, so each such tool is defined from the records that call it: by its name
and description, and the parameters that they give (`tools.library`). Its domain offers it like all others. `skipped`
names each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, NamedTuple

from pydantic import Field
from pydantic.dataclasses import dataclass

from grid.core.errors import ConfigError
from grid.core.problem import BRANCHING, EXAMINED, REFERENCES, Answering, Outline, Problem
from grid.core.reference import Reference
from grid.core.strict import STRICT
from grid.core.types import Case, Plan, Skipped, ToolCall, ToolSpec, Trajectory
from grid.datasets.files import fingerprint
from grid.datasets.sampling import Order, ordered
from grid.datasets.traject_bench.examine import examined
from grid.datasets.traject_bench.records import (
    FILES,
    SUFFIX,
    TOOLS,
    Kind,
    Level,
    Record,
    domains,
    read_queries,
    read_tools,
)
from grid.datasets.traject_bench.tools import Tools, library, respelled
from grid.datasets.traject_bench.world import arguments, called, world
from grid.metrics.failure_patterns import Likeness, failure_patterns

ADAPTER = 1
"""Raise when the same files give other cases, tools or outcomes."""
PUBLIC = "public_data"


class _Read(NamedTuple):
    records: Mapping[str, Record]
    tools: Tools
    skipped: Sequence[Skipped]


@dataclass(config=STRICT)
class TrajectBench:
    """The queries of one kind (`parallel`, where `level` is simple or hard, or `sequential`), of one domain or of all.

    A parallel query's calls have no order. A case is resolved when every recorded call was made with its arguments, in
    any order and whatever else was called. Its `own` tools are the reference's: the benchmark names no candidates. The
    final answer counts only where every step of a sequential record succeeded: others' answers rest on failed calls.
    `without` names domains whose queries are left out; their tools stay in the library. So the authors' scripts leave
    out Finance where all of its tools would stand in the prompt. `limit` draws a sample: domains, numbers of calls and
    clusters have their shares (`order`).
    """

    provides: ClassVar[frozenset[str]] = frozenset({BRANCHING, EXAMINED, REFERENCES})
    path: str | None = None
    kind: Kind = "parallel"
    level: Level | None = None
    domain: str | None = None
    without: list[str] = field(default_factory=list)
    limit: Annotated[int, Field(ge=1)] | None = None
    order: Order = "sampled"
    outline: Outline = "hidden"
    answering: Answering = "after"

    def __post_init__(self) -> None:
        if self.kind == "sequential" and self.level is not None:
            raise ConfigError(
                "dataset.level", self.level, "null where dataset.kind is sequential: these have no levels"
            )

    @cached_property
    def root(self) -> Path:
        """The `public_data` folder; its parent is accepted too."""
        needed = f"{PUBLIC}, with {TOOLS}/*{SUFFIX} and {self.kind}/*/{self._file}"
        if self.path is None:
            raise ConfigError("dataset.path", None, f"the released folder {needed}")
        for root in (Path(self.path).expanduser() / PUBLIC, Path(self.path).expanduser()):
            if domains(root, self.kind, self._file) and (root / TOOLS).is_dir():
                return root
        raise ConfigError("dataset.path", self.path, f"the released folder {needed}")

    @cached_property
    def version(self) -> str:
        """The adapter's version and the files' fingerprint."""
        files = (*self._tool_files.values(), *self._query_files.values())
        return f"traject_bench-a{ADAPTER}-{fingerprint(*files)}"

    @cached_property
    def tools(self) -> Mapping[str, ToolSpec]:
        """All domains' tools; their category is the asked domain where it has them, else the first that does."""
        found = self._read.tools
        return self._library(self.domain) if self.domain else MappingProxyType(found.specs)

    @property
    def skipped(self) -> Sequence[Skipped]:
        """Queries that cannot be cases, and tools that are defined from the records."""
        return self._read.skipped

    def case_ids(self) -> Sequence[str]:
        """The first `limit` of the usable queries."""
        records = self._read.records
        strata = (lambda name: records[name].domain, lambda name: str(len(records[name].steps)), self.cluster)
        return ordered(list(records), self.order, strata)[: self.limit]

    def cluster(self, case_id: str) -> str:
        """The trajectory.

        The simple and the hard query for a parallel one share it; sequential ones share a template, which is the list
        of tools.
        """
        record = self._read.records[case_id]
        if self.kind == "parallel":
            return f"{record.domain}-{case_id.rpartition('-')[2]}"
        return " > ".join((record.domain, *(step.tool for step in record.steps)))

    def problem(self, case_id: str) -> Problem:
        """One query with its tools, played from the record."""
        record = self._read.records[case_id]
        tools, steps = self._library(record.domain), called(record.steps)
        played = world(steps, tools)
        reference = Reference(
            {place: ToolCall(step.tool, arguments(step)) for place, step in steps.items()},
            tuple(steps),
            followed=False,
            ordered=self.kind == "sequential",
            answer=_answer(record),
            failing=frozenset().union(*(entry.substeps for entry in played.entries if entry.outcome.failed)),
        )
        return Problem(
            case=Case(case_id, record.query, Plan(())),
            reference=reference,
            world=played,
            candidates=lambda case, substep: tuple(tools.values()),
            library=tools,
            same_function={},
            domain=record.domain,
            own=tuple(dict.fromkeys(step.tool for step in record.steps)),
            measure=partial(_measured, reference, self._likeness(record.domain)),
            examine=partial(examined, record.query, reference.answer, tools),
        )

    def unsolved(self, case_id: str) -> Mapping[str, Any]:
        """Of an episode that broke off: no tools that satisfy, and no answer where one was to be given."""
        right = _answer(self._read.records[case_id])
        return {"traj_satisfy": 0.0, "accuracy": False if right else None}

    @property
    def _file(self) -> str:
        return FILES[self.kind, None if self.kind == "sequential" else self.level or "simple"]

    @cached_property
    def _domains(self) -> list[str]:
        found = domains(self.root, self.kind, self._file)
        known = {path.name.removesuffix(SUFFIX) for path in (self.root / TOOLS).glob(f"*{SUFFIX}")}
        for domain in self.without:
            if domain not in known:
                raise ConfigError("dataset.without", domain, f"some of {', '.join(sorted(known))}")
        kept = [domain for domain in found if domain not in self.without]
        if self.domain is None and kept:
            return kept
        if self.domain is None or self.domain not in kept:
            raise ConfigError("dataset.domain", self.domain, f"null, {', '.join(kept)}")
        return [self.domain]

    @cached_property
    def _tool_files(self) -> dict[str, Path]:
        files = {path.name.removesuffix(SUFFIX): path for path in sorted((self.root / TOOLS).glob(f"*{SUFFIX}"))}
        for domain in self._domains:
            if domain not in files:
                raise ConfigError("dataset.path", self.path, f"a folder that has {TOOLS}/{domain}{SUFFIX}")
        return files

    @cached_property
    def _query_files(self) -> dict[str, Path]:
        return {domain: self.root / self.kind / domain / self._file for domain in self._domains}

    @cached_property
    def _read(self) -> _Read:
        files = {domain: read_tools(path) for domain, path in self._tool_files.items()}
        level = None if self.kind == "sequential" else self.level or "simple"
        records, skipped = list[Record](), list[Skipped]()
        for domain, path in self._query_files.items():
            found, left_out = read_queries(path, self.kind, level, domain)
            records += found
            skipped += left_out
        records = respelled(records, library(files, ()).specs)
        if not records:
            raise ConfigError("dataset.path", self.path, f"{self.kind}/*/{self._file} holds no usable query")
        tools = library(files, records)
        calling = Counter(name for record in records for name in {step.tool for step in record.steps})
        noted = [
            Skipped(
                f"tool {name} ({calling[name]} queries)", "no file defines the tool: taken from the queries' records"
            )
            for name in sorted(tools.undefined)
        ]
        return _Read({record.id: record for record in records}, tools, [*skipped, *noted])

    @cached_property
    def _libraries(self) -> dict[str, Mapping[str, ToolSpec]]:
        return {}

    @cached_property
    def _likenesses(self) -> dict[str, Likeness]:
        return {}

    def _library(self, domain: str) -> Mapping[str, ToolSpec]:
        if domain not in self._libraries:
            self._libraries[domain] = MappingProxyType(self._read.tools.of_domain(domain))
        return self._libraries[domain]

    def _likeness(self, domain: str) -> Likeness:
        if domain not in self._likenesses:
            self._likenesses[domain] = Likeness(self._library(domain))
        return self._likenesses[domain]


def _answer(record: Record) -> str | None:
    """The right answer; None where the record has none that its calls could have led to."""
    return None if any(step.failed for step in record.steps) else record.answer or None


def _measured(reference: Reference, likeness: Likeness, found: Trajectory) -> Mapping[str, Any]:
    return {"failure_patterns": failure_patterns(found.steps, reference, likeness)}
