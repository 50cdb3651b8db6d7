"""Engines whose requests go through a meter, both before they are sent and after they are answered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import Protocol, TypeVar

from grid.core.engine import ACTOR, Choice, Engine, Prompt, Role, Sampled
from grid.core.problem import Reference
from grid.core.types import ToolSpec, Verdict
from grid.engines.hosted import Informed, Knowing, SinglePass
from grid.settings.build import Built

T = TypeVar("T", Sampled, Choice)


class Meter(Protocol):
    """The object through which requests go."""

    async def asked(self, role: Role, calls: int, request: Callable[[], Awaitable[T]]) -> T:
        """The answer to a request for `calls` completions or a scoring pass.

        Raises an error if the request may not be sent.
        """
        ...


class Metered:
    """A role's engine whose requests go through a meter."""

    def __init__(self, engine: Engine, role: Role, meter: Meter) -> None:
        self.name, self.provides, self.version = engine.name, engine.provides, engine.version
        self.sampler, self.home = engine.sampler, engine.home
        self._engine, self._role, self._meter = engine, role, meter

    async def sample(self, prompt: Prompt, *, n: int, temperature: float, max_tokens: int, seed: int) -> Sampled:
        """Like the engine's method; also raises the meter's errors."""
        how = {"n": n, "temperature": temperature, "max_tokens": max_tokens, "seed": seed}
        request: Callable[[], Awaitable[Sampled]] = partial(self._engine.sample, prompt, **how)  # type: ignore[arg-type]
        return await self._meter.asked(self._role, n, request)

    async def choose(self, prompt: Prompt, *, seed: int) -> Choice:
        """Like the engine's method; also raises the meter's errors."""
        return await self._meter.asked(self._role, 1, partial(self._engine.choose, prompt, seed=seed))


class _Knowing(Metered):
    """A metered engine that judges plans with a given accuracy."""

    def knowing(self, truth: Verdict, seed: int) -> Engine:
        """The engine for questions about one plan."""
        assert isinstance(self._engine, Knowing)  # noqa: S101 - for the types
        return Metered(self._engine.knowing(truth, seed), self._role, self._meter)


class _Informed(_Knowing):
    """A metered engine that is told the references."""

    def told(self, reference: Reference, tools: Mapping[str, ToolSpec], seed: int) -> Engine:
        """The engine for one cell."""
        assert isinstance(self._engine, Informed)  # noqa: S101 - for the types
        return Metered(self._engine.told(reference, tools, seed), self._role, self._meter)

    def expected(self, single: SinglePass) -> float:
        """The engine's expected success."""
        assert isinstance(self._engine, Informed)  # noqa: S101 - for the types
        return self._engine.expected(single)


def metered(built: Built, meter: Meter, roles: Collection[Role]) -> Built:
    """The setting, changed so that all requests to the engines of these roles go through one meter."""
    engines = {role: _of(role, engine, meter) if role in roles else engine for role, engine in built.engines.items()}
    return replace(built, engine=engines.pop(ACTOR), roles=engines)


def _of(role: Role, engine: Engine, meter: Meter) -> Engine:
    kind = _Informed if isinstance(engine, Informed) else _Knowing if isinstance(engine, Knowing) else Metered
    return kind(engine, role, meter)
