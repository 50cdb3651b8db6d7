"""The tables of calibration and of handing over, for each model and data set with planners that record options."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from analysis import intervals
from analysis.calibration import binned, decisions, measures, selective
from analysis.calibration.decisions import EXACT
from analysis.calibration.measures import known
from analysis.calibration.selective import Numbers
from analysis.intervals import CLUSTER, holm, interval, p_value
from analysis.load import SETTING
from analysis.sheets import LABELS, Place
from analysis.table import POINTS, Column, Table, marks, mean, number
from analysis.table import bounded as written
from analysis.table import count as counted

SECTION = "Calibration"
NAME, AGAINST, HANDING_OVER = "calibration", "against the exact choice", "handing over"
LONG = (AGAINST, HANDING_OVER)
"""How the names of tables begin that a terminal is spared unless it is asked for all."""
_DECISIONS = (
    "first-pass decisions whose reference is known; no_tool is an answer as any other. A choice is right where the "
    "most probable option is the reference's; its probability is the confidence"
)
_ECE = (
    f"ECE: expected calibration error, Σ |share right − mean confidence| · share of decisions, in {binned.BINS} bins "
    "of equal width; plain: as published elsewhere, too high where decisions are few; noise: what that is on average "
    "where all confidences are right; ECE: without the noise; equal mass: the same in bins of as many decisions each"
)
_BRIER = "Brier: mean (confidence − right)²; constant: with the share right as everybody's confidence"
_AREA = (
    "AURC: the error rate averaged over all shares kept, least entropy first; at random: the error rate; perfect: all "
    "errors last"
)
_AUROC = (
    "AUROC: the chance that a wrong choice has more entropy than a right one, 50 at random; without an interval where "
    f"fewer than {selective.LEAST} clusters have an error, or a right choice"
)
_LEFT_OUT = "left out: decisions without a distribution, as no answer could be read + without a known reference"
_INTERVALS = (
    "[low, high]: 95% intervals over clusters of cases; of ECE by inverting its distribution under noise, of others "
    "Wilson's (CR2); each decision counts once"
)
_HANDED = (
    "in % of first-pass decisions whose reference is known; those above an entropy go to a person: at most 5, 10, 20, "
    "30 and 50% of them, equal entropies together; errors among them: of all errors; error rate of the rest: with its "
    f"95% interval, {intervals.SHARES.partition(',')[0]}; at random: that rate whoever is handed over; perfect: errors "
    "first; the entropies are read off these same decisions"
)
_AGAINST = (
    "each less the planner named above, in points of %, over the clusters of cases that both have; right, AUROC: "
    "positive is better; Brier, AURC: negative is better, and they fall with the error rate too: AUROC alone asks how "
    f"well entropy tells errors; 95% intervals: {intervals.TOLD.partition(',')[0]}; *: it excludes 0, †: also by "
    "Holm's correction over the column"
)
_SHORT = (
    "in % of first-pass decisions; confidence: mean probability of the option taken; ECE: expected calibration error "
    f"without what noise adds, with its 95% interval {intervals.BRIEFLY}; AUROC: the chance that a wrong choice has "
    "more entropy than a right one"
)


def sheets(root: Path) -> list[Table]:
    """Two or three tables for each model and data set; none where no recorded distribution stands beside a reference.

    Raises:
        StoreError: the folder cannot be read.
    """
    met = decisions.read(root)
    return [
        sheet
        for place, own in places(met)
        for sheet in (_calibration(root, place, own), *_against(root, place, own), _handing(root, place, own))
    ]


def places(met: pd.DataFrame) -> Iterator[tuple[Place, pd.DataFrame]]:
    """The decisions of each model and data set of which any can be judged."""
    if len(met):
        for (model, dataset), own in met.groupby(SETTING[:2], sort=False, observed=True):
            if len(measures.known(own)):
                yield Place(str(model), str(dataset)), own


def _calibration(root: Path, place: Place, own: pd.DataFrame) -> Table:
    found = measures.table(own)
    return Table(
        name=f"{NAME} {place.model} {place.dataset}",
        title=f"{place.title}: calibration of the choice of tools",
        by=[*LABELS, "distribution"],
        columns=[
            counted("decisions", printed=False),
            counted("clusters", printed=False),
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
        values=found,
        query=decisions.query(root, *place),
        about=f"in %; {_DECISIONS}; {_ECE}; {_BRIER}; {_AREA}; {_AUROC}; {_LEFT_OUT}; {_INTERVALS}",
        briefly=_SHORT,
        breaks=["robustness"],
        section=SECTION,
    )


def _bounded(header: str, name: str, of: str = "") -> Column:
    return Column(header, lambda row: bounded(row, name, of))


def _against(root: Path, place: Place, own: pd.DataFrame) -> list[Table]:
    """Others against the exact choice; none where it did not run, or alone."""
    found = differences(own)
    if found.empty:
        return []
    reference = found["reference"].iloc[0]
    headers = zip(FIGURES, ("right", "Brier", "AURC", "AUROC"), strict=True)
    return [
        Table(
            name=f"{AGAINST} {place.model} {place.dataset}",
            title=f"{place.title}: calibration against the exact choice of {reference}",
            by=[*LABELS, "distribution"],
            columns=[counted("clusters"), *(Column(header, partial(_difference, name)) for name, header in headers)],
            values=found,
            query=decisions.query(root, *place),
            about=_AGAINST,
            breaks=["robustness"],
            section=SECTION,
        )
    ]


def _difference(name: str, row: Mapping[Any, Any]) -> str:
    told = marks(row[f"{name}_low"], row[f"{name}_high"], row[f"{name}_holm"], level=intervals.LEVEL)
    return written(row, name, POINTS, marks=told)


def _handing(root: Path, place: Place, own: pd.DataFrame) -> Table:
    found = measures.handing_over(own)
    return Table(
        name=f"{HANDING_OVER} {place.model} {place.dataset}",
        title=f"{place.title}: handing decisions over to a person",
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
        query=decisions.query(root, *place),
        about=_HANDED,
        breaks=frozenset(range(len(selective.HANDED), len(found), len(selective.HANDED))),
        section=SECTION,
    )


def bounded(row: Mapping[Any, Any], name: str, mean: str = "") -> str:
    """A share in % with its bounds, where there are any."""
    return written(row, mean or name, of=name)


def percent(value: float) -> str:
    """A share in %."""
    return number(value, scale=100)


# Votes against the exact choice: differences of accuracy, Brier score and the two areas, paired over clusters.


FIGURES = ("accuracy", "brier", "area", "auroc")


def differences(decisions: pd.DataFrame) -> pd.DataFrame:
    """Each other setting less the first exact choice of its model, data set and robustness; empty where none took one.

    Columns: SETTING, `distribution`, `reference` (its planner), `clusters` that both have, and each of FIGURES with
    `_low`, `_high`, `_p` and `_holm` (over the column). A cluster counts by what its decisions do to either figure.
    """
    rows: list[dict[str, Any]] = []
    for key, group in known(decisions).groupby(SETTING[:3], sort=False, observed=True):
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
    both = set(own[CLUSTER]) & set(theirs[CLUSTER])
    found: dict[str, Any] = {"clusters": len(both)}
    values = [_values(frame[frame[CLUSTER].isin(both)]) for frame in (own, theirs)] if both else []
    for name in FIGURES:
        difference = _by_cluster(*(one[name] for one in values)) if both else pd.Series(dtype="float64")
        mean, low, high = interval(difference, reach=1.0)
        found |= {name: mean, f"{name}_low": low, f"{name}_high": high, f"{name}_p": p_value(difference, reach=1.0)}
    return found


def _values(own: pd.DataFrame) -> dict[str, pd.Series[float]]:
    """Of each figure one value a decision, whose mean it is."""
    right, entropy = own["right"].to_numpy(np.float64), own["entropy"].to_numpy(np.float64)
    cluster = own[CLUSTER].astype(str)
    found = {
        "accuracy": right,
        "brier": (own["confidence"].to_numpy(np.float64) - right) ** 2,
        "area": selective.area(entropy, 1 - right),
        "auroc": _separation(entropy, 1 - right, cluster),
    }
    return {name: selective.over_clusters(values, cluster) for name, values in found.items()}


def _separation(entropy: Numbers, wrong: Numbers, cluster: pd.Series[str]) -> Numbers:
    """As `selective.separation`, spread as Student's quantile for few telling clusters asks; NaN below LEAST."""
    telling, clusters = selective.telling(wrong, cluster), cluster.nunique()
    if telling < selective.LEAST:
        return np.full(len(wrong), np.nan)
    values = selective.separation(entropy, wrong)
    wider = stdtrit(telling - 1, 0.975) / stdtrit(clusters - 1, 0.975)
    return np.asarray(values.mean() + wider * (values - values.mean()))


def _by_cluster(own: pd.Series[float], theirs: pd.Series[float]) -> pd.Series[float]:
    """One value a cluster, whose mean is the difference of the two means, and whose spread is that of its error."""
    parts = [(one - one.mean()).groupby(level=CLUSTER).sum() / len(one) for one in (own, theirs)]
    apart = parts[0] - parts[1]
    return (own.mean() - theirs.mean() + len(apart) * apart).dropna()
