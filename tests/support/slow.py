"""A replica that never answers, and tells what became of its requests; imported by its actor's process."""

from __future__ import annotations

import asyncio
from typing import Any

from grid.core.engine import Prompt, Sampled
from grid.core.types import Usage


class Slow:
    """A replica's actor whose requests take for ever, and that tells what became of them."""

    def __init__(self) -> None:
        self._began = self._cancelled = 0

    async def sample(self, attempt_id: str, prompt: Prompt, **how: Any) -> tuple[Sampled, int]:
        self._began += 1
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            self._cancelled += 1
            raise
        return Sampled((), Usage()), 0

    async def told(self) -> tuple[int, int]:
        return self._began, self._cancelled
