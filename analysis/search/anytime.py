"""What planners would have returned at smaller budgets of executed calls, from one run each (tooltree, figure 3).

A planner says of every trajectory that is better than all before (table `improvements`), and what it had used by then.
Stopped at a limit it returns the last of them: so the last improvement within a limit is what a run with this limit
returns, as long as the planner does not look at its budget.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis.intervals import UNKNOWN, Interval, amount, interval, share
from analysis.search import cells as rows_of
from grid import store

LIMITS = (4, 8, 16, 32, 64, 128)
"""Executed calls, as in the paper."""


def improvements(root: Path) -> pd.DataFrame:
    """Of each improvement its cell, the calls executed and the case's own seconds until then, and whether it resolves.

    Raises:
        StoreError: the folder cannot be read.
    """
    columns = ["cell_id", "improvement", "tool_calls", "seconds", "success"]
    found: pd.DataFrame = store.read(root, "improvements", columns).to_pandas()
    return found.assign(success=found["success"].astype(np.float64))


def curve(group: pd.DataFrame, improved: pd.DataFrame, limits: Sequence[int] = LIMITS) -> pd.DataFrame:
    """One row a planner, robustness setting and limit that is within the budget.

    Columns: `robustness`, `planner`, `asked`, `limit`, `cases`; `success`, `seconds` and `gain_per_second` (see
    `marginal`), each with `_low` and `_high` (95%, over clusters). See `at_limits`.
    """
    reached = at_limits(group, improved, [limit for limit in limits if (group["limit"] >= limit).all()])
    found: list[dict[str, Any]] = []
    for key, own in rows_of.planners(group):
        of = reached.merge(own[["cell_id", *rows_of.CASE]], on="cell_id", validate="many_to_one")
        before: pd.DataFrame | None = None
        for limit, part in of.dropna(subset=["success"]).groupby("limit", sort=True):
            means = rows_of.by_case(part, ["success", "seconds"])
            row = key | {"limit": limit, "cases": len(means)}
            measured = {
                "success": share(means["success"]),
                "seconds": amount(means["seconds"].dropna()),
                "gain_per_second": marginal(means, before),
            }
            before = means
            for name, (mean, low, high) in measured.items():
                row |= {name: mean, f"{name}_low": low, f"{name}_high": high}
            found.append(row)
    return pd.DataFrame(found)


def marginal(means: pd.DataFrame, before: pd.DataFrame | None) -> Interval:
    """The marginal gain per second of a limit (tooltree §4.2): what success gains over what seconds gain.

    Both are gained since the limit `before`, over the same cases; since no call and no second where there is none. Its
    interval is Student's t of the ratio's linear part (delta method), as success may fall. NaN where no time passes.
    """
    gained = (means - before if before is not None else means)[["success", "seconds"]].dropna()
    seconds = float(gained["seconds"].mean()) if len(gained) else 0.0
    if not seconds > 0:
        return UNKNOWN
    gain = float(gained["success"].mean()) / seconds
    return interval(gain + (gained["success"] - gain * gained["seconds"]) / seconds)


def at_limits(cells: pd.DataFrame, improved: pd.DataFrame, limits: Sequence[int]) -> pd.DataFrame:
    """One row a cell and limit: `cell_id`, `limit`, `success`, `seconds`.

    A cell that executed no more calls than the limit has its own success. Another has that of its last improvement
    within the limit, 0 without any. Where a cell's own is not known, none is. Seconds are known at improvements and at
    the end; between them they are interpolated over executed calls.
    """
    mine = improved[improved["cell_id"].isin(cells["cell_id"])].sort_values(["cell_id", "improvement"], kind="stable")
    points = _points(cells, mine)
    own = cells.set_index("cell_id")
    parts = []
    for limit in limits:
        success = success_at(limit, own["executed"], own["success"], mine, "tool_calls")
        seconds = _seconds(points, limit).reindex(own.index).mask(own["seconds"].isna())
        parts.append(pd.DataFrame({"limit": limit, "success": success, "seconds": seconds}).reset_index())
    return pd.concat(parts, ignore_index=True) if parts else _EMPTY


def success_at(
    limit: int, used: pd.Series[Any], success: pd.Series[Any], improved: pd.DataFrame, by: str
) -> pd.Series[Any]:
    """Whether cells would have been resolved at a limit, by `cell_id`.

    Args:
        limit: of what is counted.
        used: by cell, how much it took to its end.
        success: by cell, whether it was resolved then.
        improved: rows of `improvements` in their order.
        by: the column of them that counts the same.
    """
    within = improved[improved[by] <= limit].groupby("cell_id")["success"].last()
    found = within.reindex(used.index).fillna(0.0)
    return found.mask(used <= limit, success).mask(success.isna())


_EMPTY = pd.DataFrame(columns=["cell_id", "limit", "success", "seconds"])


def _points(cells: pd.DataFrame, improved: pd.DataFrame) -> pd.DataFrame:
    """What is known of each cell's time: seconds by executed calls, from none to all."""
    end = cells[["cell_id", "executed", "seconds"]].rename(columns={"executed": "tool_calls"})
    parts = [end.assign(tool_calls=0, seconds=0.0), improved[["cell_id", "tool_calls", "seconds"]], end]
    known = pd.concat(parts, ignore_index=True)
    return known.groupby(["cell_id", "tool_calls"], sort=True)["seconds"].max().reset_index()


def _seconds(points: pd.DataFrame, limit: int) -> pd.Series[float]:
    below = points[points["tool_calls"] <= limit].groupby("cell_id").last()
    above = points[points["tool_calls"] >= limit].groupby("cell_id").first().reindex(below.index)
    above = above.fillna(below)
    span = (above["tool_calls"] - below["tool_calls"]).clip(lower=1)
    share = (limit - below["tool_calls"]).clip(upper=span) / span
    return below["seconds"] + share * (above["seconds"] - below["seconds"])
