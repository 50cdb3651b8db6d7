"""Templates about what stands on shelves, and about charts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from grid.datasets.gta_generated.draft import Call, Draft, Template, crowd, forms, lines, listed, words
from grid.worlds.scenes.scene import Box, Scene, Thing, plural

_SHELVES: tuple[Box, ...] = ((0, 0, 1000, 240), (0, 250, 1000, 490), (0, 500, 1000, 750))
_CHART = """```python
import matplotlib.pyplot as plt
def solution():
    labels = {labels}
    values = {values}
    figure = plt.figure()
    plt.{kind}(labels, values)
    return figure
```"""


def chart_code(points: Mapping[str, str]) -> str:
    """Code that draws a bar for each point."""
    return _CHART.format(labels=list(points), values=f"[{', '.join(points.values())}]", kind="bar")


def on_a_shelf_and_in_all(draft: Draft) -> Sequence[Call]:
    """How many stand on one shelf, and how many in all."""
    image, kind, counts = _cupboard(draft)
    shelf = draft.rng.choice(list(counts))
    draft.ask(
        "How many {kind} stand on the {shelf} in {image}, and how many are there on all shelves?",
        "In {image}, tell me the number of {kind} on the {shelf} and the number of all {kind}.",
        "I am taking stock of {image}. How many {kind} are on the {shelf}, and how many in the whole photo?",
        kind=plural(kind), shelf=shelf, image=image,
    )  # fmt: skip
    box = draft.call("TextToBbox", image=image, text=shelf)
    part = draft.call("CountGivenObject", image=image, text=kind, bbox=box.ref("bbox"))
    whole = draft.call("CountGivenObject", image=image, text=kind)
    draft.tell(f"{part['count']} of {whole['count']}.", forms(part["count"]), forms(whole["count"]))
    return [part, whole]


def more_on_one_shelf(draft: Draft) -> Sequence[Call]:
    """By how many one shelf has more than another."""
    image, kind, counts = _cupboard(draft)
    shelves = sorted(draft.rng.sample(list(counts), 2), key=lambda shelf: -counts[shelf])
    draft.ask(
        "In {image}, how many more {kind} are there on the {a} than on the {b}?",
        "By how many does the number of {kind} on the {a} exceed that on the {b}? The photo is {image}.",
        "The {a} in {image} holds more {kind} than the {b}. How many more?",
        kind=plural(kind), a=shelves[0], b=shelves[1], image=image,
    )  # fmt: skip
    found = _counted(draft, image, kind, shelves)
    more = draft.call("Calculator", expression=f"{found[0].ref('count')} - {found[1].ref('count')}")
    draft.tell(f"{more['result']} more.", forms(more["result"]))
    return [more]


def filled_shelves(draft: Draft) -> Sequence[Call]:
    """How many are missing until all shelves have as many as the fullest."""
    image, kind, counts = _cupboard(draft)
    draft.ask(
        "All three shelves in {image} (upper, middle and lower shelf) should hold as many {kind} as the fullest "
        "does now. How many {kind} must I buy?",
        "How many {kind} are missing in {image} until upper, middle and lower shelf all have as many as the one "
        "that has the most?",
        "I want to fill up the upper, the middle and the lower shelf in {image} with {kind}, to the number that the "
        "fullest has already. How many more do I need?",
        kind=plural(kind), image=image,
    )  # fmt: skip
    found = _counted(draft, image, kind, list(counts))
    most = max(found, key=lambda call: int(str(call["count"])))
    parts = " - ".join(call.ref("count") for call in found)
    missing = draft.call("Calculator", expression=f"3 * {most.ref('count')} - {parts}")
    draft.tell(f"{missing['result']} are missing.", forms(missing["result"]))
    return [missing]


def chart_of_two_notes(draft: Draft) -> Sequence[Call]:
    """A bar chart of what stands on two notes."""
    days = list(draft.pick("days", 5))
    visitors = {day: str(draft.rng.randint(11, 95)) for day in sorted(days, key=words()["days"].index)}
    halves = dict(list(visitors.items())[:3]), dict(list(visitors.items())[3:])
    one, two = (draft.image(Scene("A photo of a note", lines=lines("Visitors", *listed(half)))) for half in halves)
    draft.ask(
        "The visitors of the first days of the week are noted in {one}, the others in {two}. Show all five days in one "
        "bar chart.",
        "Please make a single bar chart of the visitors per day from both notes, {one} and {two}.",
        "I need a bar chart with the five days that {one} and {two} list and the number of visitors on each.",
        one=one, two=two,
    )  # fmt: skip
    draft.call("OCR", image=one)
    draft.call("OCR", image=two)
    return [draft.call("Plot", command=chart_code(visitors))]


def chart_of_a_farm(draft: Draft) -> Sequence[Call]:
    """A chart of what is on the right one of two photos, in another look."""
    kinds, style = draft.pick("animals", 4), draft.one("styles")
    counts = {kind: draft.rng.randint(1, 5) for kind in kinds}
    farm = Scene("A photo of a farmyard", crowd(counts, draft.rng))
    other = Scene("A photo of a petting zoo", crowd({kind: draft.rng.randint(1, 5) for kind in kinds}, draft.rng))
    scenes = draft.rng.sample([farm, other], 2)
    photos = [draft.image(scene) for scene in scenes]
    draft.ask(
        "Either {one} or {two} shows a farmyard. Make a bar chart of how many {a}, {b}, {c} and {d} are on that "
        "photo, and then turn the chart into a {style}.",
        "I need a {style} of a bar chart. It should have the numbers of {a}, {b}, {c} and {d} in the farmyard, "
        "which is in one of the photos {one} and {two}.",
        "Find out which of {one} and {two} is of a farmyard, show in a bar chart how many {a}, {b}, {c} and {d} it "
        "has, and make the chart look like a {style}.",
        one=photos[0], two=photos[1], style=style, **dict(zip("abcd", map(plural, kinds), strict=True)),
    )  # fmt: skip
    for photo in photos:
        draft.call("ImageDescription", image=photo)
    right = photos[scenes.index(farm)]
    found = {kind: draft.call("CountGivenObject", image=right, text=kind) for kind in kinds}
    chart = draft.call("Plot", command=chart_code({plural(kind): call.ref("count") for kind, call in found.items()}))
    return [draft.call("ImageStylization", image=chart.ref("image"), instruction=style)]


def _counted(draft: Draft, image: str, kind: str, shelves: Sequence[str]) -> list[Call]:
    """Each shelf found, and what is on it counted."""
    found = []
    for shelf in shelves:
        box = draft.call("TextToBbox", image=image, text=shelf)
        found.append(draft.call("CountGivenObject", image=image, text=kind, bbox=box.ref("bbox")))
    return found


def _cupboard(draft: Draft) -> tuple[str, str, dict[str, int]]:
    """Three shelves with things of two kinds; how many of the first are on each, all numbers different."""
    kind, other = draft.pick("goods", 2)
    shelves = dict(zip(words()["shelves"], draft.rng.sample(range(1, 6), 3), strict=True))
    things: list[Thing] = []
    for (shelf, count), (left, top, right, bottom) in zip(shelves.items(), _SHELVES, strict=True):
        things.append(Thing(shelf, (left, top, right, bottom)))
        things += crowd({kind: count, other: 2}, draft.rng, (left, top, right, bottom))
    return draft.image(Scene("A photo of a cupboard", tuple(things))), kind, shelves


TEMPLATES: tuple[Template, ...] = (
    on_a_shelf_and_in_all,
    more_on_one_shelf,
    filled_shelves,
    chart_of_two_notes,
    chart_of_a_farm,
)
