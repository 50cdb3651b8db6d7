"""A gold path, which names endpoints alone, as calls with arguments that the simulated service accepts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import cycle
from typing import NamedTuple

from grid.core.types import Json, ToolCall
from grid.text.words import stems
from grid.worlds.rest.endpoint import Input
from grid.worlds.rest.world import RestState, RestWorld

_QUOTED = re.compile(r'["“]([^"“”]+)["”]')
_NAME = re.compile(r"(?<=\s)[A-Z][\w'-]*(?:\s(?:(?:of|the|and|from)\s)*[A-Z0-9][\w'-]*)*")
_BY_TYPE: dict[str, Json] = {"integer": 1, "number": 1.0, "boolean": True, "date": "2024-01-01", "object": {}}
_PLANTED = 1_000
"""The identifiers that are given where none was returned begin here: smaller than all that are drawn."""


class _Found(NamedTuple):
    """An identifier in an earlier response: after how many further calls, of which endpoint, under which keys."""

    ago: int
    endpoint: str
    is_entity: bool
    keys: tuple[str, ...]
    value: Json


class Derived(NamedTuple):
    """A case's reference, and the world that accepts it."""

    calls: dict[str, ToolCall]
    world: RestWorld


def derive(world: RestWorld) -> Derived:
    """The world's path as calls, in its order, each with what it requires and nothing else.

    Identifiers are taken from earlier responses: from a field that is called like the parameter, else from the first
    thing in the latest list, else from what was asked for before. Where no response can have held one, the world is
    given one. Words to search for are a name in the query, another one for every search where it has several. What
    else is required has a value of its type.
    """
    calls: dict[str, ToolCall] = {}
    searches = sum(world.endpoints[name].search is not None for name in world.path)
    names = iter(cycle(names_in(world.query, searches)))
    found: list[_Found] = []
    state = world.start()
    for number, name in enumerate(world.path):
        following = world.path[number + 1] if number + 1 < len(world.path) else ""
        arguments: dict[str, Json] = {}
        for item in world.endpoints[name].inputs:
            if not item.required:
                continue
            if not item.identifies:
                searching = item.name == world.endpoints[name].search
                arguments[item.name] = next(names) if searching else _value(item, world.query, following)
                continue
            chosen = min(found, key=lambda one, item=item: _rank(one, item), default=None)  # type: ignore[misc]
            if chosen is None:
                world = replace(world, given=(*world.given, str(_PLANTED + len(world.given))))
            value = chosen.value if chosen else world.given[-1]
            arguments[item.name] = [value] if item.type == "array" else _of_type(item, value)
        calls[str(number)] = ToolCall(name, arguments)
        found, state = _behind(world, state, calls[str(number)], found)
    return Derived(calls, world)


def _behind(world: RestWorld, state: RestState, call: ToolCall, found: list[_Found]) -> tuple[list[_Found], RestState]:
    """What is known after a call, the newest first. Raises ValueError where the world refuses it."""
    after, observation = world.respond(state, call)
    if observation.failed:
        raise ValueError(f"{call.tool} is refused: {observation.text()}")
    endpoint = world.endpoints[call.tool]
    new = [_Found(0, call.tool, endpoint.is_entity, *one) for one in _identifiers(dict(observation.content), ())]
    return [*new, *(one._replace(ago=one.ago + 1) for one in found)], after


def _identifiers(value: Json, keys: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Json]]:
    """The fields that end in `id`, with the keys above them; a list's place is no key."""
    if isinstance(value, list):
        for item in value:
            yield from _identifiers(item, keys)
    elif isinstance(value, dict):
        for key, item in value.items():
            if isinstance(item, dict | list):
                yield from _identifiers(item, (*keys, key))
            elif key.lower().endswith("id") and isinstance(item, int | str) and not isinstance(item, bool):
                yield (*keys, key), item


def _rank(one: _Found, item: Input) -> tuple[int, int]:
    """How well an identifier fits a parameter; less is better."""
    kind = {stem for stem in stems(item.name) if stem not in ("id", "uri")}
    *above, own = one.keys
    if own == item.name or (own == "id" and kind & set(stems(" ".join(above)))):
        return 0, one.ago
    if own != "id":
        return 5, one.ago
    if len(above) == 1 and not one.is_entity and not one.ago:
        return 1, one.ago
    if len(above) <= 1 and kind & set(stems(one.endpoint)):
        return 2, one.ago
    return (3 if len(above) == 1 else 4), one.ago


def _of_type(item: Input, value: Json) -> Json:
    """An identifier that was given is a text; numbers stay numbers."""
    return int(value) if item.type == "integer" and isinstance(value, str) else value


def _value(item: Input, query: str, following: str) -> Json:
    if item.values:
        words = {*stems(query), *stems(following)}
        return next((value for value in item.values if words & set(stems(value))), item.values[0])
    if item.type in _BY_TYPE:
        return _BY_TYPE[item.type]
    told = names_in(query, 1)[0]
    return [told] if item.type == "array" else told


def names_in(query: str, most: int) -> list[str]:
    """The longest names that a query is about, `most` of them at most, as they stand; the query itself without any.

    Names are what stands in quotes, else runs of words with capitals.
    """
    found = [name.strip().removesuffix("'s") for name in _QUOTED.findall(query) or _NAME.findall(query)]
    longest = sorted(found, key=len, reverse=True)[: max(most, 1)]
    return [name for name in dict.fromkeys(found) if name in longest] or [query]
