"""Turns a prompt into chat messages, for chat templates and servers alike.

The prompt's role becomes the system message, and the other sections become the user's message, in their order. A
conversation (`episode.conversation`) keeps its place among the sections.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from grid.core.engine import Prompt, Section
from grid.core.types import to_json

Message = dict[str, Any]
_NO_TEXT = ("functions", "conversation")


def messages(
    prompt: Prompt, plain: Callable[[str], str], *, padded: bool = False, system: bool = True, as_text: bool = False
) -> list[Message]:
    """The messages up to the model's answer.

    Args:
        prompt: the prompt; its functions do not become a message.
        plain: breaks up control tokens in the prompt's texts, since these texts are data.
        padded: the option numbers are padded to equal width.
        system: whether the template has a place for a system message; if not, the role begins the user's message.
        as_text: whether calls' arguments are JSON text, as in OpenAI's interface; if not, they are objects.
    """
    kinds = [section.kind for section in prompt.sections]
    place = kinds.index("conversation") if "conversation" in kinds else len(kinds)
    front, behind = prompt.sections[:place], prompt.sections[place + 1 :]
    parts: dict[bool, list[Section]] = {True: [], False: []}
    for section in front:
        parts[system and section.kind == "role"].append(section)
    found = [
        {"role": "system", "content": _text(parts[True], plain, padded)},
        {"role": "user", "content": _text(parts[False], plain, padded)},
        *_conversation(prompt, plain, as_text),
        {"role": "user", "content": _text(behind, plain, padded)},
    ]
    return _joined(message for message in found if message["content"] or message["role"] not in ("system", "user"))


def _text(sections: list[Section] | tuple[Section, ...], plain: Callable[[str], str], padded: bool) -> str:
    shown = ["\n".join(section.lines(padded)) for section in sections if section.kind not in _NO_TEXT]
    return plain("\n\n".join(shown))


def _conversation(prompt: Prompt, plain: Callable[[str], str], as_text: bool) -> Iterator[Message]:
    for line in prompt.entries("conversation"):
        told = broken_up(json.loads(line), plain)
        calls = [_call(call, as_text) for call in told.pop("calls", ())]
        if told["role"] == "tool":
            told["tool_call_id"] = told.pop("id")
        yield told | ({"tool_calls": calls} if calls else {})


def _call(call: Mapping[str, Any], as_text: bool) -> Message:
    arguments = call["arguments"]
    function = {"name": call["name"], "arguments": to_json(arguments) if as_text else arguments}
    return {"id": call["id"], "type": "function", "function": function}


def _joined(told: Iterator[Message]) -> list[Message]:
    """The messages, with consecutive user messages joined into one, since many templates require alternating turns."""
    found = list[Message]()
    for message in told:
        if found and message["role"] == found[-1]["role"] == "user":
            found[-1]["content"] += f"\n\n{message['content']}"
        else:
            found.append(message)
    return found


def broken_up(value: Any, plain: Callable[[str], str]) -> Any:
    """The value, with the control tokens in all its texts, including keys, broken up."""
    if isinstance(value, dict):
        return {plain(key): broken_up(item, plain) for key, item in value.items()}
    if isinstance(value, list):
        return [broken_up(item, plain) for item in value]
    return plain(value) if isinstance(value, str) else value
