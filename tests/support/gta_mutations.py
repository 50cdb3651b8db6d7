"""What agents may have said and called instead of GTA's gold paths, made from these by a seed."""

from __future__ import annotations

import copy
import random
from typing import Any

from tests.support.gta import RECORDS, facts, record

Message = dict[str, Any]
ODD: list[dict[str, Any]] = [
    record("Which language?", 0, [("GoogleSearch", {"query": "fast language"}, "C++")], "C++.", facts(["C++", "C"])),
    record("How much?", 0, [("Calculator", {"expression": "2+3"}, "5")], "It is $5.", facts(["$5", "5 dollars"])),
    record(
        "Which street?", 0, [("GoogleSearch", {"query": "street", "k": 1}, "Straße")], "Straße 4.",
        facts(["STRASSE", "straße"], ["4", ""], never=[["4a", "(b)"], ["9"]]),
    ),
    record("Say it.", 0, [("Plot", {"command": "[1, 2]"}, "image/p.png")], "a.b", facts(["a.b"], never=[["axb", "."]])),
]  # fmt: skip
"""Aliases that mean something to regular expressions, or begin and end with no letter."""
GOLD = [*RECORDS, *ODD]
_TOOLS = ["OCR", "Calculator", "TextToBbox", "DrawBox", "TextToImage", "Plot", "AddText", "Solver", "SpeechToText"]
_SAID = [
    "I do not know.",
    "13.50",
    "113.5",
    "5",
    "five!",
    "C",
    "GREEN",
    "light green",
    "4",
    "10\n24",
    "straSSE 4",
    "a.b.",
]


def steps_of(gold: dict[str, Any]) -> list[Message]:
    """The gold path's own messages."""
    return [copy.deepcopy(one) for one in gold["dialogs"] if one["role"] == "assistant"]


def call(name: str, arguments: dict[str, Any], *, error: bool = False) -> Message:
    """A message that calls a tool; with an error where it could not be read."""
    said: Message = {"role": "assistant", "tool_calls": [{"function": {"name": name, "arguments": arguments}}]}
    return said | {"error": {"type": "ARGS_ERROR", "msg": "?"}} if error else said


def mutated(gold: dict[str, Any], rng: random.Random) -> list[Message]:
    """A whole path: the gold one with up to three things wrong, or in another way."""
    path = steps_of(gold)
    if "tool_calls" in path[-1] and rng.random() < 0.5:
        path.append({"role": "assistant", "content": "Done."})
    for _ in range(rng.randint(0, 3)):
        place = rng.randrange(len(path))
        match rng.randrange(5):
            case 0 if len(path) > 1:
                del path[place]
            case 1:
                path.insert(place, copy.deepcopy(rng.choice(path[:-1] or path)))
            case 2:
                path.insert(place, call(rng.choice(_TOOLS), {"image": "image/0.jpg"}))
            case _:
                path[place] = another(path[place], rng)
    return [*(one for one in path[:-1] if "tool_calls" in one), path[-1]]  # only the last may be an answer


def another(message: Message, rng: random.Random) -> Message:
    """One message said otherwise: of another kind, of another tool, or with other arguments or words."""
    if rng.random() < 0.15:
        return call(rng.choice(_TOOLS), {"expression": "1"}) if "content" in message else answered(rng)
    if rng.random() < 0.1:
        return call("NoAction", {"inputs": "?"}, error=True)
    if "content" in message:
        said = message["content"]
        return {
            "role": "assistant",
            "content": rng.choice([said.upper(), said + " 15 or blue", "x" + said + "y", said[: len(said) // 2 + 1],
                                   said.replace(" ", "  "), *_SAID[:3], answered(rng)["content"]]),
        }  # fmt: skip
    function = copy.deepcopy(message["tool_calls"][0]["function"])
    arguments = function["arguments"]
    name = rng.choice([*arguments, "k"])
    match rng.randrange(5):
        case 0:
            function["name"] = rng.choice(_TOOLS)
        case 1:
            arguments.pop(name, None)
        case 2:
            arguments[name] = rng.choice([1, True, 1.0, "1", 3, 3.0, None, ["a"], "red bird"])
        case 3 if isinstance(arguments.get(name), str):
            arguments[name] = arguments[name].replace(" ", "").upper()
        case _:
            arguments["extra"] = ""
    return call(function["name"], arguments)


def answered(rng: random.Random) -> Message:
    """Some answer."""
    return {"role": "assistant", "content": rng.choice(_SAID)}
