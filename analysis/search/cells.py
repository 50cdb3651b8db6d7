"""The episodes of a sweep that searches or is held to a budget: what each took, and on which terms."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from analysis import load, planted, spending
from analysis.intervals import CLUSTER
from grid import store

# How large trees grow to their end: nodes, executions and rollouts (tooltree, figure 4).


SIZES = {"nodes": "nodes", "executed_nodes": "executed", "rollouts": "rollouts", "pruned": "pruned"}
"""What is counted of a tree, and the names of it."""
QUARTILES = {"q1": 0.25, "median": 0.5, "q3": 0.75}


def trees(root: Path) -> pd.DataFrame:
    """Of each episode's tree, by `cell_id`: its nodes but for the root, and how many were executed or pruned.

    `rollouts` are the rewards that were backed up through the root's edges (the sum of N(s, a) over them); 0 of
    planners that back nothing up.

    Raises:
        StoreError: the folder cannot be read.
    """
    columns = ["cell_id", "depth", "execution", "visits", "pruned"]
    found = store.read(root, "nodes", columns, pc.field("depth") > 0)
    first = pc.if_else(pc.equal(found["depth"], 1), pc.fill_null(found["visits"], 0), pa.scalar(0, pa.int64()))
    table = pa.table({"cell_id": found["cell_id"], "execution": found["execution"], "pruned": found["pruned"],
                      "rollouts": first})  # fmt: skip
    counted = table.group_by("cell_id").aggregate(
        [("cell_id", "count"), ("execution", "count"), ("pruned", "count"), ("rollouts", "sum")]
    )
    names = {"cell_id_count": "nodes", "execution_count": "executed_nodes", "pruned_count": "pruned",
             "rollouts_sum": "rollouts"}  # fmt: skip
    frame: pd.DataFrame = counted.to_pandas().rename(columns=names)
    return frame


def quartiles(group: pd.DataFrame, counted: pd.DataFrame) -> pd.DataFrame:
    """One row a planner and robustness setting that has trees: of each of SIZES median and quartiles over episodes.

    Columns: `robustness`, `planner`, `asked`, `episodes`, and `nodes_q1`, `nodes_median`, `nodes_q3` and so on. NaN for
    the rollouts of a planner that has none.
    """
    found = []
    for key, own in planners(group):
        sizes = own[["cell_id"]].merge(counted, on="cell_id", validate="one_to_one")
        if sizes.empty:
            continue
        row: dict[str, Any] = key | {"episodes": len(sizes)}
        for name in SIZES:
            values = sizes[name].astype(float)
            if name == "rollouts" and not values.any():
                values = values * float("nan")
            row |= {f"{name}_{place}": values.quantile(share) for place, share in QUARTILES.items()}
        found.append(row)
    return pd.DataFrame(found)


# The episodes of a sweep that searches or is held to a budget: what each took, and on which terms.


PARTS = {"steps": "executed calls", "llm_calls": "model calls", "tokens": "tokens", "seconds": "seconds"}
"""The parts of a budget that end an episode, and what they count."""
PLACE = ["model", "dataset", "outline", "budget"]
"""What planners that are compared share, besides the robustness setting."""
ROW = [*PLACE, "robustness", "planner"]
CASE = [CLUSTER, "case_id"]
COSTS = ["tokens", "calls", "executed", "seconds"]
"""What a case took: tokens in and out, completions and scoring passes (the acting model's and the judge's, as budgets
count them; not those of an evaluator, who only scores), calls of tools that were run, its own seconds."""
_JUDGE = ["judge_input_tokens", "judge_output_tokens", "judge_calls", "judge_passes"]
_COLUMNS = [*planted.COLUMNS, "config", "budget_reached", "tool_calls", "n_nodes", "case_seconds", *_JUDGE]
_NOT_RECORDED = "not recorded"


class Terms(NamedTuple):
    """What a setting's planner was given: the outline's place, its budget in words, and the executed calls of that.

    `most_calls` are the completions and scoring passes of it.

    `restored` says whether its judge's decisions were set right from the reference.
    """

    outline: str
    budget: str
    limit: float
    most_calls: float
    restored: bool


def apply(root: Path) -> bool:
    """Whether any episode has a search tree or was stopped by its budget.

    Raises:
        StoreError: the folder cannot be read.
    """
    searched = (pc.field("n_nodes") > 0) | pc.field("budget_reached").is_valid()
    return bool(load.rows(root, ["cell_id"], searched).num_rows)


def read(root: Path) -> pd.DataFrame:
    """One row a cell, as `load.episodes` gives them, with `ROW`, `COSTS`, and what follows.

    `limit` are the executed calls that its budget allows, `most_calls` the completions and scoring passes, both
    infinite where they are not recorded; `asked` says whether its planner asked, in any case, whether that was
    resolved, or had a judge whose decisions were set right (tooltree A.2).

    Raises:
        StoreError: the folder cannot be read.
    """
    cells = load.episodes(root, _COLUMNS)
    terms = {text: _terms(text) for text in cells["config"].cat.categories}
    unknown = _terms("{}")
    known = [terms.get(text, unknown) for text in cells["config"].astype(object)]
    spent = cells[_JUDGE].fillna(0)
    cells = cells.assign(
        outline=pd.Categorical([one.outline for one in known]),
        budget=pd.Categorical([one.budget for one in known]),
        limit=np.array([one.limit for one in known]),
        most_calls=np.array([one.most_calls for one in known]),
        tokens=spending.of_judged(cells),
        calls=cells["llm_calls"] + cells["forward_passes"] + spent["judge_calls"] + spent["judge_passes"],
        executed=cells["tool_calls"],
        seconds=cells["case_seconds"],
    )
    checked = (cells["resolved_checks"].fillna(0) > 0) | np.array([one.restored for one in known], dtype=bool)
    return cells.assign(asked=checked.groupby([cells[name] for name in ROW], observed=True).transform("any"))


def places(cells: pd.DataFrame) -> Iterator[tuple[dict[str, str], pd.DataFrame]]:
    """The cells of each model, dataset, outline and budget: planners of different budgets are never compared."""
    for key, group in cells.groupby(PLACE, sort=False, observed=True):
        yield dict(zip(PLACE, map(str, key), strict=True)), group


def planners(group: pd.DataFrame) -> Iterator[tuple[dict[str, Any], pd.DataFrame]]:
    """Each planner's cells in each robustness setting, those who asked whether a case was resolved last."""
    for robustness, part in group.groupby("robustness", sort=False, observed=True):
        for (asked, planner), own in part.groupby(["asked", "planner"], sort=True, observed=True):
            yield {"robustness": str(robustness), "planner": str(planner), "asked": bool(asked)}, own


def by_case(cells: pd.DataFrame, columns: list[str]) -> pd.DataFrame:
    """Each case's means over its trials, by cluster and case."""
    return cells.groupby(CASE, sort=True, observed=True)[columns].mean()


def _terms(config: str) -> Terms:
    found: Mapping[str, Any] = json.loads(config)
    budget = found.get("budget") or {}
    outline = (found.get("dataset") or {}).get("outline") or _NOT_RECORDED
    restored = (found.get("judge") or {}).get("restored", "none") != "none"
    told = [f"{budget[part]:,} {name}" for part, name in PARTS.items() if budget.get(part) is not None]
    steps, calls = (float(budget.get(part) or np.inf) for part in ("steps", "llm_calls"))
    return Terms(str(outline), ", ".join(told) or _NOT_RECORDED, steps, calls, restored)
