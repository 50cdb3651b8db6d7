"""The gate: kinds never overlap, nobody starves, and whatever ends a holder lets the next ones in."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grid.engines.gate import KindGate
from tests.properties import examples

KINDS = "abc"
HANGS_SECONDS = 300
Visit = tuple[int, str, int, str]
"""When it comes, its kind, how long it stays (in turns of the event loop), and how it ends."""
VISITS = st.lists(
    st.tuples(
        st.integers(0, 30), st.sampled_from(KINDS), st.integers(0, 6), st.sampled_from(("well", "error", "cancelled"))
    ),
    min_size=1,
    max_size=25,
)


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


class Watched:
    """A gate, and who is inside, with the order in which they came, went in and out."""

    def __init__(self) -> None:
        self.gate, self.inside, self.events = KindGate(), Counter[str](), list[tuple[str, int]]()

    async def visit(self, name: int, kind: str, stay: int, end: str) -> None:
        self.events.append(("came", name))
        async with self.gate.hold(kind):
            self.inside[kind] += 1
            self.events.append(("in", name))
            try:
                assert [other for other, count in self.inside.items() if count] == [kind]
                await turns(stay)
                if end == "error":
                    raise LookupError
            finally:
                self.inside[kind] -= 1
                self.events.append(("out", name))


async def play(visits: Sequence[Visit]) -> tuple[Watched, list[BaseException | None]]:
    """All visits at their times; the cancelled ones are cancelled some turns after they came."""
    watched = Watched()

    async def one(name: int, visit: Visit) -> None:
        start, kind, stay, end = visit
        await turns(start)
        task = asyncio.create_task(watched.visit(name, kind, stay, end))
        if end == "cancelled":
            await turns(stay)
            task.cancel()
        await task

    found = await asyncio.gather(*(one(name, visit) for name, visit in enumerate(visits)), return_exceptions=True)
    return watched, found


@examples(300)
@given(VISITS)
def test_kinds_never_overlap_and_every_visit_ends(visits: list[Visit]) -> None:
    watched, found = asyncio.run(asyncio.wait_for(play(visits), HANGS_SECONDS))
    for (_, _, _, end), error in zip(visits, found, strict=True):
        assert not isinstance(error, AssertionError)
        if end == "well":
            assert error is None
        elif end == "error":
            assert isinstance(error, LookupError)
    assert watched.gate.waiting == 0
    assert sum(watched.inside.values()) == 0
    asyncio.run(asyncio.wait_for(watched.visit(99, "z", 0, "well"), HANGS_SECONDS))  # nothing is left locked


@examples(300)
@given(VISITS)
def test_nobody_waits_longer_than_the_turn_it_found_and_one_of_each_kind_ahead(visits: list[Visit]) -> None:
    watched, _ = asyncio.run(asyncio.wait_for(play([(*visit[:3], "well") for visit in visits]), HANGS_SECONDS))
    kinds = [kind for _, kind, _, _ in visits]
    for name, own in enumerate(kinds):
        came, entered = watched.events.index(("came", name)), watched.events.index(("in", name))
        before = [kinds[other] for event, other in watched.events[came:entered] if event == "in"]
        others = [kind for kind in before if kind != own]
        assert set(others) <= {kinds[other] for other in range(len(kinds)) if _ahead(watched.events, other, came)}
        started = [kind for kind, last in zip(others, ["", *others], strict=False) if kind != last]
        following = started[1:]  # the first may be the turn that it found
        assert len(following) == len(set(following))


def _ahead(events: list[tuple[str, int]], name: int, moment: int) -> bool:
    """Whether somebody had come by then and was not out yet."""
    return events.index(("came", name)) < moment < events.index(("out", name))


def test_a_turn_takes_in_all_that_wait_of_its_kind() -> None:
    async def run() -> list[tuple[str, int]]:
        watched = Watched()
        visits = [("a", 9), ("b", 3), ("a", 3), ("b", 3), ("a", 3)]
        tasks = []
        for name, (kind, stay) in enumerate(visits):
            tasks.append(asyncio.create_task(watched.visit(name, kind, stay, "well")))
            await turns(1)
        assert watched.gate.waiting == 4
        await asyncio.gather(*tasks)
        return [event for event in watched.events if event[0] == "in"]

    assert [name for _, name in asyncio.run(run())] == [0, 1, 3, 2, 4]


@pytest.mark.parametrize("kind", ["a", "b"])
def test_one_who_gives_up_waiting_does_not_hold_up_those_behind(kind: str) -> None:
    async def run() -> None:
        watched = Watched()
        inside = asyncio.create_task(watched.visit(0, "a", 50, "well"))
        await turns(1)
        gives_up = asyncio.create_task(watched.visit(1, "b", 0, "well"))
        await turns(1)
        behind = asyncio.create_task(watched.visit(2, kind, 0, "well"))
        await turns(1)
        gives_up.cancel()
        await asyncio.wait([gives_up, behind] if kind == "a" else [gives_up])
        assert not inside.done()
        await asyncio.gather(inside, behind)

    asyncio.run(asyncio.wait_for(run(), HANGS_SECONDS))


def test_a_stream_of_one_kind_does_not_starve_another() -> None:
    async def run() -> int:
        watched, stream = Watched(), []
        waiting: asyncio.Task[None] | None = None
        for name in range(1000):
            stream.append(asyncio.create_task(watched.visit(name, "a", 5, "well")))
            await turns(1)
            if name == 10:
                waiting = asyncio.create_task(watched.visit(2000, "b", 1, "well"))
            if waiting and waiting.done():
                await asyncio.gather(*stream)
                return name
        raise AssertionError("never got in")

    assert asyncio.run(run()) < 40
