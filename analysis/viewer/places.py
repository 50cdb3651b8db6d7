"""A model, a dataset and a robustness setting, and the planners that stand side by side there."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from analysis.viewer.addresses import OTHER, Filters
from analysis.viewer.index import Index, Setting, Summary
from analysis.viewer.runs import Run

REFERENCE = "react"


def place_of(index: Index, filters: Filters) -> tuple[str, str, str] | None:
    """The place that filters name; what they leave out is the first there is."""
    wanted = filters.model, filters.dataset, filters.robustness
    fits = [place for place in index.places if all(one in ("", own) for one, own in zip(wanted, place, strict=True))]
    return fits[0] if fits else None


def reference_of(settings: Sequence[Setting], filters: Filters) -> Setting | None:
    """The planner that others are compared with: the one that is asked for, else react, else none."""
    if filters.against and filters.against != OTHER:
        return next((one for one in settings if one.planner == filters.against), None)
    plain = [one for one in settings if one.planner.partition("[")[0].partition(" ")[0] == REFERENCE]
    return min(plain, key=lambda one: len(one.planner), default=None)


def in_place(filters: Filters, setting: Setting) -> Filters:
    """The filters, about the place of a setting."""
    model, dataset, robustness = setting.place
    return filters.but(page=filters.page, model=model, dataset=dataset, robustness=robustness)


def summed_up(run: Run, index: Index, filters: Filters) -> list[dict[str, Any]]:
    """Each place's address, and its settings in numbers, with unknown cells as the filters have them."""
    summaries, found = index.summed_up(filters.cells), []
    for place in index.places:
        settings = index.of_place(place)
        own = Filters(run.key, *place, unknown=filters.unknown)
        planners = [summaries[one.key] for one in ranked(summaries, settings, reference_of(settings, Filters()))]
        found.append({"filters": own, "settings": planners})
    return found


def ranked(summaries: Mapping[int, Summary], settings: Sequence[Setting], reference: Setting | None) -> list[Setting]:
    """As reports have them: the reference first, then by success."""
    return sorted(settings, key=lambda one: (one != reference, -_known(summaries[one.key].success.mean)))


def count(index: Index) -> int:
    """All cells."""
    return sum(one.cells for one in index.summaries.values())


def _known(value: float) -> float:
    return -1.0 if math.isnan(value) else value
