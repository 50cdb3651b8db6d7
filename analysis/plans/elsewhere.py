"""Broken tools, unsolvable requests and costs on data sets that are no planning benchmark, beside undisturbed cases."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow.compute as pc

from analysis import intervals, load, planted, provenance, reading
from analysis.intervals import CLUSTER
from analysis.load import SETTING
from analysis.plans import cells as plans
from analysis.plans.measures import Measure, measured
from analysis.plans.sheet import Rows, sheet
from analysis.render import Sheet
from grid.chains import BEHAVIOURS

MEASURES = [
    Measure("success", "success"),
    Measure("change", "Δ to none", "change", form="+.1f"),
    Measure("refused", "refused"),
    *(Measure(f"behaved_{name}", name) for name in BEHAVIOURS),
    Measure("solved_cost", "cost, solved", "amount", scale=1.0, form=".2f", of_some=True),
    Measure("solved_least_cost", "least", "amount", scale=1.0, form=".2f", of_some=True),
]
_NONE = "none"
_CAPTION = (
    "success: under broken tools the case is resolved, where nothing can be done the request is refused; Δ: less the "
    "success of the same planner on the same case undisturbed, in points, paired; its interval: "
    f"{intervals.TOLD}; refused: the request is refused explicitly; replace to other: what follows the broken tool; "
    "costs: of the plans that solve their cases, and the least that is possible there"
)


def read(root: Path) -> pd.DataFrame:
    """The cells of disturbed settings whose behaviour, refusal or cost is known, with `change`.

    `change`: success less that of the undisturbed setting of the same planner on the same case (a mean over trials).

    Raises:
        StoreError: the folder cannot be read.
    """
    known = pc.field("behaviour").is_valid() | pc.field("refused").is_valid() | pc.field("plan_cost").is_valid()
    outside = pc.field("task_family").is_null()
    disturbed = outside & known & (pc.field("robustness") != _NONE)
    undisturbed = outside & (pc.field("robustness") == _NONE)
    columns = [planted.ENGINE, *provenance.COLUMNS, *plans.SOURCES]
    rows = load.episodes(root, columns, disturbed)
    if rows.empty:
        return rows
    plain = load.episodes(root, [], undisturbed)
    keys = [*(name for name in SETTING if name != "robustness"), CLUSTER, "case_id"]
    means = plain.groupby(keys, observed=True)["success"].mean().rename("undisturbed").reset_index()
    rows = plans.derived(rows)
    texts = dict.fromkeys(keys, str)
    merged = rows[keys].astype(texts).merge(means.astype(texts), on=keys, how="left")
    return rows.assign(change=rows["success"] - merged["undisturbed"].to_numpy("float64"))


def sheets(root: Path) -> list[Sheet]:
    """A table for each model; none where no setting breaks tools, removes a way or counts costs."""
    cells = read(root)
    found = []
    for model, own in cells.groupby("model", sort=False, observed=True):
        table = measured(own, SETTING, MEASURES)
        rows = Rows(
            table,
            {"dataset": "data set", "robustness": "robustness", "planner": "planner"},
            MEASURES,
            bounded=["change"],
            breaks=["dataset", "robustness"],
        )
        found.append(
            sheet(
                root,
                own,
                rows,
                name=f"disturbed plans {model}",
                title=f"{model}: broken tools, unsolvable requests and costs on every data set",
                caption=_CAPTION,
                reading=reading.joined(_reading(table)),
            )
        )
    return found


def _reading(table: pd.DataFrame) -> list[str]:
    told = []
    for row in table[table["change"].notna()].to_dict("records"):
        verdicts = (f"success is lower under {row['robustness']}", f"success is higher under {row['robustness']}")
        found = reading.changed(row, "change", f"{row['robustness']} − none", verdicts)
        told.append(f"{row['dataset']}, {row['planner']}: {found}")
    return told
