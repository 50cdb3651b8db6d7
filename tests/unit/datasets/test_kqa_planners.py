"""Gold plans on all of kqa_synthetic, with both horizons and both settings of tool robustness."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from grid.cells.run import Stamp, run_chunk
from grid.settings.build import build
from grid.settings.config import BudgetConfig
from grid.settings.setting import cells
from tests.support.configs import setting_of
from tests.support.oracle import oracle_of


@pytest.mark.long
@pytest.mark.parametrize(("planner", "robustness"), [("fh", "tools_strict"), ("sh", "tools_forgiving")])
def test_gold_plans_answer_every_question(planner: str, robustness: str) -> None:
    setting = setting_of(dataset="kqa_synthetic", planner=planner, robustness=robustness)
    built = build(setting, BudgetConfig(llm_calls=100, steps=100))
    case_ids = built.dataset.case_ids()
    built = replace(built, engine=oracle_of(built.dataset, case_ids))
    chunk = list(cells(setting, built.dataset.version, case_ids, 1))
    rows = asyncio.run(run_chunk(built, setting, chunk, Stamp("test", None))).take()["episodes"]
    assert len(rows) == 500
    assert [row["case_id"] for row in rows if row["success"] is not True] == []
    assert {row["error_kind"] for row in rows} == {None}
    # The last step finishes.
    assert all(row["n_steps"] - 1 == row["tool_calls"] == row["plan_nodes"] for row in rows)
    assert all(row["llm_calls"] == (1 if planner == "fh" else row["n_steps"]) for row in rows)
    assert all(row["tool_match_rate"] is None and not row["repeated_call"] and not row["replans"] for row in rows)
