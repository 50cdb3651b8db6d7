"""The rows of a search tree's nodes, and of what was best at which cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from grid.core.types import Step, Trajectory, Usage
from grid.core.world import State
from grid.episode.progress import Improvement
from grid.episode.tree import Node


def node_rows(
    cell_id: str, attempt_id: str, nodes: Sequence[Node], returned: Trajectory, right: Mapping[str, bool]
) -> list[dict[str, Any]]:
    """One row a node, in the order in which they were made; the root is the first and has no call.

    `right` has, by what a judge was asked, whether what it judged is right.
    """
    on_path = {id(step) for step in returned.steps}
    return [
        {
            "cell_id": cell_id,
            "attempt_id": attempt_id,
            "node": node.label,
            "parent": node.parent.label if node.parent else None,
            "depth": node.label.count("."),
            "order": node.place,
            "execution": node.execution,
            "chosen_tool": node.action.tool if node.action and node.action.unreadable is None else None,
            "written": node.action.call.text() if node.action and node.action.call else None,
            "failed": _failed(node),
            "share": node.share,
            "entropy": node.entropy,
            "r_pre": node.r_pre,
            "r_post": node.r_post,
            "pre_right": right.get(node.pre_asked or ""),
            "post_right": right.get(node.post_asked or ""),
            "visits": node.visits,
            "value": node.value,
            "pruned": node.pruned,
            "on_path": node.parent is None or bool(node.path and id(node.path.steps[-1]) in on_path),
            **_tokens(node.spent),
        }
        for node in nodes
    ]


def _tokens(usage: Usage) -> dict[str, int | None]:
    known = usage.known()
    return {name: known[name] for name in ("input_tokens", "output_tokens")}


def _failed(node: Node) -> bool | None:
    """Whether its call returned nothing valid; None where none was run."""
    if node.execution is None or node.path is None or not node.path.steps:
        return None
    observation = node.path.steps[-1].observation
    return observation.failed if observation else None


def improvement_rows(
    cell_id: str,
    attempt_id: str,
    improvements: Sequence[Improvement],
    resolved: Callable[[Sequence[Step], State], bool],
) -> list[dict[str, Any]]:
    """One row for each trajectory that was better than all before; the last is the one returned."""
    return [
        {
            "cell_id": cell_id,
            "attempt_id": attempt_id,
            "improvement": place,
            "node": found.node,
            "value": found.value if found.value is None or abs(found.value) < float("inf") else None,
            "success": resolved(found.trajectory.steps, found.trajectory.end),
            "n_steps": len(found.trajectory.steps),
            "tool_calls": found.tool_calls,
            "llm_calls": found.usage.llm_calls,
            "forward_passes": found.usage.forward_passes,
            **_tokens(found.usage),
            "seconds": found.seconds,
        }
        for place, found in enumerate(improvements)
    ]
