"""Which requests and how many cells there is money for: nothing beyond the limit but what is at servers."""

from __future__ import annotations

import random
from typing import Any

import pytest

from grid.cluster.money import Money, Purse
from grid.cluster.worker import Report


def played(seed: int, limit: float, workers: int, cost: Any) -> tuple[float, float]:
    """What was spent by so many workers that ask until they are refused, and the most that a request cost."""
    drawn = random.Random(seed)
    purse, spent, dearest = Purse(limit, 0.0), 0.0, 0.0
    sent, asking, number = dict[int, int](), list(range(workers)), 0
    for _ in range(100_000):
        if not asking and not sent:
            return spent, dearest
        if asking and (not sent or drawn.random() < 0.5):
            worker, number = drawn.choice(asking), number + 1
            before = spent
            may = purse.may(f"t{worker}", number, "s/actor", 1)
            assert may is not None or sent, "who waits, waits for somebody"
            if may is not None:
                asking.remove(worker)
            if may:
                assert before < limit
                sent[number] = worker
        elif sent:
            answered, worker = drawn.choice(sorted(sent.items()))
            del sent[answered]
            dollars = cost(drawn)
            spent, dearest = spent + dollars, max(dearest, dollars)
            purse.ended(f"t{worker}", answered, dollars)
            asking.append(worker)
    raise AssertionError("it does not end")


@pytest.mark.parametrize("workers", [1, 3, 40])
@pytest.mark.parametrize("seed", range(5))
def test_requests_that_cost_the_same_never_go_beyond_and_leave_less_than_one(seed: int, workers: int) -> None:
    spent, _ = played(seed, 2.0, workers, lambda drawn: 0.03)
    assert 2.0 - 0.03 < spent <= 2.0


@pytest.mark.parametrize("workers", [1, 3, 40])
@pytest.mark.parametrize("seed", range(5))
def test_others_go_beyond_by_no_more_than_was_at_servers(seed: int, workers: int) -> None:
    spent, dearest = played(seed, 2.0, workers, lambda drawn: drawn.choice([0.001, 0.01, 0.2]))
    assert 2.0 - 0.2 < spent <= 2.0 + workers * dearest


def test_three_requests_of_a_tenth_pass_a_limit_of_three_tenths() -> None:
    assert played(0, 0.3, 1, lambda drawn: 0.1)[0] == pytest.approx(0.3)


def test_while_nothing_is_known_of_a_role_one_is_sent_at_a_time() -> None:
    purse = Purse(10.0, 0.0)
    assert purse.may("a", 1, "s/actor", 1) is True
    assert purse.may("b", 1, "s/actor", 1) is None
    assert purse.may("b", 2, "s/judge", 1) is True, "of each"
    purse.ended("a", 1, None)
    assert purse.may("b", 1, "s/actor", 1) is True, "one that failed tells nothing"
    purse.ended("b", 1, 1.0)
    assert [purse.may("c", number, "s/actor", 2) for number in range(5)] == [True, True, True, True, None]


def test_what_is_spent_already_refuses_all() -> None:
    assert Purse(1.0, 1.0).may("a", 1, "s/actor", 1) is False
    assert Purse(1.0, 2.0).may("a", 1, "s/actor", 1) is False


def test_what_a_dead_worker_had_at_servers_is_waited_for_no_more_and_counts() -> None:
    purse = Purse(1.0, 0.0)
    assert purse.may("a", 1, "s/actor", 1) is True
    purse.ended("a", 1, 0.3)
    assert [purse.may("a", number, "s/actor", 1) for number in (2, 3, 4)] == [True, True, None]
    purse.gone("a")
    assert purse.may("b", 1, "s/actor", 1) is False, "0.9 are gone"
    purse.ended("a", 2, 0.3)  # late, or twice
    purse.ended("a", 3, 0.3)
    assert Purse.may(purse, "b", 2, "s/actor", 1) is False
    assert purse.may("b", 3, "s/judge", 1) is True, "what it costs nobody knows"


def money(limit: float = 10.0, dollars: float = 0.0, **known: tuple[float, int]) -> Money:
    purse = Money(limit, True, dollars, known)
    purse.expect(dict.fromkeys(("s", "other"), (0, 100)))
    return purse


@pytest.mark.parametrize(
    ("purse", "in_flight", "cells"),
    [
        (money(), [], 1),
        (money(), [("s", 1, 0.0)], 0),
        (money(), [("other", 1, 0.0)], 1),
        (money(), [("other", 1, 10.0)], 0),
        (money(s=(1.0, 1)), [], 5),
        (money(s=(2.0, 2)), [], 6),
        (money(s=(1000.0, 1000)), [], 9),
        (money(s=(1000.0, 1000)), [("s", 4, 0.5)], 5),
        (money(s=(1000.0, 1000)), [("s", 4, 7.5)], 2),
        (money(s=(1000.0, 1000)), [("other", 4, 7.5)], 2),
        (money(dollars=9.0, s=(1.0, 1)), [], 1),
        (money(dollars=9.0, s=(1.0, 1)), [("other", 1, 0.0)], 0),
        (money(dollars=9.5, s=(1.0, 1)), [], 0),
        (money(dollars=10.0), [], 0),
        (money(s=(0.0, 3)), [], 100),
        (money(dollars=10.0, s=(0.0, 3)), [], 0),
        (money(10_000.0, s=(1.0, 1)), [], 100),
    ],
)
def test_how_many_cells_there_is_money_for(purse: Money, in_flight: list[tuple[str, int, float]], cells: int) -> None:
    assert purse.cells("s", 100, in_flight, ["s"]) == cells


@pytest.mark.parametrize(
    ("done", "in_flight", "cells"),
    [
        ((0, 0), [], 3),  # three of each are 9 dollars
        ((0, 3), [], 5),  # the other has three already
        ((4, 0), [], 1),  # four of the other are for the other; one cell runs if no other does
        ((4, 0), [("other", 1, 0.0)], 0),
        ((0, 0), [("other", 4, 0.0)], 1),  # 1.98 dollars are free
        ((0, 99), [], 9),  # the other is far ahead
        ((98, 0), [("other", 1, 0.0)], 0),
    ],
)
def test_settings_share_the_money(done: tuple[int, int], in_flight: list[tuple[str, int, float]], cells: int) -> None:
    """A cell of the one costs a dollar, of the other two."""
    purse = money(9.99, s=(1000.0, 1000), other=(2000.0, 1000))
    purse.expect({"s": (done[0], 100), "other": (done[1], 100)})
    assert purse.cells("s", 100, in_flight, ["s", "other"]) == cells


@pytest.mark.parametrize("limit", [5.0, 30.0, 61.0, 300.0, 3000.0])
def test_settings_end_with_about_the_same_cells_whatever_a_cell_costs(limit: float) -> None:
    """As a run does it: in turns, each with as many cells as there is money for."""
    costs = {"a": 0.1, "b": 3.0, "c": 1.0}
    purse = Money(limit, True, 0.0, {})
    purse.expect(dict.fromkeys(costs, (0, 200)))
    while True:
        first = min((one for one in costs if purse.done[one][0] < 200), key=lambda one: purse.done[one][0], default="")
        if not first or not (cells := purse.cells(first, 25, [], costs)):
            break
        purse.count(Report(first, cells, ok=cells, money=cells * costs[first]))
    fewest, *_, most = sorted(done for done, _ in purse.done.values())
    assert most - fewest <= 1
    assert most == 200 or limit - purse.dollars < max(costs.values())
    assert purse.dollars <= limit


def test_what_cells_take_is_learnt_from_reports() -> None:
    purse = money()
    purse.count(Report("s", 2, ok=1, failed=1, money=3.0))
    purse.count(Report("s", 0, money=1.0, unpaid=2))
    purse.count(Report("s", 1, ok=1, money=None))
    assert (purse.dollars, purse.unpaid, purse.each("s"), purse.each("t")) == (4.0, 2, 1.0, None)
