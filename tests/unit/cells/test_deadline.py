"""A case's own time: what counts, what does not, and what ends with it."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest

from grid.cells.deadline import CaseLoop, CaseTime, LoopClock, asking, run

T = TypeVar("T")


def test_what_the_kernel_says_of_waiting_is_in_nanoseconds(tmp_path: Path) -> None:
    """The second number of schedstat (proc(5))."""
    (tmp_path / "schedstat").write_text("7000000000 1000000000 9\n")
    clock = LoopClock()
    clock.close()
    clock._delays = os.open(tmp_path / "schedstat", os.O_RDWR)
    assert clock._delay() == 1.0
    before = clock.now()
    os.pwrite(clock._delays, b"7000000000 3601000000000 9\n", 0)
    assert clock.now() == before, "an hour of waiting more: time does not go on, and never back"
    clock.close()


async def used(work: Coroutine[Any, Any, Any], seconds: float = 600.0) -> float:
    """The seconds that a case which does the work has used; raises TimeoutError as the case does."""
    case = CaseTime("a", seconds)
    await case.counted(case.limited(work))
    return case.used


async def with_passed(work: Coroutine[Any, Any, T]) -> tuple[T, float]:
    """The work's result, and the seconds of the loop's clock in it: a busy machine takes off both alike."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, CaseLoop)
    before = loop.clock.now()
    return await work, loop.clock.now() - before


async def pause(seconds: float) -> None:
    """Sleep until the loop's own clock has gone on by so many: a busy machine may take a whole sleep off it."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, CaseLoop)
    idle = loop.clock.idle
    for _ in range(2_000):
        await asyncio.sleep(seconds / 5)
        if loop.clock.idle - idle >= seconds:
            return
    raise AssertionError("the clock does not go on")


async def wait_for_others(seconds: float, computed: float = 0.0) -> None:
    with asking() as told:
        await pause(seconds)
        told(computed)


async def block(seconds: float) -> None:
    time.sleep(seconds)


def test_time_that_requests_wait_is_not_the_cases() -> None:
    assert run(used(wait_for_others(0.5))) < 0.4


def test_time_in_which_a_request_was_computed_is_but_no_more_than_has_passed() -> None:
    assert 0.3 <= run(used(wait_for_others(0.5, computed=0.3))) < 0.5
    assert run(used(wait_for_others(0.2, computed=500))) < 100


def test_requests_that_were_computed_side_by_side_count_once() -> None:
    async def several() -> None:
        await asyncio.gather(*(wait_for_others(0.5, computed=0.4) for _ in range(20)))

    assert run(used(several())) < 2


def test_what_a_case_waits_for_by_itself_counts() -> None:
    assert run(used(pause(0.3))) >= 0.3 - 1e-6


def test_a_case_that_never_waits_is_told_its_time_in_the_middle_of_a_step() -> None:
    async def computing() -> tuple[float, float, float]:
        case = CaseTime("a", 600.0)

        async def work() -> tuple[float, float]:
            before, began = case.now(), time.thread_time()
            while time.thread_time() - began < 0.05:
                pass
            return before, case.now()

        return *await case.counted(work()), case.used

    before, after, ended = run(computing())
    assert before < after <= ended


def test_a_step_that_holds_the_loop_counts_for_its_case_alone() -> None:
    async def both() -> tuple[float, float]:
        return tuple(await asyncio.gather(used(asyncio.sleep(0.01)), used(block(0.8))))  # type: ignore[return-value]

    (other, own), passed = run(with_passed(both()))
    assert other < passed / 2
    assert own >= 0.75 * passed


def test_tasks_of_a_case_count_as_the_case_and_end_with_it() -> None:
    left: list[asyncio.Task[None]] = []

    async def parent() -> None:
        left.append(asyncio.create_task(asyncio.sleep(600)))
        await asyncio.gather(block(0.5), block(0.5))

    async def told() -> tuple[float, bool]:
        seconds = await used(parent())
        await asyncio.sleep(0)
        return seconds, left[0].cancelled()

    (seconds, cancelled), passed = run(with_passed(told()))
    assert seconds >= 0.75 * passed, "both of them, whatever a busy machine took off"
    assert cancelled


@pytest.mark.parametrize("waits", [asyncio.sleep, lambda seconds: wait_for_others(0.3, computed=seconds)])
def test_a_case_that_has_used_its_time_ends_and_what_it_awaits_is_cancelled(waits: Any) -> None:
    async def case() -> CaseTime:
        one = CaseTime("a", 0.2)

        async def work() -> None:
            await waits(600)
            await asyncio.sleep(600)

        with pytest.raises(TimeoutError):
            await one.counted(one.limited(work()))
        return one

    assert run(case()).expired


def test_another_time_out_is_not_the_cases() -> None:
    async def case() -> CaseTime:
        one = CaseTime("a", 600)
        with pytest.raises(TimeoutError):
            await one.counted(one.limited(asyncio.wait_for(asyncio.sleep(600), 0.01)))
        return one

    assert not run(case()).expired


def test_a_stopped_process_uses_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    async def case() -> float:
        one = CaseTime("a", 600)
        clock = one._clock
        clock.pulse()
        before = clock.now()
        real = time.monotonic
        monkeypatch.setattr(time, "monotonic", lambda: real() + 300)  # as it stands after a SIGSTOP of five minutes
        late = clock.now() - before
        clock.pulse()
        assert clock.now() - before == pytest.approx(late, abs=1)
        monkeypatch.undo()
        return late

    assert run(case()) < 5


def test_a_process_is_started_under_another_librarys_policy() -> None:
    """As uvloop's, which Ray sets in its workers where vLLM has brought it."""

    class Foreign(asyncio.DefaultEventLoopPolicy):
        def get_child_watcher(self) -> Any:
            raise NotImplementedError

    async def said() -> bytes:
        process = await asyncio.create_subprocess_exec("echo", "hello", stdout=asyncio.subprocess.PIPE)
        return (await process.communicate())[0]

    async def anew() -> bytes:
        asyncio.set_event_loop_policy(Foreign())  # as a server does that is started in the loop
        return await said()

    asyncio.set_event_loop_policy(Foreign())
    try:
        with pytest.raises(NotImplementedError):
            asyncio.run(said())
        assert run(said()) == b"hello\n"
        assert run(anew()) == b"hello\n"
        assert isinstance(asyncio.get_event_loop_policy(), Foreign), "it is as it was"
    finally:
        asyncio.set_event_loop_policy(None)
