"""Baselines that need no model.

They are: the retriever's first tool, the retriever's ceiling, chance, constant answers, fixed ways to end an episode,
and the share of solvable cases.

The first three baselines are computed from first-pass decisions on a followed outline, which record the number of
options and the rank of the reference's tool. These three do not depend on the planner, because only one decision counts
per substep: the one that occurred most often.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from analysis.load.frames import ALL, SETTING
from analysis.load.queries import ask
from grid import store

FIRST, CHANCE, SOLVABLE = "retriever's first", "chance", "solvable cases"
CEILING = "retriever's ceiling"
CONSTANT, BY_FUNCTION = "constant answer", "constant answer by last function"
NOTHING, TRANSFER = "doing nothing", "transfer at once"
OF_CASES = {
    SOLVABLE: "solvable", CONSTANT: "constant_success", BY_FUNCTION: "constant_by_function_success",
    NOTHING: "nothing_success", TRANSFER: "transfer_success",
}  # fmt: skip
"""Baselines whose success is the share of cases for which a column of `episodes` is true, each mapped to its column."""
_COLUMNS = [*SETTING, "cases", "success_mean", "tool_match_rate_mean", "action_accuracy_mean"]
_RETRIEVAL = """SELECT model, dataset, robustness, retriever, pool, planner, count(*) AS cases,
  avg(tool_match) AS tool_match_rate, avg(acted) AS action_accuracy, avg(success) AS success
FROM (WITH f AS MATERIALIZED (SELECT * FROM e WHERE {condition} AND status = 'ok' QUALIFY row_number() OVER (
    PARTITION BY setting_id, dataset_version, code, case_id ORDER BY trial) = 1),
  d AS MATERIALIZED (SELECT * EXCLUDE met FROM (SELECT model, dataset, robustness, retriever, pool, case_id, substep_id,
      tool_required, n_options, reference_rank, count(*) AS met FROM f JOIN steps USING (cell_id)
    WHERE branch = 0 AND tool_required IS NOT NULL AND n_options IS NOT NULL GROUP BY ALL)
    QUALIFY row_number() OVER (PARTITION BY model, dataset, robustness, retriever, pool, case_id, substep_id
      ORDER BY met DESC, n_options, reference_rank NULLS LAST) = 1)
  SELECT model, dataset, robustness, retriever, pool, case_id, 'retriever''s first' AS planner,
    avg(coalesce(reference_rank = 0, false)::INT) FILTER (tool_required) AS tool_match, avg(tool_required::INT) AS acted
  FROM d GROUP BY ALL
  UNION ALL BY NAME
  SELECT model, dataset, robustness, retriever, pool, case_id, 'chance' AS planner,
    avg(if(reference_rank IS NULL, 0, 1 / n_options)) FILTER (tool_required) AS tool_match,
    avg(if(tool_required, 1 - 1 / n_options, 1 / n_options)) AS acted
  FROM d GROUP BY ALL
  UNION ALL BY NAME
  SELECT model, dataset, robustness, retriever, pool, case_id, 'retriever''s ceiling' AS planner,
    avg((reference_rank IS NOT NULL)::INT) FILTER (tool_required) AS tool_match, 1.0 AS acted,
    coalesce(bool_and(reference_rank IS NOT NULL) FILTER (tool_required), true)::INT AS success
  FROM d GROUP BY ALL)
GROUP BY ALL
"""
_OF_CASES = """SELECT model, dataset, robustness, '{name}' AS planner, count(*) AS cases, avg(resolved) AS success
FROM (SELECT model, dataset, robustness, case_id, max({column}::INT) AS resolved
  FROM e WHERE {condition} AND {column} IS NOT NULL GROUP BY ALL)
GROUP BY ALL{having}
"""


def baselines(root: Path, episodes: pd.DataFrame) -> pd.DataFrame:
    """One row per baseline, model, dataset and robustness setting; the column `planner` has the baseline's name.

    `retriever's first` always calls the first tool that it was offered; `chance` chooses every option with the same
    probability. Both have a tool match and an action accuracy, but no arguments, and so no success. `retriever's
    ceiling` is right if the reference's tool was offered, and succeeds if this holds for all calls of a case. The
    success of `solvable cases` is the share of cases that are solvable. `constant answer` gives every question the most
    frequent answer to the training questions; `constant answer by last function` is given the last function of the
    question's program, and gives the most frequent answer to the training questions whose programs end with the same
    function. `doing nothing` ends the episode without a call, and has a row only if it resolves at least one case.
    `transfer at once` makes one call, which transfers the user to a person, and ends. The columns are `SETTING`,
    `cases` and the rates, NaN if not defined. The first three baselines have no row if no outline was followed; every
    other baseline has no row if its column is unknown for all cases.
    """
    steps = decisions(root, episodes)
    found = selects(episodes, steps)
    rows = ask(episodes, "UNION ALL BY NAME ".join(found), steps=steps).rows if found else pd.DataFrame()
    return named(rows)


def decisions(root: Path, episodes: pd.DataFrame) -> pa.Table:
    """First-pass decisions on a followed outline: the rows of the table `steps` that `selects` reads.

    Only the first cell with status `ok` of each case and setting counts. `episodes` are cells in the order of
    `load.episodes`.

    Raises:
        StoreError: the folder cannot be read.
    """
    known = (pc.field("branch") == 0) & pc.field("tool_required").is_valid() & pc.field("n_options").is_valid()
    first = episodes[episodes["status"] == "ok"].drop_duplicates(["setting_id", "dataset_version", "code", "case_id"])
    mine = pc.field("cell_id").isin(pa.array(first["cell_id"], pa.string()))
    return store.read(
        root,
        "steps",
        ["cell_id", "substep_id", "branch", "tool_required", "n_options", "reference_rank"],
        known & mine,
    )


def selects(episodes: pd.DataFrame, steps: pa.Table, condition: str = "true") -> list[str]:
    """The queries of the baselines for which there are data; for each substep the most frequent decision counts.

    Among equally frequent decisions, the one with the fewest options counts; if several have equally few, the one that
    ranks the reference's tool highest.
    """
    having = {NOTHING: " HAVING success > 0"}
    of_cases = [
        _OF_CASES.format(name=name, column=column, condition=condition, having=having.get(name, ""))
        for name, column in OF_CASES.items()
        if episodes[column].notna().any()
    ]
    return [_RETRIEVAL.format(condition=condition)] * (steps.num_rows > 0) + of_cases


def named(found: pd.DataFrame) -> pd.DataFrame:
    """The rows of `selects`, with the full name of each baseline.

    The names of the first three baselines include the retriever if there are several retrievers, and the pool if the
    pool is not `all`.
    """
    if found.empty:
        return pd.DataFrame(columns=_COLUMNS)
    names = found["planner"].astype(str)
    if "retriever" in found:
        of_retrieval = found["retriever"].notna()
        if found["retriever"].nunique() > 1:
            names = names.where(~of_retrieval, names + " / " + found["retriever"].astype(str))
        names = names.where(~of_retrieval | (found["pool"] == ALL), names + " / pool " + found["pool"].astype(str))
    rates = {name: f"{name}_mean" for name in ("success", "tool_match_rate", "action_accuracy")}
    order = found["planner"].map({name: place for place, name in enumerate((FIRST, CHANCE, CEILING, *OF_CASES))})
    ordered = found.assign(planner=names).rename(columns=rates).iloc[np.argsort(order, kind="stable")]
    return ordered.reindex(columns=_COLUMNS).reset_index(drop=True)
