"""The release's statistics compared with the paper's: tools by domain (traject_bench table 8) and queries (table 9)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from rich.table import Table

from grid.datasets.traject_bench.dataset import TrajectBench
from grid.datasets.traject_bench.records import (
    FILES,
    SUFFIX,
    TOOLS,
    Kind,
    Level,
    domains,
    plain,
    read_queries,
    read_tools,
)

PUBLISHED: Mapping[str, tuple[int, int, int, int]] = {
    "Travel": (131, 200, 200, 170),
    "Mapping": (124, 200, 200, 200),
    "Finance": (258, 200, 200, 135),
    "Weather": (135, 200, 200, 200),
    "eCommerce": (82, 200, 200, 200),
    "News_Media": (118, 200, 200, 180),
    "Gaming": (84, 200, 200, 185),
    "Email": (70, 200, 200, 200),
    "Education": (89, 200, 200, 200),
    "Music": (137, 200, 200, 200),
}
"""For each domain, the number of tools in table 8, and of simple, hard and sequential queries in table 9.

Table 8 has "Mews Media", and table 9 has "Mews_Media". The tables' sums are 1,228 tools and 5,870 queries; the text
(§3.2.2) has 1,228 and 5,670.
"""


class Found(NamedTuple):
    """The counts for a file: all entries (`entries`), and distinct tools or possible cases among them (`usable`)."""

    entries: int
    usable: int


def tools(root: Path) -> dict[str, Found]:
    """The numbers of definitions and of distinct names in the file of each domain in `PUBLISHED`.

    Raises DataError if a file does not have the expected form, or has no definitions.
    """
    read = {path.name.removesuffix(SUFFIX): read_tools(path) for path in (root / TOOLS).glob(f"*{SUFFIX}")}
    return {
        domain: Found(len(rows), len({plain(row["tool name"]) for row in rows}))
        for domain, rows in read.items()
        if domain in PUBLISHED
    }


def queries(root: Path, kind: Kind, level: Level | None) -> dict[str, Found]:
    """The numbers of records and of possible cases in each domain's file.

    Raises DataError if a file does not have the expected form.
    """
    found = {}
    for domain in domains(root, kind, FILES[kind, level]):
        records, skipped = read_queries(root / kind / domain / FILES[kind, level], kind, level, domain)
        found[domain] = Found(len(records) + len(skipped), len(records))
    return found


def tables(dataset: TrajectBench) -> Iterator[Table]:
    """The counts in tables 8 and 9, next to the same counts for the folder.

    The tables do not depend on the configured kind, level and domain.
    """
    yield tools_table(dataset.root)
    yield from queries_tables(dataset.root)


def tools_table(root: Path) -> Table:
    """The counts in table 8, next to the same counts for the folder."""
    table = Table("domain", "published", "in the file", "of different names", title="tools (traject_bench, table 8)")
    here = tools(root)
    for domain, (published, *_) in PUBLISHED.items():
        table.add_row(domain, f"{published:,}", *_cells(here.get(domain)))
    _total(table, sum(row[0] for row in PUBLISHED.values()), here)
    table.caption = "the total counts a name once for each domain whose file has the name; –: no file"
    return table


def queries_tables(root: Path) -> list[Table]:
    """For each column of table 9, a table of its counts next to the same counts for the folder."""
    kinds: tuple[tuple[str, Kind, Level | None], ...] = (
        ("simple parallel", "parallel", "simple"),
        ("hard parallel", "parallel", "hard"),
        ("sequential", "sequential", None),
    )
    found = []
    for place, (name, kind, level) in enumerate(kinds, 1):
        table = Table("domain", "published", "in the file", "cases", title=f"{name} queries (table 9)")
        here = queries(root, kind, level)
        for domain, published in PUBLISHED.items():
            table.add_row(domain, f"{published[place]:,}", *_cells(here.get(domain)))
        _total(table, sum(row[place] for row in PUBLISHED.values()), here)
        found.append(table)
    return found


def _cells(found: Found | None) -> tuple[str, str]:
    return (f"{found.entries:,}", f"{found.usable:,}") if found else ("–", "–")


def _total(table: Table, published: int, here: Mapping[str, Found]) -> None:
    every = Found(sum(one.entries for one in here.values()), sum(one.usable for one in here.values()))
    table.add_row("total", f"{published:,}", *_cells(every))
