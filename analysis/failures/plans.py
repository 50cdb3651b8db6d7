"""Cells of agent_planning_benchmark: the scorer's own errors say what may be a fault."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.failures.cells import (
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
)
from grid.core.chains import OTHER, REFUSE, RETRY

_ARGUMENT, _TOOL = (WRONG_ARGUMENT,), (WRONG_TOOL, NO_RETRIEVAL)
_OF_ERRORS: dict[str, tuple[tuple[str, ...], Fault]] = {
    "E1": ((*_TOOL, REDUNDANT), Fault(WRONG_TOOL, "serves no goal")),
    "E2": ((MISSING, GAVE_UP, *_TOOL), Fault(MISSING, "a wanted fact")),
    "E3": (_ARGUMENT, Fault(WRONG_ARGUMENT, f"{VALUE}: breaks a constraint")),
    "E4": ((*_ARGUMENT, *_TOOL, MISSING, REDUNDANT), Fault(WRONG_ARGUMENT, f"{SOURCE}: uses what is not there")),
    "E5": ((*_ARGUMENT, *_TOOL), Fault(WRONG_ARGUMENT, f"{VALUE}: misused tool")),
    "E6": ((*_TOOL, *_ARGUMENT), Fault(WRONG_TOOL, "no such tool or value")),
}
"""By the scorer's error the classes that it may be, and the one that it is where no fault on the path is of these."""


def of_plan(cell: Cell, found: Sequence[Fault]) -> list[Fault]:
    """Of the faults those that the scorer's errors name; each error without one is a fault of its own.

    A plan may be right by other calls than the reference's, which then are no faults.
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


def of_broken(cell: Cell) -> list[Fault]:
    """What follows a broken tool: it is called again (wrong tool), or the request is refused (gave up).

    Anything else that is wrong is told by the reference, where there is one.
    """
    first = next((taken.step for taken in cell.path), None)
    if cell.behaviour == RETRY:
        return [Fault(WRONG_TOOL, "calls the broken tool again", first, place=first or 0)]
    if cell.behaviour == REFUSE:
        return [Fault(GAVE_UP, "refused", first, place=first or 0)]
    return (
        [] if cell.reference.calls or cell.behaviour != OTHER else [Fault(UNKNOWN, "another tool than the spare one")]
    )


def of_unsolvable(cell: Cell) -> list[Fault]:
    """A request that nothing can carry out: any call is one too many; without a call it was not refused."""
    first = next((taken for taken in cell.path if taken.calls), None)
    if first is None:
        return [Fault(UNKNOWN, "does not refuse")]
    return [Fault(REDUNDANT, "calls where nothing solves it", first.step, place=first.step)]


def _costly(fault: Fault) -> Fault:
    return Fault(fault.kind, fault.detail, fault.step, False, fault.place)
