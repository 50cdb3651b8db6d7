"""The world of an MCP server: what calls return and make, what a bad server does, and that no process outlives one."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from grid.cells import deadline
from grid.cells.run import Stamp, run_chunk
from grid.core.errors import ToolError
from grid.core.types import Observation, ToolCall, ToolSpec
from grid.datasets.mcp_links import Server
from grid.datasets.mcp_session import listed, specs
from grid.datasets.mcp_world import McpState, McpWorld
from grid.settings.build import build
from grid.settings.config import BudgetConfig
from grid.settings.setting import cells
from tests.support import mcp
from tests.support.configs import setting_of

PRICED = {"0": ToolCall("price", {"name": "mug"})}
CHAINED = {**PRICED, "1": ToolCall("convert", {"amount": "OUTPUT_FROM_STEP_0.result", "currency": "EUR"})}
LEFT = ("die", "hang", "flood", "chatter", "garbage", "half", "number")


def call(tool: str, **arguments: Any) -> ToolCall:
    return ToolCall(tool, arguments)


@cache
def odd_tools() -> Mapping[str, ToolSpec]:
    """What that server lists."""
    return specs(listed(Server(**_started())).tools)[0]


def _started() -> dict[str, Any]:
    found = mcp.command("odd")
    return {"command": found["command"], "args": tuple(found["args"])}


def world(calls: dict[str, ToolCall] | None = None, wanted: str | None = None, **values: Any) -> McpWorld:
    """A case's world, of the server that can do what none should."""
    server = Server(**{**_started(), "seconds": 20.0, **values})
    return McpWorld({"": server}, odd_tools(), calls or {}, wanted, answered=wanted is not None)


async def made(one: McpWorld, *calls: ToolCall) -> tuple[McpState, list[Observation]]:
    """The state and the observations after calls; the server goes on."""
    state, seen = one.start(), list[Observation]()
    for each in calls:
        state, observation = await one.apply(state, each)
        seen.append(observation)
    return state, seen


def after(one: McpWorld, *calls: ToolCall) -> tuple[McpState, list[Observation]]:
    """The same, and the server is ended."""

    async def run() -> tuple[McpState, list[Observation]]:
        try:
            return await made(one, *calls)
        finally:
            await one.close()

    return asyncio.run(run())


def lives(pid: int) -> bool:
    """Whether a process runs; one that nobody waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def ended(*pids: int) -> bool:
    """Whether processes end within some seconds."""
    until = time.monotonic() + 10
    while time.monotonic() < until:
        if not any(map(lives, pids)):
            return True
        time.sleep(0.02)
    return False


def test_a_call_returns_texts_fields_and_names_of_what_is_neither() -> None:
    _, seen = after(world(), call("price", name="Tür"), call("fields"), call("image"), call("environment"))
    assert [dict(one.content) for one in seen[:3]] == [
        {"result": "300"},
        {"id": 7, "name": "Tür"},
        {"result": "a chart\n[image image/png]\n[resource_link chart file:///chart]"},
    ]
    assert not any(one.failed for one in seen)


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (call("price", name="pen"), "nothing is known of"),
        (call("error"), "no such thing"),
        (call("refusal"), "not like this."),
        (call("shape"), "its answer is none: content"),
        (call("deep"), "levels deep"),
        (call("long", size=30_000), "20,000 at most are shown"),
        (call("sell"), "There is no tool 'sell'."),
        (call("price", name="\ud800"), "half a surrogate pair"),
    ],
)
def test_a_call_that_comes_to_nothing_has_failed_and_the_server_goes_on(made: ToolCall, why: str) -> None:
    state, (first, second) = after(world(PRICED), made, call("price", name="mug"))
    assert first.failed
    assert why in str(first.content["error"])
    assert second == Observation({"result": "9.50"})
    assert [step for step, _ in state.obtained] == ["0"]


def test_a_case_is_resolved_when_all_calls_of_its_reference_were_made() -> None:
    price, euro = call("price", name="mug"), call("convert", amount="9.5", currency="EUR")
    for calls, resolved in (
        ([price, euro], True),
        ([price, call("count_items", name="x"), call("sell"), euro], True),
        ([price], False),
        ([euro, price], False),
        ([price, replace(euro, arguments={"amount": "9", "currency": "EUR"})], False),
        ([call("price", name="Tür"), euro], False),
    ):
        one = world(CHAINED)
        assert one.resolved(after(one, *calls)[0]) == resolved


def test_one_call_makes_one_step() -> None:
    twice = {"0": call("add_item", name="pen"), "1": call("add_item", name="pen")}
    one = world(twice)
    assert not one.resolved(after(one, call("add_item", name="pen"))[0])
    assert one.resolved(after(one, call("add_item", name="pen"), call("add_item", name="pen", count=1))[0])


@pytest.mark.parametrize(
    ("answer", "resolved"), [("9.5", True), ("19.00 EUR", False), ("OUTPUT_FROM_STEP_1.result", False)]
)
def test_a_question_is_resolved_by_its_answer_alone(answer: str, resolved: bool) -> None:
    one = world(CHAINED, wanted="9.50")
    calls = [call("price", name="mug"), call("convert", amount="9.50", currency="EUR")]
    state, seen = after(one, *calls, call("finish", answer=answer))
    assert one.resolved(state) == resolved
    assert one.answer(state) == (None if seen[-1].failed else answer)
    assert not one.resolved(after(one, *calls)[0])
    assert after(one, call("finish", answer=" "))[1][0].failed


def test_a_server_cannot_go_back() -> None:
    one = world()

    async def run() -> None:
        old = one.start()
        await one.apply(old, call("price", name="mug"))
        with pytest.raises(ToolError, match="cannot go back"):
            await one.apply(old, call("price", name="mug"))
        with pytest.raises(ToolError, match="cannot go back"):
            await one.apply(one.start(), call("price", name="mug"))
        await one.close()

    asyncio.run(run())


def test_two_side_by_side_see_nothing_of_one_another(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("first\n", encoding="utf-8")

    async def run(name: str) -> list[Observation]:
        one = world(folder=str(tmp_path))
        _, seen = await made(one, *(call("note", line=name), call("add_item", name="pen")) * 3)
        await one.close()
        return seen[-2:]

    async def both() -> list[list[Observation]]:
        return [*await asyncio.gather(run("a"), run("b"))]

    for name, (notes, basket) in zip("ab", asyncio.run(both()), strict=True):
        assert notes.content["result"] == "first\n" + f"{name}\n" * 3
        assert basket.content["result"] == "3 pen in the basket"
    assert (tmp_path / "notes.txt").read_text(encoding="utf-8") == "first\n"


@pytest.mark.parametrize("tool", LEFT)
def test_a_server_that_is_of_no_use_ends_the_episode_as_the_tools_failure(tool: str) -> None:
    limit = 1.0 if tool == "hang" else 20.0
    one = world(seconds=limit)

    async def run() -> None:
        state, seen = await made(one, call("pid"))
        pid = int(str(seen[0].content["result"]).split()[0])
        with pytest.raises(ToolError) as caught:
            await one.apply(state, call(tool))
        told = {
            "die": "status 3; it wrote: Fatal: out of cheese",
            "hang": "did not answer within 1 s",
            "flood": "4,194,304 bytes",
        }
        told |= {
            "chatter": "10,000 messages",
            "garbage": "not a JSON-RPC message",
            "half": "surrogate",
            "number": "1e999",
        }
        assert told[tool] in str(caught.value)
        assert ended(pid)
        await one.close()

    asyncio.run(run())


def test_a_flood_takes_no_memory() -> None:
    one = world()
    after(one, call("price", name="mug"))
    tracemalloc.start()
    try:
        with pytest.raises(ToolError, match="bytes"):
            after(one, call("flood"))
        assert tracemalloc.get_traced_memory()[1] < 24 * 2**20
    finally:
        tracemalloc.stop()


def test_a_server_has_the_variables_that_are_named_and_their_values_are_not_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SECRET", "hunter2")
    monkeypatch.setenv("OTHER", "private")
    one = world(env=("SECRET",))

    async def run() -> str:
        state, seen = await made(one, call("environment"))
        assert set(str(seen[0].content["result"]).split()) <= {"PATH", "SECRET", "LC_CTYPE"}
        with pytest.raises(ToolError) as caught:
            await one.apply(state, call("die"))
        await one.close()
        return str(caught.value)

    told = asyncio.run(run())
    assert "*** Fatal: out of cheese" in told
    assert "hunter2" not in told


def test_closing_leaves_neither_process_nor_child_nor_folder() -> None:
    state, seen = after(world(), call("pid"), call("child"))
    pid, folder = str(seen[0].content["result"]).split()
    assert ended(int(pid), int(str(seen[1].content["result"])))
    assert not Path(folder).exists()
    assert state.made == 2


def test_a_world_that_was_closed_begins_with_another_server() -> None:
    one = world()
    before, again = (after(one, call("add_item", name="pen"))[1] for _ in range(2))
    assert before == again


def test_a_cancelled_episode_leaves_no_process() -> None:
    async def run() -> int:
        one = world()
        state, seen = await made(one, call("pid"))

        async def hanging() -> None:
            try:
                await one.apply(state, call("hang"))
            finally:
                await one.close()

        task = asyncio.create_task(hanging())
        await asyncio.sleep(0.2)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        return int(str(seen[0].content["result"]).split()[0])

    assert ended(asyncio.run(run()))


def ran(
    path: str, case_seconds: float | None, *calls: ToolCall, **values: Any
) -> tuple[list[dict[str, Any]], list[str], list[int]]:
    """Three cells side by side whose planner makes calls: rows, what calls returned, servers that live behind them."""
    setting = setting_of({"path": path, **mcp.command("odd"), **values}, dataset="mcp")
    planner = mcp.Calling(calls, [])
    built = replace(build(setting, BudgetConfig()), planner=planner)
    chunk = list(cells(setting, built.dataset.version, built.dataset.case_ids()[:3], 1))

    async def run() -> tuple[list[dict[str, Any]], list[str], list[int]]:
        found = await run_chunk(built, setting, chunk, Stamp("test", None), case_seconds=case_seconds)
        pids = [int(text.split()[0]) for text in planner.seen if " /" in text]
        return found.take()["episodes"], planner.seen, [pid for pid in pids if lives(pid)]

    return deadline.run(run())


@pytest.mark.parametrize(
    ("tool", "case_seconds", "values", "kind"),
    [
        ("hang", 1.0, {}, "timeout"),
        ("die", None, {}, "tool"),
        ("price", None, {}, None),
        ("hang", None, {"seconds": 0.5}, "tool"),
    ],
)
def test_no_process_outlives_its_cell_however_it_ends(
    small_mcp: str, tool: str, case_seconds: float | None, values: dict[str, Any], kind: str | None
) -> None:
    found, seen, living = ran(small_mcp, case_seconds, call("pid"), call("child"), call(tool), **values)
    assert [row["error_kind"] for row in found] == [kind] * 3
    if kind == "tool":  # whether the server hangs or dies: nobody knows what would have come of the case
        assert [row["success"] for row in found] == [None] * 3
    assert living == []
    pids = [int(text.split()[0]) for text in seen if text != "None"]
    assert len(pids) == 6
    assert ended(*pids)
    assert not any(Path(text.split()[1]).exists() for text in seen if " /" in text)


HOST = """
import asyncio, sys
from tests.unit.worlds.test_mcp_world import call, made, world
from tests.support.extras import needs

pytestmark = needs("mcp")

async def run():
    one = world()
    state, seen = await made(one, call("pid"))
    print(seen[0].content["result"], flush=True)
    await one.apply(state, call("hang"))

asyncio.run(run())
"""


@pytest.mark.long
def test_a_server_dies_with_a_host_that_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", HOST], stdout=subprocess.PIPE, text=True) as host:
        assert host.stdout is not None
        pid, folder = host.stdout.readline().split()
        assert lives(int(pid))
        os.kill(host.pid, signal.SIGKILL)
    assert ended(int(pid))
    shutil.rmtree(folder)  # which nobody is left to remove
