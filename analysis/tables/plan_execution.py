"""Plans that are executed: direct, planned first, refined first (agent_planning_benchmark §5.1, table 3)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.compute as pc

from analysis import load
from analysis.load import name_of, queries
from analysis.page.table import Table, changed, joined, label
from analysis.stats import intervals
from analysis.stats.intervals import CLUSTER
from analysis.tables.measures import Measure, columns, known, measured, partly
from analysis.tables.plan_cells import SECTION, method
from grid.planners.refining import NOT_REFINED

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


def read(root: Path) -> pd.DataFrame:
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
    refine = cells["refine"].astype(object).fillna(NOT_REFINED).astype(str)
    refined = refine != NOT_REFINED
    labels = cells["planner"].astype(str)
    pairs = zip(refine, cells["config"].astype(object), strict=True)
    methods = [method(label, text) if label != NOT_REFINED else "" for label, text in pairs]
    critics = cells["critic"].astype(object)
    methods = [name if pd.isna(by) else f"{name} by {by}" for name, by in zip(methods, critics, strict=True)]
    reward = cells[REWARD]
    return cells.assign(
        mode=labels.map(name_of).where(~refined, REFINE),
        base=[_base(label) for label in labels],
        method=methods,
        **{REWARD: reward.astype("float64").fillna(cells["success"])},
        **{name: cells[name].astype("float64") for name in _JUDGED},
    )


def _base(label: str) -> str:
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


def tables(root: Path) -> list[Table]:
    """A table for each model whose plans were carried out, beside direct execution or refined.

    Raises:
        StoreError: the folder cannot be read.
    """
    cells = read(root)
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
