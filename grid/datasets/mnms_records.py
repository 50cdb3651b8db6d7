"""The released files of m&m's: one JSON object per line, in which plans are Python literals as text.

A line has `id`, `user_request`, `plan_str` (a list of `{"id", "name", "args"}`), `code_str` (the same plan as Python,
which is not read) and `alt_plans_str` (a list of further plans, or null). The authors' code runs `eval` on plans; here
they are parsed as literals, and anything else is refused.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeAlias

from grid.core.errors import DataError
from grid.core.types import Json, Parameter, ToolCall, ToolSpec, to_json
from grid.core.untrusted import loads_storable
from grid.datasets.dataset import UnusableError
from grid.datasets.files import read_jsonl
from grid.text.references import PATTERN, reference

Split: TypeAlias = Literal["test_human_verified_filtered", "test_human_verified", "test_raw"]
Calls: TypeAlias = tuple[ToolCall, ...]
"""A plan. A link `<node-k>.field` in an argument refers to the call at place k, counted from 0."""
FIELDS = ("id", "user_request", "plan_str", "alt_plans_str")
SUFFIXES: Mapping[str, tuple[str, ...]] = {"image": (".jpg", ".jpeg", ".png"), "audio": (".flac",)}
_LONGEST = 200_000  # maximum length of a plan, in characters
_MOST_CALLS = 100
_LINK = re.compile(r"<node-(\d+)>\.(\w+)")
_FILE = re.compile(r"(?<![\w./-])[\w./-]+\.(?:jpg|jpeg|png|flac)\b")


@dataclass(frozen=True)
class Record:
    """One request. `plans` has the reference first, followed by the alternatives if they are wanted."""

    query: str
    plans: tuple[Calls, ...]

    @property
    def files(self) -> frozenset[str]:
        """The files named in the request or a plan. Tools can open only these files."""
        values = [value for plan in self.plans for call in plan for value in call.arguments.values()]
        return frozenset(name for text in (self.query, *map(str, values)) for name in _FILE.findall(text))


def read_rows(path: Path) -> list[tuple[str, Mapping[str, Any]]]:
    """The records, each with its id.

    Raises:
        DataError: a line is not a JSON object, an id is repeated, or no line has the release's fields.
    """
    found: dict[str, Mapping[str, Any]] = {}
    for line, row in read_jsonl(path):
        own = row.get("id")
        name = str(own) if isinstance(own, int | str) else f"line-{line}"
        if name in found:
            raise DataError(path, line, f"an earlier line has the id {name:.40}")
        found[name] = row
    if not any(all(field in row for field in FIELDS) for row in found.values()):
        raise DataError(path, None, f"no line has the fields of the release: {', '.join(FIELDS)}")
    return list(found.items())


def read_record(row: Mapping[str, Any], alternatives: bool) -> Record:
    """A record with or without its alternative plans.

    UnusableError is raised if the record has no request, or if a plan cannot be read.
    """
    query = row.get("user_request")
    if not isinstance(query, str) or not query.strip():
        raise UnusableError("the record has no request")
    plan = read_plan(_literal(row.get("plan_str")))
    others = _literal(row["alt_plans_str"]) if alternatives and row.get("alt_plans_str") is not None else []
    if not isinstance(others, list):
        raise UnusableError("the alternative plans are not a list")
    return Record(query.strip(), (plan, *map(read_plan, others)))


def _literal(text: Any) -> Any:
    """The value of a text that is a Python literal."""
    if not isinstance(text, str) or len(text) > _LONGEST:
        raise UnusableError(f"the plan is not a text of at most {_LONGEST:,} characters")
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        raise UnusableError("the plan is not a Python literal") from None


def read_plan(nodes: Any) -> Calls:
    """Turn a plan's list of nodes into calls whose links refer to places.

    Raises:
        UnusableError: the plan is not a list of 1 to 100 calls of the closed set with different numbers, an argument is
            not JSON, or a link cannot be read or names no field of an earlier call.
    """
    if not isinstance(nodes, list) or not 1 <= len(nodes) <= _MOST_CALLS:
        raise UnusableError(f"the plan is not a list of 1 to {_MOST_CALLS} calls")
    places: dict[str, int] = {}
    calls: list[ToolCall] = []
    for node in nodes:
        number, call = _node(node)
        if number in places:
            raise UnusableError(f"the plan has two nodes {number:.20}")
        places[number] = len(calls)
        calls.append(call)
    return tuple(_by_place(calls, places, own) for own in range(len(calls)))


def _node(node: Any) -> tuple[str, ToolCall]:
    if not isinstance(node, dict) or not isinstance(node.get("args"), dict) or not isinstance(node.get("name"), str):
        raise UnusableError("a node of the plan has no name or no args")
    number, name = str(node.get("id")), node["name"].replace("_", " ")
    if not re.fullmatch(r"[0-9]{1,6}", number):
        raise UnusableError("a node of the plan has no number")
    if name not in TOOLS:
        raise UnusableError(f"the plan calls {name!r:.60}, which is not one of the {len(TOOLS)} tools")
    try:
        arguments = loads_storable(to_json(node["args"]))
    except (ValueError, TypeError, RecursionError):
        raise UnusableError(f"an argument of {name} is not JSON") from None
    return str(int(number)), ToolCall(name, arguments)


def _by_place(calls: Sequence[ToolCall], places: Mapping[str, int], own: int) -> ToolCall:
    def placed(link: re.Match[str]) -> str:
        place = places.get(str(int(link[1])))
        if place is None:
            raise UnusableError(f"{link[0]:.40} names no call of the plan")
        if place >= own:
            raise UnusableError(f"{link[0]:.40} names a call that does not come earlier")
        if link[2] not in TOOLS[calls[place].tool].gives:
            raise UnusableError(f"{link[0]:.40} names no output of {calls[place].tool}")
        return _link(place, link[2])

    arguments = {name: _LINK.sub(placed, value) if isinstance(value, str) else value
                 for name, value in calls[own].arguments.items()}  # fmt: skip
    for value in arguments.values():
        rest = _LINK.sub("", value) if isinstance(value, str) else to_json(value)
        if "<node-" in rest or "OUTPUT_FROM_STEP" in rest:
            raise UnusableError(f"a link in the plan cannot be read: {rest:.60}")
    return ToolCall(calls[own].tool, arguments)


def _link(place: int, field: str) -> str:
    return f"<node-{place}>.{field}"


def as_references(call: ToolCall) -> ToolCall:
    """A plan's call with its links replaced by `OUTPUT_FROM_STEP_k.field`."""
    return _each_text(call, lambda text: _LINK.sub(lambda link: reference(link[1], link[2]), text))


def as_links(call: ToolCall, places: Mapping[str, int], handles: Mapping[str, tuple[int, str]]) -> ToolCall:
    """A planner's call in the form used by plans: references and literal copies of earlier outputs become links.

    Args:
        call: the call as the planner wrote it.
        places: the places of the earlier calls, by the ids of their steps.
        handles: for each value that an earlier call returned, that call's place and the field.
    """

    def of_reference(match: re.Match[str]) -> str:
        return _link(places[match[1]], match[2]) if match[1] in places else match[0]

    def linked(text: str) -> str:
        text = PATTERN.sub(of_reference, text)
        for value, (place, field) in handles.items():
            text = text.replace(value, _link(place, field))
        return text

    return _each_text(call, linked)


def _each_text(call: ToolCall, change: Callable[[str], str]) -> ToolCall:
    arguments: dict[str, Json] = {
        name: change(value) if isinstance(value, str) else value for name, value in call.arguments.items()
    }
    return ToolCall(call.tool, arguments)


# The closed set of m&m's: 33 tools with the names and kinds of their arguments and outputs.
#
# The release names its tools only in code, so names and kinds are copied from there (`TOOL_METADATA`, version of March
# 2024); the descriptions are our own. All arguments are required.


Kind: TypeAlias = Literal["text", "image", "audio", "integer", "objects", "object"]
"""The kind of an argument's or a field's value.

`objects` is a list of detected objects, and `object` is one object from such a list.
"""
MODEL, PROCESSING, API = "ml model", "data processing", "public api"
_TYPES: Mapping[Kind, str] = {"integer": "integer"}  # all other kinds are texts: a value or an earlier output
_TAKES: Mapping[Kind, str] = {
    "text": "a text",
    "image": "an image: a file of the request, or an earlier output",
    "audio": "a sound file of the request",
    "integer": "a whole number",
    "objects": "a list of objects, an earlier output",
    "object": "one object, an earlier output",
}


_MEANS: Mapping[str, str] = {
    "question": "what is asked",
    "prompt": "what to change",
    "object_name": "the name of the object to pick",
    "emoji": "the emoji's name, such as smiling_face",
    "date": "month/day",
    "movie_title": "the film's title",
    "movie_year": "the year of the film",
    "first_name": "one person's name",
    "second_name": "the other person's name",
    "city": "a city or an address",
    "lon": "the longitude",
    "lat": "the latitude",
}
"""Descriptions by argument name, for arguments whose kind alone says too little."""


class Tool(NamedTuple):
    """A tool as planners see it, with the kinds of its arguments (`takes`) and of its output fields (`gives`)."""

    spec: ToolSpec
    takes: Mapping[str, Kind]
    gives: Mapping[str, Kind]


_IMAGE: dict[str, Kind] = {"image": "image"}
_TEXT: dict[str, Kind] = {"text": "text"}
_OBJECT: dict[str, Kind] = _IMAGE | {"object": "object"}
_OBJECTS: dict[str, Kind] = _IMAGE | {"objects": "objects"}
_NUMBER: dict[str, Kind] = {"number": "integer"}
_PLACE: dict[str, Kind] = {"lon": "text", "lat": "text"}
_DEFINED: tuple[tuple[str, str, str, Mapping[str, Kind], Mapping[str, Kind]], ...] = (
    ("text generation", MODEL, "Writes on from a prompt.", _TEXT, _TEXT),
    ("text summarization", MODEL, "Shortens a longer text to its main points.", _TEXT, _TEXT),
    ("text classification", MODEL, "Gives a text a label, such as its sentiment.", _TEXT, _TEXT),
    ("question answering", MODEL, "Answers a question from a text.", _TEXT | {"question": "text"}, _TEXT),
    ("image generation", MODEL, "Draws an image of what a text describes.", _TEXT, _IMAGE),
    ("image captioning", MODEL, "Says in a sentence what an image shows.", _IMAGE, _TEXT),
    ("optical character recognition", MODEL, "Reads the writing in an image.", _IMAGE, _TEXT),
    ("image classification", MODEL, "Names the class of an image's main subject.", _IMAGE, _TEXT),
    ("image editing", MODEL, "Changes an image as an instruction says.", _IMAGE | {"prompt": "text"}, _IMAGE),
    ("object detection", MODEL, "Finds the objects in an image, each with a label and a box.", _IMAGE, _OBJECTS),
    ("image segmentation", MODEL, "Finds the parts of an image, each with a label and a mask.", _IMAGE, _OBJECTS),
    ("automatic speech recognition", MODEL, "Writes down what is said in a recording.", {"audio": "audio"}, _TEXT),
    (
        "visual question answering",
        MODEL,
        "Answers a question about what an image shows.",
        _IMAGE | {"question": "text"},
        _TEXT,
    ),
    ("image crop", PROCESSING, "Cuts out of an image the part in an object's box.", _OBJECT, _IMAGE),
    ("image crop left", PROCESSING, "Keeps the left part of an image.", _IMAGE, _IMAGE),
    ("image crop right", PROCESSING, "Keeps the right part of an image.", _IMAGE, _IMAGE),
    ("image crop top", PROCESSING, "Keeps the upper part of an image.", _IMAGE, _IMAGE),
    ("image crop bottom", PROCESSING, "Keeps the lower part of an image.", _IMAGE, _IMAGE),
    ("background blur", PROCESSING, "Blurs all of an image but the given object.", _OBJECT, _IMAGE),
    ("color pop", PROCESSING, "Leaves the given object in colour and the rest of the image grey.", _OBJECT, _IMAGE),
    ("count", PROCESSING, "Counts the objects of a list.", {"objects": "objects"}, _NUMBER),
    ("tag", PROCESSING, "Draws the boxes and labels of objects on an image.", _OBJECTS, _IMAGE),
    (
        "select object",
        PROCESSING,
        "Picks the object of a name from a list.",
        {"objects": "objects", "object_name": "text"},
        {"object": "object"},
    ),
    ("emoji", PROCESSING, "Puts an emoji over an object in an image.", _OBJECT | {"emoji": "text"}, _IMAGE),
    ("get date fact", API, "Tells a fact about a day of the year, given as month/day.", {"date": "text"}, _TEXT),
    ("get year fact", API, "Tells a fact about a year.", {"year": "integer"}, _TEXT),
    ("get math fact", API, "Tells a mathematical fact about a number.", _NUMBER, _TEXT),
    ("get trivia fact", API, "Tells some fact about a number.", _NUMBER, _TEXT),
    (
        "love calculator",
        API,
        "Scores from 0 to 100 how well two people's names go together.",
        {"first_name": "text", "second_name": "text"},
        _NUMBER,
    ),
    ("get location", API, "Looks up the longitude and latitude of a city or an address.", {"city": "text"}, _PLACE),
    (
        "search movie",
        API,
        "Looks up a film: title, year, genre, director and plot.",
        {"movie_title": "text", "movie_year": "text"},
        _TEXT,
    ),
    ("get weather", API, "Gives the forecast for a place as a list of times.", _PLACE, {"objects": "objects"}),
    ("wikipedia simple search", API, "Summarises the Wikipedia page that fits a query best.", _TEXT, _TEXT),
)


def _tool(name: str, category: str, told: str, takes: Mapping[str, Kind], gives: Mapping[str, Kind]) -> Tool:
    parameters = tuple(
        Parameter(own, _TYPES.get(kind, "string"), _MEANS.get(own, _TAKES[kind])) for own, kind in takes.items()
    )
    return Tool(ToolSpec(name, told, parameters, tuple(gives), category), takes, gives)


TOOLS: Mapping[str, Tool] = MappingProxyType({one[0]: _tool(*one) for one in _DEFINED})
SPECS: Mapping[str, ToolSpec] = MappingProxyType({name: tool.spec for name, tool in TOOLS.items()})
