"""The closed set of m&m's: 33 tools with the names and kinds of what they take and return.

The release names its tools in code only, so names and kinds stand here as they do there (`TOOL_METADATA`, version of
March 2024); the descriptions are our own. All arguments are required.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeAlias

from grid.core.types import Parameter, ToolSpec

Kind: TypeAlias = Literal["text", "image", "audio", "integer", "objects", "object"]
"""What an argument takes or a field holds. `objects` is a list of what was found, `object` one of them."""
MODEL, PROCESSING, API = "ml model", "data processing", "public api"
_TYPES: Mapping[Kind, str] = {"integer": "integer"}  # all else is a text: a value or an earlier output
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
"""By name, where the kind says too little."""


class Tool(NamedTuple):
    """A tool as it is shown, with the kinds of its arguments and of its output's fields."""

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
