"""The tool by which a planner says that a request cannot be carried out (agent_planning_benchmark §3.1)."""

from __future__ import annotations

from grid.types import REJECT, Parameter, ToolSpec

REJECT_TOOL = ToolSpec(
    REJECT,
    "Ends the work where the request cannot be carried out with these tools and what is told, or asks back for what is "
    "missing. No other call is made then.",
    (Parameter("reason", "string", "why it cannot be carried out, or what has to be known first"),),
)
"""Offered with solvable and unsolvable cases alike, so that it tells nothing."""
