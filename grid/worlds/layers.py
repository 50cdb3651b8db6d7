"""Worlds around other worlds: what a robustness setting makes of some calls, all others being the inner world's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import cast

from grid.core.once import can
from grid.core.types import Observation, ToolCall
from grid.core.world import Closing, Conversation, Ending, State, World


@dataclass(frozen=True)
class Layer:
    """All is as in the world that it is around; states are that world's."""

    inner: World

    @property
    def branches(self) -> bool:
        """Whether the inner world does."""
        return self.inner.branches

    def start(self) -> State:
        """The inner world's."""
        return self.inner.start()

    async def apply(self, state: State, call: ToolCall) -> tuple[State, Observation]:
        """What the inner world makes of a call."""
        return await self.inner.apply(state, call)

    def resolved(self, state: State) -> bool:
        """Whether a state resolves the case."""
        return self.inner.resolved(state)

    def answer(self, state: State) -> str | None:
        """What a state says in answer."""
        return self.inner.answer(state)

    def next_turn(self, state: State) -> State:
        """The state behind the user's next message, where the inner world is a conversation."""
        return cast(Conversation, self.inner).next_turn(state)

    def turn_resolved(self, state: State) -> bool:
        """Whether all is right up to now, where the inner world is a conversation."""
        return cast(Conversation, self.inner).turn_resolved(state)

    def over(self, state: State) -> bool:
        """Whether nothing can be done any more."""
        return over(self.inner, state)

    def ended(self, state: State, answer: str | None) -> State:
        """The state behind the planner's own end of the work."""
        return ended(self.inner, state, answer)


def over(world: World, state: State) -> bool:
    """Whether nothing can be done any more, where the world can tell."""
    return can(type(world), Ending) and cast(Ending, world).over(state)


def ended(world: World, state: State, answer: str | None) -> State:
    """The state behind the planner's own end of the work; the same state where that is nothing to the world."""
    return cast(Ending, world).ended(state, answer) if can(type(world), Ending) else state


async def close(world: World) -> None:
    """End what lives in a world, where anything does."""
    inner = bare(world)
    if can(type(inner), Closing):
        await cast(Closing, inner).close()


def bare(world: World) -> World:
    """A world without the layers around it."""
    while isinstance(world, Layer):
        world = world.inner
    return world


def within(world: World, change: Callable[[World], World]) -> World:
    """The world with another one in the place of what is `bare`, in the same layers."""
    if not isinstance(world, Layer):
        return change(world)
    return replace(world, inner=within(world.inner, change))
