"""Plans before and after a critique (agent_planning_benchmark, table 4)."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from analysis import intervals, reading
from analysis.load import SETTING
from analysis.measures import Measure, measured
from analysis.plans.cells import NAMES, data_of, method
from analysis.plans.sheet import table as shown
from analysis.table import Table, label

MEASURES = [
    Measure("unrefined_correct", "CR base"),
    Measure("plan_correct", "CR refined"),
    Measure("refined_change", "Δ", "change", form="+.1f"),
    Measure("unrefined_grade", "grade base", scale=1.0, form=".2f"),
    Measure("plan_grade", "refined", scale=1.0, form=".2f"),
]
_CAPTION = (
    "base: the plan as it was written first, refined: the same after critique and rewriting; Δ in points, paired; its "
    f"interval: {intervals.TOLD}; better: plans that were wrong and became correct, worse: the reverse; Self_R: the "
    "planner's model criticises its own plan, Critic_R: another does; +: the critic is told the error taxonomy, −: not"
)


def refined(cells: pd.DataFrame) -> pd.DataFrame:
    """One row a task, setting and method: MEASURES with intervals, and the cells changed (`better`, `worse`)."""
    own = cells[cells["unrefined_correct"].notna() & cells["plan_correct"].notna()]
    if own.empty:
        return pd.DataFrame()
    texts = own["config"].astype(object)
    names = [method(str(label), text) for label, text in zip(own["refine"].astype(object), texts, strict=True)]
    labels = zip(own["planner"].astype(str), own["refine"].astype(str), strict=True)
    own = own.assign(method=names, base=[label.replace(f" / refine {refine}", "") for label, refine in labels])
    keys = ["task_family", *SETTING, "base", "method"]
    table = measured(own.sort_values("task_family", kind="stable"), keys, MEASURES)
    sums = own.groupby(keys, observed=True)[["to_better", "to_worse"]].sum().reset_index()
    sums = sums.rename(columns={"to_better": "better", "to_worse": "worse"})
    return table.merge(sums, on=keys, how="left")


def sheets(root: Path, cells: pd.DataFrame) -> list[Table]:
    """A table for each model and data set on which plans were refined, whatever its tasks were chosen by."""
    table = refined(cells)
    if table.empty:
        return []
    found = []
    table = table.assign(
        task_family=table["task_family"].map(lambda name: NAMES.get(name, name)),
        data=table["dataset"].astype(str).map(data_of),
    )
    for (model, data), own in table.groupby(["model", "data"], sort=False, observed=True):
        place = f"{model} on {data}"
        named = cells["dataset"].astype(str).map(data_of)
        mine = cells[(cells["model"] == model) & (named == data) & cells["unrefined_correct"].notna()]
        written = Table(
            f"refinement {place}",
            f"{place}: plans before and after refinement (agent_planning_benchmark, table 4)",
            [label("task_family", "task"), label("base", "planner"), "method"],
            [],
            own.reset_index(drop=True),
            "",
            _CAPTION,
            breaks=["task_family", "base"],
            reading=reading.joined(_reading(own)),
        )
        counts = ("cases", "clusters", "better", "worse")
        found.append(shown(root, mine, MEASURES, written, counts=counts, bounded=["refined_change"]))
    return found


def _reading(table: pd.DataFrame) -> list[str]:
    verdicts = ("refinement costs correct plans", "refinement makes more plans correct")
    return [
        f"{row['task_family']}, {row['base']}, {row['method']}: "
        f"{reading.changed(row, 'refined_change', 'refined − base', verdicts)}; "
        f"{row['better']:,.0f} plans became correct, {row['worse']:,.0f} wrong"
        for row in table.to_dict("records")
    ]
