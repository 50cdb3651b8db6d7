"""How large trees grow to their end: nodes, executions and rollouts (tooltree, figure 4)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from analysis.search import cells as rows_of
from grid import store

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
    for key, own in rows_of.planners(group):
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
