"""All tables and figures of a results folder as one page that loads nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from analysis.figures import Drawing
from analysis.render import Sheet
from analysis.study import SECTION
from grid.text.untrusted import shown_lines

REST = "By model and data set"
"""The section of what names none."""
_SHOWN = 2_000
"""Rows of a table that a page shows, so that it stays small; the files of tables have them all."""


def page(root: Path, sheets: Sequence[Sheet], drawings: Sequence[Drawing], lines: Sequence[str] = ()) -> str:
    """The page: what it shows (`lines`), contents, tables, figures, and under each the query of its numbers.

    All but the figures, which matplotlib wrote, is escaped; a Content-Security-Policy forbids scripts and requests.
    """
    told = (
        f"{root}/episodes holds one row a cell, {root}/steps one row a decision; the queries run in DuckDB, in the "
        "folder from which this report was made"
    )
    sections = _sections([*map(_bounded, sheets), *drawings])
    return (
        environment()
        .get_template("page.html")
        .render(title=root.resolve().name, lines=lines, told=told, sections=sections)
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
