"""Reading the arguments of a call. Whatever is wrong with them is a `CallError`, which the call then returns."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping
from typing import NamedTuple

from grid.core.types import Json, ToolCall
from grid.core.untrusted import shown
from grid.worlds.scenes.scene import Box, Scene, part_of
from grid.worlds.scenes.tools import TOOLS
from grid.worlds.scenes.web import Web

MAX_TEXT = 500
_NUMBER = re.compile(r"[-+]?\d{0,9}\.?\d{1,9}")
_TRUTHS = {"true": True, "false": False}
_COLUMNS, _ROWS = {"l", "m", "r"}, {"t", "m", "b"}


class CallError(ValueError):
    """What is wrong with a call, or that it found nothing."""


class Outcome(NamedTuple):
    """What a call returns, what was obtained by it, and the image that it made."""

    content: Mapping[str, Json]
    obtained: frozenset[Hashable]
    made: Scene | None = None


class Given:
    """The arguments of one call, the images that there are by name, and the web."""

    def __init__(self, call: ToolCall, images: Mapping[str, Scene], web: Web) -> None:
        self.web = web
        self._arguments = call.arguments
        self._images = images
        tool = TOOLS[call.tool]
        known = {parameter.name for parameter in tool.parameters}
        for name in call.arguments:
            if name not in known:
                raise CallError(f"{tool.name} has no argument {shown(name)[:80]!r}")
        for parameter in tool.parameters:
            if parameter.required and self._arguments.get(parameter.name) in (None, ""):
                raise CallError(f"{tool.name} needs the argument {parameter.name!r}")

    def has(self, name: str) -> bool:
        """Whether an argument is given."""
        return self._arguments.get(name) not in (None, "")

    def text(self, name: str, most: int = MAX_TEXT) -> str:
        """A text of so many characters at most; numbers are texts too."""
        value = self._arguments[name]
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise CallError(f"{name}: a text is expected")
        if len(text := str(value)) > most:
            raise CallError(f"{name}: more than {most} characters")
        return text

    def image(self) -> Scene:
        """The image that is named. Names are looked up among those that there are, and nowhere else."""
        name = self.text("image").strip()
        if name not in self._images:
            raise CallError(f"there is no image {shown(name)[:80]!r}")
        return self._images[name]

    def box(self, name: str = "bbox") -> Box:
        """Four numbers in whatever brackets: left, top, right, bottom."""
        value = self._arguments[name]
        written = ", ".join(map(str, value)) if isinstance(value, list) and len(value) == 4 else self.text(name)
        numbers = [round(float(number)) for number in _NUMBER.findall(written[:MAX_TEXT])]
        if len(numbers) != 4:
            raise CallError(f"{name}: four numbers are expected, (x1, y1, x2, y2)")
        left, top, right, bottom = numbers
        if left >= right or top >= bottom:
            raise CallError(f"{name}: (x1, y1) must be the left upper corner and (x2, y2) the right lower one")
        return left, top, right, bottom

    def flag(self, name: str, default: bool) -> bool:
        """A truth value, or its name."""
        value = self._arguments.get(name, default)
        if isinstance(value, str):
            value = _TRUTHS.get(value.strip().lower())
        if value is None or not isinstance(value, bool):
            raise CallError(f"{name}: true or false is expected")
        return value

    def whole(self, name: str, default: int, most: int) -> int:
        """A whole number from 1 on."""
        text = self.text(name, 20).strip() if self.has(name) else str(default)
        if not text.isdecimal() or not 1 <= int(text) <= most:
            raise CallError(f"{name}: a whole number from 1 to {most} is expected")
        return int(text)

    def part(self, name: str, image: Scene) -> str:
        """One of an image's nine parts, by its letters or by a point in it."""
        text = self.text(name).strip().lower()
        if len(text) == 2 and text[0] in _COLUMNS and text[1] in _ROWS:
            return text
        numbers = _NUMBER.findall(text)
        if len(numbers) != 2:
            raise CallError(f"{name}: a point (x, y), or two letters such as `rt`, is expected")
        return part_of(float(numbers[0]), float(numbers[1]), image.size)
