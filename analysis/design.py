"""Rows and columns of a regression: what is lost and why, z-scores, contrasts, and separation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import linalg, optimize

from analysis.errors import AnalysisError
from analysis.formula import Formula, Part, Term
from analysis.spec import Spec

Floats: TypeAlias = npt.NDArray[np.float64]
Integers: TypeAlias = npt.NDArray[np.int64]
INTERCEPT = "Intercept"
_TINY = 1e-9


@dataclass(frozen=True)
class Design:
    """Outcomes (n), columns (n x p) and clusters (n) of one fit, and what became of the other rows."""

    names: list[str]
    matrix: Floats
    outcome: Floats
    clusters: Integers
    rows_in: int
    clusters_in: int
    lost: dict[str, int]
    """Rows left out, by reason."""
    separated: dict[str, str]
    """Coefficients that are infinite, and what was seen at their level."""
    notes: list[str]


def design(rows: pd.DataFrame, spec: Spec) -> Design:
    """What a specification makes of the rows of one fit.

    Raises:
        AnalysisError: the data cannot carry the formula: nothing left, an outcome that never varies, one cluster, a
            column that never varies or follows from others, separation that is no factor level's.
    """
    formula = spec.parsed
    frame = _with_indicators(rows, spec)
    frame, lost = _complete(frame, formula.columns(), formula.outcome, spec.cluster)
    _check_outcome(frame, formula.outcome)
    frame, notes = _z_scored(frame, [name for name in spec.z_scored.columns if name in formula.columns()], spec)
    clusters_in = rows.groupby(spec.cluster, sort=False, observed=True).ngroups
    several, alone = _without_alone(frame, formula, spec)
    kept, separated = _without_separated(several, formula, spec)
    for reason, count in (
        (f"of levels that stand in one cluster: {', '.join(alone)}", len(frame) - len(several)),
        ("of levels whose outcomes are all equal", len(several) - len(kept)),
    ):
        if count:
            lost[reason] = count
            _check_outcome(kept, formula.outcome)
    names, matrix = _matrix(kept, formula, spec.reference)
    clusters = kept.groupby(spec.cluster, sort=False, observed=True).ngroup()
    outcome = kept[formula.outcome].to_numpy(dtype=np.float64)
    places = np.asarray(clusters, dtype=np.int64)
    found = Design(names, matrix, outcome, places, len(rows), clusters_in, lost, separated, notes)
    _check(found)
    return found


def _with_indicators(rows: pd.DataFrame, spec: Spec) -> pd.DataFrame:
    found = {}
    for name, condition in spec.indicators.items():
        holds = np.ones(len(rows), dtype=bool)
        for column, value in condition.items():
            holds &= (rows[column].astype(str) == value).to_numpy()
        found[name] = holds.astype(np.float64)
    return rows.assign(**found)


def _complete(
    frame: pd.DataFrame, columns: Sequence[str], outcome: str, cluster: Sequence[str]
) -> tuple[pd.DataFrame, dict[str, int]]:
    """The rows that have every value, and how many have not, each by the first that it lacks."""
    reason = pd.Series("", index=frame.index, dtype=object)
    for name in dict.fromkeys([*columns, *cluster]):
        missing = (reason == "") & frame[name].isna()
        reason = reason.mask(missing, f"no {name}")
        if name == outcome and "error_kind" in frame:
            kind = frame["error_kind"].astype(object)
            reason = reason.mask(missing & kind.notna(), f"no {name}: " + kind.astype(str) + " error")
    lost = Counter(reason[reason != ""])
    return frame[reason == ""], dict(lost)


def _check_outcome(frame: pd.DataFrame, outcome: str) -> None:
    if frame.empty:
        raise AnalysisError("no rows are left")
    values = frame[outcome].astype(np.float64)
    if not values.isin([0.0, 1.0]).all():
        raise AnalysisError(f"{outcome} is not 0 or 1 everywhere, but a binomial outcome must be")
    if values.nunique() == 1:
        raise AnalysisError(f"{outcome} is {int(values.iloc[0])} in all of {len(values):,} rows: nothing to explain")


def _z_scored(frame: pd.DataFrame, columns: Sequence[str], spec: Spec) -> tuple[pd.DataFrame, list[str]]:
    notes = []
    for name in columns:
        values = frame[name].astype(np.float64)
        slices = values.groupby([frame[key].astype(str) for key in spec.z_scored.within] or np.zeros(len(frame)))
        deviation = slices.transform("std", ddof=0)
        flat = deviation < _TINY * np.maximum(1.0, values.abs())
        if flat.any():
            notes.append(f"{name} does not vary in a slice of {int(flat.sum()):,} rows: 0 there")
        scored = (values - slices.transform("mean")) / deviation.mask(flat, 1.0)
        frame = frame.assign(**{name: scored.mask(flat, 0.0)})
    return frame, notes


def _without_alone(frame: pd.DataFrame, formula: Formula, spec: Spec) -> tuple[pd.DataFrame, list[str]]:
    """The rows without those of factor levels that stand in one of several clusters, and these levels.

    A cluster's residuals sum to 0 over such a level, so that the robust error of its coefficient would know of other
    levels alone.
    """
    places = frame.groupby(spec.cluster, sort=False, observed=True).ngroup()
    found = []
    while places.nunique() > 1:
        for name in formula.factors():
            levels = places.groupby(frame[name].astype(str), sort=True).nunique()
            alone = levels[levels == 1].index
            if len(alone):
                break
        else:
            break
        found += [f"{name}={level}" for level in alone]
        kept = ~frame[name].astype(str).isin(alone)
        frame, places = frame[kept], places[kept]
    return frame, found


def _without_separated(frame: pd.DataFrame, formula: Formula, spec: Spec) -> tuple[pd.DataFrame, dict[str, str]]:
    """The rows without those of factor levels whose outcomes are all equal, and these levels.

    Such a level's coefficient is infinite, its rows are fitted without error and weigh nothing: leaving them out
    gives the other coefficients that maximum likelihood tends to, and their robust covariance. A penalty would
    move all of them, and has no settled robust covariance.
    """
    separated: dict[str, str] = {}
    while True:
        for name in formula.factors():
            levels = frame.groupby(frame[name].astype(str), sort=True)[formula.outcome].agg(["mean", "size"])
            found = levels[levels["mean"].isin([0.0, 1.0])]
            if not found.empty:
                break
        else:
            return frame, separated
        for level, (mean, size) in found.iterrows():
            told = f"all {int(size):,} rows have {formula.outcome} {int(mean)}"
            if spec.separation == "refuse":
                raise AnalysisError(f"separation: {name}={level}: {told}, so its coefficient is infinite")
            separated[_level_name(name, str(level))] = ("+inf: " if mean else "-inf: ") + told
        frame = frame[~frame[name].astype(str).isin(found.index)]
        if frame.empty:
            raise AnalysisError(f"separation: every level of {name} has equal outcomes: {', '.join(found.index)}")


def _level_name(column: str, level: str) -> str:
    return f"{column}[T.{level}]"


def _matrix(frame: pd.DataFrame, formula: Formula, reference: Mapping[str, str]) -> tuple[list[str], Floats]:
    columns: dict[str, Floats] = {INTERCEPT: np.ones(len(frame))}
    for term in formula.terms:
        columns |= _columns(frame, term, reference)
    return list(columns), np.column_stack(list(columns.values()))


def _columns(frame: pd.DataFrame, term: Term, reference: Mapping[str, str]) -> dict[str, Floats]:
    """The columns of a term: the products of its parts'."""
    found: dict[str, Floats] = {"": np.ones(len(frame))}
    for part in term:
        own = _contrasts(frame, part, reference)
        found = {
            f"{name}:{more}" if name else more: values * others
            for name, values in found.items()
            for more, others in own.items()
        }
    return found


def _contrasts(frame: pd.DataFrame, part: Part, reference: Mapping[str, str]) -> dict[str, Floats]:
    """A number itself; a factor's levels but for the reference (which may have been left out: then the first)."""
    if not part.factor:
        return {part.column: frame[part.column].to_numpy(dtype=np.float64)}
    values = frame[part.column].astype(str)
    levels = sorted(values.unique())
    base = reference.get(part.column, levels[0])
    base = base if base in levels else levels[0]
    return {
        _level_name(part.column, level): (values == level).to_numpy(dtype=np.float64)
        for level in levels
        if level != base
    }


def _check(found: Design) -> None:
    clusters, columns = len(np.unique(found.clusters)), len(found.names)
    if clusters == 1:
        raise AnalysisError("one cluster: robust errors need several")
    for name, values in zip(found.names[1:], found.matrix.T[1:], strict=True):
        if np.ptp(values) < _TINY:
            raise AnalysisError(f"{name} is {values[0]:g} in all of {len(values):,} rows: it has no coefficient")
    _check_rank(found)
    if clusters <= columns:
        raise AnalysisError(f"{clusters} clusters cannot carry {columns} coefficients: run more cases")
    _check_separation(found)


def _check_rank(found: Design) -> None:
    scaled = found.matrix / np.linalg.norm(found.matrix, axis=0)
    _, triangle, order = linalg.qr(scaled, mode="economic", pivoting=True)
    sizes = np.abs(np.diag(triangle))
    dependent = [found.names[place] for place in order[: len(sizes)][sizes < 1e-8]]
    if dependent or len(found.outcome) < len(found.names):
        raise AnalysisError(f"follows from other columns, so it has no coefficient of its own: {', '.join(dependent)}")


def _check_separation(found: Design) -> None:
    """Whether some combination of columns tells outcomes apart without error (Konis 2007, as a linear program).

    It maximises the sum of s(x b) over rows with s = ±1 by outcome, under s(x b) >= 0 and |b| <= 1; equal rows count
    once, and those that have both outcomes must have x b = 0.
    """
    rows, place = np.unique(found.matrix, axis=0, return_inverse=True)
    means = np.bincount(place.ravel(), found.outcome) / np.bincount(place.ravel())
    pure = (means == 0.0) | (means == 1.0)
    signed = rows[pure] * np.where(means[pure] == 1.0, 1.0, -1.0)[:, None]
    if not len(signed):
        return
    mixed = rows[~pure]
    result = optimize.linprog(
        -signed.sum(axis=0),
        A_ub=-signed,
        b_ub=np.zeros(len(signed)),
        A_eq=mixed if len(mixed) else None,
        b_eq=np.zeros(len(mixed)) if len(mixed) else None,
        bounds=(-1.0, 1.0),
    )
    if result.fun is None or result.x is None:
        raise AnalysisError(f"whether outcomes are separated could not be found out: {result.message}")
    if -result.fun > 1e-6:
        names = [name for name, value in zip(found.names, result.x, strict=True) if abs(value) > 1e-6]
        raise AnalysisError(f"separation: outcomes are told apart without error by {', '.join(names)}")
