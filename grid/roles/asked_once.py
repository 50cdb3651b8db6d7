"""Questions of one case to a model that stands behind its world: each is asked once."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class AskedOnce(Generic[K, T]):
    """Answers by question. Paths that go side by side may ask the same: the later one waits for the answer.

    A question whose asking fails is asked again when it comes up again.
    """

    def __init__(self) -> None:
        self._known: dict[K, T] = {}
        self._asking: defaultdict[K, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def __call__(self, question: K, ask: Callable[[], Awaitable[T]]) -> T:
        """The answer; `ask` is awaited where it is not known. Raises what `ask` raises."""
        async with self._asking[question]:
            if question not in self._known:
                self._known[question] = await ask()
        return self._known[question]
