"""Work side by side: results in order, nothing in vain, errors and cancelling."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grid.core.errors import BudgetError
from grid.planners.search import once
from grid.planners.side_by_side import every, until


class Log:
    """Works that each wait for so many turns of the event loop, and what became of them."""

    def __init__(self, *turns: int, broken: frozenset[int] = frozenset(), used_up: bool = False) -> None:
        self.turns, self.broken, self.used_up = turns, broken, used_up
        self.began: list[int] = []
        self.ended: list[int] = []
        self.cancelled: list[int] = []

    @property
    def works(self) -> list[Callable[[], Coroutine[Any, Any, int]]]:
        return [partial(self._work, place) for place in range(len(self.turns))]

    async def _work(self, place: int) -> int:
        self.began.append(place)
        try:
            for _ in range(self.turns[place]):
                await asyncio.sleep(0)
        except asyncio.CancelledError:
            self.cancelled.append(place)
            raise
        if place in self.broken:
            raise BudgetError("llm_calls", place) if self.used_up else ValueError(place)
        self.ended.append(place)
        return place


TURNS = st.lists(st.integers(0, 6), max_size=7)


def never(place: int) -> bool:
    return False


@given(turns=TURNS, parallel=st.booleans())
def test_results_stand_in_the_works_order_whoever_ends_first(turns: list[int], parallel: bool) -> None:
    for gather in (every, partial(until, enough=never, parallel=parallel)):
        log = Log(*turns)
        assert asyncio.run(gather(log.works)) == list(range(len(turns)))
        assert (sorted(log.ended), log.cancelled) == (list(range(len(turns))), [])


@given(turns=TURNS, wanted=st.sets(st.integers(0, 6)), parallel=st.booleans())
def test_the_first_in_order_that_is_enough_ends_it(turns: list[int], wanted: set[int], parallel: bool) -> None:
    log, asked = Log(*turns), list[int]()

    def enough(place: int) -> bool:
        asked.append(place)
        return place in wanted

    found = asyncio.run(until(log.works, enough, parallel))
    first = min((place for place in wanted if place < len(turns)), default=len(turns) - 1)
    assert found == asked == list(range(first + 1))
    assert sorted([*log.ended, *log.cancelled]) == sorted(log.began), "nothing runs on"
    if not parallel:
        assert log.began == found


def test_the_works_behind_the_first_that_is_enough_are_cancelled_where_they_run() -> None:
    log = Log(9, 3, 50, 2, 50)
    assert asyncio.run(until(log.works, lambda place: place == 1, parallel=True)) == [0, 1]
    assert log.began == [0, 1, 2, 3, 4]
    assert (sorted(log.ended), log.cancelled) == ([0, 1, 3], [2, 4])


def test_work_that_waits_for_nothing_is_done_one_after_another() -> None:
    log = Log(*[0] * 5)
    assert asyncio.run(until(log.works, lambda place: place == 2, parallel=True)) == [0, 1, 2]
    assert log.began == [0, 1, 2], "nothing is begun in vain"


def test_side_by_side_they_all_wait_at_once() -> None:
    log = Log(*[20] * 6)

    async def began_meanwhile() -> list[int]:
        task = asyncio.create_task(until(log.works, never, parallel=True))
        for _ in range(15):
            await asyncio.sleep(0)
        began = list(log.began)
        await task
        return began

    assert asyncio.run(began_meanwhile()) == list(range(6))


@pytest.mark.parametrize("parallel", [False, True])
def test_an_error_is_raised_in_its_turn_and_ends_the_others(parallel: bool) -> None:
    log = Log(5, 1, 50, broken=frozenset({1}))
    with pytest.raises(ValueError, match="1"):
        asyncio.run(until(log.works, never, parallel))
    assert (log.ended, log.cancelled) == ([0], [2] if parallel else [])


def test_an_error_behind_the_first_that_is_enough_is_as_if_it_had_not_been() -> None:
    log = Log(9, 1, broken=frozenset({1}))
    assert asyncio.run(until(log.works, lambda place: place == 0, parallel=True)) == [0]
    assert log.began == [0, 1]


def test_the_first_error_ends_every_other_work_and_is_raised_itself() -> None:
    log = Log(30, 3, 30, broken=frozenset({1}))
    with pytest.raises(ValueError, match="1"):
        asyncio.run(every(log.works))
    assert (log.ended, sorted(log.cancelled)) == ([], [0, 2])


def test_whoever_has_used_up_the_budget_leaves_the_others_what_they_have_paid_for() -> None:
    log = Log(30, 3, 30, 2, broken=frozenset({1, 3}), used_up=True)
    with pytest.raises(BudgetError) as found:
        asyncio.run(every(log.works))
    assert (found.value.most, log.ended, log.cancelled) == (1, [0, 2], [])


@pytest.mark.parametrize("gather", [every, partial(until, enough=never, parallel=True)])
def test_whoever_is_cancelled_cancels_the_works(gather: Callable[..., Coroutine[Any, Any, list[int]]]) -> None:
    log = Log(500, 500)

    async def cancel() -> None:
        task = asyncio.create_task(gather(log.works))
        for _ in range(9):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    assert (log.began, sorted(log.cancelled)) == ([0, 1], [0, 1])


def test_no_works_no_results() -> None:
    assert asyncio.run(every([])) == []
    assert asyncio.run(until([], never, parallel=True)) == []


@given(turns=st.integers(0, 5), askers=st.integers(1, 5), broken=st.booleans())
def test_what_is_asked_side_by_side_is_done_once_and_told_to_all(turns: int, askers: int, broken: bool) -> None:
    log = Log(turns, broken=frozenset({0} if broken else ()))
    known: dict[str, asyncio.Future[int]] = {}

    async def ask() -> list[int | BaseException]:
        together = [once(known, "key", log.works[0]) for _ in range(askers)]
        first = await asyncio.gather(*together, return_exceptions=True)
        return [*first, *await asyncio.gather(once(known, "key", log.works[0]), return_exceptions=True)]

    told = asyncio.run(ask())
    assert log.began == [0]
    assert len(told) == askers + 1
    assert all(isinstance(one, ValueError) if broken else one == 0 for one in told)


def test_what_was_cancelled_is_done_anew() -> None:
    log = Log(3)
    known: dict[str, asyncio.Future[int]] = {}

    async def ask() -> int:
        first = asyncio.create_task(once(known, "key", log.works[0]))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.wait([first])
        return await once(known, "key", log.works[0])

    assert asyncio.run(ask()) == 0
    assert (log.began, log.cancelled, log.ended) == ([0, 0], [0], [0])
