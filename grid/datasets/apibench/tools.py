"""APIs as tools: the call that a record documents, with its arguments for the planner to write.

A tool is one API of the hub. What a planner is told is the record's functionality (all of them where an API has several
records), domain, description and example call. The arguments that identify an API (a model's name, a repository, a
handle) are required, and whoever calls the tool writes their values, as it would in code: nothing holds it to those of
the example, so that it can name an API that there is not. A call is rendered as the code that it stands for.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from grid.core.types import FINISH, GIVE_UP, NO_TOOL, Json, Parameter, ToolSpec
from grid.datasets.apibench.scorer import Api, Hub, arguments_of, call_in, identifying, read_api
from grid.datasets.apibench.trees import parse

RECORDED = "recorded"
"""The field of an outcome that has the call's code."""
_RESERVED = frozenset({FINISH, GIVE_UP, NO_TOOL})
_MOST = 400  # characters of what the records of an API say that it is for
_TEXTS = ("domain", "api_name", "api_call", "description")


class Slot(NamedTuple):
    """One argument of a call: its parameter's name, and how a value is written.

    `keyword`: with its name in front. `quote`: the record's own around texts; empty where it has no text there.
    """

    name: str
    keyword: bool
    quote: str


@dataclass(frozen=True)
class Record:
    """An API that can be a tool. `code` is its documented call; `rest` are arguments such as `**kwargs`."""

    code: str
    api: Api
    spec: ToolSpec
    slots: tuple[Slot, ...]
    rest: tuple[str, ...]
    given: Mapping[str, Json]

    def render(self, arguments: Mapping[str, Json]) -> str:
        """The code of a call with these arguments; raises ValueError for one that has no name that code could have."""
        slots = {slot.name: slot for slot in self.slots}
        unnamed = [slot for slot in self.slots if not slot.keyword and slot.name in arguments]
        placed = [_value(arguments[slot.name], slot.quote) for slot in unnamed]
        named: list[str] = []
        for name, value in arguments.items():
            slot = slots.get(name, Slot(name, True, "'"))
            if slot.keyword and not name.isidentifier():
                raise ValueError(f"{name:.100} is no name of an argument")
            named += [f"{name}={_value(value, slot.quote)}"] if slot.keyword else []
        splats = [text for text in self.rest if text.startswith("*") and not text.startswith("**")]
        others = [text for text in self.rest if text not in splats]
        return f"{self.api.function}({', '.join([*placed, *splats, *named, *others])})"


def read_record(hub: Hub, records: Sequence[Mapping[str, Any]], name: str) -> Record | str:
    """The records of one API as a tool called `name`; why it cannot be one where it cannot. The first describes it."""
    data = records[0]
    if not all(isinstance(data.get(key), str) for key in _TEXTS):
        return f"it lacks one of {', '.join(_TEXTS)}"
    code, api = parse(data["api_call"]), read_api(hub, data["api_call"], data["domain"])
    call = call_in(code) if code else None
    if code is None or call is None or api is None:
        return "its call is no Python call that can be read"
    slots: list[Slot] = []
    parameters: list[Parameter] = []
    given: dict[str, Json] = {}
    rest: list[str] = []
    for argument in arguments_of(code, call):
        if argument.text.startswith("*"):
            rest.append(argument.text)
            continue
        place = len(slots) + 1
        own = argument.name or f"argument_{place}"
        kind, quote, value = _kind(argument.value, code.text(argument.value))
        what = ("Python code, " if kind == "string" and not quote else "") + "as in the example"
        slots.append(Slot(own, argument.name is not None, quote))
        parameters.append(Parameter(own, kind, what, identifying(hub, code, argument) is not None))
        given[own] = value
    uses = "; ".join(dict.fromkeys(_text(one.get("functionality")) for one in records))[:_MOST]
    text = f"{uses} ({data['domain']}): {data['description']} Example: {data['api_call']}"
    spec = ToolSpec(name, text, tuple(parameters), (RECORDED,), data["domain"])
    return Record(data["api_call"], api, spec, tuple(slots), tuple(rest), given)


def names_of(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """A name of its own for each record: the API's, with a number behind it where others before have the same."""
    taken, found = set(_RESERVED), list[str]()
    counts: dict[str, int] = {}
    for data in records:
        base = "_".join(str(data.get("api_name") or "").split()) or "api"
        name = base
        while name in taken:
            counts[base] = counts.get(base, 1) + 1
            name = f"{base}_{counts[base]}"
        taken.add(name)
        found.append(name)
    return found


def _kind(value: ast.AST, text: str) -> tuple[str, str, Json]:
    """A value's type, the quote around it, and itself; code is a string without a quote."""
    if isinstance(value, ast.Constant):
        if isinstance(value.value, str) and text[:1] in "'\"" and value.value == text[1:-1]:
            return "string", text[0], value.value
        if isinstance(value.value, bool):
            return "boolean", "", value.value
        if isinstance(value.value, int | float):
            return "integer" if isinstance(value.value, int) else "number", "", value.value
    return "string", "", text


def _value(value: Json, quote: str) -> str:
    """A value in code: a text in the record's quotes where it has any there, else as it stands."""
    if not isinstance(value, str):
        return repr(value)
    if not quote:
        return value
    plain = not any(char in value for char in (quote, "\\", "\n", "\r"))
    return f"{quote}{value}{quote}" if plain else repr(value)


def _text(value: Any) -> str:
    """A record's functionality, which some have as a list."""
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value or "")
