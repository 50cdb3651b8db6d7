"""What an episode asked and did, as messages and events of Inspect."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from inspect_ai.event import ModelEvent
from inspect_ai.model import (
    ChatCompletionChoice,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageTool,
    ChatMessageUser,
    GenerateConfig,
    ModelOutput,
)
from inspect_ai.tool import ToolCall, ToolCallError

from analysis.inspecting import texts
from grid.core.types import NO_TOOL
from grid.store.transcripts import Request, answer_lines

Message: TypeAlias = ChatMessageSystem | ChatMessageUser | ChatMessageAssistant | ChatMessageTool
EVENTS = 100
"""Requests of one sample: what a search asked beyond them is counted, and left out."""
STEPS = 500
"""Decisions of one sample."""
_STATIC = ("role", "tools", "demonstrations")
"""Sections that stand before a case: they are shown as the system's."""
_TOLD = ("substep_id", "substep", "reference_tool", "tool_matches", "entropy", "branch", "step")


def conversation(row: Mapping[str, Any], query: str, steps: Sequence[Mapping[str, Any]]) -> list[Message]:
    """The query, then each decision on the path that counts, with its call and what was observed, then the answer.

    Args:
        row: the episode's.
        query: what was asked for.
        steps: its rows of `steps`, in order.
    """
    path = [step for step in steps if step["on_path"] is not False][:STEPS]
    found: list[Message] = [ChatMessageUser(content=texts.cut(query), source="input", id=_id(row, "query"))]
    for place, step in enumerate(path):
        found += _decision(step, f"{row['cell_id']}-{place}", row["model"])
    if row["answer"] is not None:
        found.append(_said(texts.cut(row["answer"]), row["model"], _id(row, "answer")))
    return found


def _id(row: Mapping[str, Any], what: str) -> str:
    return f"{row['cell_id']}-{what}"


def _said(content: str, model: str, name: str, **more: Any) -> ChatMessageAssistant:
    return ChatMessageAssistant(content=content, model=model, source="generate", id=name, **more)


def _decision(step: Mapping[str, Any], name: str, model: str) -> Iterator[Message]:
    """A decision as the assistant's message and, where a tool was called, what that returned."""
    told = {key: step[key] for key in _TOLD if step[key] is not None}
    if step["options"]:
        told["options"] = {texts.cut(one["tool"]): one["probability"] for one in step["options"]}
    said, tool = step["thought"] or "", step["chosen_tool"]
    if tool is None or tool == NO_TOOL:
        content = said or (NO_TOOL if tool else step["written"] or "(nothing that can be read)")
        yield _said(texts.cut(content), model, name, metadata=told)
        return
    given, wrong = texts.arguments(step["arguments"])
    call = ToolCall(id=f"call-{name}", function=texts.cut(tool), arguments=given, parse_error=wrong)
    yield _said(texts.cut(said), model, name, metadata=told, tool_calls=[call])
    if step["observation"] is not None:
        seen = texts.cut(step["observation"])
        error = ToolCallError("unknown", seen) if step["failed"] else None
        yield ChatMessageTool(
            content=seen, tool_call_id=call.id, function=call.function, error=error, id=f"{name}-observed"
        )


def events(requests: Sequence[Request | None], row: Mapping[str, Any]) -> list[ModelEvent]:
    """Each request as the engine got it with what it answered, the first EVENTS; lost ones are left out.

    No request has a time of its own: all have the one at which the episode's row was made.
    """
    return [_event(request, row["model"], row["created_at"]) for request in requests[:EVENTS] if request]


def _event(request: Request, model: str, when: dt.datetime) -> ModelEvent:
    asked: list[Message] = []
    for section in request.sections:
        content = "(lost with a damaged file)" if section is None else texts.cut("\n".join(section.lines()))
        kind = ChatMessageSystem if section is not None and section.kind in _STATIC else ChatMessageUser
        asked.append(kind(content=content))
    by = model if request.role == "actor" else request.role
    if request.probabilities is None:
        said = [texts.cut(answer) for answer in request.answers]
    else:
        said = [texts.cut("\n".join(answer_lines(request)))]
    choices = [ChatCompletionChoice(message=ChatMessageAssistant(content=one, model=by)) for one in said]
    how = {"decision": request.decision, "request": request.request, "wanted": request.wanted}
    how |= {"unreadable": "; ".join(map(str, request.unreadable.values()))} if request.unreadable else {}
    how |= {"altered": request.altered} if request.altered else {}
    config = GenerateConfig(temperature=request.temperature, max_tokens=request.max_tokens, num_choices=request.n)
    output = ModelOutput(model=by, choices=choices)
    return ModelEvent(model=by, role=request.role, input=asked, tools=[], tool_choice="none", config=config,
                      output=output, metadata=how, timestamp=when, working_start=0.0, pending=False,
                      completed=when)  # fmt: skip
