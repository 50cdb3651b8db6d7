"""Worlds, which say what tools do when called: transition functions on states."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple, Protocol, TypeAlias, TypeVar, runtime_checkable

from grid.core.types import Observation, Step, ToolCall

State: TypeAlias = Hashable
"""Immutable, hashable and picklable; equal states behave alike. Planners keep states and pass them back unread."""
T = TypeVar("T")


class World(Protocol):
    """A case's world. Nothing needs to be restored: a planner may continue from any state it kept, also in parallel."""

    @property
    def branches(self) -> bool:
        """Whether one can continue from a state more than once, and begin at the start again.

        A live service does not allow this.
        """
        ...

    def start(self) -> State:
        """The state before any call."""
        ...

    async def apply(self, state: State, call: ToolCall) -> tuple[State, Observation]:
        """The state after a call, and what it returned.

        A call that failed leaves the state as it was. Exceptions are a call that is right although it fails
        (`Reference.failing`), and worlds in which it counts that the call was made.

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
    """The world of a case with several messages of the user; after the last turn, `resolved` says it for all turns."""

    def next_turn(self, state: State) -> State:
        """The state after the user's next message."""
        ...

    def turn_resolved(self, state: State) -> bool:
        """Whether everything would be right so far if the present turn ended now."""
        ...


@runtime_checkable
class Ending(Protocol):
    """The further methods of a world that knows when the work is over, because somebody ended it.

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
    """The further method of a world with something alive, for example a process, that has to end with the episode."""

    async def close(self) -> None:
        """End it; further calls do nothing."""
        ...


@runtime_checkable
class Settling(Protocol):
    """The further method of a world that has to look at the end result before it can say whether a case is resolved.

    `resolved` answers for the state that was looked at; before that, it is false.
    """

    async def settle(self, state: State) -> None:
        """Look at the end result, once, when the work is over. Raises GridError if nothing can be seen."""
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
        """The same world, which asks `same` if its own rules find free texts different."""
        ...


def resolved_by(world: World, steps: Sequence[Step], end: State, broken_off: bool = False) -> bool:
    """Whether a path of `steps` that leads to `end` resolves the case.

    If doing nothing resolves the case, it only counts if the planner gave it as an answer that could be read. It does
    not count if the path is empty, if its last answer could not be read, if there were answers before it and none of
    them could be read (they may have been calls), or if the path was `broken_off` before its own end.
    """
    if not world.resolved(end):
        return False
    *before, last = steps or (None,)
    read = last is not None and not last.malformed and not (before and all(step.malformed for step in before))
    return (read and not broken_off) or not world.resolved(world.start())


def own_state(state: State, kind: type[T]) -> T:
    """A state, typed as the class of the world's own states; raises TypeError for a state of another world."""
    if not isinstance(state, kind):
        raise TypeError(f"a state of this world is a {kind.__name__}, not {type(state).__name__}")
    return state
