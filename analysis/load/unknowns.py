"""Cells whose success is not known: how tables count them, and the bounds between which success may lie.

Success is not known if a cell failed because of the infrastructure, a tool or the code, or if a judge's verdict could
not be read. Tables leave these cells out, or count them as failures; the context manager `counted` sets the choice for
all tables that are made inside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, Literal, cast, get_args

import pandas as pd

from analysis.page.table import Table
from analysis.stats.intervals import CLUSTER
from grid.core.errors import ConfigError

Unknown = Literal["left_out", "failure"]
LEFT_OUT: Unknown = "left_out"
FAILURE: Unknown = "failure"
MOST = 0.02
"""If more than this share of a row's cells is unknown, its success is shown with bounds, and there is a warning."""
COLUMN = "unknown"
"""The column of a frame that is true if a cell's success is not known, however unknown cells are counted."""
UNREAD = ("evaluator_failures", "judge_failures")
READ = ("status", "error_kind", *UNREAD)
"""The columns of `episodes` that `applied` needs, besides SETTING and `success`."""
SETTING = ("setting_id", "dataset_version", "code")
LABELS = ("model", "dataset", "robustness", "planner")
VERDICT, UNJUDGED = "verdict that could not be read", "not judged"
LEAST, LARGEST = "success_least", "success_most"
_NAMED = 6
"""Maximum number of settings that a note names."""
_counted: ContextVar[Unknown] = ContextVar("unknown", default=LEFT_OUT)


@contextmanager
def counted(how: str | None) -> Iterator[None]:
    """Inside this context, tables count unknown cells as `how` says: `left_out` or `failure`; None changes nothing.

    Raises:
        ConfigError: `how` is neither.
    """
    if how is not None and how not in get_args(Unknown):
        raise ConfigError("unknown", how, " or ".join(get_args(Unknown)))
    before = _counted.set(_counted.get() if how is None else cast(Unknown, how))
    try:
        yield
    finally:
        _counted.reset(before)


def how_counted() -> Unknown:
    """The current way in which tables count unknown cells."""
    return _counted.get()


def applied(cells: pd.DataFrame, setting: Sequence[str] = SETTING) -> pd.DataFrame:
    """The cells with COLUMN added; `success` is 0 for unknown cells if these currently count as failures.

    Success is not defined for a setting if none of its cells has a known success although at least one cell ended with
    status `ok` and without unreadable verdicts. No cell of such a setting counts as unknown.

    Args:
        cells: cells with `success` (a number, NaN if not known) and READ.
        setting: the columns that tell settings apart.
    """
    unread = cells[[*UNREAD]].fillna(0).sum(axis=1) > 0
    ended = (cells["status"] == "ok") & ~unread
    groups = pd.DataFrame({"known": cells["success"].notna(), "ended": ended}).groupby(
        [cells[name] for name in setting], sort=False, observed=True, dropna=False
    )
    has_success = groups["known"].transform("any") | ~groups["ended"].transform("any")
    unknown = cells["success"].isna() & has_success.astype(bool)
    success = cells["success"].mask(unknown, 0.0) if _counted.get() == FAILURE else cells["success"]
    return cells.assign(success=success, **{COLUMN: unknown})


def sql(cells: str, told: bool = False) -> str:
    """A DuckDB query for the rows of the query `cells`, with the changes that `applied` makes.

    `cells` is returned unchanged unless unknown cells count as failures or `told` asks for COLUMN.
    """
    failures = _counted.get() == FAILURE
    if not (failures or told):
        return cells
    unread = " + ".join(f"coalesce({name}, 0)" for name in UNREAD)
    has_success = f"count(success) OVER s > 0 OR count(*) FILTER (status = 'ok' AND {unread} = 0) OVER s = 0"
    own = f"SELECT *, {has_success} AS has_success FROM ({cells}) WINDOW s AS (PARTITION BY {', '.join(SETTING)})"  # noqa: S608  a text to be shown
    replaced = " REPLACE (coalesce(success, if(has_success, false, NULL)) AS success)" * failures
    return f"SELECT * EXCLUDE (has_success){replaced}, success IS NULL AND has_success AS {COLUMN}\n  FROM ({own})"  # noqa: S608  a text to be shown


def bounds(cells: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """For each group by the columns `by`: `cells`, COLUMN (the number of unknown cells), LEAST, LARGEST and `known`.

    LEAST is the success if all unknown cells failed, LARGEST the success if all of them succeeded, and `known` the
    success without these cells (NaN if no other cell has a known success). Like success, all three are means over cases
    of the means over trials. All three are NaN if success is not defined for a setting.
    """
    known = cells["success"].mask(cells[COLUMN])
    filled = cells.assign(
        **{name: known.mask(cells[COLUMN], value) for name, value in ((LEAST, 0.0), (LARGEST, 1.0))}, known=known
    )
    names = [LEAST, LARGEST, "known"]
    by_case = filled.groupby([*by, CLUSTER, "case_id"], sort=False, observed=True)[names].mean()
    means = by_case.groupby([*by], sort=False, observed=True).mean()
    counts = filled.groupby([*by], sort=False, observed=True).agg(cells=("cell_id", "size"), unknown=(COLUMN, "sum"))
    return counts.join(means)


def warnings(cells: pd.DataFrame) -> list[str]:
    """A line for each setting whose share of unknown cells exceeds MOST: their number and reasons, and success bounds.

    Args:
        cells: the cells of `load.episodes`.
    """
    lines = []
    for key, row in left_open(cells).iterrows():
        label = dict(zip(LABELS, map(str, cast(tuple[Any, ...], key)), strict=True))
        own = cells[(cells[[*LABELS]].astype(str) == pd.Series(label)).all(axis=1) & cells[COLUMN]]
        disturbed = f" ({label['robustness']})" if label["robustness"] != "none" else ""
        without = "none" if pd.isna(row["known"]) else f"{100 * row['known']:.1f}%"
        lines.append(
            f"warning: {label['model']}, {label['planner']} on {label['dataset']}{disturbed}: the success of "
            f"{int(row[COLUMN]):,} of {int(row['cells']):,} cells is not known ({_kinds(own)}). Success is {without} "
            f"without these cells, {100 * row[LEAST]:.1f}% if they all failed and {100 * row[LARGEST]:.1f}% if they "
            f"all succeeded; {_HOW[_counted.get()]}"
        )
    return lines


def left_open(cells: pd.DataFrame) -> pd.DataFrame:
    """The rows of `bounds`, grouped by LABELS, for the settings whose share of unknown cells exceeds MOST."""
    found = bounds(cells if cells[COLUMN].any() else cells[:0], LABELS)
    return found[found[COLUMN] > MOST * found["cells"]]


def under(tables: Sequence[Table], settings: pd.DataFrame) -> list[Table]:
    """The tables, with a note on bounds added to each table of success whose rows have no bounds.

    The choice depends only on a table's values: whether a column's name starts with `success`, whether there is a
    column LEAST, and which models, data sets, robustness settings and planners the values name.

    Args:
        tables: the tables of a report.
        settings: the result of `left_open`.
    """
    rows = settings.reset_index()
    return [replace(table, notes=[*table.notes, *_open(table, rows)]) for table in tables]


def _open(table: Table, rows: pd.DataFrame) -> list[str]:
    names = list(map(str, table.values.columns))
    if LEAST in names or not any(name.startswith("success") for name in names):
        return []
    for label in LABELS:
        if label in names:
            rows = rows[rows[label].astype(str).isin(table.values[label].dropna().astype(str))]
    told = [
        f"{row['planner']} on {row['dataset']}{'' if row['robustness'] == 'none' else ' (' + row['robustness'] + ')'} "
        f"[{100 * row[LEAST]:.1f}, {100 * row[LARGEST]:.1f}] ({int(row[COLUMN]):,} of {int(row['cells']):,})"
        for row in rows.to_dict("records")
    ]
    more = [f"and {len(told) - _NAMED:,} more"] if len(told) > _NAMED else []
    listed = "; ".join(told[:_NAMED] + more)
    return [f"{_BOUNDS}: {listed}"] if told else []


_BOUNDS = (
    "success in % [if all cells with unknown success failed, if they all succeeded] (number of these cells, out "
    "of all cells of the setting)"
)
_HOW: dict[Unknown, str] = {
    LEFT_OUT: "tables leave them out (unknown=failure counts them as failures)",
    FAILURE: "tables count them as failures (unknown=failure)",
}


def _kinds(cells: pd.DataFrame) -> str:
    """A text with the number of unknown cells for each reason, the most frequent reason first."""
    unread = cells[[*UNREAD]].fillna(0).sum(axis=1) > 0
    kinds = cells["error_kind"].astype(object).where(cells["status"] != "ok", UNJUDGED)
    kinds = kinds.mask((cells["status"] == "ok") & unread, VERDICT)
    counts = kinds.fillna("failure").astype(str).value_counts(sort=True)
    return ", ".join(f"{kind} {number:,}" for kind, number in counts.items())


# Notes on why a mean has no interval: there is one case, one cluster of cases, or no variation.


ONE_CASE = "there is only one case, and so only one cluster"
ONE_CLUSTER = "all cases are in one cluster, and cases in one cluster may succeed or fail together"
ALIKE = "no two clusters differ, or all cases with known values are in one cluster, or there are too few clusters"
_LOW = "low"
_UNBOUNDED_NAMED = 4
"""Maximum number of rows that a note names."""
_COUNTED = {"cases", "clusters"}


def noted(tables: Sequence[Table]) -> list[Table]:
    """The tables, each with a note for every reason why one of its means has no 95% interval.

    The notes depend only on a table's values: its columns `cases` and `clusters`, and each column `NAME_low` or `low`
    together with the column of the mean.
    """
    return [replace(table, notes=[*table.notes, *_notes(table)]) for table in tables]


def _notes(table: Table) -> list[str]:
    values = table.values
    if values.empty or not set(values) >= _COUNTED:
        return []
    pairs = list(_pairs(list(map(str, values.columns))))
    found: dict[str, list[str]] = {}
    for row in values.to_dict("records"):
        told = _reason(row, pairs)
        if told:
            found.setdefault(told, []).append(_name(row))
    return [f"no 95% interval{told}: {_listed(names)}" for told, names in found.items()]


def _pairs(columns: Sequence[str]) -> Iterator[tuple[str | None, str]]:
    """The columns of each mean and of its lower bound; the mean is None if the bound is just `low`, or has no mean."""
    for column in columns:
        if column == _LOW:
            yield None, column
        elif column.endswith(f"_{_LOW}"):
            stem = column.removesuffix(f"_{_LOW}")
            yield next((name for name in (f"{stem}_difference", stem, f"{stem}_mean") if name in columns), None), column


def _reason(row: Mapping[Any, Any], pairs: Sequence[tuple[str | None, str]]) -> str | None:
    """The means without bounds in a row, and the reason; None if all means have bounds or clusters are not counted.

    If there are several clusters, some means of a row may have bounds, so the means without bounds are named.
    """
    if pd.isna(row["clusters"]) or pd.isna(row["cases"]) or not row["cases"]:
        return None
    single = row["clusters"] <= 1
    open_ends = [mean for mean, low in pairs if pd.isna(row[low]) and (single if mean is None else pd.notna(row[mean]))]
    if not open_ends:
        return None
    if not single:
        names = ", ".join(str(mean).replace("_", " ") for mean in open_ends)
        return f" of {names}, because {ALIKE}"
    return f", because {ONE_CASE if row['cases'] <= 1 else ONE_CLUSTER}"


def _name(row: Mapping[Any, Any]) -> str:
    """The name of a row: its planner and robustness setting; if the row has no planner, the row's first text."""
    planner = row.get("planner")
    if planner is None:
        return next((str(value) for value in row.values() if isinstance(value, str)), "a row")
    robustness = row.get("robustness")
    return f"{planner} ({robustness})" if isinstance(robustness, str) else str(planner)


def _listed(names: Sequence[str]) -> str:
    once = list(dict.fromkeys(names))
    more = f" and {len(once) - _UNBOUNDED_NAMED:,} more" if len(once) > _UNBOUNDED_NAMED else ""
    return ", ".join(once[:_UNBOUNDED_NAMED]) + more
