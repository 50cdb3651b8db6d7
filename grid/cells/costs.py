"""What each role has spent on a cell, how the cell ended and what it took, as its row has it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from grid.core.engine import Role, Source
from grid.core.errors import ErrorKind, Status
from grid.core.types import BETWEEN, Trajectory, Usage
from grid.episode.episode import Episode
from grid.settings.roles import Prices, money
from grid.store.schema import SOURCE, SPENT

_NONE = Usage()
_NAMES = tuple(vars(_NONE))


def costs_of(roles: Collection[Role], prices: Prices, spent: Mapping[Role, Usage]) -> dict[str, Any]:
    """The map `costs`, of each of a setting's roles what it spent, and `money`, which is that of all.

    A role's tokens are null where some of its answers are uncounted, and money where the price or the tokens of one are
    not known.
    """
    spent = dict.fromkeys(roles, _NONE) | dict(spent)
    costs = {
        role: {**usage.known(), "money": money({role: prices[role]}, spent) if role in prices else None}
        for role, usage in spent.items()
    }
    return {"costs": costs, "money": money(prices, spent)}


def spent_in(episode: Mapping[str, Any]) -> dict[Role, Usage]:
    """What each role spent, from an episode's row, without the tokens of one that has uncounted answers."""
    return {
        role: Usage(*[episode["costs"][role][name] or 0 for name in _NAMES])
        for role in SPENT
        if role in episode["costs"]
    }


def spent_by_columns(row: Mapping[str, Any]) -> dict[Role, Usage]:
    """The same from a row of the joined form."""
    return {
        role: Usage(**{name: row[column] or 0 for name, column in columns.items()}) for role, columns in SPENT.items()
    }


def summed(spent: Iterable[Mapping[Role, Usage]]) -> dict[Role, Usage]:
    """What each role spent in all: planners and tools may ask the same."""
    total: dict[Role, Usage] = {}
    for part in spent:
        for role, usage in part.items():
            total[role] = total[role] + usage if role in total else usage
    return total


def larger(one: Usage, other: Usage) -> Usage:
    """The larger of each count."""
    return Usage(**{name: max(getattr(one, name), getattr(other, name)) for name in _NAMES})


# How an episode ended and what it took, as columns of its row.


_CANCELLED = ("llm_calls", "forward_passes", "input_tokens", "output_tokens")
_MAX_MESSAGE = 2000  # characters of an error


def outcome_columns(
    episode: Episode | None, trajectory: Trajectory, status: Status, kind: ErrorKind | None, message: str | None
) -> dict[str, Any]:
    """How an episode ended, and what it took."""
    return {
        "status": status,
        "error_kind": kind,
        "error_message": message[:_MAX_MESSAGE] if message else None,
        "answer": trajectory.answer or None,
        "n_steps": len(trajectory.steps),
        "budget_reached": episode.budget_reached if episode else None,
        "tool_calls": episode.tool_calls if episode else 0,
        "resolved_checks": episode.resolved_checks if episode else 0,
        "replans": trajectory.replans,
        "branches": trajectory.branches,
        "draft": episode.plans.draft if episode else None,
        "branched_steps": trajectory.branched_steps,
    }


def taken(episode: Episode | None, trajectory: Trajectory) -> dict[str, Any]:
    """What an episode's decisions and cancelled paths took, as scores; the latter where the planner cancels any."""
    cancelled = episode.cancelled if episode else None
    spent = cancelled.known() if cancelled else {}
    return {
        "unassigned": _mean(step.unassigned for step in trajectory.decisions),
        **{f"cancelled_{name}": spent[name] for name in _CANCELLED if name in spent},
    }


def source_columns(sources: Iterable[Source]) -> dict[str, str | None]:
    """Who answered for the acting model, as its server says; several in one cell are joined."""
    told = zip(*sources, strict=True)
    joined = [BETWEEN.join(sorted(set(filter(None, names)))) or None for names in told]
    return dict(zip(SOURCE, joined or [None] * len(SOURCE), strict=True))


def _mean(values: Iterable[float | None]) -> float | None:
    """Of the values there are; None without any."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def time_columns(passed: float, own: float, now: dt.datetime) -> dict[str, Any]:
    """The seconds that passed, those of them that were the case's own, as its deadline counts, and when it ended."""
    return {"wall_seconds": passed, "case_seconds": own, "created_at": now}
