"""What broken tools, unsolvable cases and costs do to each planner (agent_planning_benchmark §4.2.3, on any data)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.compute as pc
from scipy.special import ndtri

from analysis import load
from analysis.load import SETTING, queries
from analysis.page.table import MISSING, POINTS, Column, Row, Table, bounds, count, marks, number
from analysis.stats.intervals import ALIKE, CLUSTER, TOLD, UNKNOWN, Interval, interval, n_clusters, ratio
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


def tables(root: Path) -> list[Table]:
    """A table for each model and dataset with cells that have any of these columns and are disturbed."""
    cells = load.episodes(root, _OWN)
    own = cells["disturbed"] & cells[_OWN].notna().any(axis=1)
    shown = cells.loc[own, SETTING[:3]].drop_duplicates()
    found = []
    for model, dataset, settings in load.places(shown):
        here = cells[(cells["model"] == model) & (cells["dataset"] == dataset)]
        kept = here[here["robustness"].isin({*settings["robustness"], "none"})]
        found.append(_table(root, model, dataset, disturbances(kept)))
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
            {
                "robustness": str(robustness),
                "planner": str(planner),
                "cases": len(success),
                "clusters": n_clusters(success),
            }
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
    return (ratio(costs["plan_cost"], costs["least_cost"]) if len(costs) else UNKNOWN).named("cost")


def _table(root: Path, model: str, dataset: str, values: pd.DataFrame) -> Table:
    broken, rejecting = bool(values["called"].any()), bool(values["refused"].notna().any())
    priced = bool(values["cost"].notna().any())
    return Table(
        name=f"disturbances {model} {dataset}",
        title=f"{model} on {dataset}: what disturbances do",
        by=_LABELS,
        columns=[
            count("cases"),
            count("clusters"),
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


# What forgiving tools put in the place of what they did not know, and how much of it was silently wrong.


REPLACED, WRONG = "replaced_arguments", "wrongly_replaced_arguments"
_COLUMNS = ["tool_calls", REPLACED, WRONG]
_REPLACEMENTS_CAPTION = (
    "arguments of calls on the path that forgiving tools replaced; silently wrong: no call of the reference has what "
    "was taken as such an argument, an upper bound where several ways lead to the answer; share: of all replaced, with "
    "its 95% interval over clusters (CR2 of the ratio; at 0 and 100% Wilson's over the clusters with any)"
)


def replacement_tables(root: Path) -> list[Table]:
    """A table for each model and dataset whose tools forgive."""
    cells = load.episodes(root, _COLUMNS, pc.field(REPLACED).is_valid())
    return [_replaced_table(root, *place) for place in load.places(replacements(cells))]


def replacements(cells: pd.DataFrame) -> pd.DataFrame:
    """By setting the cells, calls, replaced arguments, the wrong ones, and their share of all replaced (NaN of none).

    `wrong_share`, `wrong_low` and `wrong_high` are from 0 to 1.
    """
    rows = []
    for labels, own in cells.groupby(SETTING, sort=False, observed=True):
        share = wrong_share(own)
        sums = {name: int(own[name].sum()) for name in _COLUMNS}
        found = dict(zip(("wrong_share", "wrong_low", "wrong_high"), share, strict=True))
        rows.append(dict(zip(SETTING, map(str, labels), strict=True)) | {"cells": len(own)} | sums | found)
    return pd.DataFrame(rows)


def wrong_share(cells: pd.DataFrame) -> Interval:
    """Wrong over all replaced arguments, the sums of the means of cases over trials, with its interval."""
    cases = cells.groupby([CLUSTER, "case_id"], observed=True)[[REPLACED, WRONG]].mean()
    replaced, wrong = cases[REPLACED], cases[WRONG]
    if not replaced.sum():
        return UNKNOWN
    share = float(wrong.sum() / replaced.sum())
    if share in (0.0, 1.0):
        clusters = n_clusters(cases[replaced > 0])
        square = float(ndtri(0.975)) ** 2
        unseen = square / (clusters + square)  # Wilson's interval where all are alike
        return Interval(share, share * (1 - unseen), share + (1 - share) * unseen)
    found = interval(share + (wrong - share * replaced) / replaced.mean())  # the ratio's linear part
    return Interval(share, max(found.low, 0.0), min(found.high, 1.0))


def _replaced_table(root: Path, model: str, dataset: str, own: pd.DataFrame) -> Table:
    return Table(
        name=f"replacements {model} {dataset}",
        title=f"{model} on {dataset}: what forgiving tools replaced",
        by=SETTING[2:],
        columns=[
            count("cells"),
            count("tool_calls", "calls"),
            count(REPLACED, "replaced"),
            count(WRONG, "silently wrong"),
            Column("share wrong", _replaced_share),
        ],
        values=own,
        query=queries.replacements(root, model, dataset),
        about=_REPLACEMENTS_CAPTION,
    )


def _replaced_share(row: Row) -> str:
    """In percent; nothing where nothing was replaced, no bounds where the cases are of one cluster."""
    if math.isnan(row["wrong_share"]):
        return ""
    reach = bounds(row["wrong_low"], row["wrong_high"], missing="")
    return f"{number(row['wrong_share'], scale=100)}% {reach}".rstrip()
