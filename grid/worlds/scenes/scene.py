"""The content of an image as facts, the tools that look at an image, and the comparison of two images."""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeAlias, TypeVar

from grid.core.types import Json, ToolCall, hashed_once
from grid.core.untrusted import shown
from grid.text.words import stems
from grid.worlds.equivalence import equivalent, paired_off
from grid.worlds.scenes.tools import TOOLS, Web

# The tools that look at an image: OCR, MathOCR, ImageDescription, TextToBbox, and tools that count or describe objects.
# Each raises `CallError` if an argument is wrong. All but ImageDescription and CountGivenObject also raise it if they
# find nothing.


_SURE = 97  # the score, in percent, of the best detection; each further one scores two less, but at least 51
_INSIDE = 0.5  # minimum overlap for a region to refer to an object
_MANY = {"goose": "geese", "person": "people", "sheep": "sheep"}
_ONE = {stem: stems(name)[0] for name, many in _MANY.items() for stem in stems(many)}
_COLOR = frozenset(stems("color colour colored coloured"))


def read_text(given: Given) -> Outcome:
    """OCR: the lines of text in an image with their boxes, from top to bottom."""
    image = given.image()
    lines = [(line.box, line.text) for line in image.lines]
    lines += [(mark.box, mark.annotation) for mark in image.marks if mark.annotation]
    lines += [(_place(text.part, image), text.text) for text in image.written]
    if not lines:
        raise CallError("no text found")
    told = "\n".join(f"{written(box)} {text}" for box, text in sorted(lines, key=lambda one: (one[0][1], one[0][0])))
    return Outcome({"text": told}, _obtained("OCR", image))


def read_formulas(given: Given) -> Outcome:
    """MathOCR: the formulae in LaTeX, one per line."""
    image = given.image()
    if not image.formulas:
        raise CallError("no formula found")
    return Outcome({"latex": "\n".join(f"${formula}$" for formula in image.formulas)}, _obtained("MathOCR", image))


def describe(given: Given) -> Outcome:
    """ImageDescription: the caption, the kinds of objects in the image, and the changes that were made to the image."""
    image = given.image()
    kinds = ", ".join(plural(name) if count > 1 else one(name) for name, count in _kinds(image).items())
    parts = [image.caption, f"with {kinds}" if kinds else ""]
    parts += [f"in the style {style!r}" for style in image.styles]
    parts += ["with a red frame drawn on it"] if image.marks else []
    parts += ["with words on it"] if image.lines or image.written else []
    return Outcome({"description": ", ".join(filter(None, parts)) + "."}, _obtained("ImageDescription", image))


def find(given: Given) -> Outcome:
    """TextToBbox: the objects that a text describes, the largest first; with `top1` (the default), only the largest."""
    image = given.image()
    found = sorted(_meant(image.things, given.text("text")), key=lambda thing: (-area(thing.box), thing.box))
    if given.flag("top1", True):
        found = found[:1]
    if not found:
        raise CallError("no object found")
    told = [f"{written(thing.box)}, score {max(_SURE - 2 * at, 51)}" for at, thing in enumerate(found)]
    content = {"bbox": written(found[0].box), "detections": "\n".join(told)}
    return Outcome(content, frozenset(("TextToBbox", image.handle, thing.box) for thing in found))


def count(given: Given) -> Outcome:
    """CountGivenObject: the number of objects that a text describes, in the image or in a part of it."""
    image = given.image()
    region = given.box() if given.has("bbox") else None
    found = [
        thing.box
        for thing in _meant(image.things, given.text("text"))
        if region is None or centre_in(thing.box, region)
    ]
    key = ("CountGivenObject", image.handle, frozenset(found)) if found else None
    return Outcome({"count": len(found)}, frozenset({key} if key else ()))


def describe_region(given: Given) -> Outcome:
    """RegionAttributeDescription: an attribute of the object in a region."""
    image, region = given.image(), given.box()
    best = max(image.things, key=lambda thing: overlap(thing.box, region), default=None)
    if best is None or overlap(best.box, region) < _INSIDE:
        raise CallError("nothing in particular is to be seen there")
    asked = set(stems(given.text("attribute")))
    asked |= _COLOR if asked & _COLOR else set()
    for name, value in best.attributes:
        if set(stems(name)) & asked:
            key = ("RegionAttributeDescription", image.handle, best.box, name)
            return Outcome({"description": f"The {name} of the {best.name} is {value}."}, frozenset({key}))
    raise CallError("this cannot be told from the image")


def written(box: Box) -> str:
    """A box as text, in the form that the tools use."""
    return "({}, {}, {}, {})".format(*box)


def _meant(things: Sequence[Thing], text: str) -> list[Thing]:
    """The objects whose name and attributes contain all words of a text."""
    wanted = {_ONE.get(stem, stem) for stem in stems(text)}
    return [
        one for one in things if wanted and wanted <= set(stems(" ".join([one.name, *dict(one.attributes).values()])))
    ]


def _kinds(image: Scene) -> Counter[str]:
    return Counter(thing.name for thing in image.things)


def plural(name: str) -> str:
    """The plural of a name."""
    if name.endswith(("s", "x", "ch", "sh")):
        return f"{name}es"
    if name.endswith("y") and name[-2:-1] not in "aeiou":
        return f"{name[:-1]}ies"
    return _MANY.get(name, f"{name}s")


def one(name: str) -> str:
    """A name with its indefinite article."""
    return f"an {name}" if name[0] in "aeiouAEIOU" else f"a {name}"


def _obtained(tool: str, image: Scene) -> frozenset[tuple[str, str]]:
    return frozenset({(tool, image.handle)})


def _place(part: str, image: Scene) -> Box:
    """The box of a text that was added to a part of the image."""
    width, height = image.size
    left, top = "lmr".index(part[0]) * width // 3, "tmb".index(part[1]) * height // 3
    return left + 20, top + 20, left + width // 3 - 20, top + 80


# The content of an image as facts, and a test of whether two images show the same content.


Box: TypeAlias = tuple[int, int, int, int]
"""A rectangle: its left, top, right and bottom in pixels."""
SIZE = (1000, 750)
PARTS = tuple(column + row for row in "tmb" for column in "lmr")
"""The nine parts of an image. The first letter is for left, middle or right, the second for top, middle or bottom."""
_SAME_BOX = 0.8  # intersection over union
_MORE_WORDS = 6
T = TypeVar("T")


class Thing(NamedTuple):
    """An object: its name, its box, and its attributes, such as ("color", "red")."""

    name: str
    box: Box
    attributes: tuple[tuple[str, str], ...] = ()


class Line(NamedTuple):
    """A line of text and its box."""

    text: str
    box: Box


class Mark(NamedTuple):
    """A box that a tool drew on the image."""

    box: Box
    annotation: str | None


class Written(NamedTuple):
    """A text that a tool added to one of the nine parts of the image. If `color` is None, the tool chose the color."""

    text: str
    part: str
    color: str | None


class Chart(NamedTuple):
    """A diagram: its kind (bar, line, scatter, pie), its title, and the label and value of each point."""

    kind: str
    title: str
    points: tuple[tuple[str, float], ...]


@hashed_once
@dataclass(frozen=True)
class Scene:
    """An image, the text `prompt` from which it was generated, and the styles applied to it, in order (`styles`).

    Only images made by a tool have a `prompt` or a `chart`; a photo of a chart has its text in `lines` instead.
    """

    caption: str
    things: tuple[Thing, ...] = ()
    lines: tuple[Line, ...] = ()
    formulas: tuple[str, ...] = ()
    chart: Chart | None = None
    marks: tuple[Mark, ...] = ()
    written: tuple[Written, ...] = ()
    prompt: str | None = None
    styles: tuple[str, ...] = ()
    size: tuple[int, int] = SIZE

    @cached_property
    def handle(self) -> str:
        """The name of an image made by a tool. Images with equal content have equal names."""
        return f"image_{hashlib.blake2b(repr(self).encode(errors='replace'), digest_size=5).hexdigest()}.png"


def overlap(one: Box, other: Box) -> float:
    """The boxes' intersection over their union; 0 if both boxes are empty."""
    both = area((max(one[0], other[0]), max(one[1], other[1]), min(one[2], other[2]), min(one[3], other[3])))
    union = area(one) + area(other) - both
    return both / union if union else 0.0


def area(box: Box) -> int:
    """A box's area in pixels; 0 for a box whose corners are in the wrong order."""
    return max(box[2] - box[0], 0) * max(box[3] - box[1], 0)


def centre_in(box: Box, region: Box) -> bool:
    """Whether the centre of a box lies in a region."""
    x, y = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2
    return region[0] <= x <= region[2] and region[1] <= y <= region[3]


def part_of(x: float, y: float, size: tuple[int, int]) -> str:
    """The part of the image (one of `PARTS`) in which a point lies."""
    column, row = (min(max(int(3 * at / whole), 0), 2) for at, whole in zip((x, y), size, strict=True))
    return "lmr"[column] + "tmb"[row]


def same_picture(wanted: Scene, made: Scene) -> bool:
    """Whether an image has the wanted content, possibly in different words.

    Both images must have the same origin and the same chart, and the same marks and texts in any order. A box may
    differ a little. A color or annotation that `wanted` does not specify may have any value. A prompt or style must
    contain all words of the wanted prompt or style, and at most six other words.
    """
    return (
        _same_origin(wanted, made)
        and _same_words(wanted.styles, made.styles)
        and _paired(wanted.marks, made.marks, _same_mark)
        and _paired(wanted.written, made.written, _same_text)
    )


def _same_origin(wanted: Scene, made: Scene) -> bool:
    """Whether both images were generated from the same words, drawn from the same numbers, or made from one photo."""
    if wanted.prompt is not None or made.prompt is not None:
        return _holds(wanted.prompt, made.prompt)
    if wanted.chart is not None or made.chart is not None:
        return _same_chart(wanted.chart, made.chart)
    return (wanted.caption, wanted.things, wanted.lines) == (made.caption, made.things, made.lines)


def _same_words(wanted: Sequence[str | None], made: Sequence[str | None]) -> bool:
    return len(wanted) == len(made) and all(map(_holds, wanted, made))


def _holds(wanted: str | None, made: str | None) -> bool:
    if wanted is None or made is None:
        return wanted is made
    least, found = set(stems(wanted)), set(stems(made))
    return least <= found and len(found) <= len(least) + _MORE_WORDS


def _same_chart(wanted: Chart | None, made: Chart | None) -> bool:
    if wanted is None or made is None:
        return wanted is made
    return wanted.kind == made.kind and _paired(wanted.points, made.points, _same_point)


def _same_point(wanted: tuple[str, float], made: tuple[str, float]) -> bool:
    same = equivalent(wanted[0], made[0]) or (stems(wanted[0]) and stems(wanted[0]) == stems(made[0]))
    return bool(same) and math.isclose(wanted[1], made[1], rel_tol=1e-6)


def _same_mark(wanted: Mark, made: Mark) -> bool:
    same = wanted.annotation is None or equivalent(wanted.annotation, made.annotation)
    return same and overlap(wanted.box, made.box) >= _SAME_BOX


def _same_text(wanted: Written, made: Written) -> bool:
    color = wanted.color is None or equivalent(wanted.color, made.color)
    return color and wanted.part == made.part and equivalent(wanted.text, made.text)


def _paired(wanted: Sequence[T], made: Sequence[T], same: Callable[[T, T], bool]) -> bool:
    """Whether each wanted item can have its own match, and no other item remains."""
    if len(wanted) != len(made):
        return False
    return paired_off([[same(one, other) for other in made] for one in wanted]) == len(wanted)


# Reads the arguments of a call. Any fault in the arguments raises `CallError`, which the call then returns.


MAX_TEXT = 500
_NUMBER = re.compile(r"[-+]?\d{0,9}\.?\d{1,9}")
_TRUTHS = {"true": True, "false": False}
_COLUMNS, _ROWS = {"l", "m", "r"}, {"t", "m", "b"}


class CallError(ValueError):
    """A call is not valid or found nothing; the message gives the reason."""


class Outcome(NamedTuple):
    """A call's result, the outcomes that the call obtained, and the image that the call made, if any."""

    content: Mapping[str, Json]
    obtained: frozenset[Hashable]
    made: Scene | None = None


class Given:
    """The arguments of one call, the existing images by name, and the web.

    Raises:
        CallError: an argument is not one of the tool's, or a required argument is missing.
    """

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
        """Whether an argument is given; null and an empty text do not count."""
        return self._arguments.get(name) not in (None, "")

    def text(self, name: str, most: int = MAX_TEXT) -> str:
        """An argument that is a text of at most `most` characters. A number counts as a text."""
        value = self._arguments[name]
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise CallError(f"{name}: a text is expected")
        if len(text := str(value)) > most:
            raise CallError(f"{name}: more than {most} characters")
        return text

    def image(self) -> Scene:
        """The image that the argument `image` names. Only the names of existing images are looked up."""
        name = self.text("image").strip()
        if name not in self._images:
            raise CallError(f"there is no image {shown(name)[:80]!r}")
        return self._images[name]

    def box(self, name: str = "bbox") -> Box:
        """An argument that is a box: left, top, right and bottom, in brackets of any kind."""
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
        """An argument that is a truth value or the text `true` or `false`; `default` if there is no such argument."""
        value = self._arguments.get(name, default)
        if isinstance(value, str):
            value = _TRUTHS.get(value.strip().lower())
        if value is None or not isinstance(value, bool):
            raise CallError(f"{name}: true or false is expected")
        return value

    def whole(self, name: str, default: int, most: int) -> int:
        """An argument that is a whole number from 1 to `most`; `default` if it is not given."""
        text = self.text(name, 20).strip() if self.has(name) else str(default)
        if not text.isdecimal() or not 1 <= int(text) <= most:
            raise CallError(f"{name}: a whole number from 1 to {most} is expected")
        return int(text)

    def part(self, name: str, image: Scene) -> str:
        """An argument that names one of an image's nine parts, by its two-letter code or by a point inside it."""
        text = self.text(name).strip().lower()
        if len(text) == 2 and text[0] in _COLUMNS and text[1] in _ROWS:
            return text
        numbers = _NUMBER.findall(text)
        if len(numbers) != 2:
            raise CallError(f"{name}: a point (x, y), or two letters such as `rt`, is expected")
        return part_of(float(numbers[0]), float(numbers[1]), image.size)
