"""Where doing nothing resolves a case, success is an abstention, and an abstention is an answer that was read."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from analysis import load
from analysis.load.baselines import baselines
from grid import store
from grid.cells.run import Stamp, run_chunk
from grid.core.engine import SAMPLE, Choice, Home, PlanAnswer, Prompt, Sampled
from grid.core.types import Usage
from grid.settings.build import build
from grid.settings.config import BudgetConfig
from grid.settings.setting import cells
from tests.support import bfcl, workbench
from tests.support.configs import setting_of

BROKEN = '{"action": {"tool"'
END: tuple[str, dict[str, Any]] = ("finish", {})
LOOK = ("company_directory.find_email_address", {"name": "nobody"})
IDLE = {"workbench": "workbench-analytics-001", "bfcl": "irrelevance_0"}
WRONG = ("area.triangle", {"base": 1, "height": 2})


def said(answer: Any, plan: bool) -> str:
    """An answer as the object that a prompt asks for; a text as it is."""
    if isinstance(answer, str):
        return answer
    call = {"tool": answer[0], "arguments": answer[1]}
    return json.dumps({"plan": [call]} if plan else {"action": call})


@dataclass
class Saying:
    """Gives one answer after another, the last one for ever."""

    answers: Sequence[Any]
    asked: int = 0
    provides: ClassVar[frozenset[str]] = frozenset({SAMPLE})
    home: ClassVar[Home] = "task"
    name: ClassVar[str] = "saying"
    version: ClassVar[str] = "1"
    sampler: ClassVar[None] = None
    gpus: ClassVar[int] = 0
    cut: frozenset[int] = field(default_factory=frozenset)

    async def sample(self, prompt: Prompt, *, n: int, temperature: float, max_tokens: int, seed: int) -> Sampled:
        answer = self.answers[min(self.asked, len(self.answers) - 1)]
        self.asked += 1
        text = said(answer, isinstance(prompt.answer, PlanAnswer))
        return Sampled((text,) * n, Usage(llm_calls=n, cut_answers=len(self.cut)), cut=self.cut)

    async def choose(self, prompt: Prompt, *, seed: int) -> Choice:
        raise NotImplementedError


def episode(root: Path, dataset: str, planner: str, engine: Saying, budget: BudgetConfig) -> dict[str, Any]:
    """The row of the case in which nothing is to be done."""
    path = {"workbench": workbench, "bfcl": bfcl}[dataset].write(root)
    values = {"path": path} | ({"category": "irrelevance"} if dataset == "bfcl" else {})
    setting = setting_of(values, {"max_calls": 3}, dataset=dataset, planner=planner, retriever="none", pool="case")
    built = replace(build(setting, budget), engine=engine)
    chunk = list(cells(setting, built.dataset.version, [IDLE[dataset]], 1))
    row: dict[str, Any]
    (row,) = asyncio.run(run_chunk(built, setting, chunk, Stamp("test", None))).take()["episodes"]
    return row


@pytest.mark.parametrize("dataset", IDLE)
@pytest.mark.parametrize(
    ("planner", "answers", "right"),
    [
        ("react", [END], True),
        ("react", [BROKEN], False),
        ("react", [""], False),
        ("react", [BROKEN, END], False),
        ("zero_shot", [END], True),
        ("zero_shot", [BROKEN], False),
        ("zero_shot", [BROKEN, END], True),  # asked again, as the planner is allowed to
        ("cot", [BROKEN], False),
        ("self_consistency", [BROKEN], False),
        ("self_consistency", [END], True),
        ("reflexion", [BROKEN], False),
    ],
)
def test_what_could_not_be_read_is_no_abstention(
    tmp_path: Path, dataset: str, planner: str, answers: list[Any], right: bool
) -> None:
    row = episode(tmp_path, dataset, planner, Saying(answers), BudgetConfig())
    assert (row["success"], row["nothing_success"]) == (right, True)


@pytest.mark.parametrize("planner", ["react", "zero_shot"])
def test_a_cut_answer_is_no_abstention(tmp_path: Path, planner: str) -> None:
    thought = 'Should I end it with {"action": {"tool": "finish", "arguments": {}}}? No, since'
    row = episode(tmp_path, "bfcl", planner, Saying([thought], cut=frozenset({0})), BudgetConfig())
    assert row["success"] is False
    assert row["cut_answers"] == row["llm_calls"] > 0


def test_what_a_budget_broke_off_is_no_abstention(tmp_path: Path) -> None:
    for calls, right in ((1, False), (2, True)):
        row = episode(tmp_path, "workbench", "react", Saying([LOOK, END]), BudgetConfig(llm_calls=calls))
        assert (row["success"], row["budget_reached"]) == (right, None if right else "llm_calls")


def test_a_call_that_was_read_is_a_wrong_one(tmp_path: Path) -> None:
    assert episode(tmp_path, "bfcl", "react", Saying([WRONG, END]), BudgetConfig())["success"] is False


def test_doing_nothing_is_a_baseline_wherever_it_can_be_right(tmp_path: Path) -> None:
    row = episode(tmp_path, "bfcl", "react", Saying([BROKEN]), BudgetConfig())
    store.write(tmp_path / "results", {"episodes": [row]})
    found = baselines(tmp_path / "results", load.episodes(tmp_path / "results"))
    (one,) = found[found["planner"] == "doing nothing"].to_dict("records")
    assert (one["cases"], one["success_mean"]) == (1, 1.0)
