"""What needs no model: the retriever's first and its ceiling, chance, constant answers and ends, solvable cases.

The first three come from the first passes' decisions on a followed outline, which know how many options there were and
where the reference's tool stood. No planner matters: of a substep one decision counts, the one that most settings met.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from analysis.load.frames import ALL, SETTING
from grid import store

FIRST, CHANCE, SOLVABLE = "retriever's first", "chance", "solvable cases"
CEILING = "retriever's ceiling"
CONSTANT, BY_FUNCTION = "constant answer", "constant answer by last function"
NOTHING, TRANSFER = "doing nothing", "transfer at once"
OF_CASES = {
    SOLVABLE: "solvable", CONSTANT: "constant_success", BY_FUNCTION: "constant_by_function_success",
    NOTHING: "nothing_success", TRANSFER: "transfer_success",
}  # fmt: skip
"""The baselines whose success is the share of cases of which a column of `episodes` is true."""
PLACE = ["model", "dataset", "robustness"]
_FOUND = [*PLACE, "retriever", "pool"]
_SUBSTEP = [*_FOUND, "case_id", "substep_id"]
_CELL = ["setting_id", "dataset_version", "code", "case_id"]
_DECISION = ["tool_required", "n_options", "reference_rank"]
_COLUMNS = [*SETTING, "cases", "success_mean", "tool_match_rate_mean", "action_accuracy_mean"]


def baselines(root: Path, episodes: pd.DataFrame) -> pd.DataFrame:
    """A row for each baseline of each model, dataset and robustness setting, named in the column `planner`.

    `retriever's first` always calls the first tool that it was offered; `chance` takes any option with the same
    probability. Both have a tool match and an action accuracy, but no arguments, and so no success. `retriever's
    ceiling` is right wherever the reference's tool was offered, and succeeds where all of a case's were. The success of
    `solvable cases` is their share. `constant answer` gives every question the commonest answer of the training
    questions; by last function it is told in which function the question's program ends, and gives the commonest
    answer of the training questions that end in it. `doing nothing` ends the work without a call, `transfer at once`
    behind the one call that hands the user over to a person; the former has a row where it resolves any case. Columns:
    `SETTING`, `cases` and the rates, NaN where not defined. No row where nothing is known: no outline was followed, or
    the column of no case is known.
    """
    found = [_of_retrieval(decisions(root, episodes)), *(_of_cases(episodes, name) for name in OF_CASES)]
    return pd.concat(found, ignore_index=True).reindex(columns=_COLUMNS)


def decisions(root: Path, episodes: pd.DataFrame) -> pd.DataFrame:
    """One decision for each substep of a case that some first pass met; of trials the first that ran counts.

    Where settings differ, as planners that choose among the tools of the whole query do, it is the most frequent; then
    the one with the fewest options, then the one in which the reference's tool stands first.
    """
    cells = episodes[episodes["status"] == "ok"].drop_duplicates(_CELL)[["cell_id", *_SUBSTEP[:-1]]]
    known = (pc.field("branch") == 0) & pc.field("tool_required").is_valid() & pc.field("n_options").is_valid()
    mine = pc.field("cell_id").isin(pa.array(cells["cell_id"], pa.string()))
    steps: pd.DataFrame = store.read(root, "steps", ["cell_id", "substep_id", *_DECISION], known & mine).to_pandas()
    met = cells.merge(steps, on="cell_id").groupby([*_SUBSTEP, *_DECISION], dropna=False, observed=True).size()
    ordered = met.reset_index(name="met").sort_values(
        ["met", "n_options", "reference_rank"], ascending=[False, True, True], kind="stable", na_position="last"
    )
    return ordered.drop_duplicates(_SUBSTEP)


def _of_retrieval(taken: pd.DataFrame) -> pd.DataFrame:
    """The rates of `FIRST`, `CHANCE` and `CEILING`: means over cases of the share of a case's substeps."""
    needed, options = taken["tool_required"].astype(bool), taken["n_options"].astype(float)
    ranks = taken["reference_rank"]
    offered = ranks.notna().astype(float)
    matches = {FIRST: (ranks == 0).astype(float), CHANCE: offered / options, CEILING: offered}
    acted = {
        FIRST: needed.astype(float),
        CHANCE: (1 / options).where(~needed, 1 - 1 / options),
        CEILING: pd.Series(1.0, taken.index),
    }
    parts = []
    for name in (FIRST, CHANCE, CEILING):
        rated = taken.assign(tool_match_rate_mean=matches[name].where(needed), action_accuracy_mean=acted[name])
        by_case = rated.groupby([*_FOUND, "case_id"], observed=True)
        means = by_case[["tool_match_rate_mean", "action_accuracy_mean"]].mean()
        means["success_mean"] = (means["tool_match_rate_mean"].fillna(1) == 1) if name == CEILING else np.nan
        grouped = means.groupby(_FOUND, observed=True)
        parts.append(grouped.mean().assign(cases=grouped.size()).reset_index().assign(planner=name))
    found = pd.concat(parts, ignore_index=True)
    if found["retriever"].nunique() > 1:
        found["planner"] = found["planner"] + " / " + found["retriever"].astype(str)
    pool = found["pool"].astype(str)
    return found.assign(planner=found["planner"].where(pool == ALL, found["planner"] + " / pool " + pool))


def _of_cases(episodes: pd.DataFrame, name: str) -> pd.DataFrame:
    """The share of the cases that a baseline resolves, over those of which that is known."""
    column = OF_CASES[name]
    known = episodes.dropna(subset=[column]).groupby([*PLACE, "case_id"], observed=True)[column].max()
    grouped = known.groupby(PLACE, observed=True)
    if name == NOTHING:  # stands where nothing can be right
        grouped = known[grouped.transform("max").astype(bool)].groupby(PLACE, observed=True)
    return grouped.mean().rename("success_mean").to_frame().assign(cases=grouped.size(), planner=name).reset_index()
