"""What an answer predicts: a chain of calls, the messages of the next steps, or a refusal (agent_planning_benchmark).

It is untrusted text, read with the limits of `grid.text.objects`. Names and arguments stay as they are written: that a
tool does not exist, or is called wrongly, is for a scorer to say. What cannot be told to be a plan is refused, with the
reason: a plan in prose, an entry without a name, more calls than MAX_STEPS, another number of messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

from grid.core.chains import Chain, ChainCall
from grid.core.types import NO_TOOL, Json, ToolSpec, to_json
from grid.text.answers import MAX_STEPS, only_one
from grid.text.calls import Call, calls_in
from grid.text.objects import UnreadableError

NO_CHAIN = "no JSON object with a list `tool_chain`, and no refusal"
NO_MESSAGES = "no message with `tool_calls`, and no refusal"
_REFUSED = frozenset({"reject", "rejected"})
_ARGUMENTS = ("parameter_description", "parameter_descriptions", "arguments", "parameters")
_REASONS = ("reason", "thought", "explanation")
_NO_TOOLS: Mapping[str, ToolSpec] = {}


class Predicted(NamedTuple):
    """The calls that an answer predicts, in order; None where it says that a step takes none.

    `refusal` is why the request is refused, None where it is not. An answer that refuses and plans all the same has
    both: neither is thrown away, and a scorer sees a refusal that is not the end of it. A plan without calls may be a
    question back, which is for a scorer to say too. `plan` is the summary in front of the calls, `said` are the words
    of the last step that takes no call.
    """

    calls: tuple[ChainCall | None, ...]
    refusal: str | None = None
    plan: str = ""
    said: str = ""

    def chain(self, first: int) -> Chain:
        """The calls alone, as a chain whose first call has this number, with the words that go with them."""
        return Chain(tuple(call for call in self.calls if call), self.refusal, self.plan or self.said, first)


def read_chain(text: str, tools: Mapping[str, ToolSpec] = _NO_TOOLS) -> Predicted:
    """The object with a list `tool_chain`, or with the status REJECT; a bare list of its entries counts too.

    Args:
        text: the answer; Markdown, prose and thoughts around the object do not matter.
        tools: those offered, by name, where a name that is nearly one of them is meant as it (`functions.search`);
            without any all names stay as they are.

    Raises:
        UnreadableError: why there is no plan to be read.
    """
    return only_one(text, partial(_chain, tools=tools), NO_CHAIN)


def read_messages(text: str, count: int, tools: Mapping[str, ToolSpec] = _NO_TOOLS) -> Predicted:
    """Exactly `count` messages with one call each, or none; or the object with the status REJECT.

    Of two messages or more a list is wanted; of one it may be the message alone. Raises as `read_chain`.
    """
    return only_one(text, partial(_messages, count=count, tools=tools), NO_MESSAGES)


def read_draft(text: str) -> Predicted:
    """What a draft predicts, in whichever form it was written: a chain, messages, or a list `plan` of calls.

    Raises UnreadableError.
    """
    return only_one(text, _draft, NO_CHAIN)


def _draft(value: Json) -> Predicted | None:
    plan = value.get("plan") if isinstance(value, dict) else None
    if isinstance(plan, list):
        read = [_call(entry, f"entry {place} of the plan", _NO_TOOLS) for place, entry in enumerate(plan)]
        return Predicted(tuple(ChainCall(call.tool, call.arguments) if call else None for call in read))
    count = len(value) if isinstance(value, list) else 1
    return _chain(value, _NO_TOOLS) or _messages(value, count, _NO_TOOLS)


def chain_text(plan: Predicted) -> str:
    """A plan as the object with a list `tool_chain`; a refusal alone as its own object."""
    refusal: dict[str, Json] = {} if plan.refusal is None else {"status": "REJECT", "reason": plan.refusal}
    if refusal and not plan.calls:
        return to_json(refusal)
    entries: list[Json] = [_entry_of(call) for call in plan.calls]
    return to_json(refusal | {"plan": plan.plan, "tool_chain": entries})


def messages_text(plan: Predicted) -> str:
    """Steps as messages: one alone, or a list; a refusal alone as its own object."""
    refusal: dict[str, Json] = {} if plan.refusal is None else {"status": "REJECT", "reason": plan.refusal}
    if refusal and not plan.calls:
        return to_json(refusal)
    messages: list[Json] = []
    for call in plan.calls:
        thought = plan.said if call is None else call.reason
        function: Json = {} if call is None else {"name": call.name, "arguments": dict(call.arguments)}
        calls: list[Json] = [] if call is None else [{"type": "function", "function": function}]
        messages.append(refusal | {"role": "assistant", "thought": thought, "tool_calls": calls})
    return to_json(messages[0] if len(messages) == 1 else messages)


def _entry_of(call: ChainCall | None) -> Json:
    if call is None:
        return {"name": NO_TOOL, "parameter_description": {}, "reason": ""}
    return {"name": call.name, "parameter_description": dict(call.arguments), "reason": call.reason}


def _chain(value: Json, tools: Mapping[str, ToolSpec]) -> Predicted | None:
    if isinstance(value, list):
        entries = [item for item in value if isinstance(item, dict)]
        if len(entries) < len(value) or not all("name" in entry and "role" not in entry for entry in entries):
            return None
        return Predicted(_calls(value, tools))
    if not isinstance(value, dict):
        return None
    refusal, chain = _refusal(value), value.get("tool_chain")
    if refusal is not None and chain is None:
        return Predicted((), refusal)
    if "tool_chain" not in value:
        return None
    if not isinstance(chain, list):
        raise UnreadableError("a tool_chain that is no list")
    plan = value.get("plan")
    return Predicted(_calls(chain, tools), refusal, plan if isinstance(plan, str) else "")


def _calls(entries: list[Json], tools: Mapping[str, ToolSpec]) -> tuple[ChainCall | None, ...]:
    if len(entries) > MAX_STEPS:
        raise UnreadableError(f"a tool_chain of {len(entries):,} calls, {MAX_STEPS} at most")
    return tuple(_entry(entry, f"entry {place} of the tool_chain", tools) for place, entry in enumerate(entries))


def _entry(entry: Json, where: str, tools: Mapping[str, ToolSpec]) -> ChainCall | None:
    """A call, or None for an entry whose name says that it calls no tool."""
    if not isinstance(entry, dict):
        raise UnreadableError(f"{where} is no object")
    if not isinstance(entry.get("name"), str) or not str(entry["name"]).strip():
        raise UnreadableError(f"{where} has no name")
    given = [key for key in _ARGUMENTS if key in entry]
    if len(given) > 1:
        raise UnreadableError(f"{where} has both {given[0]} and {given[1]}")
    arguments = entry[given[0]] if given else {}
    if isinstance(arguments, str) and not arguments.lstrip().startswith("{"):
        raise UnreadableError(f"{where} has a {given[0]} that is no object")
    call = _call({"name": entry["name"], "arguments": arguments}, where, tools)
    reason = next((str(entry[key]) for key in _REASONS if isinstance(entry.get(key), str)), "")
    return ChainCall(call.tool, call.arguments, reason) if call else None


def _call(value: Json, where: str, tools: Mapping[str, ToolSpec]) -> Call | None:
    try:
        found = calls_in(value, tools)
    except UnreadableError as error:
        raise UnreadableError(f"{where}: {error}") from None
    if not found or len(found) != 1:
        raise UnreadableError(f"{where} is not one call")
    return None if found[0].tool == NO_TOOL else found[0]


def _messages(value: Json, count: int, tools: Mapping[str, ToolSpec]) -> Predicted | None:
    entries: list[Json] = value if isinstance(value, list) else [value]
    if not any(isinstance(item, dict) and "tool_calls" in item for item in entries):
        sole = entries[0] if len(entries) == 1 else None
        refusal = _refusal(sole) if isinstance(sole, dict) else None
        return None if refusal is None else Predicted((), refusal)
    if len(entries) != count:
        raise UnreadableError(f"{len(entries):,} messages, where {count} are wanted")
    read = [_message(entry, f"message {place}", tools) for place, entry in enumerate(entries)]
    said = next((words for call, words in reversed(read) if call is None), "")
    refusals = (_refusal(entry) for entry in entries if isinstance(entry, dict))
    refusal = next((reason for reason in refusals if reason is not None), None)
    return Predicted(tuple(call for call, _ in read), refusal, said=said)


def _message(entry: Json, where: str, tools: Mapping[str, ToolSpec]) -> tuple[ChainCall | None, str]:
    """The call of a message, if it has one, and its words."""
    if not isinstance(entry, dict):
        raise UnreadableError(f"{where} is no object")
    if entry.get("role", "assistant") != "assistant":
        raise UnreadableError(f"{where} has the role {entry['role']!r:.40}, where it is the assistant's")
    calls = entry.get("tool_calls")
    if not isinstance(calls, list):
        raise UnreadableError(f"{where} has no list tool_calls")
    words = next((str(entry[key]) for key in ("thought", "content") if isinstance(entry.get(key), str)), "")
    if not calls:
        return None, words
    if len(calls) > 1:
        raise UnreadableError(f"{where} has {len(calls):,} calls, where it has one or none")
    function = calls[0].get("function") if isinstance(calls[0], dict) else None
    named = function if isinstance(function, dict) else calls[0]
    if not isinstance(named, dict) or not isinstance(named.get("name"), str) or not str(named["name"]).strip():
        raise UnreadableError(f"the call of {where} has no name")
    call = _call({"name": named["name"], "arguments": named.get("arguments", {})}, where, tools)
    return ChainCall(call.tool, call.arguments, words) if call else None, words


def _refusal(value: dict[str, Json]) -> str | None:
    """Why an object refuses; None where it does not."""
    status, reason = value.get("status"), value.get("reason")
    if not isinstance(status, str) or status.strip().casefold() not in _REFUSED:
        return None
    return reason if isinstance(reason, str) else ""
