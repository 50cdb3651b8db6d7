"""One cell: what a row says when an episode breaks off."""

from __future__ import annotations

import asyncio
import datetime as dt
import inspect
import json
import time
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from grid.cells.deadline import run
from grid.cells.rows import Outcome
from grid.cells.run import Stamp, run_cell
from grid.core.errors import ContextError, ToolError
from grid.core.problem import GIVEN, Problem, Reference
from grid.core.types import Trajectory
from grid.episode.episode import Episode
from grid.episode.progress import Budget
from grid.planners.react import ReAct
from grid.pools.whole import Whole
from grid.settings.build import Built
from grid.settings.parts import Pooled
from grid.settings.setting import Cell, Setting
from tests.support.engines import Scripted
from tests.support.world import CALLS, RIGHT, TOOLS, certain, episode, right_arguments, small_world

LABELS = {group: group for group in ("model", "planner", "dataset", "robustness", "retriever", "pool")}


class SmallDataset:
    """The small world as a dataset."""

    version = "small-1"
    outline = GIVEN
    controls: ClassVar[dict[str, bool | str]] = {}

    def cluster(self, case_id: str) -> str:
        return "small"

    def problem(self, case_id: str) -> Problem:
        case = episode(Scripted(certain())).case
        reference = Reference({step: CALLS.get(step) for step in RIGHT}, ("2.2",))
        world, tools = small_world(), tuple(TOOLS.values())
        return Problem(case, reference, world, lambda case, substep: tools, TOOLS, {}, controls=self.controls)


class SmallIndex:
    query_top_k = 50
    mode = "static"

    def retrieve(self, case: Any, substep: Any) -> Any:
        return tuple(TOOLS.values())


@dataclass(frozen=True)
class Breaking:
    """ReAct that breaks after its whole pass."""

    error: BaseException
    in_a_task: bool = False
    needs: ClassVar[frozenset[str]] = frozenset()

    async def solve(self, episode: Episode) -> Trajectory:
        await ReAct().solve(episode)
        if self.in_a_task:
            await asyncio.gather(self.broken())
        return await self.broken()

    async def broken(self) -> Trajectory:
        raise self.error


@dataclass(frozen=True)
class Computing:
    """ReAct, after so many seconds of a CPU."""

    seconds: float
    needs: ClassVar[frozenset[str]] = frozenset()

    async def solve(self, episode: Episode) -> Trajectory:
        began = time.thread_time()
        while time.thread_time() - began < self.seconds:
            pass
        return await ReAct().solve(episode)


async def cell_of(planner: Any, budget: Budget | None = None, case_seconds: float | None = None) -> Outcome:
    dataset: Any = SmallDataset()
    index: Any = SmallIndex()
    engine: Any = Scripted(certain(), right_arguments)
    built = Built(engine, planner, dataset, Pooled(dataset, Whole(), TOOLS, index), (), budget or Budget())
    setting = Setting({group: {} for group in LABELS}, LABELS, 0)
    cell, stamp = Cell("small", 0, "c", "c", "d"), Stamp("s", None)
    return await run_cell(built, setting, cell, stamp, "a", case_seconds)


def row(
    planner: Any, budget: Budget | None = None, case_seconds: float | None = None
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    found = run(cell_of(planner, budget, case_seconds))
    return found.episode, found.rows["steps"]


def test_a_whole_episode() -> None:
    episode_row, steps = row(ReAct())
    assert (episode_row["status"], episode_row["success"], episode_row["tool_match_rate"]) == ("ok", True, 1.0)
    assert (episode_row["depth"], episode_row["breadth"], episode_row["plan_nodes"]) == (3, 1.0, 3)
    assert [step["step"] for step in steps] == [0, 1, 2, 3]


def test_a_cases_own_controls_are_a_column(monkeypatch: pytest.MonkeyPatch) -> None:
    assert row(ReAct())[0]["controls"] is None
    monkeypatch.setattr(SmallDataset, "controls", {"has_bridge": True, "kind": "a"})
    assert json.loads(row(Breaking(ToolError("no")))[0]["controls"]) == {"has_bridge": True, "kind": "a"}


def test_an_episode_out_of_budget_keeps_its_steps_and_what_it_did_not_reach_counts_as_wrong() -> None:
    episode_row, steps = row(ReAct(), Budget(llm_calls=2))
    assert (episode_row["status"], episode_row["budget_reached"], episode_row["success"]) == ("ok", "llm_calls", False)
    assert episode_row["tool_match_rate"] == pytest.approx(1 / 3)
    assert episode_row["action_accuracy"] == pytest.approx(2 / 4)
    assert (episode_row["n_steps"], len(steps), episode_row["llm_calls"]) == (2, 2, 2)


def test_its_own_seconds_end_a_case_whose_engine_never_waits() -> None:
    episode_row, steps = row(Computing(0.05), Budget(seconds=0.02), case_seconds=600.0)
    assert (episode_row["status"], episode_row["budget_reached"], steps) == ("ok", "seconds", [])
    assert episode_row["case_seconds"] > 0.02


@pytest.mark.parametrize(
    ("error", "kind", "success"),
    [
        (ContextError("too long"), "context", False),
        (ToolError("broke"), "tool", None),
        (OSError(5, "Input/output error"), "infrastructure", None),
        (KeyError("nobody foresaw"), "code", None),
        (ValueError(b"half a pair \\ud800".decode("unicode_escape")), "code", None),
    ],
)
def test_whose_failure_it_is(error: Exception, kind: str, success: bool | None) -> None:
    episode_row, steps = row(Breaking(error))
    assert (episode_row["error_kind"], episode_row["success"]) == (kind, success)
    assert len(steps) == 4
    assert episode_row["error_message"].encode()


class Panic(BaseException):
    """As Rust's panics come to Python."""


@pytest.mark.parametrize("in_a_task", [False, True])
@pytest.mark.parametrize(
    "error", [asyncio.CancelledError("who?"), KeyboardInterrupt(), SystemExit(0), Panic("index")], ids=repr
)
def test_what_is_no_exception_is_its_cells_row_alone(error: BaseException, in_a_task: bool) -> None:
    episode_row, steps = row(Breaking(error, in_a_task), case_seconds=600.0)
    assert (episode_row["status"], episode_row["error_kind"], episode_row["success"]) == ("failed", "code", None)
    assert type(error).__name__ in episode_row["error_message"]
    assert "case small" in episode_row["error_message"]
    assert len(steps) == 4


def test_what_ends_the_run_is_no_cells_row() -> None:
    """A run that is cancelled, and Ray's own end of a worker."""
    ended = SystemExit(1)
    ended.ray_terminate_msg = "The process receives a SIGTERM."  # type: ignore[attr-defined]
    with pytest.raises(SystemExit):
        row(Breaking(ended))

    @dataclass(frozen=True)
    class Cancelling(Breaking):
        async def broken(self) -> Trajectory:
            whole.pop().cancel()
            await asyncio.sleep(600)
            raise AssertionError("it goes on")

    async def cancelled() -> None:
        whole.append(asyncio.current_task())  # type: ignore[arg-type]
        await cell_of(Cancelling(KeyError()))

    whole: list[asyncio.Task[Any]] = []
    with pytest.raises(asyncio.CancelledError):
        run(cancelled())


def test_a_failure_of_code_names_its_place_and_its_case_and_keeps_the_traceback() -> None:
    @dataclass(frozen=True)
    class Wrong:
        needs: ClassVar[frozenset[str]] = frozenset()

        async def solve(self, episode: Episode) -> Trajectory:
            return json.loads("{") if episode.case.id else Trajectory((), ())

    episode_row, _ = row(Wrong())
    line = inspect.getsourcelines(Wrong)[1] + 5
    assert episode_row["error_kind"] == "code"
    assert episode_row["error_message"].startswith("JSONDecodeError: ")
    assert episode_row["error_message"].endswith(f"(tests/unit/cells/test_run.py:{line}, case small)")
    assert "Traceback" in episode_row["error_traceback"]
    assert "in solve" in episode_row["error_traceback"]
    foreseen, _ = row(Breaking(ToolError("broke")))
    assert foreseen["error_traceback"] is None


def test_rows_are_never_older_than_those_there_are() -> None:
    then = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    hours = [-1, 0, 1]
    made = [Stamp("s", None, then, lambda hour=hour: then + dt.timedelta(hours=hour)).now() for hour in hours]  # type: ignore[misc]
    assert made == [then + dt.timedelta(microseconds=1)] * 2 + [then + dt.timedelta(hours=1)]


@pytest.mark.parametrize(
    ("budget", "kind", "said"),
    [
        (Budget(prompt_characters=20), "context", "budget.prompt_characters=20"),
        (Budget(observation_characters=4), "tool", "budget.observation_characters=4"),
    ],
)
def test_what_is_too_long_ends_the_case_and_says_so(budget: Budget, kind: str, said: str) -> None:
    episode_row, _ = row(ReAct(), budget)
    assert (episode_row["status"], episode_row["error_kind"]) == ("failed", kind)
    assert said in episode_row["error_message"]


def test_a_text_without_end_is_cut_in_the_row() -> None:
    @dataclass(frozen=True)
    class Talking:
        needs: ClassVar[frozenset[str]] = frozenset()

        async def solve(self, episode: Episode) -> Trajectory:
            return Trajectory((), (), episode.start(), answer="é" * 3_000_000)

    episode_row, _ = row(Talking())
    assert len(episode_row["answer"]) < 201_000
    assert episode_row["answer"].endswith("(3,000,000 characters)")
