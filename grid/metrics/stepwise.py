"""Step-wise and plan-level metrics of plan-guided tool use (egb_slate §6.1) and what goes with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from grid.core.problem import Problem
from grid.core.reference import Reference
from grid.core.types import NO_TOOL, Step, ToolCall, Trajectory
from grid.metrics import repeats
from grid.metrics.replaced import counts
from grid.metrics.trajectory import trajectory_scores
from grid.worlds.layers import bare
from grid.worlds.lookup import concrete_calls
from grid.worlds.schema import mends


def score(
    trajectory: Trajectory,
    reference: Reference,
    resolved: bool,
    own: Mapping[str, Any] = MappingProxyType({}),
    concrete: Mapping[str, ToolCall] = MappingProxyType({}),
) -> dict[str, Any]:
    """All metrics of one episode. `resolved` is the environment's word on the final state, `own` are the benchmark's.

    `concrete` is as for `trajectory_scores`.

    A substep that the trajectory does not reach counts as wrong; for the retrieval rate it does not count. Where a plan
    was given to follow, that rate is of its steps, each by what it was offered; without one, rates of steps are None.
    """
    path = trajectory.steps
    found: dict[str, Any] = {
        "success": resolved,
        "repeated_call": repeats.any_two(path),
        "repeated_call_in_a_row": repeats.in_a_row(path),
        "failed_calls": sum(step.observation is not None and step.observation.failed for step in path),
        "finished": bool(path) and path[-1].finished,
    }
    found |= trajectory_scores(trajectory.steps, reference, concrete)
    if reference.followed:
        steps = {step.substep.id: step for step in trajectory.steps}
        needing = [steps.get(place) for place, call in reference.calls.items() if call]
        found |= {
            "tool_match_rate": _share([step is not None and bool(tool_matches(step, reference)) for step in needing]),
            "action_accuracy": _share(
                [place in steps and _acted_rightly(steps[place], reference) for place in reference.calls]
            ),
            "retrieval_rate": _share([_reference_tool(step, reference) in step.candidates for step in needing if step]),
        }
    return found | dict(own)


def scored(
    problem: Problem, trajectory: Trajectory, resolved: bool, said: Mapping[str, Any] = MappingProxyType({})
) -> dict[str, Any]:
    """All metrics of an episode, the benchmark's own among them; `said` are those that a model was asked for.

    They are taken of the trajectory in the reference's terms (`Problem.as_stated`): a tool that replaces another counts
    as that other.
    """
    own, case, world = {**problem.measure(trajectory), **said}, problem.case, bare(problem.world)
    stated = problem.as_stated(trajectory)
    if mends(world):
        replaced, wrongly = counts(stated.steps, problem.reference)
        own |= {"replaced_arguments": replaced, "wrongly_replaced_arguments": wrongly}
    reference = problem.reference.part(len(case.done), case.decisions)
    return score(stated, reference, resolved, own, concrete_calls(world))


def tool_matches(step: Step, reference: Reference) -> bool | None:
    """Whether the chosen tool is the reference's; None where the substep needs none."""
    wanted = _reference_tool(step, reference)
    return None if wanted == NO_TOOL else step.chosen == wanted


def _acted_rightly(step: Step, reference: Reference) -> bool:
    if step.malformed:
        return False
    return (step.call is None) == (reference.calls.get(step.substep.id) is None)


def _reference_tool(step: Step, reference: Reference) -> str:
    call = reference.calls.get(step.substep.id)
    return call.tool if call else NO_TOOL


def _share(hits: Sequence[bool]) -> float | None:
    return sum(hits) / len(hits) if hits else None
