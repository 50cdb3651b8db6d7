"""Branches side by side: the same as one after another, whatever the order in which an engine answers."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from grid.cells.run import Stamp, run_chunk
from grid.core.engine import Choice, Prompt, Sampled
from grid.core.types import Trajectory, Usage
from grid.episode.episode import Episode, Planner
from grid.planners.egb import EGBLogits, EGBSampling
from grid.planners.self_consistency import SelfConsistency
from grid.settings.build import build
from grid.settings.config import BudgetConfig
from grid.settings.setting import cells
from grid.store.schema import TIMES
from tests.support.configs import setting_of
from tests.support.engines import Distribution, Scripted, UniformRandom
from tests.support.world import RIGHT, certain, episode, right_arguments

ROWS = Mapping[str, list[dict[str, Any]]]
LATE = certain() | {
    "1.1": {"find": 0.4, "other": 0.35, "more": 0.25},
    "2.1": {"other": 0.7, "more": 0.2, "quote": 0.1},
    "2.2": {"other": 0.5, "more": 0.3, "book": 0.2},
}
HOPELESS = {step: {"other": 0.4, "more": 0.3, "book": 0.2, "no_tool": 0.1} for step in RIGHT}
ONE_WRONG = certain() | {"1.1": {"find": 0.9, "other": 0.1}, "2.1": {"more": 0.5, "quote": 0.4, "other": 0.1}}
SCRIPTS: dict[str, Mapping[str, Distribution]] = {"late": LATE, "hopeless": HOPELESS, "one wrong": ONE_WRONG}


@dataclass
class Delayed(Scripted):
    """Answers after random delays, in whatever order these end."""

    rng: random.Random = field(default_factory=random.Random)
    in_hand: int = 0
    most_in_hand: int = 0

    async def sample(self, prompt: Prompt, *, n: int, temperature: float, max_tokens: int, seed: int) -> Sampled:
        await self._delay()
        return await super().sample(prompt, n=n, temperature=temperature, max_tokens=max_tokens, seed=seed)

    async def choose(self, prompt: Prompt, *, seed: int) -> Choice:
        await self._delay()
        return await super().choose(prompt, seed=seed)

    async def _delay(self) -> None:
        """So many turns of the event loop: delays without a clock."""
        self.in_hand += 1
        self.most_in_hand = max(self.most_in_hand, self.in_hand)
        try:
            for _ in range(self.rng.randrange(30)):
                await asyncio.sleep(0)
        finally:
            self.in_hand -= 1


@dataclass(frozen=True)
class Late(UniformRandom):
    """Answers at random, each request as ever, after random delays."""

    rng: random.Random = field(default_factory=random.Random)

    async def sample(self, prompt: Prompt, *, n: int, temperature: float, max_tokens: int, seed: int) -> Sampled:
        for _ in range(self.rng.randrange(20)):
            await asyncio.sleep(0)
        return await super().sample(prompt, n=n, temperature=temperature, max_tokens=max_tokens, seed=seed)


def solved(planner: Planner, engine: Any) -> tuple[Trajectory, Episode]:
    run = episode(engine)
    return asyncio.run(planner.solve(run)), run


@pytest.mark.long
@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize(
    "planner",
    [
        EGBSampling(),
        EGBLogits(trajectories=9),
        EGBSampling(branch_order="round_robin"),
        EGBLogits(trajectories=9, branch_order="round_robin", suffix="chosen"),
    ],
    ids=["sampling", "logits", "sampling in turn", "logits in turn"],
)
def test_the_order_of_answers_changes_nothing(planner: EGBSampling | EGBLogits, script: str) -> None:
    alone, run = solved(replace(planner, parallel=False), Scripted(SCRIPTS[script], right_arguments))
    beside, cancelled = 1, 0
    assert run.cancelled == Usage()
    for seed in range(20):
        engine = Delayed(SCRIPTS[script], right_arguments, rng=random.Random(seed))
        trajectory, other = solved(planner, engine)
        assert trajectory == alone
        assert other.resolved_checks == run.resolved_checks
        assert other.usage == engine.usage, "what is counted is what was answered, cancelled branches too"
        assert run.usage + (other.cancelled or Usage()) == other.usage, "and without these it is as one after another"
        cancelled += other.cancelled.llm_calls if other.cancelled else 0
        assert engine.in_hand == 0
        beside = max(beside, engine.most_in_hand)
    assert (beside > 1) == (alone.branches > 0)
    assert (cancelled > 0) == (script == "one wrong"), "only there a branch resolves before the last"


def test_an_engine_that_never_waits_does_nothing_in_vain() -> None:
    for script in SCRIPTS.values():
        first, second = Scripted(script, right_arguments), Scripted(script, right_arguments)
        assert solved(EGBLogits(), first)[0] == solved(EGBLogits(parallel=False), second)[0]
        assert first.asked == second.asked


def test_whole_trajectories_side_by_side_vote_as_one_after_another() -> None:
    planner = SelfConsistency(level="plan", samples=7)
    at_once, _ = solved(planner, UniformRandom())
    assert all(solved(planner, Late(rng=random.Random(seed)))[0] == at_once for seed in range(10))


def test_it_is_no_part_of_a_cells_id() -> None:
    one, other = (
        setting_of(dataset="slate", planner_values={"parallel": on}, planner="egb_logits") for on in (True, False)
    )
    assert one.id == other.id


def rows(planner: str, order: str, parallel: bool, cases: int) -> tuple[ROWS, int]:
    """The rows of SLATE's first cases without times, with the lexical engine, and how many cases branched."""
    values = {"parallel": parallel, "branch_order": order}
    setting = setting_of(dataset="slate", planner=planner, dataset_values={"limit": cases}, planner_values=values)
    built = build(setting, BudgetConfig())
    chunk = list(cells(setting, built.dataset.version, built.dataset.case_ids(), 1))
    found = asyncio.run(run_chunk(built, setting, chunk, Stamp("test", None))).take()
    lasting = {
        table: [{name: value for name, value in row.items() if name not in (*TIMES, "config")} for row in part]
        for table, part in found.items()
    }
    return lasting, sum(row["branches"] > 0 for row in found["episodes"])


@pytest.mark.long
@pytest.mark.parametrize("order", ["step", "round_robin"])
@pytest.mark.parametrize("planner", ["egb_logits", "egb_sampling"])
@pytest.mark.parametrize("cases", [10, pytest.param(200, marks=pytest.mark.slow)])
def test_rows_are_equal_but_for_times(planner: str, order: str, cases: int) -> None:
    beside, branched = rows(planner, order, True, cases)
    alone, _ = rows(planner, order, False, cases)
    assert branched > cases / 4, "or nothing is compared"
    assert beside == alone
