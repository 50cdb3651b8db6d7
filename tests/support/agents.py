"""Agents in this process: the loop of examples/agents as a method, and one that does what the test says."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from pydantic.dataclasses import dataclass

from grid.core.util import STRICT
from grid.planners.outside.agent import Agent, Tools


@dataclass(frozen=True, config=STRICT)
class Loop(Agent):
    """Asks for the next call and makes it, until the work is over or the model has no call."""

    async def run(self, query: str, tools: Tools, client: Any) -> str | None:
        """The words of an answer without a call."""
        messages: list[Any] = [{"role": "user", "content": query}]
        while functions := tools.definitions():
            answer = await client.chat.completions.create(model="agent-grid", messages=messages, tools=functions)
            said = answer.choices[0].message
            if not said.tool_calls:
                return str(said.content)
            messages.append(said.model_dump(exclude_none=True))
            for call in said.tool_calls:
                result = await tools.call(call.function.name, json.loads(call.function.arguments))
                messages.append({"role": "tool", "tool_call_id": call.id, "content": result.text})
        return None


@dataclass(frozen=True, config=STRICT)
class Doing(Agent):
    """An agent whose run is handed to it."""

    what: Callable[[str, Tools, Any], Awaitable[str | None]] | None = None

    async def run(self, query: str, tools: Tools, client: Any) -> str | None:
        """As it was told."""
        assert self.what is not None
        return await self.what(query, tools, client)
