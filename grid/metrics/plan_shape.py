"""The shape of a reference plan."""

from __future__ import annotations

from typing import Any

from grid.text import references
from grid.types import Reference


def plan_shape(reference: Reference) -> dict[str, Any]:
    """Depth, breadth and size of the reference plan, in calls (planning_horizon §3.1)."""
    calls = {step: call for step, call in reference.calls.items() if call}
    depth = references.depth(calls)
    return {
        "depth": depth,
        "breadth": len(calls) / depth if depth else None,
        "plan_nodes": len(calls),
        "last_step": list(calls.values())[-1].tool if calls else None,
    }
