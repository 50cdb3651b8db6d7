"""Paths that are gone side by side: results in their order, whatever the order in which engines answer."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from grid.core.errors import BudgetError

T = TypeVar("T")
Work = Callable[[], Coroutine[Any, Any, T]]


async def every(works: Sequence[Work[T]]) -> list[T]:
    """All results, in the works' order; the first error ends the others.

    A budget that is used up does not: what is in flight is paid for, so that its answers are waited for and counted.
    """
    if len(works) == 1:
        return [await works[0]()]
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_unless_used_up(work)) for work in works]
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    found: list[T] = []
    for result in (task.result() for task in tasks):
        if isinstance(result, BudgetError):
            raise result
        found.append(result)
    return found


async def _unless_used_up(work: Work[T]) -> T | BudgetError:
    try:
        return await work()
    except BudgetError as error:
        return error


async def until(works: Sequence[Work[T]], enough: Callable[[T], bool], parallel: bool) -> list[T]:
    """The results in order, up to the first that is `enough`, which is asked of each in turn.

    The works behind it are cancelled where they run (`parallel`), and not begun where they do not. Work that waits for
    nothing ends before the next is begun, so that then nothing is done in vain.
    """
    waiting, running, found = deque(works), deque[asyncio.Task[T]](), list[T]()
    try:
        while running or waiting:
            while waiting and (parallel or not running) and not (running and running[0].done()):
                running.append(asyncio.create_task(waiting.popleft()()))
                await asyncio.sleep(0)
            found.append(await running.popleft())
            if enough(found[-1]):
                break
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
    return found
