"""WorkBench (Styles et al. 2024): workplace tasks, scored by what the tables hold at the end.

What is scored is the outcome, whatever the calls and whatever the agent says (§3.3). For the authors an agent that was
stopped by a limit is wrong; here the tables decide that too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass as plain_dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import Field
from pydantic.dataclasses import dataclass

from grid.core.errors import ConfigError
from grid.core.problem import BRANCHING, REFERENCES, Outline, Problem
from grid.core.reference import Reference
from grid.core.strict import STRICT
from grid.core.types import Case, Plan, Skipped, ToolCall, ToolSpec, Trajectory
from grid.datasets.files import fingerprint, folder
from grid.datasets.sampling import Order, ordered
from grid.datasets.workbench.records import FILES, QUERIES, Query, read_queries, read_workplace
from grid.worlds.workbench.tool import NOW, Workplace
from grid.worlds.workbench.world import TOOLS, WorkBenchWorld, played, respond

ADAPTER = 1
"""Raise when the same files give other cases, tools or outcomes."""
DIRECTORY = "company_directory"
TOLD = f"It is {NOW:%A, %Y-%m-%d, %H:%M}. Meetings may not start before 09:00 nor end after 18:00."
"""What the authors' agents are told besides the query."""


@plain_dataclass(frozen=True)
class _Record:
    """One usable query, of a file."""

    kind: str
    query: Query


@dataclass(config=STRICT)
class WorkBench:
    """The queries of all six files. `path` is the released folder: it holds `data/processed` and `data/raw`.

    A case's own tools are those of its domains' toolkits and the directory, which the authors' agents have where they
    are not given all (`pool=case`). `limit` draws a sample in which files and templates have their shares (`order`).
    """

    provides: ClassVar[frozenset[str]] = frozenset({BRANCHING, REFERENCES})
    path: str | None = None
    limit: Annotated[int, Field(ge=1)] | None = None
    order: Order = "sampled"
    outline: Outline = "hidden"

    @cached_property
    def _root(self) -> Path:
        return folder("dataset.path", self.path, *FILES)

    @cached_property
    def version(self) -> str:
        """The adapter's version and the files' fingerprint."""
        return f"workbench-a{ADAPTER}-{fingerprint(*(self._root / name for name in FILES))}"

    @cached_property
    def tools(self) -> Mapping[str, ToolSpec]:
        """The tools of all toolkits; a toolkit is a category."""
        return {name: tool.spec for name, tool in TOOLS.items() if self._root}  # which refuses a folder without data

    @cached_property
    def before(self) -> Workplace:
        """The tables that every case begins with."""
        return read_workplace(self._root)

    @property
    def skipped(self) -> Sequence[Skipped]:
        """Queries whose gold answers cannot be read."""
        return self._read[1]

    def case_ids(self) -> Sequence[str]:
        """The cases, at most `limit` of them."""
        return ordered(list(self._read[0]), self.order, (self._kind, self.cluster))[: self.limit]

    def _kind(self, case_id: str) -> str:
        return self._read[0][case_id].kind

    def cluster(self, case_id: str) -> str:
        """Its file and template."""
        return f"{self._kind(case_id)}: {self._read[0][case_id].query.template}"

    def problem(self, case_id: str) -> Problem:
        """One query. Its reference are the gold answer's calls: those that change something, with what they take."""
        query = self._read[0][case_id].query
        world, tools = WorkBenchWorld(self.before, query.calls), tuple(self.tools.values())
        own = {*query.toolkits, DIRECTORY}
        return Problem(
            case=Case(case_id, f"{TOLD} {query.text}", Plan(())),
            reference=reference(self.before, query.calls),
            world=world,
            candidates=lambda case, substep: tools,
            library=self.tools,
            same_function={},
            domain=query.toolkits[0],
            own=tuple(tool.name for tool in tools if tool.category in own),
            measure=partial(measure, world),
        )

    @cached_property
    def _read(self) -> tuple[dict[str, _Record], list[Skipped]]:
        records, skipped = dict[str, _Record](), list[Skipped]()
        for kind, name in QUERIES.items():
            for number, found in read_queries(self._root / name):
                case_id = f"workbench-{kind}-{number:03d}"
                if isinstance(found, Query):
                    records[case_id] = _Record(kind, found)
                else:
                    skipped.append(Skipped(case_id, found))
        if not records:
            raise ConfigError("dataset.path", self.path, "its files hold no query that can be a case")
        return records, skipped


def reference(before: Workplace, gold: Sequence[ToolCall]) -> Reference:
    """The gold calls, none where nothing may change.

    They are a set where they lead to the same tables backwards, as deletions do; what is added stands in its order.
    """
    calls = {str(place): call for place, call in enumerate(gold)}
    failing, place = set[str](), before
    for step, call in calls.items():
        place, observation = respond(place, call)
        if observation.failed:
            failing.add(step)
    in_order = played(before, tuple(reversed(gold))) != place
    return Reference(dict(calls), tuple(calls), followed=False, ordered=in_order, failing=frozenset(failing))


def measure(world: WorkBenchWorld, trajectory: Trajectory) -> Mapping[str, Any]:
    """side_effect: the tables are wrong and not as they were before (the paper's unwanted side effects, §3.3)."""
    return {"side_effect": world.side_effect(trajectory.end)}
