"""Concurrent work on several paths: results come in the order of the paths, whatever the order of the answers."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from grid.core.errors import BudgetError

T = TypeVar("T")
Work = Callable[[], Coroutine[Any, Any, T]]


async def every(works: Sequence[Work[T]]) -> list[T]:
    """The results of all coroutines, in their order; the first error cancels all other coroutines.

    A used-up budget does not cancel the other coroutines: requests in flight have to be paid for, so their answers are
    awaited and counted.
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
    """The results in order, up to the first result for which `enough` is true; they are tested in the same order.

    The later coroutines are cancelled if they are already running (`parallel`); otherwise they are not started. A
    coroutine that waits for nothing ends before the next one starts, so in that case no work is wasted.
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
