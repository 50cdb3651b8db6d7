"""The pairs of a sweep's finished episodes that a win rate is made of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from analysis.tables import reference_of
from grid import store
from grid.core.errors import ConfigError
from grid.core.types import Trajectory
from grid.datasets.examining import told
from grid.roles.comparing import Shown
from grid.store.steps import step_of

_PLACE = ["model", "dataset", "dataset_version", "robustness", "retriever", "pool", "simulator", "user"]
"""In all of these the two of a pair agree, and in case and trial."""
_SAME = [*_PLACE, "case_id", "trial"]
_OWN = ["cell_id", "setting_id", "planner", "passed", "answer", "config"]
_STEPS = ["cell_id", "substep_id", "substep", "chosen_tool", "thought", "written", "observation", "failed"]
_TOGETHER = 2_000  # pairs whose steps are read at once


class Pair(NamedTuple):
    """Two rows of `episodes`: one, and the reference planner's on the same case."""

    own: Mapping[str, Any]
    against: Mapping[str, Any]

    @property
    def cells(self) -> tuple[str, str]:
        """Their ids."""
        return self.own["cell_id"], self.against["cell_id"]


def pairs(root: Path, against: str) -> list[Pair]:
    """Every finished episode beside that of the planner `against` with the same model, dataset, ..., case and trial.

    An episode is finished whose success is known, be it that its model failed. Of several settings of that planner the
    one counts that has the same changes in its label.

    Raises:
        ConfigError: nothing finished is by that planner, or several settings of it have one label.
        StoreError: the folder cannot be read.
    """
    known = pc.field("success").is_valid()
    frame: pd.DataFrame = store.read(root, "episodes", [*_SAME, *_OWN], known).to_pandas()
    found = [pair for _, group in frame.groupby(_PLACE, sort=True, dropna=False) for pair in _of(group, against)]
    if not found:
        planners = sorted(set(frame["planner"]))
        allowed = f"a planner that others of {root} can be compared with; it holds {', '.join(planners) or 'none'}"
        raise ConfigError("against", against, allowed)
    return found


def _of(group: pd.DataFrame, against: str) -> Iterator[Pair]:
    """The pairs in one place."""
    planners = list(dict.fromkeys(group["planner"]))
    for planner in planners:
        reference = reference_of(planner, planners, against)
        if reference is None:
            continue
        theirs = group[group["planner"] == reference]
        if theirs["setting_id"].nunique() > 1:
            several = theirs["setting_id"].nunique()
            raise ConfigError("against", reference, f"a planner of one setting: {several} here have this label")
        by_case = {(row["case_id"], row["trial"]): row for row in theirs.to_dict("records")}
        for row in group[group["planner"] == planner].to_dict("records"):
            if (row["case_id"], row["trial"]) in by_case:
                yield Pair(_plain(row), _plain(by_case[row["case_id"], row["trial"]]))


def _plain(row: Mapping[Any, Any]) -> dict[str, Any]:
    return {str(name): None if pd.isna(value) else value for name, value in row.items()}


def shown(root: Path, wanted: Sequence[Pair]) -> Iterator[tuple[Pair, Shown, Shown]]:
    """Each pair with what an evaluator is shown of the two."""
    for start in range(0, len(wanted), _TOGETHER):
        part = wanted[start : start + _TOGETHER]
        steps = _steps(root, {cell for pair in part for cell in pair.cells})
        for pair in part:
            own, other = (_shown(row, steps.get(row["cell_id"], [])) for row in pair)
            yield pair, own, other


def _steps(root: Path, cells: set[str]) -> dict[str, list[Mapping[str, Any]]]:
    """Those on the path, in their order, by cell."""
    mine = pc.field("cell_id").isin(pa.array(sorted(cells), pa.string())) & pc.field("on_path")
    found: dict[str, list[Mapping[str, Any]]] = {}
    for row in store.read(root, "steps", [*_STEPS, "step"], mine).to_pylist():
        found.setdefault(row["cell_id"], []).append(row)
    return {cell: sorted(rows, key=lambda row: row["step"]) for cell, rows in found.items()}


def _shown(episode: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> Shown:
    steps = tuple(map(step_of, rows))
    return Shown(told(Trajectory(steps, steps, answer=episode["answer"])), episode["passed"])
