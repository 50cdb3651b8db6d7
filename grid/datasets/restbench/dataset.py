"""RestBench (Song et al. 2023, "RestGPT"): requests to a REST API, each with the endpoints of its gold path.

No server is reached: the API is simulated from its OpenAPI file (`grid.worlds.rest`), and what it returns are examples.
So figures on it compare planners with each other, on calls that were possible; no response is what the service says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass as plain_dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from grid.core.engine import Prompt, ScoreAnswer, Section
from grid.core.errors import ConfigError, DataError
from grid.core.problem import BRANCHING, EXAMINED, REFERENCES, Evaluator, Outline, Problem
from grid.core.reference import Reference
from grid.core.seeds import derive_seed
from grid.core.strict import STRICT
from grid.core.types import Case, Plan, Skipped, ToolSpec, Trajectory
from grid.datasets.examining import WHOLE, done_section, query_section
from grid.datasets.files import fingerprint, folder, read_json
from grid.datasets.restbench.reference import derive
from grid.datasets.restbench.spec import Service, read_service
from grid.datasets.sampling import Order, ordered
from grid.worlds.rest.world import RestWorld

ADAPTER = 1
"""Raise when the same files give other cases, tools or responses."""
SEED = 0
FULFILLED = Section(
    "role",
    (
        "An agent was asked for something and called tools to get it. Judge whether it did what was asked.",
        "The tools' answers are made up: take them for true. The best score is for an agent that called what it takes, "
        "and whose steps or final answer give all that was asked for. The worst score is for one that gave something "
        "else, gave it in part, gave up, or says what no tool returned.",
    ),
)
_PASSED = 0.5  # scores of at least this are a yes
_MAX_BYTES = 100_000_000


@plain_dataclass(frozen=True)
class _Record:
    """One usable request."""

    query: str
    reference: Reference
    world: RestWorld


@dataclass(config=STRICT)
class RestBench:
    """The requests of one API. `path` is a folder with `datasets/<api>.json` and `specs/<api>_oas.json`.

    A case is resolved when the endpoints of its gold path were called with success in their order, whatever else was
    called between. `limit` draws a sample in which gold paths have their shares (`order`).
    """

    provides: ClassVar[frozenset[str]] = frozenset({BRANCHING, REFERENCES, EXAMINED})
    path: str | None = None
    api: Literal["tmdb", "spotify"] = "tmdb"
    limit: Annotated[int, Field(ge=1)] | None = None
    order: Order = "sampled"
    outline: Outline = "hidden"

    @cached_property
    def _files(self) -> tuple[Path, Path]:
        """The requests and the API file."""
        names = f"datasets/{self.api}.json", f"specs/{self.api}_oas.json"
        root = folder("dataset.path", self.path, *names)
        return root / names[0], root / names[1]

    @cached_property
    def version(self) -> str:
        """The API, that it is simulated, the adapter's version, and the files' fingerprint."""
        return f"restbench-{self.api}-simulated-a{ADAPTER}-{fingerprint(*self._files)}"

    @cached_property
    def service(self) -> Service:
        """The API."""
        return read_service(self._files[1], self.api)

    @cached_property
    def tools(self) -> Mapping[str, ToolSpec]:
        """One tool an endpoint."""
        return {name: endpoint.tool for name, endpoint in self.service.endpoints.items()}

    @property
    def skipped(self) -> Sequence[Skipped]:
        """Operations that cannot be tools, and requests that cannot be cases."""
        return (*self.service.remarks, *self._read[1])

    def case_ids(self) -> Sequence[str]:
        """The cases, at most `limit` of them."""
        return ordered(list(self._read[0]), self.order, (self.cluster,))[: self.limit]

    def cluster(self, case_id: str) -> str:
        """Its gold path."""
        return "\n".join(self._read[0][case_id].world.path)

    def problem(self, case_id: str) -> Problem:
        """One request. Its reference are the gold path's calls, with arguments that the simulated API accepts."""
        record = self._read[0][case_id]
        tools = tuple(self.tools.values())
        return Problem(
            case=Case(case_id, record.query, Plan(())),
            reference=record.reference,
            world=record.world,
            candidates=lambda case, substep: tools,
            library=self.tools,
            same_function={},
            domain=self.api,
            measure=partial(measure, record.world.path),
            examine=partial(examine, record.query),
        )

    def unsolved(self, case_id: str) -> Mapping[str, Any]:
        """Of an episode that broke off: it did not pass."""
        return {"passed": 0.0}

    @cached_property
    def _read(self) -> tuple[dict[str, _Record], list[Skipped]]:
        rows = read_json(self._files[0], _MAX_BYTES)
        if not isinstance(rows, list) or not rows:
            raise DataError(self._files[0], None, "a list of requests is expected, each with a query and a solution")
        records: dict[str, _Record] = {}
        skipped: list[Skipped] = []
        for number, row in enumerate(rows):
            case_id = f"restbench-{self.api}-{number:03d}"
            made = self._record(case_id, row)
            if isinstance(made, _Record):
                records[case_id] = made
            else:
                skipped.append(Skipped(case_id, made))
        if not records:
            raise ConfigError("dataset.path", self.path, f"{self._files[0].name} holds no request that can be a case")
        return records, skipped

    def _record(self, case_id: str, row: Any) -> _Record | str:
        """A request; why it cannot be a case where it cannot."""
        query, solution = (row.get("query"), row.get("solution")) if isinstance(row, dict) else (None, None)
        if not isinstance(query, str) or not query.strip():
            return "it has no query"
        if not isinstance(solution, list) or not solution or not all(isinstance(item, str) for item in solution):
            return "it has no solution"
        path = [self.service.named(item) for item in solution]
        known = tuple(name for name in path if name)
        if len(known) < len(path):
            return "its solution names an endpoint that the API does not have"
        world = RestWorld(self.service.endpoints, known, derive_seed(SEED, self.api, case_id), query.strip())
        calls, world = derive(world)
        return _Record(query.strip(), Reference(dict(calls), tuple(calls), followed=False), world)


def measure(gold: Sequence[str], trajectory: Trajectory) -> Mapping[str, Any]:
    """Correct path and extra calls (RestGPT, 'Evaluation Metrics'), whatever the calls returned.

    correct_path: the gold path is a subsequence of the endpoints called. extra_calls: those beyond its length, where it
    is. usage: None, since the benchmark names no arguments.
    """
    called = [step.call.tool for step in trajectory.steps if step.call]
    left = iter(called)
    correct = all(name in left for name in gold)
    return {"correct_path": correct, "extra_calls": len(called) - len(gold) if correct else None, "usage": None}


async def examine(query: str, trajectory: Trajectory, evaluator: Evaluator) -> Mapping[str, Any]:
    """passed: 1 where the evaluator says that the request was fulfilled, else 0; None where it says neither."""
    prompt = Prompt((FULFILLED, query_section(query), done_section(trajectory), WHOLE), ScoreAnswer())
    score = await evaluator.score(prompt, "passed")
    return {"passed": None if score is None else float(score >= _PASSED)}
