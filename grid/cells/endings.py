"""How an episode ended and what it took, as columns of its row."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from typing import Any

from grid.core.engine import Source
from grid.core.errors import ErrorKind, Status
from grid.core.types import BETWEEN, Trajectory
from grid.episode.episode import Episode

_CANCELLED = ("llm_calls", "forward_passes", "input_tokens", "output_tokens")
SOURCE = ("answered_by", "system_fingerprint", "provider")
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
