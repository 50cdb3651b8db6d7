"""Step-wise and plan-level metrics of plan-guided tool use (egb_slate §6.1), and related metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain, pairwise
from types import MappingProxyType
from typing import Any

from grid.core.problem import Problem, Reference
from grid.core.types import FINISH, NO_TOOL, Step, ToolCall, Trajectory, to_json
from grid.metrics import milestones
from grid.metrics.failure_patterns import same_arguments
from grid.metrics.scores import counts
from grid.text import references
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
    """All metrics of one episode, including the benchmark's own metrics, which are in `own`.

    `resolved` is the environment's verdict on the final state. `concrete` is the same as in `trajectory_scores`.

    A substep that the trajectory does not reach counts as wrong, but is not included in the retrieval rate. If the
    planner had a plan to follow, the retrieval rate is the share, among the reached substeps that need a tool, of those
    where the right tool was offered. Without a plan, the rate is that of `trajectory_scores`, and `tool_match_rate` and
    `action_accuracy` are left out. A rate is None if it has nothing to count.
    """
    path = trajectory.steps
    found: dict[str, Any] = {
        "success": resolved,
        "repeated_call": any_two(path),
        "repeated_call_in_a_row": in_a_row(path),
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
    """All metrics of an episode, including the benchmark's own metrics; `said` contains the metrics judged by a model.

    Metrics are measured on the trajectory in the reference's terms (`Problem.as_stated`): a tool that replaces another
    tool counts as the tool that it replaces.
    """
    own, case, world = {**problem.measure(trajectory), **said}, problem.case, bare(problem.world)
    stated = problem.as_stated(trajectory)
    if mends(world):
        replaced, wrongly = counts(stated.steps, problem.reference)
        own |= {"replaced_arguments": replaced, "wrongly_replaced_arguments": wrongly}
    reference = problem.reference.part(len(case.done), case.decisions)
    if reference.milestones or reference.forbidden:
        own |= milestones.measured(reference, stated)
    return score(stated, reference, resolved, own, concrete_calls(world))


def tool_matches(step: Step, reference: Reference) -> bool | None:
    """Whether the chosen tool is the reference's tool; None if the substep needs no tool."""
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


# Repeated tool calls (planning_horizon §4.5), counted in two ways.
#
# In the paper's text, a call is repeated if an episode calls the same tool with identical arguments more than once. In
# the paper's official code, a call is repeated if it is made twice in a row, with the arguments as the model wrote
# them.


def any_two(steps: Sequence[Step]) -> bool:
    """Whether a tool was called twice with identical arguments; arguments are compared as they were run."""
    tools = Counter(step.call.tool for step in steps if step.call)
    calls = [_text(step.call) for step in steps if step.call and tools[step.call.tool] > 1]
    return len(set(calls)) < len(calls)


def in_a_row(steps: Sequence[Step]) -> bool:
    """Whether the same call was made twice in a row; arguments are compared as they were written."""
    calls = [call for step in steps if (call := step.written or step.call)]
    return any(one.tool == other.tool and _text(one) == _text(other) for one, other in pairwise(calls))


def _text(call: ToolCall) -> str:
    return to_json([call.tool, dict(sorted(call.arguments.items()))])


# Trajectory metrics: the calls made, compared with the reference's calls, whatever the outcome (traject_bench §4.1).


def trajectory_scores(
    steps: Sequence[Step], reference: Reference, concrete: Mapping[str, ToolCall] = MappingProxyType({})
) -> Mapping[str, Any]:
    """The metrics on the tools and arguments of a path; empty if the reference calls no tool.

    exact_match: whether the called names equal the reference's names, compared as lists if the reference is ordered,
    else as sets. inclusion: the number of the reference's names that were called, divided by the length of the
    reference's *list*, as published. If the list contains a tool twice, inclusion cannot reach 1, but `inclusion_set`
    can. usage: among the tools called both on the path and in the reference, the share whose first call has the same
    arguments as the reference's first call (`failure_patterns.same_arguments`). Tools whose reference call uses an
    unknown result are left out; None if no tool is left. retrieval_rate: the same formula as inclusion, but for the
    tools offered at any step. tool_precision and tool_recall compare the set of called names with the set of the
    reference's names; both are 0 if nothing was called. `concrete` contains the reference's calls, keyed by substep,
    with references replaced by the earlier results.
    """
    wanted = {step: call for step, call in reference.calls.items() if call}
    if not wanted:
        return {}
    made = [step for step in steps if step.call and step.call.tool != FINISH]  # a finish may be refused
    names, called = [call.tool for call in wanted.values()], [step.call.tool for step in made if step.call]
    distinct, both, offered = set(names), set(names) & set(called), [step.candidates for step in steps]
    return {
        "exact_match": called == names if reference.ordered else set(called) == distinct,
        "inclusion": len(both) / len(names),
        "inclusion_set": len(both) / len(distinct),
        "usage": _usage(wanted, concrete, made, both),
        "retrieval_rate": len(distinct.intersection(chain.from_iterable(offered))) / len(names),
        "tool_precision": len(both) / len(set(called)) if called else 0.0,
        "tool_recall": len(both) / len(distinct),
    }


def _usage(
    wanted: Mapping[str, ToolCall], concrete: Mapping[str, ToolCall], made: Sequence[Step], names: set[str]
) -> float | None:
    hits = []
    for name in names:
        place, first = next((place, call) for place, call in wanted.items() if call.tool == name)
        if place not in concrete and references.refers(first):
            continue  # a reference alone does not show which value it stands for
        own = next(step for step in made if step.call and step.call.tool == name)
        # A call may contain an earlier result as a reference or as the value itself.
        right, calls = [first, concrete.get(place, first)], [call for call in (own.call, own.written) if call]
        hits.append(any(same_arguments(call.arguments, one.arguments) for call in calls for one in right))
    return sum(hits) / len(hits) if hits else None
