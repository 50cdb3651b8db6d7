"""One progress display for a sweep: a live line in a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from grid.batch import Report
from grid.replicas.fleet import Fleet

_PLAIN_EVERY = 5.0  # seconds between plain lines
_IDLE_EVERY = 30.0  # the same while no chunk ends


class SweepProgress:
    """Settings, cells done, ok, failed, cells/s, tokens/s and time left. A context manager."""

    def __init__(self, console: Console, settings: dict[str, int]) -> None:
        self._console = console
        self._left = dict(settings)
        self._total = sum(settings.values())
        self.done = self.ok = self.failed = self.lost = self.tokens = 0
        self._started = self._printed = time.monotonic()
        self._bar: Progress | None = None
        if console.is_terminal:
            columns = (
                TextColumn("cells"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TextColumn("{task.description}"),
            )
            self._bar = Progress(*columns, console=console)
            self._task = self._bar.add_task("starting", total=self._total)

    def __enter__(self) -> SweepProgress:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar:
            self._bar.stop()
        if not self._bar or kind:
            self._console.print(self.line(), soft_wrap=True)

    def update(self, report: Report) -> None:
        """Take in one chunk's report."""
        self._left[report.setting_id] -= report.cells
        self.done += report.cells
        self.ok += report.ok
        self.failed += report.failed
        self.tokens += report.usage.input_tokens + report.usage.output_tokens
        if report.error:
            self.lost += report.cells
            self._console.print(f"a chunk of {report.cells} cells was lost: {report.error}", markup=False)
        self._show(_PLAIN_EVERY)

    def tick(self, fleet: Fleet) -> None:
        """Show that time passes, and what the replicas do, while no chunk ends."""
        self._show(_IDLE_EVERY, fleet.told())

    def _show(self, every: float, more: str = "") -> None:
        now = time.monotonic()
        if self._bar:
            self._bar.update(self._task, completed=self.done, description=self.line(short=True) + more)
        elif now - self._printed >= every:
            self._printed = now
            self._console.print(self.line() + more, soft_wrap=True)

    def line(self, short: bool = False) -> str:
        """The display as one line of text."""
        seconds = max(time.monotonic() - self._started, 1e-9)
        rate = self.done / seconds
        left = (self._total - self.done) / rate if rate else float("inf")
        settings = sum(1 for cells in self._left.values() if cells == 0)
        lost = f"lost {self.lost:,}  " if self.lost else ""
        text = (
            f"settings {settings}/{len(self._left)}  ok {self.ok:,}  failed {self.failed:,}  {lost}"
            f"{rate:,.1f} cells/s  {self.tokens / seconds:,.0f} tokens/s  left {_clock(left)}"
        )
        return text if short else f"cells {self.done:,}/{self._total:,}  {text}  elapsed {_clock(seconds)}"


def _clock(seconds: float) -> str:
    if seconds == float("inf"):
        return "unknown"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
