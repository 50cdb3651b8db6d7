"""The answers in which whole plans are predicted (agent_planning_benchmark C.2, C.3)."""

from __future__ import annotations

from dataclasses import dataclass

from grid.core.types import ToolSpec


@dataclass(frozen=True)
class ChainAnswer:
    """A JSON object `{"plan", "tool_chain": [{"name", "parameter_description", "reason"}, ...]}` is wanted (C.3).

    The chain has `least` to `most` entries in order; where they `may_decline`, an entry may name no tool. Where the
    whole plan `may_refuse`, `{"status": "REJECT", "reason"}` is an answer too. `free`: the plan is diagnosed and not
    run, so that names and arguments may be any: which tools there are is for the answer to know.
    """

    tools: tuple[ToolSpec, ...]
    least: int
    most: int
    may_decline: bool = False
    may_refuse: bool = False
    free: bool = False


@dataclass(frozen=True)
class MessagesAnswer:
    """Exactly `count` messages of an assistant are wanted (C.2), as a JSON object or, of several, as a JSON array.

    Each is `{"role": "assistant", "thought", "tool_calls": [{"type": "function", "function": {"name", "arguments"}}]}`
    with one call, or with none where nothing is to be called. `may_refuse` and `free` are as of a chain.
    """

    tools: tuple[ToolSpec, ...]
    count: int
    may_refuse: bool = False
    free: bool = False
