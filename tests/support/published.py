"""Rows of TRAJECT-Bench episodes that no planner made, with what is to be found in them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from grid.core.types import to_json
from tests.support import searched

SIMPLE: Mapping[str, Any] = MappingProxyType({"kind": "parallel", "level": "simple", "outline": "hidden"})


def episode(
    case: int,
    planner: str = "zero_shot",
    data: Mapping[str, Any] = SIMPLE,
    retriever: Mapping[str, Any] | None = None,
    **other: Any,
) -> dict[str, Any]:
    """One row of a setting with the domain's tools in the prompt; `other` are columns."""
    names = {key: data[key] for key in ("kind", "level") if key in data}
    label = f"traject_bench[{','.join(f'{key}={value}' for key, value in names.items())}]"
    config = {"dataset": dict(data), "budget": dict(searched.BUDGET), "retriever": dict(retriever or {})}
    columns: dict[str, Any] = {"dataset": label, "retriever": "none", "config": to_json(config), **other}
    found = searched.episode(planner, case, columns.pop("success", False), **columns)
    place = "/".join(str(found[key]) for key in ("model", "planner", "dataset", "retriever", "robustness"))
    cell = f"{place}/{case}/{found['trial']}"
    return found | {"setting_id": place, "cell_id": cell, "cell_key": cell}


def offers(cell: Mapping[str, Any], tools: int) -> dict[str, Any]:
    """The first decision of a cell, which could take so many tools or finish."""
    ids = {"cell_id": cell["cell_id"], "attempt_id": cell["attempt_id"]}
    return ids | {"branch": 0, "step": 0, "n_options": tools + 1}
