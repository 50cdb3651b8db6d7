"""Samples that are balanced by the number of plan nodes (planning_horizon B.1, 'Sampling')."""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import TypeVar

from grid.core.seeds import derive_seed

Item = TypeVar("Item")
KQA, ATOMIC = (3, 5, 7, 9), (3, 5, 7)
"""The most nodes of each complexity bin but the last: of KQA Pro and of Atomic KBQA."""


def bins(most: Sequence[int]) -> tuple[str, ...]:
    """The bins' names, the last without an end: 1-3, 4-5, 6-7, 8+."""
    starts = [1, *(last + 1 for last in most)]
    return (*(f"{first}-{last}" for first, last in zip(starts, most, strict=False)), f"{starts[-1]}+")


def bin_of(nodes: int, most: Sequence[int] = KQA) -> str:
    """The bin of a plan with so many nodes."""
    return bins(most)[sum(nodes > last for last in most)]


def balanced(
    items: Sequence[Item],
    seed: int,
    nodes: Callable[[Item], int],
    usable: Callable[[Item], bool] = lambda item: True,
    within: Sequence[Callable[[Item], Hashable]] = (),
    most: Sequence[int] = KQA,
) -> Iterator[Item]:
    """The usable items, one of each bin in turn while it lasts: every beginning is balanced. `seed` draws the order.

    An item is looked at only when it is drawn. Inside a bin the groups of each `within`, outermost first, take turns.
    """
    rng = random.Random(derive_seed(seed, "balance"))
    groups: dict[str, list[Item]] = {name: [] for name in bins(most)}
    for item in items:
        groups[bin_of(nodes(item), most)].append(item)
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
