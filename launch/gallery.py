"""Run every preset in conf/experiment at a small size, and write an index of all reports.

`agent-grid gallery paths.ultratool=FOLDER paths.bfcl=FOLDER` runs all presets for which these files suffice, and writes
each preset's results and report to results/gallery/PRESET; the same command again continues the work. The overrides are
keys of a sweep, and apply to all presets.
"""

from __future__ import annotations

import argparse
import datetime as dt
import difflib
import os
import re
import shlex
import sys
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field, replace
from io import StringIO
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from pydantic import Field, TypeAdapter, ValidationError, model_validator
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
from rich.text import Text

from analysis import yaml_files
from analysis.yaml_files import Checked
from grid import CONF
from grid.core.errors import ConfigError, GridError, StoreError, UnfinishedError, one_line
from grid.core.untrusted import shown
from grid.sweeps.progress import read_told

if TYPE_CHECKING:  # these imports take seconds, and a mistyped argument should not wait for them
    from analysis.gallery import Entry
    from analysis.page.drawing import Drawing
    from analysis.page.table import Table


# `conf/gallery.yaml` says how the gallery runs each preset in conf/experiment, and which tables the preset reproduces.


FILE, FOLDER = CONF / "gallery.yaml", CONF / "experiment"


class Preset(Checked):
    """One preset: its small size, and the published tables that it reproduces (or the reason why there are none).

    `published` lists files in analysis/papers/tables. `small` has overrides for the small size. `row` has the labels
    of a row in the first published file; the index shows this row. `runs` has further overrides, one list for each
    command; all commands write to one folder. `left_out` says why the gallery does not run the preset.
    """

    published: list[str] = Field(default_factory=list)
    unpublished: str | None = None
    row: list[str] | None = None
    small: list[str] = Field(default_factory=list)
    runs: list[list[str]] = Field(default=[[]], min_length=1)
    left_out: str | None = None

    @model_validator(mode="after")
    def _check(self) -> Preset:
        if bool(self.published) == bool(self.unpublished):
            raise ValueError(
                "give either `published` (files in analysis/papers/tables) or `unpublished` (the reason why there "
                "are no such files)"
            )
        if self.row and not self.published:
            raise ValueError("`row` needs `published`, because it names a row of the first published file")
        return self


def load(path: Path = FILE, folder: Path = FOLDER) -> dict[str, Preset]:
    """The presets by name; every file in `folder` is a preset.

    Raises:
        AnalysisError: the file cannot be read, or a key or value is wrong.
        ConfigError: a preset is only in `path`, or only in `folder`.
    """
    place, values = yaml_files.place_of(path), yaml_files.read(path)
    try:
        found = TypeAdapter(dict[str, Preset]).validate_python(values)
    except ValidationError as error:
        raise yaml_files.refused(place, error) from None
    there = {file.stem for file in folder.glob("*.yaml")}
    if odd := sorted(there ^ found.keys()):
        allowed = (
            f"must have exactly the presets of {folder.name}, each with published tables or a reason why it has none"
        )
        raise ConfigError(f"{path.name}", odd[0], allowed)
    return dict(sorted(found.items()))


def chosen(presets: dict[str, Preset], only: Sequence[str]) -> dict[str, Preset]:
    """The presets with these names, in the order of `presets`; all presets if no name is given.

    Raises:
        ConfigError: there is no preset with one of the names.
    """
    for name in only:
        if name not in presets:
            close = difflib.get_close_matches(name, presets, n=1)
            hint = f" (did you mean {close[0]}?)" if close else ""
            raise ConfigError("--only", name, f"one of the presets in conf/experiment: {', '.join(presets)}{hint}")
    return {name: preset for name, preset in presets.items() if not only or name in only}


def about(name: str, folder: Path = FOLDER) -> str:
    """The description in the head of a preset's file, before its commands."""
    lines: list[str] = []
    for line in (folder / f"{name}.yaml").read_text(encoding="utf-8").splitlines():
        if not line.startswith("#") or line.startswith("#   "):
            break
        lines += [] if line.startswith("# @") else [line.removeprefix("#").strip()]
    return " ".join(lines)


RAN, UNFINISHED, CANNOT_RUN = 0, 1, 2
SMALL = ("dataset.limit=20", "trials=1")
_OWN = ("name", "store.root", "experiment")


@dataclass(frozen=True)
class Wanted:
    """The parsed command line."""

    presets: dict[str, Preset]
    into: Path
    overrides: list[str]


@dataclass
class _Run:
    """The results of a preset so far; the text that the preset prints is kept in `log`."""

    folder: Path
    log: StringIO = field(default_factory=StringIO)
    complete: bool = True
    interrupted: bool = False
    tables: Sequence[Table] = ()
    drawings: Sequence[Drawing] = ()


def main() -> int:
    """Exit status 0 if all presets that could run are complete, 1 if some are not, 2 if the command cannot run.

    The status is also 1 if the gallery was interrupted, or if the cluster is lost.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "overrides", nargs="*", help="keys for all presets, as for a sweep: paths.NAME=FOLDER, model=NAME"
    )
    parser.add_argument("--only", nargs="+", default=[], metavar="PRESET", help="run only these presets")
    parser.add_argument(
        "--limit", type=int, help="number of cases of each data set (dataset.limit), instead of the preset's own number"
    )
    parser.add_argument(
        "--into",
        type=Path,
        default=Path("results/gallery"),
        help="the folder for all results (default: results/gallery)",
    )
    try:
        wanted = _wanted(parser.parse_args())
        return _run_all(wanted)
    except UnfinishedError as error:
        print(f"stopped: {one_line(error, 1_000)}", file=sys.stderr)
        return UNFINISHED
    except GridError as error:
        print(f"error: {one_line(error, 4_000)}", file=sys.stderr)
        return CANNOT_RUN


def _wanted(given: argparse.Namespace) -> Wanted:
    """Read the command line; arguments with `=` after `--only` are overrides.

    Raises:
        ConfigError: there is no such preset, a limit is below 1, or an override has a key that the gallery sets itself.
    """
    from grid.sweeps import arguments

    overrides = [*given.overrides, *(word for word in given.only if "=" in word)]
    for text in overrides:
        key, _, value = text.lstrip("+").partition("=")
        if key in _OWN or "=" not in text:
            allowed = (
                "must be a sweep's override (key=value), but not name, store.root or experiment; instead, use --into "
                "and --only"
            )
            raise ConfigError(key, value, allowed)
    if given.limit is not None:
        if given.limit < 1:
            raise ConfigError("--limit", given.limit, "an integer of 1 or more")
        overrides.insert(0, f"dataset.limit={given.limit}")
    arguments.check(overrides)
    presets = chosen(load(), [word for word in given.only if "=" not in word])
    return Wanted(presets, given.into, overrides)


def _run_all(wanted: Wanted) -> int:
    """Run the presets one after the other, and write the index after each."""
    from rich.console import Console

    from analysis import gallery

    console = Console(file=sys.stdout, highlight=False, emoji=False)
    entries = {name: one for name, one in gallery.read(wanted.into).items() if name in load()}
    states: list[str] = []
    with ExitStack() as cluster, GalleryProgress(console, wanted.into, len(wanted.presets)) as progress:
        for name, preset in wanted.presets.items():
            progress.begin(name)
            entry, interrupted = _entry(name, preset, wanted, cluster, entries.get(name))
            entries[name] = entry
            gallery.write(wanted.into, dict(sorted(entries.items())), _lines(list(entries.values())))
            progress.end(entry)
            states.append(entry.state)
            if interrupted:
                progress.say("interrupted: run the same command again to continue")
                break
    console.print(f"index: {one_line(wanted.into / gallery.INDEX)}", soft_wrap=True, markup=False)
    return RAN if set(states) <= {gallery.COMPLETE, gallery.LEFT_OUT} and not interrupted else UNFINISHED


def _entry(name: str, preset: Preset, wanted: Wanted, cluster: ExitStack, before: Entry | None) -> tuple[Entry, bool]:
    """Run one preset; returns its entry for the index, and whether it was interrupted.

    The preset's output goes to a file.
    """
    from analysis import gallery

    started, ran = time.monotonic(), _Run(wanted.into / name)
    commands = [_overrides(name, more, preset, wanted) for more in preset.runs]
    command = "\n".join(shlex.join(["agent-grid", "sweep", "-m", *one]) for one in commands)
    told = gallery.Entry(name, about(name), gallery.COMPLETE, gallery.published(preset.published), command=command)
    told = replace(told, unpublished=preset.unpublished or "")
    if preset.left_out:
        return replace(told, state=gallery.LEFT_OUT, reason=preset.left_out, command=""), False
    with redirect_stdout(ran.log), redirect_stderr(ran.log):
        state, reason = _outcome(commands, cluster, ran)
    if state != gallery.LEFT_OUT:
        _keep(wanted.into / f"{name}.log", ran.log.getvalue())
    spent = before.seconds if before and before.command == command and before.state != gallery.FAILED else 0.0
    told = replace(told, state=state, reason=reason, seconds=spent + time.monotonic() - started)
    return _with_results(told, preset, ran), ran.interrupted


def _overrides(name: str, more: Sequence[str], preset: Preset, wanted: Wanted) -> list[str]:
    """The overrides of one command of a preset; the user's overrides come last."""
    own = [f"+experiment={name}", f"name={name}", f"store.root={wanted.into}", *SMALL, *preset.small, *more]
    return _last_of_each([*own, *wanted.overrides])


def _last_of_each(overrides: Sequence[str]) -> list[str]:
    """The last override of each key, as Hydra accepts each key only once."""
    return list({text.partition("=")[0].lstrip("+"): text for text in overrides}.values())


def _outcome(commands: Sequence[Sequence[str]], cluster: ExitStack, ran: _Run) -> tuple[str, str]:
    """Run and report a preset; returns its state and the reason. After most errors the other presets still run."""
    from analysis import gallery

    try:
        _run(commands, cluster, ran)
    except KeyboardInterrupt:
        ran.interrupted = True
        return gallery.INCOMPLETE, "interrupted"
    except ConfigError as error:
        if error.key == "dataset.path" and error.value == "???":
            folders = ", ".join(re.findall(r"paths\.\w+=FOLDER", error.allowed)) or "dataset.path=FOLDER"
            return gallery.LEFT_OUT, f"no folder is given for its data ({folders})"
        return gallery.FAILED, one_line(error, 1_000)
    except UnfinishedError:  # without a cluster the other presets cannot run either
        raise
    except GridError as error:
        return gallery.FAILED, one_line(error, 1_000)
    except Exception as error:  # noqa: BLE001 - any error is reported for this preset
        traceback.print_exc(file=ran.log)
        return gallery.FAILED, one_line(f"{type(error).__name__}: {error}", 1_000)
    if ran.interrupted:
        return gallery.INCOMPLETE, "interrupted"
    if not ran.complete:
        return (
            gallery.INCOMPLETE,
            f"some cells are missing, or failed for a reason other than the model: see {ran.folder.name}.log",
        )
    return gallery.COMPLETE, ""


def _run(commands: Sequence[Sequence[str]], cluster: ExitStack, ran: _Run) -> None:
    """Run a preset's sweeps, on the cluster that all presets share, and make the preset's report."""
    from rich.console import Console

    from analysis.figures import drawings
    from analysis.report import print_report
    from grid.cluster.connection import held
    from grid.settings.config import sweep_config
    from grid.sweeps.api import settings_of
    from grid.sweeps.jobs import run
    from launch.report import write_page

    for command in commands:
        found = settings_of(*command)
        cluster.enter_context(held(sweep_config(found[0][0]).cluster))
        ran.complete &= run(found, report=False)
        if _was_interrupted(ran.folder):
            ran.interrupted = True
            break
    ran.tables = print_report(ran.folder, Console(file=ran.log), papers=True)
    ran.drawings = drawings.drawings(ran.folder)
    write_page(ran.folder, ran.tables, ran.drawings)


def _was_interrupted(folder: Path) -> bool:
    """Whether the sweep stopped before its last cell, as it does after Ctrl-C once the cells in flight have ended."""
    try:
        told = read_told(folder)
    except (OSError, ValueError):  # no cell was left to run
        return False
    return told["done"] < told["cells"]


def _with_results(told: Entry, preset: Preset, ran: _Run) -> Entry:
    """The entry, completed with the counts in the preset's folder and the first statements of its report."""
    from analysis import gallery
    from launch.report import PAGE

    try:
        counts = gallery.counts(ran.folder)
    except GridError as error:
        return replace(told, state=gallery.FAILED, reason=one_line(error, 1_000))
    first = preset.published[0] if preset.published else None
    page = f"{told.name}/{PAGE}" if (ran.folder / PAGE).is_file() else ""
    image, title = gallery.image(ran.drawings)
    lines = gallery.verdict(ran.tables, first, preset.row)
    return replace(told, counts=counts, image=image, image_title=title, verdict=lines, page=page)


def _keep(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise StoreError(f"{path}: cannot be written ({error})") from None


def _lines(entries: Sequence[Entry]) -> list[str]:
    """The lines at the head of the index: numbers of presets and cells, time, date, commit and CPUs."""
    from analysis import gallery
    from grid.settings.check import git_commit

    states = Counter(one.state for one in entries)
    told = ", ".join(f"{states[state]} {state}" for state in gallery.STATES if states[state])
    cells, seconds = sum(one.counts.ok + one.counts.failed for one in entries), sum(one.seconds for one in entries)
    when, code = f"{dt.datetime.now(dt.UTC):%Y-%m-%d %H:%M} UTC", git_commit() or "not known"
    return [
        f"{len(entries)} presets: {told}; {cells:,} cells in {seconds / 60:.1f} minutes.",
        f"{when}, commit {code}, {os.cpu_count()} CPUs. If no model is named, the answers come from a simulated "
        "policy with planted skill: its figures show that everything works, not how good a planner is.",
    ]


# The gallery's progress: a live line with the running preset's cells or, without a terminal, one line per preset.


class _Cells(ProgressColumn):
    """The counts of a sweep's ended cells and of all its cells, from its folder, as its output goes to a file."""

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
        if told["updated_at"] < self.started:  # the state of an earlier run
            return Text(name)
        return Text(f"{name}  {told['done']:,}/{told['cells']:,} cells")


class GalleryProgress:
    """A display of the number of presets done, and of the running preset. A context manager.

    Args:
        console: the console on which the progress is shown.
        into: the gallery's folder.
        presets: the number of presets to run.
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
        """Show that a preset begins."""
        self._cells.started = time.time()
        if self._bar:
            self._bar.update(self._task, description=name)

    def end(self, entry: Entry) -> None:
        """Print a line about a preset that has ended."""
        self._done += 1
        if self._bar:
            self._bar.update(self._task, completed=self._done)
        settings, cases, ok, failed, seconds = entry.figures
        ran = f"{settings} settings, {cases} cases: {ok} cells ok, {failed} failed, {seconds} s"
        told = "; ".join(part for part in (ran if entry.counts.cases else "", entry.reason) if part)
        self.say(f"{self._done}/{self._presets} {entry.name}: {entry.state}{f' ({told})' if told else ''}")

    def say(self, line: str) -> None:
        """Print one plain line."""
        self._console.print(shown(line), markup=False, soft_wrap=True)


if __name__ == "__main__":
    sys.exit(main())
