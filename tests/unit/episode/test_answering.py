"""Where a benchmark scores what is told at the end, every planner tells it behind its calls (tooltree, figure 2)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from grid.cells.run import Stamp, run_chunk
from grid.core.engine import (
    EVALUATOR,
    JUDGE,
    Choice,
    Prompt,
    Sampled,
    ScoreAnswer,
    TextAnswer,
    ToolCallAnswer,
    VoteAnswer,
)
from grid.core.types import FINISH, Usage, to_json
from grid.engines.places import takes_answer
from grid.episode.judging import Judging
from grid.settings.build import Built, build
from grid.settings.config import BudgetConfig
from grid.settings.setting import Setting, cells
from tests.support.configs import setting_of, solvers
from tests.support.oracle import Oracle, oracle_of

ANSWER = "The guide is up."


@dataclass(frozen=True)
class Agent(Oracle):
    """Makes every right call, and ends without a word; behind them it tells an answer where it is asked for one."""

    answer: str | None = ANSWER

    async def sample(self, prompt: Prompt, *, n: int, temperature: float, max_tokens: int, seed: int) -> Sampled:
        wanted = prompt.answer
        if isinstance(wanted, TextAnswer):
            return Sampled(("Go on.",) * n, Usage(llm_calls=n))
        if isinstance(wanted, ScoreAnswer):
            return Sampled(('{"score": 10, "explanation": ""}',) * n, Usage(llm_calls=n))
        if isinstance(wanted, VoteAnswer):
            return Sampled(('{"best": 0, "explanation": ""}',) * n, Usage(llm_calls=n))
        if isinstance(wanted, ToolCallAnswer) and takes_answer(wanted.tools):
            self.asked.append(prompt.text())
            told = {"tool": FINISH, "arguments": {"answer": self.answer} if self.answer else {}}
            return Sampled((to_json({"action": told}),) * n, Usage(llm_calls=n))
        return await super().sample(prompt, n=n, temperature=temperature, max_tokens=max_tokens, seed=seed)


@dataclass(frozen=True)
class Yes:
    """A judge who says of every answer that it is solved; and of every call that it is good."""

    shown: list[str]
    provides = Oracle.provides
    home, name, sampler, version = "task", "test", None, "yes"

    async def sample(self, prompt: Prompt, *, n: int, temperature: float, max_tokens: int, seed: int) -> Sampled:
        self.shown.append(prompt.text())
        told = '{"score": 10, "explanation": ""}' if isinstance(prompt.answer, ScoreAnswer) else '{"best": 2}'
        return Sampled((told,) * n, Usage(llm_calls=n))

    async def choose(self, prompt: Prompt, *, seed: int) -> Choice:
        raise NotImplementedError


def built_of(path: str, planner: str, answering: str) -> tuple[Setting, Built]:
    values = {"path": path, "group": "G1_instruction", "order": "file", "answering": answering}
    setting = setting_of(values, dataset="stabletoolbench", planner=planner, retriever="oracle")
    return setting, build(setting, BudgetConfig())


def episode(path: str, planner: str, answering: str, answer: str | None) -> tuple[Mapping[str, Any], Agent, Yes]:
    setting, built = built_of(path, planner, answering)
    agent = Agent(**vars(oracle_of(built.dataset, built.dataset.case_ids())), answer=answer)
    judge = Yes([])
    roles: dict[Any, Any] = {EVALUATOR: judge} | ({JUDGE: judge} if JUDGE in built.planner.needs else {})
    whole = replace(built, engine=agent, roles=roles, judging=dict.fromkeys(roles, Judging()))
    labelled = replace(setting, labels={**setting.labels, **dict.fromkeys(map(str, roles), "yes")})
    cell = list(cells(setting, built.version, ["G1_instruction-4"], 1))
    (row,) = asyncio.run(run_chunk(whole, labelled, cell, Stamp("test", None))).take()["episodes"]
    return row, agent, judge


EXECUTING = [name for name in solvers() if name not in ("holistic", "stepwise")]


@pytest.mark.parametrize("planner", EXECUTING)
def test_with_all_right_calls_and_a_judge_that_says_yes_every_planner_passes(
    small_stabletoolbench: str, planner: str
) -> None:
    row, agent, judge = episode(small_stabletoolbench, planner, "after", ANSWER)
    assert (row["error_message"], row["success"], row["answer"], row["passed"]) == (None, True, ANSWER, 1.0)
    (asked,) = [text for text in agent.asked if "\n" in text]
    assert "Done so far:" in asked, "what the calls returned"
    assert any(ANSWER in text for text in judge.shown)


@pytest.mark.parametrize("planner", ["react", "zero_shot", "cot", "tot", "astar", "tooltree"])
@pytest.mark.parametrize(("answering", "answer", "asked"), [("none", ANSWER, 0), ("after", None, 1)])
def test_without_an_answer_none_does(
    small_stabletoolbench: str, planner: str, answering: str, answer: str | None, asked: int
) -> None:
    row, agent, judge = episode(small_stabletoolbench, planner, answering, answer)
    assert (row["success"], row["answer"], row["passed"]) == (True, None, 0.0)
    assert len([text for text in agent.asked if "\n" in text]) == asked
    assert not any("Solved:" in text for text in judge.shown)


@dataclass(frozen=True)
class Inventing(Agent):
    """Writes an answer into its plan, with what a call is to return or before anything has."""

    invented: str = "All is well."

    async def sample(self, prompt: Prompt, *, n: int, temperature: float, max_tokens: int, seed: int) -> Sampled:
        if isinstance(prompt.answer, ToolCallAnswer):
            return await super().sample(prompt, n=n, temperature=temperature, max_tokens=max_tokens, seed=seed)
        told = {"tool": FINISH, "arguments": {"answer": self.invented}}
        plan = [*self._plan(prompt)[:-1], told]
        return Sampled((to_json({"plan": plan}),) * n, Usage(llm_calls=n))


@pytest.mark.parametrize(
    ("answering", "invented", "expected"),
    [
        ("after", "All is well.", ANSWER),
        ("none", "All is well.", "All is well."),
        ("none", "It says: OUTPUT_FROM_STEP_0.response", "It says: "),
    ],
)
def test_what_a_plan_said_before_its_calls_gives_way(
    small_stabletoolbench: str, answering: str, invented: str, expected: str
) -> None:
    setting, built = built_of(small_stabletoolbench, "zero_shot", answering)
    agent = Inventing(**vars(oracle_of(built.dataset, built.dataset.case_ids())), invented=invented)
    cell = list(cells(setting, built.version, ["G1_instruction-4"], 1))
    (row,) = asyncio.run(run_chunk(replace(built, engine=agent), setting, cell, Stamp("test", None))).take()["episodes"]
    assert row["answer"].startswith(expected)
    assert "OUTPUT_FROM_STEP" not in row["answer"]
    assert row["llm_calls"] == 1 + (answering == "after")
