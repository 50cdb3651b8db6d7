"""The tools that make an image: DrawBox, AddText, ImageStylization, TextToImage and Plot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from grid.core.types import to_json
from grid.worlds.scenes.code import MAX_CHARACTERS, CodeError, Function, shown, solution
from grid.worlds.scenes.given import CallError, Given, Outcome
from grid.worlds.scenes.scene import SIZE, Chart, Line, Mark, Scene, Thing, Written

_MOST_EDITS = 20  # marks, texts and styles of one image each
_MOST_POINTS = 100
_MOST_OBJECTS = 12  # of a generated image


def draw_box(given: Given) -> Outcome:
    """DrawBox."""
    image = given.image()
    mark = Mark(given.box(), given.text("annotation") if given.has("annotation") else None)
    return _made(replace(image, marks=_more(image.marks, mark)))


def add_text(given: Given) -> Outcome:
    """AddText."""
    image = given.image()
    color = given.text("color") if given.has("color") else None
    new = Written(given.text("text"), given.part("position", image), color)
    return _made(replace(image, written=_more(image.written, new)))


def stylize(given: Given) -> Outcome:
    """ImageStylization: the objects stay where they are."""
    image = given.image()
    return _made(replace(image, styles=_more(image.styles, given.text("instruction"))))


def generate(given: Given) -> Outcome:
    """TextToImage: an object for each of the keywords, side by side."""
    keywords = " ".join(given.text("keywords").split())
    names = [name.strip() for name in keywords.split(",") if name.strip()][:_MOST_OBJECTS]
    if not names:
        raise CallError("keywords: words are expected")
    width = SIZE[0] // len(names)
    things = tuple(Thing(name, (at * width, 100, (at + 1) * width, 650)) for at, name in enumerate(names))
    return _made(Scene("A generated image", things, prompt=keywords))


def plot(given: Given) -> Outcome:
    """Plot: what the code draws last."""
    sheet = _Sheet()
    try:
        if solution(given.text("command", MAX_CHARACTERS), sheet.functions(), {"plt": sheet}) is not sheet:
            raise CodeError("the function `solution` must return the figure")
    except CodeError as error:
        raise CallError(str(error)) from None
    if not sheet.points:
        raise CallError("nothing was drawn")
    chart = Chart(sheet.kind, sheet.title, tuple(sheet.points))
    texts = ([sheet.title] if sheet.title else []) + [f"{label} {shown(value)}" for label, value in sheet.points]
    lines = tuple(Line(text, (60, 20 + 36 * at, 500, 50 + 36 * at)) for at, text in enumerate(texts))
    return _made(Scene(f"A {sheet.kind} chart", lines=lines, chart=chart))


@dataclass
class _Sheet:
    """What code draws on: the figure, its axes and the module pyplot in one."""

    kind: str = ""
    title: str = ""
    points: list[tuple[str, float]] = field(default_factory=list)

    def functions(self) -> dict[str, Function]:
        """By the names that matplotlib has for them."""
        kinds = {"bar": "bar", "barh": "bar", "plot": "line", "scatter": "scatter"}
        ignored = (
            "axis", "grid", "legend", "set_xlabel", "set_ylabel", "tight_layout", "xlabel", "xticks", "ylabel", "ylim",
            "yticks",
        )  # fmt: skip
        return {
            **{name: lambda *given, _kind=kind, **options: self._draw(_kind, *given) for name, kind in kinds.items()},
            **{name: lambda *given, **options: None for name in ignored},
            "figure": lambda *given, **options: self,
            "gcf": lambda: self,
            "subplots": lambda *given, **options: (self, self),
            "pie": lambda values, labels=None, **options: self._draw(
                "pie", range(1, len(values) + 1) if labels is None else labels, values
            ),
            "title": self._name,
            "set_title": self._name,
        }

    def _name(self, title: Any, **options: Any) -> None:
        self.title = str(title)[:200]

    def _draw(self, kind: str, labels: Sequence[Any], values: Sequence[Any], *more: Any) -> None:
        if not all(isinstance(one, list | tuple | range) for one in (labels, values)) or len(labels) != len(values):
            raise CodeError("as many values as labels are expected")
        if not 0 < len(values) <= _MOST_POINTS:
            raise CodeError(f"1 to {_MOST_POINTS} values are expected")
        self.kind = kind
        self.points = [(_label(label), float(value)) for label, value in zip(labels, values, strict=True)]


def _label(value: Any) -> str:
    if not isinstance(value, str | int | float):
        raise CodeError("labels are texts or numbers")
    return value[:100] if isinstance(value, str) else to_json(value)


def _more(edits: tuple[Any, ...], new: Any) -> tuple[Any, ...]:
    if len(edits) >= _MOST_EDITS:
        raise CallError(f"the image was changed {_MOST_EDITS} times in this way: no more")
    return (*edits, new)


def _made(scene: Scene) -> Outcome:
    return Outcome({"image": scene.handle}, frozenset({scene}), scene)
