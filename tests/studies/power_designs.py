"""Claimed power beside simulated power on six designs: how far `agent-grid power` can be trusted.

Each design's cases are as many as the command says for 80% power: by a formula, which simulated studies correct where
the mean difference is skewed. Further studies of so many cases are then drawn from the model, and the report's own test
is run on each; the same is done where there is no difference.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from analysis.stats.latent import Claim, Design, planted
from analysis.stats.power import MOST, Found, checked, corrected, endless

_ALPHA = 0.05


class _Given(NamedTuple):
    """A design but for its number of cases; `sizes` are those of clusters, which repeat; the spreads are in logits."""

    name: str
    rate: float
    difference: float
    trials: int
    sizes: tuple[int, ...]
    case_sd: float
    difference_sd: float
    icc: float


_UNEVEN = (1, 1, 2, 2, 3, 5, 8, 13, 21, 34)
DESIGNS = (
    _Given("no clusters", 0.40, 0.08, 1, (1,), 1.0, 0.5, 0.0),
    _Given("small clusters", 0.50, 0.05, 3, (3,), 2.0, 1.0, 0.3),
    _Given("few large clusters", 0.30, 0.12, 3, (20,), 1.0, 0.7, 0.3),
    _Given("uneven clusters", 0.60, 0.08, 5, _UNEVEN, 1.5, 1.0, 0.5),
    _Given("low rate, uneven", 0.03, 0.05, 5, _UNEVEN, 1.5, 1.0, 0.5),
    _Given("high rate, small", 0.93, 0.04, 1, (4,), 2.0, 1.0, 0.2),
)


class Compared(NamedTuple):
    """One design: what is claimed of it, by the formula alone too, what simulation finds, and without a difference."""

    given: _Given
    claim: Claim
    formula: float
    found: Found
    null: Found


def compared(power: float, studies: int, seed: int) -> Iterator[Compared]:
    """Each design at the cases that the formula wants for a power."""
    for place, given in enumerate(DESIGNS):
        latent = planted(given.case_sd, given.difference_sd, given.icc)
        order, rates = endless(given.sizes, MOST), (given.rate, given.rate + given.difference)
        design = Design(latent, rates, given.trials, _ALPHA, order)
        claim = corrected(design, power, [seed, place, 0])
        formula = Design(latent, rates, given.trials, _ALPHA, order).claim(claim.cases).power
        without = Design(latent, (given.rate, given.rate), given.trials, _ALPHA, order)
        found, null = (checked(one, claim.cases, studies, [seed, place, 1]) for one in (design, without))
        yield Compared(given, claim, formula, found, null)
