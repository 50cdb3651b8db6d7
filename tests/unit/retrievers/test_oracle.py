"""Whoever knows the reference resolves every case, by every planner, on every dataset, with every outline.

By default each two of them meet; all three at once are slow's.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from grid.cells.run import Stamp, run_chunk
from grid.core.engine import JUDGE
from grid.core.problem import GIVEN
from grid.settings.build import build
from grid.settings.check import invalid_reason
from grid.settings.config import BudgetConfig
from grid.settings.setting import Setting, cells
from tests.support.configs import FOLDERS, few_of, goes_together, outlines, setting_of, solvers
from tests.support.oracle import judge_of, oracle_of

BUDGET = BudgetConfig()
CASES = 3
DRAFTING = "tooltree"  # drafts every tool on offer, so that its judge alone tells them apart: it needs an oracle too
MOST_CALLS = 30  # more than any of these cases takes; some planners are shallow by default


def told(setting: Setting) -> list[dict[str, Any]]:
    """The episodes of a setting with the oracle as its engine."""
    assert invalid_reason(setting) is None
    built = build(setting, BUDGET)
    case_ids = built.dataset.case_ids()
    built = replace(built, engine=oracle_of(built.dataset, case_ids))
    if setting.labels["planner"] == DRAFTING:
        built = replace(built, roles={**built.roles, JUDGE: judge_of(built.dataset, case_ids)})
    chunk = list(cells(setting, built.dataset.version, case_ids, 1))
    return asyncio.run(run_chunk(built, setting, chunk, Stamp("test", None))).take()["episodes"]


POINTS = [
    (name, outline, planner)
    for name in ("slate", "kqa_synthetic", "gta_generated", *FOLDERS)
    if name != "apb"  # whose plans take a judge
    for outline in outlines(name)
    for planner in solvers()
    if goes_together(name, planner)
] + [("traject_bench sequential", "hidden", planner) for planner in solvers()]


@pytest.mark.parametrize(("dataset", "outline", "planner"), few_of(POINTS))
def test_an_oracle_resolves_every_case(
    request: pytest.FixtureRequest, dataset: str, outline: str, planner: str
) -> None:
    values: dict[str, Any] = {"outline": outline, "limit": CASES}
    dataset, _, kind = dataset.partition(" ")
    if dataset in FOLDERS:
        values["path"] = request.getfixturevalue(FOLDERS[dataset])
    if kind:
        values["kind"] = kind
    deep = {"max_calls": MOST_CALLS}
    rows = told(setting_of(values, deep, dataset=dataset, planner=planner, retriever="oracle"))
    assert len(rows) >= CASES - 1
    assert [(row["case_id"], row["error_message"]) for row in rows if row["success"] is not True] == []
    for row in rows:
        followed = 1.0 if outline == GIVEN else None
        assert row["tool_match_rate"] == row["action_accuracy"] == followed
        assert row["retrieval_rate"] == (followed or row["inclusion"])
        called = row["plan_nodes"] > 0  # nothing is right where nothing may be done
        assert [row[name] for name in ("inclusion_set", "tool_recall", "tool_precision")] == [
            1.0 if called else None
        ] * 3
        assert row["exact_match"] is (True if called else None)
        # Their arguments are nowhere told.
        compared = dataset not in ("restbench", "stabletoolbench", "hotpotqa_multi")
        assert row["usage"] == (1.0 if compared and called else None) or (
            dataset.startswith("kqa") and row["usage"] is None
        )
        passes = row["branches"] + 1 if planner == "self_consistency_plan" else 1
        assert (row["branches"] + 1, row["replans"]) == (passes, 0)
        assert row["tool_calls"] == passes * row["plan_nodes"]
