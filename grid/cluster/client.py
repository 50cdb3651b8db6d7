"""A task's access to an engine in a pool of replicas: it routes and limits requests, and resends lost ones."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from grid.cells.deadline import asking
from grid.core.engine import Choice, Engine, Home, Prompt, Sampled
from grid.core.errors import EngineError, GridError, UnfinishedError
from grid.core.types import Usage

NAMESPACE = "agent-grid"
TRIES = 5
IN_FLIGHT = 256  # maximum number of a chunk's requests that are at replicas at once
_WAIT_SECONDS = 1.0  # before a lost request is sent again; doubled after each attempt
_OVERLOADED = 2.0, 16  # more than this many times the least loaded replica's requests, plus this many


class Router:
    """Chooses a replica: all requests of a case go to the same replica, unless it is overloaded.

    A replica's load is the load that it last reported, plus the number of requests sent to it since then.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._loads = dict.fromkeys(names, 0)

    def pick(self, key: str, avoid: str | None = None) -> str:
        """The replica with the highest hash of key and name (rendezvous hashing); the request is added to its load.

        If that replica is overloaded, the least loaded replica is returned instead. The replica `avoid` is returned
        only if there is no other.
        """
        names = [name for name in self._loads if name != avoid] or list(self._loads)
        favourite = max(names, key=lambda name: hashlib.sha256(f"{key}/{name}".encode()).digest())
        least = min(names, key=lambda name: self._loads[name])
        factor, more = _OVERLOADED
        overloaded = self._loads[favourite] > factor * self._loads[least] + more
        chosen = least if overloaded else favourite
        self._loads[chosen] += 1
        return chosen

    def report(self, name: str, load: int) -> None:
        """Record the load that a replica reported with an answer."""
        if name in self._loads:
            self._loads[name] = load

    def lost(self, name: str) -> None:
        """Record that a replica ended, which means that it no longer processes any requests."""
        if name in self._loads:
            self._loads[name] = 0

    def drop(self, name: str) -> int:
        """Never pick a replica again; returns the number of replicas left."""
        self._loads.pop(name, None)
        return len(self._loads)


class PooledEngine:
    """An engine whose requests go to the replicas of a pool; the replicas count the usage of each attempt.

    The caller gets the engine's GridErrors unchanged; any other error of the engine becomes an EngineError.
    """

    home: ClassVar[Home] = "task"

    def __init__(self, engine: Engine, replicas: Mapping[str, Any], attempt_id: str) -> None:
        self.name, self.provides, self.version = engine.name, engine.provides, engine.version
        self.sampler = engine.sampler
        self._router, self._replicas = Router(list(replicas)), replicas
        self._gate, self._attempt_id = asyncio.Semaphore(IN_FLIGHT), attempt_id

    async def sample(self, prompt: Prompt, *, n: int, temperature: float, max_tokens: int, seed: int) -> Sampled:
        """Ask a replica's engine for samples.

        Raises:
            EngineError: no replica answered in TRIES attempts, or the engine raised an error that is no GridError.
            GridError: the engine raised this error.
            UnfinishedError: no replica is left that could ever answer.
        """
        how = {"n": n, "temperature": temperature, "max_tokens": max_tokens, "seed": seed}
        answer: Sampled = await self._ask("sample", prompt, how)
        return answer

    async def choose(self, prompt: Prompt, *, seed: int) -> Choice:
        """Ask a replica's engine to choose; raises the same errors as `sample`."""
        answer: Choice = await self._ask("choose", prompt, {"seed": seed})
        return answer

    async def _ask(self, verb: str, prompt: Prompt, how: Mapping[str, Any]) -> Any:
        import ray

        key, avoid = case_key(prompt), None
        with asking() as computed:
            async with self._gate:
                for tried in range(TRIES):
                    name = self._router.pick(key, avoid)
                    asked = getattr(self._replicas[name], verb).remote(self._attempt_id, prompt, **how)
                    try:
                        answer, load = await asked
                    except asyncio.CancelledError:
                        ray.cancel(asked)  # otherwise the replica would continue with the request
                        raise
                    except ray.exceptions.RayTaskError as error:
                        if isinstance(error.cause, GridError):
                            raise error.cause from None
                        raise EngineError(f"{type(error.cause).__name__} at replica {name}: {error.cause}") from None
                    except ray.exceptions.RayActorError as error:
                        last = str(error).strip().splitlines()[0]
                        avoid = await self._lost(name, last)
                        await asyncio.sleep(_WAIT_SECONDS * 2**tried)
                        continue
                    computed(answer.computed_seconds)
                    self._router.report(name, load)
                    return replace(answer, usage=answer.usage + Usage(resent_requests=tried))
            raise EngineError(f"no replica answered in {TRIES} attempts; the last error: {last}")

    async def _lost(self, name: str, why: str) -> str:
        """Handle the end of a replica's process; returns the replica's name.

        Raises UnfinishedError if no replica is left.
        """
        import ray

        self._router.lost(name)
        try:
            await asyncio.to_thread(ray.get_actor, name, NAMESPACE)
        except ValueError:  # Ray will not start it again
            if not self._router.drop(name):
                raise UnfinishedError(f"no replica of {self.name} is left; the last error: {why}") from None
        return name


def case_key(prompt: Prompt) -> str:
    """The beginning that all prompts of a case have in common: the sections up to the task."""
    head: list[str] = []
    for section in prompt.sections:
        head += section.entries
        if section.kind == "task":
            break
    return "\n".join(head)
