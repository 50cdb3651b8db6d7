"""Few points among which every two values meet that meet in any: most of what all points tell, a pair tells."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import TypeVar

P = TypeVar("P", bound=tuple[str, ...])
Pair = tuple[tuple[int, str], tuple[int, str]]


def pairs_of(point: Sequence[str]) -> Iterable[Pair]:
    """The values of a point, two at a time, each with the place of its factor."""
    return combinations(enumerate(point), 2)


def covering(points: Sequence[P], known: Sequence[P] = ()) -> list[P]:
    """Some of the points, in their order, with every pair of values that is in any of them and in none that is `known`.

    The pairs that the fewest points have come first. Of the points with a pair that is still missing the one is taken
    that adds the most pairs, and of these the one whose pairs were taken least often, so that all take turns. The same
    points give the same ones.
    """
    holding: dict[Pair, list[int]] = {}
    pairs = [list(pairs_of(point)) for point in points]
    for place, found in enumerate(pairs):
        for pair in found:
            holding.setdefault(pair, []).append(place)
    taken = Counter(pair for point in known for pair in pairs_of(point))

    def adds(place: int) -> tuple[int, int]:
        times = [taken[pair] for pair in pairs[place]]
        return -times.count(0), sum(times)

    chosen = set[int]()
    for pair in sorted(holding, key=lambda each: len(holding[each])):
        if not taken[pair]:
            best = min(holding[pair], key=adds)
            chosen.add(best)
            taken.update(pairs[best])
    return [points[place] for place in sorted(chosen)]
