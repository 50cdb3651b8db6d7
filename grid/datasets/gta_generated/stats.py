"""The set's statistics next to GTA's published statistics (open-compass/GTA, figs/statistics.jpg)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass

from rich.table import Table

from grid.datasets.gta_generated.dataset import GtaGenerated
from grid.datasets.gta_generated.draft import Record
from grid.text.words import stems
from grid.worlds.scenes.tools import TOOLS

GTA_QUERIES = 229
_STEPS = {2: 44, 3: 130, 4: 36, 5: 13, 6: 2, 7: 3, 8: 1}
_TOOLS_USED = {1: 17, 2: 147, 3: 50, 4: 15}
_CATEGORIES = {"P+L": 69, "P+O": 41, "L": 35, "P": 33, "P+C": 19, "P+O+C": 17, "P+O+L": 13, "P+L+C": 1, "O+L": 1}
_LETTERS = "POLC"
"""The initials of the categories: perception, operation, logic, creativity."""


@dataclass(frozen=True)
class Statistic:
    """One figure: GTA's value, our value and, unless `shares` is None, both values per query of their set."""

    name: str
    gta: float
    ours: float
    shares: tuple[float, float] | None = None


def statistics(dataset: GtaGenerated) -> list[Statistic]:
    """The published figures next to ours."""
    records = list(dataset.records.values())
    calls, images = sum(len(one.calls) for one in records), sum(len(one.world.images) for one in records)
    return [
        Statistic("queries", GTA_QUERIES, len(records)),
        Statistic("tools", 14, len(dataset.tools)),
        Statistic("tool calls", 728, calls, (728 / GTA_QUERIES, calls / len(records))),
        Statistic("images", 252, images, (252 / GTA_QUERIES, images / len(records))),
        _counted("queries with a text answer", 172, sum(one.answer is not None for one in records), records),
        _counted("queries with an image answer", 57, sum(one.answer is None for one in records), records),
        *_distribution("queries of {} steps", _STEPS, Counter(len(one.calls) for one in records), records),
        *_distribution("queries of {} tools", _TOOLS_USED, Counter(map(tools_used, records)), records),
        *_distribution("queries of {}", _CATEGORIES, Counter(map(categories, records)), records),
    ]


def tools_used(record: Record) -> int:
    """The number of different tools called in the record's reference."""
    return len({call.written.tool for call in record.calls})


def categories(record: Record) -> str:
    """The categories of the tools called in the record's reference, for example P+O+L."""
    found = {TOOLS[call.written.tool].category[0].upper() for call in record.calls}
    return "+".join(letter for letter in _LETTERS if letter in found)


def named_tools(record: Record) -> list[str]:
    """The tools for which the query contains all words of the tool's name."""
    words = set(stems(record.query))
    return [name for name in TOOLS if set(stems(name)) <= words]


def _counted(name: str, gta: int, ours: int, records: list[Record]) -> Statistic:
    return Statistic(name, gta, ours, (gta / GTA_QUERIES, ours / len(records)))


def _distribution(
    name: str, published: Mapping[int, int] | Mapping[str, int], ours: Counter[Hashable], records: list[Record]
) -> list[Statistic]:
    return [_counted(name.format(key), gta, ours[key], records) for key, gta in published.items()]


def tables(dataset: GtaGenerated) -> Iterator[Table]:
    """The statistics."""
    table = Table(title=f"a generated set with GTA's tool signatures, {dataset.version}")
    for column in ("statistic", "GTA", "here", "GTA, a query", "here, a query"):
        table.add_column(column, justify="left" if column == "statistic" else "right")
    for one in statistics(dataset):
        shares = (f"{share:.3f}" for share in one.shares) if one.shares else ("", "")
        table.add_row(one.name, f"{one.gta:g}", f"{one.ours:g}", *shares)
    yield table


def broken(dataset: GtaGenerated) -> Iterator[str]:
    """A line for each breach of a rule.

    The rules are that every reference resolves its case and doing nothing does not, that queries name no tools, and
    that no two cases have the same query.
    """
    for name, record in dataset.records.items():
        if not record.world.resolved(record.calls[-1].state) or any(call.outcome.failed for call in record.calls):
            yield f"{name}: the reference does not resolve the case"
        if record.world.resolved(record.world.start()):
            yield f"{name}: the case is resolved before the first call"
        yield from (f"{name}: the query names {tool}" for tool in named_tools(record))
    queries = [record.query for record in dataset.records.values()]
    yield from ["two cases have the same query"] * (len(queries) - len(set(queries)))
