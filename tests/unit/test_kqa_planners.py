"""Gold plans on kqa_synthetic, with both planners and both settings of tool robustness."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from grid.datasets.kqa.dataset import KqaSynthetic
from grid.engines.base import SAMPLE, Home, PlanAnswer, Prompt, Sampled
from grid.planners.horizon import demonstration_text
from grid.sweep.build import BudgetConfig, build
from grid.sweep.cell import Setting, cells
from grid.sweep.run import Stamp, run_chunk
from grid.types import Demonstration, ToolCall, Usage, to_json

GROUPS = ("model", "planner", "dataset", "robustness", "retriever")
PLANNERS = {"fh": "grid.planners.fh.FullHorizon", "sh": "grid.planners.sh.SingleStepHorizon"}
SETTINGS = {"tools_forgiving": "ToolsForgiving", "tools_strict": "ToolsStrict"}


@pytest.fixture(scope="module")
def dataset(fresh_cache: Path) -> Iterator[KqaSynthetic]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(fresh_cache))
        yield KqaSynthetic()


@dataclass(frozen=True)
class Gold:
    """Answers with the reference's plan, or its next step."""

    plans: dict[str, list[Any]]
    provides: ClassVar[frozenset[str]] = frozenset({SAMPLE})
    home: ClassVar[Home] = "task"
    sampler: ClassVar[None] = None
    name: ClassVar[str] = "test"
    version: str = "gold"

    async def sample(self, prompt: Prompt, *, n: int, temperature: float, max_tokens: int, seed: int) -> Sampled:
        plan = self.plans[prompt.entries("task")[0].removeprefix("Question: ")]
        made = max(len(prompt.entries("history")) - 1, 0)
        if isinstance(prompt.answer, PlanAnswer):
            answer: Any = {"plan": plan[made:]}
        else:
            answer = plan[made] if made < len(plan) else {"tool": "no_tool", "arguments": {}}
        return Sampled((to_json(answer),), Usage(llm_calls=1, input_tokens=1))

    async def choose(self, prompt: Prompt, *, seed: int) -> Any:
        raise AssertionError("no choices here")


def plans(dataset: KqaSynthetic) -> dict[str, list[Any]]:
    """By question, the gold calls with `$i`."""
    found = {}
    for case in dataset.case_ids():
        problem = dataset.problem(case)
        calls: dict[str, ToolCall] = {step: call for step, call in problem.reference.calls.items() if call}
        shown = demonstration_text(Demonstration(problem.case.query, calls, ""))
        found[problem.case.query] = json.loads(shown.split("\n")[1].removeprefix("Plan: "))["plan"]
    return found


@pytest.mark.parametrize("robustness", sorted(SETTINGS))
@pytest.mark.parametrize("planner", sorted(PLANNERS))
def test_gold_plans_answer_every_question(dataset: KqaSynthetic, planner: str, robustness: str) -> None:
    config = {
        "model": {"_target_": "grid.engines.null.Null"},
        "planner": {"_target_": PLANNERS[planner], "demonstrations": 0},
        "dataset": {"_target_": "grid.datasets.kqa.dataset.KqaSynthetic"},
        "robustness": {robustness: {"_target_": f"grid.robustness.{robustness}.{SETTINGS[robustness]}"}},
        "retriever": {"_target_": "grid.retrievers.bm25.BM25"},
    }
    setting = Setting(config, dict.fromkeys(GROUPS, "x"), 0)
    built = replace(build(setting, BudgetConfig(llm_calls=100, tool_calls=100)), engine=Gold(plans(dataset)))
    chunk = list(cells(setting, dataset.version, dataset.case_ids(), 1))
    rows = asyncio.run(run_chunk(built, setting, chunk, Stamp("test", None))).take()["episodes"]
    assert len(rows) == 500
    assert [row["case_id"] for row in rows if row["success"] is not True] == []
    assert {row["error_kind"] for row in rows} == {None}
    assert all(row["n_steps"] == row["plan_nodes"] and row["replans"] == 0 for row in rows)
    # One more than steps: the last says that there is none left.
    assert all(row["llm_calls"] == (1 if planner == "fh" else row["n_steps"] + 1) for row in rows)
    assert all(row["tool_match_rate"] is None and not row["repeated_call"] for row in rows)
