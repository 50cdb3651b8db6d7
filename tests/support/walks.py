"""A path through a world whose calls are answered at once."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from grid.core.types import Json, Observation, ToolCall
from grid.core.world import State, World

T = TypeVar("T")


def at_once(coroutine: Coroutine[Any, Any, T]) -> T:
    """What a coroutine that waits for nothing returns."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        value: T = done.value
        return value
    raise AssertionError("it waits for something")


@dataclass
class Walk:
    """Where one is in a world, one call after another."""

    world: World
    state: State = field(init=False)

    def __post_init__(self) -> None:
        self.state = self.world.start()

    def call(self, tool: str, **arguments: Json) -> Observation:
        return self.make(ToolCall(tool, arguments))

    def make(self, call: ToolCall) -> Observation:
        """Make a call; one that fails must leave the state as it was."""
        before = self.state
        self.state, observation = at_once(self.world.apply(before, call))
        assert self.state == before or not observation.failed
        return observation

    @property
    def resolved(self) -> bool:
        return self.world.resolved(self.state)

    @property
    def answer(self) -> str | None:
        return self.world.answer(self.state)
