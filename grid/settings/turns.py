"""Settings take turns, so that a sweep which is interrupted has about the same cases of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from itertools import islice

from grid.settings.pooled import KEPT, key_of_data
from grid.settings.setting import Cell, Setting

Waiting = tuple[Setting, Iterator[tuple[int, Cell]]]
"""A setting and its cells that are to run, each behind its place among all cells of the setting."""


def by_turns(waiting: Sequence[Waiting], size: Callable[[Setting], int]) -> Iterator[tuple[Setting, list[Cell]]]:
    """Chunks of all settings' cells; the next is always of the setting that has come least far in its own cells.

    A setting's cells stay in their order. So of any two settings with cells left the one is ahead of the other by no
    more than one of its chunks. `size` is asked before each chunk.
    """
    turns = [(0, number) for number in range(len(waiting))]
    heapify(turns)
    first: dict[int, tuple[int, Cell]] = {}
    while turns:
        place, number = heappop(turns)
        setting, cells = waiting[number]
        found = first.pop(number, None) or next(cells, None)
        if found is None:
            continue
        if found[0] > place:  # those before are done already: others may not have come so far
            first[number] = found
            heappush(turns, (found[0], number))
            continue
        chunk = [found, *islice(cells, size(setting) - 1)]
        heappush(turns, (chunk[-1][0] + 1, number))
        yield setting, [cell for _, cell in chunk]


def together(settings: Sequence[Setting]) -> Iterator[list[Setting]]:
    """The settings in groups that take turns among themselves: all, unless they need more data than a process keeps.

    A worker that met more datasets in turn than it keeps would read each of them again for every chunk.
    """
    by_data: dict[tuple[str, ...], list[Setting]] = {}
    for setting in settings:
        by_data.setdefault(key_of_data(setting.config), []).append(setting)
    found = list(by_data.values())
    for begin in range(0, len(found), KEPT):
        yield [setting for own in found[begin : begin + KEPT] for setting in own]
