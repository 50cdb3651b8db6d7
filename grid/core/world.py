"""Worlds define the effects of tool calls, as transition functions on states."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple, Protocol, TypeAlias, TypeVar, runtime_checkable

from grid.core.types import Observation, Step, ToolCall

State: TypeAlias = Hashable
"""States are immutable, hashable and picklable; equal states behave alike. Planners store states but never read
them."""
T = TypeVar("T")


class World(Protocol):
    """A case's world. A planner may continue from any state that it has kept, even in parallel.

    No state has to be restored for this.
    """

    @property
    def branches(self) -> bool:
        """Whether a planner can continue from a state more than once, and start again from the beginning.

        A live service does not allow this.
        """
        ...

    def start(self) -> State:
        """The state before any call."""
        ...

    async def apply(self, state: State, call: ToolCall) -> tuple[State, Observation]:
        """The state after a call, and the call's result.

        A call that failed leaves the state unchanged, with two exceptions: a call that is right although it fails
        (`Reference.failing`), and worlds where it matters that the call was made.

        Raises:
            ToolError: the world itself breaks.
            EngineError: a live service that the world uses does not answer.
        """
        ...

    def resolved(self, state: State) -> bool:
        """Whether a state resolves the case."""
        ...

    def answer(self, state: State) -> str | None:
        """The answer to the case's question according to a state; None if the state gives no answer."""
        ...


class Conversation(World, Protocol):
    """The world of a case with several user messages; after the last turn, `resolved` refers to all turns."""

    def next_turn(self, state: State) -> State:
        """The state after the user's next message."""
        ...

    def turn_resolved(self, state: State) -> bool:
        """Whether all turns so far would be right if the current turn ended now."""
        ...


@runtime_checkable
class Ending(Protocol):
    """The additional methods of a world that can tell whether the work has been ended.

    Calls after the end fail and change nothing.
    """

    def over(self, state: State) -> bool:
        """Whether nothing more can be done, for example because a user hung up."""
        ...

    def ended(self, state: State, answer: str | None) -> State:
        """The state after the planner itself ended the work with `answer`.

        This method is not used for cases whose finish is a call.
        """
        ...


@runtime_checkable
class Closing(Protocol):
    """The additional method of a world that has to close something when the episode ends, such as a process."""

    async def close(self) -> None:
        """Close the world; further calls of this method do nothing."""
        ...


@runtime_checkable
class Settling(Protocol):
    """The additional method of a world that has to examine the final state before `resolved` can answer.

    After `settle`, `resolved` answers for the state that was examined; before `settle`, `resolved` is false.
    """

    async def settle(self, state: State) -> None:
        """Examine the final state, once, when the work is over. Raises GridError if the state cannot be examined."""
        ...


class Argument(NamedTuple):
    """An argument of a tool: the facts that explain the meaning of its values."""

    tool: str
    name: str
    description: str


class Same(Protocol):
    """A callable that decides whether two free texts mean the same."""

    async def __call__(self, about: Argument, one: str, other: str) -> bool:
        """Whether two values of an argument mean the same; the order of the two does not matter."""
        ...


class ComparesTexts(World, Protocol):
    """The world of a dataset that has the key `equivalence`."""

    def asking(self, same: Same) -> World:
        """The same world, except that it asks `same` about free texts that differ under the world's own rules."""
        ...


@runtime_checkable
class ByAnswer(Protocol):
    """A world with live tools that can tell whether an answer alone resolves the case."""

    def resolved_by_answer(self, answer: str | None) -> bool | None:
        """Whether an episode with this answer resolves the case; None if this does not depend on the answer alone."""
        ...


def resolved_by(world: World, steps: Sequence[Step], end: State, broken_off: bool = False) -> bool:
    """Whether a path of `steps` that leads to `end` resolves the case.

    If doing nothing also resolves the case, the planner must have chosen, in an answer that could be read, to do
    nothing. If doing nothing resolves the case, a path therefore does not count if it is empty, if its last answer
    could not be read, or if it was `broken_off` before its own end. Nor does it count if there were answers before the
    last one and none of these could be read, since they may have been calls.
    """
    if not world.resolved(end):
        return False
    *before, last = steps or (None,)
    read = last is not None and not last.malformed and not (before and all(step.malformed for step in before))
    return (read and not broken_off) or not world.resolved(world.start())


def own_state(state: State, kind: type[T]) -> T:
    """The state, typed as a state of this world; raises TypeError for a state of another world."""
    if not isinstance(state, kind):
        raise TypeError(f"a state of this world is a {kind.__name__}, not {type(state).__name__}")
    return state
