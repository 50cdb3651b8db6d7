"""Agents in this process: what a request may ask for, what a language model is sent, and conversations."""

from __future__ import annotations

import asyncio
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest

from grid.core.engine import MESSAGES, NATIVE, SAMPLE
from grid.core.errors import BudgetError, EngineError, ToolError
from grid.core.types import Case, Plan
from grid.datasets import bfcl_records
from grid.engines.messages import messages
from grid.episode.episode import Episode
from grid.episode.progress import Budget
from grid.planners.outside import chat, responses
from grid.planners.outside.chat import RefusedError
from grid.planners.outside.gateway import gateway
from grid.planners.outside.session import MOST_AT_ONCE, Session
from grid.planners.react import ReAct
from grid.settings.config import BudgetConfig
from tests.support import agents, bfcl_turns
from tests.support.kopl_world import kopl_world
from tests.support.native import FIND, Native, tagged
from tests.support.native import episode as native_episode
from tests.support.outside import HIDDEN, PERFECT, program, run

pytest.importorskip("mcp")
openai = pytest.importorskip("openai")
httpx2 = pytest.importorskip("httpx2")


@pytest.mark.long
@pytest.mark.parametrize("outline", ["given", "hidden"])
@pytest.mark.parametrize("robustness", ["none", "broken_tool", "extraneous"])
def test_who_knows_what_is_right_is_as_right_as_react(outline: str, robustness: str) -> None:
    more: Any = {"values": {"outline": outline}, "model_values": PERFECT, "robustness": robustness}
    ours, theirs = (run(planner, 4, **more)["episodes"] for planner in (ReAct(), agents.Loop()))
    told = [
        {row["case_id"]: (row["success"], row["n_steps"], row["tool_calls"]) for row in rows} for rows in (ours, theirs)
    ]
    assert told[0] == told[1]
    assert robustness == "broken_tool" or any(success for success, *_ in told[1].values())


def test_an_answer_that_is_returned_ends_the_work() -> None:
    async def what(query: str, tools: Any, client: Any) -> str:
        assert "Query: " in query
        assert {"finish", "give_up"} < {tool["function"]["name"] for tool in tools.definitions()}
        return "done"

    rows = run(agents.Doing(what=what), values=HIDDEN)
    (row,), (step,) = rows["episodes"], rows["steps"]
    assert (row["status"], row["answer"], row["n_steps"], step["chosen_tool"]) == ("ok", "done", 1, "finish")
    assert (row["costs"]["actor"]["input_tokens"], row["money"]) == (None, None)


def test_giving_up_is_no_answer() -> None:
    async def what(query: str, tools: Any, client: Any) -> None:
        await tools.call("give_up", {})
        assert tools.definitions() == []
        with pytest.raises(RefusedError):
            await tools.call("finish", {})

    (row,) = run(agents.Doing(what=what), values=HIDDEN)["episodes"]
    assert (row["status"], row["error_message"], row["n_steps"], row["success"]) == ("ok", None, 0, False)


def test_a_tool_that_is_not_offered_is_a_step_that_could_not_be_read() -> None:
    async def what(query: str, tools: Any, client: Any) -> None:
        result = await tools.call("rm", {"path": "/"})
        assert result.failed
        assert "was not offered" in result.text

    rows = run(agents.Doing(what=what), values=HIDDEN)
    assert [row["chosen_tool"] for row in rows["steps"]] == [None, "finish"]
    assert [row["tool_calls"] for row in rows["episodes"]] == [0]


def test_what_a_request_may_ask_for() -> None:
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
        with pytest.raises(openai.NotFoundError, match="the setting's model is 'agent-grid'"):
            await client.chat.completions.create(**asked | {"model": "gpt-9"})

    (row,) = run(agents.Doing(what=what), values=HIDDEN, model_values={"malformed": 0.0})["episodes"]
    assert (row["status"], row["error_message"]) == ("ok", None), row["error_traceback"]
    assert row["costs"]["actor"]["llm_calls"] == 3 + 1 + 8


def test_so_may_one_of_the_newer_form() -> None:
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
        with pytest.raises(openai.NotFoundError, match="the setting's model is 'agent-grid'"):
            await client.responses.create(model="gpt-9", input="x")
        return "done"

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


def test_the_same_request_again_is_drawn_anew_and_nothing_depends_on_the_order() -> None:
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


def test_an_agent_that_raises_is_the_codes_failure() -> None:
    async def what(query: str, tools: Any, client: Any) -> None:
        raise KeyError("no such thing")

    (row,) = run(agents.Doing(what=what))["episodes"]
    assert (row["status"], row["error_kind"]) == ("failed", "code")
    assert "KeyError" in row["error_message"]


def test_an_error_of_the_engines_is_the_cells_and_not_the_agents() -> None:
    async def what(query: str, tools: Any, client: Any) -> str:

        for _ in range(20):
            with suppress(openai.APIError):
                await client.chat.completions.create(model="agent-grid", messages=[{"role": "user", "content": "x"}])
        return "as if nothing had been"

    (row,) = run(agents.Doing(what=what), budget=BudgetConfig(llm_calls=3))["episodes"]
    assert (row["status"], row["budget_reached"], row["answer"]) == ("ok", "llm_calls", None)


@pytest.mark.parametrize(
    "error", [None, ToolError("it broke"), EngineError("no server")], ids=lambda e: type(e).__name__
)
def test_what_goes_wrong_where_the_answer_is_run_is_the_cells_error(
    error: Exception | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def what(query: str, tools: Any, client: Any) -> str:
        await client.chat.completions.create(model="agent-grid", messages=[{"role": "user", "content": "x"}])
        return "Elbe"

    async def breaks(*given: Any) -> Any:
        assert error
        raise error

    case, world = Case("q", "Which river?", Plan(()), answered=True), kopl_world("Elbe", answered=True)
    monkeypatch.setattr(type(world), "apply", breaks)
    budget = Budget() if error else Budget(tokens=100)  # a request uses 107
    episode = Episode(case, world, Talking(["Hm."]), lambda case, substep: world.tools, budget, 1)
    with pytest.raises(type(error) if error else BudgetError), asyncio.Runner() as runner:
        runner.run(agents.Doing(what=what).solve(episode))
    assert episode.budget_reached == (None if error else "tokens")
    assert episode.best().answer is None


def test_more_requests_at_once_than_are_taken_are_refused() -> None:
    async def flooded() -> list[int]:
        session = Session(native_episode(Talking([])), agents.Loop().acting)
        go_on = asyncio.Event()

        async def work() -> int:
            await go_on.wait()
            return 200

        async def asked() -> int:
            try:
                return await session.of_case(work())
            except RefusedError as error:
                return error.status

        waiting = [asyncio.create_task(asked()) for _ in range(MOST_AT_ONCE + 3)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        go_on.set()
        found = await asyncio.gather(*waiting)
        await session.close()
        return [*found, await asked()]

    assert asyncio.run(flooded()) == [200] * MOST_AT_ONCE + [429] * 3 + [401]


def test_two_servers_at_once_have_ports_of_their_own_and_no_token_in_common() -> None:
    both, seen = threading.Barrier(2), dict[str, tuple[str, str]]()

    async def what(query: str, tools: Any, client: Any) -> str:
        name, address = threading.current_thread().name, gateway().address()
        seen[name] = address, client.api_key
        both.wait(60)  # the other one is at work, too
        (other,) = (told for thread, told in seen.items() if thread != name)
        assert other[0] != address
        for key, status in ((client.api_key, 200), (other[1], 401)):
            async with httpx2.AsyncClient(trust_env=False) as http:
                headers = {"Authorization": f"Bearer {key}"}
                assert (await http.get(f"{address}/v1/models", headers=headers)).status_code == status
        both.wait(60)
        return "done"

    with ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(run, agents.Doing(what=what), values=HIDDEN) for _ in "ab"]
        rows = [one.result()["episodes"][0] for one in runs]
    assert [(row["status"], row["answer"]) for row in rows] == [("ok", "done")] * 2, rows[0]["error_traceback"]


# A language model reads the agent's own messages.


class Talking(Native):
    """Takes messages, too."""

    provides = frozenset({SAMPLE, NATIVE, MESSAGES})


def test_a_language_model_gets_the_agents_messages_word_for_word() -> None:
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
def test_who_knows_what_is_right_resolves_every_conversation(talks: str, category: str, kept: bool | None) -> None:
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


def test_each_message_is_a_run_of_its_own_that_is_told_what_was_done_before(talks: str) -> None:
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
