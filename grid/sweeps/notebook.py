"""A sweep in a notebook: all that is said of it is one output of its cell, which ends as one line.

What was said before stands behind that line, folded; it is unfolded where cells are missing or have failed. It stands
apart from `api`, which knows nothing of how a cell shows what it is given.
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

_TERMINAL = "TTY_COMPATIBLE"  # of rich
_EVERY = 0.5  # seconds between two states of the output
_MOST = 2_000  # lines that are kept
_ENDS = ("ran ", "nothing to run")
_TOLD = ("left out ", "warning: ")


class Output(io.TextIOBase):
    """What is written to it, as one output of the cell; after its end it is written to where it would have been."""

    def __init__(self) -> None:
        from IPython.display import display

        self._lines, self._rest = deque[str](maxlen=_MOST), ""
        self._before, self.ended, self._open, self._shown = sys.stdout, False, False, time.monotonic()
        self._handle: Any = display(self, display_id=True)  # type: ignore[no-untyped-call]

    def write(self, text: str) -> int:
        """Take in text; whole lines are shown."""
        if self.ended:
            return self._before.write(text)
        *lines, self._rest = (self._rest + text).split("\n")
        self._lines += lines
        if lines and time.monotonic() - self._shown > _EVERY:
            self._show()
        return len(text)

    def end(self, unfolded: bool) -> None:
        """Show its last state; `unfolded`: with all lines."""
        self.ended, self._open = True, unfolded
        self._show()

    def _show(self) -> None:
        self._shown = time.monotonic()
        self._handle.update(self)

    def __repr__(self) -> str:
        return "\n".join(self._told())

    def _told(self) -> list[str]:
        """The line that a sweep ends with, and what it left out; of a dry run all; before the end the last line."""
        lines = [shown_lines(line) for line in self._lines]
        last = [line for line in lines if line.startswith(_ENDS)][-1:]
        if not self.ended:
            return lines[-1:] or ["starting"]
        return [*last, *(line for line in lines if line.startswith(_TOLD))] if last else lines

    def _repr_html_(self) -> str:
        head, *more = self._told() or [""]
        every = "\n".join(map(shown_lines, self._lines))
        if head == every.partition("\n")[0] and more:  # all of it is told
            return f"<pre>{escape(every)}</pre>"
        told = "".join(f"<div>{escape(line)}</div>" for line in more)
        opened = " open" * self._open
        return f"<details{opened}><summary>{escape(head)}</summary><pre>{escape(every)}</pre></details>{told}"


def _is_notebook() -> bool:
    return Console().is_jupyter


@contextmanager
def one_output() -> Iterator[Output | None]:
    """In a notebook's cell all that is printed inside goes to one output, which is given; elsewhere None.

    Whoever raises, or does not end it, leaves it unfolded.
    """
    if not _is_notebook():
        yield None
        return
    output, before = Output(), os.environ.get(_TERMINAL)
    os.environ[_TERMINAL] = "0"  # a kernel asks for colours and whatever else a terminal obeys
    try:
        with redirect_stdout(output), redirect_stderr(output):
            yield output
    finally:
        os.environ.pop(_TERMINAL)
        if before is not None:
            os.environ[_TERMINAL] = before
        if not output.ended:
            output.end(unfolded=True)
