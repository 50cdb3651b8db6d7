"""An endpoint of a REST service: its parameters, and an example of what it returns."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

from grid.core.types import Json, ToolSpec

_IDENTIFIER = re.compile(r"(?:.*[_\W])?(?:id|uri)s?", re.I)
_CAMEL = re.compile(r".*[a-z](?:Id|Uri|URI|ID)s?")
_SEARCH = ("query", "q", "search", "keyword", "keywords", "term", "text")


def is_identifier(name: str) -> bool:
    """Whether a field or parameter of this name holds identifiers: `id`, `movie_id`, `ids`, `trackId`, `uri`."""
    return bool(_IDENTIFIER.fullmatch(name) or _CAMEL.fullmatch(name))


class Input(NamedTuple):
    """A parameter of an endpoint, and where it goes: into the path, the query or the body."""

    name: str
    where: Literal["path", "query", "body"]
    type: str
    required: bool
    values: tuple[str, ...] = ()

    @property
    def identifies(self) -> bool:
        """Whether it takes identifiers that must be known; of a query only those that are nothing but that."""
        return is_identifier(self.name) and (self.where != "query" or self.name.lower() in ("id", "ids", "uri", "uris"))


@dataclass(frozen=True)
class Endpoint:
    """A method and a path, `GET /movie/{movie_id}`, as a tool, with an example of what it returns when all is well."""

    tool: ToolSpec
    inputs: tuple[Input, ...]
    example: Mapping[str, Json]

    @cached_property
    def search(self) -> str | None:
        """The parameter that takes the words searched for; None where nothing is searched."""
        return next((item.name for item in self.inputs if item.name in _SEARCH and item.type == "string"), None)

    @cached_property
    def entity(self) -> str | None:
        """The only parameter in the path, where it is an identifier: the response's own `id` is its value."""
        found = [item.name for item in self.inputs if item.where == "path"]
        return found[0] if len(found) == 1 and is_identifier(found[0]) else None

    @property
    def is_entity(self) -> bool:
        """Whether the response is what that identifier names, and not a part of it."""
        return self.entity is not None and self.tool.name.endswith(f"{{{self.entity}}}")
