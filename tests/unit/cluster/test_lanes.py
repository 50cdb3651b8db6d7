"""How much is in flight: as much as replicas can have in hand, or as machines have CPUs."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from grid.cluster.lanes import Lane, Try, Work
from grid.cluster.signs import Sign
from grid.settings.setting import GROUPS, Cell, Setting

SETTING = Setting({group: {} for group in GROUPS}, {}, 0)
SIGN = Sign(1, 1, "node")


def opened(target: int, left: int, **fields: Any) -> Lane:
    """A lane whose replicas can have `target` cells in hand."""
    return Lane([SETTING], ("model",), frozenset(), left, {"model": {"replica": None}}, target, loaded=True, **fields)


def chunks(cells: int, size: int) -> Iterator[tuple[Setting, list[Cell]]]:
    every = (Cell(str(number), 0, str(number), str(number), "") for number in range(cells))
    while chunk := list(itertools.islice(every, size)):
        yield SETTING, chunk


def fill(lane: Lane, names: Iterator[int], cpus: int = 96) -> int:
    """Begin what may begin; the cells that are then in flight."""
    while lane.has_room(2 * cpus):
        work = lane.next()
        if work is None:
            break
        lane.in_flight[next(names)] = Try(work, "a", 0.0)
    return sum(min(lane.at_once, one.unfinished) for one in lane.in_flight.values())


@settings(max_examples=25)
@given(st.integers(1, 600), st.integers(0, 2**32))
def test_cells_in_flight_are_as_many_as_keep_the_replicas_busy(target: int, seed: int) -> None:
    rng = random.Random(seed)
    lane, names = opened(target, 100_000, fresh=chunks(100_000, 25)), itertools.count()
    for _ in range(20):
        assert target <= fill(lane, names) < target + lane.at_once
        for task, one in list(lane.in_flight.items()):
            ended = rng.randint(len(one.work.cells) - one.unfinished, len(one.work.cells))
            one.sign = replace(SIGN, ended=ended)
            if not one.unfinished:
                del lane.in_flight[task]


def test_where_tasks_have_the_engine_chunks_follow_the_cpus() -> None:
    lane = Lane([SETTING], (), frozenset(), 10_000, fresh=chunks(10_000, 25))
    fill(lane, itertools.count(), cpus=3)
    assert len(lane.in_flight) == 6


def test_the_last_chunks_are_small_but_fill_what_runs_side_by_side() -> None:
    def sizes(lane: Lane, cost: float) -> list[int]:
        lane.took(SETTING.id, 10, 10 * cost)
        found = []
        while lane.left > 0:
            found.append(lane.size(SETTING, 25, 4))
            lane.left -= found[-1]
        return found

    in_tasks, pooled = Lane([SETTING], (), frozenset(), 10_000), opened(8, 200)
    found = sizes(in_tasks, 0.01)
    assert (found[0], found[-1]) == (500, 25)
    assert set(sizes(pooled, 60)) == {4}


def test_one_that_has_not_begun_is_silent_where_a_later_one_has_or_nobody_is_busy() -> None:
    lane = Lane([SETTING], (), frozenset(), 0)
    first, second = (Try(Work(SETTING, []), "a", started) for started in (1.0, 2.0))
    for _ in range(10):
        lane.hear(first, None, 5.0, busy=True)
        lane.hear(second, None, 5.0, busy=True)
    assert (first.silent, second.silent) == (0.0, 0.0)
    lane.hear(second, SIGN, 5.0, busy=True)
    lane.hear(first, None, 5.0, busy=True)
    assert (first.silent, second.silent) == (5.0, 0.0)
    lane.hear(second, SIGN, 5.0, busy=True)
    lane.hear(second, None, 5.0, busy=True)
    assert second.silent == 10.0
    lane.hear(second, replace(SIGN, beats=1), 5.0, busy=True)
    assert second.silent == 0.0
    third = Try(Work(SETTING, []), "a", 3.0)
    lane.hear(third, None, 5.0, busy=True)
    lane.hear(third, None, 5.0, busy=False)
    assert third.silent == 5.0


def test_tasks_are_named_by_their_setting_and_the_places_of_their_cells() -> None:
    labels = {"planner": "react", "dataset": "slate", "robustness": "none", "model": "m\x1b[31m"}
    setting = replace(SETTING, labels=labels)
    lane = Lane([setting], (), frozenset(), 60, fresh=((setting, chunk) for _, chunk in chunks(60, 25)))
    works = [lane.next() for _ in range(3)]
    assert [work.name for work in works if work] == [f"react · slate · none · {p}" for p in ("0-25", "25-50", "50-60")]
    assert works[1]
    assert replace(works[1], cells=works[1].cells[:3]).name.endswith("25-50"), "parts keep the name of their chunk"
    assert lane.next() is None
