"""How often a planner asked whether the case is resolved, and at how many steps it branched: rows tell it rightly."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, cast

import pytest

from grid.cells.run import Stamp, run_chunk
from grid.core.problem import Index, Problem
from grid.core.types import Observation, ToolCall
from grid.core.world import State, World
from grid.episode.episode import Planner
from grid.planners.egb import EntropyGuidedBranching
from grid.planners.reflexion import Retry
from grid.settings.build import build
from grid.settings.config import BudgetConfig
from grid.settings.make import load_class
from grid.settings.setting import cells
from tests.support.configs import setting_of, solvers, yaml

BUDGET = BudgetConfig()
CASES = 2


@dataclass(frozen=True)
class Overheard:
    """A world that remembers how often it was asked whether the case is resolved."""

    world: World
    asked: list[State]

    @property
    def branches(self) -> bool:
        return self.world.branches

    def start(self) -> State:
        return self.world.start()

    async def apply(self, state: State, call: ToolCall) -> tuple[State, Observation]:
        return await self.world.apply(state, call)

    def resolved(self, state: State) -> bool:
        self.asked.append(state)
        return self.world.resolved(state)

    def answer(self, state: State) -> str | None:
        return self.world.answer(state)


@dataclass(frozen=True)
class Listening:
    """Puts such a world in the place of each case's own."""

    asked: list[State] = field(default_factory=list)
    needs: ClassVar[frozenset[str]] = frozenset()

    def disturb(self, problem: Problem, index: Index, seed: int) -> Problem:
        return replace(problem, world=Overheard(problem.world, self.asked))


def rows(planner: str) -> tuple[dict[str, list[dict[str, Any]]], int]:
    """The rows of some cases, and how often their worlds were asked: a case twice, of its start and for the score."""
    setting = setting_of(dataset="slate", planner=planner, dataset_values={"limit": CASES})
    built, listening = build(setting, BUDGET), Listening()
    built = replace(built, robustness=(listening,))
    chunk = list(cells(setting, built.dataset.version, built.dataset.case_ids(), 1))
    return asyncio.run(run_chunk(built, setting, chunk, Stamp("test", None))).take(), len(listening.asked)


@pytest.mark.long
@pytest.mark.parametrize("planner", solvers())
def test_rows_tell_how_often_a_planner_asked_and_at_how_many_steps_it_branched(planner: str) -> None:
    found, asked = rows(planner)
    episodes = found["episodes"]
    assert [row["error_message"] for row in episodes] == [None] * CASES
    scored = 2 * CASES + len(found["improvements"])
    assert sum(row["resolved_checks"] for row in episodes) == asked - scored
    cls = cast(type[Planner], load_class("planner", yaml("planner", planner)))
    branching = issubclass(cls, EntropyGuidedBranching)
    assert all((row["resolved_checks"] > 0) == (branching or issubclass(cls, Retry)) for row in episodes)
    for row in episodes:
        assert row["branched_steps"] == (len(left_at(found["steps"], row["cell_id"])) if branching else None)
        if branching:
            assert row["resolved_checks"] == row["branches"] + 1


def left_at(steps: list[dict[str, Any]], cell_id: str) -> set[int]:
    """The steps at which branches begin."""
    first: dict[int, int] = {}
    for row in steps:
        if row["cell_id"] == cell_id:
            first.setdefault(row["branch"], row["step"])
    return {step for branch, step in first.items() if branch > 0}
