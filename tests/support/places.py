"""Places of the scripted game of `tests/support/search.py`: the calls made so far, as words.

In "a b1" a word is a tool's letter and the value of its argument `x`, if it has one. Other words are "finish",
"give_up", "none" (no tool) and "?" (an answer that cannot be read). The root is "".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from grid.core.engine import Prompt
from grid.core.types import FINISH, GIVE_UP, NO_TOOL, Json, Parameter, Step, ToolCall, ToolSpec, to_json
from grid.core.untrusted import loads
from grid.episode.tree import Node

Kind = Literal["pre", "post", "value"]
_CALL = re.compile(r'\{"tool": .*?\}\}')


def letter(name: str) -> ToolSpec:
    """A tool of the game."""
    return ToolSpec(name, f"goes {name}", (Parameter("x", "string", "how far", required=False),), ("at",))


def written(word: str) -> str:
    """A word as a model writes it."""
    if word == "?":
        return "I do not know."
    if word == "none":
        return to_json({"tool": NO_TOOL, "arguments": {}})
    if word in (FINISH, GIVE_UP):
        return to_json({"tool": word, "arguments": {}})
    arguments: dict[str, Json] = {"x": word[1:]} if word[1:] else {}
    return to_json({"tool": word[0], "arguments": arguments})


def word_of(call: ToolCall) -> str:
    """A call as a word."""
    return call.tool + str(call.arguments.get("x", ""))


def behind(place: str, word: str) -> str:
    """The place that a word leads to."""
    return f"{place} {word}".strip()


def place_of(prompt: Prompt) -> str:
    """The place that a prompt's history tells of."""
    return _place(prompt, prompt.entries("history")[1:])


def candidates_of(prompt: Prompt) -> list[str]:
    """The places that a vote is about."""
    found = [option for section in prompt.sections if section.kind == "candidates" for option in section.options]
    return [_place(prompt, text.split("\n")[1:]) for text in found]


def place_of_node(node: Node) -> str:
    """Where a node of the tree is."""
    words = []
    for edge in node.edges():
        assert edge.action is not None
        if edge.action.unreadable is not None:
            words.append("?")
        elif edge.action.call is None:
            words.append("none" if edge.action.tool == NO_TOOL else edge.action.tool)
        else:
            words.append(word_of(edge.action.call))
    return " ".join(reversed(words))


def judged(prompt: Prompt) -> tuple[Kind, str]:
    """What kind of score a judge is asked for, and of which place."""
    here, proposal = place_of(prompt), prompt.entries("proposal")
    if len(proposal) == 1:
        return "value", here
    call = proposal[-1]
    word = _word_of_line(call, True)
    return "post" if prompt.entries("outcome") else "pre", behind(here, word)


def _place(prompt: Prompt, lines: Sequence[str]) -> str:
    outlined = len(prompt.entries("task")) > 1
    return " ".join(_word_of_line(line, outlined) for line in lines)


def _word_of_line(line: str, outlined: bool) -> str:
    """The word of a history's line, or of a call that is judged."""
    found = _CALL.search(line)
    if found is None:
        return "?" if "could not be read" in line else "none" if outlined else FINISH
    call = loads(found[0])
    assert isinstance(call, dict)
    if call["tool"] == FINISH:
        return FINISH
    return f"{call['tool']}{call['arguments'].get('x', '')}"


def word_of_step(step: Step) -> str:
    if step.malformed:
        return "?"
    if step.written is None:
        return FINISH if step.finished else "none"
    return word_of(step.written)
