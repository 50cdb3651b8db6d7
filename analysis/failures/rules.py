"""What went wrong in a failed cell, by rules in a fixed order: from its path to the faults on it.

A path is held against the reference's calls, one by one: each against the decision that stands for it
(`analysis.failures.pairing`). Every rule is a function of its own,
whose docstring states it. A call that the case's scorer accepts is never a fault.

The class of a cell is its first fault in the order of the path. A fault that may have cost nothing (a call too many, an
answer that could not be read where nothing was to be called) counts only where there is no other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf

from analysis.failures.cells import (
    BUDGET,
    CASCADE,
    ERROR,
    GAVE_UP,
    MISSING,
    NO_RETRIEVAL,
    REDUNDANT,
    UNKNOWN,
    UNREADABLE,
    WRONG_ARGUMENT,
    WRONG_TOOL,
    Cell,
    Fault,
    Taken,
    Wanted,
)
from analysis.failures.pairing import Pairs, paired
from analysis.failures.plans import of_broken, of_plan, of_unsolvable
from analysis.failures.values import sources_of, told, wrong_arguments
from grid.core.types import FINISH, GIVE_UP, NO_TOOL, REJECT

OF_PLANNER = frozenset({"model", "context", "timeout"})
"""Kinds of errors that are the planner's; all others are none of its failures."""
NOTHING_CALLED = "no call"


def faults(cell: Cell) -> list[Fault]:
    """All faults of a failed cell, in the order of its path; one of UNKNOWN where no rule tells any."""
    if cell.status != "ok" and cell.error_kind not in OF_PLANNER:
        return [Fault(ERROR, cell.error_kind or "not told")]
    found = sorted(_found(cell), key=lambda fault: fault.place)
    return found or [Fault(UNKNOWN, "every call is the reference's" if cell.reference.calls else "no reference")]


def primary(found: Sequence[Fault]) -> Fault:
    """The fault that names a cell's class: the first that cost something and follows from no other, else the first."""
    costly = [fault for fault in found if not fault.harmless]
    return next((fault for fault in costly if fault.kind != CASCADE), (costly or found)[0])


def _found(cell: Cell) -> list[Fault]:
    if cell.unsolvable:
        return of_unsolvable(cell)
    if not cell.reference.calls:
        return _without_reference(cell)
    if cell.behaviour is not None:
        return of_broken(cell) or _against_reference(cell)
    found = _against_reference(cell)
    return of_plan(cell, found) if cell.plan_errors else found


def _against_reference(cell: Cell) -> list[Fault]:
    """Hold the path against the reference's calls."""
    return _Path(cell).found()


def _without_reference(cell: Cell) -> list[Fault]:
    """Without a reference only the end tells something, and a path whose answers mostly cannot be read."""
    end = _end(cell)
    unread = [taken for taken in cell.path if taken.tool is None]
    if unread and (2 * len(unread) > len(cell.path) or unread[-1] is cell.path[-1]):
        return [Fault(UNREADABLE, None, unread[0].step, place=unread[0].step), *([end] if end else [])]
    return [end] if end else []


def _end(cell: Cell) -> Fault | None:
    """How a path ended before its time; None where it ended by itself.

    budget: the time was up, the prompt did not fit the context, a part of the episode's budget was used up, the path
    had as many decisions as the planner may take, or a search ended before its path did. unreadable: no plan or score
    could be read, after all tries. gave up: the request was refused, the path abandoned, or nothing was called at all
    where the reference calls tools.
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
    """Whether a search returned a path that goes on: behind it substeps are left, or it does not finish."""
    if not cell.searched:
        return False
    if cell.reference.followed:
        return len(cell.path) < len(cell.reference.wanted)
    return not cell.path or cell.path[-1].tool not in (FINISH, REJECT, GIVE_UP)


def _first_needed(cell: Cell) -> int | None:
    """The step at which a call was due first."""
    needed = {one.id for one in cell.reference.calls} if cell.reference.followed else set()
    steps = [taken.step for taken in cell.path if not needed or taken.id in needed]
    return steps[0] if steps else None


class _Held:
    """Rules for one call of the reference; `faulty` are the substeps whose results are not there, or not right."""

    def __init__(self, cell: Cell) -> None:
        self.cell, self.faulty, self.standing = cell, set[str](), dict[str, Taken]()
        self.by_substep = cell.reference.followed and not cell.at_once
        self.own = {taken.id: taken for taken in cell.path} if cell.reference.followed else {}
        self.made: list[Fault] = []

    def add(self, fault: Fault | None, wanted: Wanted | None = None) -> None:
        """Note a fault; the result of the substep that it is about cannot be used."""
        if fault is not None:
            self.made.append(fault)
            if wanted is not None:
                self.faulty.add(wanted.id)

    def spoilt(self, wanted: Wanted) -> list[str]:
        """The faulty substeps whose results the reference's call takes."""
        return [step for step in wanted.sources if step in self.faulty] if self.faulty else []

    def of_arguments(self, wanted: Wanted, taken: Taken) -> Fault | None:
        """Wrong argument: a call of the right tool that differs from the reference's in what the scorer compares.

        value: another value; source: a result where the reference has a value, the other way round, or another result;
        format: the same content in another form, an argument that is lacking, or one that the reference does not have.
        cascade: all that differs takes a result of a faulty step, or the call is right and failed for want of one.
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
            kind, text = told(own)
            return Fault(WRONG_ARGUMENT, f"{kind}: {text}", taken.step, place=taken.step)
        if wrong or (spoilt and taken.failed):
            return Fault(CASCADE, _uses(spoilt), taken.step, place=taken.step)
        if taken.failed and self.cell.looked_up and "no_result" in (taken.observed or ""):
            return Fault(WRONG_ARGUMENT, "value: the tool found nothing", taken.step, place=taken.step)
        return None

    def of_tool(self, wanted: Wanted, taken: Taken) -> Fault | None:
        """No retrieval: another tool, as the reference's was not offered; wrong tool: where it was, or may have been.

        None where the tool is one that does the same, as the scorer's table says by accepting its call.
        """
        if self.cell.looked_up and taken.failed is False and not self._elsewhere(taken):
            return None
        kind, text = (NO_RETRIEVAL, "") if self.offered(wanted) is False else (WRONG_TOOL, f"{_cut(taken.tool)} for ")
        return Fault(kind, f"{text}{_cut(wanted.tool)}", taken.step, place=taken.step)

    def of_nothing(self, wanted: Wanted, place: int | None) -> Fault:
        """Missing call: none was made where the reference makes one; no retrieval: its tool was not offered.

        cascade: the call takes a result of a faulty step. `place` is the decision that stands where the call should, or
        the next one; None behind the path's last.
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
        """Whether a tool was among those offered; None where nothing tells it.

        `retrieval_rate` tells how many of the reference's tools were, and those that were called must have been.
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
        """Whether the tool is one of another call of the reference."""
        return any(one.tool == taken.tool for one in self.cell.reference.calls)

    def _another(self, wanted: Wanted, taken: Taken) -> bool:
        """Whether a call that the tools accept is another one of the reference, and not this."""
        others = [one for one in self.cell.reference.calls if one.tool == wanted.tool and one is not wanted]
        return any(not wrong_arguments(one, taken, self.standing, True) for one in others)


class _Path(_Held):
    """A path held against all calls of the reference."""

    def found(self) -> list[Fault]:
        """Call by call of the reference, then what was called besides, and how the path ended."""
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
        """Redundant call: it stands for none of the reference's; it repeats an earlier one, or is a further one."""
        for detail, calls in (("repeat", pairs.repeats), ("further", pairs.further)):
            for taken in calls:
                yield Fault(REDUNDANT, f"{detail}: {_cut(taken.tool)}", taken.step, True, taken.step)
        for taken in pairs.unread:
            yield self.of_unread(taken, harmless=True)

    def of_answer(self) -> Fault | None:
        """Wrong argument: every call is the reference's, and the answer does not take its last result."""
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
    """For each call of the reference the first decision on the path that stands for a later one; None at the end."""
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
