"""Episodes whose plans were diagnosed or executed, and their figures in tables (agent_planning_benchmark §3, §5)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pandas as pd
import pyarrow.compute as pc

from analysis import load
from analysis.load import SETTING, provenance, queries
from analysis.load.queries import Asked, ask
from analysis.page.table import Table, changed, joined, label
from analysis.stats import intervals
from analysis.stats.intervals import CLUSTER
from analysis.tables.measures import Measure, columns, known, measured, partly
from grid.core.types import BEHAVIOURS, ERRORS

HOLISTIC, STEPWISE = "holistic", "stepwise"
EXTRANEOUS, BROKEN, UNSOLVABLE, COSTS, STAGES = "extraneous", "broken", "unsolvable", "costs", "stages"
NAMES = {HOLISTIC: "holistic", EXTRANEOUS: "extraneous tools", STEPWISE: "step-wise", COSTS: "cost-aware"}
"""The tasks that ask for a plan, in their order, with their names in tables."""
KINDS = {
    "contradictory_constraints": "Conf",
    "missing_information": "Info",
    "tool_removal": "Tool",
    "attachment_missing": "Vis",
}
"""The reasons why no plan can exist, with their names in the paper's table 1."""
_TASKS = re.compile(r"(?:families=\[[^\]]*\]|horizon=\w+),?")
SOURCES = (
    *("task_family", "task_category", "stage", "unsolvable_kind", "behaviour", "refine", "horizon_k", "n_extraneous"),
    *("extraneous_calls", "unresolved_arguments", "plan_grade", "unrefined_grade", "plan_cost", "least_cost"),
    *("plan_errors", "unrefined_errors", "plan_nodes", "plan_correct", "unrefined_correct", "refused"),
    "judge_contradicted",
)
"""The columns of `episodes` that are read for plans."""
_STEPS = {"up_to_10_steps": (1, 10), "up_to_20_steps": (11, 20), "above_20_steps": (21, 1_000_000)}
"""Bins of the number of the reference's calls (E.1, table 10): the minimum and maximum of each bin."""
MODE = f"if(horizon_k IS NULL, '{HOLISTIC}', '{STEPWISE}') AS mode"
"""The SQL column that tells whether a whole plan or the next steps are wanted."""
_SAME = " AND ".join(f"b.{name} = e.{name}" for name in SETTING)
_MADE_OF = r"'^extraneous-(.+)-\d+$'"


def _plain(column: str) -> str:
    """The SQL for the same planner's mean on the plain case from which a case with extraneous tools was made.

    A case `extraneous-ID-N` was made from the case `ID`. If a case's id has another form, the mean is over the plain
    cases of the same cluster that ask for the same number of steps; a cluster contains the cases of one query.
    """
    mean = (
        f"SELECT avg(b.{column}::DOUBLE) FROM e AS b WHERE {_SAME} AND e.task_family = 'extraneous'\n"  # noqa: S608  names are ours
        "    AND b.task_family = if(b.horizon_k IS NULL, 'holistic', 'stepwise')"
    )
    return (
        f"if(regexp_matches(case_id::VARCHAR, {_MADE_OF}),\n"
        f"    ({mean} AND b.case_id::VARCHAR = regexp_extract(e.case_id::VARCHAR, {_MADE_OF}, 1)),\n"
        f"    ({mean} AND b.cluster = e.cluster AND coalesce(b.horizon_k, 0) = coalesce(e.horizon_k, 0)))"
    )


_COMMON = """success::INT = 1 AND plan_cost IS NOT NULL AND (dataset, robustness, case_id) IN (
    WITH m AS (SELECT model, planner, dataset, robustness, case_id, min(success::INT) AS solved
      FROM e WHERE plan_cost IS NOT NULL GROUP BY ALL),
    a AS (SELECT * FROM m QUALIFY max(solved) OVER (PARTITION BY model, planner, dataset, robustness) = 1),
    b AS (SELECT *, count(DISTINCT (model, planner)) OVER (PARTITION BY dataset, robustness) AS planners FROM a)
    SELECT dataset, robustness, case_id FROM b
      GROUP BY dataset, robustness, case_id HAVING sum(solved) = any_value(planners))"""
"""The SQL condition for common cases; plans without a cost are left out.

A case is common if every planner that solves any case of the data set solves this case in every trial.
"""
DERIVED: Mapping[str, str] = {
    "counted": "1",
    **{name: f"(plan_nodes BETWEEN {least} AND {most})::INT" for name, (least, most) in _STEPS.items()},
    **{error: f"list_contains(plan_errors, '{error}')::INT" for error in ERRORS},
    "E2_holistic": "if(horizon_k IS NULL, list_contains(plan_errors, 'E2')::INT, NULL)",
    "E2_stepwise": "if(horizon_k IS NULL, NULL, list_contains(plan_errors, 'E2')::INT)",
    **{f"behaved_{name}": f"if(behaviour IS NULL, NULL, (behaviour = '{name}')::INT)" for name in BEHAVIOURS},
    **{f"passed_{kind}": f"if(unsolvable_kind = '{kind}', success::INT, NULL)" for kind in KINDS},
    "refined_change": "plan_correct::INT - unrefined_correct::INT",
    "to_better": "(plan_correct::INT > unrefined_correct::INT)::INT",
    "to_worse": "(plan_correct::INT < unrefined_correct::INT)::INT",
    "solved_cost": "if(success::BOOLEAN, plan_cost, NULL)",
    "excess_cost": "if(success::BOOLEAN, plan_cost - least_cost, NULL)",
    "solved_least_cost": "if(success::BOOLEAN, least_cost, NULL)",
    "base_success": _plain("success"),
    "base_grade": _plain("plan_grade"),
    "extraneous_change": f"success::DOUBLE - {_plain('success')}",
    "grade_change": f"plan_grade - {_plain('plan_grade')}",
    "common_cost": f"if({_COMMON}, plan_cost, NULL)",
    "common_least_cost": f"if({_COMMON}, least_cost, NULL)",
}
"""Columns derived from the columns of `episodes`, in SQL; some also read other rows of `e`."""


def read(root: Path) -> pd.DataFrame:
    """One row per cell of the benchmark's tasks, or with a known correctness, behaviour, refusal or cost of its plan.

    It has the columns of `load.episodes` and SOURCES, and the config and provenance of each cell. If there is no such
    cell, the frame is empty and has only the columns `task_family` and SETTING.

    Raises:
        StoreError: the folder cannot be read.
    """
    known = pc.field("task_family").is_valid()
    for name in ("plan_correct", "behaviour", "refused", "plan_cost"):
        known = known | pc.field(name).is_valid()
    if not load.rows(root, ["cell_id"], known).num_rows:
        return pd.DataFrame(columns=["task_family", *SETTING])
    return load.episodes(root, [provenance.ENGINE, *provenance.COLUMNS, "config", *SOURCES], known)


def cases(
    cells: pd.DataFrame,
    columns: Sequence[str],
    condition: str,
    keys: Sequence[str] = (),
    sums: Mapping[str, str] = MappingProxyType({}),
    source: str = "e",
) -> Asked:
    """Each case's means of columns from `episodes` or DERIVED, taken over the rows of `read` as in `queries.of_cases`.

    `sums` maps names to the columns that are summed. `source` is the SQL of the table to read, if this is not just `e`.
    """
    further = [f"sum({DERIVED.get(column, column)}) AS {name}" for name, column in sums.items()]
    values = {name: DERIVED.get(name, name) for name in columns}
    return ask(cells, queries.of_cases(values, condition, keys, further, source))


def within(cells: pd.DataFrame, **further: Sequence[str]) -> str:
    """The condition for rows with the models and data sets of the given cells, plus further conditions on values."""
    return queries.where({name: sorted(map(str, cells[name].unique())) for name in ("model", "dataset")} | further)


def scorers(cells: pd.DataFrame) -> str:
    """The scorers of the plans, from the settings' configs; a text that says so if no config names a scorer."""
    texts = cells["config"].dropna().unique()
    names = {(json.loads(text).get("dataset") or {}).get("scorer") for text in texts}
    return ", ".join(sorted(str(name) for name in names if name)) or "the data set's own"


METHOD = """upper(left(refine, 1)) || lower(substr(split_part(refine, '[', 1), 2)) || '_R' ||
    if(coalesce((config::VARCHAR->'refine'->>'taxonomy') = 'true', refine NOT ILIKE '%taxonomy=false%'), '+', '-')"""
"""SQL for the paper's refinement names: Self_R or Critic_R, with + if the critic gets the error taxonomy, else -."""


def data_of(label: str) -> str:
    """A data set's label without the keys that choose tasks, because the rows of a table name the tasks."""
    return _TASKS.sub("", label).replace(",]", "]").replace("[]", "")


# The common parts of all tables of plans: rows, query, section, and texts about scorers and engines.


SECTION = "Plans diagnosed"
COMMON = (
    f"means over cases in %, with 95% intervals in brackets ({intervals.SHARES}; for differences: Student's t; for "
    "amounts: Student's t on the logarithm of the mean, so no bound is below 0; a terminal leaves some intervals out)"
)


def table(
    root: Path,
    cells: pd.DataFrame,
    found: Asked,
    measures: Sequence[Measure],
    about: str,
    *,
    counts: Sequence[str] = ("cases", "clusters"),
    bounded: Sequence[str] = (),
    notes: Sequence[str] = (),
    **told: Any,
) -> Table:
    """A table with the measures' columns, from the rows of `found`, and with the query of these rows.

    In the caption, `about` follows the text that all these tables share. `notes` follow the notes on measures that are
    known only for some cases. `bounded` are the columns whose intervals a terminal shows too. `told` are further
    arguments for `Table`.
    """
    return Table(
        columns=columns(found.rows, measures, counts, bounded),
        values=found.rows,
        query=queries.of_files(root, found.query),
        about=f"scored by: {scorers(cells)}; {COMMON}; {about}",
        notes=[*partly(found.rows, known(found.rows, measures)), *notes],
        section=SECTION,
        **told,
    )


# Plans that are executed: direct, planned first, refined first (agent_planning_benchmark §5.1, table 3).


DIRECT, PLAN_FIRST, REFINE = "direct", "plan_first", "refined"
ALL_DATA = "all of these"
"""The label for all data sets taken together."""
REWARD, _MODES = "reward", (DIRECT, PLAN_FIRST, REFINE)
_JUDGED = ("unrefined_correct", "plan_correct", "unrefined_grade", "plan_grade")
_PLACE = ["model", "robustness", "base", "method", "dataset"]
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
    "mean reward, or execution success if a data set has no reward, with 95% intervals in brackets "
    f"({intervals.SHARES}; for differences: {intervals.TOLD}); differences are paired, over the cases that both modes "
    "have; direct: no plan; plan-first: a whole plan is written and then carried out decision by decision; refine: "
    "as plan-first, but the draft is criticized and rewritten before it is carried out; same draft: the share of "
    "pairs of plan-first and refine cells whose drafts are the same text; CR, grade: the share of correct plans and "
    "the plans' mean grade in the mode refine, before and after the critique, if an evaluator judged plans"
)


def executed(root: Path) -> pd.DataFrame:
    """The cells of the three modes in which tasks were carried out; tasks of the benchmark are left out.

    Raises:
        StoreError: the folder cannot be read.
    """
    of_modes = pc.match_substring_regex(pc.field("planner"), rf"^({DIRECT}|{PLAN_FIRST})(\[|$)")
    further = ["config", "refine", "draft", "task_family", REWARD, *_JUDGED]
    return load.episodes(root, further, of_modes & ~pc.field("task_family").is_valid())


_BASE = r"""trim(regexp_replace(regexp_replace(regexp_replace(planner,
    ' / refine [^/]*?( /|$)', '\1'), ' / critic [^/]*?( /|$)', '\1'), '^(direct|plan_first)', ''), ' /')"""
"""The SQL for a planner's label without the mode, the refinement and the refinement's critic."""
_PAIRED = f"""WITH k AS (SELECT *, coalesce({REWARD}::DOUBLE, success::DOUBLE) AS got, {_BASE} AS base,
    coalesce(refine, '{load.UNCHANGED}') <> '{load.UNCHANGED}' AS written_again,
    if(written_again, '{REFINE}', regexp_extract(planner, '^\\w+')) AS mode,
    if(written_again, {METHOD} || coalesce(' by ' || critic, ''), NULL) AS way
  FROM e WHERE {{where}} AND task_family IS NULL AND regexp_matches(planner, '^({DIRECT}|{PLAN_FIRST})(\\[| |$)')),
m AS (SELECT DISTINCT model, dataset, robustness, base, way AS method FROM k WHERE written_again),
t AS (SELECT model, dataset, robustness, base, coalesce(method, '') AS method, cluster, case_id, trial,
    {{modes}},
    any_value(draft) FILTER (mode = '{PLAN_FIRST}') AS draft, any_value(draft) FILTER (written_again) AS redrafted,
    {{judged}}
  FROM k LEFT JOIN m USING (model, dataset, robustness, base)
  WHERE NOT written_again OR way = method GROUP BY ALL)
SELECT model, dataset, robustness <> 'none' AS disturbed, robustness, base, method, cluster, case_id, count(*) AS cells,
  {{means}}
FROM t GROUP BY ALL ORDER BY ALL"""  # noqa: S608  names are ours


def paired(cells: pd.DataFrame, where: str = "true") -> Asked:
    """Each case's means over trials: the reward in each mode, paired differences, and figures of the plans.

    One row per place (model, robustness, `base`, `method` and data set) and case; if a place has several data sets,
    rows for all data sets together follow. `base` is the rest of a planner's label (changed keys, a retriever),
    `method` is the kind of refinement. If a cell's reward is not known, its success is used.
    """
    values = {mode: mode for mode in _MODES} | {
        "plan_gain": f"{PLAN_FIRST} - {DIRECT}",
        "refine_gain": f"{REFINE} - {PLAN_FIRST}",
        "same_draft": "(draft = redrafted)::INT",
        **{name: name for name in _JUDGED},
    }
    query = _PAIRED.format(
        where=where,
        modes=", ".join(f"any_value(got) FILTER (mode = '{mode}') AS {mode}" for mode in _MODES),
        judged=", ".join(f"any_value({name}) FILTER (written_again) AS {name}" for name in _JUDGED),
        means=", ".join(f"avg(({text})::DOUBLE) AS {name}" for name, text in values.items()),
    )
    asked = ask(cells, query)
    frame = asked.rows.astype(dict.fromkeys(("dataset", CLUSTER, "case_id"), str))
    groups = frame.groupby(_PLACE[:-1], sort=False, observed=True)["dataset"]
    several = frame[groups.transform("nunique") > 1]
    apart = {name: several["dataset"] + "/" + several[name] for name in (CLUSTER, "case_id")}
    return Asked(pd.concat([frame, several.assign(dataset=ALL_DATA, **apart)], ignore_index=True), asked.query)


def execution_tables(root: Path) -> list[Table]:
    """A table for each model that ran in one of the three modes, if at least two modes were run.

    Raises:
        StoreError: the folder cannot be read.
    """
    cells = executed(root)
    found = []
    for model, own in cells.groupby("model", sort=False, observed=True):
        rows, query = paired(own, queries.where({"model": [str(model)]}))
        found.append((own, Asked(measured(rows, _PLACE, MEASURES), query)))
    ran = {mode for _, asked in found for mode in _MODES if asked.rows[f"{mode}_cases"].any()}
    return [_executed(root, own, asked) for own, asked in found if len(ran) > 1]


def _executed(root: Path, cells: pd.DataFrame, asked: Asked) -> Table:
    frame, model = asked.rows, str(asked.rows["model"].iloc[0])
    told = {"dataset": "data set", "robustness": "robustness", "base": "keys", "method": "refined by"}
    labels = {name: header for name, header in told.items() if name == "dataset" or frame[name].nunique() > 1}
    if "method" not in labels and frame["method"].iloc[0]:
        labels["method"] = told["method"]
    return Table(
        name=f"execution {model}",
        title=f"{model}: executable validation of plans (agent_planning_benchmark, table 3)",
        by=[label(name, header) for name, header in labels.items()],
        columns=columns(frame, MEASURES, bounded=["plan_gain", "refine_gain"]),
        values=frame,
        query=queries.of_files(root, asked.query),
        about=_CAPTION,
        notes=partly(frame, known(frame, MEASURES)),
        breaks=["dataset"] if len(labels) > 1 else (),
        reading=joined(_reading(frame)),
        section=SECTION,
    )


def _reading(frame: pd.DataFrame) -> list[str]:
    """Sentences about each row's differences; rewards, from 0 to 1, are given in points."""
    compared: dict[str, tuple[str, tuple[str, str]]] = {
        "plan_gain": ("plan-first − direct", ("planning first lowers the reward", "planning first raises the reward")),
        "refine_gain": (
            "refine − plan-first",
            ("refining the plan lowers the reward", "refining the plan raises the reward"),
        ),
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
