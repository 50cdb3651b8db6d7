"""What extraneous tools cost: plans with them beside those of the same cases without (tables 2, 16 and 17)."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from analysis import intervals, reading
from analysis.load import SETTING
from analysis.measures import Measure, measured
from analysis.plans.cells import EXTRANEOUS, NAMES
from analysis.plans.sheet import table as shown
from analysis.plans.tasks import ERROR_RATES, GRADE
from analysis.table import Table, label

USED = Measure("extraneous_calls", "calls per case", "amount", scale=1.0, form=".2f")
MEASURES = [
    *(USED, Measure("base_success", "CR base"), Measure("success", "CR")),
    *(Measure("extraneous_change", "Δ", "change", form="+.1f"), GRADE, *ERROR_RATES),
]
ALL = "all"
_CAPTION = (
    "base: the same planner on the same case without extraneous tools; Δ: CR less that, in points, paired over cases; "
    f"its interval: {intervals.TOLD}; TC: calls of extraneous tools over all cases, as the paper counts them; calls a "
    "case: their mean; n_e: how many extraneous tools there are"
)


def by_number(cells: pd.DataFrame) -> pd.DataFrame:
    """One row a mode, setting and number of extraneous tools, and over all of these (`n_e` all) in front.

    Columns: `mode`, SETTING, `n_e`, `TC` and MEASURES with their intervals.
    """
    own = cells[cells["task_family"].astype(object) == EXTRANEOUS].sort_values("mode", kind="stable")
    if own.empty:
        return pd.DataFrame()
    each = own.assign(n_e=own["n_extraneous"].map(lambda number: f"{number:g}", na_action="ignore"))
    parts = [measured(own.assign(n_e=ALL), ["mode", *SETTING, "n_e"], MEASURES)]
    numbered = each.dropna(subset=["n_e"]).sort_values("n_extraneous", kind="stable")
    parts.append(measured(numbered, ["mode", *SETTING, "n_e"], MEASURES))
    table = pd.concat(parts, ignore_index=True)
    order = {
        key: place for place, key in enumerate(table[["mode", *SETTING]].astype(str).itertuples(index=False, name=None))
    }
    places = [order[key] for key in table[["mode", *SETTING]].astype(str).itertuples(index=False, name=None)]
    table = table.assign(TC=table["extraneous_calls"] * table["extraneous_calls_cases"], place=places)
    return table.sort_values(["mode", "place"], kind="stable").drop(columns="place").reset_index(drop=True)


def sheets(root: Path, cells: pd.DataFrame) -> list[Table]:
    """A table for each model and data set that has cases with extraneous tools."""
    table = by_number(cells)
    if table.empty:
        return []
    found = []
    table = table.assign(mode=table["mode"].map(NAMES))
    for (model, dataset), own in table.groupby(SETTING[:2], sort=False, observed=True):
        place = f"{model} on {dataset}"
        mine = cells[(cells["model"] == model) & (cells["dataset"] == dataset)]
        written = Table(
            f"extraneous {place}",
            f"{place}: with extraneous tools (agent_planning_benchmark, tables 2, 16 and 17)",
            [label("mode", "planning"), "planner", "n_e"],
            [],
            own.reset_index(drop=True),
            "",
            _CAPTION,
            breaks=["mode", "planner"],
            reading=reading.joined(_reading(own)),
            notes=_unpaired(own),
        )
        counts = ("cases", "clusters", "TC")
        found.append(shown(root, mine, MEASURES, written, counts=counts, bounded=["extraneous_change"]))
    return found


def _reading(table: pd.DataFrame) -> list[str]:
    verdicts = ("extraneous tools cost correct plans", "more plans are correct with extraneous tools")
    own = table[(table["n_e"] == ALL) & table["extraneous_change"].notna()]
    return [
        f"{row['mode']}, {row['planner']}: {reading.changed(row, 'extraneous_change', 'with − without', verdicts)}"
        for row in own.to_dict("records")
    ]


def _unpaired(table: pd.DataFrame) -> list[str]:
    missing = (table["cases"] - table["base_success_cases"])[table["n_e"] == ALL].max()
    told = f"up to {missing:,.0f} cases of a row have no counterpart without extraneous tools here: Δ leaves them out"
    return [told] if missing else []
