"""BFCL v4 (Berkeley Function-Calling Leaderboard): requests, each with functions and the calls that are accepted.

What runs without a network and in Python: single turns, and several turns with simulated APIs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass as plain_dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import Field
from pydantic.dataclasses import dataclass

from grid.core.errors import ConfigError
from grid.core.problem import BRANCHING, DRAFTED, REFERENCES, Measure, Outline, Problem, no_measure
from grid.core.reference import Reference
from grid.core.strict import STRICT
from grid.core.types import Case, Skipped, ToolSpec
from grid.core.world import World
from grid.datasets.bfcl import multi_turn, single_turn
from grid.datasets.bfcl.classes import installed
from grid.datasets.bfcl.records import (
    Category,
    UnusableError,
    files_of,
    is_multi_turn,
    is_parallel,
    read_docs,
    read_rows,
    wanted_of,
)
from grid.datasets.files import fingerprint
from grid.datasets.sampling import Order, ordered

ADAPTER = 1
"""Raise when the same files give other cases, tools or outcomes."""


@plain_dataclass(frozen=True)
class _Record:
    """One usable record; `tools` are the functions that it offers."""

    case: Case
    reference: Reference
    world: World
    tools: Mapping[str, ToolSpec]
    measure: Measure = no_measure


@dataclass(config=STRICT)
class BFCL:
    """The records of one `category`. `path` is a folder with `BFCL_v4_<category>.json` and `possible_answer`.

    A record offers functions of its own (`Problem.own`), whatever others have of that name: `tools`, the library, has
    of each name the first definition, a problem's library its own. `limit` draws a sample (`order`).
    """

    provides: ClassVar[frozenset[str]] = frozenset({BRANCHING, REFERENCES})
    path: str | None = None
    category: Category = "simple_python"
    limit: Annotated[int, Field(ge=1)] | None = None
    order: Order = "sampled"
    outline: Outline = "hidden"

    def __post_init__(self) -> None:
        if self.outline == DRAFTED and is_multi_turn(self.category):
            raise ConfigError(
                "dataset.outline", DRAFTED, f"hidden: of {self.category} the first message alone is known"
            )

    @cached_property
    def _files(self) -> list[Path]:
        return files_of(self.path, self.category)

    @cached_property
    def version(self) -> str:
        """The category, the adapter's version, the files' fingerprint, and of several turns the APIs' version."""
        apis = f"-apis{installed()}" if is_multi_turn(self.category) else ""
        return f"bfcl-{self.category}-a{ADAPTER}-{fingerprint(*self._files)}{apis}"

    @cached_property
    def tools(self) -> Mapping[str, ToolSpec]:
        """The functions of all records, of each name the first definition."""
        found: dict[str, ToolSpec] = {}
        for record in self._read[0].values():
            for name, tool in record.tools.items():
                found.setdefault(name, tool)
        return found

    @property
    def skipped(self) -> Sequence[Skipped]:
        """Records that cannot be cases."""
        return self._read[1]

    def case_ids(self) -> Sequence[str]:
        """The cases, at most `limit` of them."""
        return ordered(list(self._read[0]), self.order, (self.cluster,))[: self.limit]

    def cluster(self, case_id: str) -> str:
        """The names of the functions that it offers; of several turns the scenario."""
        if is_multi_turn(self.category):
            return multi_turn.scenario(case_id)
        return " ".join(sorted(self._read[0][case_id].tools))

    def problem(self, case_id: str) -> Problem:
        """One record, with what is accepted behind its world."""
        record = self._read[0][case_id]
        library = {**self.tools, **record.tools}
        tools = tuple(library.values())
        return Problem(
            case=record.case,
            reference=record.reference,
            world=record.world,
            candidates=lambda case, substep: tools,
            library=library,
            same_function={},
            own=tuple(record.tools),
            measure=record.measure,
        )

    @cached_property
    def _read(self) -> tuple[dict[str, _Record], list[Skipped]]:
        rows, answers = read_rows(self._files)
        records: dict[str, _Record] = {}
        skipped: list[Skipped] = []
        for line, row in rows:
            case_id = row.get("id")
            try:
                if not isinstance(case_id, str) or not case_id.strip() or case_id in records:
                    raise UnusableError("its id is no text, or comes twice")
                records[case_id] = self._record(case_id, row, answers.get(case_id, {}))
            except UnusableError as error:
                skipped.append(Skipped(str(case_id or f"line {line}"), str(error)))
        if not records:
            raise ConfigError("dataset.path", self.path, f"{self._files[0].name} holds no record that can be a case")
        return records, skipped

    def _record(self, case_id: str, row: Mapping[str, Any], answer: Mapping[str, Any]) -> _Record:
        """Raises UnusableError."""
        if is_multi_turn(self.category):
            talk = multi_turn.read_case(row, answer, self._docs)
            return _Record(talk.case, talk.reference, talk.world, {tool.name: tool for tool in talk.tools})
        found = single_turn.read_case(case_id, row, answer, wanted_of(self.category), is_parallel(self.category))
        tools = {tool.name: tool for tool in found.tools}
        return _Record(found.case, found.reference, found.world, tools, found.measure)

    @cached_property
    def _docs(self) -> multi_turn.Documents:
        """The functions of the simulated APIs."""
        return multi_turn.documents(read_docs(self._files[2:]))
