"""Effects of broken tools, unsolvable cases and costs on planners (agent_planning_benchmark §4.2.3, on any data)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.compute as pc
from scipy.special import ndtri

from analysis import load
from analysis.load import SETTING, queries
from analysis.load.queries import Asked, ask
from analysis.page.table import MISSING, POINTS, Column, Row, Table, bounds, count, marks, number, probability
from analysis.stats.intervals import (
    ALIKE,
    CLUSTER,
    LEVEL,
    TOLD,
    UNKNOWN,
    Interval,
    holm,
    interval,
    n_clusters,
    p_value,
    ratio,
)
from grid.core.types import BEHAVIOURS

_OWN = ["behaviour", "refused", "plan_cost", "least_cost"]
_LABELS = ["robustness", "planner"]
_CAPTION = (
    "success in %; undisturbed: success on the same cases under robustness=none; difference: success minus "
    f"undisturbed, in percentage points, paired over cases; 95% interval: {TOLD}; *: the interval excludes 0, †: "
    f"significant also after Holm's correction over the differences of this table (p Holm); {ALIKE}; no interval if "
    "all cases are in one cluster"
)
_OUTLINED = (
    "a planner that follows a given outline has to get each substep right: if a tool that the outline needs is broken, "
    "only planners that try again can still succeed; with dataset.outline=hidden a planner can go another way"
)
_BEHAVIOURS = (
    "replace, alter, retry, refuse, other: what the cells that called the broken tool did next, in % of these cells "
    "(replace: call the designated replacement; alter: call another tool that does the same; retry: call the broken "
    "tool again; refuse: refuse the task; other: anything else)"
)
_REFUSED = "refused: the cells that refuse, in % of all cells; an unsolvable case succeeds only if it is refused"
_COST = (
    "cost: the cost of the calls made, divided by the least cost of the reference's calls, on solved cases, with its "
    "95% interval (delta method over clusters); *: the interval excludes 1"
)


def tables(root: Path) -> list[Table]:
    """A table for each model and dataset with disturbed cells for which success or one of `_OWN` is known.

    Raises:
        StoreError: the folder cannot be read.
    """
    cells = load.episodes(root, _OWN)
    own = cells["disturbed"] & cells[["success", *_OWN]].notna().any(axis=1)
    shown = cells.loc[own, SETTING[:3]].drop_duplicates()
    found = []
    for model, dataset, settings in load.places(shown):
        here = cells[(cells["model"] == model) & (cells["dataset"] == dataset)]
        kept = here[here["robustness"].isin({*settings["robustness"], "none"})]
        where = {"model": [model], "dataset": [dataset], "robustness": sorted(map(str, kept["robustness"].unique()))}
        asked = disturbances(kept, queries.where(where))
        found.append(_table(model, dataset, asked.rows, queries.of_files(root, asked.query)))
    return found


def disturbances(cells: pd.DataFrame, where: str = "true") -> Asked:
    """One row per robustness setting and planner of one model and dataset, without undisturbed settings.

    `success` is the mean over the cases whose success is known; `cases` and `clusters` count these cases. `undisturbed`
    and the `difference` (from `change`, with `holm` from `corrected`) are means over those of these cases whose success
    without disturbances is known too. `called` is the number of cells that called a broken tool, and the columns
    of BEHAVIOURS are the shares of these cells by their next action. `refused` is the share of refusals. `cost` (with
    `cost_low` and `cost_high`) is the cost of plans divided by the lowest cost of the reference's calls, on solved
    cells. A figure is NaN if nothing is known.
    """
    asked = ask(cells, queries.of_cases(["success"], where, further=_FURTHER))
    cases = asked.rows
    undisturbed = cases[~cases["disturbed"]].set_index(["planner", CLUSTER, "case_id"])["success"]
    rows = []
    for (robustness, planner), own in cases[cases["disturbed"]].groupby(_LABELS, sort=False, observed=True):
        success = own.set_index([CLUSTER, "case_id"])["success"].dropna()
        known = planner in undisturbed.index.get_level_values("planner")
        before = undisturbed.xs(planner, level="planner").reindex(success.index) if known else success * math.nan
        called = int(own["called"].sum())
        row: dict[str, Any] = (
            {"robustness": str(robustness), "planner": str(planner)}
            | {"cases": len(success), "clusters": n_clusters(success)}
            | {"success": success.mean(), "undisturbed": before.mean()}
            | {**change(success - before), "called": called}
            | {name: own[name].sum() / called if called else math.nan for name in BEHAVIOURS}
            | {"refused": own["refusals"].sum() / own["told"].sum() if own["told"].any() else math.nan}
            | _cost(own)
        )
        rows.append(row)
    return asked._replace(rows=corrected(rows))


def change(differences: pd.Series[float]) -> dict[str, float]:
    """The mean `difference` of cases' shares with its 95% interval (`low`, `high`), and its `p`."""
    known = differences.dropna()
    mean, low, high = interval(known, reach=1.0)
    return {"difference": mean, "low": low, "high": high, "p": p_value(known, reach=1.0)}


def corrected(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Rows with a `change`, and `holm`: p by Holm's correction over all rows."""
    found = pd.DataFrame(rows)
    return found.assign(holm=holm(found["p"])) if rows else found


_SOLVED = "FILTER (success::DOUBLE = 1 AND least_cost > 0)"
_FURTHER = [
    "count(behaviour) AS called",
    *(f"count(*) FILTER (behaviour = '{name}') AS {name}" for name in BEHAVIOURS),
    "count(refused) AS told, coalesce(sum(refused::DOUBLE), 0) AS refusals",
    f"avg(plan_cost) {_SOLVED} AS plan_cost, avg(least_cost) {_SOLVED} AS least_cost",
]


def _cost(own: pd.DataFrame) -> dict[str, float]:
    """The ratio of the plans' cost to the least cost, on solved cells with a known least cost above 0."""
    costs = own.set_index([CLUSTER, "case_id"])[["plan_cost", "least_cost"]].dropna()
    return (ratio(costs["plan_cost"], costs["least_cost"]) if len(costs) else UNKNOWN).named("cost")


def _table(model: str, dataset: str, values: pd.DataFrame, query: str) -> Table:
    broken, rejecting = bool(values["called"].any()), bool(values["refused"].notna().any())
    priced = bool(values["cost"].notna().any())
    return Table(
        name=f"disturbances {model} {dataset}",
        title=f"{model} on {dataset}: effects of disturbances",
        by=_LABELS,
        columns=[
            count("cases"),
            count("clusters"),
            _share("success"),
            _share("undisturbed"),
            Column("difference", _difference),
            Column("95% interval", lambda row: bounds(row["low"], row["high"], POINTS)),
            Column("p Holm", lambda row: probability(row["holm"])),
            *[_share(name, _BEHAVIOURS) for name in BEHAVIOURS if broken],
            *[_share("refused", _REFUSED)] * rejecting,
            *[Column("cost", _cost_over, said=_COST), Column("95%", _cost_bounds)] * priced,
        ],
        values=values,
        query=query,
        about=_CAPTION,
        notes=[_OUTLINED] * broken,
    )


def _share(name: str, said: str = "") -> Column:
    return Column(name, lambda row: number(row[name], scale=100, missing=MISSING), said=said)


def _difference(row: Mapping[Any, Any]) -> str:
    mark = marks(row["low"], row["high"], row["holm"], level=LEVEL)
    return "none" if pd.isna(row["difference"]) else f"{number(row['difference'], POINTS, 100)}{mark:2}"


def _cost_over(row: Mapping[Any, Any]) -> str:
    mark = marks(row["cost_low"], row["cost_high"], at=1.0) or " "
    return MISSING if pd.isna(row["cost"]) else f"{row['cost']:.2f}{mark}"


def _cost_bounds(row: Mapping[Any, Any]) -> str:
    return MISSING if pd.isna(row["cost"]) else bounds(row["cost_low"], row["cost_high"], ".2f", 1.0)


# The replacements that forgiving tools made for unknown arguments, and the number of silently wrong replacements.


REPLACED, WRONG = "replaced_arguments", "wrongly_replaced_arguments"
_COLUMNS = ["tool_calls", REPLACED, WRONG]
_REPLACEMENTS_CAPTION = (
    "replaced: the number of arguments, in calls on the path, that forgiving tools replaced; silently wrong: the "
    "number of these arguments whose new value no call of the reference gives to this argument (an upper bound if "
    "several ways lead to the answer); share wrong: silently wrong arguments in % of replaced arguments, with the 95% "
    "interval over clusters (CR2 of the ratio; at 0 and 100%: Wilson's score interval over the clusters with replaced "
    "arguments)"
)


def replacement_tables(root: Path) -> list[Table]:
    """A table for each model and dataset that ran with forgiving tools.

    Raises:
        StoreError: the folder cannot be read.
    """
    cells = load.episodes(root, _COLUMNS, pc.field(REPLACED).is_valid())
    found = []
    for model, dataset, own in load.places(cells):
        asked = replacements(own, f"{queries.place(model, dataset)} AND {REPLACED} IS NOT NULL")
        found.append(_replaced_table(model, dataset, asked.rows, queries.of_files(root, asked.query)))
    return found


def replacements(cells: pd.DataFrame, where: str = "true") -> Asked:
    """By setting: cells, calls, replaced arguments, wrong replacements, and the share of replacements that are wrong.

    The share is NaN if nothing was replaced. `wrong_share`, `wrong_low` and `wrong_high` are from 0 to 1.
    """
    sums = [f"sum({name}) AS all_{name}" for name in _COLUMNS]
    asked = ask(cells, queries.of_cases([REPLACED, WRONG], where, further=sums))
    rows = []
    for labels, own in asked.rows.groupby(SETTING, sort=False, observed=True):
        found = dict(zip(("wrong_share", "wrong_low", "wrong_high"), wrong_share(own), strict=True))
        row: dict[str, Any] = dict(zip(SETTING, map(str, labels), strict=True)) | {"cells": int(own["cells"].sum())}
        rows.append(row | {name: int(own[f"all_{name}"].sum()) for name in _COLUMNS} | found)
    return asked._replace(rows=pd.DataFrame(rows))


def wrong_share(rows: pd.DataFrame) -> Interval:
    """The ratio of wrong to all replacements, with its interval; both numbers are sums of cases' means over trials."""
    cases = rows.set_index([CLUSTER, "case_id"])[[REPLACED, WRONG]]
    replaced, wrong = cases[REPLACED], cases[WRONG]
    if not replaced.sum():
        return UNKNOWN
    share = float(wrong.sum() / replaced.sum())
    if share in (0.0, 1.0):
        clusters = n_clusters(cases[replaced > 0])
        square = float(ndtri(0.975)) ** 2
        unseen = square / (clusters + square)  # Wilson's interval if all or none are wrong
        return Interval(share, share * (1 - unseen), share + (1 - share) * unseen)
    found = interval(share + (wrong - share * replaced) / replaced.mean())  # the ratio's linear part
    return Interval(share, max(found.low, 0.0), min(found.high, 1.0))


def _replaced_table(model: str, dataset: str, own: pd.DataFrame, query: str) -> Table:
    return Table(
        name=f"replacements {model} {dataset}",
        title=f"{model} on {dataset}: arguments replaced by forgiving tools",
        by=SETTING[2:],
        columns=[
            count("cells"),
            count("tool_calls", "calls"),
            count(REPLACED, "replaced"),
            count(WRONG, "silently wrong"),
            Column("share wrong", _replaced_share),
        ],
        values=own,
        query=query,
        about=_REPLACEMENTS_CAPTION,
    )


def _replaced_share(row: Row) -> str:
    """The share in %, with bounds unless all cases are in one cluster; an empty string if nothing was replaced."""
    if math.isnan(row["wrong_share"]):
        return ""
    reach = bounds(row["wrong_low"], row["wrong_high"], missing="")
    return f"{number(row['wrong_share'], scale=100)}% {reach}".rstrip()
