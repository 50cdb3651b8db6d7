"""Replicas whose engines start badly, hang or say what they see: the lifecycle of a replica, and no model's results."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from grid.cluster.replica import Hosting, Replica
from grid.core.engine import CHOOSE, SAMPLE, Choice, Home, Prompt, Sampled
from grid.core.types import Usage
from grid.engines.hosted import Occupancy


class Instant:
    """A hosted engine that answers at once; `starts` is what each try to load does: fail, hang or work."""

    provides: ClassVar[frozenset[str]] = frozenset({SAMPLE, CHOOSE})
    home: ClassVar[Home] = "replica"
    name: ClassVar[str] = "test"
    sampler: ClassVar[None] = None
    version: ClassVar[str] = "instant"
    gpus: ClassVar[int] = 0
    environment: ClassVar[tuple[str, ...]] = ()
    capacity: ClassVar[int] = 16

    def __init__(self, starts: list[str]) -> None:
        self.starts, self.running = starts, 0

    async def load(self) -> None:
        start = self.starts.pop(0) if len(self.starts) > 1 else self.starts[0]
        if start == "hang":
            await asyncio.sleep(3600)
        if start == "fail":
            raise RuntimeError("no memory")

    async def check(self) -> None:
        pass

    def occupancy(self) -> Occupancy:
        return Occupancy(self.running, 0)

    async def sample(self, prompt: Prompt, *, n: int, temperature: float, max_tokens: int, seed: int) -> Sampled:
        """Never ends where `max_tokens` is 0; the event loop hangs where it is negative."""
        self.running += 1
        try:
            if max_tokens == 0:
                await asyncio.sleep(3600)
            if max_tokens < 0:
                time.sleep(3600)
        finally:
            self.running -= 1
        return Sampled((f"{os.getpid()}",), Usage(llm_calls=1), computed_seconds=7.0)

    async def choose(self, prompt: Prompt, *, seed: int) -> Choice:
        return Choice((1.0,), Usage(forward_passes=1))


class Unsteady(Replica):
    """Its engine starts as a file `<name>` in the model's folder says, a line for each process; "work" without one."""

    def __init__(self, name: str, model: Mapping[str, Any], hosting: Hosting) -> None:
        super().__init__(name, model, hosting)
        folder = Path(model["path"])
        processes = len(list(folder.glob(f"process-{name[-1]}-*")))
        (folder / f"process-{name[-1]}-{os.getpid()}").touch()
        told = folder / f"starts-{name[-1]}"
        lines = told.read_text().splitlines() if told.exists() else ["work"]
        self._engine = Instant(lines[min(processes, len(lines) - 1)].split())

    async def variable(self, name: str) -> str | None:
        """What the engine would find in its environment."""
        return os.environ.get(name)

    async def write(self, text: str) -> None:
        """Write a line to the log."""
        print(text, file=sys.stderr, flush=True)
