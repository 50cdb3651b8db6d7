"""The table of planners at equal completions and scoring passes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from analysis import intervals, significance
from analysis.render import Sheet

LABELS = ["robustness", "asked", "planner", "of"]
SUCCESS = "success, %"
_COUNTED = "completions and scoring passes a case, the acting model's and the judge's"
_AT = (
    "at a limit counts what the planner had found best by then, which is what it would have returned; a case without "
    "anything by then counts as not resolved"
)
_QUERY = """from pathlib import Path; from analysis.search import cells, passes; root = Path({root!r})
[passes.curve(group, passes.improvements(root)) for _, group in cells.places(cells.read(root))]"""


def sheets(root: Path, name: str, title: str, terms: str, asked: str, table: pd.DataFrame) -> list[Sheet]:
    """None where no limit is within the budget. `title`, `terms` and `asked` are told as of other tables."""
    if table.empty:
        return []
    limits = sorted(table["limit"].unique())
    rows, breaks, last = list[list[str]](), set[int](), None
    ordered = table.assign(less=table["less"].astype(object).where(table["less"].notna(), ""))
    ordered = ordered.sort_values(["robustness", "asked"], key=_undisturbed_first, kind="stable")
    for key, own in ordered.groupby(["robustness", "asked", "planner", "less"], sort=False, observed=True):
        if last is not None and key[:2] != last:
            breaks.add(len(rows))
        last = key[:2]
        at = {row["limit"]: row for row in own.to_dict("records")}
        shown = [(_difference if key[3] else _share)(at[limit]) for limit in limits]
        of = f"less {key[3]}" if key[3] else SUCCESS
        rows.append([str(key[0]), "yes" if key[1] else "no", str(key[2]), of, *shown])
    differences = (
        "; less: points of success above another planner on the same terms, paired over cases, "
        f"{intervals.TOLD}; *: the interval excludes 0, †: also by Holm's correction over all of them"
    )
    return [
        Sheet(
            name=name,
            title=f"{title}: planners at equal model calls",
            caption=f"{terms}; columns: limits of {_COUNTED}; {_AT}; in brackets 95% intervals, {intervals.SHARES}"
            f"{differences if (table['less'].notna()).any() else ''}; {asked}",
            labels=LABELS,
            figures=[str(limit) for limit in limits],
            rows=rows,
            values=table,
            query=_QUERY.format(root=str(root)),
            breaks=frozenset(breaks),
        )
    ]


def _undisturbed_first(column: pd.Series[Any]) -> pd.Series[Any]:
    """The order in which planners' rows come, kept: differences stand behind all of them."""
    return column.map({value: place for place, value in enumerate(dict.fromkeys(column))})


def _share(row: Mapping[Any, Any]) -> str:
    return _bounded(row, ".1f", "")


def _difference(row: Mapping[Any, Any]) -> str:
    star = "*" if row["success_low"] > 0 or row["success_high"] < 0 else ""
    return _bounded(row, "+.1f", star + "†" * bool(row["holm"] < significance.LEVEL))


def _bounded(row: Mapping[Any, Any], form: str, mark: str) -> str:
    mean, low, high = (100 * row[f"success{part}"] for part in ("", "_low", "_high"))
    if pd.isna(mean):
        return "none"
    return f"{mean:{form}}{mark}" + ("" if pd.isna(low) else f" [{low:{form}}, {high:{form}}]")
