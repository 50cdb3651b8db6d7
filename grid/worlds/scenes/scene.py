"""What is to be seen on an image, as facts, and when two images show the same."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeAlias, TypeVar

from grid.core.types import hashed_once
from grid.text.words import stems
from grid.worlds.equivalence import equivalent

Box: TypeAlias = tuple[int, int, int, int]
"""Left, top, right, bottom in pixels."""
SIZE = (1000, 750)
PARTS = tuple(column + row for row in "tmb" for column in "lmr")
"""The nine parts of an image: left, middle or right, then top, middle or bottom."""
_SAME_BOX = 0.8  # intersection over union
_MORE_WORDS = 6
T = TypeVar("T")


class Thing(NamedTuple):
    """An object: what it is called, where it is, and its attributes, such as ("color", "red")."""

    name: str
    box: Box
    attributes: tuple[tuple[str, str], ...] = ()


class Line(NamedTuple):
    """A line of text and where it stands."""

    text: str
    box: Box


class Mark(NamedTuple):
    """A box that was drawn."""

    box: Box
    annotation: str | None


class Written(NamedTuple):
    """A text that was added, in one of the nine parts of the image; no color: as the tool likes."""

    text: str
    part: str
    color: str | None


class Chart(NamedTuple):
    """A diagram: its kind (bar, line, scatter, pie), and label and value of each point."""

    kind: str
    title: str
    points: tuple[tuple[str, float], ...]


@hashed_once
@dataclass(frozen=True)
class Scene:
    """An image. `prompt` is what it was generated from, `styles` what it was changed to, one after another.

    `prompt` and `chart` are those of images that a tool made; on a photo of a chart there are lines.
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
        """The name of an image that a tool made: the same for the same content."""
        return f"image_{hashlib.blake2b(repr(self).encode(errors='replace'), digest_size=5).hexdigest()}.png"


def overlap(one: Box, other: Box) -> float:
    """Intersection over union; 0 where both are empty."""
    both = area((max(one[0], other[0]), max(one[1], other[1]), min(one[2], other[2]), min(one[3], other[3])))
    union = area(one) + area(other) - both
    return both / union if union else 0.0


def area(box: Box) -> int:
    """In pixels; 0 for a box that is turned inside out."""
    return max(box[2] - box[0], 0) * max(box[3] - box[1], 0)


def centre_in(box: Box, region: Box) -> bool:
    """Whether the middle of a box lies in a region."""
    x, y = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2
    return region[0] <= x <= region[2] and region[1] <= y <= region[3]


def part_of(x: float, y: float, size: tuple[int, int]) -> str:
    """In which of the nine parts a point lies."""
    column, row = (min(max(int(3 * at / whole), 0), 2) for at, whole in zip((x, y), size, strict=True))
    return "lmr"[column] + "tmb"[row]


def same_picture(wanted: Scene, made: Scene) -> bool:
    """Whether an image is what was wanted, in other words perhaps.

    What it was made from, its marks and texts, in whatever order they came, and its chart are the same; a box may be
    off a little, and what was left open (a color, an annotation) may be anything. Free words (what an image was
    generated from or changed to) hold all that were wanted and six more at most.
    """
    return (
        _same_origin(wanted, made)
        and _same_words(wanted.styles, made.styles)
        and _paired(wanted.marks, made.marks, _same_mark)
        and _paired(wanted.written, made.written, _same_text)
    )


def _same_origin(wanted: Scene, made: Scene) -> bool:
    """Whether both were generated from the same words, drawn from the same figures, or are one photo changed."""
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
    """Whether each that was wanted has one of its own, and none is left."""
    left = list(made)
    for one in wanted:
        found = next((other for other in left if same(one, other)), None)
        if found is None:
            return False
        left.remove(found)
    return not left
