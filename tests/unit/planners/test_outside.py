"""Agents from outside: what they ask and call is an episode's, what they do wrong a row, and nothing of them stays."""

from __future__ import annotations

import html
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from analysis.report import print_report
from analysis.screen import print_screen
from grid.core.errors import ConfigError
from grid.planners.outside import process
from grid.planners.outside.agent import Command
from grid.planners.outside.gateway import gateway
from grid.planners.outside.process import KEPT
from grid.settings.check import invalid_reason
from grid.settings.config import BudgetConfig
from launch.report import write_page
from tests.support.configs import FOLDERS, setting_of
from tests.support.outside import AGENT, HIDDEN, PERFECT, left_over, printed, program, run

pytest.importorskip("mcp")


# What it does is the episode's.


def test_a_program_asks_and_calls_as_a_planner_does() -> None:
    rows = run(program("loop"), cases=3, model_values={"malformed": 0.0})  # it ends where an answer cannot be read
    for row in rows["episodes"]:
        assert (row["status"], row["error_message"]) == ("ok", None)
        asked = [one for one in rows["messages"] if one["cell_id"] == row["cell_id"] and one["decision"] != "printed"]
        steps = [one for one in rows["steps"] if one["cell_id"] == row["cell_id"]]
        spent = row["costs"]["actor"]
        assert spent["llm_calls"] == len(asked) > 0
        assert spent["uncounted_answers"] == 0
        assert sum(step["input_tokens"] for step in steps) == spent["input_tokens"] > 0
        assert row["n_steps"] == len(steps)


@pytest.mark.long
def test_a_cell_of_a_program_repeats_itself() -> None:
    lasting = ("success", "answer", "n_steps", "tool_calls", "costs")
    first, second = (
        {row["case_id"]: [row[name] for name in lasting] for row in run(program("loop"), 2)["episodes"]} for _ in "ab"
    )
    assert first == second, "whichever ends first"


def test_calls_side_by_side_are_steps_one_after_another() -> None:
    rows = run(program("side_by_side"), values=HIDDEN)
    assert sorted(map(int, json.loads(printed(rows)))) == [*range(8)]
    assert [row["substep_id"] for row in rows["steps"]][:8] == [*map(str, range(8))]


def test_a_budget_ends_it() -> None:
    (row,) = run(program("for_ever"), budget=BudgetConfig(llm_calls=5))["episodes"]
    assert (row["status"], row["budget_reached"], row["costs"]["actor"]["llm_calls"]) == ("ok", "llm_calls", 5)


def test_so_does_the_budget_of_seconds_where_it_asks_nothing() -> None:
    (row,) = run(program("sleep"), budget=BudgetConfig(seconds=1.0))["episodes"]
    assert (row["status"], row["budget_reached"]) == ("ok", "seconds")


def test_and_the_time_of_a_case() -> None:
    (row,) = run(program("sleep"), seconds=1.0)["episodes"]
    assert (row["status"], row["error_kind"]) == ("failed", "timeout")


def test_an_agent_that_asks_nothing_has_no_costs() -> None:
    (row,) = run(program("late"), values=HIDDEN)["episodes"]
    assert (row["costs"]["actor"]["llm_calls"], row["costs"]["actor"]["input_tokens"]) == (0, None)
    assert row["money"] is None


@pytest.mark.long
def test_reports_say_in_how_many_cells_an_agent_asked_nothing(tmp_path: Path) -> None:
    command = {"command": "python own.py"}
    run(program("late"), 3, root=tmp_path, planner="outside", planner_values=command, values=HIDDEN)
    run(program("loop"), 3, root=tmp_path, values=HIDDEN)
    told, screen = (Console(file=StringIO(), width=1000) for _ in range(2))
    tables = {table.title: table for table in print_report(tmp_path, told)}
    print_screen(tmp_path, screen)
    page = write_page(tmp_path, [*tables.values()]).read_text(encoding="utf-8")
    warning = "warning: outside: in 3 of 3 cells the agent sent no request to the setting's model"
    for text in (told.file.getvalue(), screen.file.getvalue(), html.unescape(page)):  # type: ignore[attr-defined]
        assert text.count(warning) == text.count("sent no request") == 1
    tokens = tables["simulated on slate: costs"].values.set_index("planner")["input_tokens"]
    assert {str(planner): bool(missing) for planner, missing in tokens.isna().items()} == {
        "outside": True,
        "react": False,
    }


# What it does wrong.


@pytest.mark.parametrize(
    ("what", "told"), [("fail", "with status 1; it printed: it went wrong"), ("killed", "by signal 9")]
)
def test_one_that_fails_is_a_row(what: str, told: str) -> None:
    (row,) = run(program(what))["episodes"]
    assert (row["status"], row["error_kind"], row["success"], row["n_steps"]) == ("failed", "model", False, 1)
    assert told in row["error_message"]


def test_what_it_may_not_ask_is_refused() -> None:
    rows = run(program("bad"))
    found = json.loads(printed(rows))
    assert found.pop("mcp large") in (413, 0), "before all of it was sent"
    assert found == {
        "token": 401, "none": 401, "mcp": 401, "model": 404, "large": 413, "json": 400, "path": 404, "good": 200,
        "deep": 400, "newer": 400, "newer token": 401, "mcp deep": 400,
    }  # fmt: skip
    assert [row["costs"]["actor"]["llm_calls"] for row in rows["episodes"]] == [1]


def test_a_token_is_one_episodes_and_ends_with_it(tmp_path: Path) -> None:
    file = tmp_path / "token"
    run(program("save", file))
    assert printed(run(program("again", file))).strip() == "401"
    assert printed(run(program("late"), values=HIDDEN)).strip() == "401"
    assert not left_over(file.read_text())


def test_what_it_prints_is_kept_with_a_bound() -> None:
    text = printed(run(program("print_much", 100)))
    assert len(text) < KEPT + 100
    assert f"{100 * 2**20 + 8 - KEPT:,} bytes left out" in text
    assert text.endswith("the end\n")


def children() -> set[str]:
    """The processes that this one has started, where the kernel tells them."""
    told = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children")
    return {*told.read_text().split()} if told.exists() else set()


@pytest.mark.long
def test_nothing_that_it_started_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    tokens, made = list[str](), gateway

    def watched() -> Any:
        tokens.extend(session.token for session in made()._sessions)
        return made()

    monkeypatch.setattr("grid.planners.outside.agent.gateway", watched)
    file, before = tmp_path / "token", children()
    run(program("save", file))
    (row,) = run(program("fork"))["episodes"]
    assert row["status"] == "ok"
    assert [path.name for path in tmp_path.iterdir()] == ["token"]
    assert children() <= before, "other tests' servers stay"
    assert all(not left_over(token) for token in (*tokens, file.read_text()))


@pytest.mark.long
def test_a_bomb_is_cleared_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (row,) = run(program("bomb"))["episodes"]
    assert row["status"] == "ok"
    assert [*tmp_path.iterdir()] == []
    assert not left_over(str(tmp_path))


LEAVES = """
import asyncio
from grid.planners.outside.process import Process
async def main():
    await Process.start("sh -c 'touch here; setsid sleep 600 & sleep 600'", [], {}, "no mark")
    await asyncio.sleep(600)
asyncio.run(main())
"""


def test_what_a_killed_worker_left_is_removed_by_the_next_and_nothing_of_a_living_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(process, "_JUST_MADE", -1.0)
    process._clear.cache_clear()
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    workers = [subprocess.Popen([sys.executable, "-c", LEAVES], env=environment) for _ in "ab"]
    try:
        waited(lambda: len([*tmp_path.glob("*/here")]) == 2 and len(left_over(str(tmp_path))) >= 6)
        workers[0].kill()
        workers[0].wait()
        assert len([*tmp_path.iterdir()]) == 2
        run(program("sleep"), budget=BudgetConfig(seconds=0.1))
        (living,) = tmp_path.iterdir()
        waited(lambda: len(left_over(str(tmp_path))) == len(left_over(str(living))) + 1)
        assert len(left_over(f"{living}")) >= 2
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
        process._clear.cache_clear()
        run(program("sleep"), budget=BudgetConfig(seconds=0.1))
    assert [*tmp_path.iterdir()] == []
    waited(lambda: not left_over(str(tmp_path)))


def waited(what: Callable[[], bool]) -> None:
    """Until it is so; a minute at most."""
    until = time.monotonic() + 60
    while not what():
        assert time.monotonic() < until
        time.sleep(0.05)


def test_it_is_told_nothing_but_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_SECRET", "of the sweep")
    monkeypatch.setenv("PASSED", "to the agent")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    rows = run(program("look", environment=["PASSED", "http_proxy"]))
    text = printed(rows)
    found = json.loads(text)
    assert set(found["environment"]) - {"LC_CTYPE", "PWD", "SHLVL", "_"} == {
        *("PATH", "HOME", "TMPDIR", "NO_PROXY", "no_proxy", "PASSED", "http_proxy"),
        *("OPENAI_BASE_URL", "OPENAI_API_KEY", "OPENAI_MODEL"),
        *("AGENT_GRID_MCP_URL", "AGENT_GRID_TOKEN", "AGENT_GRID_QUERY"),
    }
    assert found["files"] == []
    assert "to the agent" not in text, "values that were passed are not kept"
    assert found["environment"]["OPENAI_BASE_URL"].startswith("http://127.0.0.1:")
    case = rows["episodes"][0]
    told = json.dumps({**found["environment"], "AGENT_GRID_QUERY": ""})
    assert case["case_id"] not in told
    assert case["cell_id"] not in told


def test_a_proxy_in_the_environment_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    (row,) = run(program("loop", environment=["http_proxy"]))["episodes"]
    assert row["costs"]["actor"]["llm_calls"] > 1


def test_a_command_that_cannot_be_found_is_no_result() -> None:
    with pytest.raises(ConfigError, match=r"planner\.command"):
        Command(command="no-such-program --at-all")


def test_a_language_model_takes_it_with_native_calls_alone() -> None:
    model: Any = {"model": "openai_http", "planner": "outside"}
    command = {"command": f"{sys.executable} {AGENT} loop"}
    known = {"model": "m", "base_url": "http://127.0.0.1:9/v1"}
    setting = setting_of(dataset="slate", planner_values=command, model_values=known, **model)
    assert "model.tools=native" in (invalid_reason(setting) or "")
    native = setting_of(dataset="slate", planner_values=command, model_values=known | {"tools": "native"}, **model)
    assert invalid_reason(native) is None


# On other benchmarks.


@pytest.mark.long
@pytest.mark.parametrize("dataset", ["bfcl", "workbench"])
def test_a_program_meets_other_benchmarks(dataset: str, request: pytest.FixtureRequest) -> None:
    folder = request.getfixturevalue(FOLDERS[dataset])
    rows = run(program("loop"), 10, values={"path": folder}, dataset=dataset, model_values=PERFECT)
    assert {row["status"] for row in rows["episodes"]} == {"ok"}, [row["error_message"] for row in rows["episodes"]]
    assert sum(bool(row["success"]) for row in rows["episodes"]) >= len(rows["episodes"]) / 2


@pytest.mark.long
def test_agents_that_are_killed_are_rows_and_leave_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    rows = run(program("killed"), 40)["episodes"]
    assert {(row["status"], row["error_kind"], row["success"]) for row in rows} == {("failed", "model", False)}
    assert len(rows) == 40
    assert [*tmp_path.iterdir()] == []
