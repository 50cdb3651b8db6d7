"""Models that take turns on GPUs: where they have room, in which order they begin, and that all of them do."""

from __future__ import annotations

from itertools import permutations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grid.cluster.turns import Machines, Turns, machine, ordered, placed

SHARES = st.sampled_from([0.25, 0.5, 1.0, 2.0, 3.0])
MACHINES = st.lists(st.sampled_from([0.5, 1.0, 1.5, 2.0, 4.0]), min_size=1, max_size=3)


def test_a_machine_is_whole_gpus_and_the_rest_of_one() -> None:
    assert [machine(gpus) for gpus in (0, 2, 2.5, 0.3, 0.1 + 0.2 + 0.7)] == [
        [],
        [1, 1],
        [1, 1, pytest.approx(0.5, abs=1e-5)],
        [pytest.approx(0.3, abs=1e-5)],
        [1],
    ]


def ways(shares: list[float], machines: Machines) -> bool:
    """Whether some assignment of shares to GPUs keeps every limit, by trying all."""
    gpus = [(place, free) for place, one in enumerate(machines) for free in one]
    whole = [share for share in shares if share >= 1]
    parts = [share for share in shares if share < 1]
    for homes in product(range(len(machines)), repeat=len(whole)):
        left = {place: sum(1 for home, free in gpus if home == place and free == 1) for place in range(len(machines))}
        for home, share in zip(homes, whole, strict=True):
            left[home] -= int(share)
        if min(left.values()) < 0:
            continue
        free = [free for _, free in gpus if free < 1] + [1.0 for count in left.values() for _ in range(count)]
        for cards in product(range(len(free)), repeat=len(parts)):
            used = [0.0] * len(free)
            for card, share in zip(cards, parts, strict=True):
                used[card] += share
            if all(one <= most for one, most in zip(used, free, strict=True)):
                return True
    return False


@settings(max_examples=150)
@given(st.lists(SHARES, max_size=4), MACHINES)
def test_what_is_placed_has_room_and_keeps_every_limit(shares: list[float], sizes: list[float]) -> None:
    machines = [machine(size) for size in sizes]
    left = placed(shares, machines)
    if left is None:  # it may miss a way that exists, but not where all is of one size
        assert len(set(shares)) > 1 or not ways(shares, machines)
        return
    assert ways(shares, machines)
    assert abs(sum(map(sum, machines)) - sum(shares) - sum(map(sum, left))) < 1e-3
    assert all(0 < free <= 1 for one in left for free in one)


def run(turns: Turns, machines: Machines, work: dict[frozenset[str], int]) -> list[tuple[frozenset[str], int]]:
    """Run teams as a fleet does, a tick at a time: who began, and when; every limit is checked."""
    begun, running, now = [], dict[frozenset[str], int](), 0
    while turns.waiting or running:
        free = placed((share for key in turns.held for share in turns.shares[key]), machines)
        assert free is not None
        while (found := turns.next(free)) is not None:
            team, missing, free = found
            assert team <= turns.held
            assert set(missing) <= team
            begun.append((team, now))
            running[team] = now + work[team]
        if running:
            now = min(running.values())
            for team in [team for team, end in running.items() if end == now]:
                del running[team]
                turns.end(team)
                assert all(one <= turns.held for one in running), "who runs keeps what it needs"
        else:
            assert turns.make_way(), "nobody waits for ever"
    return begun


@st.composite
def plans(draw: st.DrawFn) -> tuple[dict[frozenset[str], int], dict[str, list[float]], list[list[float]]]:
    """Teams that each fit alone: their work, their models' shares, the machines."""
    keys = "abcdef"
    shares = {key: [draw(SHARES)] * draw(st.integers(1, 2)) for key in keys}
    machines = [machine(size) for size in draw(MACHINES)]
    teams = draw(st.lists(st.frozensets(st.sampled_from(keys), min_size=1, max_size=3), min_size=1, max_size=5))
    fitting = [team for team in teams if placed([share for key in team for share in shares[key]], machines) is not None]
    return {team: draw(st.integers(1, 9)) for team in fitting}, shares, machines


@settings(max_examples=150)
@given(plans())
def test_every_team_begins_once_and_within_the_gpus(
    plan: tuple[dict[frozenset[str], int], dict[str, list[float]], list[list[float]]],
) -> None:
    work, shares, machines = plan
    order, end = ordered(work, shares, machines)
    begun = run(Turns(shares, list(order)), machines, work)
    assert sorted(map(sorted, work)) == sorted(sorted(team) for team, _ in begun)
    assert end == max((now + work[team] for team, now in begun), default=0), "as it was foreseen"


def test_the_largest_begins_first_where_that_ends_sooner() -> None:
    shares = {key: [gpus] for key, gpus in {"a": 1.0, "b": 1.0, "c": 1.0, "big": 2.0}.items()}
    a, b, c, big = (frozenset([key]) for key in shares)
    machines = [[1.0, 1.0]]
    order, end = ordered({a: 1, b: 1, c: 6}, shares, machines)
    assert (order[0], end) == (c, 6)
    assert ordered({a: 3, b: 3}, shares, machines) == ([a, b], 3), "as given where nothing is sooner"
    order, end = ordered({a: 1, big: 5, b: 1}, shares, machines)
    best = min(
        max(
            now + {a: 1, b: 1, big: 5}[team]
            for team, now in run(Turns(shares, list(way)), machines, {a: 1, b: 1, big: 5})
        )
        for way in permutations([a, b, big])
    )
    assert end == best == 6


def test_a_judge_that_others_need_stays_and_what_nobody_needs_goes() -> None:
    shares = {"a": [1.0], "b": [1.0], "judge": [1.0]}
    turns = Turns(shares, [frozenset({"a", "judge"}), frozenset({"b", "judge"})])
    first = turns.next([[1.0, 1.0]])
    assert first
    assert first[1:] == (["a", "judge"], [[]])
    assert turns.next([[]]) is None
    assert turns.end(first[0]) == ["a"]
    second = turns.next([[1.0]])
    assert second
    assert second[1] == ["b"]
    assert turns.end(second[0]) == [], "nobody waits"


def test_what_cannot_be_loaded_takes_its_teams_along_and_no_others() -> None:
    shares = {"a": [1.0], "b": [1.0], "judge": [1.0]}
    both, with_judge, alone = frozenset({"a", "judge"}), frozenset({"b", "judge"}), frozenset({"b"})
    turns = Turns(shares, [both, with_judge, alone])
    turns.next([[1.0, 1.0, 1.0]])
    lost, gone = turns.fail("judge")
    assert lost == [both, with_judge]
    assert gone == ["a", "judge"]
    assert turns.waiting == [alone]
    assert turns.held == set()
