"""What plans cost, over all cases, those solved and those that everybody solves (agent_planning_benchmark, table 5)."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from analysis import intervals
from analysis.load import SETTING
from analysis.measures import Measure, measured
from analysis.plans.sheet import table as shown
from analysis.plans.tasks import CORRECT, GRADE
from analysis.table import Table


def _cost(column: str, header: str) -> Measure:
    return Measure(column, header, "amount", scale=1.0, form=".2f", of_some=True)


MEASURES = [
    *(CORRECT, GRADE),
    *(_cost("plan_cost", "cost, all"), _cost("least_cost", "least")),
    *(_cost("solved_cost", "cost, solved"), _cost("solved_least_cost", "least")),
    *(_cost("common_cost", "cost, common"), _cost("common_least_cost", "least")),
]
_CAPTION = (
    "cost: the sum of what a plan's calls cost, in the tools' own units, means per case; all: over every case, solved: "
    "over those that this planner solves, common: over those that every planner and model compared solves in every "
    f"trial; least: what the cheapest plan costs on the same cases; intervals of costs: {intervals.AMOUNTS}"
)


def costs(cells: pd.DataFrame) -> pd.DataFrame:
    """One row a setting whose plans have costs: MEASURES with intervals, `solved` and `common` (cases)."""
    own = cells[cells["plan_cost"].notna() & cells["least_cost"].notna()]
    if own.empty:
        return pd.DataFrame()
    table = measured(own, SETTING, MEASURES)
    counts = {"solved": "solved_cost_cases", "common": "common_cost_cases"}
    return table.assign(**{name: table[column] for name, column in counts.items()})


def sheets(root: Path, cells: pd.DataFrame) -> list[Table]:
    """A table for each data set on which plans have costs; planners and models stand in one, as they are compared."""
    table = costs(cells)
    if table.empty:
        return []
    found = []
    for (dataset, robustness), own in table.groupby(["dataset", "robustness"], sort=False, observed=True):
        under = "" if robustness == "none" else f", robustness {robustness}"
        mine = cells[(cells["dataset"] == dataset) & (cells["robustness"] == robustness)]
        written = Table(
            f"costs of plans {dataset} {robustness}",
            f"{dataset}{under}: what plans cost (agent_planning_benchmark, table 5)",
            ["model", "planner"],
            [],
            own.reset_index(drop=True),
            "",
            _CAPTION,
            breaks=["model"],
            reading="\n".join(_reading(own)),
            notes=_alone(own),
        )
        counts = ("cases", "clusters", "solved", "common")
        found.append(shown(root, mine, MEASURES, written, counts=counts, bounded=["success", "common_cost"]))
    return found


def _reading(table: pd.DataFrame) -> list[str]:
    """Who is cheapest where all are right, and how far from the least that is."""
    common = table.dropna(subset=["common_cost"])
    common = common[common["common"] > 0]
    if common.empty:
        return ["No case is solved by every planner: costs cannot be compared on the same solved cases."]
    best = common.sort_values("common_cost", kind="stable").iloc[0].to_dict()
    above = best["common_cost"] - best["common_least_cost"]
    where = f"{best['planner']} ({best['model']})"
    return [
        f"On the {best['common']:,.0f} cases that all of them solve, {where} has the lowest mean cost: "
        f"{best['common_cost']:.2f} per case, {above:.2f} above the least that is possible."
    ]


def _alone(table: pd.DataFrame) -> list[str]:
    idle = [f"{row['planner']} ({row['model']})" for row in table.to_dict("records") if not row["solved"]]
    return [f"solve no case, and are not asked for what is common: {', '.join(idle)}"] if idle else []
