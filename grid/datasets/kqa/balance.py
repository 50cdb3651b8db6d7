"""Samples that are balanced by the number of DAG nodes (planning_horizon B.1.1, 'Sampling')."""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import TypeVar

from grid.seeds import derive_seed

Item = TypeVar("Item")
BINS = ("1-3", "4-5", "6-7", "8-9", "10+")
_LAST = (3, 5, 7, 9)


def bin_of(nodes: int) -> str:
    """The complexity bin of a DAG with so many nodes."""
    return BINS[sum(nodes > last for last in _LAST)]


def balanced(
    items: Sequence[Item],
    seed: int,
    nodes: Callable[[Item], int],
    usable: Callable[[Item], bool] = lambda item: True,
    within: Sequence[Callable[[Item], Hashable]] = (),
) -> Iterator[Item]:
    """The usable items, one of each bin in turn while it lasts: every beginning is balanced. `seed` draws the order.

    An item is looked at only when it is drawn. Inside a bin the groups of each `within`, outermost first, take turns.
    """
    rng = random.Random(derive_seed(seed, "balance"))
    groups: dict[str, list[Item]] = {name: [] for name in BINS}
    for item in items:
        groups[bin_of(nodes(item))].append(item)
    return _in_turns([filter(usable, _spread(group, within, rng)) for group in groups.values()])


def _spread(items: list[Item], within: Sequence[Callable[[Item], Hashable]], rng: random.Random) -> list[Item]:
    if not within:
        return rng.sample(items, len(items))
    groups: dict[Hashable, list[Item]] = {}
    for item in items:
        groups.setdefault(within[0](item), []).append(item)
    return list(_in_turns([_spread(group, within[1:], rng) for group in groups.values()]))


def _in_turns(groups: Iterable[Iterable[Item]]) -> Iterator[Item]:
    """One of each group, round after round."""
    waiting = [iter(group) for group in groups]
    while waiting:
        left = []
        for group in waiting:
            for item in group:
                yield item
                left.append(group)
                break
        waiting = left
