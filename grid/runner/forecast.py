"""From pilots to what the cells that are to run will take in tokens and money, with the spread."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from grid.runner.pilot import Pilot


@dataclass(frozen=True)
class Estimate:
    """A sum over cells, and twice its standard error; None where one cell alone was seen."""

    value: float
    spread: float | None


@dataclass(frozen=True)
class Forecast:
    """What the cells of a setting that are to run will take; `money` is None where it is not known."""

    input_tokens: Estimate
    output_tokens: Estimate
    money: Estimate | None


def forecast(pilot: Pilot, cells: int) -> Forecast | None:
    """For so many cells; None where the pilot says nothing."""
    took = pilot.took
    if not took:
        return None
    money = [one.money for one in took if one.money is not None]
    return Forecast(
        _estimate([one.input_tokens for one in took], cells),
        _estimate([one.output_tokens for one in took], cells),
        _estimate(money, cells) if len(money) == len(took) else None,
    )


def total(parts: Iterable[Estimate]) -> Estimate:
    """The sum; spreads are added up too, since settings are tried on the same cases."""
    every = list(parts)
    spreads = [one.spread for one in every]
    known = [one for one in spreads if one is not None]
    value = math.fsum(one.value for one in every)
    return Estimate(value, math.fsum(known) if len(known) == len(every) else None)


def _estimate(values: Sequence[float], cells: int) -> Estimate:
    spread = 2 * cells * statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None
    return Estimate(cells * statistics.fmean(values), spread)
