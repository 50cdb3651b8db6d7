"""The shape of a reference plan."""

from __future__ import annotations

from typing import Any

from grid.core.once import Once
from grid.core.reference import Reference
from grid.text import references


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
