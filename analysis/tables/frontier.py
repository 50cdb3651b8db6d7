"""Cost against success: each planner's success and cost per case, the planners on the frontier, and the figures."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.collections import LineCollection
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from analysis import load
from analysis.load import SETTING, provenance, queries, spending
from analysis.load.queries import Asked, ask
from analysis.page.drawing import COLOURS, Drawing, each_panel, percents, svg_of
from analysis.page.table import MISSING, POINTS, SIGNIFICANT, Column, Table, bounded, number
from analysis.stats import intervals
from analysis.stats.intervals import CLUSTER, interval, n_clusters, ratio, share
from analysis.tables.search_cells import undominated
from grid.core.untrusted import shown

# Each planner's success and cost per case, and the planners that no other planner dominates.


TOKENS, MONEY = "tokens", "money"
PLACE = SETTING[:3]
UNDISTURBED = "none"


def read(root: Path) -> pd.DataFrame:
    """One row per cell, from `load.episodes`.

    Raises:
        StoreError: the folder cannot be read.
    """
    return load.episodes(root, [*provenance.SIMULATED_COLUMNS, *spending.SPENT])


def about(cells: pd.DataFrame) -> str:
    """The start of every caption: the notices about a simulated policy and about simulated tools."""
    return provenance.simulated_notice(cells) + provenance.notice(cells)


def cost_of(cells: pd.DataFrame) -> str:
    """MONEY if every model has a price, else TOKENS."""
    paid = cells.groupby("model", observed=True)["money"].max()
    return MONEY if len(paid) and (paid > 0).all() else TOKENS


def points(cells: pd.DataFrame) -> Asked:
    """One row per setting, undisturbed settings first: SETTING, success, costs, and a flag for the frontier.

    Columns: `cases`, `clusters`; `success` with `_low` and `_high` (95%, over clusters); TOKENS and MONEY, means per
    case; `asked`: whether the planner asked, in at least one case, whether the case was resolved; `frontier`: whether
    the setting is on the frontier. A setting is on the frontier unless it is dominated: another planner of its model,
    dataset and robustness, on the same terms (both asked, or neither did), is better in one of mean success and mean
    cost (`cost_of`) and not worse in the other. Each setting on a frontier is compared with the next cheaper setting on
    it, over the cases that both have: `gain` is the paired difference in success, `times` the ratio of costs, both with
    bounds; both are NaN for the cheapest setting and for settings that are on no frontier. `cells` must not be empty.
    """
    values = {"success": "success", TOKENS: spending.SQL, MONEY: MONEY, "checks": "resolved_checks"}
    cost, asked = cost_of(cells), ask(cells, queries.of_cases(values))
    grouped = asked.rows.groupby(SETTING, sort=False, observed=True)
    means = {key: own.set_index([CLUSTER, "case_id"])[[*values]] for key, own in grouped}
    rows = []
    for key, own in means.items():
        found: dict[str, Any] = dict(zip(SETTING, map(str, key), strict=True))
        found |= {"cases": len(own), "clusters": n_clusters(own)}
        found |= share(own["success"].dropna()).named("success")
        found |= {name: own[name].mean() for name in (TOKENS, MONEY)}
        rows.append(found | {"asked": bool((own["checks"] > 0).any())})
    frame = pd.DataFrame(rows).assign(frontier=False, gain=np.nan, times=np.nan)
    frame = frame.assign(**{f"{name}_{end}": np.nan for name in ("gain", "times") for end in ("low", "high")})
    keys = list(means)
    for _, group in frame.groupby([*PLACE, "asked"], sort=False):
        best = group[undominated(group["success"].to_numpy(np.float64), group[cost].to_numpy(np.float64))]
        frame.loc[best.index, "frontier"] = True
        ordered = best.sort_values([cost, "planner"], kind="stable").index
        for before, place in itertools.pairwise(ordered):
            for name, value in _step(means[keys[place]], means[keys[before]], cost).items():
                frame.loc[place, name] = value
    return asked._replace(rows=frame)


def comparable(frame: pd.DataFrame, cost: str) -> pd.DataFrame:
    """The rows with known success and a cost above 0.

    A model, dataset and robustness setting is left out if fewer than two planners have such rows.
    """
    known = frame[frame["success"].notna() & (frame[cost] > 0)]
    return known[known.groupby(PLACE)["planner"].transform("size") > 1]


def by_place(frame: pd.DataFrame) -> Iterator[tuple[tuple[str, str, str], pd.DataFrame]]:
    """The rows of each model, dataset and robustness setting."""
    for key, own in frame.groupby(PLACE, sort=False):
        model, dataset, robustness = map(str, key)
        yield (model, dataset, robustness), own


def _step(own: pd.DataFrame, before: pd.DataFrame, cost: str) -> dict[str, float]:
    """The gain and the ratio of costs from one planner of a frontier to the next."""
    both = own.join(before.add_suffix("_before"), how="inner")
    known = both[["success", "success_before", cost, f"{cost}_before"]].dropna()
    gain = interval(known["success"] - known["success_before"], reach=1.0)
    times = ratio(known[cost], known[f"{cost}_before"])
    return gain.named("gain") | times.named("times")


# One panel of success against a cost: points with intervals, the frontier, and a name for every point.


ASKED = " (asked)"
"""The text after the name of a planner that asked whether cases were resolved."""
_OTHER, _OTHER_NAME = "#8a9099", "#5c636b"
_LINES = {False: "-", True: ":"}
_NAME_INCHES = 0.135  # distance from one name to the next
_FRAME_INCHES = 0.85  # height of the title and labels above and below the axes
_LEAST_INCHES = 3.4
_WIDEST = 10.0  # ratio of the largest to the smallest cost up to which an axis is linear
_CUT = 44  # maximum length of a name, in characters


def height(names: int) -> float:
    """The height, in inches, of a panel with room for this number of names."""
    return max(_LEAST_INCHES, _FRAME_INCHES + _NAME_INCHES * names)


def draw_panel(axis: Axes, own: pd.DataFrame, cost: str, frontier: str, inches: float) -> None:
    """Draw planners on an axis.

    Args:
        axis: a panel `inches` high.
        own: a row for each planner: `planner`, `success` with `_low` and `_high`, `asked`, and the columns that `cost`
            and `frontier` name. Rows without a known success and a cost above 0 are not drawn.
        cost: the column of the cost.
        frontier: the column of flags that say whether a line joins the planner to others. Planners without the flag are
            grey.
        inches: the panel's height.
    """
    known = own[own["success"].notna() & (own[cost] > 0)]
    if known.empty:
        return
    for asked, group in known.groupby("asked", sort=True):
        best = group[group[frontier]].sort_values(cost)
        axis.plot(best[cost], best["success"], color=_terms(asked), linestyle=_LINES[bool(asked)], linewidth=1.2,
                  drawstyle="steps-post", zorder=1)  # fmt: skip
    for (joined, hollow), group in known.groupby([frontier, "asked"], sort=True):
        axis.errorbar(group[cost], group["success"], yerr=_reach(group), color=_terms(hollow) if joined else _OTHER,
                      linestyle="none", marker="o" if joined else "s", markersize=5 if joined else 4,
                      markerfacecolor="white" if hollow else None, elinewidth=0.7, capsize=1.5)  # fmt: skip
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
    top = 1.02 if highest > 0.7 else max(highest * 1.08, 0.05)  # else the upper part would be empty
    axis.set_ylim(-0.02 * top, top)
    axis.grid(alpha=0.25)


def plain(axis: Axis, values: pd.Series[float]) -> None:
    """Label a logarithmic axis with plain numbers instead of powers, as many as there is room for."""
    decades = np.log10(values.max() / values.min())
    axis.set_major_locator(LogLocator(subs=(1.0,) if decades > 2 else (1.0, 3.0) if decades > 1 else (1.0, 2.0, 5.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.12g}"))
    axis.set_minor_formatter(NullFormatter())


def _name(axis: Axes, known: pd.DataFrame, cost: str, frontier: str, inches: float) -> None:
    """Write names on the right of the panel, in the order of the points, each with a line to its point."""
    ordered = known.sort_values(["success", cost], ascending=[True, False])
    low, high = axis.get_ylim()
    apart = _NAME_INCHES / (inches - _FRAME_INCHES)
    heights = spread((ordered["success"].to_numpy(np.float64) - low) / (high - low), apart)
    rows = ordered.to_dict("records")
    colours = [_terms(row["asked"]) if row[frontier] else _OTHER_NAME for row in rows]
    for row, place, colour in zip(rows, heights, colours, strict=True):
        axis.text(1.03, place, _named(row), transform=axis.transAxes, fontsize=7, va="center", color=colour)
    axis.get_xlim()  # matplotlib computes limits from the data only when they are asked for
    places = (axis.transScale + axis.transLimits).transform(ordered[[cost, "success"]].to_numpy(np.float64))
    lines = [[(1.03, height), tuple(place)] for height, place in zip(heights, places, strict=True)]
    axis.add_collection(LineCollection(lines, colors=colours, linewidths=0.4, alpha=0.6, zorder=1, clip_on=False,
                                       transform=axis.transAxes), autolim=False)  # fmt: skip


def spread(places: npt.NDArray[np.float64], apart: float) -> npt.NDArray[np.float64]:
    """Positions in ascending order, moved to differ by at least `apart`; none exceeds 1.

    Positions that are far enough from others stay where they are. If there is not enough room, the first fall below 0.
    `places` are between 0 and 1, in ascending order.
    """
    steps = apart * np.arange(len(places))
    found = np.maximum.accumulate(places - steps) + steps
    ceiling = 1.0 - steps[::-1]
    return np.asarray(np.minimum(found, ceiling), dtype=np.float64)


def _terms(asked: object) -> str:
    """The colour for planners that asked whether cases were resolved, or the colour for all others."""
    return COLOURS[1] if asked else COLOURS[0]


def _reach(rows: pd.DataFrame) -> npt.NDArray[np.float64]:
    bounds = np.clip(rows[["success_low", "success_high"]].to_numpy(np.float64).T, 0.0, 1.0)
    return np.asarray(np.nan_to_num(np.abs(bounds - rows["success"].to_numpy(np.float64))))


def _named(row: Mapping[Any, Any]) -> str:
    label = shown(str(row["planner"]))
    return f"{label if len(label) <= _CUT else label[: _CUT - 1] + '…'}{ASKED if row['asked'] else ''}"


SECTION = "Cost against success"
NAME = "frontier of cost and success"
_PANELS = 12  # maximum number of panels per figure
_ACROSS, _WIDTH = 2, 5.6
_TITLE = 60  # maximum length of a title's line, in characters
_COSTS = {
    TOKENS: f"means per case; {spending.TOLD}",
    MONEY: "mean US dollars per case, for all roles, at the prices of their models",
}
_AXIS = {TOKENS: "tokens per case", MONEY: "US dollars per case"}
_ON = (
    "on the frontier: no other planner with the same model, dataset and robustness is better in success or cost "
    "without being worse in the other (only means are compared)"
)
_TERMS = (
    "planners that asked whether a case was resolved are marked (asked) and have a frontier of their own (in the "
    "figure: dotted, with hollow points), because their terms are different"
)


def drawings(root: Path) -> list[Drawing]:
    """Figures with a panel for each place where two or more planners are comparable; none if there is no such place.

    A place is a model, a dataset and a robustness setting. Figures of undisturbed settings come first.

    Raises:
        StoreError: the folder cannot be read.
    """
    cells, (frame, query), cost = _read(root)
    if frame.empty:
        return []
    told = (
        f"{_COSTS[cost]}; bars: 95% intervals of success, {intervals.SHARES}; joined by a line: the planners on the "
        f"frontier; {_ON}; grey squares: the other planners; if costs differ by more than a factor of 10, their axis "
        "is logarithmic"
    )
    told += f"; {_TERMS}" * bool(frame["asked"].any())
    found: list[Drawing] = []
    for name, title, own in _parts(frame):
        drawn = cells[cells["model"].isin(own["model"].unique()) & cells["dataset"].isin(own["dataset"].unique())]
        svg, text = _figure(own, cost, f"cost-{len(found) + 1}"), queries.of_files(root, query)
        models, datasets = (own[label].unique() for label in PLACE[:2])
        model, dataset = ("", "") if len(models) + len(datasets) > 2 else (str(models[0]), str(datasets[0]))
        if model:
            name, title = f"{name} {model} {dataset}", f"{model} on {dataset}: {title}"
        found.append(Drawing(name, title, about(drawn) + told, svg, text, SECTION, model, dataset))
    return found


def tables(root: Path) -> list[Table]:
    """A table of the frontiers of all models, datasets and robustness settings; none if no planners are comparable.

    Raises:
        StoreError: the folder cannot be read.
    """
    _, (frame, query), cost = _read(root)
    if frame.empty:
        return []
    best = frame[frame["frontier"]].sort_values([*PLACE, "asked", cost], kind="stable", key=_in_turn(frame))
    rows = best.to_dict("records")
    labels = [*(name for name in PLACE if frame[name].nunique() > 1), "planner"]
    places = [tuple(row[name] for name in [*PLACE, "asked"]) for row in rows]
    return [
        Table(
            name=NAME,
            title="planners on the frontier of cost and success",
            by=[Column(name, partial(_label, name)) for name in labels],
            columns=[
                Column(_AXIS[cost], lambda row: number(row[cost], ",.0f" if cost == TOKENS else SIGNIFICANT)),
                Column("success", lambda row: bounded(row, "success")),
                Column("more", lambda row: bounded(row, "gain", POINTS, missing=MISSING)),
                Column("times the cost", lambda row: bounded(row, "times", ".2f", 1.0, missing=MISSING)),
            ],
            values=best.drop(columns="frontier"),
            query=queries.of_files(root, query),
            about=f"{_ON}; {_COSTS[cost]}; success in %, in brackets 95% intervals ({intervals.SHARES}); more: "
            "success minus that of the row above, in percentage points; times the cost: cost divided by that of the "
            f"row above; both over the cases that both planners have, with 95% intervals ({intervals.TOLD}); if the "
            f"interval of `more` includes 0, the higher cost may gain nothing; {_TERMS}",
            notes=_dominated(frame),
            breaks=frozenset(place for place in range(1, len(rows)) if places[place] != places[place - 1]),
            section=SECTION,
        )
    ]


def _read(root: Path) -> tuple[pd.DataFrame, Asked, str]:
    """The cells, the settings that are compared, and the name of the cost that is used."""

    def made() -> tuple[pd.DataFrame, Asked, str]:
        cells = read(root)
        found, cost = points(cells) if len(cells) else Asked(pd.DataFrame(), ""), cost_of(cells)
        return cells, found._replace(rows=comparable(found.rows, cost)) if len(cells) else found, cost

    return load.once(root, "frontier", made)


def _in_turn(frame: pd.DataFrame) -> Any:
    """A sorting key that keeps labels in the table's order: undisturbed settings come first."""
    order = {name: {value: place for place, value in enumerate(frame[name].unique())} for name in PLACE}
    return lambda column: column.map(order[column.name]) if column.name in order else column


def _label(name: str, row: Mapping[Any, Any]) -> str:
    return f"{row[name]}{ASKED if name == 'planner' and row['asked'] else ''}"


def _dominated(frame: pd.DataFrame) -> list[str]:
    """A note with the names of the planners that are on no frontier; none if there are no such planners."""
    never = frame.groupby("planner", sort=False)["frontier"].any()
    names = [str(name) for name in never.index[~never]]
    return [f"on no frontier: {', '.join(names)}"] if names else []


def _parts(frame: pd.DataFrame) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """The name, the title and the rows of each figure, at most `_PANELS` panels per figure."""
    undisturbed = frame["robustness"] == UNDISTURBED
    names = ("cost undisturbed", "cost disturbed")
    titles = ("cost against success", "cost against success, other robustness settings")
    for name, title, own in zip(names, titles, (frame[undisturbed], frame[~undisturbed]), strict=True):
        panels = [part for _, part in by_place(own)]
        for start in range(0, len(panels), _PANELS):
            number = [f"{start // _PANELS + 1}"] * (len(panels) > _PANELS)
            yield " ".join([name, *number]), ", ".join([title, *number]), pd.concat(panels[start : start + _PANELS])


def _figure(frame: pd.DataFrame, cost: str, name: str) -> str:
    panels = list(by_place(frame))
    rows = -(-len(panels) // _ACROSS)
    inches = height(max(len(own) for _, own in panels))

    def draw(axes: Sequence[Axes]) -> None:
        for axis, ((model, dataset, robustness), own) in each_panel(axes, panels):
            draw_panel(axis, own, cost, "frontier", inches)
            disturbed = "" if robustness == UNDISTURBED else f"\n{robustness}"[: _TITLE + 1]
            axis.set_title(shown(f"{model} on {dataset}"[:_TITLE]) + disturbed[:1] + shown(disturbed[1:]), fontsize=8)
            axis.set_xlabel(_AXIS[cost])
            percents(axis.yaxis, "success")

    return svg_of(name, rows, min(_ACROSS, len(panels)), draw, width=_WIDTH, height=inches)
