"""Engines that may be asked a certain number of times in all: for pilots."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from grid.core.chains import Verdict
from grid.core.engine import Choice, Engine, Prompt, Sampled
from grid.core.errors import UnfinishedError
from grid.core.reference import Reference
from grid.core.roles import ACTOR
from grid.core.types import ToolSpec
from grid.engines.informed import Informed, Knowing, SinglePass
from grid.settings.build import Built


class CapError(UnfinishedError):
    """No further call is allowed: whatever is in flight ends without a row."""


class Cap:
    """Completions and scoring passes that are left, of all roles together.

    How many passes a choice takes is known with its answer: those of choices in flight may go beyond it. `seconds` are
    those that calls were in flight, each of several at once for itself.
    """

    def __init__(self, calls: int) -> None:
        self.calls = self.left = calls
        self.seconds = 0.0

    def take(self, calls: int) -> None:
        """Raise CapError where fewer are left."""
        if calls > self.left:
            raise CapError(f"dry_run.pilot={self.calls} calls are used up")
        self.left -= calls

    @contextmanager
    def asking(self, calls: int) -> Iterator[None]:
        """Inside it so many calls are in flight. Raises as `take`."""
        self.take(calls)
        began = time.monotonic()
        try:
            yield
        finally:
            self.seconds += calls * (time.monotonic() - began)


class Capped:
    """An engine whose calls a cap counts, before they are made."""

    def __init__(self, engine: Engine, cap: Cap) -> None:
        self.name, self.provides, self.version = engine.name, engine.provides, engine.version
        self.sampler, self.home = engine.sampler, engine.home
        self._engine, self._cap = engine, cap

    async def sample(self, prompt: Prompt, *, n: int, temperature: float, max_tokens: int, seed: int) -> Sampled:
        """As the engine's; raises CapError."""
        with self._cap.asking(n):
            return await self._engine.sample(prompt, n=n, temperature=temperature, max_tokens=max_tokens, seed=seed)

    async def choose(self, prompt: Prompt, *, seed: int) -> Choice:
        """As the engine's; raises CapError."""
        with self._cap.asking(1):
            choice = await self._engine.choose(prompt, seed=seed)
        self._cap.left -= max(choice.usage.forward_passes - 1, 0)
        return choice


class _CappedKnowing(Capped):
    """One that judges plans with a planted accuracy."""

    def knowing(self, truth: Verdict, seed: int) -> Engine:
        """The engine for the questions about one plan."""
        assert isinstance(self._engine, Knowing)  # noqa: S101 - for the types
        return Capped(self._engine.knowing(truth, seed), self._cap)


class _CappedInformed(_CappedKnowing):
    """One that is told references."""

    def told(self, reference: Reference, tools: Mapping[str, ToolSpec], seed: int) -> Engine:
        """The engine for one cell."""
        assert isinstance(self._engine, Informed)  # noqa: S101 - for the types
        return Capped(self._engine.told(reference, tools, seed), self._cap)

    def expected(self, single: SinglePass) -> float:
        """The engine's."""
        assert isinstance(self._engine, Informed)  # noqa: S101 - for the types
        return self._engine.expected(single)


def capped(built: Built, cap: Cap) -> Built:
    """A setting whose roles all count against one cap."""
    engines = {role: _capped(engine, cap) for role, engine in built.engines.items()}
    return replace(built, engine=engines.pop(ACTOR), roles=engines)


def _capped(engine: Engine, cap: Cap) -> Engine:
    kind = (
        _CappedInformed if isinstance(engine, Informed) else _CappedKnowing if isinstance(engine, Knowing) else Capped
    )
    return kind(engine, cap)
