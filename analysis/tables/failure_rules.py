"""Rules, in a fixed order, that find the faults on a failed cell's path.

Each call of the reference is compared with the decision on the path that corresponds to it. Every rule is a separate
function, whose docstring states the rule. A call that the case's scorer accepts is never a fault.

The class of a cell is the class of its first fault in the order of the path. A cascade, which is the consequence of an
earlier fault, counts only if all other faults may have done no harm. A fault that may have done no harm (a superfluous
call, or an unreadable answer where no call was due) counts only if there is no other fault.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any

from analysis.tables.failure_cells import (
    BUDGET,
    CASCADE,
    ERROR,
    GAVE_UP,
    MISSING,
    NO_RETRIEVAL,
    REDUNDANT,
    SOURCE,
    UNKNOWN,
    UNREADABLE,
    VALUE,
    WRONG_ARGUMENT,
    WRONG_TOOL,
    Cell,
    Fault,
    Reference,
    Taken,
    Wanted,
    first_wrong,
    sources_of,
    wrong_arguments,
)
from grid.core.types import FINISH, GIVE_UP, NO_TOOL, OTHER, REFUSE, REJECT, RETRY, to_json
from grid.text.references import PATTERN
from grid.worlds.equivalence import equivalent

OF_PLANNER = frozenset({"model", "context", "timeout"})
"""The kinds of errors that count as the planner's failures; all other kinds do not."""
NOTHING_CALLED = "no call"


def faults(cell: Cell) -> list[Fault]:
    """All faults of a failed cell, in the order of its path; a single UNKNOWN if no rule finds a fault.

    A cell that ended in an error that is not the planner's (OF_PLANNER) has a single ERROR.
    """
    if cell.status != "ok" and cell.error_kind not in OF_PLANNER:
        return [Fault(ERROR, cell.error_kind or "not told")]
    found = sorted(_found(cell), key=lambda fault: fault.place)
    return found or [Fault(UNKNOWN, "every call agrees with the reference" if cell.reference.calls else "no reference")]


def primary(found: Sequence[Fault]) -> Fault:
    """The fault that gives a cell its class: the first that is neither harmless nor a cascade.

    If there is no such fault, it is the first cascade; if there is no cascade either, it is the first fault. `found`
    must not be empty.
    """
    costly = [fault for fault in found if not fault.harmless]
    return next((fault for fault in costly if fault.kind != CASCADE), (costly or found)[0])


def _found(cell: Cell) -> list[Fault]:
    if cell.unsolvable:
        return of_unsolvable(cell)
    found = _against_reference(cell) if cell.reference.calls else _without_reference(cell)
    if cell.behaviour is not None:
        return of_broken(cell, found)
    return of_plan(cell, found) if cell.plan_errors else found


def _against_reference(cell: Cell) -> list[Fault]:
    """The faults found by comparing the path with the reference's calls."""
    return _Path(cell).found()


def _without_reference(cell: Cell) -> list[Fault]:
    """The faults if there is no reference.

    They are UNREADABLE (if most answers or the last answer could not be read) and the fault of the path's end.
    """
    end = _end(cell)
    unread = [taken for taken in cell.path if taken.tool is None]
    if unread and (2 * len(unread) > len(cell.path) or unread[-1] is cell.path[-1]):
        return [Fault(UNREADABLE, None, unread[0].step, place=unread[0].step), *([end] if end else [])]
    return [end] if end else []


def _end(cell: Cell) -> Fault | None:
    """The fault of a path that ended too early; None if the path ended by itself.

    budget: the time was up, the prompt did not fit the context, a part of the episode's budget was used up, the path
    reached the planner's maximum number of decisions, or a search returned an unfinished path.
    unreadable: no plan or score could be read in any attempt. gave up: the request was refused, the path was abandoned,
    or nothing was called at all although the reference calls tools.
    """
    last = cell.path[-1].step if cell.path else None
    if cell.error_kind in ("timeout", "context"):
        return Fault(BUDGET, cell.error_kind, last, place=inf)
    if cell.error_kind == "model":
        return Fault(UNREADABLE, _short(cell.error_message), last, place=inf)
    if cell.budget_reached:
        return Fault(BUDGET, cell.budget_reached, last, place=inf)
    leaving = next((taken for taken in cell.path if taken.tool in (REJECT, GIVE_UP)), None)
    if leaving or cell.refused:
        at = leaving.step if leaving else last
        return Fault(GAVE_UP, "refused", at, place=inf if at is None else at)
    if _broke_off(cell):
        return Fault(BUDGET, "search", last, place=inf)
    if not any(taken.calls or taken.tool is None for taken in cell.path) and cell.reference.calls:
        return Fault(GAVE_UP, NOTHING_CALLED, _first_needed(cell), place=inf)
    return Fault(BUDGET, "max_calls", last, place=inf) if cell.cut else None


def _broke_off(cell: Cell) -> bool:
    """Whether a search returned an unfinished path: substeps are left, or the last decision does not finish."""
    if not cell.searched:
        return False
    if cell.reference.followed:
        return len(cell.path) < len(cell.reference.wanted)
    return not cell.path or cell.path[-1].tool not in (FINISH, REJECT, GIVE_UP)


def _first_needed(cell: Cell) -> int | None:
    """The first step at which a call was due; None if the path has no such step."""
    needed = {one.id for one in cell.reference.calls} if cell.reference.followed else set()
    steps = [taken.step for taken in cell.path if not needed or taken.id in needed]
    return steps[0] if steps else None


class _Held:
    """Rules for a single call of the reference; `faulty` has the substeps whose results are missing or wrong."""

    def __init__(self, cell: Cell) -> None:
        self.cell, self.faulty, self.standing = cell, set[str](), dict[str, Taken]()
        self.by_substep = cell.reference.followed and not cell.at_once
        self.own = {taken.id: taken for taken in cell.path} if cell.reference.followed else {}
        self.made: list[Fault] = []

    def add(self, fault: Fault | None, wanted: Wanted | None = None) -> None:
        """Record a fault; the result of the substep of `wanted` then counts as faulty."""
        if fault is not None:
            self.made.append(fault)
            if wanted is not None:
                self.faulty.add(wanted.id)

    def spoilt(self, wanted: Wanted) -> list[str]:
        """The faulty substeps whose results a call of the reference uses."""
        return [step for step in wanted.sources if step in self.faulty] if self.faulty else []

    def of_arguments(self, wanted: Wanted, taken: Taken) -> Fault | None:
        """Wrong argument: a call of the right tool with an argument that the scorer does not accept.

        value: a different value. source: a result instead of the reference's value, a value instead of the reference's
        result, or another result. format: the same content in another form, a missing argument, or an argument that the
        reference does not have. cascade: every argument that differs uses a result of a faulty step, or the call is
        right but failed because a result of a faulty step was missing.
        """
        spoilt = self.spoilt(wanted)
        if wanted.text == taken.written_text:
            failed = spoilt and taken.failed
            return Fault(CASCADE, _uses(spoilt), taken.step, place=taken.step) if failed else None
        if self.cell.looked_up and taken.failed is False and not self._another(wanted, taken):
            return None
        wrong = wrong_arguments(wanted, taken, self.standing, self.cell.looked_up)
        own = [one for one in wrong if not one.needs & self.faulty]
        if own:
            kind, text = first_wrong(own)
            return Fault(WRONG_ARGUMENT, f"{kind}: {text}", taken.step, place=taken.step)
        if wrong or (spoilt and taken.failed):
            return Fault(CASCADE, _uses(spoilt), taken.step, place=taken.step)
        if taken.failed and self.cell.looked_up and "no_result" in (taken.observed or ""):
            return Fault(WRONG_ARGUMENT, "value: the tool found nothing", taken.step, place=taken.step)
        return None

    def of_tool(self, wanted: Wanted, taken: Taken) -> Fault | None:
        """No retrieval: another tool was called, because the reference's tool was not offered.

        Wrong tool: another tool was called, although the reference's tool was offered or may have been offered.

        None if the other tool does the same, that is, if the scorer's table accepts its call and no call of the
        reference is of this tool.
        """
        if self.cell.looked_up and taken.failed is False and not self._elsewhere(taken):
            return None
        kind, text = (NO_RETRIEVAL, "") if self.offered(wanted) is False else (WRONG_TOOL, f"{_cut(taken.tool)} for ")
        return Fault(kind, f"{text}{_cut(wanted.tool)}", taken.step, place=taken.step)

    def of_nothing(self, wanted: Wanted, place: int | None) -> Fault:
        """Missing call: the path lacks a call of the reference; no retrieval: the call's tool was not offered either.

        cascade: the missing call uses a result of a faulty step. `place` is the step of the decision at the position of
        the call, or of the next decision; None if there is no later decision.
        """
        last = self.cell.path[-1].step if self.cell.path else None
        at, step = (inf, last) if place is None else (place - 0.5, place)
        spoilt = self.spoilt(wanted)
        if spoilt:
            return Fault(CASCADE, _uses(spoilt), step, place=at)
        kind = NO_RETRIEVAL if self.offered(wanted) is False else MISSING
        return Fault(kind, _cut(wanted.tool), step, place=at)

    def of_unread(self, taken: Taken, harmless: bool) -> Fault:
        """unreadable: the answer of a decision could not be read as a call."""
        return Fault(UNREADABLE, None, taken.step, harmless, taken.step)

    def offered(self, wanted: Wanted) -> bool | None:
        """Whether the tool of a reference's call was offered; None if this is not known.

        Without an outline, `retrieval_rate` gives the share of the reference's tools that were offered, and every tool
        that the path called was offered.
        """
        if self.own:
            return self.own[wanted.id].offered if wanted.id in self.own else None
        if self.cell.retrieved is None:
            return None
        names = [one.tool for one in self.cell.reference.calls]
        distinct, called = set(names), {taken.tool for taken in self.cell.path}
        lacking = len(distinct) - round(self.cell.retrieved * len(names))
        if lacking <= 0 or wanted.tool in called:
            return True
        return False if lacking >= len(distinct - called) else None

    def _elsewhere(self, taken: Taken) -> bool:
        """Whether the decision's tool is the tool of some call of the reference."""
        return any(one.tool == taken.tool for one in self.cell.reference.calls)

    def _another(self, wanted: Wanted, taken: Taken) -> bool:
        """Whether a call that the tools accept matches some call of the reference other than `wanted`."""
        others = [one for one in self.cell.reference.calls if one.tool == wanted.tool and one is not wanted]
        return any(not wrong_arguments(one, taken, self.standing, True) for one in others)


class _Path(_Held):
    """A path compared with all calls of the reference."""

    def found(self) -> list[Fault]:
        """The faults for each call of the reference, then faults of other calls, then the fault of the path's end."""
        end = _end(self.cell)
        if end is not None and end.detail == NOTHING_CALLED:
            return [end]
        pairs = paired(self.cell.reference, self.cell.path, self.by_substep)
        self.standing, behind = pairs.standing, _behind(self.cell, pairs)
        for wanted in self.cell.reference.calls:
            taken = pairs.standing.get(wanted.id)
            if taken is not None:
                self.add(self.of_arguments(wanted, taken), wanted)
                continue
            taken = pairs.instead.get(wanted.id)
            if taken is not None:
                unread = taken.tool is None
                self.add(self.of_unread(taken, False) if unread else self.of_tool(wanted, taken), wanted)
                continue
            own = self.own.get(wanted.id) if self.by_substep else None
            place = own.step if own else behind[wanted.id]
            if place is None and end is not None:
                self.faulty.add(wanted.id)
            else:
                self.add(self.of_nothing(wanted, place), wanted)
        self.made += self.besides(pairs)
        self.add(end or self.of_answer())
        return self.made

    def besides(self, pairs: Pairs) -> Iterator[Fault]:
        """Redundant call: a call, repeated or new, to which no call of the reference corresponds.

        unreadable: an answer that could not be read where no call was due. All these faults are harmless.
        """
        for detail, calls in (("repeat", pairs.repeats), ("further", pairs.further)):
            for taken in calls:
                yield Fault(REDUNDANT, f"{detail}: {_cut(taken.tool)}", taken.step, True, taken.step)
        for taken in pairs.unread:
            yield self.of_unread(taken, harmless=True)

    def of_answer(self) -> Fault | None:
        """Wrong argument: all calls are right, but the answer does not use the last call's result."""
        if any(not fault.harmless for fault in self.made):
            return None
        last = self.cell.path[-1] if self.cell.path else None
        if last is None or last.tool != FINISH or not last.written:
            return None
        meant = self.standing.get(self.cell.reference.calls[-1].id)
        sources = sources_of(dict(last.written))
        if meant is None or any(step == meant.id for step, _ in sources):
            return None
        kind = "source: the answer refers to another result" if sources else "source: the answer refers to no result"
        return Fault(WRONG_ARGUMENT, kind, last.step, place=last.step)


def _behind(cell: Cell, pairs: Pairs) -> dict[str, int | None]:
    """For each call of the reference, the first step whose decision corresponds to a later call of the reference.

    None if no decision corresponds to a later call.
    """
    found: dict[str, int | None] = {}
    behind: int | None = None
    for wanted in reversed(cell.reference.calls):
        found[wanted.id] = behind
        taken = pairs.standing.get(wanted.id) or pairs.instead.get(wanted.id)
        if taken is not None:
            behind = taken.step if behind is None else min(behind, taken.step)
    return found


def _uses(steps: Sequence[str]) -> str:
    return f"of step {', '.join(dict.fromkeys(steps))}"[:80]


def _cut(name: str | None) -> str:
    return f"{name or NO_TOOL:.60}"


def _short(text: str | None) -> str | None:
    return None if text is None else text[:120]


# Cells of agent_planning_benchmark: the scorer's own errors determine which faults count.


_ARGUMENT, _TOOL = (WRONG_ARGUMENT,), (WRONG_TOOL, NO_RETRIEVAL)
_OF_ERRORS: dict[str, tuple[tuple[str, ...], Fault]] = {
    "E1": ((*_TOOL, REDUNDANT), Fault(WRONG_TOOL, "serves no goal")),
    "E2": ((MISSING, GAVE_UP, *_TOOL), Fault(MISSING, "a wanted fact")),
    "E3": (_ARGUMENT, Fault(WRONG_ARGUMENT, f"{VALUE}: breaks a constraint")),
    "E4": ((*_ARGUMENT, *_TOOL, MISSING, REDUNDANT), Fault(WRONG_ARGUMENT, f"{SOURCE}: uses what is not there yet")),
    "E5": ((*_ARGUMENT, *_TOOL), Fault(WRONG_ARGUMENT, f"{VALUE}: misused tool")),
    "E6": ((*_TOOL, *_ARGUMENT), Fault(WRONG_TOOL, "no such tool or value")),
}
"""For each error of the scorer: the classes that explain it, and the fault to add if no fault has such a class."""


def of_plan(cell: Cell, found: Sequence[Fault]) -> list[Fault]:
    """The faults that explain the scorer's errors; each error that no fault explains becomes a fault itself.

    A plan may be right although its calls differ from the reference's; such calls are not faults. A plan that was given
    up or could not be read keeps this fault, which explains every error. Superfluous calls are not harmless here.
    """
    errors = [error for error in cell.plan_errors or () if error in _OF_ERRORS]
    allowed = {kind for error in errors for kind in _OF_ERRORS[error][0]}
    ends = (GAVE_UP, UNREADABLE)
    kept = [fault for fault in found if fault.kind in allowed or fault.kind in ends]
    for error in errors:
        kinds, otherwise = _OF_ERRORS[error]
        if not any(fault.kind in kinds or fault.kind in ends for fault in kept):
            kept.append(Fault(otherwise.kind, f"{otherwise.detail} ({error})", place=float("inf")))
    return [fault if fault.kind != REDUNDANT else _costly(fault) for fault in kept]


def of_broken(cell: Cell, found: list[Fault]) -> list[Fault]:
    """The fault after a tool broke: the tool is called again (wrong tool), or the request is refused (gave up).

    For other behaviours, the result is `found`, the faults without regard to the broken tool, or an unknown fault if
    there are none and the reference calls no tool.
    """
    first = next((taken.step for taken in cell.path), None)
    if cell.behaviour == RETRY:
        return [Fault(WRONG_TOOL, "calls the broken tool again", first, place=first or 0)]
    if cell.behaviour == REFUSE:
        return [Fault(GAVE_UP, "refused", first, place=first or 0)]
    if found or cell.reference.calls or cell.behaviour != OTHER:
        return found
    return [Fault(UNKNOWN, "does not call the replacement")]


def of_unsolvable(cell: Cell) -> list[Fault]:
    """The fault for an unsolvable request: a superfluous call, or the lack of a refusal."""
    first = next((taken for taken in cell.path if taken.calls), None)
    if first is None:
        return [Fault(UNKNOWN, "does not refuse")]
    return [Fault(REDUNDANT, "calls a tool although no call solves the request", first.step, place=first.step)]


def _costly(fault: Fault) -> Fault:
    return Fault(fault.kind, fault.detail, fault.step, False, fault.place)


# The correspondence between the decisions on a path and the calls of the reference.


_DEEPEST = 64  # maximum length of a chain of calls, each using the next one's result, that is followed back


@dataclass
class Pairs:
    """`standing` maps substeps of the reference to the decisions that call their tools and correspond to them.

    `instead` maps substeps to the decisions that were made in place of their calls: calls of other tools, or answers
    that could not be read. `repeats` are further calls that equal a paired or an earlier call (empty with
    `by_substep`), `further` are all remaining calls, and `unread` are the remaining answers that could not be read.
    """

    standing: dict[str, Taken] = field(default_factory=dict)
    instead: dict[str, Taken] = field(default_factory=dict)
    repeats: list[Taken] = field(default_factory=list)
    further: list[Taken] = field(default_factory=list)
    unread: list[Taken] = field(default_factory=list)


def paired(reference: Reference, path: Sequence[Taken], by_substep: bool) -> Pairs:
    """Pair the reference's calls with calls of the same tool, by similarity of arguments, then with other decisions.

    Calls of the same tool may be anywhere on the path. Then the remaining decisions are assigned to calls that were not
    made. With `by_substep`, a decision takes the place of its own substep's call. Otherwise, if the reference is
    ordered, a decision takes the place of a missing call if it is between the decisions for the calls before and after
    the missing call. If no missing call is found in this way, a decision takes the place of the first missing call,
    unless the reference uses the decision's tool.
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
    """Pair calls of the same tools; return the decisions that correspond to a call, keyed by step.

    With `by_substep`, a call at another substep is not paired if it repeats a call that is already paired.
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
    """Pair calls of the same id and text if they refer to the same results; return decisions keyed by step."""
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
    """Whether two calls of a tool are the same: written with the same text, or with the same result."""
    if taken.written_text is not None and taken.written_text == other.written_text:
        return True
    return taken.tool == other.tool and not taken.failed and taken.observed == other.observed is not None


class _Origins:
    """The origins of calls: in each call, the results that it uses are replaced by the calls that gave them."""

    def __init__(self, reference: Reference, path: Sequence[Taken]) -> None:
        self._wanted = {one.id: (one.tool, one.arguments) for one in reference.calls}
        self._taken = {taken.id: (taken.tool, taken.written or {}) for taken in path if taken.calls}
        self._known: dict[tuple[bool, str], int] = {}

    def likeness(self, wanted: Wanted, taken: Taken) -> float:
        """The share of the reference's arguments with which a call's arguments agree, plus 0.01 if it did not fail.

        A reference to a result agrees if both results have the same origin; otherwise it counts half. So among calls
        with equal shares, a call that did not fail is preferred.
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
                self._known[key] = 0  # in case a call uses its own result, directly or indirectly
                self._known[key] = hash((tool, self._traced(dict(arguments), of_reference, depth + 1)))
            return f"({self._known.get(key)}).{match[2]}"

        return PATTERN.sub(origin, to_json(value))


def _own(left: Sequence[Wanted], free: Sequence[Taken], found: Pairs) -> list[Taken]:
    """Pair each missing call with the decision at its own substep; return the decisions without a pair."""
    ids = {one.id for one in left}
    found.instead |= {taken.id: taken for taken in free if taken.id in ids}
    return [taken for taken in free if taken.id not in ids]


def _between(reference: Reference, left: Sequence[Wanted], free: Sequence[Taken], found: Pairs) -> list[Taken]:
    """Pair missing calls with decisions between the same neighbours, then with others; return decisions left over."""
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
