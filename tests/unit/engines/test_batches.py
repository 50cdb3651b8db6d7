"""The thread that batches requests: who shares a batch, and whose failure is whose."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from grid.core.errors import EngineDiedError, EngineError, ModelError
from grid.engines.hosted import Progress
from grid.engines.transformers.engine import Answered, Batches, Ongoing


class Recorder:
    """Answers an item with itself, and remembers the batches; the first one waits for `go`, so that others queue."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, list[Any]]] = []
        self.go = threading.Event()

    def __call__(self, kind: str, items: Sequence[Any], batch: Ongoing) -> Sequence[Any]:
        self.go.wait(300)
        self.seen.append((kind, list(items)))
        if "broken" in items:
            raise RuntimeError("no memory" if len(items) > 1 else "no memory for one")
        if "dead" in items:
            raise EngineDiedError("the GPU is gone")
        return [ModelError("not a number") if item == "nan" else item for item in items]


async def asked(batches: Batches, recorder: Recorder, *wanted: tuple[str, str, int]) -> list[Any]:
    """The answers or errors of requests that wait together behind one that came first."""
    first = asyncio.ensure_future(batches.ask("a", "first", 1))
    while batches.occupancy().running != 1:
        await asyncio.sleep(0.001)
    rest = [asyncio.ensure_future(batches.ask(*request)) for request in wanted]
    while batches.occupancy().waiting != len(wanted):
        await asyncio.sleep(0.001)
    recorder.go.set()
    assert (await first).value == "first"
    return [_value(answer) for answer in await asyncio.gather(*rest, return_exceptions=True)]


def _value(answer: Any) -> Any:
    return answer.value if isinstance(answer, Answered) else answer


def run(
    max_batch: int, max_tokens: int, *wanted: tuple[str, str, int]
) -> tuple[list[Any], list[tuple[str, list[Any]]]]:
    recorder = Recorder()
    batches = Batches(recorder, max_batch, max_tokens, Progress())
    return asyncio.run(asked(batches, recorder, *wanted)), recorder.seen[1:]


def test_requests_of_one_kind_share_a_batch_in_their_order() -> None:
    answers, seen = run(3, 1000, ("b", "1", 1), ("a", "2", 1), ("b", "3", 1), ("b", "4", 1), ("b", "5", 1))
    assert answers == ["1", "2", "3", "4", "5"]
    assert seen == [("b", ["1", "3", "4"]), ("a", ["2"]), ("b", ["5"])]


def test_a_batch_keeps_to_its_tokens_padding_included() -> None:
    answers, seen = run(9, 100, ("b", "1", 10), ("b", "2", 10), ("b", "3", 60), ("b", "4", 300), ("b", "5", 50))
    assert answers == ["1", "2", "3", "4", "5"]
    assert [items for _, items in seen] == [["1", "2"], ["3"], ["4"], ["5"]]


def test_one_answer_that_is_an_error_fails_its_own_request_only() -> None:
    answers, seen = run(9, 1000, ("b", "1", 1), ("b", "nan", 1), ("b", "2", 1))
    assert (answers[0], answers[2]) == ("1", "2")
    assert isinstance(answers[1], ModelError)
    assert len(seen) == 1


def test_a_batch_that_fails_is_tried_one_by_one() -> None:
    answers, seen = run(9, 1000, ("b", "1", 1), ("b", "broken", 1), ("b", "2", 1))
    assert (answers[0], answers[2]) == ("1", "2")
    assert isinstance(answers[1], EngineError)
    assert str(answers[1]) == "RuntimeError: no memory for one"
    assert [items for _, items in seen] == [["1", "broken", "2"], ["1"], ["broken"], ["2"]]


def test_a_dead_engine_answers_nobody_any_more() -> None:
    recorder = Recorder()
    batches = Batches(recorder, 9, 1000, Progress())
    batches.check()
    answers = asyncio.run(asked(batches, recorder, ("b", "1", 1), ("b", "dead", 1), ("c", "2", 1)))
    assert [type(answer) for answer in answers] == [EngineDiedError] * 3
    assert len(recorder.seen) == 2
    with pytest.raises(EngineDiedError, match="the GPU is gone"):
        asyncio.run(batches.ask("b", "later", 1))
    with pytest.raises(EngineDiedError, match="the GPU is gone"):
        batches.check()


def test_cancelled_requests_are_dropped_and_harm_nobody() -> None:
    recorder = Recorder()
    batches = Batches(recorder, 2, 1000, Progress())

    async def cancel() -> list[Any]:
        running = asyncio.ensure_future(batches.ask("a", "running", 1))
        while batches.occupancy().running != 1:
            await asyncio.sleep(0.001)
        waiting = [asyncio.ensure_future(batches.ask("a", str(number), 1)) for number in range(3)]
        while batches.occupancy().waiting != 3:
            await asyncio.sleep(0.001)
        running.cancel()
        waiting[0].cancel()
        await asyncio.sleep(0)
        recorder.go.set()
        return list(map(_value, await asyncio.gather(running, *waiting, return_exceptions=True)))

    answers = asyncio.run(cancel())
    assert [type(answer) for answer in answers[:2]] == [asyncio.CancelledError] * 2
    assert answers[2:] == ["1", "2"]
    assert asyncio.run(batches.ask("a", "after", 1)).value == "after"
    assert all("0" not in items for _, items in recorder.seen)


def test_a_batch_that_nobody_waits_for_ends_at_its_next_step_and_one_left_alone_is_answered() -> None:
    started, left, steps = threading.Event(), threading.Event(), list[list[bool]]()

    def answer(kind: str, items: Sequence[Any], batch: Ongoing) -> Sequence[Any]:
        started.set()
        while kind == "endless" or not left.is_set():
            batch.step()
            steps.append([batch.wanted(index) for index in range(len(items))])
        return items

    async def run() -> None:
        batches = Batches(answer, 2, 1000, Progress())
        endless = asyncio.ensure_future(batches.ask("endless", "a", 1))
        pair = [asyncio.ensure_future(batches.ask("pair", item, 1)) for item in "bc"]
        await asyncio.to_thread(started.wait)
        endless.cancel()
        started.clear()
        await asyncio.to_thread(started.wait)  # the endless one has ended, or the pair could not begin
        pair[0].cancel()
        await asyncio.sleep(0)
        while steps[-1] != [False, True]:
            await asyncio.sleep(0.001)
        left.set()
        assert (await pair[1]).value == "c"

    asyncio.run(run())


def test_the_seconds_of_an_answer_are_those_of_its_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    now, begin = [0.0], threading.Event()

    def answer(kind: str, items: Sequence[Any], batch: Ongoing) -> Sequence[Any]:
        begin.wait(60)
        now[0] += float(kind)
        return items

    async def run() -> list[float]:
        batches = Batches(answer, 2, 1000, Progress())
        asked = [
            asyncio.ensure_future(batches.ask(kind, item, 1)) for kind, item in (("1", "a"), ("30", "b"), ("30", "c"))
        ]
        while batches.occupancy().running + batches.occupancy().waiting < 3:
            await asyncio.sleep(0.001)
        begin.set()
        return [answer.seconds for answer in await asyncio.gather(*asked)]

    monkeypatch.setattr("grid.engines.transformers.engine.time", SimpleNamespace(monotonic=lambda: now[0]))
    assert asyncio.run(run()) == [1, 30, 30], "waiting for the batch before does not count"


def test_an_engine_that_makes_no_step_is_dead() -> None:
    now, recorder = [0.0], Recorder()
    batches = Batches(recorder, 2, 1000, Progress(now=lambda: now[0]))

    async def run() -> None:
        asked = asyncio.ensure_future(batches.ask("a", "1", 1))
        await asyncio.sleep(0)
        now[0] += 1000
        with pytest.raises(EngineDiedError, match="no step for 1000 s"):
            batches.check()
        recorder.go.set()
        await asked
        batches.check()

    asyncio.run(run())
