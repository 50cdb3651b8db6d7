"""The tables of a regression, like planning_horizon's table 3 and C.1."""

from __future__ import annotations

import warnings
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from analysis.errors import AnalysisError
from analysis.page.table import NONE, Column, Table, number, probability, texts
from analysis.stats.design import EACH, Design, Floats, design
from analysis.stats.intervals import holm
from analysis.stats.spec import FAMILY, Correlation, Link, Spec
from grid.core.errors import nearest, one_line, shown_value

# Generalized estimating equations for a 0/1 outcome (planning_horizon §4.3, B.3).
#
# The published fit has a binomial family, logit link, independence working correlation and robust (sandwich) errors by
# cluster. `link: identity` fits any numeric outcome linearly (Gaussian family). The notes of a `Fit` name its limits:
# lost rows, levels that were pooled or (because they are separated) left out, and corrections for few clusters.


FEW_CLUSTERS = 150
"""The number of clusters below which robust errors are too small.

Below it, the bias-reduced errors of Mancl and DeRouen (2001) are used, with the normal quantile as in their paper (see
`tests/studies/regressions.py`).
"""
FIGURES = ["coefficient", "se", "statistic", "p", "low", "high"]
"""The figures of a fit for each coefficient."""
RAW = [f"raw_{name}" for name in ("coefficient", "se", "p", "low", "high")]
"""The same figures except the statistic, in raw units, not z-scores (planning_horizon C.1)."""
_COLUMNS = ["name", *FIGURES, *RAW]
NOTHING = pd.DataFrame(columns=_COLUMNS)
_ITERATIONS = 100
Key: TypeAlias = dict[str, str]


@dataclass(frozen=True)
class Fit:
    """One regression.

    `coefficients` has a row per coefficient, on the link's scale: name, coefficient, se, statistic, p, low, high (95%),
    and the figures of `RAW`, which are for columns in raw units instead of z-scores. The figures of `RAW` are NaN if no
    model in raw units is equivalent. Separated coefficients are infinite, also in raw units, with NaN for the other
    figures.
    """

    coefficients: pd.DataFrame
    rows_in: int
    rows: int
    clusters_in: int
    clusters: int
    references: dict[str, str]
    """The reference level of each factor."""
    notes: list[str]


@dataclass(frozen=True)
class Refused:
    """A regression that the data do not allow, with the reason."""

    reason: str


def fits(episodes: pd.DataFrame, spec: Spec) -> list[tuple[Key, Fit | Refused]]:
    """A fit for each combination of values of `per` in the rows that the specification selects.

    In place of a fit that fails, there is the reason. If `per` is empty, there is one fit, with an empty key.

    Raises:
        AnalysisError: `episodes` lacks a column, or none of the selected rows has a reference level.
    """
    missing = [name for name in spec.columns() if name not in episodes]
    if missing:
        raise AnalysisError(
            f"there is no column {missing[0]!r}; the columns are: {', '.join(map(str, episodes.columns))}"
        )
    if spec.has_family:
        episodes = episodes.assign(**{FAMILY: episodes["dataset"].astype(str).map(spec.family)})
    found = wanted(episodes, spec)
    _check_references(found, spec)
    return [(key, _tried(rows, spec)) for key, rows in _slices(found, spec.per)]


def _check_references(rows: pd.DataFrame, spec: Spec) -> None:
    """Raise AnalysisError for a reference level that no row has."""
    for name, wanted_level in spec.reference.items():
        levels = sorted(rows[name].astype(str).unique()) if name in rows else []
        if levels and wanted_level not in levels:
            there = f"{nearest(wanted_level, levels)}; the levels are {', '.join(levels)}"
            raise AnalysisError(f"reference: no row has {name}={shown_value(wanted_level)}{there}")


def wanted(episodes: pd.DataFrame, spec: Spec) -> pd.DataFrame:
    """The rows that a specification asks for."""
    for name, values in spec.rows.items():
        episodes = episodes[episodes[name].astype(str).isin(values)]
    return episodes


def _fit(rows: pd.DataFrame, spec: Spec) -> Fit:
    """The regression on all of these rows; raises AnalysisError if they do not allow it or it does not converge."""
    found = design(rows, spec)
    clusters = len(np.unique(found.clusters))
    few = clusters < FEW_CLUSTERS and spec.few_clusters == "bias_reduced"
    params, covariance = estimate(found, spec.correlation, bias_reduced=few, link=spec.link)
    notes = [*found.notes, *_notes(found)]
    degrees = None
    if few and clusters < EACH * len(params):
        degrees = clusters - len(params)
        if degrees < 1:
            raise AnalysisError(
                f"{clusters} clusters are too few for {len(params)} coefficients; run cases of more clusters"
            )
        notes.append(
            f"there are only {clusters} clusters for {len(params)} coefficients, which need {EACH} clusters each; "
            f"standard errors come from a bias-reduced covariance (Mancl and DeRouen 2001), intervals from Student's t "
            f"with {degrees} degrees of freedom, and the result is only a hint"
        )
    elif few:
        notes.append(
            f"there are only {clusters} clusters, so standard errors come from a bias-reduced covariance (Mancl and "
            "DeRouen 2001)"
        )
    elif clusters < FEW_CLUSTERS:
        notes.append(
            f"there are only {clusters} clusters, and standard errors are not corrected for this, so intervals "
            "are too narrow"
        )
    frame = _table(found, params, covariance, degrees)
    return Fit(frame, found.rows_in, len(found.outcome), found.clusters_in, clusters, found.references, notes)


def estimate(
    found: Design, correlation: Correlation, *, bias_reduced: bool, link: Link = "logit"
) -> tuple[Floats, Floats]:
    """Coefficients (p) and their robust covariance (p x p).

    Raises:
        AnalysisError: statsmodels finds no solution, or none within 100 iterations, or no covariance.
    """
    # These modules are imported here because importing them takes half a second, and most reports have no regression.
    from statsmodels.genmod import cov_struct, families
    from statsmodels.genmod.generalized_estimating_equations import GEE

    working = {"independence": cov_struct.Independence, "exchangeable": cov_struct.Exchangeable}[correlation]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # the causes of warnings are checked below, and errors name them
        try:
            model = GEE(
                found.outcome,
                found.matrix,
                groups=found.clusters,
                family=families.Binomial() if link == "logit" else families.Gaussian(),
                cov_struct=working(),
            )
            result = model.fit(maxiter=_ITERATIONS, cov_type="bias_reduced" if bias_reduced else "robust")
        except np.linalg.LinAlgError:
            raise AnalysisError(
                "one cluster alone determines a coefficient; run cases of more clusters, or pool rare levels "
                "(pooling: few)"
            ) from None
        except (ArithmeticError, ValueError, RuntimeError) as error:  # statsmodels raises RuntimeErrors
            raise AnalysisError(one_line(f"statsmodels cannot fit the regression ({error})", 300)) from None
    return settled(result, bias_reduced=bias_reduced)


def settled(result: Any, *, bias_reduced: bool) -> tuple[Floats, Floats]:
    """The coefficients and covariance of statsmodels' result, which may be None.

    Raises:
        AnalysisError: there is no result, the fit has not converged, or the covariance matrix is not valid.
    """
    if result is None:
        raise AnalysisError("statsmodels returned no fit, because the covariance is singular")
    if not result.converged or result.score_norm < 0:  # below 0 if it gave up before the first step
        raise AnalysisError("the fit did not converge")
    covariance = np.asarray(result.cov_robust_bc if bias_reduced else result.cov_robust)
    if not np.isfinite(covariance).all() or (np.diag(covariance) <= 0).any():
        raise AnalysisError(
            "the covariance of the fit is not positive, because there are too few clusters for so many coefficients"
        )
    return np.asarray(result.params), covariance


def _tried(rows: pd.DataFrame, spec: Spec) -> Fit | Refused:
    try:
        return _fit(rows, spec)
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


def _table(found: Design, params: Floats, covariance: Floats, degrees: int | None) -> pd.DataFrame:
    frame = pd.DataFrame({"name": found.names} | _figures(params, covariance, degrees))
    if found.units is not None:
        back = np.linalg.inv(found.units)
        raw = _figures(back @ params, back @ covariance @ back.T, degrees)
        frame = frame.assign(**{name: raw[name.removeprefix("raw_")] for name in RAW})
    infinite = [float(told.partition(":")[0]) for told in found.separated.values()]
    separated = pd.DataFrame({"name": list(found.separated), "coefficient": infinite, "raw_coefficient": infinite})
    return pd.concat([frame, separated], ignore_index=True).reindex(columns=_COLUMNS)


def _figures(params: Floats, covariance: Floats, degrees: int | None) -> dict[str, Floats]:
    """The figures of coefficients, from the normal distribution or Student's t with these degrees of freedom."""
    errors = np.sqrt(np.diag(covariance))
    statistic = params / errors
    half = (ndtri(0.975) if degrees is None else stdtrit(degrees, 0.975)) * errors
    p = 2 * (ndtr(-np.abs(statistic)) if degrees is None else stdtr(degrees, -np.abs(statistic)))
    return dict(zip(FIGURES, (params, errors, statistic, p, params - half, params + half), strict=True))


HOLM = "p_holm"
EVERY = "all regression coefficients (planning_horizon C.1)"
_STARS = ((0.01, "**"), (0.05, "*"))
_DAGGER, _LEVEL = "†", 0.05
_RAW_FIGURES = [f"raw_{name}" for name in ("coefficient", "low", "high", "se", "p")]
_FIGURES = ["coefficient", "low", "high", "se", "statistic", "p", HOLM, *_RAW_FIGURES]
Fits: TypeAlias = Sequence[tuple[Key, Fit | Refused]]


def tables(titles: tuple[str, str], spec: Spec, fits: Fits, query: str, levels: bool = False) -> list[Table]:
    """Table 3 (without the intercept and factors' levels) and C.1 (all coefficients); no tables if `fits` is empty.

    `titles` are the titles of the two tables; `query` gives the rows that were fitted. If `levels` is true, table 3
    also shows the levels of factors, because levels of factors are not controls in this case.
    """
    if not fits:
        return []
    every = coefficients(fits, levels)
    asked = every["name"][_of_interest(every["name"], levels)]
    shown = list(dict.fromkeys(asked)) if levels else _in_order(set(asked), spec)
    notes = [
        f"{', '.join(key.values()) or 'all rows'}: {note}"
        for key, fit in fits
        for note in (fit.notes if isinstance(fit, Fit) else [f"not fitted: {fit.reason}"])
    ]
    references = [
        f"{', '.join(key.values()) or 'all rows'}: reference levels, with which the other levels are "
        f"compared: {', '.join(f'{factor}={level}' for factor, level in fit.references.items())}"
        for key, fit in fits
        if isinstance(fit, Fit) and fit.references
    ]
    kind, scale = ("binomial", "on the logit scale") if spec.link == "logit" else ("linear", "in the outcome's unit")
    clusters = " and ".join(spec.cluster)
    about = f"{spec.formula}; {kind} GEE, {spec.correlation}, robust standard errors clustered by {clusters}"
    scored = [name for name in spec.z_scored.columns if name in spec.parsed.columns()]
    units = f", {' and '.join(scored)} z-scored" if scored else ""
    tests = int(every[HOLM].notna().sum())
    which = "" if levels else " that are not levels of a factor"
    over = f"over the {tests} coefficients{which} of all fits"
    brief = f"{about}; coefficient (standard error) {scale}{units}; *: p < 0.05, **: p < 0.01; "
    long = f"{about}; coefficients {scale}{units}; raw: the same model in raw units; low, high: 95% interval; "
    brief_rows = [[*key.values(), *_counts(fit), *_cells(every, place, shown)] for place, (key, fit) in enumerate(fits)]
    return [
        Table(
            name="regression",
            title=titles[0],
            by=texts(spec.per),
            columns=texts(["rows", "clusters", *shown], len(spec.per)),
            lines=brief_rows,
            about=f"{brief}{_DAGGER}: p < 0.05 after Holm's correction {over}",
            values=every[every["name"].isin(shown)].drop(columns="fit"),
            query=query,
            notes=[*notes, *references * levels],
        ),
        Table(
            name="coefficients",
            title=titles[1],
            by=[*spec.per, Column("coefficient of", lambda row: row["name"])],
            columns=[
                Column(name.replace("_", " "), partial(_figure, name), printed=name not in RAW) for name in _FIGURES
            ],
            about=f"{long}p holm: p after Holm's correction {over}",
            values=every.drop(columns="fit"),
            query=query,
            notes=[*notes, *references],
        ),
    ]


def coefficients(fits: Fits, levels: bool = False) -> pd.DataFrame:
    """The coefficients of every fit with the fit's keys, `fit` (its index in `fits`), and p by Holm's correction.

    The correction is over the coefficients that table 3 shows, of all fits together, because the study asks about them.
    The study does not ask about the intercept or levels of factors, which are controls unless `levels` is true.
    """
    parts = [
        (fit.coefficients if isinstance(fit, Fit) else NOTHING).assign(**key, fit=place)
        for place, (key, fit) in enumerate(fits)
    ]
    every = pd.concat(parts, ignore_index=True)
    return every.assign(**{HOLM: holm(every["p"].where(_of_interest(every["name"], levels)))})


def _in_order(names: Container[str], spec: Spec) -> list[str]:
    """The names in the order of the formula; the fits' order may differ, because a fit may lack some of the names."""
    return [name for name in map(":".join, spec.parsed.terms) if name in names]


def _of_interest(names: pd.Series[Any], levels: bool) -> pd.Series[Any]:
    return (levels | ~names.astype(str).str.contains("[T.", regex=False)) & (names != "Intercept")


def _counts(fit: Fit | Refused) -> list[str]:
    """The numbers of rows and clusters that were fitted, out of all rows and clusters."""
    if isinstance(fit, Refused):
        return [NONE, NONE]
    pairs = ((fit.rows, fit.rows_in), (fit.clusters, fit.clusters_in))
    return [f"{used:,}" if used == there else f"{used:,} of {there:,}" for used, there in pairs]


def _cells(every: pd.DataFrame, place: int, names: Sequence[str]) -> list[str]:
    """The coefficients of one fit, each with its stars, dagger and standard error."""
    own = {row["name"]: row for row in every[every["fit"] == place].to_dict("records")}
    return [_starred(own[name]) if name in own else NONE for name in names]


def _starred(row: Mapping[Any, Any]) -> str:
    return starred(row["coefficient"], row["se"], row["p"], _DAGGER if row[HOLM] < _LEVEL else "")


def starred(coefficient: float, error: float, p: float, more: str = "") -> str:
    """`coefficient** (standard error)`, as in the paper; `more` comes after the stars."""
    stars = next((stars for bound, stars in _STARS if p < bound), "")
    return f"{coefficient:.3f}{stars}{more} ({error:.3f})"


def _figure(name: str, row: Mapping[Any, Any]) -> str:
    return probability(row[name]) if name in ("p", HOLM, "raw_p") else number(row[name], ".3f")
