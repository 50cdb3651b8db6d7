"""Solvable pass rate: who is asked what, and what comes of it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import pytest

from grid.cells.run import Stamp, run_chunk
from grid.core.engine import CHOOSE, EVALUATOR, SAMPLE, Choice, Home, Prompt, Sampled
from grid.core.types import FINISH, Observation, Step, Substep, ToolCall, Trajectory, Usage, to_json
from grid.datasets.stabletoolbench import RUNS, TEMPERATURE, VERDICTS, pass_rate
from grid.episode.judging import Judging
from grid.roles.evaluation import Evaluation
from grid.settings.build import build
from grid.settings.config import BudgetConfig
from grid.settings.setting import cells
from tests.support.configs import setting_of

UNSURE, UNSOLVED, SOLVED = range(3)
CALL = ToolCall("convert", {"amount": 5})


@dataclass
class Judge:
    """Gives these verdicts one after another; None is an answer that cannot be read."""

    verdicts: Sequence[int | None]
    prompts: list[Prompt] = field(default_factory=list)
    seeds: list[int] = field(default_factory=list)
    temperatures: list[float] = field(default_factory=list)
    provides: ClassVar[frozenset[str]] = frozenset({SAMPLE, CHOOSE})
    home: ClassVar[Home] = "task"
    name: ClassVar[str] = "test"
    sampler: ClassVar[None] = None
    version: str = "judge"

    async def sample(self, prompt: Prompt, *, n: int, temperature: float, max_tokens: int, seed: int) -> Sampled:
        told = self._next(prompt, seed)
        self.temperatures.append(temperature)
        text = "well," if told is None else f'{{"best": {told}, "explanation": ""}}'
        return Sampled((text,), Usage(llm_calls=1))

    async def choose(self, prompt: Prompt, *, seed: int) -> Choice:
        told = self._next(prompt, seed)
        return Choice(tuple(float(place == told) for place in range(3)), Usage(forward_passes=1))

    def _next(self, prompt: Prompt, seed: int) -> int | None:
        self.prompts.append(prompt)
        self.seeds.append(seed)
        return self.verdicts[(len(self.prompts) - 1) % len(self.verdicts)]


def trajectory(answer: str | None = "It is 52 crowns.", finished: bool = True) -> Trajectory:
    made = Step(0, Substep("0", "", ""), CALL, Observation({"rate": 10.5}), written=CALL)
    ended = [Step(0, Substep("1", "", ""), None, None, finished=True)] if finished else []
    return Trajectory((made, *ended), (), answer=answer)


def judged(judge: Judge, found: Trajectory, **how: Any) -> dict[str, Any]:
    evaluation = Evaluation(judge, Judging(**{"max_retries": 0} | how), seed=3)
    return dict(asyncio.run(pass_rate("What are 5 dollars in crowns?", found, evaluation)))


@pytest.mark.parametrize(
    "found",
    [
        trajectory(answer=None),
        trajectory(answer=""),
        trajectory(answer=" \n"),
        trajectory(finished=False),
        Trajectory((), (), answer="It is 52 crowns."),
    ],
)
def test_nobody_is_asked_about_a_path_without_a_final_answer(found: Trajectory) -> None:
    judge = Judge([SOLVED])
    assert judged(judge, found) == {"passed": 0.0, "passed_sd": 0.0}
    assert judge.prompts == []


@pytest.mark.parametrize(
    ("verdicts", "passed", "asked"),
    [
        ([SOLVED], 1.0, 3),
        ([UNSOLVED], 0.0, 3),
        ([UNSURE, SOLVED], 1.0, 6),
        ([UNSURE, UNSOLVED], 0.0, 6),
        ([UNSURE], 0.5, 6),
        ([SOLVED, UNSOLVED, UNSOLVED], 1 / 3, 3),
        ([SOLVED, UNSURE, UNSURE, UNSOLVED], 0.5, 4),
        ([None, SOLVED, UNSOLVED], 0.5, 3),
        ([None], None, 3),
        ([UNSURE, None, SOLVED, SOLVED], 1.0, 4),
    ],
)
def test_verdicts_are_averaged_over_three_runs(verdicts: list[int | None], passed: float | None, asked: int) -> None:
    judge = Judge(verdicts)
    found = judged(judge, trajectory())
    assert len(judge.prompts) == asked
    assert found.get("passed") == (None if passed is None else pytest.approx(passed))
    assert (found.get("passed_sd", 0.0) == 0.0) == (passed in (None, 0.0, 1.0) or verdicts == [UNSURE])


def test_the_first_question_shows_the_answer_and_the_second_the_calls_too() -> None:
    judge = Judge([UNSURE])
    judged(judge, trajectory())
    first, second = (prompt.text() for prompt in judge.prompts[:2])
    for text in (first, second):
        assert text.count("What are 5 dollars in crowns?") == text.count("It is 52 crowns.") == 1
        assert all(verdict in text for verdict in VERDICTS)
    assert '"convert"' not in first
    assert '{"tool": "convert", "arguments": {"amount": 5}} returned {"rate": 10.5}' in second
    assert "finish" not in second


def test_runs_draw_their_own_answers_where_they_are_drawn_at_all() -> None:
    text, digits = Judge([SOLVED]), Judge([UNSOLVED])
    judged(text, trajectory())
    assert len({*text.seeds}) == RUNS
    assert text.temperatures == [TEMPERATURE] * RUNS
    again = Judge([SOLVED])
    judged(again, trajectory())
    assert again.seeds == text.seeds
    assert judged(digits, trajectory(), form="digits") == {"passed": 0.0, "passed_sd": 0.0}


@dataclass
class Planning(Judge):
    """Answers every prompt for a plan with one call and, behind it, an end with an answer or without."""

    ends: Sequence[dict[str, Any]] = ()

    async def sample(self, prompt: Prompt, *, n: int, temperature: float, max_tokens: int, seed: int) -> Sampled:
        plan = [{"tool": "health_for_cinema_guide", "arguments": {}}, *self.ends]
        return Sampled((to_json({"plan": plan}),), Usage(llm_calls=1))


@pytest.mark.parametrize(
    ("ends", "passed"),
    [
        ([{"tool": FINISH, "arguments": {"answer": "The guide is up."}}], 1.0),
        ([{"tool": FINISH, "arguments": {}}], 0.0),
        ([], 0.0),
    ],
)
def test_a_chain_is_judged_where_its_plan_ends_with_an_answer(
    small_stabletoolbench: str, ends: list[dict[str, Any]], passed: float
) -> None:
    values = {"path": small_stabletoolbench, "group": "G1_instruction", "order": "file", "answering": "none"}
    setting = setting_of(values, dataset="stabletoolbench", planner="zero_shot", retriever="oracle")
    built, judge = build(setting, BudgetConfig()), Judge([SOLVED])
    cell = list(cells(setting, built.version, ["G1_instruction-4"], 1))
    for roles in ({}, {EVALUATOR: judge}):
        asking = dict.fromkeys(roles, Judging())
        actor = Planning([], ends=ends)
        whole = replace(built, engine=actor, roles=roles, judging=asking)
        labelled = replace(setting, labels={**setting.labels, **dict.fromkeys(roles, "judge")})
        (row,) = asyncio.run(run_chunk(whole, labelled, cell, Stamp("test", None))).take()["episodes"]
        assert (row["error_message"], row["success"], row["exact_match"]) == (None, True, True)
        assert row["passed"] == (passed if roles else None)
    assert row["evaluator_calls"] == len(judge.prompts) == 3 * passed
