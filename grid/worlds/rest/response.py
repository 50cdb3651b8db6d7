"""What a simulated REST service returns: an endpoint's example, with identifiers of the case and names of the call."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from grid.core.seeds import derive_seed
from grid.core.types import Json, to_json
from grid.worlds.rest.endpoint import Endpoint, is_identifier

ITEMS = 3
"""Of a list in a response; of one inside another, one less."""
_LONG = 60  # characters of a text that tells something of what an object's name says
_LONGEST = 160  # of any text
_OWN = 8  # characters of an identifier that is one inside other texts too
_NAMES = ("name", "title", "original_name", "original_title", "display_name")
_FRONT = re.compile(r"(?s:.*[:/])")
_HEX, _DIGITS, _LETTERS = "0123456789abcdef", "0123456789", "abcdefghijklmnopqrstuvwxyz"


def response(endpoint: Endpoint, arguments: Mapping[str, Json], seed: int, names: Mapping[str, str]) -> dict[str, Json]:
    """What a call returns. `names`: of the identifiers that are known, those that have one."""
    return _Response(endpoint, arguments, seed, names).content()


def identified(value: Json, name: str = "") -> Iterator[tuple[str, str]]:
    """Every identifier in a response, with the name of what has it as its `id`."""
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
    """What one call returns."""

    endpoint: Endpoint
    arguments: Mapping[str, Json]
    seed: int
    names: Mapping[str, str]

    def content(self) -> dict[str, Json]:
        """The example with other identifiers, and with what the call tells put in its place."""
        found = self._object(self.endpoint.example, "", {}, self._searched)
        for name, value in self.arguments.items():  # as `page`, or the number of a season
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
        """`own`: what tells its identifiers from those of the example; those inside other texts are `renamed`."""
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
        """What is neither an object nor a list."""
        if isinstance(value, str) and any(old in value for old in renamed):
            for old, new in renamed.items():
                value = value.replace(old, new)
        elif isinstance(value, int | str) and not isinstance(value, bool) and is_identifier(key):
            return self._identifier(value, own)
        return value[:_LONGEST] if isinstance(value, str) else value

    def _list(
        self, values: list[Json], key: str, place: str, renamed: Mapping[str, str], searched: str | None
    ) -> list[Json]:
        """A few of the example's, from one on that is drawn; of a search they are called what was searched for."""
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
        """What stands for an example's identifier, wherever this case returns it; for another one with an `own` mark.

        A number, or a text that looks alike: letters for letters, digits for digits, what stands in front kept.
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
        return drawing.choice(_DIGITS)
    if not character.isalpha():
        return character
    return drawing.choice(_LETTERS if character.islower() else _LETTERS.upper())


def _name_of(found: Mapping[str, Json]) -> str:
    return next((text for key in _NAMES if isinstance(text := found.get(key), str)), "")


def _called(found: Mapping[str, Json], name: str) -> dict[str, Json]:
    """An object that is called so; a long text, which told of something else, says that there is none."""
    told = f"Simulated text about {name}."

    def value(key: str, item: Json) -> Json:
        if name and key in _NAMES and isinstance(item, str):
            return name
        return told if isinstance(item, str) and len(item) > _LONG and " " in item else item

    return {key: value(key, item) for key, item in found.items()}
