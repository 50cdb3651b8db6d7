"""MCP servers over HTTP, several in one world, and what tasks expect behind an episode."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from grid.cells import deadline
from grid.cells.run import Stamp, run_chunk
from grid.contracts.trying import reference_resolves
from grid.core.errors import ConfigError, DataError, EngineError, ToolError
from grid.core.problem import Problem
from grid.core.types import Observation, ToolCall
from grid.datasets.mcp import Mcp
from grid.datasets.mcp_tasks import Expectation
from grid.datasets.mcp_world import McpState, McpWorld
from grid.settings.build import build
from grid.settings.config import BudgetConfig
from grid.settings.setting import cells, influential
from tests.support import mcp
from tests.support.configs import setting_of
from tests.support.extras import needs

pytestmark = needs("mcp")
mcp_http = pytest.importorskip("tests.support.mcp_http")

NAMED = "SHOP_TOKEN"
OURS = ("grid", "httpx2", "httpcore2", "client")
"""The loggers of this side; the test's server logs what it likes."""
TWO = {"id": "two", "query": "Put two mugs into the basket."}
COUNTED = {"tool": "count_items", "arguments": {"name": "mug"}}


@pytest.fixture(scope="module")
def shop() -> Iterator[tuple[Any, str]]:
    """A server that all tests share, and its URL: each session has a basket of its own."""
    one = mcp_http.Shop()
    with mcp_http.serving(one) as url:
        yield one, url


@pytest.fixture
def secret(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.setenv(NAMED, mcp_http.TOKEN)
    return {"Authorization": NAMED}


def data(at: Path, url: str | None, rows: list[dict[str, Any]] | None = None, **values: Any) -> Mcp:
    return Mcp(**{"path": mcp.write(at, rows or [{**TWO, "answer": "2"}]), "url": url, **values})


def call(tool: str, **arguments: Any) -> ToolCall:
    return ToolCall(tool, arguments)


async def worked(problem: Problem, *calls: ToolCall, settled: bool = True) -> tuple[bool, list[Observation]]:
    """Whether calls resolve a case, and what they returned; its sessions are over."""
    world, seen = problem.world, list[Observation]()
    assert isinstance(world, McpWorld)
    state = world.start()
    try:
        for one in calls:
            state, observation = await world.apply(state, one)
            seen.append(observation)
        if settled:
            await world.settle(state)
        return world.resolved(state), seen
    finally:
        await world.close()


def after(found: Mcp, *calls: ToolCall) -> tuple[bool, list[Observation]]:
    return asyncio.run(worked(found.problem(found.case_ids()[0]), *calls))


@pytest.mark.parametrize("as_json", [False, True])
def test_tools_and_calls_are_as_those_of_a_program(tmp_path: Path, as_json: bool) -> None:
    one = mcp_http.Shop(as_json=as_json)
    with mcp_http.serving(one) as url:
        found = data(tmp_path, url)
        assert [*found.tools][:4] == ["add_item", "count_items", "price", "whole"]
        _, seen = after(found, call("price", name="Tür"), call("whole"), call("price", name="pen"))
    assert [dict(each.content) for each in seen[:2]] == [{"result": "300"}, {"items": {}, "kinds": 0}]
    assert seen[2].failed
    methods = [method for method, _ in one.asked]
    assert methods[:4] == ["initialize", "notifications/initialized", "tools/list", "DELETE"]
    assert methods[-1] == "DELETE", "the session is over"


def test_each_episode_has_a_session_of_its_own(tmp_path: Path, shop: tuple[Any, str]) -> None:
    rows = [{**TWO, "id": name, "expect": {**COUNTED, "result": 3}} for name in "abcdefgh"]
    found = data(tmp_path, shop[1], rows)

    async def all_at_once() -> list[tuple[bool, list[Observation]]]:
        add = [call("add_item", name="mug")] * 3
        return [*await asyncio.gather(*(worked(found.problem(name), *add) for name in "abcdefgh"))]

    for resolved, seen in asyncio.run(all_at_once()):
        assert resolved
        assert [one.content["result"] for one in seen] == [f"{count} mug in the basket" for count in (1, 2, 3)]


def test_the_version_is_what_the_server_says_of_itself_and_not_where_it_is(
    tmp_path: Path, secret: dict[str, str]
) -> None:
    with mcp_http.serving(mcp_http.Shop()) as one, mcp_http.serving(mcp_http.Shop()) as other:
        assert data(tmp_path, one).version == data(tmp_path, other, headers=secret).version
        ids = {setting_of({"path": "t", "url": url}, dataset="mcp").id for url in (one, other)}
    assert len(ids) == 1


def test_keys_that_came_later_are_in_no_id_of_a_program() -> None:
    config = setting_of({"path": "t", "command": "c"}, dataset="mcp").config
    later = ("url", "headers", "servers")
    before = {key: value for key, value in config["dataset"].items() if key not in later}
    assert influential(config) == influential({**config, "dataset": before})
    assert not set(influential(config)["dataset"]) & {*later, "command", "path"}


def test_servers_are_in_the_id_but_for_where_they_are() -> None:
    def of(**shop: Any) -> str:
        return setting_of({"path": "t", "servers": {"shop": shop}}, dataset="mcp").id

    assert of(url="http://127.0.0.1:1/a") == of(url="http://127.0.0.1:2/b", headers={"A": "B"}) == of(command="x")
    assert of(command="x", args=["--db", "a"]) != of(command="x", args=["--db", "b"])


def test_headers_are_sent_with_every_request_and_their_values_are_never_told(
    tmp_path: Path, secret: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    one = mcp_http.Shop(login=mcp_http.TOKEN)
    with mcp_http.serving(one) as url:
        found = data(tmp_path, url, headers=secret)
        _, (seen, refused) = after(found, call("headers"), call("price", name=mcp_http.TOKEN))
        with pytest.raises(EngineError, match="HTTP status 500: out of cheese") as caught:
            after(found, call("spoil", how="500"))
    assert len(one.asked) > 6
    assert {headers.get("authorization") for _, headers in one.asked} == {mcp_http.TOKEN}
    told = json.loads(str(seen.content["result"]))
    assert told["authorization"] == "***"
    logged = [record.getMessage() for record in caplog.records if record.name.split(".")[0] in OURS]
    everything = [seen.text(), refused.text(), str(caught.value), found.version, *logged]
    assert not any("hunter2" in text for text in everything)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (False, "it asks for a login: HTTP status 401; dataset.headers={Authorization: NAME} names the environment"),
        (True, "it does not accept Authorization (of SHOP_TOKEN): HTTP status 401"),
    ],
)
def test_a_server_that_wants_a_login_says_which_header_to_set(
    tmp_path: Path, secret: dict[str, str], given: bool, why: str
) -> None:
    with mcp_http.serving(mcp_http.Shop(login="Bearer another")) as url, pytest.raises(ConfigError) as caught:
        _ = data(tmp_path, url, headers=secret if given else {}).version
    assert caught.value.key == "dataset.url"
    assert why in str(caught.value)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_headers_never_follow_a_redirect_elsewhere(tmp_path: Path, secret: dict[str, str], host: str) -> None:
    other = mcp_http.Shop()
    with mcp_http.serving(other) as elsewhere:
        place = elsewhere.replace("127.0.0.1", host)  # another host, or another port of the same
        moved = mcp_http.Shop(moved=f"{place}?token=7")
        with mcp_http.serving(moved) as url, pytest.raises(ConfigError) as caught:
            _ = data(tmp_path, url, headers=secret).tools
    assert f"it redirects to {place}, which is not followed; dataset.url may be set to this address" in str(
        caught.value
    )
    assert "token=7" not in str(caught.value)
    assert other.asked == []


def test_a_redirect_on_the_same_host_is_followed(tmp_path: Path) -> None:
    class Moved(mcp_http.Shop):  # type: ignore[name-defined,misc]
        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            if scope.get("path") == "/mcp/old":
                await mcp_http.reply(send, 307, b"", location="/mcp")
            else:
                await super().__call__(scope, receive, send)

    with mcp_http.serving(Moved()) as url:
        assert "price" in data(tmp_path, f"{url}/old").tools


@pytest.mark.parametrize(
    ("how", "kind", "why"),
    [
        ("400", EngineError, "HTTP status 400: out of cheese, "),
        ("401", EngineError, "it asks for a login: HTTP status 401"),
        ("404", EngineError, "it no longer knows the session: HTTP status 404"),
        ("429", EngineError, "HTTP status 429"),
        ("503", EngineError, "HTTP status 503"),
        ("away", EngineError, "it redirects to http://localhost:9/elsewhere, which is not followed"),
        ("drops", EngineError, "no connection: RemoteProtocolError"),
        ("ends", EngineError, "its stream of events ended before the answer"),
        ("other", EngineError, "its stream of events ended before the answer"),
        ("list", EngineError, "its stream of events ended before the answer"),
        ("202", ToolError, "its answer is not a message (content type: text/plain)"),
        ("html", ToolError, "its answer is not a message (content type: text/html)"),
        ("garbage", ToolError, "not a JSON-RPC message"),
        ("packed", ToolError, "a compressed answer, which was not asked for"),
        ("chatter", ToolError, "more than 10,000 messages"),
        ("flood", ToolError, "more than 4,194,304 bytes"),
        ("large", ToolError, "its stream of events is invalid or too large"),
        ("for ever", ToolError, "did not answer within 1 s"),
    ],
)
def test_a_server_that_goes_wrong_ends_the_episode_as_whose_failure_it_is(
    tmp_path: Path, shop: tuple[Any, str], how: str, kind: type[Exception], why: str
) -> None:
    found = data(tmp_path, shop[1], seconds=1.0 if how == "for ever" else 20.0)
    with pytest.raises(kind) as caught:
        after(found, call("price", name="mug"), call("spoil", how=how))
    assert why in str(caught.value)
    assert type(caught.value) is kind


def test_a_call_that_may_have_been_made_is_not_sent_again(tmp_path: Path, shop: tuple[Any, str]) -> None:
    before = shop[0].spoiled
    with pytest.raises(EngineError):
        after(data(tmp_path, shop[1]), call("spoil", how="503"))
    assert shop[0].spoiled == before + 1


def test_a_server_that_is_gone_is_the_infrastructures_failure(tmp_path: Path) -> None:
    with mcp_http.serving(mcp_http.Shop()) as url:
        found = data(tmp_path, url)
        assert found.tools
    with pytest.raises(EngineError, match="the MCP server did not start: no connection: ConnectError"):
        after(found, call("price", name="mug"))
    with pytest.raises(ConfigError, match="no connection"):
        _ = data(tmp_path, url).tools


@pytest.mark.parametrize(
    ("values", "key", "why"),
    [
        ({"url": None}, "dataset.command", "for a server over HTTP, give dataset.url instead"),
        ({"command": "python"}, "dataset.command", "null, because dataset.url is given"),
        ({"args": ["hunter2"]}, "dataset.args", "null, because this key needs dataset.command"),
        ({"url": None, "command": "", "headers": {"A": "PATH"}}, "dataset.headers", "this key needs dataset.url"),
        ({"url": "ftp://a/b"}, "dataset.url", "begins with http"),
        ({"url": "http://me:hunter2@a/b"}, "dataset.url", "without a user, a password"),
        ({"url": "http://a/b?key=hunter2"}, "dataset.url", "without a user, a password, a query"),
        ({"url": "http://a.org/b", "headers": {"Authorization": "PATH"}}, "dataset.url", "headers without encryption"),
        ({"headers": {"Authorization": "Bearer hunter2"}}, "dataset.headers", "never the value itself"),
        ({"headers": "Bearer hunter2"}, "dataset.headers", "Input should be"),
        ({"headers": {"Authorization": 7}}, "dataset.headers.Authorization", "Input should be"),
        ({"headers": {"Authorization": "hunter2"}}, "dataset.headers", "never the value itself"),
        ({"headers": {"Authorization": "NO_SUCH_ONE"}}, "dataset.headers", "NO_SUCH_ONE is not set"),
        ({"headers": {"Authorization": "TWO_LINES"}}, "dataset.headers", "TWO_LINES contains characters"),
        ({"headers": {"Mcp-Session-Id": "PATH"}}, "dataset.headers", "does not set itself"),
        ({"headers": {"a b": "PATH"}}, "dataset.headers", "does not set itself"),
        ({"servers": {"shop": {"url": "http://127.0.0.1:1"}}}, "dataset.url", "null, because dataset.servers has"),
        ({"url": None, "servers": {"a__b": {"command": "x"}}}, "dataset.servers", "single _ or -"),
        ({"url": None, "servers": {"s" * 33: {"command": "x"}}}, "dataset.servers", "at most 32 characters"),
        ({"url": None, "servers": {"shop": {}}}, "dataset.servers.shop.command", "dataset.servers.shop.url"),
        ({"url": None, "servers": {"shop": {"token": "hunter2"}}}, "dataset.servers.shop.token", "keys are command"),
        ({"url": None, "servers": {"shop": "hunter2"}}, "dataset.servers.shop", "keys are command"),
        (
            {"url": None, "servers": {"shop": {"url": "http://127.0.0.1:1", "headers": {"A": "hunter2"}}}},
            "dataset.servers.shop.headers",
            "never the value itself",
        ),
        ({"url": None, "servers": {"shop": {"command": "/no/such"}}}, "dataset.servers.shop.command", "can be run"),
        ({"url": None, "servers": {"a": {"command": "x", "folder": "/no/such"}}}, "dataset.servers.a.folder", "folder"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_refused_by_its_key_and_no_value_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, values: dict[str, Any], key: str, why: str
) -> None:
    monkeypatch.setenv("TWO_LINES", "a\nb: hunter2")
    with pytest.raises(ConfigError) as caught:
        _ = data(tmp_path, **{"url": "http://127.0.0.1:1", **values}).version
    assert caught.value.key == key
    assert why in str(caught.value)
    assert "hunter2" not in str(caught.value)


def both(url: str, **more: Any) -> dict[str, Any]:
    return {"shop": {"url": url}, "small-one": mcp.command(), **more}


def test_several_servers_have_their_names_before_their_tools(tmp_path: Path, shop: tuple[Any, str]) -> None:
    rows = [
        {"id": "a", "query": "q", "calls": [{"tool": "shop__add_item", "arguments": {"name": "mug"}}]},
        {"id": "b", "query": "q", "calls": [{"tool": "small-one__add_itm", "arguments": {"name": "mug"}}]},
        {"id": "c", "query": "q", "calls": [{"tool": "add_item", "arguments": {"name": "mug"}}]},
        {"id": "d", "query": "q", "calls": [{"tool": f"shop__{mcp_http.LONG}"}]},
    ]
    found = data(tmp_path, None, rows, servers=both(shop[1]))
    assert found.case_ids() == ["a"]
    assert {"shop__price", "small-one__price", "small-one__note"} <= {*found.tools}
    assert all(len(name) <= 64 for name in found.tools)
    told = {skip.record: skip.reason for skip in found.skipped}
    assert "its name, including the server's name, has more than 64 characters" in told[f"tool shop__{mcp_http.LONG}"]
    assert "is not a tool of the server (did you mean small-one__add_item?)" in told["b"]
    assert "'add_item', which is not a tool of the server" in told["c"]
    assert "which was left out" in told["d"]
    prices = call("shop__price", name="mug"), call("small-one__price", name="lamp")
    resolved, seen = after(
        found, *prices, call("shop__add_item", name="mug"), call("small-one__count_items", name="mug")
    )
    assert resolved
    assert [one.content["result"] for one in seen] == ["9.50", "20", "1 mug in the basket", "0"]
    assert mcp_http.LONG in data(tmp_path, shop[1]).tools, "alone it has no name before its tools"


def test_the_version_of_several_servers_tells_their_names_and_tools(tmp_path: Path, shop: tuple[Any, str]) -> None:
    versions = {
        data(tmp_path, None, servers=servers).version
        for servers in (
            both(shop[1]),
            {"shop": {"url": shop[1]}},
            {"other": {"url": shop[1]}},
            both(shop[1], more=mcp.command("odd")),
        )
    }
    assert len({*versions, data(tmp_path, shop[1]).version}) == 5


def test_a_name_of_64_characters_is_not_too_long_and_one_of_65_is(tmp_path: Path, shop: tuple[Any, str]) -> None:
    tools = data(tmp_path, None, servers={name: {"url": shop[1]} for name in ("ab", "abc")}).tools
    assert f"ab__{mcp_http.LONG}" in tools
    assert f"abc__{mcp_http.LONG}" not in tools


def test_two_tools_of_one_name_are_refused_by_their_servers_key(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="two tools with the name 'price'") as caught:
        _ = data(tmp_path, None, servers={"twins": mcp.command("twins")}).tools
    assert caught.value.key == "dataset.servers.twins.command"


@pytest.mark.parametrize(
    ("wanted", "content", "holds"),
    [
        ({"result": 2}, {"result": 2}, True),
        ({"result": 2}, {"result": "2"}, True),
        ({"result": 2.0}, {"result": 2}, True),
        ({"result": "2"}, {"result": 2}, True),
        ({"result": "2"}, {"result": " 2\n"}, True),
        ({"result": "2"}, {"result": "12"}, False),
        ({"result": 2}, {"result": "two"}, False),
        ({"result": 1}, {"result": True}, False),
        ({"result": True}, {"result": "true"}, True),
        ({"result": None}, {"result": "null"}, True),
        ({"result": None}, {"result": 0}, False),
        ({"result": {"a": 1}}, {"a": 1, "b": 2}, True),
        ({"result": {"a": 1}}, {"result": '{"a": 1, "b": 2}'}, True),
        ({"result": {"a": 1, "c": 3}}, {"a": 1, "b": 2}, False),
        ({"result": {"a": None}}, {"b": 2}, False),
        ({"result": {"a": {"x": [1, {"y": 2}]}}}, {"a": {"x": [1, {"y": 2, "z": 3}]}}, True),
        ({"result": {"a": {"x": [1]}}}, {"a": {"x": [1, 2]}}, False),
        ({"result": [1, 2]}, {"result": [2, 1]}, False),
        ({"result": {"result": 1}}, {"result": {"result": 1}}, True),
        ({"result": {}}, {"result": []}, False),
        ({"contains": "two"}, {"result": "one two three"}, True),
        ({"contains": '"b": 2'}, {"a": 1, "b": 2}, True),
        ({"contains": "four"}, {"result": "one two three"}, False),
    ],
)
def test_what_equal_means(wanted: dict[str, Any], content: Mapping[str, Any], holds: bool) -> None:
    assert Expectation.model_validate({"tool": "t", **wanted}).holds(content) == holds


@pytest.mark.parametrize(
    ("more", "calls", "resolved"),
    [
        ({}, ["mug", "mug"], True),
        ({}, ["mug"], False),
        ({}, ["mug", "mug", "lamp"], True),
        ({"calls": [{"tool": "add_item", "arguments": {"name": "mug", "count": 2}}]}, ["mug", "mug"], False),
        ({"calls": [{"tool": "add_item", "arguments": {"name": "mug"}}] * 2}, ["mug", "mug"], True),
        ({"answer": "2"}, ["mug", "mug"], False),
    ],
)
def test_a_case_is_resolved_if_what_is_expected_holds_and_all_else(
    tmp_path: Path, shop: tuple[Any, str], more: dict[str, Any], calls: list[str], resolved: bool
) -> None:
    expect = [{**COUNTED, "result": 2}, {"tool": "whole", "result": {"items": {"mug": 2}}}]
    found = data(tmp_path, shop[1], [{**TWO, "expect": expect, **more}])
    assert after(found, *(call("add_item", name=name) for name in calls))[0] == resolved


@pytest.mark.parametrize("result", [2, 3])
def test_a_reference_is_tried_with_what_is_expected_and_its_sessions_end(tmp_path: Path, result: int) -> None:
    one = mcp_http.Shop()
    row = {**TWO, "calls": [{"tool": "add_item", "arguments": {"name": "mug"}}] * 2}
    with mcp_http.serving(one) as url:
        problem = data(tmp_path, url, [{**row, "expect": {**COUNTED, "result": result}}]).problem("two")
        assert reference_resolves(problem) == (result == 2)
    assert one.asked[-1][0] == "DELETE"


def test_a_state_that_was_not_settled_is_not_resolved(tmp_path: Path, shop: tuple[Any, str]) -> None:
    problem = data(tmp_path, shop[1], [{**TWO, "expect": {**COUNTED, "result": 0}}]).problem("two")
    assert not problem.world.resolved(problem.world.start())
    assert asyncio.run(worked(problem, settled=False)) == (False, [])
    assert asyncio.run(worked(problem)) == (True, [])
    assert not problem.world.resolved(replace(McpState(), made=1)), "another state than the one that was looked at"


@pytest.mark.parametrize(
    ("expect", "kind", "why"),
    [
        ({"tool": "spoil", "arguments": {"how": "503"}, "result": 1}, EngineError, "HTTP status 503"),
        (
            {"tool": "spoil", "arguments": {"how": "html"}, "result": 1},
            ToolError,
            r"its answer is not a message \(content type: text/html\)",
        ),
        ({"tool": "long", "arguments": {"size": 30_000}, "contains": "é"}, ToolError, "cannot be read: The result has"),
    ],
)
def test_what_cannot_be_read_is_no_failure_of_the_agents(
    tmp_path: Path, shop: tuple[Any, str], expect: dict[str, Any], kind: type[Exception], why: str
) -> None:
    with pytest.raises(kind, match=why):
        after(data(tmp_path, shop[1], [{**TWO, "expect": expect}]), call("price", name="mug"))


def test_an_error_that_the_tool_tells_is_a_result_that_does_not_hold(tmp_path: Path, shop: tuple[Any, str]) -> None:
    expect = [{"tool": "price", "arguments": {"name": "pen"}, "result": "7"}, {**COUNTED, "result": 0}]
    problem = data(tmp_path, shop[1], [{**TWO, "expect": expect}]).problem("two")
    assert not asyncio.run(worked(problem))[0]
    assert isinstance(problem.world, McpWorld)
    assert problem.world.seen is not None
    (unmet,) = problem.world.seen.unmet
    assert unmet.startswith('price with {"name": "pen"} returned {"error":')


@pytest.mark.parametrize(
    ("expect", "why"),
    [
        ({"tool": "count_item", "arguments": {"name": "mug"}, "result": 2}, "(did you mean count_items?)"),
        ({"tool": "count_items", "result": 2}, "a call of the expect does not fit its tool: count_items without name"),
        (
            {"tool": "count_items", "arguments": {"name": "OUTPUT_FROM_STEP_0.result"}, "result": 2},
            "calls of expect cannot use outputs of steps",
        ),
    ],
)
def test_an_expectation_that_cannot_be_asked_is_found_at_load(
    tmp_path: Path, shop: tuple[Any, str], expect: dict[str, Any], why: str
) -> None:
    found = data(tmp_path, shop[1], [{**TWO, "expect": expect}, {"id": "other", "query": "q", "answer": "2"}])
    assert found.case_ids() == ["other"]
    assert why in found.skipped[0].reason


@pytest.mark.parametrize(
    ("expect", "why"),
    [
        ({"tool": "t"}, "give either result or contains"),
        ({"tool": "t", "result": 1, "contains": "1"}, "give either result or contains"),
        ({"result": 1}, "expect.0.tool: Field required"),
        ({"tool": "t", "equals": 1}, "expect.0.equals"),
        ([], "expect: List should have at least 1 item"),
        (None, "expect.0"),
        ([{"tool": "t", "result": 1}] * 21, "at most 20"),
    ],
)
def test_an_expectation_that_is_none_is_an_error_with_its_line(tmp_path: Path, expect: Any, why: str) -> None:
    with pytest.raises(DataError) as caught:
        data(tmp_path, "http://127.0.0.1:1", [{**TWO, "expect": expect}]).case_ids()
    assert caught.value.line == 1
    assert why in str(caught.value)


@pytest.mark.parametrize(
    ("count", "made", "success", "held", "kind"),
    [
        (2, ["mug", "mug"], True, 1.0, None),
        (3, ["mug", "mug"], False, 0.5, None),
        (2, ["mug", "spoil"], None, None, "infrastructure"),
    ],
)
def test_rows_say_what_held_and_count_no_call_of_ours(
    tmp_path: Path,
    shop: tuple[Any, str],
    count: int,
    made: list[str],
    success: bool | None,
    held: Any,
    kind: str | None,
) -> None:
    expect = [{**COUNTED, "result": count}, {"tool": "whole", "result": {"kinds": 1}}]
    path = mcp.write(tmp_path, [{**TWO, "id": name, "expect": expect} for name in "abc"])
    setting = setting_of({"path": path, "url": shop[1], "command": None, "args": []}, dataset="mcp")
    calls = [call("spoil", how="503") if name == "spoil" else call("add_item", name=name) for name in made]
    built = replace(build(setting, BudgetConfig()), planner=mcp.Calling(calls, []))
    chunk = list(cells(setting, built.dataset.version, built.dataset.case_ids(), 1))
    rows = deadline.run(run_chunk(built, setting, chunk, Stamp("test", None))).take()["episodes"]
    assert [(row["success"], row["error_kind"], row["tool_calls"]) for row in rows] == [(success, kind, len(made))] * 3
    for row in rows:
        assert row["expectations_held"] == held
        why = 'count_items with {"name": "mug"} returned {"result": 2}' if held == 0.5 else None
        assert row["unmet_expectation"] == why
