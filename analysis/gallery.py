"""The index of a gallery: for each preset, the tables that it reproduces, its result, and a link to its report."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pyarrow.compute as pc
from pydantic import TypeAdapter, ValidationError

from analysis.page import html
from analysis.page.drawing import Drawing
from analysis.page.table import MISSING, Table
from analysis.papers import files, order
from grid import store
from grid.core.errors import StoreError, one_line

INDEX, KEPT = "index.html", "gallery.json"
STATES = COMPLETE, INCOMPLETE, FAILED, LEFT_OUT = "complete", "incomplete", "failed", "left out"
_OURS = " (ours)"
_THEIRS = 3
"""Maximum number of the paper's models that a line names."""
_TOLD = (
    "one row per preset of conf/experiment; each ran at a small size, so intervals are wide; cells ok: cells that "
    "ended with an answer, right or wrong; seconds: the time of all commands of the preset, from composing its "
    "config to writing its page"
)


class Counts(NamedTuple):
    """The numbers of settings, cases, cells with status `ok`, and failed cells in a results folder."""

    settings: int = 0
    cases: int = 0
    ok: int = 0
    failed: int = 0


NONE = Counts()


@dataclass(frozen=True)
class Entry:
    """The index's entry for a preset; `published` lists papers and tables, `command` is the command that was run.

    `verdict` has lines of the preset's report, and `image` is the report's first figure in base64.
    """

    name: str
    about: str
    state: str
    published: list[str] = field(default_factory=list)
    unpublished: str = ""
    reason: str = ""
    command: str = ""
    counts: Counts = NONE
    seconds: float = 0.0
    verdict: list[str] = field(default_factory=list)
    image: str = ""
    image_title: str = ""
    page: str = ""

    @property
    def figures(self) -> list[str]:
        """Counts and seconds as texts; dashes if all counts are 0, that is, if no cell ran."""
        ran = any(self.counts)
        return [*(f"{count:,}" if ran else "–" for count in self.counts), f"{self.seconds:,.0f}" if ran else "–"]


def counts(folder: Path) -> Counts:
    """The counts of a results folder; all are 0 if the folder has no folder `episodes`.

    Raises:
        StoreError: the folder cannot be read.
    """
    if not (folder / "episodes").is_dir():
        return NONE
    rows = store.read(folder, "episodes", ["setting_id", "dataset", "case_id", "status"])
    ok = pc.sum(pc.equal(rows["status"], "ok")).as_py() or 0
    cases = rows.group_by(["dataset", "case_id"]).aggregate([]).num_rows
    return Counts(pc.count_distinct(rows["setting_id"]).as_py(), cases, ok, rows.num_rows - ok)


def published(names: Sequence[str]) -> list[str]:
    """The papers of these files in analysis/papers/tables, each with its tables.

    Raises:
        AnalysisError: a file does not exist or is wrong.
    """
    papers: dict[str, list[str]] = {}
    for published in map(files.find, names):
        papers.setdefault(published.paper, []).append(published.table)
    return [", ".join([paper, *_called(called)]) for paper, called in papers.items()]


def _called(names: Sequence[str]) -> list[str]:
    """The word `table` or `tables` with the tables' names, then the figures' names, which start with `figure`."""
    figures = [name for name in names if name.startswith("figure")]
    others = [name for name in names if name not in figures]
    return [f"table{'s' * (len(others) > 1)} {', '.join(others)}"] * bool(others) + figures


def verdict(tables: Sequence[Table], name: str | None, row: Sequence[str] | None) -> list[str]:
    """The sentence about the order of methods, and a line that compares a row of a published table with our figures.

    The sentence is left out if `tables` has no table of the order, and the line if `name` or `row` is not given or if
    `tables` has no value of ours for this row.

    Args:
        tables: the tables of a report.
        name: a file in analysis/papers/tables, without the ending.
        row: the labels of a row of this file.

    Raises:
        AnalysisError: analysis/papers/tables has no such file, the file is wrong, or it has no such row.
    """
    found = [table.reading for table in tables if table.name == order.NAME]
    if name and row:
        published = files.find(name)
        published.row(row)
        beside = [table for table in tables if table.name == f"published {published.paper} {published.table}"]
        found += [line for table in beside for line in _lines(table, row)]
    return found


def _lines(table: Table, row: Sequence[str]) -> list[str]:
    """A line with the paper's values of one metric in this row, then our values; no line if we have no value.

    The metric is the first for which both the paper and we have values; if there is none, the first for which we have
    values.
    """
    names = [*table.labels, *table.figures]
    rows = [dict(zip(names, cells, strict=True)) for cells in table.rows if list(cells[: len(row)]) == list(row)]
    ours = [one for one in rows if one["model"].endswith(_OURS)]
    theirs = [one for one in rows if one not in ours]
    metrics = [name for name in table.figures if name != "cases" and any(one[name] != MISSING for one in ours)]
    both = [name for name in metrics if any(one[name] != MISSING for one in theirs)]
    for metric in (both or metrics)[:1]:
        paper = [f"{one['model']} {one[metric]}" for one in theirs if one[metric] != MISSING]
        more = f" and {len(paper) - _THEIRS} more" if len(paper) > _THEIRS else ""
        measured = [f"{one['model']} {one[metric]}" for one in ours if one[metric] != MISSING]
        told = ", ".join(paper[:_THEIRS]) + more if paper else "not in the paper"
        return [f"{', '.join(row)}, {metric}: {told}; {', '.join(measured)}"]
    return []


def image(drawings: Sequence[Drawing]) -> tuple[str, str]:
    """The first figure in base64, for a page that loads no files, and its title; empty texts if there is no figure."""
    first = next(iter(drawings), None)
    return (base64.b64encode(first.svg.encode()).decode(), first.title) if first else ("", "")


def read(folder: Path) -> dict[str, Entry]:
    """The entries that a gallery saved for its presets; empty if there is no gallery.

    Raises:
        StoreError: the file cannot be read, or was not written by a gallery.
    """
    path = folder / KEPT
    try:
        return TypeAdapter(dict[str, Entry]).validate_json(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValidationError) as error:
        wrong = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error.strerror
        raise StoreError(
            one_line(
                f"{path}: this file was not written by `agent-grid gallery` ({wrong}); remove it to begin a new "
                "gallery",
                500,
            )
        ) from None


def write(folder: Path, entries: dict[str, Entry], lines: Sequence[str]) -> Path:
    """Write the index, and the file of entries from which it is made; return the path of the index.

    Raises:
        StoreError: the folder cannot be written to.
    """
    page = html.environment().get_template("gallery.html")
    title = "every preset at a small size"
    texts = {
        KEPT: TypeAdapter(dict[str, Entry]).dump_json(entries, indent=1).decode(),
        INDEX: page.render(title=title, lines=lines, told=_TOLD, entries=list(entries.values())),
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            draft = folder / f".{name}"
            draft.write_text(text, encoding="utf-8")
            draft.replace(folder / name)
    except OSError as error:
        raise StoreError(f"{folder}: the index cannot be written ({error})") from None
    return folder / INDEX
