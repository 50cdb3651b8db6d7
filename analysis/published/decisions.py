"""Published tables of first-pass decisions that need a tool: errors by entropy, and how often tools are needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.compute as pc

from analysis.intervals import CLUSTER, Interval, share
from analysis.published.beside import Block, Measured, Told
from analysis.published.beside import blocks as of_cells
from analysis.published.files import Metric, Published
from grid import store

COLUMNS = ["cell_id", "substep_id", "reference_tool", "entropy", "tool_matches"]
CONDITION = "branch = 0 AND tool_required"
_CASE = [CLUSTER, "case_id"]


@dataclass(frozen=True)
class Decided(Block):
    """A row and a setting as `Block`, measured over first-pass decisions that need a tool (egb_slate §6.2).

    `decisions` and `errors` are counts over all cases, each the mean of its trials; an error is a tool other than the
    reference's. `error_rate` is their ratio, with an interval that knows how decisions fall into clusters. `tools` are
    the different tools that the references of these cases call, `decisions_per_tool` the calls of each.
    """

    decisions: pd.DataFrame = field(default_factory=pd.DataFrame)

    def measured(self, model: str, metric: Metric) -> Measured | None:
        """What a model of ours has of a metric; None where it made no such decision."""
        own = self._decisions_by_model.get(model)
        if own is None or not metric.columns:
            return None
        (name,) = metric.columns
        if name in ("tools", "decisions_per_tool"):
            needed = own.drop_duplicates([*_CASE, "substep_id"])["reference_tool"]
            tools = int(needed.nunique())
            figure = float(tools) if name == "tools" else len(needed) / tools
            return Measured(own["case_id"].nunique(), Interval(figure, np.nan, np.nan))
        counts = own.groupby([*_CASE, "trial"], observed=True)["error"].agg(["size", "sum"])
        counts = counts.groupby(level=_CASE, observed=True).mean().astype("float64")
        if name == "error_rate":
            return Measured(len(counts), _ratio(counts["sum"], counts["size"]))
        figure = float(counts["size" if name == "decisions" else "sum"].sum())
        return Measured(len(counts), Interval(figure, np.nan, np.nan))

    @cached_property
    def _decisions_by_model(self) -> Mapping[str, pd.DataFrame]:
        if self.setting is None or self.decisions.empty:
            return {}
        known = self.cells[["cell_id", "model", "trial", *_CASE]].merge(self.decisions, on="cell_id")
        if self.row.entropy:
            low, high = self.row.entropy
            known = known[known["entropy"] >= (0.0 if low is None else low)]
            known = known if high is None else known[known["entropy"] < high]
        return {str(model): own for model, own in known.groupby("model", observed=True)}


def _ratio(errors: pd.Series[float], decisions: pd.Series[float]) -> Interval:
    """Errors per decision over cases of unequal numbers of these: each case's part in the ratio (its linearization)."""
    rate = float(errors.sum() / decisions.sum())
    return share(rate + (errors - rate * decisions) / float(decisions.mean()))


def blocks(root: Path, table: Published, cells: pd.DataFrame, told: Sequence[Told] | None = None) -> list[Block]:
    """The table's rows as `beside.blocks` gives them, with the decisions of ours.

    Raises:
        StoreError: the folder cannot be read.
    """
    found = of_cells(table, cells, told)
    if not any(block.setting for block in found):
        return found
    wanted = {str(cell) for block in found for cell in block.cells["cell_id"]}
    taken = read(root, wanted, with_entropy=all(row.entropy for row in table.rows))
    return [Decided(**_fields(block), decisions=taken) for block in found]


def read(root: Path, cells: Set[str], with_entropy: bool) -> pd.DataFrame:
    """COLUMNS of the first-pass decisions of some cells that need a tool, and whether each was an `error`.

    `with_entropy`: only those that recorded one.
    """
    needed = (pc.field("branch") == 0) & pc.field("tool_required")
    if with_entropy:
        needed = needed & pc.field("entropy").is_valid()
    taken: pd.DataFrame = store.read(root, "steps", COLUMNS, needed).to_pandas()
    taken = taken[taken["cell_id"].isin(cells)]
    return taken.assign(error=(~taken["tool_matches"].astype("boolean").fillna(False)).astype(float))


def _fields(block: Block) -> dict[str, Any]:
    return {name: getattr(block, name) for name in ("row", "setting", "cells", "alike", "others")}
