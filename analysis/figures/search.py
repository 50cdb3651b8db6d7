"""The figures of searches with their captions and queries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pandas as pd

from analysis.figures import search_drawn as figures
from analysis.load import planted, queries
from analysis.page.drawing import Drawing
from analysis.stats import intervals
from analysis.tables import comparing
from analysis.tables import search as sheets
from analysis.tables import search_cells as cells

_EFFICIENCY = f"{sheets.EFFICIENCY}; its axis is linear between the smallest gains"
_FRONTIER = (
    "means per case of tokens, the judge's too, and of the case's own seconds; joined: planners that nobody on the "
    "same terms dominates, by means alone; grey squares: the others"
)
_BARS = f"bars of success: {sheets.OF_SUCCESS}; others: {intervals.AMOUNTS}"
_ANYTIME_BARS = f"bars of success: {sheets.OF_SUCCESS}; of seconds: {intervals.AMOUNTS}; of gains: {sheets.OF_GAINS}"
_ASKED = (
    "dotted lines, hollow markers and (asked): planners that asked whether a case was resolved, or whose judge was set "
    "right from the reference"
)


def drawings(root: Path) -> list[Drawing]:
    """Figures 3 and 4, and success against cost, of each model, dataset, outline and budget.

    None where nobody searched or reached a budget.

    Raises:
        StoreError: the folder cannot be read.
    """
    if not cells.apply(root):
        return []
    every = cells.read(root)
    improved, counted = cells.improvements(root), cells.trees(root)
    told = planted.notice(every)
    found: list[Drawing] = []
    for number, (place, group) in enumerate(cells.places(every), start=1):
        found += _anytime(root, place, cells.curve(group, improved), f"anytime-{number}", told)
        found += _trees(root, place, cells.quartiles(group, counted), f"trees-{number}", told)
        found += _frontier(root, place, comparing.compared(group), f"frontier-{number}", told)
    return found


def _anytime(root: Path, place: Mapping[str, str], curve: pd.DataFrame, name: str, told: str) -> Iterator[Drawing]:
    if not curve.empty:
        yield Drawing(
            name=name,
            title=f"{sheets.title(place)}: success, time and gain per second by executed calls (tooltree, figure 3)",
            caption=f"{told}{sheets.terms(place)}; {sheets.ANYTIME}; {sheets.SECONDS}; {_EFFICIENCY}; "
            f"{_ANYTIME_BARS}; points of one limit are moved apart; {_ASKED}",
            svg=figures.anytime(curve, name),
            query=queries.anytime(root, place["model"], place["dataset"], sorted(curve["limit"].unique())),
        )


def _trees(root: Path, place: Mapping[str, str], quartiles: pd.DataFrame, name: str, told: str) -> Iterator[Drawing]:
    if not quartiles.empty:
        yield Drawing(
            name=name,
            title=f"{sheets.title(place)}: trees at their end (tooltree, figure 4)",
            caption=f"{told}{sheets.terms(place)}; points: medians over episodes; bars: quartiles; {sheets.SIZES}",
            svg=figures.trees(quartiles, name),
            query=queries.trees(root, place["model"], place["dataset"]),
        )


def _frontier(root: Path, place: Mapping[str, str], compared: pd.DataFrame, name: str, told: str) -> Iterator[Drawing]:
    if figures.drawable(compared):
        yield Drawing(
            name=name,
            title=f"{sheets.title(place)}: success against cost",
            caption=f"{told}{sheets.terms(place)}; {_FRONTIER}; {_BARS}; {_ASKED}",
            svg=figures.frontier(compared, name),
            query=queries.search_costs(root, place["model"], place["dataset"]),
        )
