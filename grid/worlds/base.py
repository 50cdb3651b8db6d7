"""What tools do when called."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol

from grid.types import Observation, ToolCall


class Environment(Protocol):
    """A case's world. `snapshot` and `restore` let searching planners branch without calling tools again."""

    def execute(self, call: ToolCall) -> Observation:
        """Run one call and change the state; raises ToolError where the environment itself breaks."""
        ...

    def snapshot(self) -> Hashable:
        """A mark of the present state; cheap, and valid for the environment's life."""
        ...

    def restore(self, mark: Hashable) -> None:
        """Return to a marked state."""
        ...

    def resolved(self) -> bool:
        """Whether the present state resolves the case."""
        ...
