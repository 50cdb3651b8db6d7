"""Tables of agent_planning_benchmark on plans: by task, by cost, with a critique, with extraneous tools, stepwise.

Table 1 comes first: correctness, grades and errors by task, and planners' reactions to broken tools and unsolvable
tasks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.load import SETTING, name_of, places, queries
from analysis.load.queries import Asked
from analysis.page.table import Column, Table, changed, joined, label, named
from analysis.stats import intervals
from analysis.tables import plan_cells
from analysis.tables.measures import Measure, measured
from analysis.tables.plan_cells import BROKEN, EXTRANEOUS, KINDS, METHOD, NAMES, STEPWISE, UNSOLVABLE, data_of
from analysis.tables.plan_cells import STAGES as OTHER_STAGES
from analysis.tables.plan_cells import table as shown
from grid.core.types import BEHAVIOURS, ERRORS

REFUSER = "refuser"
REFUSES = "refuses everything (by definition)"
CORRECT = Measure("success", "CR")
GRADE = Measure("plan_grade", "grade", scale=1.0, form=".2f")
ERROR_RATES = [Measure(error, error) for error in ERRORS]
DIAGNOSIS = [CORRECT, GRADE, *ERROR_RATES]
"""The measures that tables 14 to 17 show for each group."""
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
    "E1: the goal is misunderstood; E2-H: a whole plan leaves something out; E2-S: the predicted next steps "
    "conclude too early; E3: a constraint is broken; E4: a step uses something that is not there yet, or ignores "
    "something that is there; E5: an argument is wrong, or a tool is used for a purpose that it does not serve; E6: a "
    "tool or a piece of data does not exist; a plan may have several errors"
)
_REFUSED = (
    f"{REFUSES}: a computed row, not a planner that ran; it is never right if a plan exists, and always right if "
    "none exists, so refusals must be compared with it"
)
_BEHAVIOURS_TOLD = (
    "what a planner does after a tool broke: Rp: the replacement is called; Al: another tool is called; Rt: the broken "
    "tool is called again; Rf: the task is refused; Ot: anything else; recovered: Rp or Al"
)


_PASSED_TOLD = (
    "share of tasks that are refused explicitly, over all tasks and by kind; Conf: constraints contradict each other; "
    "Info: information is missing; Tool: the tools of a capability are removed; Vis: an attachment is missing (in "
    "the paper: visual input)"
)


def task_tables(root: Path, cells: pd.DataFrame) -> list[Table]:
    """For each model and data set of the benchmark's tasks: plans by task, broken tools, unsolvable tasks."""
    found = []
    for model, dataset, own in places(cells):
        found += _planned(root, own, model, dataset) + _disturbed(root, own, model, dataset)
    return found


def _where(model: str, dataset: str, *families: str) -> str:
    """The condition for cells of one model and data set and of any of the given tasks."""
    return queries.where({"model": [model], "dataset": [dataset], "task_family": families})


def _planned(root: Path, cells: pd.DataFrame, model: str, dataset: str) -> list[Table]:
    asked = plan_cells.cases(cells, _names(TABLE_1), _where(model, dataset, *NAMES), ["task_family"])
    rows, place = asked.rows, f"{model} on {dataset}"
    if rows[["success", "plan_grade"]].isna().all(axis=None):
        return []
    tasks = pd.Categorical(rows["task_family"].map(NAMES), list(NAMES.values()), ordered=True)
    rows = rows.assign(task=tasks).sort_values("task", kind="stable")
    frame = with_refusing(measured(rows, ["task", *SETTING], TABLE_1), ["task"], {"success": 0.0})
    told = f"CR: share of plans that are correct; grade: mean grade of plans, from 0 to 1; {ERRORS_TOLD}"
    return [
        shown(
            root, cells, asked._replace(rows=frame), TABLE_1, told + _refused(frame), bounded=["success"],
            name=f"plans {place}", title=f"{place}: plans by task (agent_planning_benchmark, table 1)",
            by=_labels(frame, "task"), breaks=["task"], reading="\n".join(_best(frame)),
        )
    ]  # fmt: skip


def _disturbed(root: Path, cells: pd.DataFrame, model: str, dataset: str) -> list[Table]:
    found, place = [], f"{model} on {dataset}"
    measures = [Measure("success", "recovered"), *_BEHAVED]
    broken = plan_cells.cases(cells, _names(measures), _where(model, dataset, BROKEN))
    if broken.rows[_names(_BEHAVED)].notna().any(axis=None):
        rates = dict.fromkeys(_names(measures), 0.0) | {"behaved_refuse": 1.0}
        frame = with_refusing(measured(broken.rows, SETTING, measures), [], rates)
        title = f"{place}: behaviour after a tool broke (agent_planning_benchmark, table 1)"
        asked, told = broken._replace(rows=frame), f"{_BEHAVIOURS_TOLD}{_refused(frame)}"
        found.append(shown(root, cells, asked, measures, told, bounded=["success"],
                           name=f"broken {place}", title=title, by=_labels(frame)))  # fmt: skip
    unsolvable = plan_cells.cases(cells, _names(_PASSED), _where(model, dataset, UNSOLVABLE), ["unsolvable_kind"])
    if unsolvable.rows["success"].notna().any():
        frame = measured(unsolvable.rows, SETTING, _PASSED)
        frame = with_refusing(frame, [], dict.fromkeys(_names(_PASSED), 1.0))
        title = f"{place}: tasks that no plan solves (agent_planning_benchmark, table 1)"
        asked, told = unsolvable._replace(rows=frame), _PASSED_TOLD + _refused(frame)
        found.append(shown(root, cells, asked, _PASSED, told, bounded=_names(_PASSED), notes=_kinds(unsolvable.rows),
                           name=f"unsolvable {place}", title=title, by=_labels(frame)))  # fmt: skip
    return found


def with_refusing(frame: pd.DataFrame, by: Sequence[str], rates: Mapping[str, float]) -> pd.DataFrame:
    """Add, at the end of each group, a row for a planner that refuses everything; only its `rates` are known.

    A rate is NaN if no planner of the group has this figure. No row is added if a planner that refuses everything ran.
    """
    if any(name_of(str(planner)) == REFUSER for planner in frame["planner"]):
        return frame
    parts = []
    groups = frame.groupby(list(by), sort=False, observed=True) if by else [((), frame)]
    for _, own in groups:
        last = own.iloc[-1]
        kept = {name: last[name] for name in [*by, *SETTING[:3]]}
        own_rates = {name: rate if pd.notna(own[name]).any() else float("nan") for name, rate in rates.items()}
        counts = {"cases": own["cases"].max(), "clusters": own["clusters"].max()}
        parts += [own, pd.DataFrame([kept | {"planner": REFUSES} | counts | own_rates])]
    return pd.concat(parts, ignore_index=True)


def _labels(frame: pd.DataFrame, *first: str) -> list[Column]:
    """The columns of labels; the robustness setting is one of them if any row is disturbed."""
    several = bool((frame["robustness"].astype(str) != "none").any())
    return [label(name) for name in (*first, *["robustness"] * several, "planner")]


def _refused(frame: pd.DataFrame) -> str:
    return f"; {_REFUSED}" if (frame["planner"] == REFUSES).any() else ""


def _names(measures: Sequence[Measure]) -> list[str]:
    return [measure.column for measure in measures]


def _best(frame: pd.DataFrame) -> list[str]:
    """A sentence for each task: the planner that is right most often, and this planner's most frequent error."""
    told = []
    ran = frame[frame["cells"].notna() & frame["success"].notna()]
    for task, own in ran.groupby("task", sort=False, observed=True):
        best: dict[Any, Any] = own.sort_values("success", ascending=False, kind="stable").iloc[0].to_dict()
        rates = {measure.header: best[measure.column] for measure in TABLE_1[2:] if pd.notna(best[measure.column])}
        worst = max(rates, key=lambda name: rates[name], default=None)
        error = f"; its commonest error is {worst} ({100 * rates[worst]:.1f}% of the plans)" if worst else ""
        among = (
            f"of {len(own)} planners, {best['planner']} is right most often" if len(own) > 1 else f"{best['planner']}"
        )
        told.append(f"{task}: {among}, in {CORRECT.text(best)}% of {best['cases']:,.0f} cases{error}.")
    return told


def _kinds(cases: pd.DataFrame) -> list[str]:
    counts = cases.groupby("unsolvable_kind")["case_id"].nunique()
    parts = [f"{short} {counts[kind]:,}" for kind, short in KINDS.items() if kind in counts]
    return [f"cases by kind: {', '.join(parts)}"] if parts else []


# The costs of plans: over all cases, over solved cases and over cases that every planner solves
# (agent_planning_benchmark, table 5).


def _cost(column: str, header: str) -> Measure:
    return Measure(column, header, "amount", scale=1.0, form=".2f", of_some=True)


COST_MEASURES = [
    *(CORRECT, GRADE),
    *(_cost("plan_cost", "cost, all"), _cost("least_cost", "least")),
    *(_cost("solved_cost", "cost, solved"), _cost("solved_least_cost", "least")),
    *(_cost("common_cost", "cost, common"), _cost("common_least_cost", "least")),
]
_CAPTION = (
    "cost: the sum of the costs of a plan's calls, in the tools' own units, as a mean per case; all: over all cases; "
    "solved: over the cases that this planner solves; common: over the cases that every compared planner and model "
    "solves in every trial; least: the cost of the cheapest plan on the same cases; intervals of costs: "
    f"{intervals.AMOUNTS}"
)


def costs(cells: pd.DataFrame, where: str = "true") -> Asked:
    """One row per setting whose plans have costs: COST_MEASURES with intervals, numbers of `solved` and `common` cases.

    The rows must not be empty: some cell that fulfils `where` has a cost and a least cost.
    """
    priced = "plan_cost IS NOT NULL AND least_cost IS NOT NULL"
    asked = plan_cells.cases(cells, _names(COST_MEASURES), f"{where} AND {priced}")
    frame = measured(asked.rows, SETTING, COST_MEASURES)
    return asked._replace(rows=frame.assign(solved=frame["solved_cost_cases"], common=frame["common_cost_cases"]))


def efficiency_tables(root: Path, cells: pd.DataFrame) -> list[Table]:
    """A table for each data set and robustness setting in which plans have costs, with all planners and models."""
    found = []
    priced = cells[cells["plan_cost"].notna() & cells["least_cost"].notna()]
    for place, own in priced.groupby(["dataset", "robustness"], sort=False, observed=True):
        dataset, robustness = map(str, place)
        under = "" if robustness == "none" else f", robustness {robustness}"
        asked = costs(cells, queries.where({"dataset": [dataset], "robustness": [robustness]}))
        found.append(
            shown(
                root, own, asked, COST_MEASURES, _CAPTION, counts=("cases", "clusters", "solved", "common"),
                bounded=["success", "common_cost"], notes=_alone(asked.rows),
                name=f"costs of plans {dataset} {robustness}",
                title=f"{dataset}{under}: costs of plans (agent_planning_benchmark, table 5)",
                by=["model", "planner"], breaks=["model"], reading="\n".join(_reading(asked.rows)),
            )
        )  # fmt: skip
    return found


def _reading(frame: pd.DataFrame) -> list[str]:
    """A sentence on the cheapest planner on the common cases: how far its cost exceeds the lowest possible cost."""
    common = frame.dropna(subset=["common_cost"])
    common = common[common["common"] > 0]
    if common.empty:
        return ["No case is solved by every planner, so costs cannot be compared on the same solved cases."]
    best = common.sort_values("common_cost", kind="stable").iloc[0].to_dict()
    above = best["common_cost"] - best["common_least_cost"]
    where = f"{best['planner']} ({best['model']})"
    return [
        f"On the {best['common']:,.0f} cases that all planners solve, {where} has the lowest mean cost: "
        f"{best['common_cost']:.2f} per case, {above:.2f} above the least possible cost."
    ]


def _alone(frame: pd.DataFrame) -> list[str]:
    idle = [f"{row['planner']} ({row['model']})" for row in frame.to_dict("records") if not row["solved"]]
    return [f"these planners solve no case, so `common` leaves them out: {', '.join(idle)}"] if idle else []


# Plans before and after a critique (agent_planning_benchmark, table 4).


REFINEMENT_MEASURES = [
    Measure("unrefined_correct", "CR base"),
    Measure("plan_correct", "CR refined"),
    Measure("refined_change", "Δ", "change", form="+.1f"),
    Measure("unrefined_grade", "grade base", scale=1.0, form=".2f"),
    Measure("plan_grade", "refined", scale=1.0, form=".2f"),
]
_REFINEMENT_CAPTION = (
    "base: the plan as it was first written; refined: the plan after critique and rewriting; Δ: paired difference in "
    f"percentage points; its interval: {intervals.TOLD}; better: wrong plans that became correct; worse: correct "
    "plans that became wrong; Self_R: the planner's model criticizes its own plan; Critic_R: another model "
    "criticizes it; +: the critic is told the error taxonomy; −: the critic is not told it"
)


def refined(cells: pd.DataFrame, where: str = "true") -> Asked:
    """One row per task, setting and method: REFINEMENT_MEASURES with intervals, and counts `better` and `worse`."""
    both = "task_family IS NOT NULL AND unrefined_correct IS NOT NULL AND plan_correct IS NOT NULL"
    labels = ["task_family", "replace(planner, ' / refine ' || refine, '') AS base", f"{METHOD} AS method"]
    changes = {"better": "to_better", "worse": "to_worse"}
    asked = plan_cells.cases(cells, _names(REFINEMENT_MEASURES), f"{where} AND {both}", labels, changes)
    rows, keys = asked.rows.sort_values("task_family", kind="stable"), ["task_family", *SETTING, "base", "method"]
    sums = rows.groupby(keys, observed=True)[[*changes]].sum().reset_index()
    return asked._replace(rows=measured(rows, keys, REFINEMENT_MEASURES).merge(sums, on=keys, how="left"))


def refinement_tables(root: Path, cells: pd.DataFrame) -> list[Table]:
    """A table for each model and data set with refined plans; labels that differ only in the task share a table."""
    found = []
    both = cells[cells["unrefined_correct"].notna() & cells["plan_correct"].notna()]
    groups = both.groupby(["model", both["dataset"].astype(str).map(data_of)], sort=False, observed=True)
    for (model, data), own in groups:
        place = f"{model} on {data}"
        where = {"model": [str(model)], "dataset": sorted(map(str, own["dataset"].unique()))}
        asked = refined(cells, queries.where(where))
        frame = asked.rows.assign(task_family=asked.rows["task_family"].map(lambda name: NAMES.get(name, name)))
        found.append(
            shown(
                root, own, asked._replace(rows=frame), REFINEMENT_MEASURES, _REFINEMENT_CAPTION,
                counts=("cases", "clusters", "better", "worse"), bounded=["refined_change"],
                name=f"refinement {place}",
                title=f"{place}: plans before and after refinement (agent_planning_benchmark, table 4)",
                by=[label("task_family", "task"), label("base", "planner"), "method"],
                breaks=["task_family", "base"], reading=joined(_refinement_reading(frame)),
            )
        )  # fmt: skip
    return found


def _refinement_reading(frame: pd.DataFrame) -> list[str]:
    verdicts = ("refinement makes fewer plans correct", "refinement makes more plans correct")
    return [
        f"{row['task_family']}, {row['base']}, {row['method']}: "
        f"{changed(row, 'refined_change', 'refined − base', verdicts)}; "
        f"{row['better']:,.0f} plans became correct, and {row['worse']:,.0f} became wrong"
        for row in frame.to_dict("records")
    ]


# The effect of extraneous tools: plans for cases with these tools next to plans for the same cases without them (tables
# 2, 16 and 17).


USED = Measure("extraneous_calls", "calls per case", "amount", scale=1.0, form=".2f")
EXTRANEOUS_MEASURES = [
    *(USED, Measure("base_success", "CR base"), Measure("success", "CR")),
    *(Measure("extraneous_change", "Δ", "change", form="+.1f"), GRADE, *ERROR_RATES),
]
ALL = "all"
_EXTRANEOUS_CAPTION = (
    "CR base: CR of the same planner on the same cases without extraneous tools; Δ: CR minus CR base, in percentage "
    f"points, paired over cases; its interval: {intervals.TOLD}; TC: the number of calls to extraneous tools over all "
    "cases, as the paper counts them; calls per case: the mean number of these calls; n_e: the number of extraneous "
    "tools"
)


def by_number(cells: pd.DataFrame, where: str = "true") -> Asked:
    """One row per mode, setting and number of extraneous tools, after one row over all numbers (`n_e` is all).

    Columns: `mode`, SETTING, `n_e`, `TC` and EXTRANEOUS_MEASURES with their intervals. The frame is empty, without
    columns, if there are no cases with extraneous tools.
    """
    each = "(SELECT *, unnest([-1, n_extraneous]) AS number FROM e) AS e"
    condition = f"{where} AND task_family = '{EXTRANEOUS}' AND number IS NOT NULL"
    keys = [plan_cells.MODE, "number"]
    asked = plan_cells.cases(cells, _names(EXTRANEOUS_MEASURES), condition, keys, source=each)
    rows = asked.rows.assign(n_e=asked.rows["number"].map(lambda number: ALL if number < 0 else f"{number:g}"))
    frame = measured(rows.sort_values("mode", kind="stable"), ["mode", *SETTING, "n_e"], EXTRANEOUS_MEASURES)
    return asked._replace(
        rows=frame.assign(TC=frame["extraneous_calls"] * frame["extraneous_calls_cases"]) if len(frame) else frame
    )


def extraneous_tables(root: Path, cells: pd.DataFrame) -> list[Table]:
    """A table for each model and data set that has cases with extraneous tools."""
    found = []
    for model, dataset, own in places(cells):
        asked = by_number(own, queries.place(model, dataset))
        if asked.rows.empty:
            continue
        place, frame = f"{model} on {dataset}", asked.rows.assign(mode=asked.rows["mode"].map(NAMES))
        found.append(
            shown(
                root, own, asked._replace(rows=frame), EXTRANEOUS_MEASURES, _EXTRANEOUS_CAPTION,
                counts=("cases", "clusters", "TC"), bounded=["extraneous_change"], notes=_unpaired(frame),
                name=f"extraneous {place}",
                title=f"{place}: plans with extraneous tools (agent_planning_benchmark, tables 2, 16 and 17)",
                by=[label("mode", "planning"), "planner", "n_e"], breaks=["mode", "planner"],
                reading=joined(_extraneous_reading(frame)),
            )
        )  # fmt: skip
    return found


def _extraneous_reading(frame: pd.DataFrame) -> list[str]:
    verdicts = ("fewer plans are correct with extraneous tools", "more plans are correct with extraneous tools")
    own = frame[(frame["n_e"] == ALL) & frame["extraneous_change"].notna()]
    return [
        f"{row['mode']}, {row['planner']}: {changed(row, 'extraneous_change', 'with − without', verdicts)}"
        for row in own.to_dict("records")
    ]


def _unpaired(frame: pd.DataFrame) -> list[str]:
    missing = (frame["cases"] - frame["base_success_cases"])[frame["n_e"] == ALL].max()
    told = f"up to {missing:,.0f} cases of a row have no counterpart without extraneous tools, so Δ leaves them out"
    return [told] if missing else []


# Results for next steps, by the number of steps asked for and by their position in the trajectory (tables 14 and 15,
# figures 5 and 6).


STAGES = ("early", "middle", "late")
HORIZON, STAGE = "horizon_k", "stage"
_TITLES = {
    HORIZON: "next steps by the number of steps to predict (agent_planning_benchmark, table 14)",
    STAGE: "next steps by their stage in the trajectory (agent_planning_benchmark, table 15)",
}
CAPTIONS = {
    HORIZON: "k: the number of steps to predict, without observations between them",
    STAGE: "stage: the part of the reference's trajectory (first, middle or last third) in which the steps are",
}
HEADERS = {HORIZON: "k", STAGE: "stage"}


def profile(cells: pd.DataFrame, column: str, where: str = "true") -> Asked:
    """One row per setting and value of HORIZON or STAGE, in the order of values: DIAGNOSIS with intervals.

    For stages, if there are cases of one step, only these count, as in the paper, because cases of several steps are
    harder at every stage.
    """
    families = (STEPWISE, OTHER_STAGES) if column == STAGE else (STEPWISE,)
    condition = f"{where} AND {queries.where({'task_family': families})} AND {column} IS NOT NULL"
    condition += f" AND {HORIZON} = 1" * _of_one_step(cells, column)
    asked = plan_cells.cases(cells, _names(DIAGNOSIS), condition, [column])
    rows = asked.rows
    if column == STAGE:
        rows = rows.assign(stage=pd.Categorical(rows[STAGE], STAGES, ordered=True))
        rows = rows.sort_values(["model", "dataset", "disturbed", "robustness", "planner", STAGE], kind="stable")
    return asked._replace(rows=measured(rows, [*SETTING, column], DIAGNOSIS))


def several(frame: pd.DataFrame, column: str) -> bool:
    """Whether a profile has two values or more; a single value shows nothing."""
    return len(frame) > 0 and frame[column].nunique() > 1


def stepwise_tables(root: Path, cells: pd.DataFrame) -> list[Table]:
    """For each model and data set, table 14 if the cells have several horizons, and table 15 if several stages."""
    found = []
    for column, title in _TITLES.items():
        every = profile(cells, column).rows
        for model, dataset, _ in places(every if several(every, column) else every[:0]):
            place = f"{model} on {dataset}"
            asked = profile(cells, column, queries.place(model, dataset))
            own = cells[(cells["model"] == model) & (cells["dataset"] == dataset)]
            found.append(
                shown(
                    root, own, asked, DIAGNOSIS, f"{caption(cells, column)}; {ERRORS_TOLD}", bounded=["success"],
                    name=f"{column} {place}", title=f"{place}: {title}",
                    by=["planner", label(column, HEADERS[column])], breaks=["planner"],
                    reading="\n".join(_stepwise_reading(asked.rows, column)),
                )
            )  # fmt: skip
    return found


def caption(cells: pd.DataFrame, column: str) -> str:
    """The caption about HORIZON or STAGE."""
    return CAPTIONS[column] + "; only cases of one step (k = 1) count, as in the paper" * _of_one_step(cells, column)


def _of_one_step(cells: pd.DataFrame, column: str) -> bool:
    """Whether only cases of one step count in a profile."""
    staged = cells["task_family"].astype(object).isin((STEPWISE, OTHER_STAGES)) & cells[STAGE].notna()
    return column == STAGE and bool((cells[HORIZON][staged] == 1).any())


def _stepwise_reading(frame: pd.DataFrame, column: str) -> list[str]:
    measure: Measure = DIAGNOSIS[0]
    lines = []
    for planner, own in frame.groupby("planner", sort=False, observed=True):
        parts = [f"{measure.text(row)}% at {HEADERS[column]} {named(row[column])}" for row in own.to_dict("records")]
        lines.append(f"{planner}: correct in {', '.join(parts)}.")
    return lines


OF_PAPER = "published agent_planning_benchmark "
"""The prefix of the names of the paper's published tables."""


def tables(root: Path) -> list[Table]:
    """Tables 1 to 5 and 14 to 17 in the paper's form, each only if there is data for it.

    Tables 2, 16 and 17 are one table here. Table 5 is made for all data sets whose plans have costs, table 3 for data
    sets other than the benchmark's own, and the other tables for the benchmark's tasks. For other data sets, the
    effects of broken tools and of costs are in `disturbances`.

    Raises:
        StoreError: the folder cannot be read.
    """
    executed, cells = plan_cells.execution_tables(root), plan_cells.read(root)
    if cells.empty:
        return executed
    own = cells[cells["task_family"].notna()]
    return [
        *task_tables(root, own),
        *extraneous_tables(root, own),
        *stepwise_tables(root, own),
        *executed,
        *refinement_tables(root, own),
        *efficiency_tables(root, cells),
    ]
