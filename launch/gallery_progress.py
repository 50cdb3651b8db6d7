"""The gallery's progress: a live line with the cells of the preset that runs; elsewhere a line a preset."""

from __future__ import annotations

import time
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
from rich.text import Text

from grid.core.untrusted import shown
from grid.sweeps.progress_file import read_told

if TYPE_CHECKING:
    from analysis.gallery import Entry


class _Cells(ProgressColumn):
    """What the running sweep says of its cells in its folder; it prints to a file."""

    max_refresh = 1.0

    def __init__(self, into: Path) -> None:
        self._into, self.started = into, time.time()
        super().__init__()

    def render(self, task: Task) -> Text:
        name = task.description
        try:
            told = read_told(self._into / name)
        except (OSError, ValueError):
            return Text(name)
        if told["updated_at"] < self.started:  # of a run before
            return Text(name)
        return Text(f"{name}  {told['done']:,}/{told['cells']:,} cells")


class GalleryProgress:
    """How many presets are done, and what the one that runs does. A context manager.

    Args:
        console: where it is shown.
        into: the gallery's folder.
        presets: how many there are to run.
    """

    def __init__(self, console: Console, into: Path, presets: int) -> None:
        self._console, self._presets, self._done = console, presets, 0
        self._cells = _Cells(into)
        self._bar: Progress | None = None
        if console.is_terminal:
            columns = (TextColumn("presets"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), self._cells)
            self._bar = Progress(*columns, console=console, redirect_stdout=False, redirect_stderr=False)
            self._task = self._bar.add_task("", total=presets)

    def __enter__(self) -> GalleryProgress:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar:
            self._bar.stop()

    def begin(self, name: str) -> None:
        """A preset begins."""
        self._cells.started = time.time()
        if self._bar:
            self._bar.update(self._task, description=name)

    def end(self, entry: Entry) -> None:
        """It has ended: a line says how."""
        self._done += 1
        if self._bar:
            self._bar.update(self._task, completed=self._done)
        settings, cases, ok, failed, seconds = entry.figures
        ran = f"{settings} settings, {cases} cases: {ok} cells ok, {failed} failed, {seconds} s"
        told = "; ".join(part for part in (ran if entry.counts.cases else "", entry.reason) if part)
        self.say(f"{self._done}/{self._presets} {entry.name}: {entry.state}{f' ({told})' if told else ''}")

    def say(self, line: str) -> None:
        """One plain line."""
        self._console.print(shown(line), markup=False, soft_wrap=True)
