"""The tables of calibration and of handing over, for each model and data set with planners that record options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import PercentFormatter
from scipy.special import stdtrit

from analysis.load import SETTING
from analysis.page.drawing import COLOURS, MARKERS, Drawing, each_panel, headed, legend, reach, svg_of
from analysis.page.table import POINTS, Column, Table, count, marks, mean, number
from analysis.page.table import bounded as written
from analysis.stats import calibration, intervals
from analysis.stats.calibration import BINS, Numbers
from analysis.stats.intervals import CLUSTER, Sample, holm, interval, p_value
from analysis.tables import calibrated
from analysis.tables.calibrated import EXACT, Decisions, known
from analysis.tables.rates import LABELS
from grid.core.untrusted import shown

SECTION = "Calibration"
NAME, AGAINST, HANDING_OVER = "calibration", "against the exact choice", "handing over"
LONG = (AGAINST, HANDING_OVER)
"""Prefixes of the names of long tables, which a terminal shows only if all tables are asked for."""
_DECISIONS = (
    "first-pass decisions whose reference is known; no_tool is an answer like any other. A choice is right if its "
    "most probable option is the reference's option; the confidence is the probability of the most probable option"
)
_ECE = (
    f"plain ECE: expected calibration error, Σ |share right − mean confidence| · share of decisions, in {BINS} bins "
    "of equal width, as published elsewhere; it is too high if there are few decisions; noise: the mean of plain ECE "
    "if all confidences were right; ECE: plain ECE without the noise; equal mass: ECE in bins with equal numbers of "
    "decisions"
)
_BRIER = (
    "Brier: mean of (confidence − right)²; constant: the Brier score if every choice's confidence were the share of "
    "right choices"
)
_AREA = (
    "AURC: the error rate of the decisions that are kept, averaged over all possible shares of kept decisions, where "
    "decisions with the least entropy are kept first; at random: AURC of a random order, which is the plain error "
    "rate; perfect: AURC if all errors are kept last"
)
_AUROC = (
    "AUROC: the chance that a wrong choice has more entropy than a right one (50 at random); no interval if "
    f"fewer than {calibration.LEAST} clusters have an error, or fewer than {calibration.LEAST} have a right choice"
)
_LEFT_OUT = "left out: decisions without a distribution (no answer could be read) + decisions without a known reference"
_INTERVALS = (
    "[low, high]: 95% intervals over clusters of cases; for ECE: by inverting its distribution under noise; for all "
    "other figures: Wilson's score interval (CR2); each decision counts once"
)
_HANDED = (
    "in % of first-pass decisions whose reference is known; decisions whose entropy is above a limit are handed over "
    "to a person: at most 5, 10, 20, 30 and 50% of all decisions, and decisions of equal entropy only together; errors "
    "among them: the share of all errors that is handed over; error rate of the rest: the error rate of the decisions "
    f"that are kept, with its 95% interval, {intervals.SHARES.partition(',')[0]}; at random: this error rate if "
    "decisions are handed over at random; perfect: this error rate if errors are handed over first; the limits of "
    "entropy come from the same decisions that are judged"
)
_AGAINST = (
    "each row minus the planner in the title, in percentage points, over the clusters of cases that both have; "
    "right, AUROC: positive is better; Brier, AURC: negative is better, but both also fall with the error rate, so "
    f"only AUROC says how well entropy detects errors; 95% intervals: {intervals.TOLD.partition(',')[0]}; *: the "
    "interval excludes 0, †: significant also after Holm's correction over the column's differences"
)
_SHORT = (
    "in % of first-pass decisions; confidence: mean probability of the chosen option; ECE: expected calibration "
    f"error without the part that noise adds, with its 95% interval {intervals.BRIEFLY}; AUROC: the chance that a "
    "wrong choice has more entropy than a right one"
)


def tables(root: Path) -> list[Table]:
    """Two or three tables for each model and data set with a decision that has both a distribution and a reference.

    Raises:
        StoreError: the folder cannot be read.
    """
    return [table for own in calibrated.read(root) for table in (_calibration(own), *_against(own), _handing(own))]


def _calibration(own: Decisions) -> Table:
    return Table(
        name=f"{NAME} {own.place.model} {own.place.dataset}",
        title=f"{own.place.title}: calibration of the choice of tools",
        by=[*LABELS, "distribution"],
        columns=[
            count("decisions", printed=False),
            count("clusters", printed=False),
            Column("right", lambda row: bounded(row, "accuracy"), lambda row: percent(row["accuracy"])),
            mean("confidence", "confidence"),
            mean("ece", "plain ECE", printed=False),
            mean("ece_noise", "noise", printed=False),
            _bounded("ECE", "ece", "ece_corrected"),
            replace(_bounded("equal mass", "ece_masses", "ece_masses_corrected"), printed=False),
            replace(_bounded("Brier", "brier"), printed=False),
            mean("brier_constant", "constant", printed=False),
            replace(_bounded("AURC", "area"), printed=False),
            Column("at random", lambda row: percent(1 - row["accuracy"]), printed=False),
            mean("area_perfect", "perfect", printed=False),
            _bounded("AUROC", "auroc"),
            Column("left out", lambda row: f"{row['silent']:,} + {row['unknown']:,}", printed=False),
        ],
        values=own.measured,
        query=own.query,
        about=f"in %; {_DECISIONS}; {_ECE}; {_BRIER}; {_AREA}; {_AUROC}; {_LEFT_OUT}; {_INTERVALS}",
        briefly=_SHORT,
        breaks=["robustness"],
        section=SECTION,
    )


def _bounded(header: str, name: str, of: str = "") -> Column:
    return Column(header, lambda row: bounded(row, name, of))


def _against(own: Decisions) -> list[Table]:
    """The table of differences from the exact choice; no table unless both the exact choice and another planner ran."""
    found = differences(own.rows)
    if found.empty:
        return []
    reference = found["reference"].iloc[0]
    headers = zip(FIGURES, ("right", "Brier", "AURC", "AUROC"), strict=True)
    return [
        Table(
            name=f"{AGAINST} {own.place.model} {own.place.dataset}",
            title=f"{own.place.title}: calibration compared with the exact choice of {reference}",
            by=[*LABELS, "distribution"],
            columns=[count("clusters"), *(Column(header, partial(_difference, name)) for name, header in headers)],
            values=found,
            query=own.query,
            about=_AGAINST,
            breaks=["robustness"],
            section=SECTION,
        )
    ]


def _difference(name: str, row: Mapping[Any, Any]) -> str:
    told = marks(row[f"{name}_low"], row[f"{name}_high"], row[f"{name}_holm"], level=intervals.LEVEL)
    return written(row, name, POINTS, marks=told)


def _handing(own: Decisions) -> Table:
    found = own.handed_over
    return Table(
        name=f"{HANDING_OVER} {own.place.model} {own.place.dataset}",
        title=f"{own.place.title}: handing decisions over to a person",
        by=[*LABELS, "distribution"],
        columns=[
            mean("above", "above (nats)", ".3f", 1.0),
            mean("handed", "handed over"),
            mean("caught", "errors among them"),
            _bounded("error rate of the rest", "error"),
            mean("error_random", "at random"),
            mean("error_perfect", "perfect"),
        ],
        values=found,
        query=own.query,
        about=_HANDED,
        breaks=frozenset(range(len(calibration.HANDED), len(found), len(calibration.HANDED))),
        section=SECTION,
    )


def bounded(row: Mapping[Any, Any], name: str, mean: str = "") -> str:
    """A share in %, with its bounds if it has bounds."""
    return written(row, mean or name, of=name)


def percent(value: float) -> str:
    """A share in %."""
    return number(value, scale=100)


# Votes compared with the exact choice: differences of accuracy, Brier score and the two areas, paired over clusters.


FIGURES = ("accuracy", "brier", "area", "auroc")


def differences(decisions: pd.DataFrame) -> pd.DataFrame:
    """Each setting's difference from the first exact-choice setting of the same model, data set and robustness.

    The frame is empty if no setting has exact choices.

    Columns: SETTING, `distribution`, `reference` (the planner with exact choices), the number of `clusters` that both
    settings have, and each of FIGURES with `_low`, `_high`, `_p` and `_holm` (Holm's correction over the column). In
    the intervals and p, a cluster's value follows from the effect of its decisions on the figures of both settings.
    """
    rows: list[dict[str, Any]] = []
    every = known(decisions)
    every = every.assign(**{CLUSTER: pd.factorize(every[CLUSTER], sort=True)[0]})
    for key, group in every.groupby(SETTING[:3], sort=False, observed=True):
        parts = [(str(planner), own) for planner, own in group.groupby("planner", sort=False, observed=True)]
        exact = next((part for part in parts if part[1]["distribution"].iloc[0] == EXACT), None)
        for planner, own in parts:
            if exact is not None and planner != exact[0]:
                labels = dict(zip(SETTING, map(str, (*key, planner)), strict=True))
                labels |= {"distribution": own["distribution"].iloc[0], "reference": exact[0]}
                rows.append(labels | _compared(own, exact[1]))
    found = pd.DataFrame(rows)
    return found.assign(**{f"{name}_holm": holm(found[f"{name}_p"]) for name in FIGURES}) if rows else found


def _compared(own: pd.DataFrame, theirs: pd.DataFrame) -> dict[str, Any]:
    both = np.intersect1d(own[CLUSTER], theirs[CLUSTER])
    found: dict[str, Any] = {"clusters": len(both)}
    frames = [frame[frame[CLUSTER].isin(both)] for frame in (own, theirs)]
    places = [np.searchsorted(both, frame[CLUSTER]) for frame in frames]
    values = [_values(frame) for frame in frames] if len(both) else []
    for name in FIGURES:
        difference = _by_cluster([one[name] for one in values], places)
        found |= interval(difference, reach=1.0).named(name) | {f"{name}_p": p_value(difference, reach=1.0)}
    return found


def _values(own: pd.DataFrame) -> dict[str, Numbers]:
    """For each figure, one value per decision; the mean of these values is the figure."""
    right, entropy = own["right"].to_numpy(np.float64), own["entropy"].to_numpy(np.float64)
    return {
        "accuracy": right,
        "brier": (own["confidence"].to_numpy(np.float64) - right) ** 2,
        "area": calibration.area(entropy, 1 - right),
        "auroc": _separation(entropy, 1 - right, own[CLUSTER].to_numpy()),
    }


def _separation(entropy: Numbers, wrong: Numbers, cluster: npt.NDArray[np.intp]) -> Numbers:
    """The values of `calibration.separation`, but spread more widely; NaN if AUROC rests on too few clusters.

    AUROC rests on only some of the clusters, of which there must be at least `calibration.LEAST`. With these wider
    values, Student's quantile for all clusters gives the interval that is right for the clusters on which AUROC rests.
    """
    telling, clusters = calibration.telling(wrong, cluster), len(np.unique(cluster))
    if telling < calibration.LEAST:
        return np.full(len(wrong), np.nan)
    values = calibration.separation(entropy, wrong)
    wider = stdtrit(telling - 1, 0.975) / stdtrit(clusters - 1, 0.975)
    return np.asarray(values.mean() + wider * (values - values.mean()))


def _by_cluster(values: Sequence[Numbers], places: Sequence[npt.NDArray[np.intp]]) -> Sample:
    """One value per cluster; the values' mean is the difference of the two means, and their spread gives its error."""
    if not values:
        return Sample(np.zeros(0), np.zeros(0, np.intp))
    parts = [np.bincount(at, one - one.mean()) / len(one) for one, at in zip(values, places, strict=True)]
    apart = parts[0] - parts[1]
    found = values[0].mean() - values[1].mean() + len(apart) * apart
    return Sample(found, np.arange(len(found))).known


# The reliability diagrams, and error rates against shares handed over, with their captions and queries.


_RELIABILITY = (
    "share of right choices by confidence (the probability of the chosen option), one panel per planner; circles: "
    f"bins of width {1 / BINS:.1f} at their mean confidence, with an area in proportion to their share of decisions; "
    "bars: 95% intervals over clusters of cases; dashed line: the share of right choices equals the confidence; "
    "below the line choices are overconfident; ECE: expected calibration error without the part that noise adds, in "
    "%, with its 95% interval"
)
_DRAWINGS_HANDED = (
    "error rate of the decisions that are kept if those with the most entropy go to a person; solid: by the entropy "
    "of the exact choice; dashed: by the entropy of votes; bars: 95% intervals over clusters of cases; dotted in the "
    "same color: handing over at random (flat) and in a perfect order (errors first); curves end where 5% of the "
    "decisions, or 20 decisions, are left"
)


def drawings(root: Path) -> list[Drawing]:
    """Two figures for each model and data set with a decision that has both a distribution and a reference.

    Raises:
        StoreError: the folder cannot be read.
    """
    numbered = enumerate(calibrated.read(root), start=1)
    return [drawing for at, own in numbered for drawing in (_reliability(own, at), _handed(own, at))]


def _reliability(own: Decisions, number: int) -> Drawing:
    return Drawing(
        name=" ".join(["reliability", *own.place]),
        title=f"{own.place.title}: reliability diagram",
        caption=f"{own.told}{_RELIABILITY}{left_out(len(own.measured))}",
        svg=reliability(calibrated.reliability(own.rows), own.measured, f"reliability-{number}"),
        query=own.query,
        section=SECTION,
        model=own.place.model,
        dataset=own.place.dataset,
    )


def _handed(own: Decisions, number: int) -> Drawing:
    curves = calibrated.curves(own.rows)
    return Drawing(
        name=" ".join(["handed over", *own.place]),
        title=f"{own.place.title}: error rate against the share handed over (risk-coverage)",
        caption=f"{own.told}{_DRAWINGS_HANDED}{undrawn(curves['planner'].nunique())}",
        svg=handed_over(curves, own.handed_over, f"handed-over-{number}"),
        query=own.query,
        section=SECTION,
        model=own.place.model,
        dataset=own.place.dataset,
    )


# Reliability diagrams and risk-coverage curves as SVG. The same rows always give the same bytes of SVG.


_PANELS, _ACROSS = 12, 3
_LARGEST = 160.0  # area, in points², of a circle that stands for all decisions
_TITLE = 44  # maximum length of a title's line, in characters
_LINES, _NARROW = len(COLOURS), 2  # maximum numbers of planners in a panel of curves, and of such panels in a row


def left_out(settings: int) -> str:
    """The caption about settings that have no panel."""
    return (
        f"; only the first {_PANELS} of {settings} settings are drawn; the table has all of them"
        if settings > _PANELS
        else ""
    )


def undrawn(planners: int) -> str:
    """The caption about planners that have no line."""
    return (
        f"; only the first {_LINES} of {planners} planners are drawn; the table has all of them"
        if planners > _LINES
        else ""
    )


def reliability(bins: pd.DataFrame, frame: pd.DataFrame, name: str) -> str:
    """An SVG element with a panel for each of the first settings; the arguments are tables of `calibrated`."""
    drawn: list[dict[Any, Any]] = frame.head(_PANELS).to_dict("records")
    groups = dict(iter(bins.groupby(SETTING, sort=False)))

    def draw(axes: Sequence[Axes]) -> None:
        for axis, row in each_panel(axes, drawn):
            _diagram(axis, groups[tuple(row[label] for label in SETTING)])
            axis.set_title("\n".join(_titled(row)), fontsize=8)

    rows = -(-len(drawn) // _ACROSS)
    return svg_of(name, rows, min(_ACROSS, len(drawn)), draw, width=3.2, height=3.3)


def _titled(row: dict[Any, Any]) -> list[str]:
    place = f"{row['model']} on {row['dataset']}"
    names = [place, row["planner"], *([row["robustness"]] if row["robustness"] != "none" else []), row["distribution"]]
    return [*(shown(str(text)[:_TITLE]) for text in names), f"ECE {bounded(row, 'ece', 'ece_corrected')}"]


def _diagram(axis: Axes, own: pd.DataFrame) -> None:
    axis.plot([0, 1], [0, 1], linestyle="--", color="#8a9099", linewidth=1, zorder=1)
    axis.errorbar(own["confidence"], own["accuracy"], yerr=reach(own, "accuracy"), linestyle="none", color=COLOURS[0],
                  elinewidth=0.8, capsize=1.5, zorder=2)  # fmt: skip
    axis.scatter(own["confidence"], own["accuracy"], s=6 + _LARGEST * own["part"], color=COLOURS[0], alpha=0.75,
                 linewidths=0, zorder=3)  # fmt: skip
    axis.set_xlim(-0.02, 1.03)
    axis.set_ylim(-0.02, 1.03)
    _percents(axis)
    axis.set_xlabel("confidence")
    axis.set_ylabel("right")


def handed_over(curves: pd.DataFrame, points: pd.DataFrame, name: str) -> str:
    """An SVG element: a panel per robustness setting, a line per planner; the arguments are tables of `calibrated`."""
    planners = list(dict.fromkeys(curves["planner"]))[:_LINES]
    panels = list(curves[curves["planner"].isin(planners)].groupby("robustness", sort=False))
    top = float(np.nanmax([*curves["error"], *points["error_high"].fillna(0.0)]))

    def draw(axes: Sequence[Axes]) -> None:
        for axis, (robustness, group) in each_panel(axes, panels):
            for planner, own in group.groupby("planner", sort=False):
                place = planners.index(planner)
                met = points[(points["robustness"] == robustness) & (points["planner"] == planner)]
                _curve(axis, own, met, place, (place - (len(planners) - 1) / 2) * 0.006)
            axis.plot([], [], color="#8a9099", linestyle=":", label="at random (flat), or in a perfect order")
            headed(axis, group)
            axis.set_xlim(0, 1)
            axis.set_ylim(0, min(1.02, 1.05 * top + 1e-3))
            _percents(axis)
            axis.set_xlabel("share handed over, most entropy first")
            axis.set_ylabel("error rate of the rest")
        legend(axes, 2)

    rows, across = -(-len(panels) // _NARROW), min(_NARROW, len(panels))
    below = 0.2 * -(-len(planners) // 2) / rows
    return svg_of(name, rows, across, draw, width=7.2 if across == 1 else 4.6, height=3.2 + below)


def _curve(axis: Axes, own: pd.DataFrame, points: pd.DataFrame, place: int, aside: float) -> None:
    colour, marker = COLOURS[place], MARKERS[place]
    kind = str(own["distribution"].iloc[0])
    line = "-" if kind == EXACT else "--"
    label = f"{shown(str(own['planner'].iloc[0])[:_TITLE])} ({kind})"
    axis.plot(own["handed"], own["error"], color=colour, linestyle=line, linewidth=1.4, zorder=3)
    axis.plot(own["handed"], own["error_perfect"], color=colour, linestyle=":", linewidth=0.9, zorder=1)
    axis.axhline(float(points["error_random"].iloc[0]), color=colour, linestyle=":", linewidth=0.9, zorder=1)
    axis.errorbar(points["handed"] + aside, points["error"], yerr=reach(points, "error"), color=colour, marker=marker,
                  markersize=3.5, linestyle="none", elinewidth=0.8, capsize=1.5, zorder=4)  # fmt: skip
    axis.plot([], [], color=colour, linestyle=line, marker=marker, markersize=3.5, label=label)


def _percents(axis: Axes) -> None:
    for side in (axis.xaxis, axis.yaxis):
        side.set_major_formatter(PercentFormatter(1.0, decimals=None))
    axis.grid(alpha=0.25)
