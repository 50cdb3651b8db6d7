"""Tables that never change: another one is made, which shares every row that is the same.

Rows have labels, as the benchmark's own tables do (pandas' index): a label tells which row a new one takes the place
of, and two tables whose rows have other labels are not equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, TypeAlias

from grid.core.types import Json, hashed_once

MOST_ROWS = 5_000
MOST_COLUMNS = 40
"""Of a table: a call that would make it larger is refused, so that no state grows without bound."""
Cell: TypeAlias = "str | bool | datetime | None"
"""None: nothing is known."""


class FullError(Exception):
    """A table that may not grow any more."""


class Row(NamedTuple):
    """A row's label and its cells, in the columns' order."""

    label: int
    cells: tuple[Cell, ...]


@hashed_once
@dataclass(frozen=True)
class Table:
    """Columns and rows. It takes 8 bytes a row besides those rows that it does not share, and its hash once."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]

    @classmethod
    def of(cls, columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> Table:
        """Rows as they stand, labelled from 0."""
        return cls(tuple(columns), tuple(Row(label, tuple(cells)) for label, cells in enumerate(rows)))

    def column(self, name: str) -> Iterator[Cell]:
        """A column's cells."""
        place = self.columns.index(name)
        return (row.cells[place] for row in self.rows)

    def records(self) -> list[dict[str, Cell]]:
        """All rows as objects."""
        return [dict(zip(self.columns, row.cells, strict=True)) for row in self.rows]

    def having(self, column: str, value: Cell) -> Table:
        """The rows with this value."""
        return self._kept(column, lambda cell: cell == value)

    def without(self, column: str, value: Cell) -> Table:
        """The rows without this value."""
        return self._kept(column, lambda cell: cell != value)

    def _kept(self, column: str, keep: Callable[[Cell], bool]) -> Table:
        place = self.columns.index(column)
        return Table(self.columns, tuple(row for row in self.rows if keep(row.cells[place])))

    def where(self, column: str, value: Cell, target: str, new: Cell) -> Table:
        """With `new` in `target` of all rows that have the value; a column that is not there is added, empty else."""
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
        """With a row of this label, in the place of the one that has it, else behind all others."""
        row = Row(label, tuple(values.get(name) for name in self.columns))
        if any(other.label == label for other in self.rows):
            return Table(self.columns, tuple(row if other.label == label else other for other in self.rows))
        return self.added(label, values)

    def added(self, label: int, values: Mapping[str, Cell]) -> Table:
        """With a row of this label behind all others, whether or not another has it."""
        if len(self.rows) >= MOST_ROWS:
            raise FullError(f"the table has {MOST_ROWS:,} rows and takes no more")
        return Table(self.columns, (*self.rows, Row(label, tuple(values.get(name) for name in self.columns))))

    def renumbered(self) -> Table:
        """The same rows, labelled from 0."""
        labelled = (row if row.label == label else Row(label, row.cells) for label, row in enumerate(self.rows))
        return Table(self.columns, tuple(labelled))


def shown(record: Mapping[str, Cell]) -> dict[str, Json]:
    """A record as a tool returns it."""
    return {name: str(cell) if isinstance(cell, datetime) else cell for name, cell in record.items()}


def alike(one: Table, other: Table, exact: frozenset[str] = frozenset()) -> bool:
    """Whether two tables are equal but for the case of letters, which counts in the columns `exact` alone."""
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
