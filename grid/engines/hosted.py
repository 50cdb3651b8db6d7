"""An engine that an actor holds, and what it has in hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from grid.core.engine import Engine


@dataclass(frozen=True)
class Occupancy:
    """What an engine has in hand: requests being computed and waiting, and the share of its KV cache in use."""

    running: int
    waiting: int
    kv_cache: float | None = None


class HostedEngine(Engine, Protocol):
    """An engine that an actor holds. Its `sample` and `choose` may raise EngineDiedError: the actor then ends."""

    @property
    def gpus(self) -> float:
        """GPUs that one replica takes: a whole number, a share of one, or 0 on a CPU."""
        ...

    @property
    def environment(self) -> tuple[str, ...]:
        """The names of the driver's environment variables that it needs where it loads."""
        ...

    @property
    def capacity(self) -> int:
        """About how many cases keep one replica busy."""
        ...

    async def load(self) -> None:
        """Make ready to answer, once; raises ConfigError for what can never work."""
        ...

    async def check(self) -> None:
        """Raise EngineDiedError where it will not answer any more; awaits nothing, so that any event loop may ask."""
        ...

    def occupancy(self) -> Occupancy:
        """What it has in hand now."""
        ...
