"""All tables and figures of a results folder as one page that loads no other files.

At the top are sentences on what the page shows, then the quotable statements, then the two figures that most readers
want, then all tables and the remaining figures by subject.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from analysis.page.drawing import Drawing
from analysis.page.table import FIRST_SECTION, Table
from grid.core.untrusted import shown_lines

_HERE = Path(__file__).parent
Viewer = Callable[[str, str], str]
"""A function that returns the viewer's address for a model and dataset; for all episodes if both are empty."""
REST = "By model and data set"
"""The section for tables and figures that name no section."""
LEADING = ("success", "cost")
"""For each of these words, the first figure whose name begins with the word comes before all tables."""
_SHOWN = 2_000
"""Maximum number of rows of a table on a page, which keeps the page small; the tables' files have all rows."""


def page(
    root: Path,
    tables: Sequence[Table],
    drawings: Sequence[Drawing],
    lines: Sequence[str] = (),
    head: Sequence[tuple[str, str]] = (),
    viewer: Viewer | None = None,
    summary: Sequence[str] = (),
) -> str:
    """The page of a results folder; the arguments are the same as for `document`."""
    told = (
        f"{root}/episodes holds one row per cell, and {root}/steps holds one row per decision; the queries run in "
        "DuckDB, if it is started in the folder in which this report was made"
    )
    return document(root.resolve().name, told, tables, drawings, lines, head, viewer, summary)


def document(
    title: str,
    told: str,
    tables: Sequence[Table],
    drawings: Sequence[Drawing],
    lines: Sequence[str] = (),
    head: Sequence[tuple[str, str]] = (),
    viewer: Viewer | None = None,
    summary: Sequence[str] = (),
) -> str:
    """A page, which consists of a table of contents, tables, figures, and sentences on its subject.

    Below each table and figure is the query for its numbers.

    Everything is escaped except the figures, which matplotlib wrote. A Content-Security-Policy forbids requests and
    scripts, except one script that sorts tables, which is allowed by its hash.

    Args:
        title: the page's heading.
        told: a sentence that says where the data of all queries are.
        tables: the tables to show.
        drawings: the figures to show.
        lines: sentences on what the page shows.
        head: terms and their values (`provenance.terms`); a value may have several lines.
        viewer: the function that gives the addresses to which tables link; None: no links.
        summary: the quotable statements, which are shown below `lines`.
    """
    named = [[drawing for drawing in drawings if drawing.name.split()[0] == name] for name in LEADING]
    leading = [found[0] for found in named if found]
    sections = _sections([*map(_bounded, tables), *(drawing for drawing in drawings if drawing not in leading)])

    def episodes(part: Table | Drawing) -> str:
        return viewer(*_place(part)) if viewer and isinstance(part, Table) else ""

    return (
        environment()
        .get_template("page.html")
        .render(
            title=title,
            lines=lines,
            head=head,
            told=told,
            sections=sections,
            name=title,
            episodes=episodes,
            summary=summary,
            leading=leading,
        )
    )


def element(table: Table) -> str:
    """A table by itself, under its title, as a notebook shows it."""
    macros: Any = environment().get_template("parts.html").module
    return f"<b>{escape(shown_lines(table.title))}</b>{macros.table(_bounded(table))}"


def environment() -> Environment:
    """The template environment of pages, which escapes everything that is not marked as safe.

    `sorting` is the script that sorts tables, `sorting_hash` its hash.
    """
    made = Environment(
        loader=FileSystemLoader(_HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        finalize=_finalized,
    )
    script = (_HERE / "page.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    made.globals |= {"sorting": Markup(script), "sorting_hash": digest}  # noqa: S704  our own file
    return made


def _place(table: Table) -> tuple[str, str]:
    """The model and the dataset that all rows of a table are about; two empty texts if rows have several or none."""
    found = [table.values[name].dropna().unique() for name in ("model", "dataset") if name in table.values]
    return (str(found[0][0]), str(found[1][0])) if list(map(len, found)) == [1, 1] else ("", "")


def _sections(parts: Sequence[Table | Drawing]) -> list[tuple[str, list[Table | Drawing]]]:
    """The parts by section; sections are in the order of their first parts, but the study's section comes first."""
    found: dict[str, list[Table | Drawing]] = {}
    for part in parts:
        found.setdefault(part.section or REST, []).append(part)
    return sorted(found.items(), key=lambda section: section[0] != FIRST_SECTION)


def _finalized(value: object) -> object:
    """Remove control characters, which no page may contain, from a text; keep line ends, because queries need them."""
    return shown_lines(value) if type(value) is str else value


def _bounded(table: Table) -> Table:
    if len(table.read) <= _SHOWN:
        return table
    note = (
        f"only the first {_SHOWN:,} of {len(table.read):,} rows are shown; `agent-grid report --tables FOLDER` "
        "writes all rows"
    )
    return replace(table, lines=table.read[:_SHOWN], notes=[*table.notes, note])
