"""Entropy-guided branching against a scripted engine (egb_slate §5, algorithms 1 to 3)."""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace

import pytest

from grid.core.engine import ChoiceAnswer, ToolCallAnswer
from grid.core.errors import ConfigError
from grid.core.types import NO_TOOL, Trajectory
from grid.planners.egb import EGBLogits, EGBSampling, EntropyGuidedBranching
from grid.planners.self_consistency import SelfConsistency
from grid.planners.votes import entropy
from grid.settings.make import make
from tests.support.engines import Scripted
from tests.support.world import RIGHT, certain, episode, right_arguments, small_world

ONE_WRONG = certain() | {
    "1.1": {"find": 0.9, "other": 0.1},
    "2.1": {"more": 0.5, "quote": 0.4, "other": 0.1},
    "2.2": {"book": 0.8, "other": 0.2},
}
PLANNERS: list[EntropyGuidedBranching] = [EGBSampling(), EGBLogits()]


def solve(planner: EntropyGuidedBranching | SelfConsistency, engine: Scripted) -> tuple[Trajectory, list[str], bool]:
    world = small_world()
    run = episode(engine, world)
    trajectory = asyncio.run(planner.solve(run))
    assert run.usage == engine.usage, "the episode's counters are what the engine saw"
    assert run.tool_calls == len(world.calls)
    spent = sum(step.input_tokens or 0 for step in trajectory.decisions)
    assert spent == engine.usage.input_tokens or isinstance(planner, EGBLogits)
    return trajectory, world.calls, world.resolved(trajectory.end)


@pytest.mark.parametrize("planner", PLANNERS, ids=["sampling", "logits"])
def test_resolves_in_the_second_trajectory_where_the_wrong_choice_is_the_most_uncertain(
    planner: EntropyGuidedBranching,
) -> None:
    engine = Scripted(ONE_WRONG, right_arguments)
    trajectory, calls, resolved = solve(planner, engine)
    assert resolved
    assert trajectory.branches == 1
    assert [step.chosen for step in trajectory.steps] == list(RIGHT.values())
    assert [(step.branch, step.substep.id) for step in trajectory.decisions] == [
        (0, "1.1"), (0, "1.2"), (0, "2.1"), (0, "2.2"), (1, "2.1"), (1, "2.2"),
    ]  # fmt: skip
    assert calls == ["find", "more", "book", "quote", "book"], "the branch's prefix calls no tool again"
    second = engine.asked[len(engine.asked) // 2 :]
    assert all(substep in ("2.1", "2.2", "") for _, substep, _ in second), "nor the model"


def test_the_sampled_call_is_used_where_there_is_one_and_generated_where_there_is_none() -> None:
    sampling, logits = Scripted(ONE_WRONG, right_arguments), Scripted(ONE_WRONG, right_arguments)
    solve(EGBSampling(), sampling)
    solve(EGBLogits(), logits)
    assert sampling.asked == [("sample", s, 10) for s in RIGHT] + [("sample", "2.2", 1)]
    first = [("choose", "1.1", 1), ("arguments", "1.1", 1), ("choose", "1.2", 1), ("choose", "2.1", 1),
             ("arguments", "2.1", 1), ("choose", "2.2", 1), ("arguments", "2.2", 1)]  # fmt: skip
    assert logits.asked == [*first, ("arguments", "2.1", 1), ("sample", "2.2", 1)]


def test_a_suffix_is_sampled_or_chosen_and_only_what_is_chosen_takes_forward_passes() -> None:
    scripts = {suffix: Scripted(HOPELESS) for suffix in ("sampled", "chosen")}
    sampled, _, _ = solve(EGBLogits(), scripts["sampled"])
    chosen, _, _ = solve(EGBLogits(suffix="chosen"), scripts["chosen"])
    asked = [[kind for kind, _, _ in engine.asked] for engine in scripts.values()]
    assert [kinds.count("choose") for kinds in asked] == [len(RIGHT), len(RIGHT) + suffix_steps(chosen)]
    assert [kinds.count("sample") for kinds in asked] == [suffix_steps(sampled), 0]
    behind = [step for step in sampled.decisions if step.branch]
    assert all((step.entropy, step.unassigned) == (None, None) for step in behind), "no distribution was taken"


def suffix_steps(trajectory: Trajectory) -> int:
    return sum(step.branch > 0 for step in trajectory.decisions) - trajectory.branches


def test_sampling_has_no_other_suffix() -> None:
    with pytest.raises(ConfigError, match=r"planner\.suffix='chosen': no such key"):
        make("planner", {"_target_": "grid.planners.egb.EGBSampling", "suffix": "chosen"})


@pytest.mark.parametrize("samples", [1, 3, 10])
def test_exactly_m_samples_a_step(samples: int) -> None:
    engine = Scripted(certain(), right_arguments)
    trajectory, _, resolved = solve(EGBSampling(samples=samples), engine)
    assert resolved
    assert trajectory.branches == 0
    assert engine.asked == [("sample", substep, samples) for substep in RIGHT]


@pytest.mark.parametrize("planner", PLANNERS, ids=["sampling", "logits"])
def test_a_budget_of_one_is_exactly_the_first_pass(planner: EntropyGuidedBranching) -> None:
    first, calls, resolved = solve(replace(planner, trajectories=1), Scripted(ONE_WRONG, right_arguments))
    whole, _, _ = solve(planner, Scripted(ONE_WRONG, right_arguments))
    assert not resolved
    assert len(calls) == 3
    assert first.steps == first.decisions == whole.decisions[:4]


def test_the_first_pass_of_sampling_is_step_level_self_consistency() -> None:
    first, _, _ = solve(EGBSampling(trajectories=1), Scripted(ONE_WRONG, right_arguments))
    majority, _, _ = solve(SelfConsistency(level="step"), Scripted(ONE_WRONG, right_arguments))
    assert first.steps == majority.steps


HOPELESS = {step: {"other": 0.4, "more": 0.3, "book": 0.2, "no_tool": 0.1} for step in RIGHT}


@pytest.mark.parametrize("trajectories", [1, 2, 3, 5, 9])
@pytest.mark.parametrize("planner", PLANNERS, ids=["sampling", "logits"])
def test_trajectories_never_exceed_the_budget(planner: EntropyGuidedBranching, trajectories: int) -> None:
    trajectory, _, resolved = solve(replace(planner, trajectories=trajectories), Scripted(HOPELESS))
    assert not resolved
    assert trajectory.branches == trajectories - 1
    assert {step.branch for step in trajectory.decisions} == set(range(trajectories))
    assert all(step.branch == 0 for step in trajectory.steps), "unresolved: the first pass is returned"


def starts(trajectory: Trajectory) -> list[tuple[str, str | None]]:
    """Where each branch left the first pass, and with which tool."""
    first: dict[int, tuple[str, str | None]] = {}
    for step in trajectory.decisions:
        first.setdefault(step.branch, (step.substep.id, step.chosen))
    return list(first.values())[1:]


def test_ties_of_entropy_are_broken_by_step_order_and_alternatives_go_by_probability() -> None:
    planner = EGBLogits(trajectories=50, step_branch_limit=2)
    by_step, _, _ = solve(planner, Scripted(HOPELESS))
    assert starts(by_step) == [(step, tool) for step in RIGHT for tool in ("more", "book")]
    in_turn, _, _ = solve(replace(planner, branch_order="round_robin"), Scripted(HOPELESS))
    assert starts(in_turn) == [(step, tool) for tool in ("more", "book") for step in RIGHT]


SPREAD = {
    "1.1": {"other": 0.9, "more": 0.1},
    "1.2": {"other": 0.4, "more": 0.2, "book": 0.1, "quote": 0.1, "find": 0.1, "no_tool": 0.1},
    "2.1": {"other": 0.6, "more": 0.3, "book": 0.1},
    "2.2": {"other": 1.0},
}


@pytest.mark.parametrize("planner", PLANNERS, ids=["sampling", "logits"])
def test_one_step_takes_the_whole_budget_unless_steps_are_branched_on_in_turn(planner: EntropyGuidedBranching) -> None:
    """With b = 5 and B_s = 5, as the paper has them."""
    by_step, _, _ = solve(planner, Scripted(SPREAD))
    assert [step for step, _ in starts(by_step)] == ["1.2"] * 4
    assert len(set(starts(by_step))) == 4
    assert (by_step.branches, by_step.branched_steps) == (4, 1)
    in_turn, _, _ = solve(replace(planner, branch_order="round_robin"), Scripted(SPREAD))
    assert starts(in_turn)[:3] == [("1.2", "more"), ("2.1", "more"), ("1.1", "more")]
    assert [step for step, _ in starts(in_turn)] == ["1.2", "2.1", "1.1", "1.2"]
    assert (in_turn.branches, in_turn.branched_steps) == (4, 3)


@pytest.mark.parametrize("planner", PLANNERS, ids=["sampling", "logits"])
def test_a_budget_that_suffices_for_all_tries_the_same_in_either_order(planner: EntropyGuidedBranching) -> None:
    planner = replace(planner, trajectories=50, step_branch_limit=2)
    by_step, _, _ = solve(planner, Scripted(SPREAD))
    in_turn, _, _ = solve(replace(planner, branch_order="round_robin"), Scripted(SPREAD))
    assert sorted(map(str, starts(by_step))) == sorted(map(str, starts(in_turn)))
    assert (by_step.branches, by_step.branched_steps) == (in_turn.branches, in_turn.branched_steps) == (5, 3)


def test_only_the_steps_of_branches_that_were_tried_are_counted() -> None:
    found, _, _ = solve(EGBLogits(branch_order="round_robin"), Scripted(ONE_WRONG, right_arguments))
    assert (found.branches, found.branched_steps) == (1, 1)
    solved, _, _ = solve(EGBLogits(), Scripted(certain(), right_arguments))
    assert (solved.branches, solved.branched_steps) == (0, 0)


def test_the_pseudocodes_own_limits_hold() -> None:
    total, _, _ = solve(EGBLogits(trajectories=50, branch_limit=4), Scripted(HOPELESS))
    assert total.branches == 4
    none, _, _ = solve(EGBLogits(trajectories=50, step_branch_limit=0), Scripted(HOPELESS))
    assert none.branches == 0


def test_options_below_the_threshold_are_not_branched_on() -> None:
    script = certain() | {"2.1": {"more": 0.985, "quote": 0.01, "other": 0.005}}
    found, _, resolved = solve(EGBLogits(threshold=0.01), Scripted(script, right_arguments))
    assert resolved
    assert found.branches == 1
    missed, _, resolved = solve(EGBLogits(threshold=0.02), Scripted(script, right_arguments))
    assert not resolved
    assert missed.branches == 0


@pytest.mark.parametrize("planner", PLANNERS, ids=["sampling", "logits"])
def test_entropy_is_in_nats_over_the_options(planner: EntropyGuidedBranching) -> None:
    trajectory, _, _ = solve(replace(planner, trajectories=1), Scripted(ONE_WRONG, right_arguments))
    expected = [entropy(ONE_WRONG[step.substep.id].values()) for step in trajectory.steps]
    assert [step.entropy for step in trajectory.steps] == pytest.approx(expected)
    assert expected[2] == pytest.approx(-(0.5 * math.log(0.5) + 0.4 * math.log(0.4) + 0.1 * math.log(0.1)))
    assert [step.entropy for step in trajectory.steps][1] == 0.0


def test_no_more_candidates_than_allowed_no_tool_included() -> None:
    engine = Scripted(certain(s2_2="no_tool"), right_arguments)
    trajectory, _, _ = solve(EGBLogits(max_candidates=3, trajectories=1), engine)
    assert all(step.candidates == ("find", "quote") for step in trajectory.steps)


class Garbled(Scripted):
    """Cannot give `more` arguments that can be read."""

    def _call(self, substep: str, tool: str) -> str:
        return "garbled" if tool == "more" else super()._call(substep, tool)


def test_a_first_choice_whose_arguments_are_unreadable_is_not_tried_again() -> None:
    script = certain() | {"2.1": {"more": 0.6, "no_tool": 0.3, "quote": 0.1}}
    trajectory, _, resolved = solve(EGBLogits(), Garbled(script, right_arguments))
    assert resolved
    assert [tool for _, tool in starts(trajectory)] == ["no_tool", "quote"]


def test_by_name_the_question_is_the_sampled_one_without_a_thought() -> None:
    named, sampling = Scripted(ONE_WRONG, right_arguments), Scripted(ONE_WRONG, right_arguments)
    trajectory, _, resolved = solve(EGBLogits(labels="names"), named)
    solve(EGBSampling(thought=0), sampling)
    chosen = [prompt for prompt in named.prompts if isinstance(prompt.answer, ChoiceAnswer)]
    sampled = [prompt for prompt in sampling.prompts if isinstance(prompt.answer, ToolCallAnswer)]
    assert [prompt.sections for prompt in chosen[:4]] == [prompt.sections for prompt in sampled[:4]]
    assert resolved
    for prompt, step in zip(chosen, trajectory.decisions, strict=False):
        assert isinstance(prompt.answer, ChoiceAnswer)
        assert sorted(prompt.answer.names) == sorted((*step.candidates, NO_TOOL))
        texts = zip(prompt.answer.names, prompt.answer.options, strict=True)
        assert all(text.startswith(name) for name, text in texts)
    indexed = Scripted(ONE_WRONG, right_arguments)
    same, _, _ = solve(EGBLogits(), indexed)
    assert [step.options for step in same.decisions] == [step.options for step in trajectory.decisions]
