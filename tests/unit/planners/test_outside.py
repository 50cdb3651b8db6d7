"""Agents from outside: what they ask and call is an episode's, what they do wrong a row, and nothing of them stays."""

from __future__ import annotations

import asyncio
import html
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from analysis.report import print_report
from analysis.screen import print_screen
from grid.core.engine import MESSAGES, NATIVE, SAMPLE
from grid.core.errors import ConfigError
from grid.datasets import bfcl_records
from grid.engines.messages import messages
from grid.planners.outside import chat, process, responses
from grid.planners.outside.agent import Command
from grid.planners.outside.chat import RefusedError
from grid.planners.outside.gateway import gateway
from grid.planners.outside.process import KEPT
from grid.planners.react import ReAct
from grid.settings.check import invalid_reason
from grid.settings.config import BudgetConfig
from launch.report import write_page
from tests.support import bfcl_turns
from tests.support.configs import FOLDERS, setting_of
from tests.support.native import FIND, Native, tagged
from tests.support.native import episode as native_episode
from tests.support.outside import AGENT, HIDDEN, left_over, printed, program, run

pytest.importorskip("mcp")
# What it does is the episode's.


def test_a_program_asks_and_calls_as_a_planner_does() -> None:
    rows = run(program("loop"), cases=3)
    for row in rows["episodes"]:
        assert (row["status"], row["error_message"]) == ("ok", None)
        asked = [one for one in rows["messages"] if one["cell_id"] == row["cell_id"] and one["decision"] != "printed"]
        steps = [one for one in rows["steps"] if one["cell_id"] == row["cell_id"]]
        spent = row["costs"]["actor"]
        assert spent["llm_calls"] == len(asked) > 0
        assert spent["uncounted_answers"] == 0
        assert sum(step["input_tokens"] for step in steps) == spent["input_tokens"] > 0
        assert row["n_steps"] == len(steps)


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


def test_reports_say_in_how_many_cells_an_agent_asked_nothing(tmp_path: Path) -> None:
    command = {"command": "python own.py"}
    run(program("late"), 3, root=tmp_path, planner="outside", planner_values=command, values=HIDDEN)
    run(program("loop"), 3, root=tmp_path, values=HIDDEN)
    told, screen = (Console(file=StringIO(), width=1000) for _ in range(2))
    tables = {table.title: table for table in print_report(tmp_path, told)}
    print_screen(tmp_path, screen)
    page = write_page(tmp_path, [*tables.values()]).read_text(encoding="utf-8")
    warning = (
        "warning: outside: in 3 of 3 cells the agent asked no model of the setting: their tokens and money are not"
    )
    for text in (told.file.getvalue(), screen.file.getvalue(), html.unescape(page)):  # type: ignore[attr-defined]
        assert text.count(warning) == text.count("asked no model") == 1
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
    assert json.loads(printed(rows)) == {
        "token": 401, "none": 401, "mcp": 401, "model": 404, "large": 413, "json": 400, "path": 404, "good": 200,
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


# In this process.


@pytest.fixture
def agents() -> Any:
    pytest.importorskip("openai")
    from tests.support import agents

    return agents


PERFECT = {"tool_skill": 1.0, "argument_skill": 1.0, "malformed": 0.0, "recovery": 1.0, "case_spread": 0.0}


@pytest.mark.parametrize("outline", ["given", "hidden"])
@pytest.mark.parametrize("robustness", ["none", "broken_tool", "extraneous"])
def test_who_knows_what_is_right_is_as_right_as_react(agents: Any, outline: str, robustness: str) -> None:
    more: Any = {"values": {"outline": outline}, "model_values": PERFECT, "robustness": robustness}
    ours, theirs = (run(planner, 4, **more)["episodes"] for planner in (ReAct(), agents.Loop()))
    told = [
        {row["case_id"]: (row["success"], row["n_steps"], row["tool_calls"]) for row in rows} for rows in (ours, theirs)
    ]
    assert told[0] == told[1]
    assert robustness == "broken_tool" or any(success for success, *_ in told[1].values())


def test_an_answer_that_is_returned_ends_the_work(agents: Any) -> None:
    async def what(query: str, tools: Any, client: Any) -> str:
        assert "Query: " in query
        assert {"finish", "give_up"} < {tool["function"]["name"] for tool in tools.definitions()}
        return "done"

    rows = run(agents.Doing(what=what), values=HIDDEN)
    (row,), (step,) = rows["episodes"], rows["steps"]
    assert (row["status"], row["answer"], row["n_steps"], step["chosen_tool"]) == ("ok", "done", 1, "finish")
    assert (row["costs"]["actor"]["input_tokens"], row["money"]) == (None, None)


def test_giving_up_is_no_answer(agents: Any) -> None:
    async def what(query: str, tools: Any, client: Any) -> None:
        await tools.call("give_up", {})
        assert tools.definitions() == []
        with pytest.raises(RefusedError):
            await tools.call("finish", {})

    (row,) = run(agents.Doing(what=what), values=HIDDEN)["episodes"]
    assert (row["status"], row["error_message"], row["n_steps"], row["success"]) == ("ok", None, 0, False)


def test_a_tool_that_is_not_offered_is_a_step_that_could_not_be_read(agents: Any) -> None:
    async def what(query: str, tools: Any, client: Any) -> None:
        result = await tools.call("rm", {"path": "/"})
        assert result.failed
        assert "was not offered" in result.text

    rows = run(agents.Doing(what=what), values=HIDDEN)
    assert [row["chosen_tool"] for row in rows["steps"]] == [None, "finish"]
    assert [row["tool_calls"] for row in rows["episodes"]] == [0]


def test_what_a_request_may_ask_for(agents: Any) -> None:
    async def what(query: str, tools: Any, client: Any) -> None:
        asked: Any = {"model": "agent-grid", "messages": [{"role": "user", "content": query}]}
        functions = tools.definitions()
        several = await client.chat.completions.create(**asked, tools=functions, n=3)
        assert len(several.choices) == 3
        assert several.usage.prompt_tokens > 0
        stream = await client.chat.completions.create(
            **asked, tools=functions, stream=True, stream_options={"include_usage": True}
        )
        parts = [part async for part in stream]
        calls = [call for part in parts for choice in part.choices for call in choice.delta.tool_calls or ()]
        assert [call.function.name for call in calls] <= [tool["function"]["name"] for tool in functions]
        assert len(calls) == 1
        assert parts[-1].usage.prompt_tokens > 0
        one = functions[:2]
        named = await client.chat.completions.create(**asked, tools=one, n=8)
        made = {call.function.name for choice in named.choices for call in choice.message.tool_calls or ()}
        assert made <= {tool["function"]["name"] for tool in one}
        wrong: Any
        for wrong in ({"logprobs": True}, {"n": 0}, {"messages": []}, {"response_format": {"type": "json_object"}}):
            with pytest.raises(openai.BadRequestError):
                await client.chat.completions.create(**asked | wrong)
        with pytest.raises(openai.NotFoundError, match="the setting's is 'agent-grid'"):
            await client.chat.completions.create(**asked | {"model": "gpt-9"})

    import openai

    (row,) = run(agents.Doing(what=what), values=HIDDEN, model_values={"malformed": 0.0})["episodes"]
    assert (row["status"], row["error_message"]) == ("ok", None), row["error_traceback"]
    assert row["costs"]["actor"]["llm_calls"] == 3 + 1 + 8


def test_so_may_one_of_the_newer_form(agents: Any) -> None:
    async def what(query: str, tools: Any, client: Any) -> str:
        asked: Any = {"model": "agent-grid", "instructions": "You call tools.", "tools": flat(tools.definitions())}
        history: list[Any] = [{"role": "user", "content": [{"type": "input_text", "text": query}]}]
        for _ in range(2):
            found = await client.responses.create(input=history, **asked)
            assert (found.status, found.output_text) == ("completed", "")
            assert found.usage.total_tokens == found.usage.input_tokens + found.usage.output_tokens > 0
            (call,) = found.output
            assert call.name in {tool["name"] for tool in asked["tools"]}
            result = await tools.call(call.name, json.loads(call.arguments))
            history += [call.model_dump(exclude_none=True)]
            history += [{"type": "function_call_output", "call_id": call.call_id, "output": result.text}]
        text = await client.responses.create(model="agent-grid", input="Say something.", max_output_tokens=50)
        assert [item.type for item in text.output] == ["message"]
        assert text.output_text
        parts = [part async for part in await client.responses.create(input=history, stream=True, **asked)]
        assert [part.sequence_number for part in parts] == [*range(len(parts))]
        async with client.responses.stream(input=history, **asked) as stream:
            kinds = [event.type async for event in stream]
            whole = await stream.get_final_response()
        assert (kinds[0], kinds[-1]) == ("response.created", "response.completed")
        assert [item.type for item in whole.output] == ["function_call"]
        assert isinstance(json.loads(whole.output[0].arguments), dict)
        async with client.responses.stream(model="agent-grid", input="Say something.") as stream:
            assert "".join([event.delta async for event in stream if event.type == "response.output_text.delta"])
            assert (await stream.get_final_response()).output_text
        wrong: Any
        for wrong, told in (
            ({"previous_response_id": "resp_1"}, "previous_response_id"),
            ({"input": []}, "input"),
            ({"input": [{"type": "item_reference", "id": "x"}]}, "type"),
            ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, "input_image"),
            ({"tools": [{"type": "web_search"}]}, "tools.0.type"),
            ({"text": {"format": {"type": "json_object"}}}, "response_format"),
        ):
            with pytest.raises(openai.BadRequestError, match=told):
                await client.responses.create(**asked | {"input": "x"} | wrong)
        with pytest.raises(openai.NotFoundError, match="the setting's is 'agent-grid'"):
            await client.responses.create(model="gpt-9", input="x")
        return "done"

    import openai

    (row,) = run(agents.Doing(what=what), values=HIDDEN, model_values={"malformed": 0.0})["episodes"]
    assert (row["status"], row["error_message"]) == ("ok", None), row["error_traceback"]
    assert (row["costs"]["actor"]["llm_calls"], row["n_steps"]) == (6, 3)


def test_both_forms_of_a_request_are_one() -> None:
    tool = {"name": "f", "description": "It does f.", "parameters": {"type": "object", "properties": {}}}
    alike: Any = {"model": "agent-grid", "temperature": 0.5, "parallel_tool_calls": False, "stream": True}
    call = {"name": "f", "arguments": '{"a": 1}'}
    older = {
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Do it."},
            {"role": "assistant", "content": "I do.", "tool_calls": [{"id": "1", "function": call}]},
            {"role": "tool", "tool_call_id": "1", "content": "done"},
            {"role": "assistant", "content": None, "tool_calls": [{"id": n, "function": call} for n in "23"]},
        ],
        "tools": [{"type": "function", "function": tool}],
        "tool_choice": {"type": "function", "function": {"name": "f"}},
        "max_completion_tokens": 9,
    }
    newer = {
        "instructions": "Be brief.",
        "input": [
            {"role": "user", "content": "Do it."},
            {"type": "reasoning", "id": "r", "summary": []},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I do."}]},
            {"type": "function_call", "call_id": "1", **call},
            {"type": "function_call_output", "call_id": "1", "output": [{"type": "input_text", "text": "done"}]},
            *({"type": "function_call", "call_id": n, **call} for n in "23"),
        ],
        "tools": [{"type": "function", "strict": True, **tool}],
        "tool_choice": {"type": "function", "name": "f"},
        "max_output_tokens": 9,
    }
    assert responses.read(alike | newer) == chat.read(alike | older)


def flat(functions: list[Any]) -> list[Any]:
    """Functions as the newer form defines them."""
    return [{"type": "function", **tool["function"]} for tool in functions]


def test_the_same_request_again_is_drawn_anew_and_nothing_depends_on_the_order(agents: Any) -> None:
    async def asked(query: str, client: Any, more: str) -> list[Any]:
        messages = [{"role": "user", "content": query + more}]
        found = await client.chat.completions.create(model="agent-grid", messages=messages, temperature=1.0, n=4)
        return [choice.message.content for choice in found.choices]

    seeds: list[list[int]] = []

    for order in ("ab", "ba"):

        async def what(query: str, tools: Any, client: Any, order: str = order) -> None:
            for more in (*order, *order):
                await asked(query, client, more)

        rows = run(agents.Doing(what=what), values=HIDDEN)
        seeds.append([row["seed"] for row in rows["messages"] if row["decision"] != "printed"])
    assert len(set(seeds[0])) == 4
    assert sorted(seeds[0]) == sorted(seeds[1])


def test_an_agent_that_raises_is_the_codes_failure(agents: Any) -> None:
    async def what(query: str, tools: Any, client: Any) -> None:
        raise KeyError("no such thing")

    (row,) = run(agents.Doing(what=what))["episodes"]
    assert (row["status"], row["error_kind"]) == ("failed", "code")
    assert "KeyError" in row["error_message"]


def test_an_error_of_the_engines_is_the_cells_and_not_the_agents(agents: Any) -> None:
    async def what(query: str, tools: Any, client: Any) -> str:
        import openai

        for _ in range(20):
            with suppress(openai.APIError):
                await client.chat.completions.create(model="agent-grid", messages=[{"role": "user", "content": "x"}])
        return "as if nothing had been"

    (row,) = run(agents.Doing(what=what), budget=BudgetConfig(llm_calls=3))["episodes"]
    assert (row["status"], row["budget_reached"], row["answer"]) == ("ok", "llm_calls", None)


# A language model reads the agent's own messages.


class Talking(Native):
    """Takes messages, too."""

    provides = frozenset({SAMPLE, NATIVE, MESSAGES})


def test_a_language_model_gets_the_agents_messages_word_for_word(agents: Any) -> None:
    async def what(query: str, tools: Any, client: Any) -> None:
        own = {"type": "function", "function": {"name": "think", "parameters": {"type": "object", "properties": {}}}}
        asked: list[Any] = [
            {"role": "system", "content": "You are mine."},
            {"role": "user", "content": [{"type": "text", "text": "Do it."}]},
        ]
        functions = [*tools.definitions(), own]
        for _ in range(2):
            answer = await client.chat.completions.create(model="agent-grid", messages=asked, tools=functions)
            said = answer.choices[0].message
            asked.append(said.model_dump(exclude_none=True))
            for call in said.tool_calls:
                given = json.loads(call.function.arguments)
                known = call.function.name != "think"
                text = (await tools.call(call.function.name, given)).text if known else "thought"
                asked.append({"role": "tool", "tool_call_id": call.id, "content": text})
        sent.extend(asked)

    sent: list[Any] = []
    engine = Talking([tagged(FIND, words="I look."), tagged(("think", {}))])
    with asyncio.Runner() as runner:
        runner.run(agents.Doing(what=what).solve(native_episode(engine)))
    first, second = engine.prompts
    assert messages(first, str, as_text=True) == [sent[0], {"role": "user", "content": "Do it."}]
    history = messages(second, str, as_text=True)
    assert [(one["role"], one["content"]) for one in history[2:]] == [
        ("assistant", "I look."),
        ("tool", sent[3]["content"]),
    ]
    assert history[2]["tool_calls"] == sent[2]["tool_calls"]
    assert history[3]["tool_call_id"] == sent[2]["tool_calls"][0]["id"]
    assert sent[3]["content"].startswith("Step 0 returned {")
    assert [one["function"]["name"] for one in second.functions()][-1] == "think"
    assert [call["function"]["name"] for call in sent[4]["tool_calls"]] == ["think"]


# Where the user says several things.


@pytest.fixture(scope="module")
def talks(tmp_path_factory: pytest.TempPathFactory) -> str:
    pytest.importorskip("bfcl_eval", reason=bfcl_records.INSTALL)
    return bfcl_turns.write(tmp_path_factory.mktemp("bfcl_turns"))


@pytest.mark.parametrize("category", ["multi_turn_base", "multi_turn_miss_func", "multi_turn_miss_param"])
@pytest.mark.parametrize("kept", [None, False, True], ids=["method", "program", "kept"])
def test_who_knows_what_is_right_resolves_every_conversation(
    agents: Any, talks: str, category: str, kept: bool | None
) -> None:
    words = ("kept", "loop") if kept else ("loop",)
    planner = agents.Loop() if kept is None else program(*words, reuse=kept)
    of: Any = {"dataset": "bfcl", "values": {"path": talks, "category": category}, "model_values": PERFECT}
    ours, theirs = (run(one, 3, **of)["episodes"] for one in (ReAct(), planner))
    found, wanted = (
        {
            row["case_id"]: (row["success"], row["n_steps"], row["tool_calls"], row["costs"]["actor"]["llm_calls"])
            for row in rows
        }
        for rows in (theirs, ours)
    )
    assert found == wanted
    assert [success for success, *_ in found.values()] == [True] * 3


def test_each_message_is_a_run_of_its_own_that_is_told_what_was_done_before(agents: Any, talks: str) -> None:
    async def what(query: str, tools: Any, client: Any) -> str | None:
        queries.append(query)
        if len(queries) == 1:
            await client.chat.completions.create(model="agent-grid", messages=[{"role": "user", "content": "x"}])
            await tools.call("mkdir", {"dir_name": "done"})
        return f"answer {len(queries)}"

    queries: list[str] = []
    of: Any = {"dataset": "bfcl", "values": {"path": talks, "category": "multi_turn_base"}}
    (row,) = run(agents.Doing(what=what), **of)["episodes"]
    first, second, third = queries
    assert first.endswith("Query: Which files are here?")
    did = '0 -> {"tool": "mkdir", "arguments": {"dir_name": "done"}} returned {"result": null}'
    assert did in second
    assert second.endswith("The user: Tweet 'Off we go' with #trip.")
    assert did in third
    assert '"answer 2"' in third
    assert third.endswith("And list again.")
    assert row["costs"]["actor"]["uncounted_answers"] == 0, "it asked in one turn, and not in the others"


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
