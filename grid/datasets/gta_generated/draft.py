"""A case under construction (images, calls run by the world, query, answer), its vocabulary, and some templates."""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any, TypeVar

from grid.core.types import Json, Observation, ToolCall
from grid.datasets.files import fingerprint, read_stock
from grid.datasets.gta import Lists
from grid.text.references import reference, resolve
from grid.worlds.scenes.scene import Box, Line, Scene, Thing, one, plural
from grid.worlds.scenes.tools import Entry, Web
from grid.worlds.scenes.world import SceneState, SceneWorld

# The words from which cases are made, and the entries of the web that cases search.


WORDS = Path(__file__).parent / "stock" / "words.yaml"


@cache
def words() -> Mapping[str, Any]:
    """The lists of words in `stock/words.yaml`, and the file's goods with their ranges of prices in cents."""
    found: Mapping[str, Any] = read_stock(WORDS)
    return found


def version() -> str:
    """The fingerprint of the words."""
    return fingerprint(WORDS)


@dataclass(frozen=True)
class Facts:
    """The facts in one seed's world, about places, books, people, towns, dogs, nations, watches and food."""

    landmarks: Mapping[str, tuple[int, int]]
    """A landmark's year of opening, and its height in metres."""
    books: Mapping[str, str]
    """The book's author."""
    people: Mapping[str, str]
    """The person's town of birth."""
    towns: Mapping[str, int]
    """The number of inhabitants."""
    dogs: Mapping[str, tuple[int, int]]
    """A breed's height in cm, and its life span in years."""
    flowers: Mapping[str, tuple[str, str]]
    """A nation's flower: its color and kind."""
    crowns: Mapping[str, float]
    """The value in euros of one crown of a nation."""
    watches: Mapping[str, tuple[int, int]]
    """The price of a brand's watch in euros, and its warranty in years."""
    bars: Mapping[str, int]
    """A bar's energy in kcal per 100 g."""

    @cached_property
    def web(self) -> Web:
        """The web, with an entry for each thing about which there are facts."""
        return Web(tuple(self._entries()))

    def _entries(self) -> Iterator[Entry]:
        for name, (year, height) in self.landmarks.items():
            yield Entry(name, name, f"The {name} was opened in {year}. It is {height} m high.")
        for name, author in self.books.items():
            yield Entry(name, name, f"{name} is a novel written by {author}.")
        for name, town in self.people.items():
            yield Entry(name, name, f"The novelist {name} was born in {town}.")
        for name, inhabitants in self.towns.items():
            yield Entry(name, name, f"{name} is a town with {inhabitants} inhabitants.")
        for name, (height, years) in self.dogs.items():
            yield Entry(
                name,
                name,
                f"{_begun(one(name))} grows to a height of {height} cm and lives for {years} years on average.",
            )
        for name, (color, kind) in self.flowers.items():
            yield Entry(name, f"Flower of {name}", f"The national flower of {name} is the {color} {kind}.")
        for name, rate in self.crowns.items():
            yield Entry(
                name, f"Crown of {name}", f"At the current exchange rate, 1 {name} crown is worth {rate} euros."
            )
        for name, (price, years) in self.watches.items():
            yield Entry(
                name,
                f"Watch by {name}",
                f"{_begun(one(name))} watch costs {price} euros. It comes with a warranty of {counted(years, 'year')}.",
            )
        for name, energy in self.bars.items():
            yield Entry(name, f"{name} bar", f"{_begun(one(name))} bar has {energy} kcal per 100 g.")


def counted(number: int, name: str) -> str:
    """A number with a noun, as in '1 year' or '2 years'."""
    return f"{number} {name if number == 1 else plural(name)}"


def _begun(text: str) -> str:
    """A text with a capital letter, to start a sentence."""
    return text[0].upper() + text[1:]


def facts(seed: int) -> Facts:
    """All facts, drawn with the seed."""
    rng, known = random.Random(f"gta-generated-facts-{seed}"), words()
    places = [f"{name} {kind}" for name in known["names"] for kind in known["landmarks"]]
    people = [
        f"{first} {last}" for first, last in zip(_mixed(known["first"], rng), _mixed(known["last"], rng), strict=True)
    ]
    energies = rng.sample(range(340, 520), len(known["bars"]))
    inhabitants = rng.sample(range(4_000, 90_000), len(known["towns"]))
    return Facts(
        landmarks={name: (rng.randint(1780, 1990), rng.randint(18, 140)) for name in rng.sample(places, 20)},
        books=dict(zip(known["titles"], _mixed(people, rng), strict=True)),
        people=dict(zip(people, _mixed(known["towns"], rng), strict=True)),
        towns=dict(zip(known["towns"], inhabitants, strict=True)),
        dogs=dict(zip(known["dogs"], _pairs(rng, (30, 80), (9, 16), len(known["dogs"])), strict=True)),
        flowers={name: (rng.choice(known["colors"]), rng.choice(known["flowers"])) for name in known["nations"]},
        crowns={name: rng.randint(8, 96) / 100 for name in known["nations"]},
        watches=dict(zip(known["brands"], _pairs(rng, (90, 480), (1, 9), len(known["brands"])), strict=True)),
        bars=dict(zip(known["bars"], energies, strict=True)),
    )


def _mixed(items: Sequence[str], rng: random.Random) -> list[str]:
    return rng.sample(items, len(items))


def _pairs(rng: random.Random, one: tuple[int, int], other: tuple[int, int], count: int) -> list[tuple[int, int]]:
    """Pairs of a number from each range. No two pairs have the same first number, so no two things are equal."""
    return list(zip(rng.sample(range(*one), count), [rng.randint(*other) for _ in range(count)], strict=True))


T = TypeVar("T")
_LEFT, _TOP, _HIGH, _LETTER = 60, 50, 46, 19  # sizes and positions of lines of text, in pixels


@dataclass(frozen=True)
class Call:
    """A call of the reference (as written, and with concrete arguments), its outcome, and the state after it.

    If the call is in the case's resolution, `obtained` must be obtained to resolve the case.
    """

    place: str
    written: ToolCall
    concrete: ToolCall
    outcome: Observation
    state: SceneState
    obtained: frozenset[Hashable]

    def ref(self, name: str) -> str:
        """The reference to a field of the call's result."""
        return reference(self.place, name)

    def __getitem__(self, name: str) -> Json:
        return self.outcome.content[name]


@dataclass(frozen=True)
class Record:
    """A finished case. `wanted` has the texts that the answer must contain; None if the query asks for an image."""

    id: str
    template: str
    query: str
    world: SceneWorld
    calls: tuple[Call, ...]
    resolution: tuple[str, ...]
    answer: str | None
    wanted: Lists | None

    @property
    def concrete(self) -> dict[str, ToolCall]:
        """For each substep, the call with concrete arguments."""
        return {call.place: call.concrete for call in self.calls}

    @property
    def outcomes(self) -> dict[str, Mapping[str, Json]]:
        """For each substep, the results of the call."""
        return {call.place: call.outcome.content for call in self.calls}


@dataclass
class Draft:
    """A case under construction.

    `number` is the case's position among its template's cases, from 0; `first` is the number of the case's first image.
    """

    rng: random.Random
    facts: Facts
    number: int
    first: int
    images: list[tuple[str, Scene]] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    query: str = ""
    answer: str | None = None
    wanted: Lists | None = None

    def pick(self, name: str, count: int) -> list[str]:
        """Draw `count` different words from a list of the stock."""
        return self.rng.sample(list(words()[name]), count)

    def one(self, name: str) -> str:
        """Draw a word from a list of the stock."""
        return str(self.rng.choice(words()[name]))

    def of(self, known: Mapping[str, T], count: int) -> list[tuple[str, T]]:
        """Draw `count` different facts."""
        return self.rng.sample(sorted(known.items()), count)

    def prices(self, name: str, count: int) -> dict[str, str]:
        """Draw `count` different goods with their prices."""
        ranges: Mapping[str, Sequence[int]] = words()[name]
        return {item: self.price(*ranges[item]) for item in self.rng.sample(list(ranges), count)}

    def price(self, low: int, high: int) -> str:
        """A price in euros from `low` to below `high` cents, in steps of 5 cents, written with two decimals."""
        return f"{self.rng.randrange(low, high, 5) / 100:.2f}"

    def image(self, scene: Scene) -> str:
        """Add a new image; return its name."""
        name = f"image_{self.first + len(self.images)}.jpg"
        self.images.append((name, scene))
        return name

    def call(self, tool: str, **arguments: Json) -> Call:
        """Add the next call of the reference. Raises ValueError if the call fails."""
        world = SceneWorld(tuple(self.images), self.facts.web, frozenset())
        written, outputs = ToolCall(tool, arguments), {call.place: call.outcome.content for call in self.calls}
        concrete = resolve(written, outputs)
        before = self.calls[-1].state if self.calls else world.start()
        obtained = world.outcome(before, concrete).obtained
        if tool == "GoogleSearch":  # only the first search result is wanted
            obtained = frozenset({(tool, self.facts.web.found(str(arguments["query"]), 1)[0].title)})
        state, outcome = world.run(before, concrete)
        call = Call(str(len(self.calls)), written, concrete, outcome, state, obtained)
        self.calls.append(call)
        return call

    def ask(self, *phrasings: str, **values: Any) -> None:
        """Set the user's query. The cases of a template use its phrasings in turn."""
        self.query = phrasings[self.number % len(phrasings)].format(**values)

    def tell(self, answer: str, *groups: Sequence[str]) -> None:
        """Set the reference answer. An answer is right if it contains one text from each group."""
        self.answer, self.wanted = answer, Lists(tuple(map(tuple, groups)), ())

    def finished(self, case_id: str, template: str, resolution: Sequence[Call]) -> Record:
        """The finished case. The outcomes of the calls in `resolution` resolve the case."""
        wanted = frozenset[Hashable]().union(*(call.obtained for call in resolution))
        world = SceneWorld(tuple(self.images), self.facts.web, wanted)
        places = tuple(call.place for call in resolution)
        return Record(case_id, template, self.query, world, tuple(self.calls), places, self.answer, self.wanted)


Template = Callable[[Draft], Sequence[Call]]
"""A function that fills a draft, and returns the calls that resolve the case."""


def lines(*texts: str) -> tuple[Line, ...]:
    """Texts as lines, one below another."""
    return tuple(
        Line(text, (_LEFT, _TOP + at * _HIGH, _LEFT + _LETTER * len(text), _TOP + at * _HIGH + 34))
        for at, text in enumerate(texts)
    )


def listed(goods: Mapping[str, str]) -> tuple[str, ...]:
    """Goods with their prices, one line each."""
    return tuple(f"{name} {price}" for name, price in goods.items())


def places(count: int, rng: random.Random, area: Box = (0, 0, 1000, 750)) -> list[Box]:
    """The given number of boxes in a row from left to right. The boxes do not touch."""
    left, top, right, bottom = area
    width = (right - left) // count
    boxes: list[Box] = []
    for at in range(count):
        x, y = left + at * width + rng.randint(4, width // 5 + 4), top + rng.randint(10, (bottom - top) // 3)
        boxes.append(
            (
                x,
                y,
                left + (at + 1) * width - rng.randint(4, width // 5 + 4),
                bottom - rng.randint(10, (bottom - top) // 4),
            )
        )
    return boxes


def crowd(counts: Mapping[str, int], rng: random.Random, area: Box = (0, 0, 1000, 750)) -> tuple[Thing, ...]:
    """The given number of things of each kind, in random order."""
    names = [name for name, count in counts.items() for _ in range(count)]
    rng.shuffle(names)
    return tuple(Thing(name, box) for name, box in zip(names, places(len(names), rng, area), strict=True))


def euros(number: Json) -> str:
    """A sum in euros with two decimals."""
    return f"{float(str(number)):.2f} euros"


def forms(number: Json) -> tuple[str, ...]:
    """The forms of a number that an answer may use: exact, with two decimals, or with one decimal if one suffices."""
    exact = str(number)
    rounded = (f"{float(exact):.2f}", f"{float(exact):.1f}")
    return tuple(dict.fromkeys((exact, rounded[0], *(one for one in rounded[1:] if float(one) == float(exact)))))


# Templates about visible things (their number, place or color), and about formulae on sheets of paper.


_ROOM = "A photo of a living room"
_CODE = """```python
from sympy import symbols, Eq, solve
def solution():
    {names} = symbols('{names}')
    return str(solve({equations}, {unknowns}, dict=True))
```"""


def solver_code(names: str, *equations: str) -> str:
    """Code that solves equations. Each equation is given as two sides, separated by a comma."""
    listed = ", ".join(f"Eq({one})" for one in equations)
    if len(equations) == 1:
        return _CODE.format(names=names, equations=listed, unknowns=names)
    return _CODE.format(names=names, equations=f"({listed})", unknowns=f"({names})")


def cost_of_two_kinds(draft: Draft) -> Sequence[Call]:
    """The price of all fruit of two kinds."""
    a, b, c = draft.pick("fruit", 3)
    counts = {a: draft.rng.randint(2, 6), b: draft.rng.randint(2, 6), c: draft.rng.randint(1, 4)}
    image = draft.image(Scene("A photo of a market stall", crowd(counts, draft.rng)))
    p, q = draft.price(30, 95), draft.price(30, 95)
    draft.ask(
        "If {a} cost {p} euros each and {b} cost {q} euros each, what would I pay for all the {a} and {b} in {image}?",
        "{image} was taken at the market. I want all of the {a} ({p} euros each) and all of the {b} ({q} euros each) "
        "in it. How much money do I need?",
        "At {p} euros for {one_a} and {q} euros for {one_b}, how much are all the {a} and {b} in the photo {image} "
        "worth in total?",
        a=plural(a), b=plural(b), one_a=one(a), one_b=one(b), p=p, q=q, image=image,
    )  # fmt: skip
    first, second = (draft.call("CountGivenObject", image=image, text=name) for name in (a, b))
    total = draft.call("Calculator", expression=f"{first.ref('count')} * {p} + {second.ref('count')} * {q}")
    draft.tell(f"They cost {euros(total['result'])}.", forms(total["result"]))
    return [total]


def equation_on_a_sheet(draft: Draft) -> Sequence[Call]:
    """Both roots of a quadratic equation."""
    low, high = sorted(draft.rng.sample(range(1, 13), 2))
    b, c = -(low + high), low * high
    image = draft.image(Scene("A photo of a worksheet", formulas=(f"x^2{_signed(b, 'x')}{_signed(c)} = 0",)))
    draft.ask(
        "Which two numbers make the equation on the worksheet in {image} true?",
        "My homework is in {image}. For which values of x does the equation hold?",
        "What are the roots of the equation printed in {image}?",
        image=image,
    )
    draft.call("MathOCR", image=image)
    found = draft.call("Solver", command=solver_code("x", f"x**2{_signed(b, '*x')}{_signed(c)}, 0"))
    draft.tell(f"x is {low} or {high}.", [str(low)], [str(high)])
    return [found]


def formula_at_two_points(draft: Draft) -> Sequence[Call]:
    """The value of an expression for two values of its variable."""
    a, b, c = draft.rng.randint(2, 9), draft.rng.randint(2, 12), draft.rng.randint(1, 30)
    x, y = draft.rng.sample(range(3, 15), 2)
    image = draft.image(Scene("A photo of a blackboard", formulas=(f"{a}t^2 + {b}t - {c}",)))
    draft.ask(
        "The blackboard in {image} shows an expression in t. What is its value for t = {x}, and for t = {y}?",
        "What value does the expression on the board ({image}) take when t is {x}? And when t is {y}?",
        "Please evaluate the expression on the blackboard in {image}, once with t = {x} and once with t = {y}.",
        image=image, x=x, y=y,
    )  # fmt: skip
    draft.call("MathOCR", image=image)
    found = [draft.call("Calculator", expression=f"{a} * {t}**2 + {b} * {t} - {c}") for t in (x, y)]
    draft.tell(f"It is {found[0]['result']} and {found[1]['result']}.", *(forms(one["result"]) for one in found))
    return found


def two_equations(draft: Draft) -> Sequence[Call]:
    """The two unknowns of two equations, which are written on two notes."""
    x, y = draft.rng.sample(range(2, 16), 2)
    a, b, c, d = (draft.rng.randint(2, 7) for _ in range(4))
    if a * d == b * c:
        d += 1
    notes = [
        draft.image(Scene("A photo of a handwritten note", formulas=(f"{p}x + {q}y = {p * x + q * y}",)))
        for p, q in ((a, b), (c, d))
    ]
    draft.ask(
        "The notes in {one} and {other} each have one equation, in the same x and y. What are x and y?",
        "Find x and y: one equation is in {one}, and the other is in {other}.",
        "Two equations in x and y were written down, the first in {one} and the second in {other}. Which values of x "
        "and y satisfy both?",
        one=notes[0], other=notes[1],
    )  # fmt: skip
    for note in notes:
        draft.call("MathOCR", image=note)
    sides = (f"{p}*x + {q}*y, {p * x + q * y}" for p, q in ((a, b), (c, d)))
    found = draft.call("Solver", command=solver_code("x, y", *sides))
    draft.tell(f"x is {x} and y is {y}.", [str(x)], [str(y)])
    return [found]


def more_in_which_photo(draft: Draft) -> Sequence[Call]:
    """The number of animals of one kind in each of two photos."""
    kind, *others = draft.pick("animals", 3)
    numbers = draft.rng.sample(range(2, 8), 2)
    photos = [
        draft.image(Scene("A photo of a meadow", crowd({kind: n, draft.rng.choice(others): 3}, draft.rng)))
        for n in numbers
    ]
    draft.ask(
        "Are there more {kind} in {one} or in {other}? Tell me the number in each.",
        "How many {kind} are in {one}, and how many in {other}?",
        "I took two photos of the meadow, {one} and {other}. Which has more {kind}, and how many are in each?",
        kind=plural(kind), one=photos[0], other=photos[1],
    )  # fmt: skip
    found = [draft.call("CountGivenObject", image=photo, text=kind) for photo in photos]
    draft.tell(f"There are {numbers[0]} and {numbers[1]}.", *(forms(str(n)) for n in numbers))
    return found


def food_for_a_herd(draft: Draft) -> Sequence[Call]:
    """The food that animals of three kinds eat in a day."""
    kinds = draft.pick("animals", 3)
    counts = {kind: draft.rng.randint(2, 5) for kind in kinds}
    eats = draft.rng.sample(range(2, 12), 3)
    image = draft.image(Scene("A photo of a farm", crowd(counts, draft.rng)))
    a, b, c = map(one, kinds)
    draft.ask(
        "Each day, {a} eats {p} kg, {b} eats {q} kg and {c} eats {r} kg. How many kg of food do all the animals in "
        "{image} need per day?",
        "How much food, in kg, do the animals in the photo {image} need every day, if {a} eats {p} kg, {b} eats {q} kg "
        "and {c} eats {r} kg?",
        "On our farm, shown in {image}, {a} gets {p} kg of food a day, {b} gets {q} kg and {c} gets {r} kg. How much "
        "is that per day for all of them?",
        a=a, b=b, c=c, p=eats[0], q=eats[1], r=eats[2], image=image,
    )  # fmt: skip
    found = [draft.call("CountGivenObject", image=image, text=kind) for kind in kinds]
    parts = " + ".join(f"{call.ref('count')} * {kg}" for call, kg in zip(found, eats, strict=True))
    total = draft.call("Calculator", expression=parts)
    draft.tell(f"They need {total['result']} kg a day.", forms(total["result"]))
    return [total]


def attribute_of_a_thing(draft: Draft) -> Sequence[Call]:
    """The color, material or pattern of a piece of furniture."""
    image, wanted, _ = _room(draft)
    name, value = draft.rng.choice(wanted.attributes)
    draft.ask(
        "What is the {attribute} of the {thing} in {image}?",
        "Look at the {thing} in {image}: what {attribute} is it?",
        "I want to buy the {thing} in the photo {image}. What is its {attribute}?",
        attribute=name, thing=wanted.name, image=image,
    )  # fmt: skip
    box = draft.call("TextToBbox", image=image, text=wanted.name)
    told = draft.call("RegionAttributeDescription", image=image, bbox=box.ref("bbox"), attribute=name)
    draft.tell(f"Its {name} is {value}.", [value])
    return [told]


def same_color(draft: Draft) -> Sequence[Call]:
    """The colors of two things."""
    image, wanted, other = _room(draft)
    draft.ask(
        "Are the {a} and the {b} in {image} the same color? What color is each of them?",
        "In {image}, what color is the {a}, and what color is the {b}?",
        "I need cushions to match the {a} and the {b} in {image}. Tell me the color of each.",
        a=wanted.name, b=other.name, image=image,
    )  # fmt: skip
    found = []
    for thing in (wanted, other):
        box = draft.call("TextToBbox", image=image, text=thing.name)
        found.append(draft.call("RegionAttributeDescription", image=image, bbox=box.ref("bbox"), attribute="color"))
    colors = [dict(thing.attributes)["color"] for thing in (wanted, other)]
    draft.tell(f"The {wanted.name} is {colors[0]}, the {other.name} is {colors[1]}.", *([color] for color in colors))
    return found


def two_attributes(draft: Draft) -> Sequence[Call]:
    """Two attributes of one thing."""
    image, wanted, _ = _room(draft)
    (a, first), (b, second) = draft.rng.sample(wanted.attributes, 2)
    draft.ask(
        "For an advertisement for the {thing} in {image}, I need its {a} and its {b}.",
        "What are the {a} and the {b} of the {thing} in {image}?",
        "Please note down the {a} and the {b} of the {thing} shown in {image}.",
        thing=wanted.name, a=a, b=b, image=image,
    )  # fmt: skip
    box = draft.call("TextToBbox", image=image, text=wanted.name)
    found = [
        draft.call("RegionAttributeDescription", image=image, bbox=box.ref("bbox"), attribute=name) for name in (a, b)
    ]
    draft.tell(f"The {a} is {first}, the {b} is {second}.", [first], [second])
    return found


def color_in_the_right_photo(draft: Draft) -> Sequence[Call]:
    """The color of a thing in one of two photos, namely the photo that shows a given place."""
    (place, other), thing = draft.pick("places", 2), draft.one("clothes")
    colors = draft.pick("colors", 2)
    photos = {
        where: Scene(f"A photo of {one(where)}", _dressed(thing, color, draft.rng))
        for where, color in zip((place, other), colors, strict=True)
    }
    named = {where: draft.image(photos[where]) for where in draft.rng.sample([place, other], 2)}
    a, b = named.values()
    draft.ask(
        "One of the photos {a} and {b} shows {place}. What color is the {thing} in it?",
        "What color is the {thing} in my photo of {place}? The photo is either {a} or {b}.",
        "Of {a} and {b}, I mean the one that shows {place}: what color is the {thing} there?",
        a=a, b=b, place=one(place), thing=thing,
    )  # fmt: skip
    for photo in (a, b):
        draft.call("ImageDescription", image=photo)
    box = draft.call("TextToBbox", image=named[place], text=thing)
    told = draft.call("RegionAttributeDescription", image=named[place], bbox=box.ref("bbox"), attribute="color")
    draft.tell(f"The {thing} is {colors[0]}.", [colors[0]])
    return [told]


def furthest_left(draft: Draft) -> Sequence[Call]:
    """The positions of three things."""
    names = draft.pick("furniture", 5)
    things = tuple(Thing(name, box) for name, box in zip(names, places(5, draft.rng), strict=True))
    image = draft.image(Scene(_ROOM, things))
    asked = draft.rng.sample(things, 3)
    draft.ask(
        "Which of these is furthest to the left in {image}: the {a}, the {b} or the {c}?",
        "Of the {a}, the {b} and the {c} in {image}, which one is to the left of the other two?",
        "Where in {image} are the {a}, the {b} and the {c}? I want to know which one is to the left of the others.",
        a=asked[0].name, b=asked[1].name, c=asked[2].name, image=image,
    )  # fmt: skip
    found = [draft.call("TextToBbox", image=image, text=thing.name) for thing in asked]
    first = min(asked, key=lambda thing: thing.box[0])
    draft.tell(f"The {first.name} is furthest to the left.", [first.name])
    return found


def _signed(factor: int, unknown: str = "") -> str:
    """A term with its sign; empty for 0."""
    if not factor:
        return ""
    digits = unknown.lstrip("*") if abs(factor) == 1 and unknown else f"{abs(factor)}{unknown}"
    return f" {'+' if factor > 0 else '-'} {digits}"


def _room(draft: Draft) -> tuple[str, Thing, Thing]:
    """An image of a room with four things, and two of these things."""
    names = draft.pick("furniture", 4)
    things = tuple(
        Thing(name, box, tuple((kind, draft.one(f"{kind}s")) for kind in ("color", "material", "pattern")))
        for name, box in zip(names, places(4, draft.rng), strict=True)
    )
    wanted, other = draft.rng.sample(things, 2)
    return draft.image(Scene(_ROOM, things)), wanted, other


def _dressed(thing: str, color: str, rng: random.Random) -> tuple[Thing, ...]:
    person, worn = places(2, rng)
    return Thing("person", person), Thing(thing, worn, (("color", color),))


COUNTING: tuple[Template, ...] = (
    cost_of_two_kinds,
    equation_on_a_sheet,
    formula_at_two_points,
    two_equations,
    more_in_which_photo,
    food_for_a_herd,
    attribute_of_a_thing,
    same_color,
    two_attributes,
    color_in_the_right_photo,
    furthest_left,
)
