"""Immutable tables: a change creates a new table, which shares every unchanged row.

Rows have labels, as in the benchmark's own tables (the index in pandas). A new row replaces a row with the same label.
Two tables whose rows have different labels are not equal.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias, cast

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from grid.core.types import Json, Parameter, ToolSpec, hashed_once

# How WorkBench's tools match texts and read dates.


_TIME = re.compile(r"\d{1,2}:")


def matches(pattern: str, cells: Sequence[Cell], about: str, ignore_case: bool = True) -> list[bool]:
    """For each cell, whether it contains a match of a regular expression.

    RE2 runs in linear time for any pattern that a model writes; Python's own engine, which the benchmark uses, may run
    forever. Patterns with features that RE2 lacks (lookaround, backreferences) are refused. As in the benchmark, a
    search in unknown cells is refused.
    """
    if any(cell is None for cell in cells):
        raise RefusedError(f"{about} is unknown for some of them and cannot be searched")
    try:
        found = pc.match_substring_regex(pa.array(cells, pa.string()), pattern=pattern, ignore_case=ignore_case)
    except pa.ArrowInvalid:
        raise RefusedError(f"{about} is not a regular expression that can be searched for: {pattern:.80}") from None
    return cast("list[bool]", found.to_pylist())


@lru_cache(maxsize=8192)
def moment(given: object) -> pd.Timestamp:
    """A date and time in any form that pandas can read; raises RefusedError for any other text.

    `now`, `today` and a time without a date refer to the benchmark's day, not the machine's. An empty text, `NaT` and
    `nan` give NaT.
    """
    text = str(given)
    if text in ("now", "today"):
        return pd.Timestamp(NOW)
    try:
        return pd.Timestamp(f"{NOW:%Y-%m-%d} {text}" if _TIME.match(text) else text)
    except (ValueError, OverflowError):
        raise RefusedError(f"no date: {text:.40}") from None


def not_before(one: object, other: object) -> bool:
    """Whether a date and time is equal to or later than another.

    False if one of them is NaT. Raises RefusedError as `moment` does, and if only one of the two has a time zone.
    """
    try:
        return bool(moment(one) >= moment(other))
    except TypeError:
        raise RefusedError("a time zone is given, and events have none") from None


# The parts of WorkBench's tools: the tables that they read and write, and the declaration of a tool.
#
# Names, parameters and behaviour are the benchmark's (Styles et al. 2024, §3); descriptions and errors are our own.
# If the benchmark's published code and documentation differ, the code is followed.


# Immutable tables: a change creates a new table, which shares every unchanged row.


MOST_ROWS = 5_000
MOST_COLUMNS = 40
"""The maximum size of a table. A call that would make a table larger is refused, so that states stay bounded."""
Cell: TypeAlias = "str | bool | datetime | None"
"""The value of a cell; None if unknown."""


class FullError(Exception):
    """Raised if a table would grow beyond its limits."""


class Row(NamedTuple):
    """A row's label and its cells, in the columns' order."""

    label: int
    cells: tuple[Cell, ...]


@hashed_once
@dataclass(frozen=True)
class Table:
    """Columns and rows.

    A table needs 8 bytes per row, plus the memory of the rows that it does not share with other tables. A table is
    hashed only once.
    """

    columns: tuple[str, ...]
    rows: tuple[Row, ...]

    @classmethod
    def of(cls, columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> Table:
        """A table of these rows, labelled from 0."""
        return cls(tuple(columns), tuple(Row(label, tuple(cells)) for label, cells in enumerate(rows)))

    def column(self, name: str) -> Iterator[Cell]:
        """A column's cells."""
        place = self.columns.index(name)
        return (row.cells[place] for row in self.rows)

    def records(self) -> list[dict[str, Cell]]:
        """All rows as objects."""
        return [dict(zip(self.columns, row.cells, strict=True)) for row in self.rows]

    def having(self, column: str, value: Cell) -> Table:
        """A table with those rows that have this value in the column."""
        return self._kept(column, lambda cell: cell == value)

    def without(self, column: str, value: Cell) -> Table:
        """A table with those rows that do not have this value in the column."""
        return self._kept(column, lambda cell: cell != value)

    def _kept(self, column: str, keep: Callable[[Cell], bool]) -> Table:
        place = self.columns.index(column)
        return Table(self.columns, tuple(row for row in self.rows if keep(row.cells[place])))

    def where(self, column: str, value: Cell, target: str, new: Cell) -> Table:
        """The table with `target` set to `new` in each row that has `value` in `column`.

        If `target` is missing, the column is added, with None in all other rows. Raises FullError if the table has no
        room for a new column.
        """
        wide = self if target in self.columns else self._widened(target)
        place, at = wide.columns.index(column), wide.columns.index(target)

        def changed(row: Row) -> Row:
            if row.cells[place] != value:
                return row
            return Row(row.label, (*row.cells[:at], new, *row.cells[at + 1 :]))

        return Table(wide.columns, tuple(map(changed, wide.rows)))

    def _widened(self, column: str) -> Table:
        if len(self.columns) >= MOST_COLUMNS:
            raise FullError(f"the table has {MOST_COLUMNS} columns and takes no more")
        return Table((*self.columns, column), tuple(Row(row.label, (*row.cells, None)) for row in self.rows))

    def put(self, label: int, values: Mapping[str, Cell]) -> Table:
        """The table with this row in place of all rows with its label, or at the end if no row has this label.

        Columns without a value get None. Raises FullError if the table has no room for a new row.
        """
        row = Row(label, tuple(values.get(name) for name in self.columns))
        if any(other.label == label for other in self.rows):
            return Table(self.columns, tuple(row if other.label == label else other for other in self.rows))
        return self.added(label, values)

    def added(self, label: int, values: Mapping[str, Cell]) -> Table:
        """The table with this row after all other rows, even if another row has the same label.

        Columns without a value get None. Raises FullError if the table has no room for the row.
        """
        if len(self.rows) >= MOST_ROWS:
            raise FullError(f"the table has {MOST_ROWS:,} rows and takes no more")
        return Table(self.columns, (*self.rows, Row(label, tuple(values.get(name) for name in self.columns))))

    def renumbered(self) -> Table:
        """The same rows, labelled from 0."""
        labelled = (row if row.label == label else Row(label, row.cells) for label, row in enumerate(self.rows))
        return Table(self.columns, tuple(labelled))


def shown(record: Mapping[str, Cell]) -> dict[str, Json]:
    """A record in the form in which tools return it."""
    return {name: str(cell) if isinstance(cell, datetime) else cell for name, cell in record.items()}


def alike(one: Table, other: Table, exact: frozenset[str] = frozenset()) -> bool:
    """Whether two tables are equal. Letter case matters only in the columns `exact`."""
    if one is other or one == other:
        return True
    if one.columns != other.columns or len(one.rows) != len(other.rows):
        return False
    kept = [name in exact for name in one.columns]
    return all(a is b or _alike(a, b, kept) for a, b in zip(one.rows, other.rows, strict=True))


def _alike(one: Row, other: Row, kept: Sequence[bool]) -> bool:
    pairs = zip(one.cells, other.cells, kept, strict=True)
    return one.label == other.label and all(a == b or (not exact and _low(a) == _low(b)) for a, b, exact in pairs)


def _low(cell: Cell) -> Cell:
    return cell.lower() if isinstance(cell, str) else cell


NOW = datetime(2023, 11, 30)
"""The benchmark's present time."""
MESSAGE = "message"
EXACT = frozenset({"status", "list_name", "board"})
"""The columns in which letter case matters."""


@hashed_once
@dataclass(frozen=True)
class Workplace:
    """The five tables that calls change, and two parts that calls only read: visits and employees' addresses."""

    events: Table
    emails: Table
    plots: Table
    tasks: Table
    customers: Table
    visits: Table
    directory: tuple[str, ...]

    def changing(self) -> tuple[Table, ...]:
        """The five tables that calls change."""
        return self.events, self.emails, self.plots, self.tasks, self.customers


class RefusedError(Exception):
    """Raised for a call that a tool refuses. Such a call changes nothing."""


Outcome: TypeAlias = "tuple[Workplace, Mapping[str, Json]]"
"""The tables after a call, and the fields that the call returned."""


@dataclass(frozen=True)
class Tool:
    """A tool as planners see it, and its function.

    `run` maps (tables, arguments) to an Outcome, or raises RefusedError or FullError. `writes`: it changes a table.
    """

    spec: ToolSpec
    run: Callable[..., Outcome]
    writes: bool


def text(name: str, description: str, *values: str, required: bool = False) -> Parameter:
    """The parameter for a text argument. If `values` are given, the description lists them."""
    told = f"{description} One of: {', '.join(values)}." if values else description
    return Parameter(name, "string", told, required, values)


def needed(name: str, description: str, *values: str) -> Parameter:
    """The parameter for a required argument; the tool refuses calls without it."""
    return text(name, description, *values, required=True)


def tool(
    name: str, description: str, *parameters: Parameter, returns: Sequence[str], writes: bool = False
) -> Callable[[Callable[..., Outcome]], Tool]:
    """Declare a function as a tool; the function accepts the tables and the given arguments."""
    spec = ToolSpec(name, description, parameters, tuple(returns), name.partition(".")[0])
    return lambda run: Tool(spec, run, writes)


def require(**given: str | None) -> None:
    """Refuse the call if one of these arguments is missing or empty."""
    missing = [name for name, value in given.items() if not value]
    if missing:
        raise RefusedError(f"missing: {', '.join(missing)}")


def one_of(name: str, value: str | None, allowed: Sequence[str]) -> None:
    """Refuse a value that is not allowed."""
    if value not in allowed:
        raise RefusedError(f"{name} must be one of {', '.join(allowed)}")


def exists(table: Table, column: str, value: str | None) -> None:
    """Refuse the call if no row has this identifier."""
    if not any(cell == value for cell in table.column(column)):
        raise RefusedError(f"nothing has the {column} {value:.40}")


def looked_up(table: Table, column: str, value: str | None, field: str | None) -> dict[str, Json]:
    """One field of the first row with this identifier; refused if an argument, the row or the field is missing."""
    require(**{column: value, "field": field})
    exists(table, column, value)
    record = shown(table.having(column, value).records()[0])
    if field not in record:
        raise RefusedError(f"there is no field {field:.40}; there are {', '.join(table.columns)}")
    return {str(field): record[str(field)]}


def next_number(table: Table, column: str) -> int:
    """The largest identifier (by text) plus one; refused if there is no row, or if the identifier is not a number."""
    cells: list[Any] = list(table.column(column))
    try:
        return int(max(cells)) + 1
    except ValueError:  # no row, or an identifier that was changed to a non-number
        raise RefusedError(f"no number follows the last {column}") from None


# WorkBench's website analytics: six tools, one of which makes plots.


ANALYTICS_FIELDS = (
    "date_of_visit",
    "visitor_id",
    "page_views",
    "session_duration_seconds",
    "traffic_source",
    "user_engaged",
)
SOURCES = ("direct", "referral", "search engine", "social media")
PLOTTED = (
    "total_visits", "session_duration_seconds", "user_engaged", "visits_direct", "visits_referral",
    "visits_search_engine", "visits_social_media",
)  # fmt: skip
PLOTS = ("bar", "line", "scatter", "histogram")
_Visit = Mapping[str, Cell]


def _range(needed_too: bool = False) -> tuple[Parameter, Parameter]:
    return (
        text("time_min", "The first day: YYYY-MM-DD.", required=needed_too),
        text("time_max", "The last day: YYYY-MM-DD.", required=needed_too),
    )


@tool(
    "analytics.get_visitor_information_by_id",
    "Tells all visits of one visitor.",
    needed("visitor_id", "The visitor's identifier, of 4 digits."),
    returns=("visits",),
)
def get_visitor(place: Workplace, visitor_id: str | None = None) -> Outcome:
    """The visits, in the table's order."""
    require(visitor_id=visitor_id)
    found = place.visits.having("visitor_id", visitor_id).records()
    if not found:
        raise RefusedError(f"nobody has the visitor_id {visitor_id:.40}")
    return place, {"visits": [shown(visit) for visit in found]}


@tool(
    "analytics.create_plot",
    "Plots a figure over the days of a range, and keeps the plot.",
    *_range(needed_too=True),
    needed("value_to_plot", "The figure.", *PLOTTED),
    needed("plot_type", "The kind of plot.", *PLOTS),
    returns=("file_path",),
    writes=True,
)
def create_plot(
    place: Workplace,
    time_min: str | None = None,
    time_max: str | None = None,
    value_to_plot: str | None = None,
    plot_type: str | None = None,
) -> Outcome:
    """The plot's path. As in the benchmark, no file is written; the path is added to a table."""
    require(time_min=time_min, time_max=time_max)
    one_of("value_to_plot", value_to_plot, PLOTTED)
    one_of("plot_type", plot_type, PLOTS)
    path = f"plots/{time_min}_{time_max}_{value_to_plot}_{plot_type}.png"
    return replace(place, plots=place.plots.added(len(place.plots.rows), {"file_path": path})), {"file_path": path}


@tool("analytics.total_visits_count", "Counts the visits of each day.", *_range(), returns=("total_visits",))
def total_visits(place: Workplace, time_min: str | None = None, time_max: str | None = None) -> Outcome:
    """The number of visits on each day; days without a visit are left out."""
    return place, {"total_visits": _daily(place, time_min, time_max, len)}


@tool("analytics.engaged_users_count", "Counts the engaged users of each day.", *_range(), returns=("engaged_users",))
def engaged_users(place: Workplace, time_min: str | None = None, time_max: str | None = None) -> Outcome:
    """The number of engaged users on each day; days without a visit are left out."""

    def engaged(visits: Sequence[_Visit]) -> int:
        return sum(visit["user_engaged"] is True for visit in visits)

    return place, {"engaged_users": _daily(place, time_min, time_max, engaged)}


@tool(
    "analytics.traffic_source_count",
    "Counts the visits of each day that came from one source, or all of them.",
    *_range(),
    text("traffic_source", "The source; all, where none is given.", *SOURCES),
    returns=("visits_from_source",),
)
def traffic_source(
    place: Workplace, time_min: str | None = None, time_max: str | None = None, traffic_source: str | None = None
) -> Outcome:
    """The number of visits from the source on each day; days without a visit are left out."""

    def coming(visits: Sequence[_Visit]) -> int:
        return sum(not traffic_source or visit["traffic_source"] == traffic_source for visit in visits)

    return place, {"visits_from_source": _daily(place, time_min, time_max, coming)}


@tool(
    "analytics.get_average_session_duration",
    "Tells how many seconds a visit took on average, for each day.",
    *_range(),
    returns=("average_session_duration",),
)
def average_duration(place: Workplace, time_min: str | None = None, time_max: str | None = None) -> Outcome:
    """The average duration of each day's sessions, in seconds; days without a visit are left out."""

    def mean(visits: Sequence[_Visit]) -> float:
        return sum(float(str(visit["session_duration_seconds"])) for visit in visits) / len(visits)

    return place, {"average_session_duration": _daily(place, time_min, time_max, mean)}


def _daily(
    place: Workplace, first: str | None, last: str | None, figure: Callable[[Sequence[_Visit]], float]
) -> dict[str, Json]:
    """For each day, a figure computed from the day's visits. Days are compared as texts, as in the published code."""
    days: dict[str, list[_Visit]] = {}
    for visit in place.visits.records():
        day = str(visit["date_of_visit"])
        if (not first or day >= first) and (not last or day <= last):
            days.setdefault(day, []).append(visit)
    return {day: figure(days[day]) for day in sorted(days)}


ANALYTICS = (get_visitor, create_plot, total_visits, engaged_users, traffic_source, average_duration)
