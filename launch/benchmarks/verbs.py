"""What the lexical engine knows of substeps without a tool: learned from half of SLATE, told of both halves."""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from statistics import mean

from rich.console import Console

from grid.datasets.slate import stock
from grid.engines.lexical.verbs import NO_TOOL_STEMS
from grid.seeds import derive_seed
from grid.text.words import stems

HALVES = ("learned from", "held out")
_SLOT = re.compile(r"\{\w+\}")
Sayings = list[tuple[str, bool]]
"""A substep's first stem, and whether it takes no tool, for every way to say it."""


def half_of(category: str, workflow: str) -> str:
    """The half that all substeps of a workflow are in, by its name."""
    return HALVES[derive_seed(0, "verbs", category, workflow) % 2]


@cache
def sayings() -> dict[str, Sayings]:
    """All substeps of SLATE's stock, by half."""
    found: dict[str, Sayings] = {half: [] for half in HALVES}
    for category in stock.load_all():
        for name, workflow in category.workflows.items():
            found[half_of(category.query_category, name)] += _of(workflow)
    return found


def _of(workflow: stock.Workflow) -> Iterator[tuple[str, bool]]:
    for step in workflow.plan:
        for substep in step.substeps:
            for text in substep.say:
                yield next(iter(stems(_SLOT.sub("", text))), ""), substep.call is None


def learned(seen: Sayings) -> frozenset[str]:
    """The stems that more often begin a substep without a tool than one with a tool."""
    without, with_tool = (Counter(stem for stem, none in seen if none is wanted) for wanted in (True, False))
    return frozenset(stem for stem, count in without.items() if stem and count > with_tool[stem])


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """It takes no options."""


def run(arguments: argparse.Namespace, console: Console) -> None:
    """Print the list as `grid/engines/lexical/verbs.py` has it, and on what share of each half it is right alone."""
    found = sayings()
    words = learned(found[HALVES[0]])
    state = "as committed" if words == NO_TOOL_STEMS else "not as committed"
    console.print(f"{len(words)} stems, {state}: {' '.join(sorted(words))}")
    for half, seen in found.items():
        right, without = (mean(100 * value for value in values) for values in (
            [(stem in words) == none for stem, none in seen],
            [none for _, none in seen],
        ))  # fmt: skip
        console.print(f"{half}: {len(seen)} sayings, right {right:.1f}%; {without:.1f}% take no tool")
