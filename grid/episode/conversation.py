"""The history as messages of a conversation: calls with their ids, and each call's result.

This module is for models that were trained on conversations (`model.history`). The module stands apart from `prompts`,
which shows the same history as lines. A section of kind `conversation` contains one message per line, as JSON, with
`role` (assistant, tool or user) and `content`. An assistant's message may have `calls` with `id`, `name` and
`arguments`. A tool's message has the `id` of its call. The engine converts the messages to the format of its server or
its chat template.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from grid.core.engine import Section
from grid.core.types import NO_TOOL, Step, ToolCall, to_json
from grid.engines.functions import safe_names
from grid.episode import prompts
from grid.episode.acting import View
from grid.episode.episode import Episode

UNREADABLE = "(an answer that could not be read)", "That answer could not be read as a tool call."
NOT_RUN = "It was not run."
_NONE = ToolCall(NO_TOOL, {})


def past(episode: Episode, view: View) -> Section:
    """The part of the path that a decision sees: as messages if its model receives messages, else as lines.

    A decision that sees calls without results always receives lines, because a conversation includes each call's
    result.
    """
    if episode.converses is None or view.seen != "all" or not view.path.steps:
        return prompts.history_section(view.history)
    functions = _functions(view) if episode.converses == "native" else None
    told = [
        message for steps in _answers(view) for message in _messages(view, steps, functions, episode.before.answers)
    ]
    return Section("conversation", tuple(map(to_json, told)))


def ordered(before: Sequence[Section], request: Section, instruction: Section) -> tuple[Section, ...]:
    """A decision's sections; an instruction that is the same at every point comes before any conversation."""
    place = next((place for place, part in enumerate(before) if part.kind == "conversation"), None)
    if place is None or request.entries:
        return (*before, request, instruction)
    return (*before[:place], instruction, *before[place:])


def _answers(view: View) -> Iterator[list[tuple[int, Step]]]:
    """For each answer, the steps that came from it, each with its index in the path."""
    answer: list[tuple[int, Step]] = []
    for place, step in enumerate(view.path.steps):
        if answer and not step.with_last:
            yield answer
            answer = []
        answer.append((place, step))
    yield answer


def _messages(
    view: View,
    steps: Sequence[tuple[int, Step]],
    functions: Mapping[str, str] | None,
    answers: Mapping[int, str | None],
) -> Iterator[dict[str, Any]]:
    """The messages for one answer: the answer, the result of each of its calls, and the user's message after it.

    If calls are native, `functions` maps tool names to function names. `answers` contains the answers that ended
    earlier turns, keyed by the index of the step that ended the turn.
    """
    at, first = steps[0]
    reasoning = dict([first.reasoning]) if first.reasoning else {}
    called = [(place, step) for place, step in steps if step.written is not None and not step.malformed]
    if called and functions is not None:
        calls = [_call(place, step.written, functions) for place, step in called if step.written is not None]
        yield {"role": "assistant", "content": first.thought or "", **reasoning, "calls": calls}
    else:
        words = _words(first, functions is not None, answers.get(at, view.path.answer))
        yield {"role": "assistant", "content": words, **reasoning}
    for place, step in called:
        of = {"role": "user"} if functions is None else {"role": "tool", "id": _id(place)}
        yield of | {"content": _result(view, step)}
    if any(step.malformed for _, step in steps):
        yield {"role": "user", "content": UNREADABLE[1]}
    for place, _ in steps:
        if (said := view.path.said.get(place)) is not None:
            yield {"role": "user", "content": said}


def _words(step: Step, native: bool, answer: str | None) -> str:
    """A step without native calls, in the form that prompts ask for; `answer` is a finished step's final answer."""
    if step.malformed:
        return UNREADABLE[0]
    finish = prompts.finishing(answer) if step.finished else _NONE
    if native:
        return str(finish.arguments.get("answer", finish.tool))
    call = step.written or finish
    thought = {"thought": step.thought} if step.thought else {}
    return to_json({**thought, "action": {"tool": call.tool, "arguments": dict(call.arguments)}})


def _result(view: View, step: Step) -> str:
    """A call's result as shown in a history, with the step's number, which references use."""
    if step.observation is None:
        return f"Step {step.substep.id}: {NOT_RUN}"
    outcome = prompts.told_of(step, step.observation, view.most_observed)
    return f"Step {step.substep.id} {'failed:' if step.observation.failed else 'returned'} {outcome}"


def _id(place: int) -> str:
    """A call's id: nine letters and digits, which all servers accept; a step has the same id in every conversation."""
    return f"step{place:05}"


def _call(place: int, call: ToolCall, functions: Mapping[str, str]) -> dict[str, Any]:
    name = functions.get(call.tool) or safe_names([call.tool])[0]
    return {"id": _id(place), "name": name, "arguments": dict(call.arguments)}


def _functions(view: View) -> dict[str, str]:
    """Map the names of the offered tools to the function names that the engine receives (`engines.functions`)."""
    names = [card.name for card in view.offer.cards]
    return dict(zip(names, safe_names(names), strict=True))
