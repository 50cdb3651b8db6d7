"""Correctness, grades and errors by task, and what is done about broken tools and unsolvable tasks (table 1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.load import SETTING
from analysis.measures import Measure, measured
from analysis.plans.cells import BROKEN, KINDS, NAMES, UNSOLVABLE
from analysis.plans.sheet import table as shown
from analysis.search.comparing import name_of
from analysis.table import Column, Table, label
from grid.core.chains import BEHAVIOURS, ERRORS

REFUSER = "refuser"
REFUSES = "refuses everything (by definition)"
CORRECT = Measure("success", "CR")
GRADE = Measure("plan_grade", "grade", scale=1.0, form=".2f")
ERROR_RATES = [Measure(error, error) for error in ERRORS]
DIAGNOSIS = [CORRECT, GRADE, *ERROR_RATES]
"""What tables 14 to 17 have of each group."""
TABLE_1 = [
    *(
        CORRECT,
        GRADE,
        Measure("E1", "E1"),
        Measure("E2_holistic", "E2-H", of_some=True),
        Measure("E2_stepwise", "E2-S", of_some=True),
    ),
    *(Measure(error, error) for error in ERRORS[2:]),
]
_BEHAVED = [
    Measure(f"behaved_{name}", short) for name, short in zip(BEHAVIOURS, ("Rp", "Al", "Rt", "Rf", "Ot"), strict=True)
]
_PASSED = [
    Measure("success", "all"),
    *(Measure(f"passed_{kind}", short, of_some=True) for kind, short in KINDS.items()),
]
ERRORS_TOLD = (
    "E1: the goal is misunderstood; E2-H: a whole plan leaves something out, E2-S: next steps conclude too early; E3: "
    "a constraint is broken; E4: a step uses what is not there yet, or ignores what is; E5: a wrong argument, or a "
    "tool that is not meant for it; E6: a tool or data that do not exist; a plan may have several"
)
_REFUSED = (
    f"{REFUSES}: no planner and no run; it is never right where a plan exists, and always where none does, so that it "
    "is what refusals have to be held against"
)
_BEHAVIOURS_TOLD = (
    "what follows a tool that broke: Rp the replacement is called, Al another tool is, Rt the broken tool is again, Rf "
    "the task is refused, Ot anything else; recovered: Rp or Al"
)


_PASSED_TOLD = (
    "pass: the share of tasks that are refused explicitly; Conf: constraints contradict, Info: information is missing, "
    "Tool: the tools of a capability are removed, Vis: an attachment is missing (the paper's: visual input)"
)


def sheets(root: Path, cells: pd.DataFrame) -> list[Table]:
    """Of each model and data set of the benchmark's tasks: what is planned, what breaks, what cannot be planned."""
    found = []
    for (model, dataset), own in cells[cells["task_family"].notna()].groupby(SETTING[:2], sort=False, observed=True):
        place = f"{model} on {dataset}"
        family = own["task_family"].astype(object)
        planned = own[family.isin(list(NAMES))]
        if planned[["success", "plan_grade"]].notna().any(axis=None):
            found.append(_planned(root, place, planned))
        found += _disturbed(root, place, own[family == BROKEN], own[family == UNSOLVABLE])
    return found


def _planned(root: Path, place: str, cells: pd.DataFrame) -> Table:
    named = cells.assign(task=pd.Categorical(cells["task_family"].map(NAMES), list(NAMES.values()), ordered=True))
    named = named.sort_values("task", kind="stable")
    table = with_refusing(measured(named, ["task", *SETTING], TABLE_1), ["task"], {"success": 0.0})
    told = f"CR: the share of plans that are correct; grade: their mean grade, from 0 to 1; {ERRORS_TOLD}"
    found = Table(
        f"plans {place}",
        f"{place}: plans by task (agent_planning_benchmark, table 1)",
        _labels(table, "task"),
        [],
        table,
        "",
        told + _refused(table),
        breaks=["task"],
        reading="\n".join(_best(table)),
    )
    return shown(root, cells, TABLE_1, found, bounded=["success"])


def _disturbed(root: Path, place: str, broken: pd.DataFrame, unsolvable: pd.DataFrame) -> list[Table]:
    found = []
    if broken["behaviour"].notna().any():
        measures = [Measure("success", "recovered"), *_BEHAVED]
        table = measured(broken, SETTING, measures)
        table = with_refusing(table, [], dict.fromkeys(_names(measures), 0.0) | {"behaved_refuse": 1.0})
        title = f"{place}: behind a broken tool (agent_planning_benchmark, table 1)"
        told = f"{_BEHAVIOURS_TOLD}{_refused(table)}"
        own = Table(f"broken {place}", title, _labels(table), [], table, "", told)
        found.append(shown(root, broken, measures, own, bounded=["success"]))
    if unsolvable["success"].notna().any():
        table = measured(unsolvable, SETTING, _PASSED)
        table = with_refusing(table, [], dict.fromkeys(_names(_PASSED), 1.0))
        title = f"{place}: tasks that no plan solves (agent_planning_benchmark, table 1)"
        told = _PASSED_TOLD + _refused(table)
        own = Table(f"unsolvable {place}", title, _labels(table), [], table, "", told, notes=_kinds(unsolvable))
        found.append(shown(root, unsolvable, _PASSED, own, bounded=_names(_PASSED)))
    return found


def with_refusing(table: pd.DataFrame, by: Sequence[str], rates: Mapping[str, float]) -> pd.DataFrame:
    """With a row at each group's end for what refuses everything, where no such planner ran: only `rates` are known."""
    if any(name_of(str(planner)) == REFUSER for planner in table["planner"]):
        return table
    parts = []
    groups = table.groupby(list(by), sort=False, observed=True) if by else [((), table)]
    for _, own in groups:
        last = own.iloc[-1]
        kept = {name: last[name] for name in [*by, *SETTING[:3]]}
        own_rates = {name: rate if pd.notna(own[name]).any() else float("nan") for name, rate in rates.items()}
        counts = {"cases": own["cases"].max(), "clusters": own["clusters"].max()}
        parts += [own, pd.DataFrame([kept | {"planner": REFUSES} | counts | own_rates])]
    return pd.concat(parts, ignore_index=True)


def _labels(table: pd.DataFrame, *first: str) -> list[Column]:
    """The robustness setting is named where there is any."""
    several = bool((table["robustness"].astype(str) != "none").any())
    return [label(name) for name in (*first, *["robustness"] * several, "planner")]


def _refused(table: pd.DataFrame) -> str:
    return f"; {_REFUSED}" if (table["planner"] == REFUSES).any() else ""


def _names(measures: Sequence[Measure]) -> list[str]:
    return [measure.column for measure in measures]


def _best(table: pd.DataFrame) -> list[str]:
    """Of each task who is right most often, and the commonest error of that planner."""
    told = []
    ran = table[table["cells"].notna() & table["success"].notna()]
    for task, own in ran.groupby("task", sort=False, observed=True):
        best: dict[Any, Any] = own.sort_values("success", ascending=False, kind="stable").iloc[0].to_dict()
        rates = {measure.header: best[measure.column] for measure in TABLE_1[2:] if pd.notna(best[measure.column])}
        worst = max(rates, key=lambda name: rates[name], default=None)
        error = f"; its commonest error is {worst} ({100 * rates[worst]:.1f}% of the plans)" if worst else ""
        among = (
            f"of {len(own)} planners {best['planner']} is right most often" if len(own) > 1 else f"{best['planner']}"
        )
        told.append(f"{task}: {among}, in {CORRECT.text(best)}% of {best['cases']:,.0f} cases{error}.")
    return told


def _kinds(cells: pd.DataFrame) -> list[str]:
    counts = cells.groupby(cells["unsolvable_kind"].astype(object))["case_id"].nunique()
    parts = [f"{short} {counts[kind]:,}" for kind, short in KINDS.items() if kind in counts]
    return [f"cases: {', '.join(parts)}"] if parts else []
