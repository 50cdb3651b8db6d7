"""Shapes of workflows (egb_slate, figures 10 and 12): drawn, for a model's habits would tell where tools are called."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from grid.core.util import derive_seed
from grid.datasets.slate.stock import SHAPES, Complexity


@dataclass(frozen=True)
class Shape:
    """Who asks, how complex the plan is, and for each high-level step whether each of its substeps calls a tool."""

    user: str
    complexity: Complexity
    steps: tuple[tuple[bool, ...], ...]

    def numbered(self) -> Iterator[tuple[str, bool]]:
        """Number `i.j` of each substep, and whether it calls a tool."""
        for i, substeps in enumerate(self.steps, 1):
            for j, calls in enumerate(substeps, 1):
                yield f"{i}.{j}", calls


def drawn(seed: int, topic: str, users: Sequence[str], shares: Mapping[Complexity, float], count: int) -> list[Shape]:
    """The shapes of a topic's workflows: users take turns, complexities are drawn by their shares, the rest evenly."""
    rng = random.Random(derive_seed(seed, "complexity", topic))
    kinds = rng.choices([*shares], weights=[*shares.values()], k=count)
    return [
        Shape(users[number % len(users)], kind, _steps(kind, random.Random(derive_seed(seed, "shape", topic, number))))
        for number, kind in enumerate(kinds)
    ]


def _steps(complexity: Complexity, rng: random.Random) -> tuple[tuple[bool, ...], ...]:
    steps, per_step, substeps, calls = SHAPES[complexity]
    least, most = per_step.start, per_step.stop - 1
    number = rng.choice(steps)
    total = rng.choice(range(max(substeps.start, least * number), min(substeps.stop - 1, most * number) + 1))
    counts = [least] * number
    while sum(counts) < total:
        counts[rng.choice([place for place, count in enumerate(counts) if count < most])] += 1
    calling = {*rng.sample(range(total), rng.choice([one for one in calls if one <= total]))}
    places = iter(range(total))
    return tuple(tuple(next(places) in calling for _ in range(count)) for count in counts)
