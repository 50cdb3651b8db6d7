"""The tries of a chunk: what its cells came to, and the row that says so."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from grid import store
from grid.cells.rows import TABLES, Row, spent_in, transcript_rows
from grid.core.engine import Role
from grid.core.errors import Status
from grid.core.types import Usage
from grid.episode.requests import Message
from grid.settings.roles import Prices, money
from grid.settings.setting import Setting
from grid.store.scanning import EpisodeRow
from grid.store.schema import SPENT
from grid.store.schema import TABLES as SCHEMAS
from grid.store.writing import values_of

_ORDER = ("episodes", "steps", "nodes", "improvements", "cases", *TABLES)  # of taking; they are added last
ENDED, DIED = "ended", "died"  # an attempt's status


class Outcome(NamedTuple):
    """A cell's episode row, its rows of other tables, and what it asked, where that is kept."""

    episode: Row
    rows: Mapping[store.Table, list[Row]]
    messages: Sequence[Message] = ()


@dataclass
class ChunkResult:
    """The sums of a chunk's cells that have ended, and their rows until they are taken.

    `kept` are cells of which is kept what they asked, `sections` the digests of those cases and parts of prompts whose
    rows were made already.
    """

    cells: int = 0
    ok: int = 0
    kept: int = 0
    spent: dict[Role, Usage] = field(default_factory=lambda: dict.fromkeys(SPENT, Usage()))
    sections: set[str] = field(default_factory=set)
    _rows: dict[str, deque[store.Values]] = field(default_factory=lambda: {table: deque() for table in _ORDER})

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
        episode, rows, messages = outcome
        self.count(episode["status"], spent_in(episode))
        self.kept += episode["n_messages"] is not None
        if messages:
            names = episode["cell_id"], episode["attempt_id"]
            for table, values in transcript_rows(*names, messages, self.sections).items():
                self._rows[table] += values
        for table, found in {**rows, "cases": self._fresh(rows.get("cases", []))}.items():
            self._rows[table] += [values_of(table, row) for row in found]
        self._rows["episodes"].append(values_of("episodes", episode))  # last: what is taken has all that goes with it

    def _fresh(self, cases: list[Row]) -> list[Row]:
        """Those that were not taken in before; they are then."""
        fresh = [row for row in cases if row["digest"] not in self.sections]
        self.sections.update(row["digest"] for row in fresh)
        return fresh

    def count(self, status: str, spent: Mapping[Role, Usage]) -> None:
        """Take an episode into the sums only."""
        self.cells += 1
        self.ok += status == Status.OK
        for role, usage in spent.items():
            self.spent[role] += usage

    def take_all(self) -> dict[str, list[store.Values]]:
        """The rows that were not taken before, by table, in the order in which cells ended; from any thread.

        Those of cells whose episodes are among them are, and of others that end meanwhile some may be.
        """
        return {table: [rows.popleft() for _ in range(len(rows))] for table, rows in self._rows.items()}

    def take(self) -> dict[str, list[Row]]:
        """The same by the columns' names, without what cells asked."""
        made: dict[str, Any] = {"episodes": EpisodeRow}
        return {
            table: [made.get(table, dict)(zip(SCHEMAS[table].names, row, strict=True)) for row in rows]
            for table, rows in self.take_all().items()
            if table not in TABLES
        }


def attempt_row(
    attempt_id: str,
    setting: Setting,
    prices: Prices,
    result: ChunkResult,
    seconds: float,
    made: Any,
    died_with: int | None = None,
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
        **result.usage.known(),
        "money": money(prices, result.spent),
        "created_at": made,
    }
