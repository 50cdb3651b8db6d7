"""Episodes whose plans were diagnosed or executed, and what tables count of them (agent_planning_benchmark §3, §5)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.compute as pc

from analysis import load
from analysis.load import SETTING, name_of, provenance, queries
from analysis.page.table import Table, changed, joined, label
from analysis.stats import intervals
from analysis.stats.intervals import CLUSTER
from analysis.tables.measures import Measure, columns, known, measured, partly
from grid.core.types import BEHAVIOURS, ERRORS

HOLISTIC, STEPWISE = "holistic", "stepwise"
EXTRANEOUS, BROKEN, UNSOLVABLE, COSTS, STAGES = "extraneous", "broken", "unsolvable", "costs", "stages"
NAMES = {HOLISTIC: "holistic", EXTRANEOUS: "extraneous tools", STEPWISE: "step-wise", COSTS: "cost-aware"}
"""What tables call the tasks in which something is planned, in their order."""
KINDS = {
    "contradictory_constraints": "Conf",
    "missing_information": "Info",
    "tool_removal": "Tool",
    "attachment_missing": "Vis",
}
"""Why no plan can exist, and what the paper's table 1 calls it."""
_MADE_OF = r"^extraneous-(.+)-\d+$"
_TASKS = re.compile(r"(?:families=\[[^\]]*\]|horizon=\w+),?")
_FLAGS = ("plan_correct", "unrefined_correct", "refused", "judge_contradicted")
SOURCES = (
    *("task_family", "task_category", "stage", "unsolvable_kind", "behaviour", "refine", "horizon_k", "n_extraneous"),
    *("extraneous_calls", "unresolved_arguments", "plan_grade", "unrefined_grade", "plan_cost", "least_cost"),
    *("plan_errors", "unrefined_errors", "plan_nodes", *_FLAGS),
)
"""The columns of `episodes` that are read for plans."""
_STEPS = {"up_to_10_steps": (1, 10), "up_to_20_steps": (11, 20), "above_20_steps": (21, 1_000_000)}
"""Bins of the reference's calls (E.1, table 10): the least and the most of each."""
DERIVED: Mapping[str, str] = {
    "counted": "1",
    **{name: f"(plan_nodes BETWEEN {least} AND {most})::INT" for name, (least, most) in _STEPS.items()},
    **{error: f"list_contains(plan_errors, '{error}')::INT" for error in ERRORS},
    "E2_holistic": "if(horizon_k IS NULL, list_contains(plan_errors, 'E2')::INT, NULL)",
    "E2_stepwise": "if(horizon_k IS NULL, NULL, list_contains(plan_errors, 'E2')::INT)",
    **{f"behaved_{name}": f"if(behaviour IS NULL, NULL, (behaviour = '{name}')::INT)" for name in BEHAVIOURS},
    **{f"passed_{kind}": f"if(unsolvable_kind = '{kind}', success::INT, NULL)" for kind in KINDS},
    "refined_change": "plan_correct::INT - unrefined_correct::INT",
    "to_better": "(plan_correct AND NOT unrefined_correct)::INT",
    "to_worse": "(unrefined_correct AND NOT plan_correct)::INT",
    "solved_cost": "if(success, plan_cost, NULL)",
    "excess_cost": "if(success, plan_cost - least_cost, NULL)",
    **dict.fromkeys(("base_success", "extraneous_change", "base_grade", "grade_change"), ""),
    "common_cost": "",
    "common_least_cost": "",
    "solved_least_cost": "if(success, least_cost, NULL)",
}
"""What is worked out of them, and the same in SQL; none where it takes other rows too."""


def read(root: Path) -> pd.DataFrame:
    """One row a cell that is of a task of the benchmark, or whose plan was diagnosed, refused or priced.

    The columns are those of `load.episodes`, SOURCES, DERIVED and `mode`: whether a whole plan or the next steps are
    wanted.

    Raises:
        StoreError: the folder cannot be read.
    """
    known = pc.field("task_family").is_valid()
    for name in ("plan_correct", "behaviour", "refused", "plan_cost"):
        known = known | pc.field(name).is_valid()
    if not load.rows(root, ["cell_id"], known).num_rows:
        return pd.DataFrame(columns=["task_family", *SETTING])
    columns = [provenance.ENGINE, *provenance.COLUMNS, "config", *SOURCES]
    return load.once(root, "plans", lambda: derived(load.episodes(root, columns, known)))


def derived(cells: pd.DataFrame) -> pd.DataFrame:
    """With the columns DERIVED and `mode`; flags become floats, NaN where not known."""
    cells = cells.assign(**{name: cells[name].astype("float64") for name in _FLAGS})
    stepwise = cells["horizon_k"].notna()
    found: dict[str, pd.Series[Any]] = {"mode": stepwise.map({True: STEPWISE, False: HOLISTIC})}
    errors = cells["plan_errors"]
    known = errors.notna()
    for error in ERRORS:
        found[error] = _where(known, errors[known].map(lambda held, name=error: float(name in held)))
    found["E2_holistic"], found["E2_stepwise"] = found["E2"].where(~stepwise), found["E2"].where(stepwise)
    behaved = cells["behaviour"].astype(object)
    for name in BEHAVIOURS:
        found[f"behaved_{name}"] = (behaved == name).astype("float64").where(behaved.notna())
    steps = cells["plan_nodes"]
    found["counted"] = pd.Series(1.0, index=cells.index)
    for name, (least, most) in _STEPS.items():
        found[name] = steps.between(least, most).astype("float64").where(steps.notna())
    kinds = cells["unsolvable_kind"].astype(object)
    found |= {f"passed_{kind}": cells["success"].where(kinds == kind) for kind in KINDS}
    change = cells["plan_correct"] - cells["unrefined_correct"]
    found |= {"refined_change": change, "to_better": _is(change, 1), "to_worse": _is(change, -1)}
    solved = cells["success"] == 1
    for name in ("plan_cost", "least_cost"):
        found[f"solved_{name.removeprefix('plan_')}"] = cells[name].where(solved)
    found["excess_cost"] = found["solved_cost"] - cells["least_cost"]
    common = solved & commonly_solved(cells)
    found |= {"common_cost": cells["plan_cost"].where(common), "common_least_cost": cells["least_cost"].where(common)}
    cells = cells.assign(**found)
    base, grade = _base(cells, "success"), _base(cells, "plan_grade")
    changes = {"extraneous_change": cells["success"] - base, "grade_change": cells["plan_grade"] - grade}
    return cells.assign(base_success=base, base_grade=grade, **changes)


def commonly_solved(cells: pd.DataFrame) -> pd.Series[bool]:
    """Whether a cell's case is solved in every trial of every model and planner that solves any case of its data set.

    Only plans with a cost count; whoever solves nothing would leave no case in common, and is left out.
    """
    priced = cells[cells["plan_cost"].notna()]
    place = ["dataset", "robustness"]
    means = priced.groupby([*SETTING, "case_id"], observed=True)["success"].min().reset_index()
    able = means.groupby(SETTING, observed=True)["success"].transform("max") == 1
    means = means[able]
    planners = means.drop_duplicates(SETTING).groupby(place, observed=True).size().rename("planners")
    solved = means[means["success"] == 1].groupby([*place, "case_id"], observed=True).size().rename("solved")
    both = solved.reset_index().merge(planners.reset_index(), on=place)
    common = both[both["solved"] == both["planners"]]
    keys = pd.MultiIndex.from_frame(cells[[*place, "case_id"]].astype(str))
    found = keys.isin(pd.MultiIndex.from_frame(common[[*place, "case_id"]].astype(str)))
    return pd.Series(found, index=cells.index) & cells["plan_cost"].notna()


def _base(cells: pd.DataFrame, column: str) -> pd.Series[float]:
    """Of each cell with extraneous tools the same planner's mean of a column on its case without them; else NaN.

    A case `extraneous-ID-N` was made of the case ID. Where ids do not say so, the plain cases of its cluster are it
    that ask for as many steps: those of one query.
    """
    family = cells["task_family"].astype(object)
    like = [*SETTING, CLUSTER, "wanted"]
    cells = cells.assign(wanted=cells["horizon_k"].astype("float64").fillna(0))
    own = cells.loc[family == EXTRANEOUS, [*like, "case_id"]].astype(str)
    plain = cells.loc[family == cells["mode"], [*like, "case_id", column]]
    if own.empty or plain.empty:
        return pd.Series(float("nan"), index=cells.index)
    plain = plain.astype(dict.fromkeys([*like, "case_id"], str))
    named = own["case_id"].str.extract(_MADE_OF, expand=False)
    plain = plain.rename(columns={column: "base"})
    by_id = _looked_up(own.assign(case_id=named), plain, [*SETTING, "case_id"])
    by_cluster = _looked_up(own, plain, like)
    return by_id.where(named.notna(), by_cluster).reindex(cells.index)


def _looked_up(own: pd.DataFrame, plain: pd.DataFrame, keys: list[str]) -> pd.Series[float]:
    means = plain.groupby(keys)["base"].mean().reset_index()
    merged = own[keys].merge(means, on=keys, how="left")
    return pd.Series(merged["base"].to_numpy("float64"), index=own.index)


def scorers(cells: pd.DataFrame) -> str:
    """By whom the plans were scored, as the settings' configs say it."""
    names = {_at(text, "dataset", "scorer") for text in cells["config"].astype(object).unique()}
    return ", ".join(sorted(str(name) for name in names if name)) or "the data set's own"


def data_of(label: str) -> str:
    """A data set's label without the keys that choose tasks, which the rows of a table tell."""
    return _TASKS.sub("", label).replace(",]", "]").replace("[]", "")


def method(refine: str, config: str) -> str:
    """The paper's name of a refinement: Self_R or Critic_R, with + where the error taxonomy is told, else -."""
    name = refine.partition("[")[0]
    taxonomy = _at(config, "refine", "taxonomy")
    if taxonomy is None:
        taxonomy = "taxonomy=false" not in refine.lower()
    return f"{name.capitalize()}_R{'+' if taxonomy else '-'}"


def _at(config: Any, *keys: str) -> Any:
    found: Any = json.loads(config) if isinstance(config, str) else None
    for key in keys:
        found = found.get(key) if isinstance(found, dict) else None
    return found


def _where(known: pd.Series[bool], values: pd.Series[float]) -> pd.Series[float]:
    return values.reindex(known.index).astype("float64")


def _is(values: pd.Series[float], wanted: float) -> pd.Series[float]:
    return (values == wanted).astype("float64").where(values.notna())


# What all tables of plans share: their rows, query, section, and what is told of scorers and engines.


SECTION = "Plans diagnosed"
KEYS = ("task_family", "horizon_k", "stage", "n_extraneous", "unsolvable_kind")
"""The columns of `episodes` by which tables of plans tell cases apart."""
COMMON = (
    f"means over cases in %, in brackets 95% intervals ({intervals.SHARES}; of differences Student's t, of amounts "
    "that of the mean's logarithm, so that none is below 0; the terminal leaves some out)"
)


def table(
    root: Path,
    cells: pd.DataFrame,
    measures: Sequence[Measure],
    found: Table,
    *,
    counts: Sequence[str] = ("cases", "clusters"),
    bounded: Sequence[str] = (),
) -> Table:
    """A table of some cells, with the columns of its measures; its query gives each case's means.

    `found` has the rows as its values; what it says of itself stands behind what all these tables say. `bounded` are
    the columns whose intervals a terminal shows too.
    """
    shown = known(found.values, measures)
    return replace(
        found,
        columns=columns(found.values, measures, counts, bounded),
        query=query(root, cells, [measure.column for measure in shown]),
        about=f"scored by: {scorers(cells)}; {COMMON}; {found.about}",
        notes=[*partly(found.values, shown), *found.notes],
        section=SECTION,
    )


def query(root: Path, cells: pd.DataFrame, columns: Sequence[str]) -> str:
    """Each case's means of what a table counts, by setting and kind of task."""
    values = {name: DERIVED.get(name, name) for name in columns}
    values = {name: text for name, text in values.items() if text} or {"success": "success"}
    where = {name: sorted(map(str, cells[name].unique())) for name in ("model", "dataset")}
    return queries.by_case(root, values, queries.where(where), KEYS)


# Plans that are executed: direct, planned first, refined first (agent_planning_benchmark §5.1, table 3).


DIRECT, PLAN_FIRST, REFINE = "direct", "plan_first", "refined"
ALL_DATA = "all of these"
"""What stands for the data sets where all are taken together."""
REWARD = "reward"
_JUDGED = ("unrefined_correct", "plan_correct", "unrefined_grade", "plan_grade")
_PLACE = ["model", "robustness", "base", "method", "dataset"]
_CASE = [CLUSTER, "case_id", "trial"]
MEASURES = [
    Measure(DIRECT, "direct", scale=1.0, form=".3f"),
    Measure(PLAN_FIRST, "plan-first", scale=1.0, form=".3f"),
    Measure(REFINE, "refine", scale=1.0, form=".3f"),
    Measure("plan_gain", "plan-first − direct", "change", 1.0, "+.3f", of_some=True),
    Measure("refine_gain", "refine − plan-first", "change", 1.0, "+.3f", of_some=True),
    Measure("same_draft", "same draft, %", of_some=True),
    Measure("unrefined_correct", "CR before, %", of_some=True),
    Measure("plan_correct", "after, %", of_some=True),
    Measure("unrefined_grade", "grade before", scale=1.0, form=".2f", of_some=True),
    Measure("plan_grade", "after", scale=1.0, form=".2f", of_some=True),
]
_CAPTION = (
    "mean reward, or execution success where a data set has no reward, in brackets 95% intervals "
    f"({intervals.SHARES}; of differences: {intervals.TOLD}); differences are paired, over the cases that both modes "
    "have; direct: no plan; plan-first: a whole plan is written, then carried out decision by decision; refine: the "
    "same with the draft criticised and rewritten before it is carried out; same draft: pairs of cells of plan-first "
    "and refine whose draft is the same text; CR and grade: of the plan of refine before the critique and after, "
    "where an evaluator judged plans"
)


def executed(root: Path) -> pd.DataFrame:
    """The cells of the three modes whose work was carried out, with `mode`, `base` and `method`.

    `base` is what else a planner's label tells (changed keys, a retriever), `method` how plans are refined. `reward`
    is the success where none is known.

    Raises:
        StoreError: the folder cannot be read.
    """
    of_modes = pc.match_substring_regex(pc.field("planner"), rf"^({DIRECT}|{PLAN_FIRST})(\[|$)")
    further = ["config", "refine", "draft", REWARD, *_JUDGED]
    cells = load.episodes(root, further, of_modes & ~pc.field("task_family").is_valid())
    if cells.empty:
        return cells
    refine = cells["refine"].astype(object).fillna(load.UNCHANGED).astype(str)
    refined = refine != load.UNCHANGED
    labels = cells["planner"].astype(str)
    pairs = zip(refine, cells["config"].astype(object), strict=True)
    methods = [method(label, text) if label != load.UNCHANGED else "" for label, text in pairs]
    critics = cells["critic"].astype(object)
    methods = [name if pd.isna(by) else f"{name} by {by}" for name, by in zip(methods, critics, strict=True)]
    reward = cells[REWARD]
    return cells.assign(
        mode=labels.map(name_of).where(~refined, REFINE),
        base=[_plan_execution_base(label) for label in labels],
        method=methods,
        **{REWARD: reward.astype("float64").fillna(cells["success"])},
        **{name: cells[name].astype("float64") for name in _JUDGED},
    )


def _plan_execution_base(label: str) -> str:
    """What a planner's label tells besides the mode, the refinement and its critic."""
    own = re.sub(r" / (refine|critic) [^/]*(?= /|$)", "", label)
    return re.sub(rf"^({DIRECT}|{PLAN_FIRST})", "", own).strip(" /")


def paired(cells: pd.DataFrame) -> pd.DataFrame:
    """One row a place, case and trial: the reward of each mode, differences, and what is known of the plans."""
    found = []
    for (model, robustness, base, dataset), own in cells.groupby(
        ["model", "robustness", "base", "dataset"], observed=True, sort=False
    ):
        methods = sorted(set(own.loc[own["mode"] == REFINE, "method"])) or [""]
        for name in methods:
            place = {"model": model, "robustness": robustness, "base": base, "method": name, "dataset": str(dataset)}
            found.append(_side_by_side(own, name).assign(**place))
    frame = pd.concat(found, ignore_index=True)
    groups = frame.groupby(_PLACE[:-1], sort=False)["dataset"]
    several = frame[groups.transform("nunique") > 1]
    apart = {name: several["dataset"] + "/" + several[name].astype(str) for name in (CLUSTER, "case_id")}
    return pd.concat([frame, several.assign(dataset=ALL_DATA, **apart)], ignore_index=True)


def _side_by_side(cells: pd.DataFrame, method_name: str) -> pd.DataFrame:
    """The three modes of one place, refined by one method, a row a case and trial."""
    modes = {}
    for mode in (DIRECT, PLAN_FIRST, REFINE):
        own = cells[cells["mode"] == mode]
        own = own[own["method"] == method_name] if mode == REFINE else own
        keys = [own[name].astype(str) if name != "trial" else own[name] for name in _CASE]
        modes[mode] = own.set_index(keys)
    wide = pd.concat({mode: own[REWARD] for mode, own in modes.items()}, axis=1)
    refined = modes[REFINE].reindex(wide.index)
    first = modes[PLAN_FIRST]["draft"].reindex(wide.index).astype(object)
    both = first.notna() & refined["draft"].notna()
    return wide.assign(
        plan_gain=wide[PLAN_FIRST] - wide[DIRECT],
        refine_gain=wide[REFINE] - wide[PLAN_FIRST],
        same_draft=(first == refined["draft"]).astype("float64").where(both),
        **{name: refined[name] for name in _JUDGED},
    ).reset_index()


def execution_tables(root: Path) -> list[Table]:
    """A table for each model whose plans were carried out, beside direct execution or refined.

    Raises:
        StoreError: the folder cannot be read.
    """
    cells = executed(root)
    if cells.empty or cells["mode"].nunique() < 2:
        return []
    frame = measured(paired(cells), _PLACE, MEASURES)
    return [
        _table(root, cells[cells["model"] == model], own.reset_index(drop=True))
        for model, own in frame.groupby("model", sort=False, observed=True)
    ]


def _table(root: Path, cells: pd.DataFrame, frame: pd.DataFrame) -> Table:
    model = str(frame["model"].iloc[0])
    told = {"dataset": "data set", "robustness": "robustness", "base": "keys", "method": "refined by"}
    labels = {name: header for name, header in told.items() if name == "dataset" or frame[name].nunique() > 1}
    if "method" not in labels and frame["method"].iloc[0]:
        labels["method"] = told["method"]
    shown = known(frame, MEASURES)
    return Table(
        name=f"execution {model}",
        title=f"{model}: executable validation of plans (agent_planning_benchmark, table 3)",
        by=[label(name, header) for name, header in labels.items()],
        columns=columns(frame, MEASURES, bounded=["plan_gain", "refine_gain"]),
        values=frame,
        query=_query(root, cells, shown),
        about=_CAPTION,
        notes=partly(frame, shown),
        breaks=["dataset"] if len(labels) > 1 else (),
        reading=joined(_reading(frame)),
        section=SECTION,
    )


def _query(root: Path, cells: pd.DataFrame, shown: Sequence[Measure]) -> str:
    """Each case's means of what the table counts, by setting."""
    reward = f"coalesce({REWARD}, success::INT)"
    values = {"mean_reward": reward} | {one.column: one.column for one in shown if one.column in _JUDGED}
    where = {name: sorted(map(str, cells[name].unique())) for name in ("model", "dataset")}
    return queries.by_case(root, values, queries.where(where), ["trial", "draft"])


def _reading(frame: pd.DataFrame) -> list[str]:
    """What each row's differences say; rewards of 0 and 1 are told in points."""
    compared: dict[str, tuple[str, tuple[str, str]]] = {
        "plan_gain": ("plan-first − direct", ("a plan first costs reward", "a plan first gains reward")),
        "refine_gain": ("refine − plan-first", ("refining the plan costs reward", "refining the plan gains reward")),
    }
    found = []
    for row in frame.to_dict("records"):
        place = ", ".join(str(row[name]) for name in ("dataset", "robustness", "base", "method") if _tells(row[name]))
        told = [
            changed(row, column, label, verdicts)
            for column, (label, verdicts) in compared.items()
            if pd.notna(row[column])
        ]
        if told:
            found.append(f"{place}: {'; '.join(told)}")
    return found


def _tells(value: Any) -> bool:
    return bool(value) and value != load.UNCHANGED
