"""What each planner takes a case and solves, and which of them nobody dominates."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from analysis import load
from analysis.load import SETTING, planted, provenance, spending
from analysis.page.drawing import COLOURS
from analysis.stats.intervals import CLUSTER, interval, n_clusters, ratio, share
from analysis.tables.search_cells import undominated
from grid.core.untrusted import shown

TOKENS, MONEY = "tokens", "money"
PLACE = SETTING[:3]
UNDISTURBED = "none"


def read(root: Path) -> pd.DataFrame:
    """One row a cell, as `load.episodes` gives them, with `tokens`.

    Raises:
        StoreError: the folder cannot be read.
    """
    cells = load.episodes(root, [*planted.SIMULATED_COLUMNS, *spending.SPENT])
    return cells.assign(tokens=spending.tokens(cells))


def about(cells: pd.DataFrame) -> str:
    """What every caption begins with: a simulated policy, simulated tools."""
    return planted.simulated_notice(cells) + provenance.notice(cells)


def cost_of(cells: pd.DataFrame) -> str:
    """MONEY where every model has a price, else TOKENS."""
    paid = cells.groupby("model", observed=True)["money"].max()
    return MONEY if len(paid) and (paid > 0).all() else TOKENS


def points(cells: pd.DataFrame) -> pd.DataFrame:
    """One row a setting, undisturbed ones first: SETTING, what it solves and takes, and whether it is on the frontier.

    Columns: `cases`, `clusters`; `success` with `_low` and `_high` (95%, over clusters); TOKENS and MONEY, means per
    case; `asked`: its planner asked, in some case, whether that was resolved; `frontier`: no planner on the same terms
    (asked or not) of its model, dataset and robustness does at least as well at no more cost (`cost_of`), by means.

    Of those on a frontier, in the order of their cost: `gain`, the paired difference in success to the one before (on
    the cases that both have) with bounds, and `times`, the ratio of their costs with bounds. NaN for the first.
    """
    cost = cost_of(cells)
    by_setting = dict(iter(cells.groupby(SETTING, sort=False, observed=True)))
    means = {key: _by_case(own) for key, own in by_setting.items()}
    rows = []
    for key, own in by_setting.items():
        success, low, high = share(means[key]["success"].dropna())
        found: dict[str, Any] = dict(zip(SETTING, map(str, key), strict=True))
        found |= {"cases": len(means[key]), "clusters": n_clusters(means[key]), "success": success}
        found |= {"success_low": low, "success_high": high}
        found |= {name: means[key][name].mean() for name in (TOKENS, MONEY)}
        rows.append(found | {"asked": bool((own["resolved_checks"].fillna(0) > 0).any())})
    table = pd.DataFrame(rows).assign(frontier=False, gain=np.nan, times=np.nan)
    table = table.assign(**{f"{name}_{end}": np.nan for name in ("gain", "times") for end in ("low", "high")})
    keys = list(by_setting)
    for _, group in table.groupby([*PLACE, "asked"], sort=False):
        best = group[undominated(group["success"].to_numpy(np.float64), group[cost].to_numpy(np.float64))]
        table.loc[best.index, "frontier"] = True
        ordered = best.sort_values([cost, "planner"], kind="stable").index
        for before, place in itertools.pairwise(ordered):
            for name, value in _step(means[keys[place]], means[keys[before]], cost).items():
                table.loc[place, name] = value
    return table


def comparable(table: pd.DataFrame, cost: str) -> pd.DataFrame:
    """The rows of which success and a cost above 0 are known, in places where two planners or more have them."""
    known = table[table["success"].notna() & (table[cost] > 0)]
    return known[known.groupby(PLACE)["planner"].transform("size") > 1]


def by_place(table: pd.DataFrame) -> Iterator[tuple[tuple[str, str, str], pd.DataFrame]]:
    """The rows of each model, dataset and robustness setting."""
    for key, own in table.groupby(PLACE, sort=False):
        model, dataset, robustness = map(str, key)
        yield (model, dataset, robustness), own


def _by_case(own: pd.DataFrame) -> pd.DataFrame:
    return own.groupby([CLUSTER, "case_id"], sort=True, observed=True)[["success", TOKENS, MONEY]].mean()


def _step(own: pd.DataFrame, before: pd.DataFrame, cost: str) -> dict[str, float]:
    """From one planner of a frontier to the next."""
    both = own.join(before.add_suffix("_before"), how="inner")
    known = both[["success", "success_before", cost, f"{cost}_before"]].dropna()
    gain = interval(known["success"] - known["success_before"], reach=1.0)
    times = ratio(known[cost], known[f"{cost}_before"])
    return {
        f"{name}{end}": value
        for name, found in (("gain", gain), ("times", times))
        for end, value in zip(("", "_low", "_high"), found, strict=True)
    }


# One panel of success against a cost: points with intervals, the frontier, and a name for every point.


ASKED = " (asked)"
"""What stands behind the name of a planner that asked whether cases were resolved."""
_OTHER, _OTHER_NAME = "#8a9099", "#5c636b"
_LINES = {False: "-", True: ":"}
_NAME_INCHES = 0.135  # from one name to the next
_FRAME_INCHES = 0.85  # title and labels above and below the axes
_LEAST_INCHES = 3.4
_WIDEST = 10.0  # largest cost / smallest, up to which an axis is linear
_CUT = 44  # characters of a name


def height(names: int) -> float:
    """Inches of a panel in which so many names have room."""
    return max(_LEAST_INCHES, _FRAME_INCHES + _NAME_INCHES * names)


def draw_panel(axis: Axes, own: pd.DataFrame, cost: str, frontier: str, inches: float) -> None:
    """Draw planners on an axis.

    Args:
        axis: a panel `inches` high.
        own: a row for each planner: `planner`, `success` with `_low` and `_high`, `asked`, `cost`, `frontier`.
        cost: the column of what it takes; rows without a cost above 0 have no place.
        frontier: the column of flags: who is joined by a line. The others are grey.
        inches: the panel's height.
    """
    known = own[own["success"].notna() & (own[cost] > 0)]
    if known.empty:
        return
    for asked, group in known.groupby("asked", sort=True):
        best = group[group[frontier]].sort_values(cost)
        axis.plot(best[cost], best["success"], color=_terms(asked), linestyle=_LINES[bool(asked)], linewidth=1.2,
                  drawstyle="steps-post", zorder=1)  # fmt: skip
    for row in known.sort_values(frontier, kind="stable").to_dict("records"):
        colour = _terms(row["asked"]) if row[frontier] else _OTHER
        axis.errorbar(row[cost], row["success"], yerr=_reach(row), color=colour, marker="o" if row[frontier] else "s",
                      markersize=5 if row[frontier] else 4, markerfacecolor="white" if row["asked"] else None,
                      elinewidth=0.7, capsize=1.5)  # fmt: skip
    _scales(axis, known, cost)
    _name(axis, known, cost, frontier, inches)


def _scales(axis: Axes, known: pd.DataFrame, cost: str) -> None:
    least, most = float(known[cost].min()), float(known[cost].max())
    if most > _WIDEST * least:
        axis.set_xscale("log")
        plain(axis.xaxis, known[cost])
        axis.margins(x=0.08)
    else:
        axis.set_xlim(0, most * 1.06)
        axis.xaxis.set_major_locator(MaxNLocator(6))
        axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
    highest = float(np.nanmax(known[["success", "success_high"]].to_numpy(np.float64)))
    top = 1.02 if highest > 0.7 else max(highest * 1.08, 0.05)  # below, the upper part would be empty
    axis.set_ylim(-0.02 * top, top)
    axis.grid(alpha=0.25)


def plain(axis: Axis, values: pd.Series[float]) -> None:
    """Numbers without powers on a logarithmic axis, no more of them than there is room for."""
    decades = np.log10(values.max() / values.min())
    axis.set_major_locator(LogLocator(subs=(1.0,) if decades > 2 else (1.0, 3.0) if decades > 1 else (1.0, 2.0, 5.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.12g}"))
    axis.set_minor_formatter(NullFormatter())


def _name(axis: Axes, known: pd.DataFrame, cost: str, frontier: str, inches: float) -> None:
    """Names to the right of the panel, in the points' order, each with a line to its point."""
    ordered = known.sort_values(["success", cost], ascending=[True, False])
    low, high = axis.get_ylim()
    apart = _NAME_INCHES / (inches - _FRAME_INCHES)
    heights = spread((ordered["success"].to_numpy(np.float64) - low) / (high - low), apart)
    for row, place in zip(ordered.to_dict("records"), heights, strict=True):
        colour = _terms(row["asked"]) if row[frontier] else _OTHER_NAME
        line = {"arrowstyle": "-", "color": colour, "linewidth": 0.4, "alpha": 0.6, "relpos": (0.0, 0.5)}
        axis.annotate(_named(row), (row[cost], row["success"]), xytext=(1.03, place), textcoords=axis.transAxes,
                      fontsize=7, va="center", color=colour, annotation_clip=False, arrowprops=line)  # fmt: skip


def spread(places: npt.NDArray[np.float64], apart: float) -> npt.NDArray[np.float64]:
    """Places in ascending order, moved so that two are at least `apart`, and none is above 1 where all have room.

    Those that are far enough from others stay where they are.
    """
    steps = apart * np.arange(len(by_place))
    found = np.maximum.accumulate(by_place - steps) + steps
    ceiling = 1.0 - steps[::-1]
    return np.asarray(np.minimum(found, ceiling), dtype=np.float64)


def _terms(asked: object) -> str:
    """The colour of those who asked whether cases were resolved, and of the others."""
    return COLOURS[1] if asked else COLOURS[0]


def _reach(row: Mapping[Any, Any]) -> npt.NDArray[np.float64]:
    bounds = np.clip([row["success_low"], row["success_high"]], 0.0, 1.0)
    return np.asarray(np.nan_to_num(np.abs(bounds - row["success"]))[:, None])


def _named(row: Mapping[Any, Any]) -> str:
    label = shown(str(row["planner"]))
    return f"{label if len(label) <= _CUT else label[: _CUT - 1] + '…'}{ASKED if row['asked'] else ''}"
