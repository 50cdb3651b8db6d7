"""Problems disturbed by the settings of conf/robustness, and who plays them by the reference."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, cast

from grid.core.problem import Dataset, Problem
from grid.core.types import FINISH, Json, Step, Substep, ToolCall, Trajectory
from grid.core.world import Conversation
from grid.retrievers.scored import BM25
from grid.robustness.base import Robustness
from grid.robustness.costs import Composite, PricedWorld
from grid.settings.make import make
from grid.text.references import answering, resolve
from grid.worlds.layers import close, within
from grid.worlds.simulated import Referenced
from tests.support.configs import yaml

SETTINGS = ("broken_tool", "unsolvable", "costs")


def setting(name: str, **values: Any) -> Robustness:
    """A setting as its file has it, with some values changed."""
    return cast(Robustness, make(f"robustness.{name}", yaml("robustness", name)[name] | values, "robustness"))


def problems(dataset: str, path: str | None, count: int = 4) -> list[Problem]:
    """Some cases, whose tools answer questions as the reference has it."""
    data = cast(
        Dataset, make("dataset", yaml("dataset", dataset) | {"limit": count} | ({"path": path} if path else {}))
    )
    found = []
    for case_id in data.case_ids():
        problem: Any = data.problem(case_id)
        found.append(problem)
    return found


def disturb(problem: Problem, *names: str, seed: int = 3, **values: Any) -> Problem:
    """A problem disturbed by settings, one after another; `values` are of the last."""
    index = BM25().index(problem.library)
    for place, name in enumerate(names, 1):
        problem = setting(name, **(values if place == len(names) else {})).disturb(problem, index, seed)
    return problem


@dataclass(frozen=True)
class Played:
    """What came of calls: the trajectory, and whether its end resolves the case."""

    trajectory: Trajectory
    resolved: bool


def play(problem: Problem, calls: Mapping[str, ToolCall | None] | None = None) -> Played:
    """Make the calls of the reference, or others by its steps, and finish where that answers the question."""
    return asyncio.run(_play(problem, problem.reference.calls if calls is None else calls))


async def _play(problem: Problem, calls: Mapping[str, ToolCall | None]) -> Played:
    world = within(problem.world, lambda own: own.by_reference() if isinstance(own, Referenced) else own)
    state, outputs, steps = world.start(), dict[str, Mapping[str, Json]](), list[Step]()
    turns = len(problem.case.messages)
    for done in problem.case.done:
        outputs[done.substep.id] = done.observation.content if done.observation else {}
    made = set(outputs)
    for step, call in calls.items():
        if step in made:
            continue
        if call is None:
            if turns and not problem.reference.followed:
                state, turns = cast(Conversation, world).next_turn(state), turns - 1
            continue
        concrete = resolve(call, outputs)
        state, observation = await world.apply(state, concrete)
        outputs[step] = observation.content
        steps.append(Step(0, Substep(step, step, ""), concrete, observation, written=call))
    if problem.case.answered:
        finish = ToolCall(FINISH, {"answer": answering(problem.reference.resolution)})
        state, _ = await world.apply(state, resolve(finish, outputs))
    await close(world)
    path = tuple(steps)
    return Played(Trajectory(path, path, state), world.resolved(state))


def with_substitutes(problem: Problem) -> dict[str, ToolCall | None]:
    """The reference's calls, those of broken tools as their replacements'."""
    instead = problem.reference.substitutes
    return {
        step: instead[call.tool].call(call) if call and call.tool in instead else call
        for step, call in problem.reference.calls.items()
    }


def covers(problem: Problem, wanted: Sequence[str]) -> list[tuple[tuple[Composite, tuple[str, ...]], ...]]:
    """Every set of composites' calls that does steps of `wanted` alone, overlapping ones among them."""
    world = cast(PricedWorld, problem.world)
    pairs = [(one, group) for one in world.composites for group in one.groups if set(group) <= set(wanted)]
    return [chosen for size in range(len(pairs) + 1) for chosen in combinations(pairs, size)]


def with_composites(
    calls: Mapping[str, ToolCall | None], chosen: Sequence[tuple[Composite, tuple[str, ...]]]
) -> dict[str, ToolCall | None]:
    """Calls by step, those of each group as one call of its composite, which stands at the group's last step."""
    found: dict[str, ToolCall | None] = {}
    ends = {group[-1]: (one, group) for one, group in chosen}
    inside = {step for _, group in chosen for step in group[:-1]}
    for step, call in calls.items():
        if step in ends:
            one, group = ends[step]
            found[step] = one.call([cast(ToolCall, calls[part]) for part in group])
        elif step not in inside:
            found[step] = call
    return found
