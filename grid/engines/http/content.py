"""A message's content: a text, or a list of parts, as servers of Mistral's and others have it."""

from __future__ import annotations

from typing import Any, NamedTuple

_TEXT, _THOUGHT, _REFUSAL = ("text", "output_text"), ("thinking", "reasoning", "redacted_thinking"), "refusal"


class Content(NamedTuple):
    """What is the answer, what was thought before it, and the words of a refusal."""

    text: str | None
    thought: str = ""
    refusal: str = ""


def read_content(value: Any) -> Content:
    """Texts are joined; thought is none of the answer, nor is a refusal.

    Raises:
        ValueError: what is no content, or a part that may be an answer and cannot be read.
    """
    if value is None or isinstance(value, str):
        return Content(value)
    if not isinstance(value, list):
        raise ValueError("neither a text nor a list of parts")
    texts, thoughts, refusals = list[str](), list[str](), list[str]()
    for part in value:
        if isinstance(part, str):
            texts.append(part)
        elif not isinstance(part, dict):
            raise ValueError("a part that is no object")
        elif (kind := part.get("type", "text")) in _TEXT:
            texts.append(_text(part.get("text")))
        elif kind in _THOUGHT:
            thoughts.append(_thought(part))
        elif kind == _REFUSAL:
            refusals.append(str(part.get(_REFUSAL) or ""))
        else:
            raise ValueError(f"a part of type {str(kind)[:40]!r}, and not {', '.join((*_TEXT, *_THOUGHT, _REFUSAL))}")
    return Content(*map("".join, (texts, thoughts, refusals)))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("a part of type 'text' without a text")
    return value


def _thought(part: dict[str, Any]) -> str:
    """A thought is a text or has parts of its own; one that is not shown is none."""
    for name in ("thinking", "reasoning", "text"):
        value = part.get(name)
        if isinstance(value, str):
            return value
        if isinstance(value, list):
            return "".join(str(one.get("text") or "") for one in value if isinstance(one, dict))
    return ""
