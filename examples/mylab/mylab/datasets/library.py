"""The desk of a town's library: its tools are the functions below, its questions lie beside it in `library.jsonl`."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Literal

from pydantic.dataclasses import dataclass

from grid import STRICT, Function, FunctionTasks, Metric, Problem, Trajectory

Branch = Literal["Harbour", "Mill", "Station"]
Kind = Literal["book", "film"]
_STREETS: Mapping[str, Branch] = {
    "Quay Street": "Harbour",
    "Anchor Lane": "Harbour",
    "Weir Road": "Mill",
    "Baker Row": "Mill",
    "Platform Way": "Station",
    "Clock Square": "Station",
}
_HOURS = {"Harbour": "10:00 to 18:00", "Mill": "9:00 to 17:00", "Station": "7:00 to 21:00"}
_TITLES = {"The Salt Road": "T1", "Winter Ferries": "T2", "A Garden in Glass": "T3", "Nine Small Bells": "T4"}
_FREE = {
    "T1": {"Harbour": 2, "Mill": 0, "Station": 1},
    "T2": {"Harbour": 0, "Mill": 3, "Station": 0},
    "T3": {"Harbour": 1, "Mill": 1, "Station": 4},
    "T4": {"Harbour": 5, "Mill": 0, "Station": 2},
}
_MEMBERS = {"Ada Moss": "M1", "Ben Okoro": "M2", "Cleo Hahn": "M3"}
_DUE = {
    ("M1", "T1"): dt.date(2026, 3, 2),
    ("M1", "T3"): dt.date(2026, 3, 20),
    ("M2", "T2"): dt.date(2026, 2, 11),
    ("M3", "T4"): dt.date(2026, 4, 6),
}
_CENTS = {"book": 20, "film": 75}


def nearest_branch(street: str) -> Branch:
    """The branch that is nearest to a street.

    Args:
        street: its name.
    """
    return _STREETS[street]


def opening_hours(branch: Branch) -> str:
    """When a branch is open on working days.

    Args:
        branch: its name.
    """
    return _HOURS[branch]


def find_title(title: str) -> str:
    """The id of a title in the catalogue.

    Args:
        title: as it stands on the cover.
    """
    return _TITLES[title]


def free_copies(title_id: str, branch: Branch) -> int:
    """How many copies of a title are free at a branch.

    Args:
        title_id: from the catalogue.
        branch: its name.
    """
    return _FREE[title_id][branch]


def member_number(name: str) -> str:
    """The number of a member.

    Args:
        name: first and last name.
    """
    return _MEMBERS[name]


def due_date(member: str, title_id: str) -> str:
    """When a title that a member has borrowed is due, as YYYY-MM-DD.

    Args:
        member: the member's number.
        title_id: from the catalogue.
    """
    return _DUE[member, title_id].isoformat()


def days_late(due: str, returned: str) -> int:
    """How many days after its due date something was returned, at least 0.

    Args:
        due: as YYYY-MM-DD.
        returned: as YYYY-MM-DD.
    """
    return max(0, (dt.date.fromisoformat(returned) - dt.date.fromisoformat(due)).days)


def late_fee(days: int, kind: Kind) -> int:
    """The fee for what is returned late, in cents.

    Args:
        days: how late.
        kind: what was borrowed.
    """
    return days * _CENTS[kind]


_MINUTES = 2.0  # that a look into the catalogue takes


def at_the_desk(trajectory: Trajectory) -> dict[str, float | bool]:
    """What the desk counts of a visit, by the names of `Library.metrics`; of no call there is no share."""
    calls = [step for step in trajectory.steps if step.call and not step.finished]
    answered = [step for step in calls if step.observation and not step.observation.failed]
    tools = [step.call.tool for step in calls if step.call]
    found: dict[str, float | bool] = {
        "desk_minutes": _MINUTES * len(calls),
        "nothing_asked_twice": len({*tools}) == len(tools),
    }
    return found | ({"answered_lookups": len(answered) / len(calls)} if calls else {})


@dataclass(config=STRICT)
class Library(FunctionTasks):
    """Questions at the desk, of one to five calls. All functions are pure, so that every planner can branch.

    What the desk counts of each visit are metrics of its own: reports, formulas and the viewer take them by name.
    """

    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("desk_minutes", "minutes", "lower", meaning="what the lookups take"),
        Metric("answered_lookups", "share", "higher", meaning="of the calls the share that returned something valid"),
        Metric("nothing_asked_twice", better="higher", kind="flag", meaning="no tool was called a second time"),
    )

    def problem(self, case_id: str) -> Problem:
        """As any set's of functions, with the desk's own metrics."""
        return replace(super().problem(case_id), measure=at_the_desk)

    def functions(self) -> Sequence[Function]:
        """The tools."""
        return (
            nearest_branch,
            opening_hours,
            find_title,
            free_copies,
            member_number,
            due_date,
            days_late,
            late_fee,
        )
