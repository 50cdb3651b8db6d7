"""Rows of searches that no planner made, with what is to be found in them, and what the report finds."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pandas as pd

from analysis.page.table import Table
from analysis.tables import search, search_cells
from grid import store
from grid.core.types import to_json

NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
BUDGET: Mapping[str, Any] = MappingProxyType({"llm_calls": 5000, "steps": 64, "tokens": None, "seconds": None})


def episode(
    planner: str, case: int, success: bool | None, trial: int = 0, *, budget: Mapping[str, Any] = BUDGET, **other: Any
) -> dict[str, Any]:
    """One row of `episodes`; `other` are columns. 1,000 tokens in, 10 out, 4 calls of the model, 8 executed, 2 s."""
    place = (other.get("robustness"), other.get("dataset"), other.get("judge"), budget["steps"])
    setting = "/".join(map(str, (planner, *place)))
    config = {"dataset": {"outline": "given"}, "budget": dict(budget)}
    row = {"setting_id": setting, "attempt_id": "first", "model": "tiny", "engine": "lexical", "dataset": "slate"}
    row |= {
        "robustness": "none",
        "retriever": "bm25",
        "pool": "all",
        "memory": "none",
        "planner": planner,
        "dataset_version": "slate-1",
        "code": "c",
    }
    row |= {"case_id": f"case-{case}", "cluster": f"cluster-{case // 2}", "status": "ok"}
    counts: dict[str, Any] = {"trial": trial, "n_nodes": 0, "tool_calls": 8, "resolved_checks": 0, "input_tokens": 1000}
    counts |= {"output_tokens": 10, "llm_calls": 4, "forward_passes": 0, "wall_seconds": 9.0, "case_seconds": 2.0}
    cell = f"{setting}/{case}/{trial}"
    return row | counts | {"cell_id": cell, "cell_key": cell, "success": success, "config": to_json(config),
                           "created_at": NOON} | other  # fmt: skip


def improvements(cell: Mapping[str, Any], *found: tuple[int, float, bool]) -> list[dict[str, Any]]:
    """A cell's rows of `improvements`: executed calls (and as many completions), seconds, whether it resolves."""
    ids = {"cell_id": cell["cell_id"], "attempt_id": cell["attempt_id"]}
    return [
        ids
        | {"improvement": place, "tool_calls": calls, "seconds": seconds, "success": success}
        | {"llm_calls": calls, "forward_passes": 0}
        for place, (calls, seconds, success) in enumerate(found)
    ]


def nodes(cell: Mapping[str, Any], visits: Sequence[int], executed: int, pruned: int = 0) -> list[dict[str, Any]]:
    """A root with a child for each of `visits`; the first so many executed, the last so many pruned."""
    ids = {"cell_id": cell["cell_id"], "attempt_id": cell["attempt_id"]}
    rows = [ids | {"node": "0", "depth": 0, "order": 0, "visits": 0}]
    for place, count in enumerate(visits):
        rows.append(
            ids
            | {"node": f"0.{place}", "parent": "0", "depth": 1, "order": place + 1, "visits": count}
            | {"execution": place if place < executed else None}
            | {"pruned": "pre" if place >= len(visits) - pruned else None}
        )
    return rows


def write(
    root: Path,
    episodes: Sequence[Mapping[str, Any]],
    improved: Sequence[Mapping[str, Any]] = (),
    trees: Sequence[Mapping[str, Any]] = (),
) -> None:
    """A results folder of these rows."""
    store.write(root, {"episodes": list(episodes), "improvements": list(improved), "nodes": list(trees)})


def tables(root: Path) -> dict[str, Table]:
    """The searches' tables by kind, of a folder with one place."""
    return {table.name.partition(" ")[0]: table for table in search.tables(root)}


def only(root: Path) -> pd.DataFrame:
    ((_, group),) = search_cells.places(search_cells.read(root))
    return group


def by_planner(table: pd.DataFrame) -> dict[str, dict[Any, Any]]:
    return {str(row["planner"]): row for row in table.to_dict("records")}
