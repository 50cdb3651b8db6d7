"""Self-consistency over whole passes: what they vote on, and what becomes of those that know nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from grid.core.engine import Prompt, Sampled, ToolCallAnswer
from grid.core.errors import ConfigError
from grid.core.types import Case, Json, ToolCall, Trajectory, Usage, to_json
from grid.core.util import derive_seed
from grid.episode.episode import Episode
from grid.episode.progress import Budget
from grid.planners.self_consistency import SelfConsistency
from grid.settings.make import make
from tests.support.engines import RawText, UniformRandom, substep_of
from tests.support.kopl_world import kopl_world
from tests.support.world import CALLS, PLAN, RIGHT, episode, small_world

Pass = Mapping[str, ToolCall]
QUOTE, BOOK, OTHER = ToolCall("quote", {"item": "I-7"}), ToolCall("book", {"quote": "Q-3"}), ToolCall("other", {})
RESOLVING: Pass = CALLS
LITERAL: Pass = {"1.1": CALLS["1.1"], "2.1": QUOTE, "2.2": BOOK}
"""The same calls with values instead of references."""
EARLY: Pass = {"1.1": CALLS["1.1"], "1.2": QUOTE, "2.1": BOOK, "2.2": OTHER}
"""Resolves the case, and then makes a call that fails."""
FAILING: Pass = dict.fromkeys(RIGHT, OTHER)
STOPS: Pass = {"1.1": CALLS["1.1"]}
IDLE: Pass = {}


@dataclass(frozen=True)
class Passes(UniformRandom):
    """Pass i makes the calls of `passes[i]`, and none at other substeps; passes are told apart by their seeds."""

    passes: Sequence[Pass] = ()

    async def sample(self, prompt: Prompt, *, n: int, temperature: float, max_tokens: int, seed: int) -> Sampled:
        assert isinstance(prompt.answer, ToolCallAnswer)
        substep = substep_of(prompt)
        seeds = [derive_seed(1, f"pass{index}", substep) for index in range(len(self.passes))]
        call = self.passes[seeds.index(seed)].get(substep)
        told: dict[str, Json] = {"tool": call.tool, "arguments": dict(call.arguments)} if call else {"tool": "no_tool"}
        return Sampled((to_json(told),) * n, Usage(llm_calls=n))


def kept(passes: Sequence[Pass], **values: Any) -> tuple[int, bool]:
    """Which pass stands, and whether it resolves the case."""
    world = small_world()
    run = episode(Passes(passes=passes), world)
    found = asyncio.run(SelfConsistency(level="plan", samples=len(passes), **values).solve(run))
    assert run.resolved_checks == 0, "a vote may not ask whether the case is resolved"
    assert found.branched_steps is None
    return found.steps[0].branch, world.resolved(found.end)


def test_failures_are_no_outcome_that_passes_agree_on() -> None:
    """Seven of ten passes end in the same 'found nothing', three of them behind the call that resolves the case."""
    passes = [FAILING, FAILING, FAILING, FAILING, STOPS, RESOLVING, EARLY, EARLY, EARLY, LITERAL]
    assert kept(passes) == (5, True)


def test_an_outcome_that_more_passes_share_wins_though_it_is_wrong() -> None:
    assert kept([FAILING, RESOLVING, STOPS, STOPS]) == (2, False)


@pytest.mark.parametrize("passes", [[FAILING, IDLE, FAILING], [IDLE, FAILING, FAILING], [IDLE]])
def test_the_first_pass_stands_where_none_knows_an_outcome(passes: Sequence[Pass]) -> None:
    assert kept(passes) == (0, False)


def test_one_pass_that_knows_an_outcome_wins_over_all_that_know_none() -> None:
    assert kept([FAILING, FAILING, IDLE, RESOLVING]) == (3, True)


def test_the_first_of_equals_stands() -> None:
    assert kept([STOPS, RESOLVING, RESOLVING, STOPS]) == (0, False)
    assert kept([FAILING, RESOLVING, STOPS]) == (1, True)


def test_by_plan_passes_agree_that_made_the_same_calls_whatever_came_of_them() -> None:
    assert kept([EARLY, FAILING, FAILING, FAILING, RESOLVING, LITERAL], vote="plan") == (1, False)
    assert kept([FAILING, EARLY, RESOLVING, LITERAL], vote="plan") == (2, True), "a reference is what it stands for"
    assert kept([IDLE, IDLE, IDLE, RESOLVING], vote="plan") == (3, True), "to do nothing is no plan"
    assert kept([IDLE, IDLE], vote="plan") == (0, False)


def test_a_name_that_counts_results_keeps_no_outcomes_apart() -> None:
    """Two ways of different length to one entity; their last results are called $0 and $1."""
    world = kopl_world("Elbe")
    elbe, rhine = (ToolCall("Find", {"name": name}) for name in ("Elbe", "Rhine"))
    passes: list[Pass] = [{"1.1": rhine}, {"1.1": elbe}, {"1.1": rhine, "2.2": elbe}]
    run = Episode(
        case=Case("rivers", "Which river?", PLAN),
        world=world,
        engine=Passes(passes=passes),
        candidates=lambda case, substep: world.tools,
        budget=Budget(),
        seed=1,
    )
    found = asyncio.run(SelfConsistency(level="plan", samples=3).solve(run))
    assert found.steps[0].branch == 1
    results = [step.observation.content["result"] for step in found.decisions if step.observation]
    assert results == ["$0", "$0", "$0", "$1"]


def test_a_pass_of_unreadable_answers_is_one_without_an_outcome() -> None:
    run = episode(RawText("nonsense"))
    found: Trajectory = asyncio.run(SelfConsistency(level="plan", samples=3).solve(run))
    assert found.steps[0].branch == 0


def test_votes_on_tools_know_no_other_ballot() -> None:
    config = {"_target_": "grid.planners.self_consistency.SelfConsistency", "level": "step", "vote": "plan"}
    with pytest.raises(ConfigError, match=r"planner\.vote='plan': outcome, because planner\.level is step"):
        make("planner", config)
    assert make("planner", config | {"level": "plan"})
