"""A simulated REST service whose responses are examples from its OpenAPI file, chosen by case and call.

Figures from such a world say nothing about the real service's responses. However, the world refuses impossible calls:
it checks required arguments, types, listed values, and identifiers. An identifier is accepted only if an earlier
response contained it, or if the case itself gives it.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple

from grid.core.types import RESULT, Json, Observation, ToolCall, ToolSpec, to_json
from grid.core.util import derive_seed
from grid.core.world import State, own_state
from grid.worlds.schema import ERROR

# An endpoint of a REST service: its parameters, and an example of its response.


_IDENTIFIER = re.compile(r"(?:.*[_\W])?(?:id|uri)s?", re.I)
_CAMEL = re.compile(r".*[a-z](?:Id|Uri|URI|ID)s?")
_SEARCH = ("query", "q", "search", "keyword", "keywords", "term", "text")


def is_identifier(name: str) -> bool:
    """Whether a field or parameter of this name contains identifiers: `id`, `movie_id`, `ids`, `trackId`, `uri`."""
    return bool(_IDENTIFIER.fullmatch(name) or _CAMEL.fullmatch(name))


class Input(NamedTuple):
    """A parameter of an endpoint, and its location: the path, the query or the body."""

    name: str
    where: Literal["path", "query", "body"]
    type: str
    required: bool
    values: tuple[str, ...] = ()

    @property
    def identifies(self) -> bool:
        """Whether the parameter's values must be known identifiers.

        Of query parameters, only `id`, `ids`, `uri` and `uris` must have known identifiers.
        """
        return is_identifier(self.name) and (self.where != "query" or self.name.lower() in ("id", "ids", "uri", "uris"))


@dataclass(frozen=True)
class Endpoint:
    """A method and a path, such as `GET /movie/{movie_id}`, as a tool with an example of its response on success."""

    tool: ToolSpec
    inputs: tuple[Input, ...]
    example: Mapping[str, Json]

    @cached_property
    def search(self) -> str | None:
        """The parameter with the search text; None if the endpoint is not a search."""
        free = (item.name for item in self.inputs if item.type == "string" and not item.values)
        return next((name for name in free if name in _SEARCH), None)

    @cached_property
    def entity(self) -> str | None:
        """The path's only parameter, if it is an identifier; its value becomes the `id` of the response."""
        found = [item.name for item in self.inputs if item.where == "path"]
        return found[0] if len(found) == 1 and is_identifier(found[0]) else None

    @property
    def is_entity(self) -> bool:
        """Whether the response is the object that `entity` identifies, and not just a part of it."""
        return self.entity is not None and self.tool.name.endswith(f"{{{self.entity}}}")


STATUS = "status"
_LONGEST = 160  # maximum length of an error, in characters
_DIGITS = 60  # maximum number of digits of a number


@dataclass(frozen=True)
class RestState:
    """The known identifiers with their objects' names, and the number of the path's calls already made (`done`)."""

    known: frozenset[tuple[str, str]] = frozenset()
    done: int = 0


class _RefusedError(Exception):
    """Raised, with the response's status, for a call that the service refuses."""

    def __init__(self, status: int, why: str) -> None:
        self.status = status
        super().__init__(why)


@dataclass(frozen=True)
class RestWorld:
    """One case's service. The case is resolved when the endpoints of `path` have been called successfully in order.

    Other calls may come between them. Equal calls always return equal responses. An object has the same identifier and
    the same name in all responses; responses need not agree in other ways. An identifier is accepted if a response in
    this case contained it in any field for identifiers, if it is among `given`, or if it has a digit and the query
    mentions it. For any other identifier, the object is not found (404), and neither is an endpoint that does not
    exist. A call is refused (400) if a required argument is missing, or if an argument has a wrong type or is not one
    of the listed values; arguments that an endpoint does not declare are ignored. A search returns objects with the
    name that was searched for.
    """

    endpoints: Mapping[str, Endpoint]
    path: tuple[str, ...]
    seed: int
    query: str = ""
    given: tuple[str, ...] = ()
    branches: ClassVar[bool] = True

    def start(self) -> RestState:
        """The state before any call."""
        return RestState()

    async def apply(self, state: State, call: ToolCall) -> tuple[RestState, Observation]:
        """The new state and the service's response, which is `{"status", "error"}` if the call is refused."""
        return self.respond(own_state(state, RestState), call)

    def respond(self, state: RestState, call: ToolCall) -> tuple[RestState, Observation]:
        """The same as `apply`."""
        try:
            endpoint = self.endpoints.get(call.tool)
            if endpoint is None:
                raise _RefusedError(404, f"there is no endpoint {call.tool}")
            names = dict(sorted(state.known))  # an empty name sorts first, so a later name replaces it
            arguments = self._accepted(endpoint, call.arguments, names)
        except _RefusedError as refused:
            return state, Observation({STATUS: refused.status, ERROR: str(refused)}, failed=True)
        content = response(endpoint, arguments, self.seed, names)
        done = state.done + (state.done < len(self.path) and self.path[state.done] == call.tool)
        fresh = {(identifier, name) for identifier, name in identified(content) if not names.get(identifier)}
        return RestState(state.known | fresh, done), Observation(content)

    def resolved(self, state: State) -> bool:
        """Whether the whole path has been called."""
        return own_state(state, RestState).done == len(self.path)

    def answer(self, state: State) -> str | None:
        """None, because responses are not answers."""
        return None

    def _accepted(self, endpoint: Endpoint, given: Mapping[str, Json], names: Mapping[str, str]) -> dict[str, Json]:
        """The call's arguments that the endpoint declares, converted to their types. Refuses impossible calls."""
        found: dict[str, Json] = {}
        for item in endpoint.inputs:
            value = given.get(item.name)
            if value is None or value == "":
                if item.required:
                    raise _RefusedError(400, f"{item.name} is missing")
                continue
            found[item.name] = typed = _typed(item, value)
            for part in _parts(typed) if item.identifies else ():
                if part not in names and part not in self.given and part not in self._told:
                    raise _RefusedError(404, f"{item.name} {part:.60} is not found")
        return found

    @cached_property
    def _told(self) -> frozenset[str]:
        """The words in the query that may be identifiers, namely all words with a digit."""
        return frozenset(word for word in re.findall(r"[\w:-]+", self.query) if any(map(str.isdigit, word)))


def _parts(value: Json) -> list[str]:
    """The identifiers in an argument, which contains one identifier, several separated by commas, or a list of them."""
    items = value if isinstance(value, list) else str(value).split(",")
    return [str(item).strip() for item in items]


def _typed(item: Input, value: Json) -> Json:
    """A value converted to its parameter's type; numbers and booleans may be given as texts, as in a URL."""
    text = str(value).strip()
    if item.values and (text.lower() if isinstance(value, bool) else text) not in item.values:
        raise _RefusedError(400, f"{item.name} must be one of {', '.join(item.values)}"[:_LONGEST])
    try:
        if item.type == "integer":
            return _whole(value, text)
        if item.type == "number" and not isinstance(value, bool | list | dict):
            return float(text)
        if item.type == "boolean" and text.lower() in ("true", "false"):
            return text.lower() == "true"
        if item.type == "array" and not isinstance(value, dict):
            return value if isinstance(value, list) else [*text.split(",")]
        if item.type == "object" and isinstance(value, dict):
            return value
        if item.type in ("string", "date") and not isinstance(value, list | dict):
            return text
    except ValueError:
        pass
    raise _RefusedError(400, f"{item.name} must be of type {item.type}, not {text:.60}")


def _whole(value: Json, text: str) -> int:
    if isinstance(value, bool | list | dict) or (isinstance(value, float) and not value.is_integer()):
        raise ValueError(text)
    return int(value) if isinstance(value, float) else int(text[:_DIGITS])


# The response of a simulated REST service: an endpoint's example, with the case's identifiers and the call's names.


ITEMS = 3
"""Maximum number of items of a list in a response; for a list inside another list, the maximum is one less."""
_LONG = 60  # characters; a longer text is a statement about the named object
_RESPONSE_LONGEST = 160  # maximum length of any text, in characters
_OWN = 8  # characters; an identifier of at least this length is also replaced inside other texts
_NAMES = ("name", "title", "original_name", "original_title", "display_name")
_FRONT = re.compile(r"(?s:.*[:/])")
_HEX, _RESPONSE_DIGITS, _LETTERS = "0123456789abcdef", "0123456789", "abcdefghijklmnopqrstuvwxyz"


def response(endpoint: Endpoint, arguments: Mapping[str, Json], seed: int, names: Mapping[str, str]) -> dict[str, Json]:
    """The response to a call. `names` has the name of each known identifier's object."""
    return _Response(endpoint, arguments, seed, names).content()


def identified(value: Json, name: str = "") -> Iterator[tuple[str, str]]:
    """Every identifier in a response, with the name of the object whose `id` or `uri` it is; otherwise with no name."""
    if isinstance(value, list):
        for item in value:
            yield from identified(item, name)
    elif isinstance(value, dict):
        own = _name_of(value)
        for key, item in value.items():
            if isinstance(item, dict | list):
                yield from identified(item, key)
            elif is_identifier(key) and isinstance(item, int | str) and not isinstance(item, bool):
                yield str(item), own if key in ("id", "uri") else ""
    elif is_identifier(name) and isinstance(value, int | str):
        yield str(value), ""


@dataclass(frozen=True)
class _Response:
    """The response to one call."""

    endpoint: Endpoint
    arguments: Mapping[str, Json]
    seed: int
    names: Mapping[str, str]

    def content(self) -> dict[str, Json]:
        """The example with its identifiers replaced.

        A field that has the same name as one of the call's arguments gets that argument's value.
        """
        found = self._object(self.endpoint.example, "", {}, self._searched)
        for name, value in self.arguments.items():  # for example, `page` or a season's number
            if name in found and not isinstance(found[name], dict | list):
                found[name] = value
        entity = self.endpoint.entity
        if entity and "id" in found:
            found["id"] = self.arguments[entity]
        if entity and self.endpoint.is_entity:
            found = _called(found, self.names.get(str(self.arguments[entity])) or _name_of(found))
        return found

    @property
    def _searched(self) -> str | None:
        words = self.arguments.get(self.endpoint.search) if self.endpoint.search else None
        return None if words is None else str(words)

    def _object(
        self, example: Mapping[str, Json], place: str, renamed: Mapping[str, str], searched: str | None, own: str = ""
    ) -> dict[str, Json]:
        """A copy of an example's object with its identifiers replaced; the new identifiers depend on `own`.

        `renamed` maps identifiers to their replacements inside texts.
        """
        known = example.get("id")
        if isinstance(known, str) and len(known) >= _OWN:
            renamed = {**renamed, known: str(self._identifier(known, own))}
        found: dict[str, Json] = {}
        for key, item in example.items():
            if isinstance(item, dict):
                found[key] = self._object(item, f"{place}.{key}", renamed, searched)
            elif isinstance(item, list):
                found[key] = self._list(item, key, f"{place}.{key}", renamed, searched)
            else:
                found[key] = self._plain(item, key, renamed, own)
        return found

    def _plain(self, value: Json, key: str, renamed: Mapping[str, str], own: str = "") -> Json:
        """A value that is neither an object nor a list."""
        if isinstance(value, str) and any(old in value for old in renamed):
            for old, new in renamed.items():
                value = value.replace(old, new)
        elif isinstance(value, int | str) and not isinstance(value, bool) and is_identifier(key):
            return self._identifier(value, own)
        return value[:_RESPONSE_LONGEST] if isinstance(value, str) else value

    def _list(
        self, values: list[Json], key: str, place: str, renamed: Mapping[str, str], searched: str | None
    ) -> list[Json]:
        """A few of the example's items, starting with a random one.

        In a search, the items get the name that was searched for.
        """
        first = derive_seed(self.seed, self._call, place) % len(values) if values else 0
        most = ITEMS - min(place.count("["), 1)
        found: list[Json] = []
        for number in range(min(most, len(values))):
            item, at = values[(first + number) % len(values)], f"{place}[{number}]"
            if isinstance(item, dict) and searched:
                made = self._object(item, at, renamed, None, own=f"{self._call}{at}")
                found.append(_called(made, f"{searched} {'I' * (number + 1)}" if number else searched))
            elif isinstance(item, dict):
                found.append(self._object(item, at, renamed, None))
            elif isinstance(item, list):
                found.append(self._list(item, key, at, renamed, None))
            else:
                found.append(self._plain(item, key, renamed))
        return found

    def _identifier(self, like: Json, own: str) -> Json:
        """The replacement for an example's identifier; for one value of `own`, it is the same everywhere in a case.

        A number is replaced by a number. A text is replaced by a similar text, in which letters replace letters and
        digits replace digits (in a hexadecimal text, any hexadecimal digit may replace any other), and the front part
        stays the same.
        """
        drawing = random.Random(derive_seed(self.seed, "identifier", like, own))
        if isinstance(like, int):
            return drawing.randrange(10_000, 900_000)
        front = _FRONT.match(str(like))
        kept = front[0] if front else ""
        rest = str(like)[len(kept) :][:_LONG]
        if all(character in _HEX for character in rest):
            return kept + "".join(drawing.choice(_HEX) for _ in rest)
        return kept + "".join(_like(character, drawing) for character in rest)

    @cached_property
    def _call(self) -> str:
        return to_json([self.endpoint.tool.name, dict(sorted(self.arguments.items()))])


def _like(character: str, drawing: random.Random) -> str:
    if character.isdigit():
        return drawing.choice(_RESPONSE_DIGITS)
    if not character.isalpha():
        return character
    return drawing.choice(_LETTERS if character.islower() else _LETTERS.upper())


def _name_of(found: Mapping[str, Json]) -> str:
    return next((text for key in _NAMES if isinstance(text := found.get(key), str)), "")


def _called(found: Mapping[str, Json], name: str) -> dict[str, Json]:
    """A copy of an example's object in which the fields for names have this name.

    The object's long texts, which describe the example, are replaced by a simulated text.
    """
    told = f"Simulated text about {name}."

    def value(key: str, item: Json) -> Json:
        if name and key in _NAMES and isinstance(item, str):
            return name
        return told if isinstance(item, str) and len(item) > _LONG and " " in item else item

    return {key: value(key, item) for key, item in found.items()}


# One example of an endpoint's response: the OpenAPI file's own example or, if it has none, one made from the schema.


MOST_ITEMS = 8
"""Maximum number of items that are kept of each list in an example."""
_DEEPEST = 8
_MOST_FIELDS = 60  # maximum number of fields of an object
_MOST_PARTS = 4_000  # parts of an example; stops references among schemas from multiplying endlessly
_LONGEST_TEXT = 1_000  # characters
_BY_FORMAT = {
    "date": "2021-06-15",
    "date-time": "2021-06-15T12:00:00Z",
    "uri": "https://example.com/item",
    "url": "https://example.com/item",
    "email": "someone@example.com",
}

Follow = Callable[[Mapping[str, Any]], tuple[str | None, Mapping[str, Any]]]
"""Resolves an object's `$ref` step by step, and returns the last reference (None if none) and the final object."""


class Examples:
    """Makes examples. `follow` resolves references."""

    def __init__(self, follow: Follow) -> None:
        self._follow = follow
        self._parts = 0

    def response(self, media: Mapping[str, Any]) -> dict[str, Json]:
        """The fields of a media type's example response; a response that is not an object is the field `result`."""
        self._parts = 0
        found = self._trimmed(self._of_media(media), 0)
        return found if isinstance(found, dict) else {RESULT: found}

    def _of_media(self, media: Mapping[str, Any]) -> Any:
        if media.get("example") is not None:
            return media["example"]
        listed = media.get("examples")
        for item in listed.values() if isinstance(listed, dict) else ():
            own = self._follow(item)[1] if isinstance(item, dict) else {}
            if own.get("value") is not None:
                return own["value"]
        schema = media.get("schema")
        return self._of_schema(schema, RESULT, 0, 0, frozenset()) if isinstance(schema, dict) else {}

    def _of_schema(self, given: Mapping[str, Any], name: str, number: int, depth: int, behind: frozenset[str]) -> Any:
        """An example for a schema; None if the schema is nested inside itself, too deep, or too large."""
        self._parts += 1
        ref, schema = self._follow(given)
        if depth > _DEEPEST or self._parts > _MOST_PARTS or (ref is not None and ref in behind):
            return None
        behind = behind | {ref} if ref is not None else behind
        told = self._told(schema)
        if told is not None:
            return told
        for key in ("oneOf", "anyOf"):
            if isinstance(choices := schema.get(key), list) and choices and isinstance(choices[0], dict):
                return self._of_schema(choices[0], name, number, depth + 1, behind)
        fields = self._fields(schema, depth, behind)
        kind = kind_of(schema)
        if fields or kind == "object":
            return fields
        if kind == "array":
            items = schema.get("items")
            if not isinstance(items, dict):
                return []
            made = [self._of_schema(items, name, place, depth + 1, behind) for place in (1, 2)]
            return [item for item in made if item is not None]
        return _plain(kind, schema, name, number)

    def _told(self, schema: Mapping[str, Any]) -> Any:
        """The schema's own example value; None if it has none."""
        several = schema.get("examples")
        listed = schema.get("enum")
        for found in (
            schema.get("example"),
            several[0] if isinstance(several, list) and several else None,
            schema.get("const"),
            schema.get("default"),
            listed[0] if isinstance(listed, list) and listed else None,
        ):
            if found is not None:
                return found
        return None

    def _fields(self, schema: Mapping[str, Any], depth: int, behind: frozenset[str]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        parts = schema.get("allOf")
        for part in parts if isinstance(parts, list) else ():
            made = self._of_schema(part, RESULT, 0, depth + 1, behind) if isinstance(part, dict) else None
            found |= made if isinstance(made, dict) else {}
        own = schema.get("properties")
        for name, item in list(own.items())[:_MOST_FIELDS] if isinstance(own, dict) else ():
            made = self._of_schema(item, name, 0, depth + 1, behind) if isinstance(item, dict) else None
            if made is not None:
                found[name] = made
        return found

    def _trimmed(self, value: Any, depth: int) -> Json:
        if isinstance(value, dict):
            items = list(value.items())[:_MOST_FIELDS] if depth <= _DEEPEST else []
            return {str(key): self._trimmed(item, depth + 1) for key, item in items}
        if isinstance(value, list):
            return [self._trimmed(item, depth + 1) for item in value[:MOST_ITEMS]] if depth <= _DEEPEST else []
        return value[:_LONGEST_TEXT] if isinstance(value, str) else value


def kind_of(schema: Mapping[str, Any]) -> str:
    """A schema's first type that is not null.

    If the schema gives no type, its keys show whether it is an object, an array or a string.
    """
    kind = schema.get("type")
    kinds = kind if isinstance(kind, list) else [kind]
    found = next((item for item in kinds if isinstance(item, str) and item != "null"), None)
    return found or ("object" if "properties" in schema else "array" if "items" in schema else "string")


def _plain(kind: str, schema: Mapping[str, Any], name: str, number: int) -> Json:
    if kind in ("integer", "number"):
        least = schema.get("minimum", schema.get("exclusiveMinimum"))
        low = least if isinstance(least, int | float) and not isinstance(least, bool) else 0
        return int(low) + 1 + number if kind == "integer" else float(low) + 1.5 + number
    if kind == "boolean":
        return True
    formed = _BY_FORMAT.get(str(schema.get("format")))
    return formed or f"{name.replace('_', ' ')} {number or 1}"
