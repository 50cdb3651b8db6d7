"""Generalized estimating equations for a 0/1 outcome (planning_horizon §4.3, B.3).

Binomial family, logit link, independence working correlation, robust (sandwich) errors by cluster: the published fit.
What it leaves open is told in `Fit`: rows lost, levels set aside because they are separated, few clusters corrected.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from scipy import stats
from statsmodels.genmod.cov_struct import Independence
from statsmodels.genmod.families import Binomial
from statsmodels.genmod.generalized_estimating_equations import GEE

from analysis.design import Design, design
from analysis.errors import AnalysisError
from analysis.spec import Spec

FEW_CLUSTERS = 100
"""Below it robust errors are too small: on simulated episodes with six coefficients, 95% intervals cover 86% with 12
clusters, 91% with 20 and 94% with 67 of 1 to 8 cases each; with the bias-reduced covariance 96%, 96% and 95%
(tests/unit/test_gee.py)."""
FIGURES = ["coefficient", "se", "statistic", "p", "low", "high"]
"""What a fit tells of each coefficient."""
_COLUMNS = ["name", *FIGURES]
NOTHING = pd.DataFrame(columns=_COLUMNS)
_ITERATIONS = 100
Key: TypeAlias = dict[str, str]


@dataclass(frozen=True)
class Fit:
    """One regression.

    `coefficients` has a row per coefficient, on the logit scale: name, coefficient, se, statistic, p, low, high (95%).
    Separated ones are infinite, with NaN for the rest.
    """

    coefficients: pd.DataFrame
    rows_in: int
    rows: int
    clusters_in: int
    clusters: int
    notes: list[str]


@dataclass(frozen=True)
class Refused:
    """A regression that the data cannot carry, and why."""

    reason: str


def fits(episodes: pd.DataFrame, spec: Spec) -> list[tuple[Key, Fit | Refused]]:
    """A fit for each value of `per` among the rows that the specification wants; those that fail say why.

    Raises:
        AnalysisError: `episodes` lacks a column.
    """
    missing = [name for name in spec.columns() if name not in episodes]
    if missing:
        raise AnalysisError(f"no column {missing[0]!r}; there are: {', '.join(map(str, episodes.columns))}")
    wanted = episodes
    for name, values in spec.rows.items():
        wanted = wanted[wanted[name].astype(str).isin(values)]
    return [(key, _tried(rows, spec)) for key, rows in _slices(wanted, spec.per)]


def fit(rows: pd.DataFrame, spec: Spec) -> Fit:
    """The regression on all of these rows.

    Raises:
        AnalysisError: the data cannot carry it, or it does not converge.
    """
    found = design(rows, spec)
    clusters = len(np.unique(found.clusters))
    few = clusters < FEW_CLUSTERS and spec.few_clusters == "bias_reduced"
    params, covariance = estimate(found, bias_reduced=few)
    notes = [*found.notes, *_notes(found)]
    if few:
        notes.append(f"only {clusters} clusters: bias-reduced covariance (Mancl and DeRouen 2001)")
    elif clusters < FEW_CLUSTERS:
        notes.append(f"only {clusters} clusters, uncorrected: intervals are too narrow")
    table = _table(found, params, covariance)
    return Fit(table, found.rows_in, len(found.outcome), found.clusters_in, clusters, notes)


def estimate(found: Design, *, bias_reduced: bool) -> tuple[Any, Any]:
    """Coefficients (p) and their robust covariance (p x p).

    Raises:
        AnalysisError: statsmodels finds no solution, or none within 100 iterations, or no covariance.
    """
    model = GEE(
        found.outcome,
        found.matrix,
        groups=found.clusters,
        family=Binomial(),
        cov_struct=Independence(),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what they warn of is checked below, and named
        try:
            result = model.fit(maxiter=_ITERATIONS, cov_type="bias_reduced" if bias_reduced else "robust")
        except np.linalg.LinAlgError:
            raise AnalysisError("one cluster alone determines a coefficient: run cases of more clusters") from None
    return settled(result, bias_reduced=bias_reduced)


def settled(result: Any, *, bias_reduced: bool) -> tuple[Any, Any]:
    """The coefficients and covariance of statsmodels' result, which may be None.

    Raises:
        AnalysisError: there is none, it has not converged, or its covariance is no covariance.
    """
    if result is None:
        raise AnalysisError("statsmodels returned no fit: its covariance is singular")
    if not result.converged:
        raise AnalysisError("the fit did not converge")
    covariance = np.asarray(result.cov_robust_bc if bias_reduced else result.cov_robust)
    if not np.isfinite(covariance).all() or (np.diag(covariance) <= 0).any():
        raise AnalysisError("the fit's covariance is not positive: too few clusters for so many coefficients")
    return np.asarray(result.params), covariance


def _tried(rows: pd.DataFrame, spec: Spec) -> Fit | Refused:
    try:
        return fit(rows, spec)
    except AnalysisError as error:
        return Refused(str(error))


def _slices(rows: pd.DataFrame, names: list[str]) -> Iterator[tuple[Key, pd.DataFrame]]:
    if not names:
        yield {}, rows
        return
    for values, part in rows.groupby(names, sort=False, observed=True):
        yield dict(zip(names, map(str, values), strict=True)), part


def _notes(found: Design) -> list[str]:
    lost = [f"{count:,} rows left out: {reason}" for reason, count in found.lost.items()]
    return lost + [f"{name} = {told}" for name, told in found.separated.items()]


def _table(found: Design, params: Any, covariance: Any) -> pd.DataFrame:
    errors = np.sqrt(np.diag(covariance))
    statistic = params / errors
    half = stats.norm.ppf(0.975) * errors
    p = 2 * stats.norm.sf(np.abs(statistic))
    rows: list[Mapping[str, object]] = [
        dict(zip(_COLUMNS, values, strict=True))
        for values in zip(found.names, params, errors, statistic, p, params - half, params + half, strict=True)
    ]
    rows += [{"name": name, "coefficient": float(told.partition(":")[0])} for name, told in found.separated.items()]
    return pd.DataFrame(rows, columns=_COLUMNS)
