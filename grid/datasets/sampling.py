"""In which order a dataset's cases are taken: `limit` should draw a sample, and files stand in order of domain."""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Literal, TypeAlias, TypeVar

from grid.core.util import derive_seed

Order: TypeAlias = Literal["sampled", "file"]
Part: TypeAlias = Literal["all", "validation", "test"]
Stratum: TypeAlias = Callable[[str], str]
"""The part of the dataset that a case is of."""
SEED = 0
"""The datasets' own: a sweep's `seed` draws no other cases, so that sweeps are compared on the same ones."""


def ordered(case_ids: Sequence[str], order: Order, strata: Sequence[Stratum] = ()) -> list[str]:
    """All cases, so that any first part is a sample: a longer one holds every shorter one, and goes on from it.

    Of each stratum (the outermost first, further ones inside it) a first part has its share, to within about a case.
    `file` leaves them as they stand.
    """
    return list(case_ids) if order == "file" else _sampled(case_ids, strata, "")


def part_of(case_ids: Sequence[str], part: Part) -> Sequence[str]:
    """One of the two halves of a dataset's cases, in their order: of every two cases one is `test`, by lot.

    Whatever the limit, the halves of its first cases share none: a longer list goes on from a shorter one.
    """
    if part == "all":
        return case_ids
    pairs = (case_ids[start : start + 2] for start in range(0, len(case_ids), 2))
    lots = ((pair, derive_seed(SEED, "part", pair[0]) % 2) for pair in pairs)
    return [case_id for pair, lot in lots for place, case_id in enumerate(pair) if (place == lot) == (part == "test")]


def _sampled(case_ids: Sequence[str], strata: Sequence[Stratum], where: str) -> list[str]:
    if not strata:
        return sorted(case_ids, key=lambda case_id: derive_seed(SEED, "sample", case_id))
    groups: dict[str, list[str]] = {}
    for case_id in case_ids:
        groups.setdefault(strata[0](case_id), []).append(case_id)
    places: dict[str, float] = {}
    for name, group in groups.items():
        inner = f"{where}/{name}"
        begins = derive_seed(SEED, "stratum", inner) / 2**63
        # Evenly over [0, 1) from a random beginning: systematic sampling.
        for number, case_id in enumerate(_sampled(group, strata[1:], inner)):
            places[case_id] = (number + begins) / len(group)
    return sorted(places, key=places.__getitem__)


# Samples that are balanced by the number of plan nodes (planning_horizon B.1, 'Sampling').


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
