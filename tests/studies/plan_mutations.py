"""Errors made on purpose in right chains, and which of them the symbolic scorer of plans finds."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from grid.core.types import ERRORS, Family
from grid.datasets.apb_synthetic.dataset import ApbSynthetic
from grid.worlds.programs.mutations import Mutation, mutations, right
from grid.worlds.programs.scoring import Diagnosis, diagnose

FAMILIES: tuple[Family, ...] = ("holistic", "stepwise", "extraneous", "costs")
"""Those with a chain to start from."""


class Scored(NamedTuple):
    """A changed chain, and what the scorer says of it."""

    made: Mutation
    found: Diagnosis


def scored(count: int, seed: int) -> list[Scored]:
    """So many changed chains of cases in a drawn order."""
    dataset, names = _drawn(seed)
    return list(islice(_scored(dataset, names, seed), count))


def references_right(count: int, seed: int) -> list[bool]:
    """Of so many reference chains, whether the scorer says that they are right."""
    dataset, names = _drawn(seed)
    built = [dataset.built(name) for name in names[:count]]
    return [diagnose(one.task, one.kind, right(one.task, one.kind, seed)).correct for one in built]


def rates(found: Sequence[Scored]) -> dict[str, tuple[float, float]]:
    """By error recall and precision; of one that no chain has, 1."""
    counts = Counter((error, error in one.made.errors, error in one.found.errors) for one in found for error in ERRORS)

    def share(error: str, hit: int, other: tuple[bool, bool]) -> float:
        return hit / whole if (whole := hit + counts[error, *other]) else 1.0

    hits = {error: counts[error, True, True] for error in ERRORS}
    return {error: (share(error, hit, (True, False)), share(error, hit, (False, True))) for error, hit in hits.items()}


def _drawn(seed: int) -> tuple[ApbSynthetic, list[str]]:
    dataset = ApbSynthetic(families=list(FAMILIES), seed=seed)
    names = list(dataset.case_ids())
    random.Random(seed).shuffle(names)
    return dataset, names


def _scored(dataset: ApbSynthetic, names: Sequence[str], seed: int) -> Iterator[Scored]:
    for built in map(dataset.built, names):
        yield from (Scored(made, diagnose(built.task, built.kind, made.chain)) for made in
                    mutations(built.task, built.kind, seed))  # fmt: skip
