"""Votes against the exact choice: differences of accuracy, Brier score and the two areas, paired over clusters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from analysis.calibration import selective
from analysis.calibration.decisions import EXACT
from analysis.calibration.measures import known
from analysis.calibration.selective import Numbers
from analysis.intervals import CLUSTER, interval
from analysis.load import SETTING
from analysis.significance import holm, p_value

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
