"""The example's tasks: their references give their answers, in the database that the example makes."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from grid.core.types import ToolCall
from grid.datasets.mcp import Mcp
from grid.datasets.mcp_tasks import Task, read_tasks
from grid.datasets.mcp_world import McpWorld, same_answer

FOLDER = Path(__file__).parents[3] / "examples" / "mcp"
TASKS = {task.id: task for task in read_tasks(FOLDER / "tasks.jsonl").values()}


def told(task: Task) -> list[str]:
    """What the server would return: the rows as objects, in Python's form."""
    base = sqlite3.connect(":memory:")
    base.row_factory = sqlite3.Row
    base.executescript((FOLDER / "shop.sql").read_text(encoding="utf-8"))
    found = []
    for call in task.calls:
        assert call.tool in ("read_query", "write_query")
        rows = base.execute(str(call.arguments["query"])).fetchall()
        found.append(str([dict(row) for row in rows]))
    return found


@pytest.mark.parametrize("name", [name for name, task in TASKS.items() if task.answer is not None])
def test_the_reference_gives_the_answer(name: str) -> None:
    task = TASKS[name]
    assert task.answer is not None
    assert same_answer(told(task)[-1], task.answer)


def test_what_is_changed_decides_the_answer() -> None:
    """Whoever leaves the writing out is wrong."""
    changing = [task for task in TASKS.values() if task.cluster == "update"]
    assert len(changing) == 2
    for task in changing:
        read = task.model_copy(update={"calls": task.calls[1:]})
        assert not same_answer(told(read)[-1], str(task.answer))


def test_the_readme_names_the_files_there_are() -> None:
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert all(
        f"examples/mcp/{name}" in text for name in ("shop.sql", "tasks.jsonl", "shop_server.py", "tasks_http.jsonl")
    )
    assert len(TASKS) == 10
    assert len({json.dumps(task.model_dump()) for task in TASKS.values()}) == 10


SOLD = {
    "sell_mugs": [("Blue mug", 3)],
    "sell_lamps": [("Desk lamp", 2), ("Floor lamp", 1)],
    "last_kettles": [("Kettle", 9)],
    "candles": [("Candle", 10)],
}


def test_what_the_tasks_over_http_expect_holds_after_the_right_calls_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    mcp_http = pytest.importorskip("tests.support.mcp_http")
    monkeypatch.syspath_prepend(str(FOLDER))
    import shop_server  # type: ignore[import-not-found]

    sys.modules.pop("shop_server")
    with mcp_http.serving(shop_server.server.streamable_http_app()) as url:
        found = Mcp(path=str(FOLDER / "tasks_http.jsonl"), url=url)
        assert [*found.tools] == ["products", "stock", "sell"]
        assert set(found.case_ids()) == {*SOLD, "paper"}
        for name, sold in SOLD.items():
            calls = [ToolCall("sell", {"product": product, "quantity": count}) for product, count in sold]
            for made, held in ((calls, True), (calls[1:], False)):
                assert asyncio.run(_held(found, name, made)) == held, (name, made)


async def _held(found: Mcp, name: str, calls: Sequence[ToolCall]) -> bool:
    world = found.problem(name).world
    assert isinstance(world, McpWorld)
    state = world.start()
    for one in calls:
        state, _ = await world.apply(state, one)
    await world.settle(state)
    await world.close()
    assert world.seen is not None
    return not world.seen.unmet
