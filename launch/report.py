"""Print a sweep's tables and write its page: `agent-grid report results/<name>`; `--follow` follows a running sweep.

`agent-grid report results/<one> results/<other>` compares two runs: it matches settings and cases, and shows the cases
that flipped. `agent-grid report results/<name> results/<other> --into results/<both>` makes one report from several
sweeps.
"""

from __future__ import annotations

import argparse
import gc
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from grid import CONF
from grid.core import places
from grid.core.errors import GridError, StoreError, one_line, shown_value
from grid.core.places import folder_at
from grid.core.surroundings import usable

if TYPE_CHECKING:  # drawing and fitting take seconds to import, and a mistyped argument should not wait for it
    from analysis.figures import Drawing
    from analysis.load.unknowns import Unknown
    from analysis.page.table import Table
    from grid.sweeps.progress import Told

PAGE = "report.html"
_LOOK_SECONDS = 1.0
_PATIENCE_SECONDS = 5.0  # how long to retry an unreadable file, which a slow network file system may be replacing
_SILENT_SECONDS = 30.0  # after this long without a new state, the sweep's driver or its machine has died


@usable()
def main() -> int:
    """Exit status 0 (also after Ctrl-C), or 2 if the report cannot be made."""
    parser = argparse.ArgumentParser(description=__doc__)
    told = "the folder of a sweep, results/<name>; two folders are compared"
    parser.add_argument("results", type=folder_at, nargs="+", help=told)
    told = "for several folders: a folder for links to their rows and for their joint page"
    parser.add_argument("--into", type=folder_at, help=told)
    parser.add_argument(
        "--follow", action="store_true", help="show the sweep's progress until it ends, then its tables"
    )
    parser.add_argument(
        "--analysis", help="a regression to fit: the name of a file in conf/analysis, or a path that ends in .yaml"
    )
    parser.add_argument("--wide", action="store_true", help="print every table with all its columns, however wide")
    parser.add_argument(
        "--unknown",
        choices=("left_out", "failure"),
        default="left_out",
        help="how to count cells if it is not known whether they succeeded; default: left_out, with bounds",
    )
    parser.add_argument(
        "--metric", action="append", default=[], metavar="NAME", help="print a table of this metric; may be repeated"
    )
    parser.add_argument(
        "--papers",
        action="store_true",
        help="show published figures beside ours even if no language model answered; if one did, they are always shown",
    )
    parser.add_argument(
        "--by",
        action="append",
        default=[],
        metavar="COLUMN",
        help="print success by a property of cases: category, depth, breadth, tools (calls in their plan), template, "
        "or any column of episodes; may be repeated",
    )
    parser.add_argument("--tables", type=Path, help="a folder for all tables, as Markdown, CSV and LaTeX")
    parser.add_argument("--figures", type=Path, help="a folder for all figures, as PDF and SVG for papers")
    arguments = parser.parse_args()
    try:
        with places.steady():
            _run(arguments)
    except GridError as error:
        print(f"error: {one_line(error)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 0
    finally:
        gc.enable()
    return 0


def _run(arguments: argparse.Namespace) -> None:
    if len(arguments.results) == 2 and arguments.into is None:
        _compare(arguments)
        return
    folder = _gathered(arguments.results, arguments.into, arguments.follow)
    _report(folder, arguments)


def _compare(arguments: argparse.Namespace) -> None:
    """Compare two runs side by side.

    Raises:
        GridError: the runs cannot be compared, or an option is given that only applies to one sweep.
    """
    refused = ("follow", "analysis", "wide", "metric", "papers", "by", "figures")
    if option := next((name for name in refused if getattr(arguments, name)), None):
        option = f"--{option}"
        raise StoreError(f"{option} works for only one sweep; two folders are compared, or combined with --into FOLDER")
    from grid import store

    for folder in arguments.results:
        store.check_there(folder)

    first, second = arguments.results
    tables = report_two(first, second, Console(), arguments.unknown)
    if arguments.tables:
        write_tables(arguments.tables, tables)


def _gathered(folders: Sequence[Path], into: Path | None, following: bool) -> Path:
    """The folder to report on; several folders are gathered into one.

    Raises:
        StoreError: several folders are given without a folder to gather them in, or with `following`; or that folder
            cannot be created.
    """
    if len(folders) == 1 and into is None:
        return folders[0]
    if into is None or following:
        wrong = (
            "--follow works for only one sweep"
            if following
            else "several folders need --into FOLDER, for their joint page"
        )
        raise StoreError(f"{', '.join(one_line(folder, 100) for folder in folders)}: {wrong}")
    from grid import store

    store.gather(into, folders)
    return into


def _report(folder: Path, arguments: argparse.Namespace) -> None:
    if arguments.follow:
        follow(folder, Console())
    gc.disable()  # frames have no cycles, and searching all imported objects for cycles took a twelfth of a report
    from grid import store

    store.check_there(folder)
    from analysis.stats import spec
    from analysis.tables import measures

    wanted = spec.load(_analysis(arguments.analysis), measures.numbers(folder)) if arguments.analysis else None
    from analysis.report import print_report

    store.check(folder)
    from analysis import summary
    from analysis.load import unknowns

    with unknowns.counted(arguments.unknown):
        named, papers = arguments.metric, arguments.papers or None
        tables = print_report(folder, Console(), wanted, arguments.wide, metrics=named, papers=papers, by=arguments.by)
        if arguments.tables:
            write_tables(arguments.tables, tables)
        from analysis.figures import drawings

        drawn = drawings.drawings(folder)
        if arguments.figures:
            write_figures(arguments.figures, [*summary.drawings(tables), *drawn])
        print(f"page: {one_line(write_page(folder, tables, drawn))}")


def write_page(folder: Path, tables: Sequence[Table], drawn: Sequence[Drawing] | None = None) -> Path:
    """Write `report.html` into a results folder, completely or not at all; returns its path.

    The page shows the figures in `drawn`. If `drawn` is None, this function draws the figures, and unknown cells are
    counted as the surrounding context manager `analysis.load.unknowns.counted` says.

    Raises:
        StoreError: the folder cannot be read or written to.
    """
    from analysis import summary
    from analysis.figures import drawings
    from analysis.load import provenance
    from analysis.page import html
    from analysis.papers import study
    from analysis.report import warned
    from analysis.viewer import addresses

    lines = [*provenance.lines(folder), *warned(folder), *study.missing(folder)]
    figures = [*summary.drawings(tables), *(drawings.drawings(folder) if drawn is None else drawn)]
    told = summary.lines(tables)
    page = html.page(folder, tables, figures, lines, provenance.terms(folder), addresses.whole, told)
    write_whole(folder / PAGE, page)
    return folder / PAGE


def write_whole(path: Path, page: str) -> None:
    """Write a page, completely or not at all.

    Raises:
        StoreError: the page cannot be written.
    """
    try:
        places.write_whole(path, page, path.with_name(f".{path.name}"))
    except OSError as error:
        raise StoreError(f"{path}: cannot be written ({error})") from None


def write_tables(folder: Path, tables: Sequence[Table]) -> None:
    """Write every table as Markdown, CSV and LaTeX, to files named after the table's position and name.

    Raises:
        StoreError: the folder cannot be written to.
    """
    from analysis.page.render import FORMATS

    _write_all(folder, tables, FORMATS)


def write_figures(folder: Path, drawings: Sequence[Drawing]) -> None:
    """Write every figure as PDF and SVG, to files named after the figure's position and name.

    Raises:
        StoreError: the folder cannot be written to.
    """
    _write_all(folder, drawings, {form: partial(_in_form, form) for form in ("pdf", "svg")})


def _in_form(form: str, drawing: Any) -> bytes:
    found: bytes = drawing.svg.file(form, drawing.title)
    return found


def _write_all(folder: Path, parts: Sequence[Any], forms: Mapping[str, Callable[[Any], str | bytes]]) -> None:
    """Write each table or figure in each form; `forms` maps a file's ending to the function that makes that form."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for place, part in enumerate(parts, 1):
            name = re.sub(r"[^a-z0-9]+", "_", part.name.lower()).strip("_")[:80]
            for ending, made in forms.items():
                content = made(part)
                (folder / f"{place:02}_{name}.{ending}").write_bytes(
                    content.encode() if isinstance(content, str) else content
                )
    except OSError as error:
        raise StoreError(f"{folder}: cannot be written to ({error})") from None


def _analysis(name: str) -> Path:
    return Path(name) if name.endswith(".yaml") else CONF / "analysis" / f"{name}.yaml"


def follow(folder: Path, console: Console) -> None:
    """Show the progress that a sweep writes to its folder, from any machine with access to it, until the sweep ends.

    Raises:
        StoreError: no sweep has written its progress, or the progress file is broken or gone.
    """
    if not console.is_terminal:
        for text in _states(folder):
            console.print(text, markup=False, soft_wrap=True)
        return
    from rich.live import Live
    from rich.text import Text

    with Live(console=console, auto_refresh=False) as live:
        for text in _states(folder):
            live.update(Text(text), refresh=True)


def _states(folder: Path) -> Iterator[str]:
    """Yield each new state as a line; if a new state is overdue, yield one line per second.

    The time without a new state is measured by this process, because the clock of the sweep's machine may differ.
    """
    from grid.sweeps.progress import ENDED, STOPPING, line

    last: Told | None = None
    changed = time.monotonic()
    while not last or last["state"] != ENDED:
        if last:
            time.sleep(_LOOK_SECONDS)
        told = _told(folder, _PATIENCE_SECONDS if last else 0)
        silent = time.monotonic() - changed
        if told != last:
            changed = time.monotonic()
            stopping = "  stopping: running cells are finished first" if told["state"] == STOPPING else ""
            yield line(told) + stopping
        elif silent > _SILENT_SECONDS:
            yield f"{line(told)}  no sign of life for {silent:,.0f} s"
        last = told


def _told(folder: Path, patience: float) -> Told:
    """The current state in the file; if the file cannot be read, reading is retried for `patience` seconds."""
    from pydantic import ValidationError

    from grid.sweeps.progress import FILE, read_told

    until, place = time.monotonic() + patience, one_line(folder / FILE, 200)
    while True:
        try:
            return read_told(folder)
        except FileNotFoundError:
            missing = "no sweep with this name has started to run cells, or the file was removed"
            error = StoreError(f"{place}: the file is missing: {missing}")
        except ValidationError as broken:
            first = broken.errors()[0]
            error = StoreError(
                f"{place}: not in the form that a sweep writes ({first['msg']}: {shown_value(first['input'])})"
            )
        except (OSError, ValueError) as broken:
            error = StoreError(
                f"{place}: cannot be read ({broken.strerror if isinstance(broken, OSError) else broken})"
            )
        if time.monotonic() >= until:
            raise error
        time.sleep(_LOOK_SECONDS / 4)


# `agent-grid report results/A results/B`: the changes from one run to the other, as tables and as a page.


COMPARISON = "comparison.html"
"""The file name of the comparison's page, in the second folder, because a run is compared with earlier runs."""
_WIDTHS = (100, 160, 10_000)
"""Widths in columns; a table is printed at the first width that fits. Lists stay short at every width."""


def report_two(first: Path, second: Path, console: Console, unknown: Unknown | None = None) -> Sequence[Table]:
    """Print the comparison and write its page into the second folder; returns its tables.

    Raises:
        AnalysisError, StoreError: the two runs cannot be compared, or the page cannot be written.
    """
    from analysis.compare.tables import compare
    from analysis.page import html
    from analysis.page.render import show, wide
    from grid.core.untrusted import shown

    found = compare(first, second, unknown)
    for text in found.lines:
        console.print(shown(text), markup=False)
    for table in found.tables:
        any(show(wide(console, width), table) for width in _WIDTHS)
    told = f"A is {first}, B is {second}; the queries run in DuckDB, in the folder from which this report was made"
    page = html.document(found.title, told, found.tables, found.drawings, found.lines)
    write_whole(second / COMPARISON, page)
    console.print(f"page: {one_line(second / COMPARISON)}", markup=False, soft_wrap=True)
    return found.tables


if __name__ == "__main__":
    sys.exit(main())
