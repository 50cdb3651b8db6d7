"""Agents' processes that are kept: one episode at a time, and nothing of it in the next one."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from grid.planners.outside import keeping
from grid.planners.outside.agent import Command
from grid.planners.outside.process import Process
from grid.settings.config import BudgetConfig
from tests.support.outside import AGENT, left_over, program, run

pytest.importorskip("mcp")


@pytest.fixture(autouse=True)
def nothing_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Neither process nor folder, once those that wait are ended."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    yield
    keeping.end_waiting()
    assert [*tmp_path.iterdir()] == []
    assert not left_over(str(tmp_path))


def kept(*words: object, **more: Any) -> Any:
    return program(*words, reuse=True, **more)


def printed(rows: Any) -> list[list[str]]:
    """What each episode's agent printed, word by word, one episode after another."""
    told = {row["cell_id"]: row["answers"][0].split() for row in rows["messages"] if row["decision"] == "printed"}
    return [told[row["cell_id"]] for row in rows["episodes"]]


@pytest.mark.long
def test_one_process_works_on_one_case_after_another_as_one_for_each_does() -> None:
    rows = run(kept("kept", "loop"), 4, at_once=1)
    assert len({tuple(words) for words in printed(rows)}) == 1, "its number alone, and no token"
    lasting = ("case_id", "status", "success", "answer", "n_steps", "tool_calls", "costs", "seed")
    fresh = run(program("loop"), 4, at_once=1)
    found, wanted = ([[row[name] for name in lasting] for row in one["episodes"]] for one in (rows, fresh))
    assert found == wanted


@pytest.mark.long
def test_it_outlives_the_chunk_and_there_are_as_many_as_cases_at_once() -> None:
    pids = {words[0] for _ in range(2) for words in printed(run(kept("kept", "loop"), 5, at_once=2))}
    assert len(pids) == 2
    other = {words[0] for words in printed(run(kept("kept", "loop", version="2"), 1))}
    assert not other & pids, "another agent's are not for this one"


def test_the_program_of_the_page_is_one(tmp_path_factory: pytest.TempPathFactory) -> None:
    page = (Path(__file__).parents[3] / "docs" / "your-agent.md").read_text(encoding="utf-8")
    found = re.search(r"## Kept for many episodes.*?```python\n(.*?)```", page, re.S)
    assert found
    folder = tmp_path_factory.mktemp("agent")
    (folder / "kept.py").write_text(found[1])
    (folder / "my_agent.py").write_text(AGENT.read_text().replace("def loop(", "def work(").replace("loop(", "work("))
    rows = run(Command(command=f"{sys.executable} {folder}/kept.py", reuse=True), 3, at_once=1)
    assert all(row["costs"]["actor"]["llm_calls"] and row["status"] == "ok" for row in rows["episodes"])
    assert [row for row in rows["messages"] if row["decision"] == "printed"] == [], "the token is no output"
    assert len(keeping._keeper()._all) == 1


def test_it_knows_nothing_before_an_episode_and_is_told_a_fresh_token_with_each() -> None:
    rows = run(kept("kept_look"), 2, at_once=1)
    assert len(rows["messages"]) == 2
    for row in rows["messages"]:
        found = json.loads(row["answers"][0])
        new = {*found["told"]} - {*found["before"]}
        assert "AGENT_GRID_PROCESS" in found["before"]
        assert new >= {"OPENAI_API_KEY", "OPENAI_BASE_URL", "AGENT_GRID_TOKEN", "AGENT_GRID_MCP_URL"}
        assert {found["told"][name] for name in ("OPENAI_API_KEY", "AGENT_GRID_TOKEN")} == {"***"}, "hidden"


@pytest.mark.long
def test_one_that_dies_is_a_row_and_the_next_case_has_another() -> None:
    rows = run(kept("kept_once", "dies"), 3, at_once=1)
    assert [row["error_kind"] for row in rows["episodes"]] == [None, None, None]
    assert [words[1] for words in printed(rows)] == ["0", "0", "0"]


@pytest.mark.long
def test_one_that_ends_behind_each_case_is_started_anew() -> None:
    rows = run(kept("kept_once", "leaves"), 4, at_once=1)
    assert [row["status"] for row in rows["episodes"]] == ["ok"] * 4
    assert len({words[0] for words in printed(rows)}) == 4
    assert len(keeping._keeper()._all) == 1, "the others are gone"
    assert all(row["costs"]["actor"]["llm_calls"] for row in rows["episodes"])


def test_one_that_fails_within_a_case_is_a_row() -> None:
    rows = run(kept("kept", "killed"), 2, at_once=1)["episodes"]
    assert [(row["status"], row["error_kind"]) for row in rows] == [("failed", "model")] * 2
    assert all("by signal 9" in row["error_message"] for row in rows)


@pytest.mark.long
def test_one_that_hangs_ends_with_its_case_and_the_next_has_another() -> None:
    first = run(kept("kept_once", "hangs"))
    second = run(kept("kept_once", "hangs"), budget=BudgetConfig(seconds=1.0))
    third = run(kept("kept_once", "hangs"))
    assert [rows["episodes"][0]["budget_reached"] for rows in (first, second, third)] == [None, "seconds", None]
    pids = [printed(rows)[0][0] for rows in (first, second, third)]
    assert pids[0] == pids[1] != pids[2]


@pytest.mark.long
def test_so_does_one_that_does_not_come_back_behind_its_last_step() -> None:
    rows = run(kept("kept", "finish_and_sleep"), 2, at_once=1, values={"outline": "hidden"})
    assert [row["status"] for row in rows["episodes"]] == ["ok", "ok"]
    assert len({words[0] for words in printed(rows)}) == 2


def test_an_old_token_ends_nothing_and_opens_nothing() -> None:
    rows = run(kept("kept_once", "repeats"), 3, at_once=1)
    assert [row["status"] for row in rows["episodes"]] == ["ok"] * 3
    for number, words in enumerate(printed(rows)):
        assert words[1] == str(number)
        assert words[3:] == (["old", "401"] if number else [])
    assert all(row["costs"]["actor"]["llm_calls"] for row in rows["episodes"]), "each did its own work"


def test_one_that_waits_too_long_is_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(keeping, "IDLE_SECONDS", 0.1)
    ((pid,),) = printed(run(kept("kept", "loop")))
    until = time.monotonic() + 60
    while (os.path.exists(f"/proc/{pid}") or [*tmp_path.iterdir()]) and time.monotonic() < until:
        time.sleep(0.05)
    assert not os.path.exists(f"/proc/{pid}")


def test_one_that_is_ended_while_it_works_is_ended_once(monkeypatch: pytest.MonkeyPatch) -> None:
    gone, ended = Process.gone, list[Process]()

    async def counted(process: Process) -> None:
        ended.append(process)
        await gone(process)

    async def work() -> int:
        turn = keeping.Turn(keeping.Program("sleep 600", (), None), {}, "token", lambda: True)
        while not keeping._keeper()._all:
            await asyncio.sleep(0.01)
        await asyncio.to_thread(keeping.end_waiting)
        return await turn.ended()

    monkeypatch.setattr(Process, "gone", counted)
    assert asyncio.run(work()) == -signal.SIGKILL
    assert len(ended) == 1


def test_what_it_started_ends_with_it() -> None:
    rows = run(kept("kept", "fork"), 1)
    assert [row["status"] for row in rows["episodes"]] == ["ok"]


def test_a_case_that_is_cut_off_takes_its_process_with_it() -> None:
    (row,) = run(kept("kept", "sleep"), seconds=1.0)["episodes"]
    assert (row["status"], row["error_kind"]) == ("failed", "timeout")
