"""The gate on calls: what does not fit a tool's schema is not executed, nor shown to a judge (tooltree §4.1)."""

from __future__ import annotations

from typing import Literal

from grid.core.types import ToolCall
from grid.episode.acting import Action
from grid.episode.tree import Node, Pruned
from grid.episode.view import View
from grid.text.arguments import misfit

Repeats = Literal["path", "state"]
"""Which calls are not admissible any more: all that the path has made, or those that it made from this very state."""


def unfit(node: Node, view: View, action: Action, repeats: Repeats) -> Pruned | None:
    """Why an action cannot be executed at a node, which `view` looks from; None where it can."""
    if action.unreadable is not None:
        return "unreadable"
    if action.call is None:
        return "given_up" if action.given_up else None
    if misfit(action.call, view.offer.tools[action.call.tool]):
        return "schema"
    return "repeated" if not view.guided and _repeated(node, action.call, repeats) else None


def _repeated(node: Node, call: ToolCall, repeats: Repeats) -> bool:
    """Whether a path has made a call already. Not asked under an outline, two substeps of which may make one."""
    text = call.text()
    for edge in node.edges():
        made = edge.action.call if edge.action else None
        if made and made.text() == text:
            before = edge.parent.path if edge.parent else None
            if repeats == "path" or (before and node.path and before.state == node.path.state):
                return True
    return False
