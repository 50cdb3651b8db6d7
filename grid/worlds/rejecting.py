"""The tool by which a planner says that a request cannot be carried out (agent_planning_benchmark §3.1)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from grid.core.types import FINISH, REJECT, Observation, Parameter, ToolCall, ToolSpec
from grid.core.world import State, own_state
from grid.worlds.layers import Layer
from grid.worlds.schema import ERROR

REJECT_TOOL = ToolSpec(
    REJECT,
    "Ends the work where the request cannot be carried out with these tools and what is told, or asks back for what is "
    "missing. No other call is made then.",
    (Parameter("reason", "string", "why it cannot be carried out, or what has to be known first"),),
)
"""Offered with solvable and unsolvable cases alike, so that it tells nothing."""

Wanted: TypeAlias = Literal["refusal", "resolution", "either"]
"""What resolves a case: to refuse it and call nothing else; to resolve it and not refuse; whichever of the two."""


@dataclass(frozen=True)
class RejectState:
    """The inner world's state, whether any tool was `called`, failed calls among them, and the request `refused`."""

    inner: State
    called: bool = False
    refused: bool = False


@dataclass(frozen=True)
class RejectingWorld(Layer):
    """A world in which a request can be refused, which ends the work: calls behind it fail and change nothing.

    `removed` are tools that there are no more. A call that failed was made all the same, and the state says so.
    """

    wanted: Wanted
    removed: frozenset[str] = frozenset()

    def start(self) -> RejectState:
        """Nothing called, nothing refused."""
        return RejectState(self.inner.start())

    async def apply(self, state: State, call: ToolCall) -> tuple[RejectState, Observation]:
        """A refusal, or what the inner world makes of a call before one."""
        before = own_state(state, RejectState)
        if before.refused:
            ended = {"status": "the request was refused"}
            return before, Observation(ended) if call.tool == FINISH else _failed("the request was refused before")
        if call.tool == REJECT:
            return replace(before, refused=True), Observation({"status": "the request is refused"})
        called = replace(before, called=before.called or call.tool != FINISH)
        if call.tool in self.removed:
            return called, _failed(f"there is no tool {call.tool}")
        after, observation = await self.inner.apply(before.inner, call)
        return replace(called, inner=after), observation

    def resolved(self, state: State) -> bool:
        """Whether what is `wanted` was done."""
        own = own_state(state, RejectState)
        return self._settled(own, self.wanted != "refusal" and self.inner.resolved(own.inner))

    def answer(self, state: State) -> str | None:
        """The inner world's; None behind a refusal."""
        own = own_state(state, RejectState)
        return None if own.refused else self.inner.answer(own.inner)

    def next_turn(self, state: State) -> RejectState:
        """The state behind the user's next message: what was refused stays so."""
        own = own_state(state, RejectState)
        return replace(own, inner=super().next_turn(own.inner))

    def turn_resolved(self, state: State) -> bool:
        """As `resolved`, for all turns up to now."""
        own = own_state(state, RejectState)
        return self._settled(own, self.wanted != "refusal" and super().turn_resolved(own.inner))

    def over(self, state: State) -> bool:
        """Whether the inner world's work is over; a refusal is ended by the planner itself."""
        return super().over(own_state(state, RejectState).inner)

    def ended(self, state: State, answer: str | None) -> RejectState:
        """The inner world's end of the work."""
        own = own_state(state, RejectState)
        return replace(own, inner=super().ended(own.inner, answer))

    def _settled(self, state: RejectState, resolved: bool) -> bool:
        if self.wanted == "refusal":
            return state.refused and not state.called
        return resolved and not (state.refused and self.wanted == "resolution")


def _failed(why: str) -> Observation:
    return Observation({ERROR: f"{why}."}, failed=True)
