"""Means of groups of cells with their intervals, and the columns that show them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pandas as pd

from analysis.page import table as write
from analysis.page.table import MISSING, Column
from analysis.stats.intervals import CLUSTER, Interval, amount, interval, n_clusters, share


@dataclass(frozen=True)
class Measure:
    """A column of cells and how its mean over cases is shown.

    A `share` lies between 0 and 1, a `rare` one is of events that few cases may have (`intervals.share`), a `change`
    is a difference of shares, an `amount` is not negative. What is shown is `scale` times the mean. `of_some`: it is
    of some kind of cases alone, and a caption says of which.
    """

    column: str
    header: str
    kind: Literal["share", "rare", "change", "amount"] = "share"
    scale: float = 100.0
    form: str = ".1f"
    of_some: bool = False

    def of(self, cases: pd.Series[float]) -> Interval:
        """The mean of cases' values with its 95% interval."""
        if self.kind in ("share", "rare"):
            return share(cases, rare=self.kind == "rare")
        if self.kind == "amount":
            return amount(cases)
        found = interval(cases, reach=1.0)
        if pd.isna(found.low):
            return found
        return Interval(found.mean, max(found.low, -1.0), min(found.high, 1.0))

    def text(self, row: Any) -> str:
        """The mean with its interval: `71.3 [65.0, 77.1]`."""
        return write.bounded(row, self.column, self.form, self.scale, missing=MISSING)

    def brief(self, row: Any) -> str:
        """The mean alone."""
        return write.number(row[self.column], self.form, self.scale, MISSING)

    def shown(self, bounded: bool = False, printed: bool = True) -> Column:
        """Its column of a table; a terminal has its intervals only where it is `bounded`."""
        return Column(self.header, self.text, None if bounded else self.brief, printed)


def columns(
    table: pd.DataFrame,
    measures: Sequence[Measure],
    counts: Sequence[str] = ("cases", "clusters"),
    bounded: Sequence[str] = (),
) -> list[Column]:
    """A table's counts, and those of its measures of which any row knows anything.

    `bounded` are the columns whose intervals a terminal shows too.
    """
    figures = [measure.shown(measure.column in bounded) for measure in known(table, measures)]
    return [*(write.count(name) for name in counts), *figures]


def measured(cells: pd.DataFrame, by: Sequence[str], measures: Sequence[Measure]) -> pd.DataFrame:
    """One row a group: `cases`, `clusters`, `cells`, and of each measure mean, `_low`, `_high` and `_cases`.

    A case's value is its mean over trials; `_cases` are those of which the measure is known.
    """
    columns = list(dict.fromkeys(measure.column for measure in measures))
    rows: list[dict[str, Any]] = []
    for key, own in cells.groupby(list(by), sort=False, observed=True):
        by_case = own.groupby([CLUSTER, "case_id"], observed=True)[columns].mean().astype("float64")
        row: dict[str, Any] = dict(zip(by, key if isinstance(key, tuple) else (key,), strict=True))
        row |= {"cases": len(by_case), "clusters": n_clusters(by_case), "cells": len(own)}
        for measure in measures:
            values = by_case[measure.column].dropna()
            mean, low, high = measure.of(values)
            name = measure.column
            row |= {name: mean, f"{name}_low": low, f"{name}_high": high, f"{name}_cases": len(values)}
        rows.append(row)
    return pd.DataFrame(rows)


def known(table: pd.DataFrame, measures: Sequence[Measure]) -> list[Measure]:
    """Those of which any row knows anything."""
    return [measure for measure in measures if len(table) and table[measure.column].notna().any()]


def partly(table: pd.DataFrame, measures: Sequence[Measure]) -> list[str]:
    """Notes on measures whose means are over fewer cases than their rows have."""
    found = []
    for measure in measures:
        if measure.of_some:
            continue
        own = table[(table[f"{measure.column}_cases"] > 0) & (table[f"{measure.column}_cases"] < table["cases"])]
        if len(own):
            part = own[f"{measure.column}_cases"] / own["cases"]
            least, most = (f"{100 * share:.0f}" for share in (part.min(), part.max()))
            known_of = least if least == most else f"{least} to {most}"
            found.append(f"{measure.header}: in some rows known of {known_of}% of the cases alone")
    return found
