"""A sweep's progress: the lines that it prints, and a file for programs that follow the sweep from elsewhere."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, NotRequired, cast

from pydantic import FiniteFloat, TypeAdapter
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from typing_extensions import TypedDict

from grid.core.places import write_whole
from grid.core.untrusted import shown_lines

if TYPE_CHECKING:  # programs that only read the file do not need these imports
    from grid.cluster.fleet import Fleet
    from grid.cluster.signs import Sign
    from grid.cluster.worker import Report
    from grid.settings.setting import Setting

FILE = "progress.json"
RUNNING, STOPPING, ENDED = "running", "stopping", "ended"


class ToldSetting(TypedDict):
    """One setting: its labels, its numbers of cells by result, and its total number of prompt and answer tokens."""

    model: str
    planner: str
    dataset: str
    robustness: str
    retriever: str
    pool: str
    cells: int
    done: int
    ok: int
    failed: int
    tokens: int


class Told(TypedDict):
    """The file's content: the `seconds` since the start, the Unix time of the update, numbers of cells, and rates.

    `cells` is the number of cells that this run has to run, `total` the number in the whole sweep; files from earlier
    versions have no `total`.
    """

    state: str
    updated_at: FiniteFloat
    seconds: FiniteFloat
    cells: int
    total: NotRequired[int]
    done: int
    ok: int
    failed: int
    lost: int
    in_flight: int
    cells_per_second: FiniteFloat
    tokens_per_second: FiniteFloat
    seconds_left: FiniteFloat | None
    settings: list[ToldSetting]


_TOLD = TypeAdapter(Told)


def read_told(folder: Path) -> Told:
    """The progress that a sweep last wrote to its results folder.

    Raises:
        OSError: the file does not exist or cannot be read.
        ValidationError: the file is truncated, or was not written by a sweep.
    """
    return _TOLD.validate_json((folder / FILE).read_bytes())


def line(told: Told, short: bool = False) -> str:
    """A progress document as one line of text; `short` leaves out what a progress bar shows: cells and elapsed time."""
    settings = told["settings"]
    ended = sum(1 for one in settings if one["done"] == one["cells"])
    lost = f"lost {told['lost']:,}  " if told["lost"] else ""
    text = (
        f"settings {ended}/{len(settings)}  ok {told['ok']:,}  failed {told['failed']:,}  {lost}"
        f"{told['cells_per_second']:,.1f} cells/s  {told['tokens_per_second']:,.0f} tokens/s  "
        f"left {_clock(told['seconds_left'])}"
    )
    if short:
        return text
    before = _done_before(told["cells"], told.get("total"))
    return f"cells {told['done']:,}/{told['cells']:,}{before}  {text}  elapsed {_clock(told['seconds'])}"


def _done_before(cells: int, total: int | None) -> str:
    return f" ({total - cells:,} of {total:,} were done before)" if total and total > cells else ""


def _clock(seconds: float | None) -> str:
    if seconds is None:
        return "unknown"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


# A sweep's progress: a live line in a terminal or plain lines elsewhere, and a file that other programs can follow.


_FILE_EVERY = 2.0  # seconds between two updates of the file
_PLAIN_EVERY = 5.0  # seconds between plain lines
_IDLE_EVERY = 30.0  # seconds between plain lines while no chunk ends


@dataclass
class Tally:
    """One setting's cells: the number to run, the numbers by result, and the total of prompt and answer tokens."""

    labels: Mapping[str, str]
    cells: int
    done: int = 0
    ok: int = 0
    failed: int = 0
    tokens: int = 0


class SweepProgress:
    """A context manager: displays settings, cells (done, ok and failed), cells/s, tokens/s and the time left.

    Ended cells of a chunk that is still running are counted as soon as the chunk's worker has reported them.

    Args:
        console: where the line is shown.
        root: the results folder; the file `progress.json` in this folder is replaced every few seconds.
        settings: the settings with cells to run.
        pending: the number of cells to run, by setting id.
        total: the number of all cells of the sweep, including those done before this run.
    """

    def __init__(
        self, console: Console, root: Path, settings: Sequence[Setting], pending: Mapping[str, int], total: int
    ) -> None:
        self._console, self._root, self._total = console, root, total
        self._settings = {one.id: Tally(one.labels, pending[one.id]) for one in settings}
        self.state, self.lost, self._in_flight = RUNNING, 0, 0
        self._signs: Sequence[tuple[str, Sign]] = ()
        self._started = self._printed = time.monotonic()
        self._filed = float("-inf")
        self._bar: Progress | None = None
        if console.is_terminal:
            columns = (
                TextColumn("cells"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn(_done_before(self._sum("cells"), total).strip()),
                TimeElapsedColumn(),
                TextColumn("{task.description}"),
            )
            self._bar = Progress(*columns, console=console)
            self._task = self._bar.add_task("starting", total=self._sum("cells"))

    @property
    def done(self) -> int:
        """The number of cells that have ended."""
        return self._sum("done")

    def __enter__(self) -> SweepProgress:
        if self._bar:
            self._bar.start()
        self._file(0.0)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar:
            self._bar.stop()
        if not self._bar or kind:
            self._console.print(line(self.document()), soft_wrap=True)
        self.state = ENDED
        self._file(0.0)

    def update(self, report: Report, signs: Sequence[tuple[str, Sign]] = ()) -> None:
        """Add the report of one attempt to run a chunk; `signs` as for `tick`."""
        self._signs = signs
        tally = self._settings[report.setting_id]
        tally.done += report.cells
        tally.ok += report.ok
        tally.failed += report.failed
        tally.tokens += report.usage.input_tokens + report.usage.output_tokens
        if report.error:
            self.lost += report.cells
            self.say(f"a chunk of {report.cells} cells was lost: {report.error}")
        self._show(_PLAIN_EVERY)

    def tick(self, fleet: Fleet, in_flight: int, signs: Sequence[tuple[str, Sign]]) -> None:
        """Show the time and the replicas' work, even while no chunk ends.

        Args:
            fleet: the fleet of replicas.
            in_flight: the number of cells that are running.
            signs: the latest sign of life from each worker whose chunk is still running, with the id of
                the chunk's setting.
        """
        self._in_flight, self._signs = in_flight, signs
        self._show(_IDLE_EVERY, fleet.told())

    def say(self, text: str) -> None:
        """Print a separate line, above the live one."""
        self._console.print(shown_lines(text), markup=False, soft_wrap=True)

    def document(self) -> Told:
        """The content of `progress.json`."""
        seconds = max(time.monotonic() - self._started, 1e-9)
        rate = self.done / seconds
        return {
            "state": self.state,
            "updated_at": time.time(),
            "seconds": seconds,
            "cells": self._sum("cells"),
            "total": self._total,
            "done": self.done,
            "ok": self._sum("ok"),
            "failed": self._sum("failed"),
            "lost": self.lost,
            "in_flight": self._in_flight,
            "cells_per_second": rate,
            "tokens_per_second": self._sum("tokens") / seconds,
            "seconds_left": (self._sum("cells") - self.done) / rate if rate else None,
            "settings": [
                cast(ToldSetting, {**one.labels, **{key: getattr(one, key) for key in _COUNTS}})
                for one in self._tallies()
            ],
        }

    def _tallies(self) -> list[Tally]:
        """The counts for all settings, including ended cells of chunks that are still running."""
        found = {key: replace(one) for key, one in self._settings.items()}
        for key, sign in self._signs:
            one = found[key]
            one.done, one.ok, one.failed = one.done + sign.ended, one.ok + sign.ok, one.failed + sign.ended - sign.ok
            one.tokens += sign.tokens
        return list(found.values())

    def _sum(self, count: str) -> int:
        return sum(getattr(one, count) for one in self._tallies())

    def _show(self, every: float, more: str = "") -> None:
        self._file(_FILE_EVERY)
        now = time.monotonic()
        if self._bar:
            self._bar.update(self._task, completed=self.done, description=line(self.document(), short=True) + more)
        elif now - self._printed >= every:
            self._printed = now
            self._console.print(line(self.document()) + more, soft_wrap=True)

    def _file(self, every: float) -> None:
        """Replace the whole file at once. Errors are ignored here, because the store reports a full disk."""
        if time.monotonic() - self._filed < every:
            return
        self._filed = time.monotonic()
        with contextlib.suppress(OSError):
            write_whole(self._root / FILE, json.dumps(self.document()), self._root / ".tmp" / FILE)


_COUNTS = ("cells", "done", "ok", "failed", "tokens")
