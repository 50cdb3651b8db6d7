"""Why a mean has no interval, said under its table: one case, one cluster of cases, or nothing that varies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from analysis.table import Table

ONE_CASE = "there is one case alone, and so one cluster"
ONE_CLUSTER = "all cases are of one cluster, which may succeed and fail together"
ALIKE = "no two clusters differ, or all cases of which it is known are of one cluster, or there are too few clusters"
_LOW = "low"
_NAMED = 4
"""Rows that a note names."""
_COUNTED = {"cases", "clusters"}


def noted(sheets: Sequence[Table]) -> list[Table]:
    """The tables, each with a note for every reason for which a mean of it has no 95% interval.

    A table is looked at by its values: columns `NAME_low` or `low` beside their means, `cases` and `clusters`.
    """
    return [replace(sheet, notes=[*sheet.notes, *_notes(sheet)]) for sheet in sheets]


def _notes(sheet: Table) -> list[str]:
    values = sheet.values
    if values.empty or not set(values) >= _COUNTED:
        return []
    pairs = list(_pairs(list(map(str, values.columns))))
    found: dict[str, list[str]] = {}
    for row in values.to_dict("records"):
        reason = _reason(row, pairs)
        if reason:
            found.setdefault(reason, []).append(_name(row))
    return [f"no 95% interval where {reason}: {_listed(names)}" for reason, names in found.items()]


def _pairs(columns: Sequence[str]) -> Iterator[tuple[str | None, str]]:
    """Each lower bound's column with that of its mean (None: it has no name of its own)."""
    for column in columns:
        if column == _LOW:
            yield None, column
        elif column.endswith(f"_{_LOW}"):
            stem = column.removesuffix(f"_{_LOW}")
            yield next((name for name in (f"{stem}_difference", stem, f"{stem}_mean") if name in columns), None), column


def _reason(row: Mapping[Any, Any], pairs: Sequence[tuple[str | None, str]]) -> str | None:
    """Why a row has means without bounds; None where it has all, or nobody knows over how many clusters they are."""
    if pd.isna(row["clusters"]) or pd.isna(row["cases"]) or not row["cases"]:
        return None
    single = row["clusters"] <= 1
    open_ends = [mean for mean, low in pairs if pd.isna(row[low]) and (single if mean is None else pd.notna(row[mean]))]
    if not open_ends:
        return None
    if not single:
        return ALIKE
    return ONE_CASE if row["cases"] <= 1 else ONE_CLUSTER


def _name(row: Mapping[Any, Any]) -> str:
    """A row by its planner and what it was disturbed with; without one by its first text."""
    planner = row.get("planner")
    if planner is None:
        return next((str(value) for value in row.values() if isinstance(value, str)), "a row")
    robustness = row.get("robustness")
    return f"{planner} ({robustness})" if isinstance(robustness, str) else str(planner)


def _listed(names: Sequence[str]) -> str:
    once = list(dict.fromkeys(names))
    more = f" and {len(once) - _NAMED:,} more" if len(once) > _NAMED else ""
    return ", ".join(once[:_NAMED]) + more
