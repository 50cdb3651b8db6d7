"""Figures of searches: anytime curves, sizes of trees, and the frontier of cost and success.

This module stands apart from the list of all drawings, just as `tables.search`, which computes the numbers drawn here,
is separate from the other tables.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from analysis.load import SETTING, provenance, queries
from analysis.page.drawing import ACROSS, COLOURS, MARKERS, Drawing, headed, legend, percents, reach, svg_of
from analysis.stats import intervals
from analysis.tables import frontier as points
from analysis.tables import search, search_cells
from grid.core.untrusted import shown

_EFFICIENCY = (
    f"{search.EFFICIENCY}; the axis of gains is linear around 0, up to the smallest gains, and logarithmic beyond them"
)
_FRONTIER = (
    "means per case of tokens (including the judge's) and of the case's own time in seconds; joined by a line: "
    "planners that are not dominated by any planner on the same terms (only means are compared); on the same terms: "
    "both planners asked whether a case was resolved, or neither did; grey squares: dominated planners"
)
_BARS = f"bars of success: {search.OF_SUCCESS}; other bars: {intervals.AMOUNTS}"
_ANYTIME_BARS = (
    f"bars of success: {search.OF_SUCCESS}; bars of seconds: {intervals.AMOUNTS}; bars of gains: {search.OF_GAINS}"
)
_ASKED = (
    "dotted lines, hollow markers and (asked): planners that asked whether a case was resolved, or whose judge's "
    "decisions were corrected with the reference"
)


def drawings(root: Path) -> list[Drawing]:
    """Figures 3 and 4, and success against cost, for each model, dataset, outline and budget.

    There are no drawings if no planner searched and none reached a budget.

    Raises:
        StoreError: the folder cannot be read.
    """
    if not search_cells.apply(root):
        return []
    every = search_cells.read(root)
    improved, counted = search_cells.improvements(root), search_cells.trees(root)
    found: list[Drawing] = []
    for number, (place, group) in enumerate(search_cells.places(every), start=1):
        where, told = place["where"], provenance.simulated_notice(group)
        reached, sizes = search_cells.at_limits(group, improved, where=where), search_cells.sizes(group, counted, where)
        cases = search_cells.cases(group, where)
        labels = {label: place[label] for label in SETTING[:2]}
        texts = [queries.of_files(root, asked.query) for asked in (reached, sizes, cases)]
        found += _anytime(place, search_cells.curve(reached.rows).assign(**labels), f"anytime-{number}", told, texts[0])
        found += _trees(place, sizes.rows.assign(**labels), f"trees-{number}", told, texts[1])
        found += _frontier(
            place, search_cells.compared(cases.rows).assign(**labels), f"frontier-{number}", told, texts[2]
        )
    return found


def _anytime(place: Mapping[str, str], curve: pd.DataFrame, name: str, told: str, query: str) -> Iterator[Drawing]:
    if not curve.empty:
        yield Drawing(
            name=search.name("anytime", place),
            title=f"{search.title(place)}: success, time and gain per second by executed calls (tooltree, figure 3)",
            caption=f"{told}{search.terms(place)}; {search.ANYTIME}; {search.SECONDS}; {_EFFICIENCY}; "
            f"{_ANYTIME_BARS}; points at the same limit are moved sideways to avoid overlap; {_ASKED}",
            svg=anytime(curve, name),
            query=query,
            model=place["model"],
            dataset=place["dataset"],
        )


def _trees(place: Mapping[str, str], quartiles: pd.DataFrame, name: str, told: str, query: str) -> Iterator[Drawing]:
    if not quartiles.empty:
        yield Drawing(
            name=search.name("trees", place),
            title=f"{search.title(place)}: search trees at the end of the search (tooltree, figure 4)",
            caption=f"{told}{search.terms(place)}; points: medians over episodes; bars: quartiles; {search.SIZES}",
            svg=trees(quartiles, name),
            query=query,
            model=place["model"],
            dataset=place["dataset"],
        )


def _frontier(place: Mapping[str, str], compared: pd.DataFrame, name: str, told: str, query: str) -> Iterator[Drawing]:
    if drawable(compared):
        yield Drawing(
            name=search.name("frontier", place),
            title=f"{search.title(place)}: success against cost",
            caption=f"{told}{search.terms(place)}; {_FRONTIER}; {_BARS}; {_ASKED}",
            svg=frontier(compared, name),
            query=query,
            model=place["model"],
            dataset=place["dataset"],
        )


# Figures of searches: anytime curves, sizes of trees, the cost-success frontier. The same rows always give files with
# the same bytes.


_LINES = {False: "-", True: ":"}
"""Line styles: dotted, with hollow markers, if the planner asked whether cases were resolved (True); else solid."""
_GAIN = "gain_per_second"
_SPREAD = 0.5  # octaves over which the planners' points at one limit are spread, so that intervals do not overlap


class _Style(NamedTuple):
    colour: str
    marker: str
    line: str
    filled: bool

    @property
    def face(self) -> str:
        """The fill colour of the marker."""
        return self.colour if self.filled else "white"


def anytime(curve: pd.DataFrame, name: str) -> str:
    """Figure 3 as an SVG element: success, seconds, and marginal gain per second, against the limit of executed calls.

    `curve` are the rows of `search_cells.curve`. Each robustness setting has a row of panels; bars are 95% intervals.
    """
    styles = _styles(curve)
    settings = list(curve["robustness"].unique())
    limits = sorted(curve["limit"].unique())
    panels = {"success": "success", "seconds": "seconds per case", _GAIN: "gain in success per second"}

    def draw(axes: Sequence[Axes]) -> None:
        for place, robustness in enumerate(settings):
            own = curve[curve["robustness"] == robustness]
            for axis, (measure, label) in zip(axes[3 * place :], panels.items(), strict=False):
                _curves(axis, own, measure, styles)
                axis.set_xscale("log", base=2)
                axis.xaxis.set_major_locator(FixedLocator(limits))
                axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
                axis.xaxis.set_minor_locator(NullLocator())
                axis.set_xlabel("limit of executed calls")
                axis.set_ylabel(label)
                headed(axis, own)
                if measure == "success":
                    percents(axis.yaxis, label)
                    axis.set_ylim(-0.02, 1.02)
                elif measure == _GAIN:
                    _signed(axis, own[measure])
                elif (own[measure] > 0).any():  # planners' seconds differ by orders of magnitude
                    axis.set_yscale("log", nonpositive="clip")
                    points.plain(axis.yaxis, own.loc[own[measure] > 0, measure])
        legend(axes)

    below = 0.18 * math.ceil(len(styles) / ACROSS) / len(settings)
    return svg_of(name, len(settings), 3, draw, width=3.9, height=3.0 + below)


def trees(quartiles: pd.DataFrame, name: str) -> str:
    """Figure 4 as an SVG element: the numbers of nodes, executions and rollouts per tree, as medians with quartiles."""
    settings = list(quartiles["robustness"].unique())
    names = [size for size in search_cells.SIZES if size != "pruned" and quartiles[f"{size}_median"].notna().any()]

    def draw(axes: Sequence[Axes]) -> None:
        for place, robustness in enumerate(settings):
            own = quartiles[quartiles["robustness"] == robustness].reset_index(drop=True)
            for index, (axis, size) in enumerate(zip(axes[len(names) * place :], names, strict=False)):
                low, middle, high = (own[f"{size}_{part}"] for part in search_cells.QUARTILES)
                reach = np.array([middle - low, high - middle])
                axis.errorbar(middle, own.index, xerr=reach, color=COLOURS[0], marker="o", linestyle="none", capsize=3)
                labels = [shown(_named(row)) for row in own.to_dict("records")]
                axis.set_yticks(range(len(own)), labels if not index else [""] * len(own))
                axis.set_ylim(len(own) - 0.5, -0.5)
                axis.set_xlim(left=0)
                axis.xaxis.set_major_locator(MaxNLocator(5, integer=True))
                axis.set_xlabel(f"{search_cells.SIZES[size]} per episode")
                headed(axis, own)
                axis.grid(axis="x", alpha=0.3)

    rows = int(quartiles.groupby("robustness").size().max())
    return svg_of(name, len(settings), len(names), draw, height=0.9 + 0.3 * rows)


def frontier(compared: pd.DataFrame, name: str) -> str:
    """An SVG element: success against tokens and against seconds.

    A line joins the undominated planners (`search_cells.compared`); dominated planners are grey. A planner is not drawn
    if its cost is 0 or not known, or if its success is not known.
    """
    settings = list(compared["robustness"].unique())
    labels = {"tokens": "tokens per case", "seconds": "seconds per case"}
    inches = points.height(int(compared.groupby("robustness").size().max()))

    def draw(axes: Sequence[Axes]) -> None:
        for place, robustness in enumerate(settings):
            own = compared[compared["robustness"] == robustness]
            for axis, (cost, label) in zip(axes[2 * place :], labels.items(), strict=False):
                points.draw_panel(axis, own, cost, f"undominated_{cost}", inches)
                axis.set_xlabel(label)
                percents(axis.yaxis, "success")
                headed(axis, own)

    return svg_of(name, len(settings), 2, draw, width=5.4, height=inches)


def drawable(compared: pd.DataFrame) -> bool:
    """Whether at least two rows (planner and robustness setting) have known success, and tokens and seconds above 0."""
    known = compared["success"].notna() & (compared["tokens"] > 0) & (compared["seconds"] > 0)
    return int(known.sum()) > 1


def _styles(rows: pd.DataFrame) -> dict[str, _Style]:
    """Each planner's style, by alphabetical place and by whether it asked whether cases were resolved (`_ASKED`)."""
    asked = rows.groupby("planner", sort=True)["asked"].any().to_dict()
    return {
        str(planner): _Style(COLOURS[place % len(COLOURS)], MARKERS[place % len(MARKERS)], _LINES[who], not who)
        for place, (planner, who) in enumerate(asked.items())
    }


def _curves(axis: Axes, own: pd.DataFrame, measure: str, styles: Mapping[str, _Style]) -> None:
    for place, (planner, style) in enumerate(styles.items()):
        line = own[own["planner"] == planner].sort_values("limit")
        known = line[line[measure] > 0 if measure == "seconds" else line[measure].notna()]  # 0 has no logarithm
        if known.empty:
            continue
        move = _SPREAD * ((place + 0.5) / len(styles) - 0.5)
        bounds = known[[f"{measure}_low", f"{measure}_high"]].to_numpy(np.float64)
        if measure != _GAIN:
            bounds = bounds.clip(min=0.0)
        if measure == "success":
            bounds = bounds.clip(max=1.0)
        axis.errorbar(known["limit"] * 2.0**move, known[measure], yerr=reach(known, measure, bounds),
                      color=style.colour, marker=style.marker, linestyle=style.line, markerfacecolor=style.face,
                      markersize=4, linewidth=1.2, elinewidth=0.5, label=shown(_named(known.iloc[0])))  # fmt: skip


def _signed(axis: Axes, gains: pd.Series[float]) -> None:
    """Make the axis logarithmic on both sides of 0, and linear between the smallest gains.

    The axis has this scale because the planners' gains differ by orders of magnitude.
    """
    sizes_ = gains[gains != 0].abs().dropna()
    if sizes_.empty:
        return
    decades = math.floor(math.log10(sizes_.min())), math.ceil(math.log10(sizes_.max()))
    axis.set_yscale("symlog", linthresh=10.0 ** decades[0], linscale=0.5)
    every = max(1, round((decades[1] - decades[0]) / 4))
    ticks = [10.0**power for power in range(decades[0], decades[1] + 1, every)]
    axis.yaxis.set_major_locator(FixedLocator([*(-tick for tick in reversed(ticks)), 0.0, *ticks]))
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.12g}"))
    axis.yaxis.set_minor_locator(NullLocator())
    axis.axhline(0.0, color="grey", linewidth=0.6)


def _named(row: Any) -> str:
    return f"{row['planner']}{points.ASKED if row['asked'] else ''}"
