"""What all scorers of a cell share: the version of scoring, and what an episode that was never scored is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from grid.core.problem import Reference
from grid.core.types import Step
from grid.core.util import Once
from grid.text import references
from grid.worlds.schema import READ_AS

SCORING = "3"
"""Raise when the same trajectory gets another score; part of every cell's id."""
PATTERNS = (
    "similar_tool_confusion", "wrong_parameters", "missing_parameters", "redundant_related", "redundant_unrelated",
    "intent_missed",
)  # fmt: skip
"""How trajectories go wrong (traject_bench §4.2; `grid.metrics.failure_patterns` has the rules)."""
SUCCESS = "success"
"""The one metric that is a column of `episodes`: whether the case was resolved, None where nobody can tell."""
UNSCORED: Mapping[str, Any] = MappingProxyType(
    {"repeated_call": False, "repeated_call_in_a_row": False, "failed_calls": 0, "finished": False}
)
"""What is so of an episode of which nothing is known."""


# Arguments that forgiving tools put in the place of others, and which of them were wrong (planning_horizon §3.2).


def replacements(step: Step) -> Mapping[str, str]:
    """What the tools say was put in the place of which parameters of a step's call; only of a world that mends."""
    found = step.observation.content.get(READ_AS) if step.observation else None
    return {name: taken for name, taken in found.items() if isinstance(taken, str)} if isinstance(found, dict) else {}


def counts(path: Sequence[Step], reference: Reference) -> tuple[int, int]:
    """How many arguments were replaced on a path, and how many of those wrongly.

    Wrongly: no call of the reference, of whatever tool, has what was taken as its argument of the same name (`key`,
    `relation`, `concept_name`, `qkey`, `name`, `value`, `qvalue`). A path that is right by other names than the
    reference's counts as wrong too, so that it is an upper bound of silent wrong replacements.
    """
    calls = [call for call in reference.calls.values() if call]
    wanted = {(name, value) for call in calls for name, value in call.arguments.items() if isinstance(value, str)}
    taken = [item for step in path for item in replacements(step).items()]
    return len(taken), sum(item not in wanted for item in taken)


# The shape of a reference plan.


def _shape(reference: Reference) -> dict[str, Any]:
    """Depth, breadth and size of the reference plan, in calls and in edges.

    In calls (planning_horizon §3.1): depth is the longest chain of dependent calls, breadth is calls / depth. In edges
    (the paper's official code): depth is the dependencies in that chain, one fewer, and breadth is calls / those; null
    for a plan without a dependency. The official code's longest path is too short in some plans, since it visits a step
    before all that lead to it are known; this one is not.
    """
    calls = {step: call for step, call in reference.calls.items() if call}
    depth = references.depth(calls)
    return {
        "depth": depth,
        "breadth": len(calls) / depth if depth else None,
        "depth_edges": depth - 1 if depth else None,
        "breadth_edges": len(calls) / (depth - 1) if depth > 1 else None,
        "plan_nodes": len(calls),
        "last_step": list(calls.values())[-1].tool if calls else None,
    }


plan_shape: Once[Reference, dict[str, Any]] = Once(_shape)
"""As `_shape`, once for all cells of a case."""
