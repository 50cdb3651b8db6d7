"""What planners would have returned at equal completions and scoring passes, and `egb_tree` less each of the others.

Executed calls (`anytime`) are what tools cost, these are what models cost: the acting model's and the judge's, as the
budget `llm_calls` counts them.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis import intervals, significance
from analysis.intervals import count, interval, share
from analysis.search import cells as rows_of
from analysis.search.anytime import success_at
from analysis.search.comparing import name_of
from grid import store

LIMITS = (16, 32, 64, 128, 256, 512)
"""Completions and scoring passes."""
REFERENCE = "egb_tree"
"""The planner whose differences to others are told."""


def improvements(root: Path) -> pd.DataFrame:
    """Of each improvement its cell, the completions and scoring passes until then, and whether it resolves.

    Raises:
        StoreError: the folder cannot be read.
    """
    columns = ["cell_id", "improvement", "llm_calls", "forward_passes", "success"]
    found: pd.DataFrame = store.read(root, "improvements", columns).to_pandas()
    found = found.sort_values(["cell_id", "improvement"], kind="stable")
    return found.assign(calls=found["llm_calls"] + found["forward_passes"], success=found["success"].astype(np.float64))


def curve(group: pd.DataFrame, improved: pd.DataFrame, limits: Sequence[int] = LIMITS) -> pd.DataFrame:
    """One row a planner, robustness setting and limit within the budget, and one for each planner less another.

    Columns: `robustness`, `asked`, `planner`, `less` (None, or the planner that is subtracted), `limit`, `cases`,
    `clusters`, `success` or its paired difference with `_low` and `_high` (95%, over clusters), and of differences
    `holm`, their p by Holm's correction over all of them. A planner and what it is less are on the same terms; of two
    variants of REFERENCE one is told less the other.
    """
    kept = [limit for limit in limits if (group["most_calls"] >= limit).all()]
    found: list[dict[str, Any]] = []
    by_planner: dict[tuple[str, bool], dict[str, list[pd.Series[float]]]] = {}
    for key, cells in rows_of.planners(group):
        means = [_by_case(cells, improved, limit) for limit in kept]
        by_planner.setdefault((key["robustness"], key["asked"]), {})[key["planner"]] = means
        found += [_row(key, None, limit, at, share(at)) for limit, at in zip(kept, means, strict=True)]
    for (robustness, asked), planners in by_planner.items():
        for one, other in itertools.permutations(planners, 2):
            if _base(one) == REFERENCE and (_base(other) != REFERENCE or one > other):
                key = {"robustness": robustness, "asked": asked, "planner": one}
                for limit, own, theirs in zip(kept, planners[one], planners[other], strict=True):
                    paired = (own - theirs).dropna()
                    p = significance.p_value(paired, reach=1.0)
                    found.append(_row(key, other, limit, paired, interval(paired, reach=1.0)) | {"p": p})
    table = pd.DataFrame(found)
    return table if "p" not in table else table.assign(holm=significance.holm(table["p"]))


def _base(label: str) -> str:
    """A label's planner without folders and changes: `passes/egb_tree[branching=3]` is `egb_tree`."""
    return name_of(label).rpartition("/")[2]


def _by_case(own: pd.DataFrame, improved: pd.DataFrame, limit: int) -> pd.Series[float]:
    cells = own.set_index("cell_id")
    mine = improved[improved["cell_id"].isin(cells.index)]
    at = success_at(limit, cells["calls"], cells["success"], mine, "calls")
    known = cells[rows_of.CASE].assign(success=at).dropna(subset="success")
    found: pd.Series[float] = rows_of.by_case(known, ["success"])["success"]
    return found


def _row(
    key: Mapping[str, Any], less: str | None, limit: int, values: pd.Series[float], told: intervals.Interval
) -> dict[str, Any]:
    counts = {"limit": limit, "cases": len(values), "clusters": count(values)}
    return {**key, "less": less, **counts, "success": told.mean, "success_low": told.low, "success_high": told.high}
