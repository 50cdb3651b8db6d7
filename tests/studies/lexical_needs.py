"""What the lexical engine knows of substeps without a tool: learned from half of SLATE, told of both halves."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import cache

from grid.core.util import derive_seed
from grid.datasets.slate import shop
from grid.text.words import stems

HALVES = ("learned from", "held out")
LEAST, TIMES = 20, 2
"""A stem is learned that so many sayings have, and of one kind so many times the share that has it of the other."""
_SLOT = re.compile(r"\{[\w.]+\}")
Sayings = list[tuple[tuple[str, ...], bool]]
"""A substep's stems, without its values, and whether it takes no tool, for every way to say it."""


def half_of(category: str, workflow: str) -> str:
    """The half that all substeps of a workflow are in, by its name."""
    return HALVES[derive_seed(0, "verbs", category, workflow) % 2]


@cache
def sayings() -> dict[str, Sayings]:
    """All substeps of SLATE's stock, by half."""
    found: dict[str, Sayings] = {half: [] for half in HALVES}
    for category in shop.load_all():
        for name, workflow in category.workflows.items():
            found[half_of(category.query_category, name)] += _of(workflow)
    return found


def _of(workflow: shop.Workflow) -> Iterator[tuple[tuple[str, ...], bool]]:
    for step in workflow.plan:
        for substep in step.substeps:
            for text in substep.say:
                yield tuple(stems(_SLOT.sub("", text))), substep.call is None


def learned(seen: Sayings) -> tuple[frozenset[str], frozenset[str]]:
    """The stems that speak against a tool, and those that speak for one."""
    with_stem = {
        kind: Counter(stem for found, none in seen if none is kind for stem in set(found)) for kind in (True, False)
    }
    sayings_of = Counter(none for _, none in seen)
    found: dict[bool, set[str]] = {True: set(), False: set()}
    for stem in with_stem[True].keys() | with_stem[False].keys():
        if with_stem[True][stem] + with_stem[False][stem] >= LEAST:
            none, tool = ((with_stem[kind][stem] + 0.5) / sayings_of[kind] for kind in (True, False))
            if max(none, tool) > TIMES * min(none, tool):
                found[none > tool].add(stem)
    return frozenset(found[True]), frozenset(found[False])
