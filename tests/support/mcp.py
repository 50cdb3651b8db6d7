"""A file of tasks for the small MCP server of `tests/support/mcp_server.py`, and how that is started."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from grid.core.types import ToolCall, Trajectory
from grid.episode.episode import Episode

SERVER = Path(__file__).with_name("mcp_server.py")
ITEMS = ("mug", "lamp", "pen", "cup", "Tür")


def command(mode: str = "") -> dict[str, Any]:
    """The dataset's keys that start it: without site-packages it takes 20 ms."""
    return {"command": sys.executable, "args": ["-I", "-S", str(SERVER), mode]}


def tasks() -> list[dict[str, Any]]:
    """Tasks with calls alone, with an answer besides, and with an argument that an earlier call returns."""
    found: list[dict[str, Any]] = []
    for number, item in enumerate(ITEMS):
        call = {"tool": "add_item", "arguments": {"name": item, "count": number + 2}}
        found.append({"id": f"add-{item}", "query": f"Put {number + 2} of {item} into the basket.", "calls": [call]})
    for item, price in (("mug", "9.50"), ("lamp", "20"), ("Tür", "300")):
        asked = {"tool": "price", "arguments": {"name": item}}
        found.append(
            {"id": f"price-{item}", "query": f"What does one {item} cost?", "calls": [asked], "answer": price}
            | {"cluster": "price", "policy": "Be brief."}
        )
        converted = {
            "tool": "convert",
            "arguments": {"amount": "OUTPUT_FROM_STEP_0.result", "currency": "EUR"},
        }
        found.append({"id": f"euro-{item}", "query": f"The price of one {item} in EUR.", "calls": [asked, converted]})
    return found


def write(folder: Path, rows: list[dict[str, Any]] | None = None) -> str:
    """The path of a file of tasks."""
    path = folder / "tasks.jsonl"
    lines = (json.dumps(row, ensure_ascii=False) for row in rows or tasks())
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


@dataclass(frozen=True)
class Calling:
    """Makes calls, and keeps what they returned."""

    calls: Sequence[ToolCall]
    seen: list[str]
    needs: ClassVar[frozenset[str]] = frozenset()

    async def solve(self, episode: Episode) -> Trajectory:
        state = episode.start()
        for one in self.calls:
            found = await episode.execute(state, one, ())
            state = found.state
            self.seen.append(str(found.observation and found.observation.content.get("result")))
        return Trajectory((), (), state)
