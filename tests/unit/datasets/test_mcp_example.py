"""The example's tasks: their references give their answers, in the database that the example makes."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from grid.datasets.mcp import Task, read_tasks, same_answer

FOLDER = Path(__file__).parents[3] / "examples" / "mcp"
TASKS = {task.id: task for task in read_tasks(FOLDER / "tasks.jsonl")}


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
    assert all(f"examples/mcp/{name}" in text for name in ("shop.sql", "tasks.jsonl"))
    assert len(TASKS) == 10
    assert len({json.dumps(task.model_dump()) for task in TASKS.values()}) == 10
