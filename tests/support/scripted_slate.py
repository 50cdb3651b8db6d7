"""A model that writes a whole SLATE as it is asked to: rules of its own, played by a local server."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from grid.core.types import Json
from tests.support.http_server import Asked, Reply, completion, models

CHAT = "/v1/chat/completions"
OPENINGS = {
    "You design the tools": "tools",
    "You plan how an assistant": "plans",
    "You write the requests": "queries",
    "You write down how": "substeps",
    "You play the tools": "outcomes",
    "You describe a tool": "equivalents",
    "You add tools": "distractors",
    "You are a user of a service": "wishes",
    "You break a": "outlines",
    "You choose the tools that": "grounding",
    "You sort the tools": "categories",
    "You tidy up": "merging",
}
"""How a stage's prompt begins."""
STAGES = ("tools", "plans", "queries", "substeps", "outcomes", "equivalents", "distractors")
QUERIES_FIRST = ("wishes", "outlines", "grounding", "categories", "merging")
"""What `order=queries` has in the place of the first three; by what they write, not by their files' names."""
_VERBS = ("find", "weigh", "paint", "order", "fetch", "price", "count", "pack", "mend", "send")
_WORDS = ("early", "late", "cheap", "quick", "quiet", "safe", "light", "dry", "warm", "round", "sharp", "plain")
_FIXED = "What stands on the card that was handed over at the desk"
Flaw = Callable[[str, bool, dict[str, Json]], Json]
"""What a server says instead: of the stage, whether it is a repair, and the right answer."""


def stage_of(asked: Asked) -> str | None:
    """The stage that a request is of; None for one that only tries the server."""
    if asked.path != CHAT:
        return None
    text = asked.body["messages"][0]["content"]
    return next((stage for opening, stage in OPENINGS.items() if text.startswith(opening)), None)


def right(flaw: Flaw | None = None) -> Callable[[Asked], Reply]:
    """A server of the model `m`, whose answers keep all rules, but for those that `flaw` changes."""

    def play(asked: Asked) -> Reply:
        if asked.path == "/v1/models":
            return models("m")
        stage = stage_of(asked)
        if stage is None:
            return completion("fine")
        prompt = "\n".join(message["content"] for message in asked.body["messages"])
        schema = asked.body["response_format"]["json_schema"]["schema"]
        answer = ANSWERS[stage](prompt, schema)
        changed = flaw(stage, "was refused, because" in prompt, answer) if flaw else answer
        return completion(changed if isinstance(changed, str) else json.dumps(changed))

    return play


def _code(*parts: object) -> str:
    return hashlib.sha256("/".join(map(str, parts)).encode()).hexdigest()[:6].upper()


def _topic(prompt: str) -> str:
    found = re.search(r"^Topic: ([^:]+):", prompt, re.M)
    assert found
    return found[1]


def _tools(prompt: str, schema: Mapping[str, Any]) -> dict[str, Json]:
    topic = _topic(prompt)
    noun = re.sub(r"\W+", "", topic.lower())[:12]
    before = len(re.findall(rf"^\w+_{noun}\(", prompt, re.M))
    verbs = _VERBS[before : before + schema["properties"]["tools"]["minItems"]]
    return {
        "tools": [
            _tool(f"{verb}_{noun}", f"A member of staff will {verb} what belongs to {topic}", verb) for verb in verbs
        ]
    }


def _tool(name: str, description: str, result: str) -> dict[str, Json]:
    argument: Json = {"name": "item_code", "type": "string", "description": _FIXED}
    return {"name": name, "description": description, "arguments": [argument], "results": [f"{result}_code"]}


def _plans(prompt: str, schema: Mapping[str, Any]) -> dict[str, Json]:
    parts = schema["properties"]
    calling = [number for number, part in parts.items() if "tool" in part.get("properties", ())]
    names = parts[calling[0]]["properties"]["tool"]["enum"]
    before = len(re.findall(r"^- Wish ", prompt, re.M))
    tools = {number: names[before + place] for place, number in enumerate(calling)}
    answer: dict[str, Json] = {"goal": f"Wish {_WORDS[before]} about {_topic(prompt)}"}
    for place, (number, part) in enumerate(parts.items()):
        if "properties" in part:
            made: dict[str, Json] = {"tool": tools[number]} if number in tools else {}
            answer[number] = {"purpose": f"See to the {_WORDS[place]} side of it", **made}
        elif number != "goal":
            answer[number] = f"The {_WORDS[place]} part"
    return answer


def _queries(prompt: str, schema: Mapping[str, Any]) -> dict[str, Json]:
    names = schema["properties"]["values"]["properties"]
    values: dict[str, Json] = {name: f"BK-{_code(prompt, name)}" for name in names}
    wish = re.search(r"The goal: (.+)", prompt)
    assert wish
    told = ", ".join(map(str, values.values()))
    return {"query": f"Hello, about {told}: I should like what you do there, since {wish[1]} matters", "values": values}


def _substeps(prompt: str, schema: Mapping[str, Any]) -> dict[str, Json]:
    found: dict[str, Json] = {}
    for place, (number, part) in enumerate(schema["properties"].items()):
        written: dict[str, Json] = {"text": f"Look after the {_WORDS[place]} side of this for them"}
        if "arguments" in part["properties"]:
            values = part["properties"]["arguments"]["properties"]
            stated = re.findall(r"BK-\w+", prompt)[0] if "Query: Hello" in prompt else None
            written["arguments"] = {
                name: one["anyOf"][0]["enum"][-1] if "anyOf" in one else stated for name, one in values.items()
            }
        found[number] = written
    return found


def _outcomes(prompt: str, schema: Mapping[str, Any]) -> dict[str, Json]:
    return {
        step: {name: f"RS-{_code(prompt, step, name)}" for name in part["properties"]}
        for step, part in schema["properties"].items()
    }


def _equivalents(prompt: str, schema: Mapping[str, Any]) -> dict[str, Json]:
    (host,) = re.findall(r"^The other tool: (\w+)\(", prompt, re.M)
    names = schema["properties"]["arguments"]["items"]["properties"]["same_as"]["enum"]
    return {
        "name": f"desk_{host}"[:30],
        "description": f"The desk of the other team can do {host} for you too",
        "arguments": [{"name": f"own_{name}", "same_as": name, "description": _FIXED} for name in names],
    }


def _distractors(prompt: str, schema: Mapping[str, Any]) -> dict[str, Json]:
    (host,) = re.findall(r"^The existing tool: (\w+)\(", prompt, re.M)
    (words,) = re.findall(r"descriptions have (\d+) to \d+ words", prompt)
    new = _WORDS[: schema["properties"]["tools"]["minItems"]]
    return {
        "tools": [
            _tool(f"{word}_{host}"[:40], " ".join([word, host, *["so"] * int(words)][: int(words)]), word)
            for word in new
        ]
    }


def _wishes(prompt: str, schema: Mapping[str, Any]) -> dict[str, Json]:
    topic = _topic(prompt)
    return {"query": f"Hello, about BK-{_code(prompt)}: I should like what there is of {topic}, it matters to me"}


def _outlines(prompt: str, schema: Mapping[str, Any]) -> dict[str, Json]:
    parts = schema["properties"]
    return {name: f"See to the {_WORDS[place]} side of what is wished" for place, name in enumerate(parts)}


def _grounding(prompt: str, schema: Mapping[str, Any]) -> dict[str, Json]:
    """A tool of the list where it has the name of the script; for mechanics the first is a double."""
    wish = re.search(r"^Query from a (\w+): .* what there is of ([^,]+),", prompt, re.M)
    assert wish
    noun = re.sub(r"\W+", "", wish[2].lower())[:12]
    use: dict[str, str] = {}
    new: list[Json] = []
    for number, verb in zip(schema["properties"]["use"]["properties"], _VERBS, strict=False):
        double = wish[1] == "mechanic" and not use
        use[number] = f"desk_{verb}_{noun}" if double else f"{verb}_{noun}"
        if not re.search(rf"^{use[number]}\(", prompt, re.M):
            who = "The desk of the other team" if double else "A member of staff"
            new.append(_tool(use[number], f"{who} will {verb} what belongs to {wish[2]}", verb))
    return {"use": {**use}, "new": new}


def _categories(prompt: str, schema: Mapping[str, Any]) -> dict[str, Json]:
    found: dict[str, Json] = {}
    for name, one in schema["properties"].items():
        noun = name.rsplit("_", 1)[1]
        (found[name],) = [topic for topic in one["enum"] if re.sub(r"\W+", "", topic.lower())[:12] == noun]
    return found


def _merging(prompt: str, schema: Mapping[str, Any]) -> dict[str, Json]:
    names = schema["properties"]["merged"]["items"]["properties"]["name"]["enum"]
    doubles = [name for name in names if f"desk_{name}" in names]
    return {
        "merged": [
            {"replaces": [name, f"desk_{name}"], **_tool(name, f"Anybody can do {name} here for you now", "both")}
            for name in doubles
        ]
    }


ANSWERS: Mapping[str, Callable[[str, Mapping[str, Any]], dict[str, Json]]] = {
    "tools": _tools,
    "plans": _plans,
    "queries": _queries,
    "substeps": _substeps,
    "outcomes": _outcomes,
    "equivalents": _equivalents,
    "distractors": _distractors,
    "wishes": _wishes,
    "outlines": _outlines,
    "grounding": _grounding,
    "categories": _categories,
    "merging": _merging,
}


def counted(asked: list[Asked]) -> Counter[str]:
    """How often each question of a stage was asked, by its text and seed."""
    return Counter(json.dumps(one.body, sort_keys=True) for one in asked if stage_of(one))
