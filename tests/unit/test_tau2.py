"""τ²-bench: tasks, their worlds and rewards, against the package's own environment and evaluators."""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tau2", reason="the extra tau2 is not installed")

from grid.datasets.tau2.dataset import Tau2
from grid.datasets.tau2.scoring import UNFINISHED, baselines, measure
from grid.types import ToolCall, Trajectory
from grid.worlds.talking import Said
from grid.worlds.tau2.package import DomainName
from grid.worlds.tau2.state import Talk
from grid.worlds.tau2.world import SAY, Tau2World
from tests.tau2 import (
    RELEASED,
    Run,
    dataset_at,
    gold_run,
    mock_files,
    mock_task,
    mutated,
    package_parts,
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
    assert baselines(world) == {}
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
        _agree(mock, known[case_id.rpartition("-")[2]], case_id, changed)


def _agree(dataset: Tau2, row: dict[str, Any], case_id: str, changed: Run) -> None:
    world = dataset.problem(case_id).world
    assert isinstance(world, Tau2World)
    talk = world.start()
    for call in changed.calls:
        talk, _ = replace(world, max_errors=1000).call(talk, call)
    mine = {**world.parts(world.ended(talk, changed.answer))}
    mine.pop("NL_ASSERTION", None)
    try:
        theirs = package_parts(dataset, row, changed)
    except ValueError:  # an assertion breaks, and with it their evaluation
        assert mine["ENV_ASSERTION"] == 0.0
        return
    assert mine == {name: theirs.get(name) for name in mine}, (case_id, changed)


def _released() -> str:
    path = os.environ.get(RELEASED)
    if path is None:
        pytest.skip(f"set {RELEASED} to τ²-bench's folder")
    return path


@pytest.mark.parametrize("name", DOMAINS)
def test_gold_actions_solve_every_released_task(name: DomainName) -> None:
    dataset = dataset_at(_released(), name)
    for case_id in dataset.case_ids():
        gold, world = gold_run(dataset, case_id), dataset.problem(case_id).world
        assert isinstance(world, Tau2World)
        found = scores(world, run(world, gold.calls, gold.answer))
        parts = json.loads(found["reward_parts"])
        assert {part for basis, part in parts.items() if basis != "NL_ASSERTION"} == {1.0}, case_id
        assert found["success_db"] is (None if name == "telecom" else True), case_id


@pytest.mark.parametrize(("name", "count"), [("telecom", 200), ("retail", 120), ("airline", 80), ("mock", 100)])
def test_mutated_released_runs_are_worth_what_the_package_says(name: DomainName, count: int) -> None:
    dataset, rng = dataset_at(_released(), name), random.Random(11)
    known, ids = rows(dataset), dataset.case_ids()
    for place in range(count):
        case_id = ids[place % len(ids)]
        row = known[case_id.removeprefix(f"tau2-{name}-")]
        _agree(dataset, row, case_id, mutated(gold_run(dataset, case_id), dataset, rng))


def test_the_drawn_tasks_are_shared_out_by_domain() -> None:
    path = _released()
    every = {name: len(dataset_at(path, name).case_ids()) for name in DOMAINS[:3]}
    drawn = {name: Tau2(path=path, domain=name, user="instructions", draw=100).case_ids() for name in DOMAINS[:3]}
    assert sum(map(len, drawn.values())) == 100
    for name, ids in drawn.items():
        assert abs(len(ids) - 100 * every[name] / (sum(every.values()) + 1)) < 1
        assert ids == Tau2(path=path, domain=name, user="instructions", draw=100).case_ids()
