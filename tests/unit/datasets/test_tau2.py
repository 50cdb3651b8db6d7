"""τ²-bench: tasks, their worlds and rewards, against the package's own environment and evaluators."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tau2", reason="the extra tau2 is not installed")

from grid.core.engine import Prompt
from grid.core.types import Observation, Step, Substep, ToolCall, Trajectory, Verdict
from grid.datasets.tau2.dataset import UNFINISHED, Tau2, assertion_prompt, baselines, measure
from grid.datasets.tau2.package import DomainName, Talk
from grid.datasets.tau2.world import SAY, Tau2World
from grid.worlds.simulated import Said
from tests.support.tau2 import (
    agree,
    dataset_at,
    gold_run,
    mock_files,
    mock_task,
    mutated,
    rows,
)

DONE = ToolCall("update_task_status", {"task_id": "task_1", "status": "completed"})
DOMAINS: tuple[DomainName, ...] = ("airline", "retail", "telecom", "mock")


def run(world: Tau2World, calls: Sequence[ToolCall], answer: str | None = None) -> Talk:
    """The state behind calls and the agent's own end."""

    async def through() -> Talk:
        state = world.start()
        for call in calls:
            state, _ = await world.apply(state, call)
        return world.ended(state, answer)

    return asyncio.run(through())


def scores(world: Tau2World, talk: Talk) -> dict[str, Any]:
    """The benchmark's own metrics of a state."""
    return dict(measure(world, Trajectory((), (), talk)))


@pytest.fixture
def mock(tmp_path: Path) -> Tau2:
    """Three small tasks."""
    assertion = {
        "env_type": "assistant",
        "func_name": "assert_task_status",
        "arguments": {"task_id": "task_1", "expected_status": "completed"},
    }
    tasks = [
        mock_task(),
        mock_task("asserted", env_assertions=[assertion], reward_basis=["ENV_ASSERTION", "ACTION"]),
        mock_task("told", communicate_info=["1628", "task_1"], reward_basis=["DB", "COMMUNICATE"]),
        mock_task("judged", nl_assertions=["The agent is polite."], reward_basis=["DB", "NL_ASSERTION"]),
    ]
    return dataset_at(mock_files(tmp_path, tasks), "mock")


def world_of(dataset: Tau2, name: str = "one") -> Tau2World:
    """The world of a task."""
    found = dataset.problem(f"tau2-{dataset.domain}-{name}").world
    assert isinstance(found, Tau2World)
    return found


@pytest.mark.parametrize("name", ["one", "asserted", "told"])
def test_gold_actions_are_worth_1_and_nothing_is_worth_0(mock: Tau2, name: str) -> None:
    gold, world = gold_run(mock, f"tau2-mock-{name}"), world_of(mock, name)
    assert scores(world, run(world, gold.calls, gold.answer))["reward"] == 1.0
    assert scores(world, run(world, ()))["reward"] == 0.0
    assert world.resolved(run(world, gold.calls, gold.answer))
    assert not world.resolved(run(world, gold.calls[:-1]))


def test_a_run_that_nobody_ended_is_worth_0(mock: Tau2) -> None:
    world = world_of(mock)
    state, _ = world.call(world.start(), DONE)
    found = scores(world, state)
    assert found["reward"] == 0.0
    assert found["termination"] == UNFINISHED
    assert found["success_db"] is False
    assert scores(world, world.ended(state, None))["termination"] == "agent_stop"


def test_without_a_judge_only_the_database_is_known(mock: Tau2) -> None:
    world = world_of(mock, "judged")
    found = scores(world, run(world, [DONE]))
    assert found["reward"] is None
    assert found["success"] is None
    assert found["success_db"] is True
    assert json.loads(found["reward_parts"]) == {"DB": 1.0, "NL_ASSERTION": None}
    assert baselines(world) == {"nothing_success": None, "transfer_success": None}
    assert baselines(world_of(mock)) == {"nothing_success": False, "transfer_success": False}


def test_what_has_to_be_told_is_told_by_the_agent(mock: Tau2) -> None:
    world = world_of(mock, "told")
    for answer, value in (
        ("Task_1 cost $1,628.", 1.0),
        ("TASK_1: 1628", 1.0),
        ("1628", 0.0),
        ("task_1: 1 628", 0.0),
        (None, 0.0),
    ):
        assert scores(world, run(world, [DONE], answer))["reward"] == value, answer


def test_failed_calls_end_a_run_and_change_nothing_behind(mock: Tau2) -> None:
    world = replace(world_of(mock), max_errors=3)
    wrong = ToolCall("update_task_status", {"task_id": "task_9", "status": "completed"})
    state = run(world, [wrong, wrong, ToolCall("no_such_tool", {})])
    assert state.ended == "too_many_errors"
    assert world.over(state)
    behind, observation = asyncio.run(world.apply(state, DONE))
    assert observation.failed
    assert behind == state
    assert scores(world, state)["reward"] == 0.0


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"task_id": ["task_1"], "status": "completed"},
        {"task_id": "task_1", "status": {"x": 1}},
        {"task_id": "task_1", "status": "completed", "self": 1},
        {"task_id": "task_1", "status": "completed", "tool_name": "x"},
        {"task_id": None, "status": None},
        {"task_id": "x" * 200_000, "status": "completed"},
    ],
)
def test_whatever_a_model_writes_is_an_observation(mock: Tau2, arguments: dict[str, Any]) -> None:
    world = world_of(mock)
    state, observation = world.call(world.start(), ToolCall("update_task_status", arguments))
    assert observation.text()
    assert isinstance(scores(world, state)["reward"], float)


def test_branches_share_nothing_that_they_change(mock: Tau2) -> None:
    world = world_of(mock)
    start = world.start()
    left, _ = world.call(start, DONE)
    right, _ = world.call(start, ToolCall("create_task", {"user_id": "user_2", "title": "Sand the door"}))
    assert scores(world, world.ended(left, None))["success_db"] is True
    assert scores(world, world.ended(right, None))["success_db"] is False
    assert scores(world, world.ended(start, None))["success_db"] is False
    assert left != right
    assert left == world.call(start, DONE)[0]


class Scripted:
    """A user who says one line after another, and remembers what was said to them."""

    def __init__(self, *lines: str | None) -> None:
        self.lines, self.heard = list(lines), list[Sequence[Said]]()

    async def reply(self, scenario: Sequence[str], said: Sequence[Said]) -> str | None:
        """The next line."""
        self.heard.append(said)
        return self.lines.pop(0)


def say(text: str) -> ToolCall:
    """A message to the user."""
    return ToolCall(SAY.name, {"message": text})


@pytest.mark.parametrize("token", ["###STOP###", "###TRANSFER###", "###OUT-OF-SCOPE###"])
def test_the_user_may_end_the_conversation(mock: Tau2, token: str) -> None:
    user = Scripted("Yes, please.", f"Thank you! {token}")
    world = world_of(mock).talked_to(user, "The ferns are watered.")
    state = run(world, [say("Shall I mark it?"), DONE, say("It is done.")])
    assert state.ended == "user_stop"
    assert scores(world, state)["reward"] == 1.0
    assert [one.text for one in user.heard[-1]] == [
        "Hi! How can I help you today?", "The ferns are watered.", "Shall I mark it?", "Yes, please.", "It is done.",
    ]  # fmt: skip
    _, told = asyncio.run(world.apply(run(world, ()), say("Hello?")))
    assert told.failed


def test_a_reply_without_its_token_is_what_the_agent_reads(mock: Tau2) -> None:
    world = world_of(mock).talked_to(Scripted("Bye ###STOP###"), "Hello")
    state, observation = asyncio.run(world.apply(world.start(), say("Bye")))
    assert observation.content["reply"] == "Bye"
    assert "left" in str(observation.content["status"])
    assert world.over(state)


def test_a_user_who_cannot_be_read_ends_the_run(mock: Tau2) -> None:
    world = world_of(mock).talked_to(Scripted(None), "Hello")
    state, observation = asyncio.run(world.apply(world.start(), say("Bye")))
    assert observation.failed
    assert state.ended == "user_error"
    assert scores(world, world.ended(state, None)) | {"success": False} == scores(world, world.ended(state, None))


def test_a_user_who_leaves_at_once_leaves_nothing_to_do(mock: Tau2) -> None:
    world = world_of(mock).talked_to(Scripted(), "Wrong number. ###STOP###")
    assert world.over(world.start())


@pytest.mark.parametrize("arguments", [{}, {"message": ""}, {"message": 3}, {"message": "x", "to": "y"}])
def test_a_message_without_a_text_is_refused(mock: Tau2, arguments: dict[str, Any]) -> None:
    world = world_of(mock).talked_to(Scripted("Yes"), "Hello")
    state, observation = asyncio.run(world.apply(world.start(), ToolCall(SAY.name, arguments)))
    assert observation.failed
    assert state == world.start()


def test_mutated_runs_are_worth_what_the_package_says(mock: Tau2) -> None:
    rng, known = random.Random(5), rows(mock)
    for place in range(120):
        case_id = mock.case_ids()[place % 4]
        changed = mutated(gold_run(mock, case_id), mock, rng)
        agree(mock, known[case_id.rpartition("-")[2]], case_id, changed)


class Judge:
    """An evaluator that says the same of every statement, and keeps what it was shown."""

    def __init__(self, place: int | None) -> None:
        self.place, self.shown = place, list[str]()

    async def vote(
        self, prompt: Prompt, candidates: Sequence[str], *key: object, temperature: float = 0.0
    ) -> int | None:
        """The place of a candidate; None where nothing can be read."""
        self.shown.append(prompt.text())
        return self.place

    async def score(self, prompt: Prompt, *key: object) -> float | None:
        """Never asked for."""
        raise NotImplementedError

    async def verdict(self, prompt: Prompt, *key: object, truth: Verdict | None = None) -> Verdict | None:
        """Never asked for, without a plan."""
        raise NotImplementedError


@pytest.mark.parametrize(("place", "reward"), [(0, 1.0), (1, 0.0), (None, None)])
def test_a_judge_says_whether_statements_are_true(mock: Tau2, place: int | None, reward: float | None) -> None:
    problem, judge = mock.problem("tau2-mock-judged"), Judge(place)
    world = world_of(mock, "judged")
    state = run(world, [DONE], "It is done.")
    step = Step(0, Substep("0", "", ""), DONE, Observation({"status": "completed"}))
    assert problem.examine is not None
    examine = problem.examine

    async def examined() -> Mapping[str, Any]:
        return await examine(Trajectory((step,), (step,), state), judge)

    found = asyncio.run(examined())
    assert (found["reward"], found["success"]) == (reward, None if reward is None else reward == 1.0)
    (shown,) = judge.shown
    assert "The agent is polite." in shown
    assert "Agent, at the end: It is done." in shown
    assert "update_task_status" in shown


@pytest.mark.parametrize("reply", ["Yes.", None])
@pytest.mark.parametrize("asks", [True, False])
def test_a_judge_sees_each_message_once(mock: Tau2, asks: bool, reply: str | None) -> None:
    """The greeting, the user's first message, what steps say and are told, and the end."""
    world = world_of(mock).talked_to(Scripted(reply), "Please cancel order 7.")
    calls = [say("Shall I?")] if asks else []
    state = run(world, calls, "Done.")
    told = Observation({"reply": reply}, failed=reply is None)
    steps = tuple(Step(0, Substep(str(place), "", ""), call, told) for place, call in enumerate(calls))
    shown = assertion_prompt(state, Trajectory(steps, steps, state), "It is polite.").text()
    places = [shown.find(one.text) for one in state.said]
    assert len(state.said) == 3 + 2 * (asks and reply is not None)
    assert [shown.count(one.text) for one in state.said] == [1] * len(state.said)
    assert places == sorted(places)
