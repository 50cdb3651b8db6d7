"""A table: the values of its rows, and its columns, each with the format of its values and a clause of the caption.

Every output format of a table is made from a `Table`: `render` writes terminal text, Markdown, CSV and LaTeX, and
`html` writes a page. This module alone decides the formats of numbers, intervals and p values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import itemgetter
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from grid.store import sql

Row: TypeAlias = Any
"""The row that columns read: a mapping of names to values, or a sequence of texts."""
NONE = "none"
"""The text for a value that is not defined or cannot be known."""
MISSING = "–"
"""The text for a value that does not exist."""
FIRST_SECTION = "Planning horizon"
"""The section of a page that comes before all others."""
_SEVERAL = "These are {} comparisons. If nothing differs, one interval in twenty excludes 0 by chance alone."
_PLACES = ("model", "dataset")
POINTS = "+.1f"
SIGNIFICANT = "three significant digits"
"""The format of amounts of any size."""


@dataclass(frozen=True)
class Column:
    """One column of a table.

    Attributes:
        header: the text above the column.
        text: the function that returns the text for a row.
        brief: the function that returns the text for a row in a terminal, which has less room; None: as `text`.
        printed: whether a terminal shows the column if not all columns are requested.
        said: the column's clause in the caption; a clause that several columns share appears once.
        briefly: the clause in a terminal's caption; None: as `said`.
    """

    header: str
    text: Callable[[Row], str]
    brief: Callable[[Row], str] | None = None
    printed: bool = True
    said: str = ""
    briefly: str | None = None


@dataclass(frozen=True, repr=False)
class Table:
    """A table as it is shown, and the values from which it is made.

    Attributes:
        name: the name that tells the table from other tables of a report.
        title: the text above the table.
        by: the first columns, whose texts name a row; a plain name is both the header and the key of the row's value.
        columns: the other columns, which have figures and are aligned to the right.
        values: the unrounded values, for CSV.
        query: the SQL, or the line of Python, that gives the values.
        about: the beginning of the caption, before the columns' clauses.
        briefly: the beginning of a terminal's caption; None: as `about`.
        lines: the rows that columns read; None: a mapping for each row of `values`.
        breaks: the indices of the rows before which a line is drawn, or keys of rows; with keys, a line is drawn before
            each row in which the value of one of the keys differs from the row before it.
        notes: facts that readers must know about the table, one line each.
        reading: the table's results in words, one line per statement.
        section: the heading of the page's section in which the table is shown.
        wraps: whether the table's texts are long, so that they take several lines.
        printed: maximum number of rows that a terminal shows; None: all.
        data: the labels of the table's data sets, if its values have no column `dataset`.
        before: the start of the caption in a report, for example the notice that no language model answered.
    """

    name: str
    title: str
    by: Sequence[Column | str]
    columns: Sequence[Column]
    values: pd.DataFrame
    query: str
    about: str = ""
    briefly: str | None = None
    lines: Sequence[Row] | None = None
    breaks: Sequence[str] | frozenset[int] = ()
    notes: Sequence[str] = field(default_factory=list)
    reading: str = ""
    section: str = ""
    wraps: bool = False
    printed: int | None = None
    data: frozenset[str] = frozenset()
    before: str = ""

    def __post_init__(self) -> None:
        """Make the query name the columns that it reads, instead of `SELECT *`."""
        object.__setattr__(self, "query", sql.joined(self.query))

    def __repr__(self) -> str:
        """The table's text as a terminal shows it, with all columns."""
        from analysis.page import render

        return render.text(self)

    def _repr_html_(self) -> str:
        """The table's HTML for a notebook."""
        from analysis.page import html

        return html.element(self)

    @cached_property
    def named(self) -> list[Column]:
        """The first columns, whose texts name a row."""
        return [label(one) if isinstance(one, str) else one for one in self.by]

    @property
    def labels(self) -> list[str]:
        """The headers of the first columns."""
        return [column.header for column in self.named]

    @property
    def figures(self) -> list[str]:
        """The headers of the other columns."""
        return [column.header for column in self.columns]

    @cached_property
    def read(self) -> Sequence[Row]:
        """The rows that columns read."""
        return self.values.to_dict("records") if self.lines is None else self.lines

    @cached_property
    def rows(self) -> list[list[str]]:
        """The texts of each row, one text per column."""
        return [[column.text(row) for column in (*self.named, *self.columns)] for row in self.read]

    def brief(self) -> tuple[list[Column], list[list[str]]]:
        """The figures that a terminal shows, and the texts of its rows."""
        shown = [column for column in self.columns if column.printed]
        return shown, [
            [(column.brief or column.text)(row) for column in (*self.named, *shown)]
            for row in self.read[: self.printed]
        ]

    @cached_property
    def sections(self) -> frozenset[int]:
        """The indices of the rows before which a line is drawn."""
        if isinstance(self.breaks, frozenset):
            return self.breaks
        keys = [[str(row[name]) for name in self.breaks] for row in self.read]
        return frozenset(place for place in range(1, len(keys)) if keys[place] != keys[place - 1])

    @property
    def caption(self) -> str:
        """The text below the table: first about the table as a whole, then about its columns."""
        return self.before + "; ".join(_once([self.about, *(column.said for column in (*self.named, *self.columns))]))

    @property
    def short(self) -> str:
        """The text below the table in a terminal, about the columns that a terminal shows."""
        shown = [*self.named, *(column for column in self.columns if column.printed)]
        said = (column.said if column.briefly is None else column.briefly for column in shown)
        return self.before + "; ".join(_once([self.about if self.briefly is None else self.briefly, *said]))


def together(tables: Sequence[Table], name: str) -> Table:
    """Join tables of one kind into one table, one below another; `name` is the name of the result.

    The result's first columns are the model and the data set of each row, if all tables have them. `values` has all
    rows.

    Raises:
        ValueError: the tables' rows are named by different columns.
    """
    if len({tuple(table.labels) for table in tables}) > 1:
        raise ValueError("tables of different kinds")
    places = [place for place in _PLACES if all(place in table.values for table in tables)]
    places = [place for place in places if place not in tables[0].labels]
    headers = list(dict.fromkeys(header for table in tables for header in table.figures))
    lines: list[list[str]] = []
    breaks: list[int] = []
    for table in tables:
        breaks.append(len(lines))
        shown = [", ".join(map(named, table.values[place].unique())) for place in places]
        for row in table.rows:
            texts_of = dict(zip(table.figures, row[len(table.labels) :], strict=True))
            lines.append([*shown, *row[: len(table.labels)], *(texts_of.get(header, MISSING) for header in headers)])
    by = [*places, *tables[0].labels]
    return Table(
        name=name,
        title="; ".join(table.title for table in tables),
        by=texts(by),
        columns=texts(headers, len(by)),
        values=pd.concat([table.values for table in tables], ignore_index=True),
        query=";\n".join(dict.fromkeys(table.query for table in tables)),
        about="; ".join(_once(clause for table in tables for clause in table.caption.split("; "))),
        lines=lines,
        breaks=frozenset(breaks[1:]),
        notes=_once(note for table in tables for note in table.notes),
    )


def label(key: str, header: str = "") -> Column:
    """A column of texts that name rows; whole numbers have no decimal point, and a missing value is shown as a dash."""
    return Column(header or key, lambda row: named(row[key]))


def texts(headers: Iterable[str], first: int = 0) -> list[Column]:
    """Columns for rows that are sequences of texts; the first of these columns shows the text at index `first`."""
    return [Column(header, itemgetter(place)) for place, header in enumerate(headers, first)]


def count(key: str, header: str = "", said: str = "", printed: bool = True) -> Column:
    """A column of whole numbers."""
    return Column(header or key, lambda row: number(row[key], ",.0f", missing=MISSING), printed=printed, said=said)


def mean(
    key: str, header: str, form: str = ".1f", scale: float = 100.0, said: str = "", printed: bool = True
) -> Column:
    """A column of values without intervals; by default the values are shares, shown in %."""
    return Column(header, lambda row: number(row[key], form, scale), printed=printed, said=said)


def named(value: Any) -> str:
    """A label as text."""
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return MISSING
    return f"{value:g}" if isinstance(value, float) else str(value)


def number(value: Any, form: str = ".1f", scale: float = 1.0, missing: str = NONE) -> str:
    """A number times `scale` in a format; `+inf` or `-inf` for an infinite number, `missing` for None and NaN."""
    if value is None or pd.isna(value):
        return missing
    if not np.isfinite(value):
        return f"{value:+}"
    if form == SIGNIFICANT:
        return f"{float(f'{scale * value:.3g}'):,.6g}"
    return f"{scale * value:{form}}"


def bounds(low: Any, high: Any, form: str = ".1f", scale: float = 100.0, missing: str = NONE) -> str:
    """An interval by itself: `[65.0, 77.1]`."""
    return missing if pd.isna(low) else f"[{number(low, form, scale)}, {number(high, form, scale)}]"


def bounded(
    row: Row, key: str, form: str = ".1f", scale: float = 100.0, marks: str = "", missing: str = NONE, of: str = ""
) -> str:
    """A value with its interval, if it has one: `71.3 [65.0, 77.1]`.

    Args:
        row: the row, which has the value as `key`, and the interval as `key_low` and `key_high`.
        key: the key of the value.
        form: the format of numbers.
        scale: the factor for numbers.
        marks: a text that follows the value.
        missing: the text if the value is not known.
        of: the key before `_low` and `_high`, if it is not `key`.
    """
    if row[key] is None or pd.isna(row[key]):
        return missing
    low, high = row[f"{of or key}_low"], row[f"{of or key}_high"]
    return f"{number(row[key], form, scale)}{marks}" + ("" if pd.isna(low) else f" {bounds(low, high, form, scale)}")


def marks(low: Any, high: Any, holm: Any = np.nan, at: float = 0.0, level: float = 0.05) -> str:
    """`*` if an interval excludes the value `at`, `†` if the p value with Holm's correction is below the level."""
    return "*" * bool(low > at or high < at) + "†" * bool(holm < level)


def probability(value: Any) -> str:
    """The text of a p value: three decimals, or `<0.001`."""
    return NONE if pd.isna(value) else "<0.001" if value < 0.001 else f"{value:.3f}"


def changed(
    row: Mapping[Any, Any], name: str, label: str, verdicts: tuple[str, str], otherwise: str = "no change is shown"
) -> str:
    """A difference of shares in points (columns `name`, `_low`, `_high`), and the verdict that its interval supports.

    The first verdict is for an interval below 0, the second for an interval above 0, and `otherwise` for an interval
    that includes 0.
    """
    value, low, high = (100 * row[f"{name}{end}"] for end in ("", "_low", "_high"))
    if pd.isna(value):
        return f"{label}: not known, because no case has all the results that are needed"
    if pd.isna(low):
        return f"{label} = {value:+.1f} points, without an interval, because all cases are in one cluster"
    told = shown_by(low, high, verdicts) or f"{otherwise}, but up to {max(-low, high):.1f} points cannot be ruled out"
    return f"{label} = {value:+.1f} points [{low:+.1f}, {high:+.1f}]: {told}"


def shown_by(low: float, high: float, verdicts: tuple[str, str]) -> str | None:
    """The first verdict if an interval is below 0, the second if it is above 0; None if it includes 0."""
    return verdicts[1] if low > 0 else verdicts[0] if high < 0 else None


def joined(parts: Sequence[str], comparisons: int | None = None) -> str:
    """Each part as a line that ends with a full stop; with several comparisons, a last line gives their number."""
    several = len(parts) if comparisons is None else comparisons
    return "\n".join([*(f"{part}." for part in parts), *[_SEVERAL.format(several)] * (several > 1)])


def _once(said: Iterable[str]) -> list[str]:
    """The clauses that are not empty, without repetitions."""
    return list(dict.fromkeys(filter(None, said)))
