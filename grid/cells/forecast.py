"""From pilots to what the cells that are to run will take in tokens and money, with the spread."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from grid.cells.pilot import Pilot


@dataclass(frozen=True)
class Estimate:
    """A sum over cells, and twice its standard error; None where one cell alone was seen."""

    value: float
    spread: float | None


@dataclass(frozen=True)
class Forecast:
    """What the cells of a setting that are to run will take; None for what is not known."""

    input_tokens: Estimate | None
    output_tokens: Estimate | None
    money: Estimate | None


def forecast(pilot: Pilot, cells: int) -> Forecast | None:
    """For so many cells; None where the pilot says nothing."""
    took = pilot.took
    if not took:
        return None
    return Forecast(
        _estimate([one.input_tokens for one in took], cells),
        _estimate([one.output_tokens for one in took], cells),
        _estimate([one.money for one in took], cells),
    )


def total(parts: Iterable[Estimate]) -> Estimate:
    """The sum; spreads are added up too, since settings are tried on the same cases."""
    every = list(parts)
    spreads = [one.spread for one in every]
    known = [one for one in spreads if one is not None]
    value = math.fsum(one.value for one in every)
    return Estimate(value, math.fsum(known) if len(known) == len(every) else None)


def _estimate(values: Sequence[float | None], cells: int) -> Estimate | None:
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None
    spread = 2 * cells * statistics.stdev(known) / math.sqrt(len(known)) if len(known) > 1 else None
    return Estimate(cells * statistics.fmean(known), spread)
