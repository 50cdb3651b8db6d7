"""A τ²-bench task whose user is a model on a local HTTP server: whole cells, from the first message to their rows."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tau2", reason="the extra tau2 is not installed")

from grid.cells.run import Stamp, run_chunk
from grid.core.engine import EVALUATOR, USER
from grid.core.errors import ConfigError
from grid.core.types import FINISH, to_json
from grid.roles.simulation import Simulating
from grid.settings.build import build
from grid.settings.check import Job, check_sweep, invalid_reason
from grid.settings.config import BudgetConfig
from grid.settings.setting import Keep, cells
from tests.support.configs import SHARED, setting_of
from tests.support.http_server import LocalServer, Reply, completion, refusal
from tests.support.openai_engine import CHAT, KEY, KEY_ENV, after_load, engine
from tests.support.plans import Says
from tests.support.tau2 import airline_files, mock_files, mock_task

FIRST = "I want AAA111 cancelled."
TOO_LONG = refusal(400, "This model's maximum context length is 90 tokens.", code="context_length_exceeded")


def calls(*named: tuple[str, dict[str, Any]]) -> list[str]:
    """What the acting model says: one call an answer."""
    return [to_json({"action": {"tool": tool, "arguments": arguments}}) for tool, arguments in named]


ASK = ("message_user", {"message": "Shall I cancel it?"})
CANCEL = ("cancel_reservation", {"reservation_id": "AAA111"})
DONE = ("message_user", {"message": "It is cancelled."})


class Ran:
    """What came of one cell."""

    def __init__(
        self,
        path: Path,
        acts: Sequence[str],
        says: Sequence[str | Reply],
        monkeypatch: pytest.MonkeyPatch,
        **planner: Any,
    ) -> None:
        """`acts` are the acting model's answers, `says` the user's."""
        monkeypatch.setenv(KEY_ENV, KEY)
        self.actor = Says(acts)
        values = {"path": str(path), "domain": "airline"}
        setting = setting_of(values, planner, dataset="tau2", planner="direct", retriever="none", user="lexical")
        built = replace(build(setting, BudgetConfig()), engine=self.actor, simulating={USER: Simulating(max_retries=1)})
        replies = [completion(one, prompt=50, output=5) if isinstance(one, str) else one for one in says]
        with LocalServer(after_load(*replies)) as server:

            async def through() -> Any:
                user = engine(server.url)
                await user.load()
                own = replace(built, roles={USER: user})
                chunk = list(cells(setting, own.version, own.dataset.case_ids(), 1))
                return await run_chunk(own, setting, chunk, Stamp("test", None), keep=Keep())

            result = asyncio.run(through())
            self.asked = [one.body for one in server.asked if one.path == CHAT][1:]  # behind the probe
        tables = result.take()
        (self.row,), self.steps = tables["episodes"], tables["steps"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """One task of one customer."""
    return airline_files(tmp_path)


def test_a_user_who_has_what_they_want_ends_the_run(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = Ran(path, calls(ASK, CANCEL, DONE), [FIRST, "Yes.", "Thank you. ###STOP###"], monkeypatch)
    assert (ran.row["status"], ran.row["error_message"]) == ("ok", None)
    assert (ran.row["reward"], ran.row["success"], ran.row["termination"]) == (1.0, True, "user_stop")
    assert FIRST in ran.actor.prompts[0].text()
    assert "Thank you." in ran.steps[-1]["observation"]
    assert "###" not in "".join(prompt.text() for prompt in ran.actor.prompts)
    assert (ran.row["user_calls"], ran.row["user_input_tokens"], ran.row["user_output_tokens"]) == (3, 150, 15)
    assert (ran.row["llm_calls"], ran.row["input_tokens"], ran.row["user_failures"]) == (3, 30, 0)


def test_the_user_hears_the_conversation_and_their_scenario_alone(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = Ran(path, calls(ASK, CANCEL, DONE), [FIRST, "Yes.", "Bye ###STOP###"], monkeypatch)
    heard = [to_json(body) for body in ran.asked]
    assert all("You play a customer." in one and "You are Ada Fen." in one for one in heard)
    assert "Agent: Hi! How can I help you today?" in heard[0]
    assert "Agent: Shall I cancel it?" in heard[1]
    assert not any("cancel_reservation" in one or "once they have said yes" in one for one in heard)


def test_the_agent_may_end_it_too(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = Ran(path, calls(CANCEL, (FINISH, {"answer": "Done."})), [FIRST], monkeypatch)
    assert (ran.row["reward"], ran.row["termination"], ran.row["finished"]) == (1.0, "agent_stop", True)


def test_a_user_who_never_stops_is_ended_by_the_planners_limit(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = Ran(path, calls(CANCEL, DONE), [FIRST, "And then?"], monkeypatch, max_calls=6)
    assert (ran.row["reward"], ran.row["termination"], ran.row["n_steps"]) == (0.0, "unfinished", 6)
    assert ran.row["status"] == "ok"


@pytest.mark.parametrize(("reply", "requests"), [("", 3), (TOO_LONG, 2)])
def test_a_user_who_says_nothing_ends_the_run_and_is_counted(
    path: Path, monkeypatch: pytest.MonkeyPatch, reply: str | Reply, requests: int
) -> None:
    """An unreadable answer is asked for again once; a conversation that is too long for the model is not."""
    ran = Ran(path, calls(ASK, CANCEL), [FIRST, reply], monkeypatch)
    assert (ran.row["reward"], ran.row["termination"], ran.row["user_failures"]) == (0.0, "user_error", 1)
    assert (ran.row["error_kind"], len(ran.asked)) == (None, requests)


def test_without_a_first_message_the_cell_fails_and_says_who(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = Ran(path, calls(CANCEL), [""], monkeypatch)
    assert (ran.row["status"], ran.row["error_kind"], ran.row["success"]) == ("failed", "model", None)
    assert "first message of the simulated user" in ran.row["error_message"]
    assert (ran.row["user_calls"], ran.row["user_failures"]) == (2, 1)


def test_lines_of_both_sides_are_cut(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    both = "Customer: Yes.\nAgent: It is cancelled.\nCustomer: Thank you. ###STOP###"
    ran = Ran(path, calls(ASK, CANCEL, (FINISH, {})), [FIRST, both], monkeypatch)
    assert (ran.row["reward"], ran.row["termination"]) == (1.0, "agent_stop")


def test_all_planners_hear_the_same_first_message(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = [Ran(path, calls((FINISH, {})), [FIRST], monkeypatch, max_tokens=most).asked[0] for most in (512, 1024)]
    assert first[0] == first[1]


VALUES = {"domain": "airline", "user": "model"}


def test_a_user_must_be_named(path: Path) -> None:
    with pytest.raises(ConfigError, match=r"dataset\.user.*model@user=NAME"):
        setting_of(VALUES | {"path": str(path)}, dataset="tau2")
    assert USER not in setting_of(VALUES | {"path": str(path), "user": "instructions"}, dataset="tau2").config


@pytest.mark.parametrize("name", ["lexical", "null_engine"])
@pytest.mark.parametrize("role", ["evaluator", "judge"])
def test_only_a_language_model_can_tell_whether_statements_are_true(tmp_path: Path, name: str, role: str) -> None:
    stated = mock_task("stated", reward_basis=["DB", "NL_ASSERTION"], nl_assertions=["The agent is polite."])
    for place, (tasks, refused) in enumerate([([mock_task()], False), ([mock_task(), stated], True)]):
        root = mock_files(tmp_path / str(place), tasks)
        setting = setting_of({"path": str(root), "domain": "mock"}, {}, {}, dataset="tau2", **{role: name})
        setting = replace(setting, labels={**setting.labels, EVALUATOR: name})
        reason = invalid_reason(setting)
        assert (reason is not None) == refused
        if reason:
            assert reason.startswith("conf/dataset/tau2.yaml asks which statements about an episode are true")
            assert f"model@evaluator={name}" in reason
            shared = SHARED | {"store": {"root": str(tmp_path / "results")}}
            with pytest.raises(ConfigError, match=f"model@evaluator={name}"):
                check_sweep([Job(shared | dict(setting.config), setting.labels)])


@pytest.mark.parametrize("name", ["lexical", "simulated", "null_engine"])
def test_only_a_language_model_can_be_the_user(path: Path, name: str) -> None:
    setting = setting_of(VALUES | {"path": str(path)}, dataset="tau2", user=name)
    reason = invalid_reason(setting)
    assert reason is not None
    assert f"conf/model/{name}.yaml" in reason
    assert "needs a language model to play the user" in reason


@pytest.mark.parametrize("planner", ["react", "fh", "egb_logits", "direct", "lats"])
def test_a_policy_that_errs_nowhere_tells_what_has_to_be_told(tmp_path: Path, planner: str) -> None:
    told = mock_task("told", reward_basis=["DB", "COMMUNICATE"], communicate_info=["the ferns", "task_1"])
    judged = mock_task("judged", reward_basis=["DB", "NL_ASSERTION"], nl_assertions=["The agent is polite."])
    root = mock_files(tmp_path, [mock_task(), told, judged])
    skills = {"tool_skill": 1.0, "argument_skill": 1.0, "malformed": 0.0}
    values = {"path": str(root), "domain": "mock"}
    setting = setting_of(values, {}, skills, dataset="tau2", model="simulated", planner=planner, retriever="none")
    built = build(setting, BudgetConfig())
    chunk = list(cells(setting, built.dataset.version, built.dataset.case_ids(), 1))
    result = asyncio.run(run_chunk(built, setting, chunk, Stamp("test", None))).take()
    rows = {row["case_id"]: row for row in result["episodes"]}
    assert {name: (row["reward"], row["success"]) for name, row in rows.items()} == {
        "tau2-mock-one": (1.0, True),
        "tau2-mock-told": (1.0, True),
        "tau2-mock-judged": (None, None),
    }
    assert {name: row["nothing_success"] for name, row in rows.items()} == {
        "tau2-mock-one": False,
        "tau2-mock-told": False,
        "tau2-mock-judged": None,
    }
    assert rows["tau2-mock-told"]["answer"] == "the ferns; task_1"
    assert rows["tau2-mock-one"]["answer"] is None
