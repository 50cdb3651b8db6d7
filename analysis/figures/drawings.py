"""The ordered list of all figures for a results folder, and the figures of the planning-horizon study."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, StrMethodFormatter

from analysis.figures import plans, search
from analysis.load import provenance, queries
from analysis.page.drawing import Drawing, each_panel, percents, svg_of
from analysis.page.table import FIRST_SECTION
from analysis.papers import horizon, study
from analysis.papers.horizon import FH, PLACE, REPEATS, SH
from analysis.stats import intervals
from analysis.stats.intervals import CLUSTER, Interval, amount, share
from analysis.tables import calibration, failures, frontier, plan_cells, trajectories, two_numbers
from grid.core.untrusted import shown

_EDGES = "calls divided by the dependencies in the longest chain, as in the official code"


def drawings(root: Path) -> list[Drawing]:
    """All figures for which a folder has data.

    They come in this order: the study, planners with two varied parameters, failures, calibration, trajectories,
    searches, plans, and cost against success.

    Raises:
        StoreError: the folder cannot be read.
    """
    of_study = [replace(drawing, section=FIRST_SECTION) for drawing in _of_study(root)]
    return [
        *of_study,
        *two_numbers.drawings(root),
        *failures.drawings(root),
        *calibration.drawings(root),
        *_of_trajectories(root),
        *search.drawings(root),
        *plans.drawings(root, plan_cells.read(root)),
        *frontier.drawings(root),
    ]


def _of_trajectories(root: Path) -> list[Drawing]:
    cells = trajectories.read(root)
    return trajectories.drawings(root, cells, provenance.simulated_notice(cells)) if len(cells) else []


def _of_study(root: Path) -> list[Drawing]:
    """The figures of the planning-horizon study; none if one of its two planners did not run."""
    episodes = study.rows(root, [provenance.ENGINE])
    if not study.both(episodes):
        return []
    about = provenance.simulated_notice(episodes)
    found = _of_instances(root, episodes, about)
    told = f"{about}95% intervals: {intervals.SHARES}"
    for column in ("depth", "breadth"):
        if episodes[column].notna().any():
            query = queries.by_case(root, study.SUCCESS | {column: column}, queries.where(study.PLANNERS))
            title = f"success against {column} (planning_horizon §4.3)"
            svg = success_against(episodes, column)
            found.append(
                Drawing(column, title, f"{told}; more than 8 values of {column} are binned by quantiles", svg, query)
            )
    query = queries.by_case(root, study.TOKENS, queries.where(study.PLANNERS))
    svg = tokens(horizon.accuracy_and_tokens(episodes), episodes)
    told = f"{about}95% intervals: {intervals.AMOUNTS}"
    found.append(Drawing("tokens", "tokens of each planner (planning_horizon §4.2)", told, svg, query))
    return [*found, *_heatmaps(root, episodes, about)]


def _of_instances(root: Path, episodes: pd.DataFrame, about: str) -> list[Drawing]:
    """Figure 3; no figure if no plan's shape is known."""
    cases = episodes.drop_duplicates(["dataset", "case_id"]).dropna(subset=["depth", "breadth"])
    if cases.empty:
        return []
    told = f"{about}number of cases by the depth and breadth of the reference plan, both counted in calls (§3.1)"
    alike = _correlations(cases.dropna(subset=["breadth_edges"]))
    if alike:
        told += f"; correlation of the breadth in calls with the breadth in edges ({_EDGES}): {', '.join(alike)}"
    title = "figure 3: cases by depth and breadth (planning_horizon §4.1)"
    query = queries.shapes(root, queries.where(study.PLANNERS))
    return [Drawing("instances", title, told, instances(episodes), query)]


def _correlations(cases: pd.DataFrame) -> list[str]:
    """For each data set in which both kinds of breadth vary: their correlation, and the number of cases."""
    found = []
    for dataset, own in cases.groupby("dataset", sort=True, observed=True):
        if own["breadth"].nunique() > 1 and own["breadth_edges"].nunique() > 1:
            found.append(f"{own['breadth'].corr(own['breadth_edges']):.2f} ({dataset}, {len(own):,} cases)")
    return found


def _heatmaps(root: Path, episodes: pd.DataFrame, about: str) -> list[Drawing]:
    """The heatmaps of §4.4 (if both robustness settings ran) and of §4.5."""
    found = []
    changes, condition = horizon.robustness_change(episodes), queries.where(study.PLANNERS)
    if not changes.empty:
        title = f"change of accuracy from {horizon.HIGH} to {horizon.LOW} (planning_horizon §4.4)"
        told = (
            f"{about}in percentage points; table 4 has the same values with intervals; red: fewer questions are solved "
            f"under {horizon.LOW}"
        )
        query = queries.by_case(root, study.SUCCESS, condition)
        found.append(Drawing("robustness-change", title, told, robustness(changes), query))
    title = "episodes with a repeated call (planning_horizon §4.5)"
    told = (
        f"{about}in % of episodes; table 5 has the same values with intervals; SH − FH: in percentage points, blue if "
        "SH repeats calls more often"
    )
    query = queries.by_case(root, list(horizon.REPEATS), condition)
    svg = repeated(horizon.repeated_calls(episodes))
    return [*found, Drawing("repeated-calls", title, told, svg, query)]


# Figures of the planning-horizon study: figure 3, the heatmaps of §4.4 and §4.5 (both print numbers in cells), success
# against depth and breadth (§4.3), and tokens (§4.2).


_STYLE = {FH: ("#0072B2", "o", "-", -1.0), SH: ("#D55E00", "s", "--", 1.0)}
"""Each planner's colour, marker and line, and the direction in which its points are moved to keep intervals apart."""
_EXACT, _QUANTILES = 8, 5
"""Up to `_EXACT` different values have one point each; if there are more, they are put into `_QUANTILES` bins."""
_ACROSS = 3
_LONGEST = 24  # maximum length of a label in front of a row or below a column, in characters
_CELL, _FRAME = 0.42, 1.3  # height in inches of a row, and of titles, ticks and labels
_LIGHT, _DIVERGING = "Blues", "RdBu"
_BINS = 12  # maximum number of bins of breadth; number of bins of depth if it spans at least twice as many values
_PALE = 10.0  # percentage points; the colour scale extends at least this far, so that small values look pale
_DARK = 0.55  # fraction of the colour scale above which text is white

Numbers = npt.NDArray[np.float64]


def instances(episodes: pd.DataFrame) -> str:
    """Figure 3 as an SVG element: the number of cases by depth and breadth, with one panel per dataset.

    Depth and breadth are counted in calls (§3.1). Each square of the figure shows its number of cases, or nothing if
    it has no case.
    """
    cases = episodes.drop_duplicates(["dataset", "case_id"]).dropna(subset=["depth", "breadth"])
    groups = list(cases.groupby("dataset", sort=True, observed=True))

    def draw(axes: Sequence[Axes]) -> None:
        for axis, (dataset, group) in each_panel(axes, groups):
            _instances_panel(axis, group["depth"].to_numpy(np.float64), group["breadth"].to_numpy(np.float64))
            axis.set_title(f"{_short(dataset)}: {len(group):,} cases", fontsize=8)

    return svg_of("instances", math.ceil(len(groups) / _ACROSS), min(_ACROSS, len(groups)), draw, width=4.2, height=3.2)


def robustness(changes: pd.DataFrame) -> str:
    """§4.4 as an SVG element: the change in success, in points, from forgiving to strict tools, by planner.

    `changes` are table 4's rows. The heatmap has one row per dataset and one column per model.
    """
    panels = {"FH": "change_fh", "SH": "change_sh", "SH − FH": "change_difference"}
    return _planners("robustness", changes, ["dataset"], panels, diverging=list(panels))


def repeated(shares: pd.DataFrame) -> str:
    """§4.5 as an SVG element: the share, in %, of episodes with a repeated call, by planner and definition.

    `shares` are table 5's rows. The heatmap has one row per dataset and robustness setting, and one column per model.
    """
    panels = {
        f"{label}{' (points)' * (part == 'difference')}, {name}": f"{column}_{part}"
        for column, name in REPEATS.items()
        for label, part in (("FH", FH), ("SH", SH), ("SH − FH", "difference"))
    }
    wide = [label for label, column in panels.items() if column.endswith("difference")]
    return _planners("repeated", shares, ["dataset", "robustness"], panels, diverging=wide)


def _planners(
    name: str, frame: pd.DataFrame, rows: Sequence[str], panels: dict[str, str], diverging: Sequence[str]
) -> str:
    """One heatmap per panel, three in a row; all colour scales end at the same value.

    The scale of a panel in `diverging` starts at minus this end value; the scale of any other panel starts at 0.
    """
    tables = {label: frame.pivot_table(index=list(rows), columns="model", values=column, dropna=False) * 100
              for label, column in panels.items()}  # fmt: skip
    tables = {label: table.dropna(how="all") for label, table in tables.items()}
    every = [np.nanmax(np.abs(table.to_numpy(np.float64)), initial=_PALE) for table in tables.values()]
    high = float(max(every))
    size = max((len(table) for table in tables.values()), default=1)

    def draw(axes: Sequence[Axes]) -> None:
        for place, (axis, (label, table)) in enumerate(zip(axes, tables.items(), strict=True)):
            _panel(axis, table, high, label in diverging)
            axis.set_title(label, fontsize=8)
            axis.tick_params(labelleft=place % _ACROSS == 0)

    deep = math.ceil(len(panels) / _ACROSS)
    columns = max((table.shape[1] for table in tables.values()), default=1)
    return svg_of(name, deep, _ACROSS, draw, width=max(2.6, 0.8 * columns + 1.6), height=_FRAME + _CELL * size)


def _panel(axis: Axes, frame: pd.DataFrame, high: float, diverging: bool) -> None:
    values = frame.to_numpy(np.float64)
    low = -high if diverging else 0.0
    # Draw a mesh, not an image, because a page loads no images and there are few cells.
    axis.pcolormesh(values, cmap=_DIVERGING if diverging else _LIGHT, vmin=low, vmax=high)
    axis.invert_yaxis()
    for (row, column), value in np.ndenumerate(values):
        if not np.isnan(value):
            dark = abs(value) / high > _DARK
            text, colour = f"{value:{'+.1f' if diverging else '.1f'}}", "white" if dark else "black"
            axis.text(column + 0.5, row + 0.5, text, ha="center", va="center", fontsize=8, color=colour)
    names = [_short(model) for model in frame.columns]
    axis.set_xticks(np.arange(len(names)) + 0.5, names, fontsize=7, rotation=20, ha="right", rotation_mode="anchor")
    axis.set_yticks(np.arange(len(frame)) + 0.5, [_row(place) for place in frame.index], fontsize=7)
    axis.spines[:].set_visible(False)


def _instances_panel(axis: Axes, depth: Numbers, breadth: Numbers) -> None:
    deep = np.arange(depth.min() - 0.5, depth.max() + 1.5)
    if len(deep) > 2 * _BINS:
        deep = np.linspace(depth.min() - 0.5, depth.max() + 0.5, _BINS + 1)
    wide = np.arange(1.0, max(float(breadth.max()), 1.0) + 0.251, 0.25)
    if len(wide) > _BINS + 1:
        wide = np.linspace(1.0, float(breadth.max()) + 1e-9, _BINS + 1)
    counts, _, _ = np.histogram2d(depth, breadth, bins=[deep, wide])
    shown_counts = np.where(counts > 0, counts, np.nan).T
    axis.pcolormesh(deep, wide, shown_counts, cmap=_LIGHT, vmin=0, vmax=float(counts.max()))
    for (row, column), number in np.ndenumerate(shown_counts):
        if not np.isnan(number):
            dark = number / counts.max() > _DARK
            axis.text((deep[column] + deep[column + 1]) / 2, (wide[row] + wide[row + 1]) / 2, f"{number:.0f}",
                      ha="center", va="center", fontsize=7, color="white" if dark else "black")  # fmt: skip
    axis.set_xlabel("depth (calls)")
    axis.set_ylabel("breadth (calls / depth)")
    axis.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    axis.set_yticks(wide, [f"{edge:.2f}" for edge in wide])


def _row(place: Any) -> str:
    return "\n".join(map(_short, place)) if isinstance(place, tuple) else _short(place)


def _short(text: object) -> str:
    found = shown(str(text))
    return found if len(found) <= _LONGEST else found[: _LONGEST - 1] + "…"


def success_against(episodes: pd.DataFrame, column: str) -> str:
    """An SVG element: success of FH and SH by depth or breadth, with a panel for each dataset, model and robustness.

    A point is the mean over cases of each case's mean over trials; bars are 95% intervals (`intervals.share`).
    """
    groups = [(key, group) for key, group in episodes.groupby(PLACE, sort=True, observed=True)]

    def draw(axes: Sequence[Axes]) -> None:
        for axis, (key, group) in each_panel(axes, groups):
            _success_panel(axis, group, column)
            axis.set_title(_label(key), fontsize=8)
            axis.set_xlabel(column)
            percents(axis.yaxis, "success")
        axes[0].legend(frameon=False)

    rows = math.ceil(len(groups) / _ACROSS)
    return svg_of(f"success-{column}", rows, min(_ACROSS, len(groups)), draw)


def tokens(comparisons: pd.DataFrame, episodes: pd.DataFrame) -> str:
    """An SVG element: mean input and output tokens per case for FH and SH, one line per row of table 2 (`comparisons`).

    Bars are 95% intervals (Student's t over clusters, on the logarithm of the mean).
    """
    places = [tuple(row) for row in comparisons[PLACE].to_numpy()]
    groups = {tuple(map(str, key)): group for key, group in episodes.groupby(PLACE, observed=True)}

    def draw(axes: Sequence[Axes]) -> None:
        for axis, column in zip(axes, ("input_tokens", "output_tokens"), strict=True):
            for planner, (colour, marker, _, side) in _STYLE.items():
                means = [_interval(groups[place], planner, column) for place in places]
                heights = np.arange(len(places), dtype=np.float64) + 0.12 * side
                _points(axis, means, heights, colour, marker, planner)
            axis.set_xlabel(column.replace("_", " ") + " per case")
            axis.set_yticks(range(len(places)), [_label(place) for place in places], fontsize=8)
            axis.set_ylim(len(places) - 0.5, -0.5)
            axis.set_xlim(left=0)
            axis.xaxis.set_major_locator(MaxNLocator(5))
            axis.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
            axis.grid(axis="x", alpha=0.3)
        axes[1].tick_params(labelleft=False)
        axes[0].legend(frameon=False)

    return svg_of("tokens", 1, 2, draw, width=4.2, height=0.9 + 0.5 * len(places))


def _points(
    axis: Axes, means: Sequence[Interval], heights: npt.NDArray[np.float64], colour: str, marker: str, name: str
) -> None:
    centre = np.array([found.mean for found in means])
    reach = np.nan_to_num([[found.mean - found.low, found.high - found.mean] for found in means]).T
    axis.errorbar(centre, heights, xerr=reach, color=colour, marker=marker, linestyle="none", capsize=2, label=name)


def _success_panel(axis: Axes, group: pd.DataFrame, column: str) -> None:
    known = group.dropna(subset=[column, "success"])
    if known.empty:
        return
    bins = _binned(known[column].astype(np.float64))
    centres = known[column].astype(np.float64).groupby(bins).mean()
    step = float(centres.diff().min()) if len(centres) > 1 else 1.0
    for planner, (colour, marker, line, side) in _STYLE.items():
        found = [_interval(known[bins == place], planner, "success") for place in centres.index]
        means = np.array([one.mean for one in found])
        bounds = np.array([[one.low, one.high] for one in found]).T
        reach = np.nan_to_num(np.abs(bounds - means))
        axis.errorbar(centres.to_numpy() + 0.06 * side * step, means, yerr=reach, color=colour, marker=marker,
                      linestyle=line, markersize=4, linewidth=1.2, capsize=2, label=planner)  # fmt: skip
    axis.set_ylim(-0.02, 1.02)
    if len(centres) == 1:  # for a single value, avoid an axis in hundredths
        axis.set_xlim(float(centres.iloc[0]) - 1, float(centres.iloc[0]) + 1)
    axis.xaxis.set_major_locator(MaxNLocator(6, integer=column == "depth", min_n_ticks=1))


def _binned(values: pd.Series[float]) -> pd.Series[Any]:
    if values.nunique() <= _EXACT:
        return values.rank(method="dense").astype(int)
    edges = np.unique(np.quantile(values, np.linspace(0, 1, _QUANTILES + 1)))
    return pd.Series(np.clip(np.searchsorted(edges, values, side="right"), 1, len(edges) - 1), index=values.index)


def _interval(group: pd.DataFrame, planner: str, column: str) -> Interval:
    own = group[group["planner"].astype(str) == planner]
    cases = own.groupby([CLUSTER, "case_id"], observed=True)[column].mean().dropna()
    return share(cases) if column == "success" else amount(cases)


def _label(place: Any) -> str:
    return "\n".join(shown(str(part)) for part in place)
