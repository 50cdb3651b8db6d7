"""A sweep in a notebook: all its messages form one output of the notebook's cell. At the end, one line is shown.

The earlier messages are folded below that line. They are unfolded if cells of the sweep are missing or have failed.
This module stands apart from `api`, which does not depend on how notebooks display outputs.
"""

from __future__ import annotations

import io
import os
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any

from markupsafe import escape
from rich.console import Console

from grid.core.untrusted import shown_lines

_TERMINAL = "TTY_COMPATIBLE"  # one of rich's environment variables
_EVERY = 0.5  # seconds between two updates of the output
_MOST = 2_000  # maximum number of lines that are kept
_ENDS = ("ran ", "nothing to run")
_TOLD = ("left out ", "warning: ")


class Output(io.TextIOBase):
    """A stream that shows its text as one output of the notebook's cell; after `end`, it writes to the old stdout."""

    def __init__(self) -> None:
        from IPython.display import display

        self._lines, self._rest = deque[str](maxlen=_MOST), ""
        self._before, self.ended, self._open, self._shown = sys.stdout, False, False, time.monotonic()
        self._handle: Any = display(self, display_id=True)  # type: ignore[no-untyped-call]

    def write(self, text: str) -> int:
        """Add text; only complete lines are shown."""
        if self.ended:
            return self._before.write(text)
        *lines, self._rest = (self._rest + text).split("\n")
        self._lines += lines
        if lines and time.monotonic() - self._shown > _EVERY:
            self._show()
        return len(text)

    def end(self, unfolded: bool) -> None:
        """Show the last state; `unfolded`: with all lines."""
        self.ended, self._open = True, unfolded
        self._show()

    def _show(self) -> None:
        self._shown = time.monotonic()
        self._handle.update(self)

    def __repr__(self) -> str:
        return "\n".join(self._told())

    def _told(self) -> list[str]:
        """The lines to show: the latest line or, after the end, a sweep's last line and notes or a dry run's lines."""
        lines = [shown_lines(line) for line in self._lines]
        last = [line for line in lines if line.startswith(_ENDS)][-1:]
        if not self.ended:
            return lines[-1:] or ["starting"]
        return [*last, *(line for line in lines if line.startswith(_TOLD))] if last else lines

    def _repr_html_(self) -> str:
        head, *more = self._told() or [""]
        every = "\n".join(map(shown_lines, self._lines))
        if head == every.partition("\n")[0] and more:  # all lines are shown anyway
            return f"<pre>{escape(every)}</pre>"
        told = "".join(f"<div>{escape(line)}</div>" for line in more)
        opened = " open" * self._open
        return f"<details{opened}><summary>{escape(head)}</summary><pre>{escape(every)}</pre></details>{told}"


def _is_notebook() -> bool:
    return Console().is_jupyter


@contextmanager
def one_output() -> Iterator[Output | None]:
    """A context manager that sends printed text to one output of the notebook's cell.

    Yields the output, or None outside notebooks. If an error is raised, or if the output is not ended, the output
    stays unfolded.
    """
    if not _is_notebook():
        yield None
        return
    output, before = Output(), os.environ.get(_TERMINAL)
    os.environ[_TERMINAL] = "0"  # a kernel would ask for colours and other terminal control codes
    try:
        with redirect_stdout(output), redirect_stderr(output):
            yield output
    finally:
        os.environ.pop(_TERMINAL)
        if before is not None:
            os.environ[_TERMINAL] = before
        if not output.ended:
            output.end(unfolded=True)
