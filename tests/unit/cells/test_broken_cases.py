"""How a case's failure becomes a row, and what a budget leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from grid import store
from grid.cells.run import Stamp, run_chunk
from grid.core.errors import ContextError, ModelError, ToolError
from grid.core.problem import OUTLINE, Dataset, Outline, Problem
from grid.core.types import Observation, Skipped, ToolCall, ToolSpec
from grid.core.world import State, World
from grid.episode.progress import Budget
from grid.pools.whole import Whole
from grid.retrievers.scored import BM25
from grid.settings.build import Built, build
from grid.settings.config import BudgetConfig
from grid.settings.parts import Pooled
from grid.settings.setting import Setting, cells
from tests.support.configs import setting_of


@dataclass(frozen=True)
class BrokenWorld:
    """Raises at the first call, like a tool whose service is down."""

    inner: World
    error: Exception
    branches: ClassVar[bool] = True

    def start(self) -> State:
        return self.inner.start()

    async def apply(self, state: State, call: ToolCall) -> tuple[State, Observation]:
        raise self.error

    def resolved(self, state: State) -> bool:
        return self.inner.resolved(state)

    def answer(self, state: State) -> str | None:
        return self.inner.answer(state)


@dataclass(frozen=True)
class OneBrokenCase:
    """A dataset one of whose cases has a broken world."""

    inner: Dataset
    broken: str
    error: Exception
    provides: ClassVar[frozenset[str]] = frozenset({OUTLINE})
    outline: ClassVar[Outline] = "given"

    @property
    def version(self) -> str:
        return self.inner.version

    @property
    def tools(self) -> Mapping[str, ToolSpec]:
        return self.inner.tools

    @property
    def skipped(self) -> Sequence[Skipped]:
        return self.inner.skipped

    def case_ids(self) -> Sequence[str]:
        return self.inner.case_ids()

    def cluster(self, case_id: str) -> str:
        return self.inner.cluster(case_id)

    def problem(self, case_id: str) -> Problem:
        problem = self.inner.problem(case_id)
        if case_id != self.broken:
            return problem
        return replace(problem, world=BrokenWorld(problem.world, self.error))


@pytest.fixture
def setting() -> Setting:
    """ReAct on three cases of SLATE."""
    return setting_of({"limit": 3}, dataset="slate")


def built_of(setting: Setting) -> Built:
    return build(setting, BudgetConfig())


def episodes_of(built: Built, setting: Setting) -> dict[str, list[dict[str, Any]]]:
    chunk = list(cells(setting, built.dataset.version, built.dataset.case_ids(), 1))
    return asyncio.run(run_chunk(built, setting, chunk, Stamp("test", None))).take()


@pytest.mark.long
@pytest.mark.parametrize(
    ("error", "kind", "message", "success"),
    [
        (ToolError("the warehouse is down"), "tool", "the warehouse is down", None),
        (ValueError("nobody foresaw this"), "code", "ValueError: nobody foresaw this", None),
        (ModelError("no answer"), "model", "no answer", False),
        (ContextError("9000 tokens of 8192"), "context", "9000 tokens of 8192", False),
        (TimeoutError("60 s"), "infrastructure", "TimeoutError: 60 s", None),  # the system's or a library's
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_a_case_that_breaks_becomes_a_row(
    setting: Setting, tmp_path: Path, error: Exception, kind: str, message: str, success: bool | None
) -> None:
    built = built_of(setting)
    broken = built.dataset.case_ids()[1]
    dataset = OneBrokenCase(built.dataset, broken, error)
    tools = dict(dataset.tools)
    offered = Pooled(dataset, Whole(), tools, BM25().index(tools))
    rows = episodes_of(replace(built, dataset=dataset, pooled=offered), setting)
    store.write(tmp_path, rows)
    found = {row["case_id"]: row for row in store.read(tmp_path, "episodes", wide=True).to_pylist()}
    row = found.pop(broken)
    assert (row["status"], row["error_kind"]) == ("failed", kind)
    assert row["error_message"].partition(" (tests/unit/cells/test_broken_cases.py:")[0] == message
    assert row["success"] is success
    assert row["llm_calls"] > 0, "what was spent before it broke is counted"
    assert [other["status"] for other in found.values()] == ["ok", "ok"]
    left = store.finished(tmp_path, "infrastructure")
    assert (row["cell_id"] in left) == (kind != "infrastructure")


def test_where_a_budget_is_used_up_what_is_best_so_far_is_the_result(setting: Setting) -> None:
    built = replace(built_of(setting), budget=Budget(llm_calls=2))
    for row in episodes_of(built, setting)["episodes"]:
        assert (row["status"], row["error_kind"], row["success"]) == ("ok", None, False)
        assert (row["budget_reached"], row["llm_calls"], row["n_steps"]) == ("llm_calls", 2, 2)
