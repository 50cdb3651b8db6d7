"""What broken tools, unsolvable cases and costs do to each planner (agent_planning_benchmark §4.2.3, on any data)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from analysis import load, queries
from analysis.intervals import ALIKE, CLUSTER, TOLD, count, interval, ratio
from analysis.load import SETTING
from analysis.table import MISSING, POINTS, Column, Table, bounds, marks, number
from analysis.table import count as counted
from grid.core.types import BEHAVIOURS

_OWN = ["behaviour", "refused", "plan_cost", "least_cost"]
_LABELS = ["robustness", "planner"]
_CAPTION = (
    "success in %; undisturbed: of the same cases under robustness=none; difference: in percentage points, paired over "
    f"cases; 95% interval: {TOLD}; * it excludes 0; {ALIKE}; none where all are of one cluster"
)
_BEHAVIOURS = (
    "of the cells that called the broken tool, what they did next: another call that does the same (replace: the "
    "designated replacement), retry, refuse, or other, in %"
)
_REFUSED = "refused: of all cells, in %; an unsolvable case succeeds by a refusal alone"
_COST = (
    "cost: of the calls made over the least for the reference's calls, on solved cases, with its 95% interval (delta "
    "method over clusters); * it excludes 1"
)


def sheets(root: Path) -> list[Table]:
    """A table for each model and dataset with cells that have any of these columns and are disturbed."""
    cells = load.episodes(root, _OWN)
    own = cells["disturbed"] & cells[_OWN].notna().any(axis=1)
    shown = cells.loc[own, SETTING[:3]].drop_duplicates()
    found = []
    for (model, dataset), settings in shown.groupby(SETTING[:2], sort=False, observed=True):
        here = cells[(cells["model"] == model) & (cells["dataset"] == dataset)]
        kept = here[here["robustness"].isin({*settings["robustness"], "none"})]
        found.append(_sheet(root, str(model), str(dataset), disturbances(kept)))
    return found


def disturbances(cells: pd.DataFrame) -> pd.DataFrame:
    """One row a robustness setting and planner of one model and dataset, but the undisturbed ones.

    success, undisturbed and difference (with low and high) are shares of the cases whose success is known, and
    cases and clusters count these; called is how many cells called a broken tool and the columns of BEHAVIOURS what
    share of them did what; refused is a share; cost, with cost_low and cost_high, is the ratio of costs on solved
    cells. NaN where nothing is known.
    """
    plain = cells[~cells["disturbed"]]
    undisturbed = plain.groupby(["planner", CLUSTER, "case_id"], observed=True)["success"].mean()
    rows = []
    for (robustness, planner), own in cells[cells["disturbed"]].groupby(_LABELS, sort=False, observed=True):
        success = own.groupby([CLUSTER, "case_id"], observed=True)["success"].mean().dropna()
        known = planner in undisturbed.index.get_level_values("planner")
        before = undisturbed.xs(planner, level="planner").reindex(success.index) if known else success * math.nan
        difference = (success - before).dropna()
        mean, low, high = interval(difference, reach=1.0)
        rows.append(
            {"robustness": str(robustness), "planner": str(planner), "cases": len(success), "clusters": count(success)}
            | {"success": success.mean(), "undisturbed": before.mean()}
            | {"difference": mean, "low": low, "high": high}
            | _behaviours(own)
            | {"refused": own["refused"].astype("float64").mean()}
            | _cost(own)
        )
    return pd.DataFrame(rows)


def _behaviours(own: pd.DataFrame) -> dict[str, float]:
    called = own["behaviour"].dropna()
    return {"called": len(called)} | {name: (called == name).mean() for name in BEHAVIOURS}


def _cost(own: pd.DataFrame) -> dict[str, float]:
    """On solved cells whose least cost is known, and not 0."""
    solved = own[(own["success"] == 1.0) & (own["least_cost"] > 0)]
    costs = solved.groupby([CLUSTER, "case_id"], observed=True)[["plan_cost", "least_cost"]].mean()
    found = ratio(costs["plan_cost"], costs["least_cost"]) if len(costs) else (math.nan,) * 3
    return dict(zip(("cost", "cost_low", "cost_high"), found, strict=True))


def _sheet(root: Path, model: str, dataset: str, values: pd.DataFrame) -> Table:
    broken, rejecting = bool(values["called"].any()), bool(values["refused"].notna().any())
    priced = bool(values["cost"].notna().any())
    return Table(
        name=f"disturbances {model} {dataset}",
        title=f"{model} on {dataset}: what disturbances do",
        by=_LABELS,
        columns=[
            counted("cases"),
            counted("clusters"),
            _share("success"),
            _share("undisturbed"),
            Column("difference", _difference),
            Column("95% interval", lambda row: bounds(row["low"], row["high"], POINTS)),
            *[_share(name, _BEHAVIOURS) for name in BEHAVIOURS if broken],
            *[_share("refused", _REFUSED)] * rejecting,
            *[Column("cost", _cost_over, said=_COST), Column("95%", _cost_bounds)] * priced,
        ],
        values=values,
        query=queries.disturbances(root, model, dataset),
        about=_CAPTION,
    )


def _share(name: str, said: str = "") -> Column:
    return Column(name, lambda row: number(row[name], scale=100, missing=MISSING), said=said)


def _difference(row: Mapping[Any, Any]) -> str:
    mark = marks(row["low"], row["high"]) or " "
    return "none" if pd.isna(row["difference"]) else f"{number(row['difference'], POINTS, 100)}{mark}"


def _cost_over(row: Mapping[Any, Any]) -> str:
    mark = marks(row["cost_low"], row["cost_high"], at=1.0) or " "
    return MISSING if pd.isna(row["cost"]) else f"{row['cost']:.2f}{mark}"


def _cost_bounds(row: Mapping[Any, Any]) -> str:
    return MISSING if pd.isna(row["cost"]) else bounds(row["cost_low"], row["cost_high"], ".2f", 1.0)
