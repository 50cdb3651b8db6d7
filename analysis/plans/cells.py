"""The episodes whose plans were diagnosed, and what tables of plans count of them (agent_planning_benchmark §3)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.compute as pc

from analysis import load, planted, provenance
from analysis.intervals import CLUSTER
from analysis.load import SETTING
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
    columns = [planted.ENGINE, *provenance.COLUMNS, "config", *SOURCES]
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
