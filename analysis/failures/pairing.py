"""Which decision of a path stands for which call of the reference."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any

from analysis.failures.cells import Reference, Taken, Wanted
from analysis.failures.values import sources_of
from grid.core.types import to_json
from grid.text.references import PATTERN
from grid.worlds.equivalence import equivalent

_DEEPEST = 64  # calls, one using the other's result, that are followed back


@dataclass
class Pairs:
    """`standing`: by the reference's substep the decision with a call of its tool that stands for it.

    `instead`: by the substep a decision that was taken in its place: a call of another tool, or an answer that could
    not be read. `repeats` and `further` are the other calls: equal to an earlier one of the path, or not. `unread` are
    the other answers that could not be read.
    """

    standing: dict[str, Taken] = field(default_factory=dict)
    instead: dict[str, Taken] = field(default_factory=dict)
    repeats: list[Taken] = field(default_factory=list)
    further: list[Taken] = field(default_factory=list)
    unread: list[Taken] = field(default_factory=list)


def paired(reference: Reference, path: Sequence[Taken], by_substep: bool) -> Pairs:
    """Calls of the same tool first, those with the likest arguments, wherever they stand on the path.

    Of the rest, `by_substep`, a decision takes the place of its own substep's call. Otherwise it takes the place of a
    call that was not made where it lies between the decisions for the calls before and after that; and where calls were
    made in another order, of any that was not made, if the reference lacks its tool.
    """
    found = Pairs()
    used = _same_tool(reference, path, found, by_substep)
    left = [one for one in reference.calls if one.id not in found.standing]
    seen = {taken.written_text for taken in used.values()}
    free: list[Taken] = []
    for taken in path:
        if taken.calls and taken.step not in used:
            if taken.written_text in seen and not by_substep:
                found.repeats.append(taken)
                continue
            seen.add(taken.written_text)
            free.append(taken)
        elif taken.tool is None:
            free.append(taken)
    for taken in _own(left, free, found) if by_substep else _between(reference, left, free, found):
        (found.unread if taken.tool is None else found.further).append(taken)
    return found


def _same_tool(reference: Reference, path: Sequence[Taken], found: Pairs, by_substep: bool) -> Mapping[int, Taken]:
    """Pair calls of the same tools; returns by its step each decision that stands for a call.

    At another substep than its own a call that repeats one which stands for a call already stands for no other.
    """
    used = _alike(reference, path, found)
    made: dict[str, list[tuple[int, Taken]]] = {}
    for place, taken in enumerate(path):
        if taken.calls and taken.tool and taken.step not in used:
            made.setdefault(taken.tool, []).append((place, taken))
    wanted: dict[str, list[tuple[int, Wanted]]] = {}
    for place, one in enumerate(reference.calls):
        if one.id not in found.standing:
            wanted.setdefault(one.tool or "", []).append((place, one))
    origins = _Origins(reference, path)
    for tool, calls in wanted.items():
        own = made.get(tool, [])
        if len(own) == len(calls) == 1:
            pairs = [(calls[0][1], own[0][1])]
        else:
            ranked = sorted(
                (-origins.likeness(one, taken), one.id != taken.id, abs(place - at), number, rank)
                for number, (place, one) in enumerate(calls)
                for rank, (at, taken) in enumerate(own)
            )
            pairs = [(calls[number][1], own[rank][1]) for *_, number, rank in ranked]
        for one, taken in pairs:
            repeats = by_substep and one.id != taken.id and any(_same(taken, other) for other in used.values())
            if one.id not in found.standing and taken.step not in used and not repeats:
                found.standing[one.id] = used[taken.step] = taken
    return used


def _alike(reference: Reference, path: Sequence[Taken], found: Pairs) -> dict[int, Taken]:
    """Pair calls of the same words, whose numbers mean the same; returns them by their steps."""
    by_id = {taken.id: taken for taken in path}
    used: dict[int, Taken] = {}
    for one in reference.calls:
        taken = by_id.get(one.id)
        if taken is None or taken.written_text != one.text or not taken.calls or one.id in found.standing:
            continue
        if reference.followed or all(step in found.standing for step in one.sources):
            found.standing[one.id] = used[taken.step] = taken
    return used


def _same(taken: Taken, other: Taken) -> bool:
    """Whether two calls of a tool are one: in the same words, or with the same outcome."""
    if taken.written_text is not None and taken.written_text == other.written_text:
        return True
    return taken.tool == other.tool and not taken.failed and taken.observed == other.observed is not None


class _Origins:
    """What calls come from: each with the results that it takes replaced by the calls that gave them."""

    def __init__(self, reference: Reference, path: Sequence[Taken]) -> None:
        self._wanted = {one.id: (one.tool, one.arguments) for one in reference.calls}
        self._taken = {taken.id: (taken.tool, taken.written or {}) for taken in path if taken.calls}
        self._known: dict[tuple[bool, str], int] = {}

    def likeness(self, wanted: Wanted, taken: Taken) -> float:
        """The share of the reference's arguments that a call has alike.

        A result is like one that came about in the same way, and half like any other. Of calls that are alike otherwise
        one that did not fail is the liker.
        """
        written, run = taken.written or {}, taken.run
        hits = 0.0
        for name, value in wanted.arguments.items():
            if name not in written:
                continue
            if not sources_of(value):
                hits += equivalent(value, run.get(name, written[name]), name)
            elif sources_of(written[name]):
                same = self._traced(value, True, 0) == self._traced(written[name], False, 0)
                hits += 1.0 if same else 0.5
        return hits / max(len(wanted.arguments), 1) + (0.01 if not taken.failed else 0.0)

    def _traced(self, value: Any, of_reference: bool, depth: int) -> str:
        calls = self._wanted if of_reference else self._taken

        def origin(match: re.Match[str]) -> str:
            key = of_reference, match[1]
            if key not in self._known and match[1] in calls and depth < _DEEPEST:
                tool, arguments = calls[match[1]]
                self._known[key] = 0  # for calls that use their own results, by whatever way
                self._known[key] = hash((tool, self._traced(dict(arguments), of_reference, depth + 1)))
            return f"({self._known.get(key)}).{match[2]}"

        return PATTERN.sub(origin, to_json(value))


def _own(left: Sequence[Wanted], free: Sequence[Taken], found: Pairs) -> list[Taken]:
    """Pair what was decided at the substeps themselves; returns the decisions without a pair."""
    ids = {one.id for one in left}
    found.instead |= {taken.id: taken for taken in free if taken.id in ids}
    return [taken for taken in free if taken.id not in ids]


def _between(reference: Reference, left: Sequence[Wanted], free: Sequence[Taken], found: Pairs) -> list[Taken]:
    """Pair what lies between the same neighbours, then what is left; returns the decisions without a pair."""
    steps = [(one.place, found.standing[one.id].step) for one in reference.calls if one.id in found.standing]
    bounds = [
        (
            max((step for place, step in steps if place < one.place), default=-1.0),
            min((step for place, step in steps if place > one.place), default=inf),
        )
        for one in left
    ]
    rest = []
    for taken in free:
        for wanted, (before, behind) in zip(left, bounds, strict=True) if reference.ordered else ():
            if wanted.id not in found.instead and before < taken.step < behind:
                found.instead[wanted.id] = taken
                break
        else:
            rest.append(taken)
    tools, unpaired = {one.tool for one in reference.calls}, []
    for taken in rest:
        lacking = next((one for one in left if one.id not in found.instead), None)
        if lacking is None or taken.tool in tools:
            unpaired.append(taken)
        else:
            found.instead[lacking.id] = taken
    return unpaired
