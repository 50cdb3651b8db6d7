"""A name as somebody writes it who does not remember it exactly."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace

from grid.core.types import ToolCall, ToolSpec
from grid.text import references

_WORD = re.compile(r"[^\W\d_]{4,}")


def misspelt(call: ToolCall, choices: Collection[str] = ()) -> ToolCall | None:
    """The call with one of its arguments misspelt: the first text with a word of four letters or more.

    The longest word's second letter changes places with the next that differs. Arguments whose values the schema lists
    (`choices`) and references to results are no names. None: the call has no name.
    """
    for name, value in call.arguments.items():
        if name in choices or not isinstance(value, str) or references.PATTERN.search(value):
            continue
        written = _misspelt(value)
        if written != value:
            return replace(call, arguments={**call.arguments, name: written})
    return None


def listed(tool: ToolSpec | None) -> frozenset[str]:
    """The parameters of a tool whose values its schema lists."""
    return frozenset(one.name for one in tool.parameters if one.values) if tool else frozenset()


def _misspelt(text: str) -> str:
    words = sorted(_WORD.finditer(text), key=lambda word: -len(word[0]))
    for word in words:
        for place in range(word.start() + 1, word.end() - 1):
            if text[place] != text[place + 1]:
                return text[:place] + text[place + 1] + text[place] + text[place + 2 :]
    return text
