"""The folders that are shown: a folder's failures, and its current index, which is rebuilt when files arrive."""

from __future__ import annotations

import ast
import re
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

import pyarrow as pa

from analysis.viewer.index import Index, file_names
from grid.core.errors import StoreError
from grid.store.runs import runs

_AT_ONCE_SECONDS = 0.5  # an index that took longer is rebuilt in the background; the old one is shown until then
_LOOK_SECONDS = 1.0
_PLAIN_ID = re.compile(r"[A-Za-z0-9_./:@%+ -]+")  # ids that, in quotes, a shell and Hydra read unchanged
_FOLDER, _SECRET = ".../", "***"  # placeholders for folders and secrets in a run's record


@dataclass(frozen=True)
class Progress:
    """The progress of a sweep: a line of text, and whether the sweep is still running."""

    line: str
    running: bool


Watch = Callable[[], Progress | None]
Classes = Callable[[Path], pa.Table | None]
"""A function that returns the classes of a folder's failed cells, or None.

The table's columns are `cell_id`, `failure`, `failure_detail` and `failure_step`.
"""


def _nothing() -> None:
    return None


def _with_values(command: str, values: Mapping[str, str]) -> tuple[str, list[str]]:
    """A sweep's command with these values, and those of its other arguments that a run's record shortens.

    The record replaces folders and secrets by placeholders. An argument for a results folder that was replaced is left
    out, so the new results go to the current folder.
    """
    called = command.startswith("grid.sweep(")
    given = [ast.literal_eval(one) for one in _called(command).args] if called else shlex.split(command)
    kept = [one for one in given if _key(one) not in values and not one.startswith(f"store.root={_FOLDER}")]
    arguments = [*kept, *(f"{key}={value}" for key, value in values.items())]
    line = f"grid.sweep({', '.join(map(repr, arguments))})" if called else shlex.join(arguments)
    return line, [one for one in kept if _FOLDER in one or _SECRET in one]


def _called(command: str) -> ast.Call:
    """The call of the Python API in a run's record; raises SyntaxError if the record is not such a call."""
    found = ast.parse(command, mode="eval").body
    if not isinstance(found, ast.Call):
        raise SyntaxError(command)
    return found


def _key(argument: str) -> str:
    return argument.partition("=")[0].lstrip("+~") if "=" in argument else ""


@dataclass
class Run:
    """One results folder; `key` names it in addresses ("" for the first); `watch` returns the progress of its sweep."""

    root: Path
    key: str = ""
    watch: Watch = _nothing
    classes: Classes = lambda root: None
    _index: Index | None = None
    _looked: float = 0.0
    _lock: Any = field(default_factory=Lock)
    _beside: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1))
    _coming: Future[Index] | None = None
    _sorter: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1))
    _working: Future[None] | None = None
    _classed: Index | None = None
    _known: pa.Table | None = None

    @property
    def name(self) -> str:
        """The sweep's name, which is the name of its folder."""
        return self.root.resolve().name

    def again(self, case_ids: Sequence[str], dataset: str) -> tuple[str, list[str]] | None:
        """The newest run's command with a new name and with these cases of one data set, which is given by its label.

        The second result has the arguments that must be filled in, because a run's record keeps no folders or secrets.
        The result is None if no run is known, if the record of runs cannot be read or has no command of this project,
        or if a case's id has unusual characters.

        Raises:
            StoreError: the index is needed and cannot be read.
        """
        try:
            ran = runs(self.root)["runs"]
        except StoreError:  # a report shows this error; cases are shown anyway
            return None
        if not ran or not all(map(_PLAIN_ID.fullmatch, case_ids)):
            return None
        values = {"part": "all"} if " part=" in ran[-1]["command"] else {}
        values |= {"name": f"{self.name}-again", "cases": "[" + ",".join(f'"{one}"' for one in case_ids) + "]"}
        if len({place[1] for place in self.index().places}) > 1:  # the cases belong to one data set
            values["dataset"] = dataset.partition("[")[0]
        try:
            return _with_values(ran[-1]["command"], values)
        except (SyntaxError, ValueError):  # not a command of this project
            return None

    def index(self) -> Index:
        """The index of the cells as they are now, or were a moment ago.

        Raises:
            StoreError: the folder is gone, or cannot be read.
        """
        with self._lock:
            if self._index is None:
                self._take(Index(self.root))
            elif self._coming is not None and self._coming.done():
                coming, self._coming = self._coming, None
                self._take(coming.result())
            elif time.monotonic() - self._looked > _LOOK_SECONDS and self._coming is None:
                self._look(self._index)
            assert self._index is not None  # noqa: S101
            return self._index

    def _look(self, index: Index) -> None:
        self._looked = time.monotonic()
        if file_names(self.root) == index.names:
            return
        if index.seconds < _AT_ONCE_SECONDS:
            self._take(Index(self.root))
        else:
            self._coming = self._beside.submit(Index, self.root)

    def _take(self, index: Index) -> None:
        self._index, self._looked = index, time.monotonic()

    def classify(self, wait: bool = False) -> None:
        """Start to classify failures in the background; the index gets the classes when they are ready.

        Raises:
            StoreError: the folder is gone, or cannot be read. Errors in the background are raised only if `wait` is
                true; this waits for the end of the work.
        """
        index = self.index()
        with self._lock:
            if self._working is not None and self._working.done():
                self._working = None
            if self._working is None and self._classed is not index:
                self._classed, self._working = index, self._sorter.submit(self._classify, index)
            working = self._working
        if wait and working is not None:
            working.result()

    def _classify(self, index: Index) -> None:
        if self._known is not None:  # first the classes of the previous index, as most are the same
            index.classify(self._known)
        found = self.classes(self.root)
        if found is not None:
            index.classify(found)
            self._known = found

    @property
    def sorting(self) -> bool:
        """Whether failures are being classified at present."""
        return self._working is not None and not self._working.done()

    def close(self) -> None:
        """Stop background work without waiting for its end."""
        for pool in (self._beside, self._sorter):
            pool.shutdown(wait=False, cancel_futures=True)
