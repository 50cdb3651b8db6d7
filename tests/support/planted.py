"""Grids of the simulated policy, run in the process of a test."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
from scipy import stats

from grid.cells.run import Stamp, run_chunk
from grid.core.engine import JUDGE
from grid.settings.build import build
from grid.settings.config import BudgetConfig
from grid.settings.setting import cells
from tests.support.configs import setting_of

BUDGET = BudgetConfig()
Rows = dict[str, list[dict[str, Any]]]


def grid(
    planner: str,
    *,
    dataset: str = "slate",
    robustness: str = "none",
    cases: int = 20,
    trials: int = 1,
    seed: int = 0,
    all_offered: bool = False,
    dataset_values: Mapping[str, Any] = MappingProxyType({}),
    planner_values: Mapping[str, Any] = MappingProxyType({}),
    budget: BudgetConfig = BUDGET,
    **model: object,
) -> Rows:
    """The rows of one setting; `model` are keys of the policy; `all_offered`: no right tool is missed by retrieval."""
    values = {"limit": cases, **dataset_values}
    retriever = "oracle" if all_offered else "bm25"
    setting = setting_of(
        values,
        planner_values,
        model="simulated",
        dataset=dataset,
        planner=planner,
        robustness=robustness,
        retriever=retriever,
    )
    for role in ("model", *(role for role in (JUDGE,) if role in setting.config)):  # the policy is its own judge
        setting.config[role].update(model)
    setting = replace(setting, seed=seed)
    built = build(setting, budget)
    chunk = list(cells(setting, built.dataset.version, built.dataset.case_ids(), trials))
    taken = asyncio.run(run_chunk(built, setting, chunk, Stamp("test", None))).take()
    return {table: list(rows) for table, rows in taken.items()}


def successes(rows: Rows) -> np.ndarray:
    """By case, in the cases' order: the share of its trials that succeeded; shape (cases,)."""
    by_case: dict[str, list[bool]] = {}
    for row in rows["episodes"]:
        by_case.setdefault(row["case_id"], []).append(bool(row["success"]))
    return np.array([np.mean(by_case[case]) for case in sorted(by_case)])


def error(values: np.ndarray) -> float:
    """The standard error of their mean."""
    return float(values.std(ddof=1) / np.sqrt(len(values)))


def covers(rows: Rows) -> bool:
    """Whether the closed form lies in the 95% interval (Student's t over cases) of the estimate."""
    estimate = successes(rows)
    expected = float(np.mean([row["expected_success"] for row in rows["episodes"]]))
    half = float(stats.t.ppf(0.975, len(estimate) - 1)) * error(estimate)
    return abs(float(estimate.mean()) - expected) <= half
