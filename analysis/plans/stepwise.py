"""Next steps by how many are wanted, and by where in the trajectory they stand (tables 14 and 15, figures 5 and 6)."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from analysis.load import SETTING
from analysis.measures import Measure, measured
from analysis.plans.cells import STAGES as OTHER_STAGES
from analysis.plans.cells import STEPWISE
from analysis.plans.sheet import table as shown
from analysis.plans.tasks import DIAGNOSIS, ERRORS_TOLD
from analysis.table import Table, label, named

STAGES = ("early", "middle", "late")
HORIZON, STAGE = "horizon_k", "stage"
_TITLES = {
    HORIZON: "next steps by how many are wanted (agent_planning_benchmark, table 14)",
    STAGE: "next steps by where they stand in the trajectory (agent_planning_benchmark, table 15)",
}
CAPTIONS = {
    HORIZON: "k: the number of steps to predict, without observations between them",
    STAGE: "stage: in which third of the reference's trajectory the steps stand",
}
HEADERS = {HORIZON: "k", STAGE: "stage"}


def profile(cells: pd.DataFrame, column: str) -> pd.DataFrame:
    """One row a setting and value of HORIZON or STAGE, in their order: DIAGNOSIS with intervals.

    Of stages only cases of one step count, as in the paper, where there are any: more steps are harder wherever they
    stand. Empty where fewer than two values are there.
    """
    families = (STEPWISE, OTHER_STAGES) if column == STAGE else (STEPWISE,)
    own = cells[cells["task_family"].astype(object).isin(families) & cells[column].notna()]
    if column == STAGE and (own[HORIZON] == 1).any():
        own = own[own[HORIZON] == 1]
    if own[column].nunique() < 2:
        return pd.DataFrame()
    table = measured(own, [*SETTING, column], DIAGNOSIS)
    if column == STAGE:
        table = table.assign(stage=pd.Categorical(table[STAGE], STAGES, ordered=True))
    order = table[SETTING].astype(str).agg("\0".join, axis=1)
    places = order.map({name: place for place, name in enumerate(dict.fromkeys(order))})
    return table.assign(place=places).sort_values(["place", column], kind="stable").drop(columns="place")


def sheets(root: Path, cells: pd.DataFrame) -> list[Table]:
    """Tables 14 and 15 of each model and data set that has several horizons or stages."""
    found = []
    for column, title in _TITLES.items():
        table = profile(cells, column)
        if table.empty:
            continue
        for (model, dataset), own in table.groupby(SETTING[:2], sort=False, observed=True):
            place = f"{model} on {dataset}"
            mine = cells[(cells["model"] == model) & (cells["dataset"] == dataset)]
            written = Table(
                f"{column} {place}",
                f"{place}: {title}",
                ["planner", label(column, HEADERS[column])],
                [],
                own.reset_index(drop=True),
                "",
                f"{caption(cells, column)}; {ERRORS_TOLD}",
                breaks=["planner"],
                reading="\n".join(_reading(own, column)),
            )
            found.append(shown(root, mine, DIAGNOSIS, written, bounded=["success"]))
    return found


def caption(cells: pd.DataFrame, column: str) -> str:
    """What a caption says of HORIZON or STAGE."""
    single = column == STAGE and (cells[HORIZON] == 1).any()
    return CAPTIONS[column] + ("; cases of one step (k = 1), as in the paper" if single else "")


def _reading(table: pd.DataFrame, column: str) -> list[str]:
    measure: Measure = DIAGNOSIS[0]
    lines = []
    for planner, own in table.groupby("planner", sort=False, observed=True):
        parts = [f"{measure.text(row)}% at {HEADERS[column]} {named(row[column])}" for row in own.to_dict("records")]
        lines.append(f"{planner}: correct in {', '.join(parts)}.")
    return lines
