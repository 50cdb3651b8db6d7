"""All tables and figures of a results folder as one page that loads nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from analysis.figures import Drawing
from analysis.render import Sheet
from analysis.study import SECTION
from grid.core.untrusted import shown_lines

Viewer = Callable[[str, str], str]
"""The address of the episodes of a model and dataset; of all, where these are empty."""
REST = "By model and data set"
"""The section of what names none."""
_SHOWN = 2_000
"""Rows of a table that a page shows, so that it stays small; the files of tables have them all."""


def page(
    root: Path,
    sheets: Sequence[Sheet],
    drawings: Sequence[Drawing],
    lines: Sequence[str] = (),
    head: Sequence[tuple[str, str]] = (),
    viewer: Viewer | None = None,
) -> str:
    """The page of a results folder; the arguments are those of `document`."""
    told = (
        f"{root}/episodes holds one row per cell, {root}/steps one row per decision; the queries run in DuckDB, in the "
        "folder from which this report was made"
    )
    return document(root.resolve().name, told, sheets, drawings, lines, head, viewer)


def document(
    title: str,
    told: str,
    sheets: Sequence[Sheet],
    drawings: Sequence[Drawing],
    lines: Sequence[str] = (),
    head: Sequence[tuple[str, str]] = (),
    viewer: Viewer | None = None,
) -> str:
    """A page: what it shows, contents, tables, figures, and under each the query of its numbers.

    All but the figures, which matplotlib wrote, is escaped; a Content-Security-Policy forbids scripts and requests.

    Args:
        title: its heading.
        told: where the data of all queries lie.
        sheets: its tables.
        drawings: its figures.
        lines: what it shows, in sentences.
        head: terms and what is said of them, a line each (`heading.terms`).
        viewer: gives the addresses that tables link to; None: no links.
    """
    sections = _sections([*map(_bounded, sheets), *drawings])

    def episodes(part: Sheet | Drawing) -> str:
        return viewer(*_place(part)) if viewer and isinstance(part, Sheet) else ""

    return (
        environment()
        .get_template("page.html")
        .render(title=title, lines=lines, head=head, told=told, sections=sections, name=title, episodes=episodes)
    )


def environment() -> Environment:
    """Where pages are made: all that is not marked as safe is escaped."""
    return Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        finalize=_finalized,
    )


def _place(sheet: Sheet) -> tuple[str, str]:
    """The one model and the one dataset that all rows of a table are about; empty where there are several."""
    found = [sheet.values[name].dropna().unique() for name in ("model", "dataset") if name in sheet.values]
    return (str(found[0][0]), str(found[1][0])) if list(map(len, found)) == [1, 1] else ("", "")


def _sections(parts: Sequence[Sheet | Drawing]) -> list[tuple[str, list[Sheet | Drawing]]]:
    """The parts by their sections, each where its first part stands; the study's come before all others."""
    found: dict[str, list[Sheet | Drawing]] = {}
    for part in parts:
        found.setdefault(part.section or REST, []).append(part)
    return sorted(found.items(), key=lambda section: section[0] != SECTION)


def _finalized(value: object) -> object:
    """Texts without control characters, which no page may hold; line ends stay, for queries."""
    return shown_lines(value) if type(value) is str else value


def _bounded(sheet: Sheet) -> Sheet:
    if len(sheet.rows) <= _SHOWN:
        return sheet
    note = f"the first {_SHOWN:,} of {len(sheet.rows):,} rows; `agent-grid report --tables FOLDER` writes all"
    return Sheet(**{**vars(sheet), "rows": sheet.rows[:_SHOWN], "notes": [*sheet.notes, note]})
