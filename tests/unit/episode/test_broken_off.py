"""Episodes that broke off: unsolved by the benchmarks' rules, so that judged rates are over the cases of success."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import pytest

from grid.cells.run import Stamp, killed_cell, run_chunk
from grid.core.engine import EVALUATOR, SAMPLE, Choice, Home, Prompt, Sampled
from grid.core.errors import ContextError, EngineError, ErrorKind, ModelError
from grid.core.problem import Judged
from grid.engines.lexical.engine import Lexical
from grid.episode.judging import Judging
from grid.settings.build import Built, build
from grid.settings.config import BudgetConfig
from grid.settings.setting import Setting, cells
from tests.support.configs import FOLDERS, setting_of

JUDGED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "restbench": ({}, {"passed": 0.0}),
    "stabletoolbench": ({"group": "G1_instruction"}, {"passed": 0.0, "passed_sd": 0.0}),
    "traject_bench": ({}, {"traj_satisfy": 0.0, "accuracy": False}),
    "hotpotqa_multi": ({}, {"accuracy": False, "verdict": "refusal"}),
    "kqa_synthetic": ({}, {"accuracy": False, "verdict": "refusal"}),
    "apb": ({}, {"plan_correct": False, "plan_grade": 0.0}),
    "apb_synthetic": ({"scorer": "judge"}, {"plan_correct": False, "plan_grade": 0.0}),
    "apb_both": ({"scorer": "both"}, {"judged_correct": False, "judged_grade": 0.0}),
}
"""By dataset its values, and what is judged of an episode that broke off."""


@dataclass
class Breaking:
    """Breaks off at once."""

    error: Exception
    asked: list[Prompt] = field(default_factory=list)
    provides: ClassVar[frozenset[str]] = frozenset({SAMPLE})
    home: ClassVar[Home] = "task"
    name: ClassVar[str] = "test"
    sampler: ClassVar[None] = None
    version: str = "breaking"

    async def sample(self, prompt: Prompt, *, n: int, temperature: float, max_tokens: int, seed: int) -> Sampled:
        self.asked.append(prompt)
        raise self.error

    async def choose(self, prompt: Prompt, *, seed: int) -> Choice:
        raise self.error


def built_of(name: str, request: pytest.FixtureRequest) -> tuple[Setting, Built]:
    """A dataset with an evaluator."""
    dataset = "apb_synthetic" if name == "apb_both" else name
    values = JUDGED[name][0] | ({"path": request.getfixturevalue(FOLDERS[dataset])} if dataset in FOLDERS else {})
    setting = setting_of(values, dataset=dataset, planner="react" if "apb" not in name else "zero_shot")
    built = build(setting, BudgetConfig())
    setting = replace(setting, labels={**setting.labels, EVALUATOR: "lexical"})
    return setting, replace(built, roles={EVALUATOR: Lexical()}, judging={EVALUATOR: Judging()})


def ran(setting: Setting, built: Built, error: Exception) -> dict[str, Any]:
    case = list(cells(setting, built.version, built.dataset.case_ids()[:1], 1))
    asked = replace(built, engine=Breaking(error))
    (row,) = asyncio.run(run_chunk(asked, setting, case, Stamp("test", None))).take()["episodes"]
    return row


@pytest.mark.long
@pytest.mark.parametrize("name", JUDGED)
def test_an_episode_that_broke_off_is_unsolved_for_the_judge_too(name: str, request: pytest.FixtureRequest) -> None:
    setting, built = built_of(name, request)
    assert isinstance(built.dataset, Judged)
    wanted = JUDGED[name][1]
    for error in (ModelError("no plan"), ContextError("too long")):
        row = ran(setting, built, error)
        assert (row["status"], row["success"], row["evaluator_calls"]) == ("failed", False, 0)
        assert {column: row[column] for column in wanted} == wanted
    row = ran(setting, built, EngineError("gone"))
    assert (row["error_kind"], row["success"]) == (ErrorKind.INFRASTRUCTURE, None)
    assert {row[column] for column in wanted} == {None}, "nothing is known"


@pytest.mark.parametrize("name", JUDGED)
def test_without_a_judge_nothing_is_judged(name: str, request: pytest.FixtureRequest) -> None:
    setting, built = built_of(name, request)
    row = ran(setting, replace(built, roles={}, judging={}), ModelError("no plan"))
    mine = set(JUDGED[name][1]) - ({"plan_correct", "plan_grade", "accuracy"} if name != "traject_bench" else set())
    assert {row[column] for column in mine} <= {None}


@pytest.mark.parametrize("name", JUDGED)
def test_a_cell_that_ends_its_worker_is_unsolved_where_its_time_was_up(
    name: str, request: pytest.FixtureRequest
) -> None:
    setting, built = built_of(name, request)
    (cell,) = cells(setting, built.version, built.dataset.case_ids()[:1], 1)
    for kind, unsolved in ((ErrorKind.TIMEOUT, True), (ErrorKind.INFRASTRUCTURE, False)):
        row = killed_cell(built, setting, cell, Stamp("test", None), "a", kind, "it ended its worker")
        wanted = JUDGED[name][1] if unsolved else dict.fromkeys(JUDGED[name][1])
        assert row["success"] is (False if unsolved else None)
        assert {column: row[column] for column in wanted} == wanted


def test_a_name_that_nobody_declared_ends_no_sweep_with_the_worker(request: pytest.FixtureRequest) -> None:
    setting, built = built_of("traject_bench", request)
    (cell,) = cells(setting, built.version, built.dataset.case_ids()[:1], 1)
    built = replace(built, metrics={})
    row = killed_cell(built, setting, cell, Stamp("test", None), "a", ErrorKind.TIMEOUT, "it ended its worker")
    assert (row["success"], row["accuracy"], row["finished"]) == (False, None, False)
