"""A REST service that is simulated: what it returns are examples of its OpenAPI file, drawn by case and call.

No figure of such a world tells what the real service would have said. What it does keep is which calls are possible:
required arguments, types, listed values, and identifiers, which must have been returned before they are accepted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from grid.core.types import Json, Observation, ToolCall
from grid.core.world import State, own_state
from grid.worlds.rest.endpoint import Endpoint, Input
from grid.worlds.rest.response import identified, response
from grid.worlds.schema import ERROR

STATUS = "status"
_LONGEST = 160  # characters of an error
_DIGITS = 60  # of a number


@dataclass(frozen=True)
class RestState:
    """The identifiers that are known by now, each with the name of what it identifies, and how far the path is."""

    known: frozenset[tuple[str, str]] = frozenset()
    done: int = 0


class _RefusedError(Exception):
    """A call that the service refuses, with its status."""

    def __init__(self, status: int, why: str) -> None:
        self.status = status
        super().__init__(why)


@dataclass(frozen=True)
class RestWorld:
    """One case's service. Resolved: the endpoints of `path` were called with success, in their order, others between.

    The same call returns the same, whenever it is made. What has an identifier has the same one in all responses, and
    one name; in all else responses need not agree. An identifier is accepted where a response of this case held it, in
    whatever field, where it is one of `given`, or where the query names it; any other is not found (404). What is
    missing or of a wrong type is refused (400), what an endpoint does not declare is ignored. A search returns things
    that are called what was searched for.
    """

    endpoints: Mapping[str, Endpoint]
    path: tuple[str, ...]
    seed: int
    query: str = ""
    given: tuple[str, ...] = ()
    branches: ClassVar[bool] = True

    def start(self) -> RestState:
        """Nothing returned."""
        return RestState()

    async def apply(self, state: State, call: ToolCall) -> tuple[RestState, Observation]:
        """What the service says; `{"status", "error"}` where it refuses."""
        return self.respond(own_state(state, RestState), call)

    def respond(self, state: RestState, call: ToolCall) -> tuple[RestState, Observation]:
        """As `apply`."""
        try:
            endpoint = self.endpoints.get(call.tool)
            if endpoint is None:
                raise _RefusedError(404, f"there is no endpoint {call.tool}")
            names = dict(sorted(state.known))  # of an identifier a name comes behind none
            arguments = self._accepted(endpoint, call.arguments, names)
        except _RefusedError as refused:
            return state, Observation({STATUS: refused.status, ERROR: str(refused)}, failed=True)
        content = response(endpoint, arguments, self.seed, names)
        done = state.done + (state.done < len(self.path) and self.path[state.done] == call.tool)
        fresh = {(identifier, name) for identifier, name in identified(content) if not names.get(identifier)}
        return RestState(state.known | fresh, done), Observation(content)

    def resolved(self, state: State) -> bool:
        """Whether the whole path was called."""
        return own_state(state, RestState).done == len(self.path)

    def answer(self, state: State) -> str | None:
        """None: responses are no answers."""
        return None

    def _accepted(self, endpoint: Endpoint, given: Mapping[str, Json], names: Mapping[str, str]) -> dict[str, Json]:
        """The declared arguments, each of its type."""
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
        """What may be an identifier in the query: words with a digit."""
        return frozenset(word for word in re.findall(r"[\w:-]+", self.query) if any(map(str.isdigit, word)))


def _parts(value: Json) -> list[str]:
    """The identifiers in an argument: one, or several with commas between them or in a list."""
    items = value if isinstance(value, list) else str(value).split(",")
    return [str(item).strip() for item in items]


def _typed(item: Input, value: Json) -> Json:
    """A value as its parameter's type has it; numbers and truth values may come as texts, as they do in an address."""
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
