"""A world that records calls and answers nothing: for tasks whose tools nobody has (agent_planning_benchmark §3.1).

A call comes back with no fields, so that planners who go step by step can go on, and learn nothing. The broken tool of
a task fails again. Nothing is ever resolved: what a plan is worth is for a scorer to say.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from grid.core.types import Observation, ToolCall
from grid.core.world import State, own_state

BROKEN = "The tool is out of order."


@dataclass(frozen=True)
class RecordingWorld:
    """A state is the calls so far, as texts; `broken` is the tool that fails."""

    broken: str | None = None
    branches: ClassVar[bool] = True

    def start(self) -> State:
        """No call."""
        return ()

    async def apply(self, state: State, call: ToolCall) -> tuple[State, Observation]:
        """The calls with this one, and an outcome without fields."""
        calls = (*own_state(state, tuple), call.text())
        failed = call.tool == self.broken
        return calls, Observation({"error": BROKEN} if failed else {}, failed)

    def resolved(self, state: State) -> bool:
        """Never."""
        return False

    def answer(self, state: State) -> str | None:
        """None."""
        return None
