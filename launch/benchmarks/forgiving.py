"""What forgiving tools make of names that nobody has, and of other names for what the input has."""

from __future__ import annotations

import argparse
import asyncio
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple, cast

from omegaconf import OmegaConf
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from grid.core.seeds import derive_seed
from grid.core.types import ToolCall
from grid.datasets.files import read_stock
from grid.datasets.kqa import stock, world
from grid.datasets.kqa.records import KB
from grid.robustness.schema_matching import MatchingWorld
from grid.robustness.similarity import Lexical, nearest
from grid.robustness.tools_forgiving import ToolsForgiving
from grid.settings.make import make
from grid.worlds.kopl.base import KnowledgeBase
from grid.worlds.kopl.reading import parse
from grid.worlds.kopl.sets import DIRECTIONS, EntitySet
from grid.worlds.kopl.world import KoplState, KoplWorld
from grid.worlds.schema import READ_AS
from launch.measuring import ROOT

NAMES = 300
KNOWN = (
    "LeBron James", "Barack Obama", "Marie Curie", "Albert Einstein", "Taylor Swift", "Lionel Messi", "Germany",
    "United States of America", "Brazil", "Paris", "New York City", "Tokyo", "Mount Everest", "Kilimanjaro", "Danube",
    "Amazon River", "Harvard University", "University of Oxford", "Stanford University", "Nobel Prize in Physics",
    "Academy Award for Best Picture", "Pulitzer Prize", "Warner Bros.", "Columbia Records", "Penguin Books",
    "Los Angeles Lakers", "Chicago Bulls", "Manchester United", "FC Barcelona", "Real Madrid", "The Godfather",
    "Casablanca", "Titanic", "Star Wars", "Microsoft", "War and Peace", "Pride and Prejudice", "Abbey Road", "Thriller",
)  # fmt: skip
"""Names of the real world, none of which stands in a made-up one."""
_PARAPHRASES = Path(__file__).with_name("paraphrases.yaml")
_KINDS = {"attributes": ("attribute", "key"), "relations": ("relation", "relation")}
_DRAWN = 2  # entities a paraphrase is asked of
_CANDIDATES = 10


class Asked(NamedTuple):
    """One call with a name that the schema lacks; `meant`: the identifier, which is right where the input has it."""

    state: KoplState
    call: ToolCall
    parameter: str
    meant: str | None


Matching = Callable[[Asked], str | None]
"""What is taken in the place of what was given; None: nothing."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Of this benchmark."""
    parser.add_argument("--seed", type=int, default=0, help="of the world and of what is drawn")
    parser.add_argument("--half", choices=("tuned", "reported"), default="reported", help="of the paraphrases")


def run(arguments: argparse.Namespace, console: Console) -> None:
    """Print a row for each probe and way of matching."""
    base = world_of(arguments.seed)
    probes = {
        f"{NAMES} names of no entity, to Find": names(base, arguments.seed),
        "other names of keys and relations": list(paraphrases(base, arguments.seed, arguments.half, has=True)),
        "the same, where the input lacks it": list(paraphrases(base, arguments.seed, arguments.half, has=False)),
    }
    table = Table(box=SIMPLE_HEAD)
    for name in ("probe", "tools", "calls", "right", "silently wrong", "refused"):
        table.add_column(name, justify="left" if name in ("probe", "tools") else "right")
    for probe, asked in probes.items():
        for way, matching in _ways(base).items():
            table.add_row(probe, way, *_shares(asked, matching))
        table.add_section()
    console.print(table)
    console.print(
        f"world {arguments.seed}, the half of the paraphrases that floors were {_TOLD[arguments.half]}, each asked of "
        f"{_DRAWN} entities; no judge; no floor: the nearest of ten with which the call returns something, by words"
    )


_TOLD = {"tuned": "chosen on", "reported": "not chosen on"}


def world_of(seed: int) -> KnowledgeBase:
    """The synthetic world of a seed, without questions."""
    return parse(world.build(stock.load_world(), stock.load_names(), seed), Path(KB))


def names(base: KnowledgeBase, seed: int) -> list[Asked]:
    """Names of another seed's world and of the real one that are no name of this world's."""
    others = [*KNOWN, *world_of(seed + 1).by_name]
    unknown = [name for name in dict.fromkeys(others) if name not in base.by_name]
    real = [name for name in unknown if name in KNOWN]
    rng = random.Random(derive_seed(seed, "names"))
    drawn = [*real, *rng.sample([name for name in unknown if name not in KNOWN], NAMES - len(real))]
    return [Asked(KoplState(), ToolCall("Find", {"name": name}), "name", None) for name in drawn]


def paraphrases(base: KnowledgeBase, seed: int, half: str, *, has: bool) -> Iterator[Asked]:
    """Each paraphrase of one half, asked of two entities that have the meant key or relation, or of two that lack it.

    A paraphrase that is an identifier of the world's is
    left out, and so is one whose identifier the world does not have.
    """
    rng = random.Random(derive_seed(seed, "paraphrases", half, has))
    for part, (kind, parameter) in _KINDS.items():
        for meant, texts in _stock()[half][part].items():
            for text in texts:
                if meant in base.vocabularies[kind] and text not in base.vocabularies[kind]:
                    for _ in range(_DRAWN):
                        yield _asked(base, kind, parameter, meant, text, rng, has=has)


@cache
def _stock() -> Mapping[str, Mapping[str, Mapping[str, Sequence[str]]]]:
    """By half, part and identifier."""
    return cast(Mapping[str, Mapping[str, Mapping[str, Sequence[str]]]], read_stock(_PARAPHRASES))


def _asked(
    base: KnowledgeBase, kind: str, parameter: str, meant: str, text: str, rng: random.Random, *, has: bool
) -> Asked:
    direction = rng.choice(DIRECTIONS)
    indexes: Mapping[str, Any] = (
        base.attributes
        if kind == "attribute"
        else {name: index for (name, way), index in base.relations.items() if way == direction}
    )
    having = indexes[meant].by_entity
    pool = having if has else {entity for index in indexes.values() for entity in index.by_entity} - having.keys()
    state = KoplState((("Find", "drawn"),), results=(EntitySet((rng.choice(sorted(pool)),), sorted_once=True),))
    arguments = {"entities": "$0", parameter: text} | ({"direction": direction} if kind == "relation" else {})
    return Asked(state, ToolCall("QueryAttr" if kind == "attribute" else "Relate", arguments), parameter, meant)


def _ways(base: KnowledgeBase) -> dict[str, Matching]:
    tools = KoplWorld(base, ())
    file = ROOT / "conf" / "robustness" / "tools_forgiving.yaml"
    config = cast(dict[str, Any], OmegaConf.to_container(OmegaConf.load(file)))["tools_forgiving"]
    setting = cast(ToolsForgiving, make("robustness.tools_forgiving", config, "robustness"))
    return {
        "whole schema, no floor": partial(_anything, tools),
        "lexical": partial(_now, setting.around(tools, "")),
        "embeddings": partial(_now, replace(setting, similarity="embeddings").around(tools, "")),
    }


def _anything(tools: KoplWorld, asked: Asked) -> str | None:
    """The lexically nearest of ten of the whole schema with which the call returns something."""
    expected = asyncio.run(tools.identifiers(asked.state, asked.call))[asked.parameter].vocabulary
    scores = Lexical().scores(str(asked.call.arguments[asked.parameter]), expected.names)
    for name in (expected.names[place] for place in nearest(scores, _CANDIDATES)):
        call = ToolCall(asked.call.tool, {**asked.call.arguments, asked.parameter: name})
        if not asyncio.run(tools.apply(asked.state, call))[1].failed:
            return name
    return None


def _now(tools: MatchingWorld, asked: Asked) -> str | None:
    """What the tools say that they read it as."""
    _, observation = asyncio.run(tools.apply(asked.state, asked.call))
    read: Any = observation.content.get(READ_AS)
    return None if read is None else str(read[asked.parameter])


def _shares(asked: Sequence[Asked], matching: Matching) -> list[str]:
    found: Counter[str] = Counter()
    for one in asked:
        taken = matching(one)
        found["refused" if taken is None else "right" if taken == one.meant else "wrong"] += 1
    shares = (f"{found[name]} ({found[name] / len(asked):.1%})" for name in ("right", "wrong", "refused"))
    return [str(len(asked)), *shares]
