"""What tools do when called: a transition function on states."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple, Protocol, TypeAlias, TypeVar, runtime_checkable

from grid.core.types import Observation, Step, ToolCall

State: TypeAlias = Hashable
"""Immutable, hashable and picklable; equal states behave alike. Planners keep it, hand it back and do not look."""
T = TypeVar("T")


class World(Protocol):
    """A case's world. Nothing is restored: whoever kept a state may go on from it, also side by side."""

    @property
    def branches(self) -> bool:
        """Whether a state may be gone on from more than once, and the start be started from again.

        A live service cannot.
        """
        ...

    def start(self) -> State:
        """The state before any call."""
        ...

    async def apply(self, state: State, call: ToolCall) -> tuple[State, Observation]:
        """The state after a call, and what it returned.

        A call that failed leaves the state as it was, but one that is right as it is (`Reference.failing`), and where
        what counts is that it was made.

        Raises:
            ToolError: the world itself breaks.
        """
        ...

    def resolved(self, state: State) -> bool:
        """Whether a state resolves the case."""
        ...

    def answer(self, state: State) -> str | None:
        """What a state says in answer to the case's question; None where it says nothing."""
        ...


class Conversation(World, Protocol):
    """The world of a case with several messages of the user's; `resolved` tells of all turns, when the last is over."""

    def next_turn(self, state: State) -> State:
        """The state behind the user's next message."""
        ...

    def turn_resolved(self, state: State) -> bool:
        """Whether all is right up to now, were the present turn over."""
        ...


@runtime_checkable
class Ending(Protocol):
    """What a world has besides `World` that knows when the work is over, since somebody ended it.

    Calls behind that fail and change nothing.
    """

    def over(self, state: State) -> bool:
        """Whether nothing can be done any more: a user hung up, say."""
        ...

    def ended(self, state: State, answer: str | None) -> State:
        """The state behind the planner's own end of the work, and what it told then. Not for answered cases."""
        ...


@runtime_checkable
class Closing(Protocol):
    """What a world has besides `World` that holds something which lives, a process say: it ends with the episode."""

    async def close(self) -> None:
        """End it; more than once is once."""
        ...


@runtime_checkable
class Settling(Protocol):
    """What a world has besides `World` that has to look at what is left before it can say whether a case is resolved.

    `resolved` tells of the state that was looked at; before, it is not.
    """

    async def settle(self, state: State) -> None:
        """Look, once, when the work is over. Raises GridError where nothing can be seen."""
        ...


class Argument(NamedTuple):
    """An argument of a tool, as far as it tells what its values mean."""

    tool: str
    name: str
    description: str


class Same(Protocol):
    """Whoever says which free texts mean the same."""

    async def __call__(self, about: Argument, one: str, other: str) -> bool:
        """Whether two values of an argument mean the same, in whatever order they come."""
        ...


class ComparesTexts(World, Protocol):
    """The world of a dataset that has the key `equivalence`."""

    def asking(self, same: Same) -> World:
        """The same world, which asks where its own rules find free texts different."""
        ...


def resolved_by(world: World, steps: Sequence[Step], end: State, broken_off: bool = False) -> bool:
    """Whether a path of `steps` that leads to `end` resolves the case.

    Where to do nothing resolves it, that is only right as an answer, and an answer is one that was read. It does not
    count where the path is empty, where its last answer could not be read, where nothing could but an end behind that
    (what was not read may have been a call), or where it was `broken_off` before it had come to its own end.
    """
    if not world.resolved(end):
        return False
    *before, last = steps or (None,)
    read = last is not None and not last.malformed and not (before and all(step.malformed for step in before))
    return (read and not broken_off) or not world.resolved(world.start())


def own_state(state: State, kind: type[T]) -> T:
    """A state as the kind that a world's own states are; raises TypeError for a state of another world."""
    if not isinstance(state, kind):
        raise TypeError(f"a state of this world is a {kind.__name__}, not {type(state).__name__}")
    return state
