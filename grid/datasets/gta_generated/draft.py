"""A case in the making: its images, its reference calls, which the world itself runs, its query and its answer."""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from grid.core.types import Json, Observation, ToolCall
from grid.datasets.gta.answers import Lists
from grid.datasets.gta_generated.stock import Facts, words
from grid.text.references import reference, resolve
from grid.worlds.scenes.scene import Box, Line, Scene, Thing
from grid.worlds.scenes.world import SceneState, SceneWorld

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
