"""The tools that look at an image: OCR, MathOCR, ImageDescription, TextToBbox and what is counted or described."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from grid.text.words import stems
from grid.worlds.scenes.given import CallError, Given, Outcome
from grid.worlds.scenes.scene import Box, Scene, Thing, area, centre_in, overlap

_SURE = 97  # the score, in percent, of the best detection; each further one has two less
_INSIDE = 0.5  # how far a region must be one with an object that it is asked about
_MANY = {"goose": "geese", "person": "people", "sheep": "sheep"}
_ONE = {stem: stems(name)[0] for name, many in _MANY.items() for stem in stems(many)}
_COLOR = frozenset(stems("color colour colored coloured"))


def read_text(given: Given) -> Outcome:
    """OCR: the lines with their boxes, from the top."""
    image = given.image()
    lines = [(line.box, line.text) for line in image.lines]
    lines += [(mark.box, mark.annotation) for mark in image.marks if mark.annotation]
    lines += [(_place(text.part, image), text.text) for text in image.written]
    if not lines:
        raise CallError("no text found")
    told = "\n".join(f"{written(box)} {text}" for box, text in sorted(lines, key=lambda one: (one[0][1], one[0][0])))
    return Outcome({"text": told}, _obtained("OCR", image))


def read_formulas(given: Given) -> Outcome:
    """MathOCR: the formulae in LaTeX, a line each."""
    image = given.image()
    if not image.formulas:
        raise CallError("no formula found")
    return Outcome({"latex": "\n".join(f"${formula}$" for formula in image.formulas)}, _obtained("MathOCR", image))


def describe(given: Given) -> Outcome:
    """ImageDescription: the caption, what kinds of things there are, and what was done to the image."""
    image = given.image()
    kinds = ", ".join(plural(name) if count > 1 else one(name) for name, count in _kinds(image).items())
    parts = [image.caption, f"with {kinds}" if kinds else ""]
    parts += [f"in the style {style!r}" for style in image.styles]
    parts += ["with a red frame drawn on it"] if image.marks else []
    parts += ["with words on it"] if image.lines or image.written else []
    return Outcome({"description": ", ".join(filter(None, parts)) + "."}, _obtained("ImageDescription", image))


def find(given: Given) -> Outcome:
    """TextToBbox: the objects that the words are true of, the largest first."""
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
    """CountGivenObject: how many objects the words are true of, on the image or in a part of it."""
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
    """RegionAttributeDescription: an attribute of the object that a region is about."""
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
    """A box as the tools write it."""
    return "({}, {}, {}, {})".format(*box)


def _meant(things: Sequence[Thing], text: str) -> list[Thing]:
    """Those that have all of the words, as their names or among their attributes."""
    wanted = {_ONE.get(stem, stem) for stem in stems(text)}
    return [
        one for one in things if wanted and wanted <= set(stems(" ".join([one.name, *dict(one.attributes).values()])))
    ]


def _kinds(image: Scene) -> Counter[str]:
    return Counter(thing.name for thing in image.things)


def plural(name: str) -> str:
    """Several of them."""
    if name.endswith(("s", "x", "ch", "sh")):
        return f"{name}es"
    if name.endswith("y") and name[-2] not in "aeiou":
        return f"{name[:-1]}ies"
    return _MANY.get(name, f"{name}s")


def one(name: str) -> str:
    """One of them."""
    return f"an {name}" if name[0] in "aeiou" else f"a {name}"


def _obtained(tool: str, image: Scene) -> frozenset[tuple[str, str]]:
    return frozenset({(tool, image.handle)})


def _place(part: str, image: Scene) -> Box:
    """Where in the image a part is."""
    width, height = image.size
    left, top = "lmr".index(part[0]) * width // 3, "tmb".index(part[1]) * height // 3
    return left + 20, top + 20, left + width // 3 - 20, top + 80
