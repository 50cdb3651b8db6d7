"""Rows of planning tasks that no planner made, with planted rates, and what the report finds in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from grid import store
from grid.core.types import to_json
from tests.support.searched import NOON


def episode(
    planner: str,
    family: str | None,
    case: int,
    *,
    success: bool | None,
    trial: int = 0,
    model: str = "tiny",
    dataset: str = "apb_synthetic",
    robustness: str = "none",
    refine: str = "none",
    **other: Any,
) -> dict[str, Any]:
    """One row; a case's cluster is its number, the same in every family, as its variants are of one case."""
    refined = {} if refine == "none" else {"taxonomy": "taxonomy=true" in refine}
    config = {"dataset": {"scorer": "symbolic"}, "refine": refined}
    setting = "/".join((model, planner, dataset, robustness, refine))
    kind = "-".join(str(other.get(name)) for name in ("horizon_k", "stage", "n_extraneous", "unsolvable_kind"))
    name = f"{family}/{kind}/{case}"
    cell = f"{setting}/{name}/{trial}"
    row: dict[str, Any] = {"cell_id": cell, "cell_key": cell, "setting_id": setting, "model": model, "planner": planner}
    row |= {"engine": "simulated", "dataset": dataset, "robustness": robustness, "refine": refine, "pool": "all"}
    row["memory"] = "none"
    row |= {"retriever": "none", "dataset_version": "apb-1", "code": "c", "attempt_id": "first", "status": "ok"}
    row |= {"case_id": name, "cluster": f"case-{case}", "trial": trial, "created_at": NOON}
    row |= {"task_family": family, "success": success, "config": to_json(config)}
    return row | other


def write(root: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """A results folder of these rows."""
    store.write(root, {"episodes": [dict(row) for row in rows]})


def flips(seed: int, count: int, share: float) -> list[bool]:
    """So many draws, of which exactly the share (rounded) are true, in random order."""
    values = np.arange(count) < round(share * count)
    return [bool(value) for value in np.random.default_rng(seed).permutation(values)]


def errors(seed: int, count: int, rates: Mapping[str, float]) -> list[list[str]]:
    """Of so many plans the errors, each in exactly its share of them."""
    drawn = {name: flips(seed + place, count, rate) for place, (name, rate) in enumerate(rates.items())}
    return [[name for name, own in drawn.items() if own[place]] for place in range(count)]
