"""A case in the making: its images, its reference calls, which the world itself runs, its query and its answer."""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any, TypeVar

from grid.core.types import Json, Observation, ToolCall
from grid.datasets.files import fingerprint, read_stock
from grid.datasets.gta.dataset import Lists
from grid.text.references import reference, resolve
from grid.worlds.scenes.scene import Box, Line, Scene, Thing
from grid.worlds.scenes.tools import Entry, Web
from grid.worlds.scenes.world import SceneState, SceneWorld

# The words that cases are made of, and the entries of the web that they look things up in.


WORDS = Path(__file__).parent / "stock" / "words.yaml"


@cache
def words() -> Mapping[str, Any]:
    """The lists of `stock/words.yaml`, and the goods that have a range of prices, in cents."""
    found: Mapping[str, Any] = read_stock(WORDS)
    return found


def version() -> str:
    """The fingerprint of the words."""
    return fingerprint(WORDS)


@dataclass(frozen=True)
class Facts:
    """What is true in the world of one seed: about places, books, people, towns, dogs, nations, watches and food."""

    landmarks: Mapping[str, tuple[int, int]]
    """Year of opening, height in metres."""
    books: Mapping[str, str]
    """Author."""
    people: Mapping[str, str]
    """Town of birth."""
    towns: Mapping[str, int]
    """Inhabitants."""
    dogs: Mapping[str, tuple[int, int]]
    """Height in cm, years of life."""
    flowers: Mapping[str, tuple[str, str]]
    """A nation's flower: its color and kind."""
    crowns: Mapping[str, float]
    """Euros for one crown of a nation."""
    watches: Mapping[str, tuple[int, int]]
    """Price in euros of a brand's watch, years of warranty."""
    bars: Mapping[str, int]
    """Kilocalories in 100 g."""

    @cached_property
    def web(self) -> Web:
        """An entry for each."""
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
            yield Entry(name, name, f"A {name} grows {height} cm high and lives {years} years on average.")
        for name, (color, kind) in self.flowers.items():
            yield Entry(name, f"Flower of {name}", f"The national flower of {name} is the {color} {kind}.")
        for name, rate in self.crowns.items():
            yield Entry(name, f"Crown of {name}", f"At the present exchange rate 1 crown of {name} is {rate} euros.")
        for name, (price, years) in self.watches.items():
            yield Entry(
                name, f"Watch by {name}", f"A watch by {name} costs {price} euros. Its warranty is {years} years."
            )
        for name, energy in self.bars.items():
            yield Entry(name, f"{name} bar", f"A {name} bar has {energy} kcal per 100 g.")


def facts(seed: int) -> Facts:
    """Everything drawn anew by the seed."""
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
    """Pairs of numbers of two ranges; no number of either comes twice, so that two things always differ."""
    return list(zip(rng.sample(range(*one), count), [rng.randint(*other) for _ in range(count)], strict=True))


T = TypeVar("T")
_LEFT, _TOP, _HIGH, _LETTER = 60, 50, 46, 19  # pixels of lines of text


@dataclass(frozen=True)
class Call:
    """A call of the reference: as it is written, with concrete arguments, what it returned, and the state behind it."""

    place: str
    written: ToolCall
    concrete: ToolCall
    outcome: Observation
    state: SceneState
    obtained: frozenset[Hashable]

    def ref(self, name: str) -> str:
        """The reference to a field of what it returned."""
        return reference(self.place, name)

    def __getitem__(self, name: str) -> Json:
        return self.outcome.content[name]


@dataclass(frozen=True)
class Record:
    """A finished case. `wanted` is what its answer must hold; None where an image is asked for."""

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
        """By substep the calls with concrete arguments."""
        return {call.place: call.concrete for call in self.calls}

    @property
    def outcomes(self) -> dict[str, Mapping[str, Json]]:
        """By substep what the calls return."""
        return {call.place: call.outcome.content for call in self.calls}


@dataclass
class Draft:
    """Whatever is drawn comes from `rng`; `number` is the case's of its template, `first` that of its first image."""

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
        """So many different words of a list of the stock."""
        return self.rng.sample(list(words()[name]), count)

    def one(self, name: str) -> str:
        """A word of a list of the stock."""
        return str(self.rng.choice(words()[name]))

    def of(self, known: Mapping[str, T], count: int) -> list[tuple[str, T]]:
        """So many different facts."""
        return self.rng.sample(sorted(known.items()), count)

    def prices(self, name: str, count: int) -> dict[str, str]:
        """So many different goods with their prices."""
        ranges: Mapping[str, Sequence[int]] = words()[name]
        return {item: self.price(*ranges[item]) for item in self.rng.sample(list(ranges), count)}

    def price(self, low: int, high: int) -> str:
        """A price of so many cents, ending in 0 or 5, with its two decimals."""
        return f"{self.rng.randrange(low, high, 5) / 100:.2f}"

    def image(self, scene: Scene) -> str:
        """A new image; its name."""
        name = f"image_{self.first + len(self.images)}.jpg"
        self.images.append((name, scene))
        return name

    def call(self, tool: str, **arguments: Json) -> Call:
        """The next call of the reference; raises ValueError where it fails."""
        world = SceneWorld(tuple(self.images), self.facts.web, frozenset())
        written, outputs = ToolCall(tool, arguments), {call.place: call.outcome.content for call in self.calls}
        concrete = resolve(written, outputs)
        before = self.calls[-1].state if self.calls else world.start()
        obtained = world.outcome(before, concrete).obtained
        if tool == "GoogleSearch":  # what else was found is not wanted
            obtained = frozenset({(tool, self.facts.web.found(str(arguments["query"]), 1)[0].title)})
        state, outcome = world.run(before, concrete)
        call = Call(str(len(self.calls)), written, concrete, outcome, state, obtained)
        self.calls.append(call)
        return call

    def ask(self, *phrasings: str, **values: Any) -> None:
        """What the user says: the ways to say it take turns."""
        self.query = phrasings[self.number % len(phrasings)].format(**values)

    def tell(self, answer: str, *groups: Sequence[str]) -> None:
        """The answer, and what it must hold: of each group one text."""
        self.answer, self.wanted = answer, Lists(tuple(map(tuple, groups)), ())

    def finished(self, case_id: str, template: str, resolution: Sequence[Call]) -> Record:
        """The case, resolved by these calls' outcomes."""
        wanted = frozenset[Hashable]().union(*(call.obtained for call in resolution))
        world = SceneWorld(tuple(self.images), self.facts.web, wanted)
        places = tuple(call.place for call in resolution)
        return Record(case_id, template, self.query, world, tuple(self.calls), places, self.answer, self.wanted)


Template = Callable[[Draft], Sequence[Call]]
"""Makes a case of a draft; returns the calls that resolve it."""


def lines(*texts: str) -> tuple[Line, ...]:
    """Texts one below the other."""
    return tuple(
        Line(text, (_LEFT, _TOP + at * _HIGH, _LEFT + _LETTER * len(text), _TOP + at * _HIGH + 34))
        for at, text in enumerate(texts)
    )


def listed(goods: Mapping[str, str]) -> tuple[str, ...]:
    """Goods and prices, a line each."""
    return tuple(f"{name} {price}" for name, price in goods.items())


def places(count: int, rng: random.Random, area: Box = (0, 0, 1000, 750)) -> list[Box]:
    """So many boxes that do not touch, from left to right."""
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
    """So many things of each kind, mixed."""
    names = [name for name, count in counts.items() for _ in range(count)]
    rng.shuffle(names)
    return tuple(Thing(name, box) for name, box in zip(names, places(len(names), rng, area), strict=True))


def euros(number: Json) -> str:
    """A sum with its two places."""
    return f"{float(str(number)):.2f} euros"


def forms(number: Json) -> tuple[str, ...]:
    """How a number may be written in an answer: as it is, or rounded to one or two places."""
    exact = str(number)
    rounded = (f"{float(exact):.2f}", f"{float(exact):.1f}")
    return tuple(dict.fromkeys((exact, rounded[0], *(one for one in rounded[1:] if float(one) == float(exact)))))
