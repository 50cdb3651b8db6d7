"""The words that cases are made of, and the entries of the web that they look things up in."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from grid.datasets.files import fingerprint, read_stock
from grid.worlds.scenes.web import Entry, Web

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
