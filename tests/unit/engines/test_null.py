"""The null engine on null cases: every figure of such a run is known beforehand."""

from __future__ import annotations

import asyncio
from pathlib import Path

from grid.cells.run import Stamp, run_chunk
from grid.datasets.null import Null
from grid.settings.build import build
from grid.settings.check import check_sweep
from tests.support.configs import job

DATASET = {"_target_": "grid.datasets.null.Null", "cases": 5}


def test_cases_are_as_many_as_asked() -> None:
    assert Null(cases=3).case_ids() == ["0000000", "0000001", "0000002"]
    assert len(Null(cases=3, limit=2).case_ids()) == 2


def test_every_case_is_one_call_that_resolves_it(tmp_path: Path) -> None:
    plan = check_sweep([job(tmp_path, model={"_target_": "grid.engines.null.Null"}, dataset=DATASET)]).plan
    (setting,) = plan.settings
    built = build(setting, plan.budget)
    rows = asyncio.run(run_chunk(built, setting, list(plan.cells_of(setting)), Stamp("test", None))).take()
    assert [row["case_id"] for row in rows["episodes"]] == [f"{number:07d}" for number in range(5)]
    for row in rows["episodes"]:
        assert (row["status"], row["success"], row["tool_match_rate"], row["n_steps"]) == ("ok", True, 1.0, 1)
        assert row["cluster"] == "null"
        assert (row["llm_calls"], row["tool_calls"], row["input_tokens"]) == (1, 1, 0)
    assert len(rows["steps"]) == 5
