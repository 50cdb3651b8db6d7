"""Win rates against a reference planner (tooltree §4.3, table 2), of what `launch/win_rate.py` has compared."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from analysis import load
from analysis.load import SETTING, queries
from analysis.page.table import Column, Table, bounds, number
from analysis.stats import intervals
from analysis.stats.intervals import CLUSTER, n_clusters, share
from analysis.tables.search_cells import name_of
from grid import store

REFERENCE = 0.5
"""The win rate of the reference planner, by definition."""
_COMPARED = ["cell_id", "against_cell_id", "against", "evaluator", "rule", "win", "decided_by", "created_at"]
_PLACE = ["model", "dataset", "evaluator", "against", "rule"]
_LABELS = ["robustness", "planner"]


def sheets(root: Path) -> list[Table]:
    """A table for each model, dataset, evaluator and reference planner; none where nothing was compared."""
    compared = store.read(root, "comparisons", _COMPARED).to_pandas()
    if compared.empty:
        return []
    episodes = load.episodes(root)[["cell_id", *SETTING, CLUSTER, "case_id"]]
    compared = compared[compared["against_cell_id"].isin(episodes["cell_id"])]  # cells that ran again are others
    latest = compared.sort_values("created_at").drop_duplicates(
        ["cell_id", "against_cell_id", "evaluator"], keep="last"
    )
    joined = episodes.merge(latest, on="cell_id")
    rates = win_rates(joined)
    return [_sheet(root, own) for _, own in rates.groupby(_PLACE, sort=False, observed=True)]


def wins(root: Path, reference: str) -> pd.Series[float]:
    """By cell, what was said last of it and the reference planner's; of that planner's own cells 0.5."""
    compared: pd.DataFrame = store.read(root, "comparisons", _COMPARED).to_pandas()
    last = compared[compared["against"].map(name_of) == reference].sort_values("created_at")
    own = last.drop_duplicates("cell_id", keep="last").set_index("cell_id")["win"]
    found: pd.Series[float] = pd.concat([own, pd.Series(REFERENCE, index=last["against_cell_id"].unique())])
    return found.astype("float64")


def win_rates(compared: pd.DataFrame) -> pd.DataFrame:
    """One row a planner: `win_rate` with `low` and `high` (95%, over clusters), a case its mean over trials.

    Args:
        compared: a row a pair: the planner's setting, `case_id` and cluster, `against`, `evaluator`, `rule`, and `win`
            (1, 0.5 or 0; NaN where the evaluator said neither, which counts as `unreadable` and nothing else).

    The reference has 0.5 by definition, and no interval.
    """
    rows = []
    for key, group in compared.groupby([*_PLACE, *_LABELS], sort=False, observed=True):
        named = dict(zip([*_PLACE, *_LABELS], map(str, key), strict=True))
        by_case = group.groupby([CLUSTER, "case_id"], observed=True)["win"].mean().dropna()
        mean, low, high = share(by_case)
        rows.append(
            named
            | {"cases": len(by_case), "clusters": n_clusters(by_case), "pairs": len(group)}
            | {"unreadable": int(group["win"].isna().sum()), "asked": int((group["decided_by"] == "judge").sum())}
            | {"win_rate": mean, "low": low, "high": high}
        )
    return pd.DataFrame(rows)


def _sheet(root: Path, rates: pd.DataFrame) -> Table:
    first = rates.iloc[0]
    lines: list[dict[Any, Any]] = []
    for robustness, group in rates.groupby("robustness", sort=False, observed=True):
        lines += [{"robustness": robustness, "planner": first["against"], "by": REFERENCE}, *group.to_dict("records")]
    counts = ("cases", "clusters", "asked", "unreadable")
    return Table(
        name=f"win rate {first['model']} {first['dataset']} {first['evaluator']} {first['against']} {first['rule']}",
        title=f"{first['model']} on {first['dataset']}: win rate against {first['against']}, by {first['evaluator']}",
        by=_LABELS,
        columns=[
            *(Column(name, partial(_counted, name)) for name in counts),
            Column("win rate", lambda row: number(row.get("by", row.get("win_rate")), scale=100)),
            Column("95% interval", lambda row: "by definition" if "by" in row else bounds(row["low"], row["high"])),
        ],
        values=rates,
        query=queries.win_rates(root, str(first["evaluator"]), str(first["against"])),
        about=f"of pairs on the same case: wins 1, ties 0.5; rule: {first['rule']}; each pair is shown in both orders, "
        "which are averaged; asked: pairs that the evaluator decided, others are equal word for word or one alone is "
        f"solved; unreadable: the evaluator named neither; 95% interval: {intervals.SHARES}",
        lines=lines,
    )


def _counted(name: str, row: Mapping[Any, Any]) -> str:
    return "" if "by" in row else f"{row[name]:,}"
