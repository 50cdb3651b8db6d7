"""The tries of a chunk: what its cells came to, and the row that says so."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from grid.planners.base import Role
from grid.sweep.cell import Setting
from grid.sweep.costs import COLUMNS, spent_in
from grid.types import Status, Usage

ENDED, DIED = "ended", "died"  # an attempt's status
Outcome = tuple[dict[str, Any], list[dict[str, Any]]]
"""A cell's episode row and its step rows."""


@dataclass
class ChunkResult:
    """The sums of a chunk's cells that have ended, and their rows until they are taken."""

    cells: int = 0
    ok: int = 0
    spent: dict[Role, Usage] = field(default_factory=lambda: dict.fromkeys(COLUMNS, Usage()))
    _outcomes: deque[Outcome] = field(default_factory=deque)

    @property
    def usage(self) -> Usage:
        """What all roles have spent."""
        return sum(self.spent.values(), Usage())

    @property
    def failed(self) -> int:
        """Cells that ended otherwise than well."""
        return self.cells - self.ok

    def add(self, outcome: Outcome) -> None:
        """A cell has ended."""
        self.count(outcome[0])
        self._outcomes.append(outcome)

    def count(self, episode: dict[str, Any]) -> None:
        """Take an episode's row into the sums only."""
        self.cells += 1
        self.ok += episode["status"] == Status.OK
        for role, spent in spent_in(episode).items():
            self.spent[role] += spent

    def take(self) -> dict[str, list[dict[str, Any]]]:
        """The rows that were not taken before, by table, in the order in which cells ended; from any thread."""
        rows: dict[str, list[dict[str, Any]]] = {"episodes": [], "steps": []}
        while self._outcomes:
            episode, steps = self._outcomes.popleft()
            rows["episodes"].append(episode)
            rows["steps"] += steps
        return rows


def attempt_row(
    attempt_id: str, setting: Setting, result: ChunkResult, seconds: float, made: Any, died_with: int | None = None
) -> dict[str, Any]:
    """The row of a try; `died_with` are the cells of one whose worker died, which wrote none itself."""
    return {
        "attempt_id": attempt_id,
        "setting_id": setting.id,
        "status": ENDED if died_with is None else DIED,
        "cells": result.cells if died_with is None else died_with,
        "ok": result.ok,
        "failed": result.failed,
        "seconds": seconds,
        **vars(result.usage),
        "created_at": made,
    }
