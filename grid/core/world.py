"""Worlds: they define what tools do when called, as transition functions on states."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple, Protocol, TypeAlias, TypeVar, runtime_checkable

from grid.core.types import Observation, Step, ToolCall

State: TypeAlias = Hashable
"""States are immutable, hashable and picklable; equal states behave alike. Planners keep states and never read them."""
T = TypeVar("T")


class World(Protocol):
    """A case's world. A planner may continue from any state that it kept, also in parallel; nothing is restored."""

    @property
    def branches(self) -> bool:
        """Whether a planner can continue from a state more than once, and begin again at the start.

        A live service does not allow this.
        """
        ...

    def start(self) -> State:
        """The state before any call."""
        ...

    async def apply(self, state: State, call: ToolCall) -> tuple[State, Observation]:
        """The state after a call, and what it returned.

        A call that failed leaves the state unchanged, with two exceptions: a call that is right although it fails
        (`Reference.failing`), and worlds in which it matters that the call was made.

        Raises:
            ToolError: the world itself breaks.
        """
        ...

    def resolved(self, state: State) -> bool:
        """Whether a state resolves the case."""
        ...

    def answer(self, state: State) -> str | None:
        """The answer to the case's question according to a state; None if the state gives none."""
        ...


class Conversation(World, Protocol):
    """The world of a case with several user messages; after the last turn, `resolved` is about all turns."""

    def next_turn(self, state: State) -> State:
        """The state after the user's next message."""
        ...

    def turn_resolved(self, state: State) -> bool:
        """Whether all turns so far would be right if the present turn ended now."""
        ...


@runtime_checkable
class Ending(Protocol):
    """The further methods of a world that knows whether somebody has ended the work.

    Calls after the end fail and change nothing.
    """

    def over(self, state: State) -> bool:
        """Whether nothing can be done any more: for example, a user hung up."""
        ...

    def ended(self, state: State, answer: str | None) -> State:
        """The state after the planner itself ended the work with `answer`. Not for answered cases."""
        ...


@runtime_checkable
class Closing(Protocol):
    """The further method of a world that has something to close when the episode ends, for example a process."""

    async def close(self) -> None:
        """Close it; further calls of this method do nothing."""
        ...


@runtime_checkable
class Settling(Protocol):
    """The further method of a world that has to examine the final state before `resolved` can answer.

    After `settle`, `resolved` answers for the state that was examined; before, it is false.
    """

    async def settle(self, state: State) -> None:
        """Examine the final state, once, when the work is over. Raises GridError if the state cannot be examined."""
        ...


class Argument(NamedTuple):
    """The facts about a tool's argument that say what its values mean."""

    tool: str
    name: str
    description: str


class Same(Protocol):
    """A callable that says which free texts mean the same."""

    async def __call__(self, about: Argument, one: str, other: str) -> bool:
        """Whether two values of an argument mean the same; their order does not matter."""
        ...


class ComparesTexts(World, Protocol):
    """The world of a dataset that has the key `equivalence`."""

    def asking(self, same: Same) -> World:
        """The same world, except that it asks `same` about free texts that its own rules find different."""
        ...


@runtime_checkable
class ByAnswer(Protocol):
    """A world whose tools are live, and which knows whether an answer alone resolves the case."""

    def resolved_by_answer(self, answer: str | None) -> bool | None:
        """Whether an episode with this answer resolves the case; None if more than the answer counts."""
        ...


def resolved_by(world: World, steps: Sequence[Step], end: State, broken_off: bool = False) -> bool:
    """Whether a path of `steps` that leads to `end` resolves the case.

    If the case is also resolved by doing nothing, the planner must have chosen this in an answer that could be read. So
    a path does not count if it is empty, if its last answer could not be read, or if it was `broken_off` before its own
    end. It also does not count if there were answers before the last one and none of these could be read: they may have
    been calls.
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
