"""Worlds around other worlds.

The outer world (for example, of a robustness setting) handles some calls differently; the inner world runs all others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Protocol, TypeAlias, cast, runtime_checkable

from grid.core.types import FINISH, REJECT, Observation, Parameter, ToolCall, ToolSpec
from grid.core.util import can
from grid.core.world import Closing, Conversation, Ending, Settling, State, World, own_state
from grid.worlds.schema import ERROR


@dataclass(frozen=True)
class Layer:
    """A world that wraps another world, its inner world.

    Unless a subclass changes this, a layer behaves like the inner world and has the same states.
    """

    inner: World

    @property
    def branches(self) -> bool:
        """Whether the inner world branches."""
        return self.inner.branches

    def start(self) -> State:
        """The inner world's start."""
        return self.inner.start()

    async def apply(self, state: State, call: ToolCall) -> tuple[State, Observation]:
        """The outcome of a call in the inner world."""
        return await self.inner.apply(state, call)

    def resolved(self, state: State) -> bool:
        """Whether a state resolves the case."""
        return self.inner.resolved(state)

    def answer(self, state: State) -> str | None:
        """The answer in a state."""
        return self.inner.answer(state)

    def next_turn(self, state: State) -> State:
        """The state after the user's next message, if the inner world is a conversation."""
        return cast(Conversation, self.inner).next_turn(state)

    def turn_resolved(self, state: State) -> bool:
        """Whether all turns so far are resolved, if the inner world is a conversation."""
        return cast(Conversation, self.inner).turn_resolved(state)

    def over(self, state: State) -> bool:
        """Whether the work is over, so that further calls have no effect."""
        return over(self.inner, state)

    def ended(self, state: State, answer: str | None) -> State:
        """The state after the planner itself ended the work."""
        return ended(self.inner, state, answer)


def over(world: World, state: State) -> bool:
    """Whether the work in a world is over; False if the world cannot tell."""
    return can(type(world), Ending) and cast(Ending, world).over(state)


def ended(world: World, state: State, answer: str | None) -> State:
    """The state after the planner itself ended the work.

    The state stays the same in a world without the method `ended`.
    """
    return cast(Ending, world).ended(state, answer) if can(type(world), Ending) else state


async def close(world: World) -> None:
    """Let the innermost world end anything that it has running, such as a process."""
    inner = bare(world)
    if can(type(inner), Closing):
        await cast(Closing, inner).close()


async def settle(world: World, state: State) -> None:
    """Let the innermost world examine its last state, if that world has a method for this."""
    inner = bare(world)
    if can(type(inner), Settling):
        await cast(Settling, inner).settle(state.inner if isinstance(state, RejectState) else state)


def bare(world: World) -> World:
    """A world without the layers around it."""
    while isinstance(world, Layer):
        world = world.inner
    return world


def within(world: World, change: Callable[[World], World]) -> World:
    """The same layers around a different innermost world, which `change` returns for the current one (`bare`)."""
    if not isinstance(world, Layer):
        return change(world)
    return replace(world, inner=within(world.inner, change))


# A world that records calls and returns no results, for tasks with unavailable tools (agent_planning_benchmark §3.1).
#
# A call returns no fields, so that step-by-step planners can continue but learn nothing. A task's broken tool also
# fails in this world. No case is ever resolved, since a scorer decides how good a plan is.


BROKEN = "The tool is out of order."


@dataclass(frozen=True)
class RecordingWorld:
    """A world whose state is the calls so far, as texts; `broken` is the tool that fails."""

    broken: str | None = None
    branches: ClassVar[bool] = True

    def start(self) -> State:
        """The empty state, without calls."""
        return ()

    async def apply(self, state: State, call: ToolCall) -> tuple[State, Observation]:
        """The calls, including this one, and an observation: `error` if the tool is broken, otherwise empty."""
        calls = (*own_state(state, tuple), call.text())
        failed = call.tool == self.broken
        return calls, Observation({"error": BROKEN} if failed else {}, failed)

    def resolved(self, state: State) -> bool:
        """False, because no case is ever resolved."""
        return False

    def answer(self, state: State) -> str | None:
        """None, because there are no answers."""
        return None


# The tool by which a planner declares that a request cannot be carried out (agent_planning_benchmark §3.1).


REJECT_TOOL = ToolSpec(
    REJECT,
    "Ends the work where the request cannot be carried out with these tools and what is told, or asks back for what is "
    "missing. No other call is made then.",
    (Parameter("reason", "string", "why it cannot be carried out, or what has to be known first"),),
)
"""The tool for refusing.

The tool is offered in solvable and unsolvable cases alike, so that the offer reveals nothing.
"""

Wanted: TypeAlias = Literal["refusal", "resolution", "either"]
"""How a case is resolved.

"refusal": by a refusal without any other call. "resolution": by the inner world, without a refusal. "either": by the
inner world, with or without a refusal.
"""


@dataclass(frozen=True)
class RejectState:
    """The inner world's state, whether any tool was `called` (even if it failed), and whether the planner `refused`."""

    inner: State
    called: bool = False
    refused: bool = False


@dataclass(frozen=True)
class RejectingWorld(Layer):
    """A world in which a request can be refused. A refusal ends the work: later calls change nothing.

    After a refusal, all calls but `finish` fail. `removed` has the names of tools that no longer exist. Failed calls
    also set `called` in the state; `finish` does not.
    """

    wanted: Wanted
    removed: frozenset[str] = frozenset()

    def start(self) -> RejectState:
        """The inner world's start, with nothing called and nothing refused."""
        return RejectState(self.inner.start())

    async def apply(self, state: State, call: ToolCall) -> tuple[RejectState, Observation]:
        """The outcome of a call: a refusal, the inner world's outcome, or an error after a refusal."""
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
        """Whether the `wanted` outcome was reached."""
        own = own_state(state, RejectState)
        return self._settled(own, self.wanted != "refusal" and self.inner.resolved(own.inner))

    def answer(self, state: State) -> str | None:
        """The inner world's answer; None after a refusal."""
        own = own_state(state, RejectState)
        return None if own.refused else self.inner.answer(own.inner)

    def next_turn(self, state: State) -> RejectState:
        """The state after the user's next message. A refusal stays in force."""
        own = own_state(state, RejectState)
        return replace(own, inner=super().next_turn(own.inner))

    def turn_resolved(self, state: State) -> bool:
        """Whether the `wanted` outcome was reached in all turns so far."""
        own = own_state(state, RejectState)
        return self._settled(own, self.wanted != "refusal" and super().turn_resolved(own.inner))

    def over(self, state: State) -> bool:
        """Whether the inner world's work is over.

        A refusal does not count, because the planner itself ends the work after a refusal.
        """
        return super().over(own_state(state, RejectState).inner)

    def ended(self, state: State, answer: str | None) -> RejectState:
        """The state after the planner ended the work in the inner world."""
        own = own_state(state, RejectState)
        return replace(own, inner=super().ended(own.inner, answer))

    def _settled(self, state: RejectState, resolved: bool) -> bool:
        if self.wanted == "refusal":
            return state.refused and not state.called
        return resolved and not (state.refused and self.wanted == "resolution")


def _failed(why: str) -> Observation:
    return Observation({ERROR: f"{why}."}, failed=True)


# Worlds in which searches find paragraphs, for the tool-robustness settings (planning_horizon §3.2, §4.4).


@runtime_checkable
class RetrievingWorld(World, Protocol):
    """A world that answers a search from the paragraphs that the search finds."""

    def reading(self, paragraphs: int) -> World:
        """The same world, except that a search uses only the best `paragraphs` paragraphs."""
        ...
