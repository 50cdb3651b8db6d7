"""Distractors: real tools of other domains, and variations of them where these are too few (tooltree A.11)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import combinations, islice

from grid.core.seeds import derive_seed
from grid.core.types import ToolSpec, to_json
from grid.datasets.slate.dataset import Slate
from grid.pools.tool_files import distinct, named, read_tools


@lru_cache(maxsize=4)
def real_tools(path: str | None) -> tuple[ToolSpec, ...]:
    """SLATE's tools and those in the folder, of each description one."""
    return distinct((*Slate().tools.values(), *(read_tools(path) if path else ())))


@lru_cache(maxsize=4)
def fingerprint(path: str | None) -> str:
    """Twelve hexadecimal digits of `real_tools`."""
    parts = ([t.name, t.description, t.category, [[p.name, p.type] for p in t.parameters]] for t in real_tools(path))
    return hashlib.sha256("\n".join(map(to_json, parts)).encode()).hexdigest()[:12]


def distractors(own: Sequence[ToolSpec], path: str | None, seed: int, count: int) -> tuple[ToolSpec, ...]:
    """The first `count` (or as many as there are): real tools in an order drawn from `seed`, then variations.

    `own` are a dataset's tools: they are distractors too, for cases of other domains, and no other tool has a name or a
    description of theirs. Whatever `count` is, the order is the same.
    """
    real = distinct((*own, *real_tools(path)))
    drawn = sorted(real, key=lambda tool: derive_seed(seed, "distractor", tool.name))
    return (*drawn[:count], *islice(variations(drawn), max(count - len(drawn), 0)))


def variations(tools: Sequence[ToolSpec]) -> Iterator[ToolSpec]:
    """Real tools as another domain's service would offer them: large libraries have one function from many providers.

    `track_parcel` "Tells where a parcel is." becomes `finance_track_parcel` "Tells where a parcel is, for Finance.",
    with the same arguments and its own domain, for every other that a real tool names and every two ("for Finance and
    Travel"); each tool once before any twice.
    """
    named_by_tools = sorted({tool.category for tool in tools if tool.category})
    domains = [*named_by_tools, *map(" and ".join, combinations(named_by_tools, 2))]
    taken = {tool.name.casefold() for tool in tools}
    for turn in range(len(domains)):
        for place, tool in enumerate(tools):
            domain = domains[(place + turn) % len(domains)]
            name = named(f"{domain} {tool.name}")
            if domain != tool.category and name.casefold() not in taken:
                taken.add(name.casefold())
                text = f"{tool.description.rstrip('. ')}, for {domain}."
                yield replace(tool, name=name, description=text)
