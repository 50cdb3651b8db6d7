"""In which order a dataset's cases are taken: `limit` should draw a sample, and files stand in order of domain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

from grid.seeds import derive_seed

Order: TypeAlias = Literal["sampled", "file"]
Stratum: TypeAlias = Callable[[str], str]
"""The part of the dataset that a case is of."""
SEED = 0
"""The datasets' own: a sweep's `seed` draws no other cases, so that sweeps are compared on the same ones."""


def ordered(case_ids: Sequence[str], order: Order, strata: Sequence[Stratum] = ()) -> list[str]:
    """All cases, so that any first part is a sample: a longer one holds every shorter one, and goes on from it.

    Of each stratum (the outermost first, further ones inside it) a first part has its share, to within about a case.
    `file` leaves them as they stand.
    """
    return list(case_ids) if order == "file" else _sampled(case_ids, strata, "")


def _sampled(case_ids: Sequence[str], strata: Sequence[Stratum], where: str) -> list[str]:
    if not strata:
        return sorted(case_ids, key=lambda case_id: derive_seed(SEED, "sample", case_id))
    groups: dict[str, list[str]] = {}
    for case_id in case_ids:
        groups.setdefault(strata[0](case_id), []).append(case_id)
    places: dict[str, float] = {}
    for name, group in groups.items():
        inner = f"{where}/{name}"
        begins = derive_seed(SEED, "stratum", inner) / 2**63
        # Evenly over [0, 1) from a random beginning: systematic sampling.
        for number, case_id in enumerate(_sampled(group, strata[1:], inner)):
            places[case_id] = (number + begins) / len(group)
    return sorted(places, key=places.__getitem__)
