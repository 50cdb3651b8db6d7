"""The rows and columns of a regression: rows left out and why, z-scores and raw units, contrasts, and separation."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd
import scipy  # its parts load on first use, because a report without a regression needs none of them

from analysis.errors import AnalysisError
from analysis.stats.spec import Formula, Link, Spec, spelt_out

Floats: TypeAlias = npt.NDArray[np.float64]
Integers: TypeAlias = npt.NDArray[np.int64]
_TINY = 1e-9
_WHY = {"breadth_edges": " (a plan without dependencies has no such value)"}


@dataclass(frozen=True)
class Design:
    """Outcomes (n), columns (n x p) and clusters (n) of one fit, and why other rows were left out."""

    names: list[str]
    matrix: Floats
    outcome: Floats
    clusters: Integers
    rows_in: int
    clusters_in: int
    lost: dict[str, int]
    """The number of rows left out, by reason."""
    separated: dict[str, str]
    """The infinite coefficients, each with the outcome that all rows at its level have."""
    references: dict[str, str]
    """The reference level of each factor."""
    notes: list[str]
    units: Floats | None
    """The matrix (p x p) that turns the columns into columns in raw units; None if several slices have z-scores."""


def design(rows: pd.DataFrame, spec: Spec) -> Design:
    """The design that a specification makes from the rows of one fit.

    Raises:
        AnalysisError: the data cannot support the formula: no row is left, the outcome never varies or is not 0 or 1
            (with `link: logit`), a column without z-scores never varies, every term contains a z-scored column that
            never varies, clusters are too few, a column follows from others, or outcomes are separated by anything
            other than a factor's level. It is also raised as in `spelt_out` and `told_apart`.
    """
    rows, formula = spelt_out(rows, spec.parsed)
    clusters = rows.groupby(spec.cluster, sort=False, observed=True).ngroup()
    whole, lost = _complete(_with_indicators(rows, spec), formula, spec.cluster)
    _check_outcome(whole, formula.outcome, spec.link)
    whole = whole.assign(**{CLUSTERS: clusters}).reset_index(drop=True)
    scored = [name for name in spec.z_scored.columns if name in formula.columns()]
    formula, constant = _varying(formula, whole, scored)
    scored = [name for name in scored if name in formula.columns()]
    frame, notes = _z_scored(whole, scored, spec)
    notes = constant + notes
    levels = told_apart(frame, formula, spec)
    kept = levels.frame
    if levels.lost:
        lost["all outcomes of their level are equal"] = levels.lost
        _check_outcome(kept, formula.outcome, spec.link)
    bases, moved = _bases(levels, formula, spec)
    names, matrix = _matrix(kept, formula, bases)
    _, raw = _matrix(kept.assign(**{name: whole.loc[kept.index, name] for name in scored}), formula, bases)
    found = Design(
        names,
        matrix,
        outcome=kept[formula.outcome].to_numpy(dtype=np.float64),
        clusters=np.unique(kept[CLUSTERS], return_inverse=True)[1].astype(np.int64),
        rows_in=len(rows),
        clusters_in=int(clusters[clusters >= 0].nunique()),
        lost=lost,
        separated=levels.separated,
        references=bases,
        notes=[*notes, *levels.notes(), *moved],
        units=None,
    )
    _check(found, EACH if spec.pooling == "few" else 1)
    if spec.link == "logit":
        _check_separation(found)
    units = _units(matrix, raw)
    if units is None:
        notes = [*found.notes, "no coefficients in raw units, because z-scores were computed within several slices"]
        return replace(found, notes=notes)
    return replace(found, units=units)


def _with_indicators(rows: pd.DataFrame, spec: Spec) -> pd.DataFrame:
    found = {}
    for name, condition in spec.indicators.items():
        holds = np.ones(len(rows), dtype=bool)
        for column, value in condition.items():
            holds &= (rows[column].astype(str) == value).to_numpy()
        found[name] = holds.astype(np.float64)
    return rows.assign(**found)


def _complete(frame: pd.DataFrame, formula: Formula, cluster: Sequence[str]) -> tuple[pd.DataFrame, dict[str, int]]:
    """The rows that have every value, and the number of the other rows, by the first value that a row lacks."""
    reason = pd.Series("", index=frame.index, dtype=object)
    for name in dict.fromkeys([*formula.columns(), *cluster]):
        missing = (reason == "") & (frame[name].isna() | frame[name].isin([np.inf, -np.inf]))
        reason = reason.mask(missing, f"no {name}{_WHY.get(name, '')}")
        if name == formula.outcome and "error_kind" in frame:
            kind = frame["error_kind"].astype(object)
            reason = reason.mask(missing & kind.notna(), f"no {name}: " + kind.astype(str) + " error")
    lost = Counter(reason[reason != ""])
    return frame[reason == ""], dict(lost)


def _check_outcome(frame: pd.DataFrame, outcome: str, link: Link) -> None:
    if frame.empty:
        raise AnalysisError("no rows are left to fit")
    values = frame[outcome].astype(np.float64)
    if link == "logit" and not values.isin([0.0, 1.0]).all():
        raise AnalysisError(
            f"{outcome} must be 0 or 1 in all rows for `link: logit`; `link: identity` allows any numbers"
        )
    if values.nunique() == 1:
        raise AnalysisError(
            f"{outcome} is {values.iloc[0]:g} in all {len(values):,} rows, so there is nothing to explain"
        )


def _z_scored(frame: pd.DataFrame, columns: Sequence[str], spec: Spec) -> tuple[pd.DataFrame, list[str]]:
    notes = []
    for name in columns:
        values = frame[name].astype(np.float64)
        slices = values.groupby([frame[key].astype(str) for key in spec.z_scored.within] or np.zeros(len(frame)))
        deviation = slices.transform("std", ddof=0)
        flat = deviation < _TINY * np.maximum(1.0, values.abs())
        if flat.any():
            notes.append(
                f"{name} does not vary within slices that have {int(flat.sum()):,} rows in all, so it is set to 0 in "
                "these slices"
            )
        scored = (values - slices.transform("mean")) / deviation.mask(flat, 1.0)
        frame = frame.assign(**{name: scored.mask(flat, 0.0)})
    return frame, notes


def _varying(formula: Formula, frame: pd.DataFrame, scored: Sequence[str]) -> tuple[Formula, list[str]]:
    """The formula without the z-scored columns that are the same in all rows, and a note about each.

    If all plans are equally deep, for example, depth gets no coefficient, but the other columns do.
    """
    flat = [name for name in scored if np.ptp(frame[name].to_numpy(dtype=np.float64)) < _TINY]
    terms = tuple(term for term in formula.terms if not any(name in flat for name in term))
    if not terms:
        raise AnalysisError(
            f"nothing varies, because each of {', '.join(flat)} has a single value in all {len(frame):,} rows"
        )
    there = {name: f"{float(frame[name].iloc[0]):g} in all {len(frame):,} rows" for name in flat}
    notes = [f"{name} is {told}, so it and its products have no coefficient" for name, told in there.items()]
    return replace(formula, terms=terms), notes


def _bases(levels: Levels, formula: Formula, spec: Spec) -> tuple[dict[str, str], list[str]]:
    """The reference level of each factor: the named level, else the first that is not pooled.

    Notes say if a named level could not be used.
    """
    found, notes = {}, []
    for name in formula.factors:
        there = sorted(levels.frame[name].unique(), key=lambda level: (level == levels.pools.get(name), level))
        wanted = spec.reference.get(name, there[0])
        found[name] = wanted if wanted in there else there[0]
        if found[name] != wanted:
            notes.append(
                f"{name}: the reference level is {found[name]}, because {wanted} does not occur, was pooled "
                "or was left out"
            )
    return found, notes


def _units(matrix: Floats, raw: Floats) -> Floats | None:
    found = np.asarray(scipy.linalg.lstsq(matrix, raw, lapack_driver="gelsy")[0], dtype=np.float64)
    near = np.abs(matrix @ found - raw).max(axis=0) < 1e-6 * np.maximum(1.0, np.abs(raw).max(axis=0))
    return found if near.all() and np.linalg.matrix_rank(found) == len(found) else None


def _matrix(frame: pd.DataFrame, formula: Formula, bases: Mapping[str, str]) -> tuple[list[str], Floats]:
    """Names and columns as in formulaic: intercept, unchanged numbers, a column for each level except the reference.

    Formulaic gets only the names of columns, and evaluates no expressions.
    """
    from formulaic import SimpleFormula
    from formulaic.parser.types import Factor, Term

    columns = {
        name: _levels(frame[name], bases[name]) if name in formula.factors else frame[name].astype(np.float64)
        for name in formula.columns()[1:]
    }
    terms = [Term([Factor(name, eval_method="lookup") for name in term]) for term in formula.terms]
    one = Term([Factor("1", eval_method="literal")])
    found = SimpleFormula([one, *terms]).get_model_matrix(pd.DataFrame(columns), na_action="raise", output="numpy")
    return list(found.model_spec.column_names), np.asarray(found, dtype=np.float64)


@dataclass(frozen=True)
class _Level:
    """A level wrapped for formulaic, which silently makes no column for a plain text that begins with `__`."""

    text: str

    def __str__(self) -> str:
        return self.text


def _levels(values: pd.Series[Any], base: str) -> pd.Series[Any]:
    levels = {text: _Level(text) for text in [base, *sorted(set(values) - {base})]}
    return values.astype("category").cat.rename_categories(levels).cat.set_categories([*levels.values()])


def _check(found: Design, each: int) -> None:
    """Raise AnalysisError if a design cannot have robust errors; every coefficient needs `each` clusters."""
    clusters, columns = len(np.unique(found.clusters)), len(found.names)
    if clusters == 1:
        raise AnalysisError(
            "all rows are in one cluster, but robust errors need several clusters; run cases of more clusters"
        )
    if clusters < each * columns or clusters == columns:
        raise AnalysisError(
            f"{clusters} clusters are too few for {columns} coefficients, which need {EACH} clusters each; run cases "
            f"of {EACH * columns} clusters or more (about {EACH * columns / clusters:.1f} times as many cases), or "
            "fit a shorter formula"
        )
    for name, values in zip(found.names[1:], found.matrix.T[1:], strict=True):
        if np.ptp(values) < _TINY:
            raise AnalysisError(f"{name} is {values[0]:g} in all {len(values):,} rows, so it has no coefficient")
    _check_rank(found)


def _check_rank(found: Design) -> None:
    scaled = found.matrix / np.linalg.norm(found.matrix, axis=0)
    _, triangle, order = scipy.linalg.qr(scaled, mode="economic", pivoting=True)
    sizes = np.abs(np.diag(triangle))
    dependent = [found.names[place] for place in order[: len(sizes)][sizes < 1e-8]]
    if dependent or len(found.outcome) < len(found.names):
        raise AnalysisError(
            "these columns follow from other columns, so they have no coefficients of their own: "
            f"{', '.join(dependent)}"
        )


def _check_separation(found: Design) -> None:
    """Raise AnalysisError if some combination of columns tells outcomes apart without error (Konis 2007).

    A linear program maximises the sum of s(x b) over rows with s = ±1 by outcome, under s(x b) >= 0 and |b| <= 1; equal
    rows count once, and rows that occur with both outcomes must have x b = 0.
    """
    rows, place = np.unique(found.matrix, axis=0, return_inverse=True)
    means = np.bincount(place.ravel(), found.outcome) / np.bincount(place.ravel())
    pure = (means == 0.0) | (means == 1.0)
    signed = rows[pure] * np.where(means[pure] == 1.0, 1.0, -1.0)[:, None]
    if not len(signed):
        return
    mixed = rows[~pure]
    result = scipy.optimize.linprog(
        -signed.sum(axis=0),
        A_ub=-signed,
        b_ub=np.zeros(len(signed)),
        A_eq=mixed if len(mixed) else None,
        b_eq=np.zeros(len(mixed)) if len(mixed) else None,
        bounds=(-1.0, 1.0),
    )
    if result.fun is None or result.x is None:
        raise AnalysisError(f"the check for separated outcomes failed: {result.message}")
    if -result.fun > 1e-6:
        names = [name for name, value in zip(found.names, result.x, strict=True) if abs(value) > 1e-6]
        raise AnalysisError(f"separation: all outcomes are predicted without error by {', '.join(names)}")


# Levels of factors without a coefficient of their own: pooled if they have few clusters, left out if separated.
#
# Pooling depends only on clusters, never on outcomes.


FEWEST = 3
"""Minimum number of clusters of a separate level, because one or two are too few to estimate its robust error."""
EACH = 5
"""The number of clusters that each coefficient needs."""
OTHER = "other"
CLUSTERS = " cluster"
"""The column of a fit's rows with the number of the row's cluster; no table has a column of this name."""
_NAMED = 12  # maximum number of levels that a note names


@dataclass
class Levels:
    """The rows of a fit with only the separate levels of factors, and records of the levels pooled or left out."""

    frame: pd.DataFrame
    lost: int = 0
    """The number of rows of separated levels, which are left out."""
    separated: dict[str, str] = field(default_factory=dict)
    """The infinite coefficients, each with the outcome that all rows at its level have."""
    pools: dict[str, str] = field(default_factory=dict)
    """The name of the pooled level, by factor."""
    rare: dict[str, list[str]] = field(default_factory=dict)
    """The levels that were pooled because of `FEWEST`, by factor."""
    further: dict[str, list[str]] = field(default_factory=dict)
    """The levels that were pooled because of `EACH`, by factor."""

    def notes(self) -> list[str]:
        """Sentences on which levels were pooled, and why."""
        found = []
        for pooled, why in ((self.rare, f"level needs {FEWEST}"), (self.further, f"coefficient needs {EACH}")):
            for name, levels in pooled.items():
                told = f"{name}: {len(levels)} levels are pooled as {self.pools[name]!r}, because each {why} clusters"
                found.append(f"{told}: {_listed(levels)}")
        gone = [name for name in self.pools if self.frame[name].nunique() == 1]
        return found + [f"{name} has no coefficient, because all of its levels are pooled" for name in gone]


def told_apart(frame: pd.DataFrame, formula: Formula, spec: Spec) -> Levels:
    """The rows whose levels occur in at least `FEWEST` clusters and are not separated; `frame` has `CLUSTERS`.

    Levels with too few clusters are pooled into one level. If the pool still has too few clusters, the level with the
    next fewest clusters joins the pool. With `link: logit`, levels whose outcomes are all equal are then left out, and
    both steps are repeated until none is left out. If there are still too few clusters for the formula's coefficients,
    further levels are pooled, starting with the level with the fewest clusters.

    If `spec.pooling` is "none", nothing is pooled.

    Raises:
        AnalysisError: a level is separated and `spec` refuses separation, or every level of a factor is separated.
    """
    names = formula.factors
    texts = {name: frame[name].astype(str).astype(object) for name in names}
    found = Levels(frame.assign(**texts))
    labels = {name: _free(set(texts[name])) for name in names}
    pooled = spec.pooling == "few"
    while True:
        for name in names if pooled else ():
            while _pool(found, name, labels[name], _rare(_clusters(found.frame, name)), found.rare):
                pass
        if spec.link != "logit" or not _without_separated(found, formula, spec):
            break
    while pooled and EACH * coefficients(found.frame, formula) > found.frame[CLUSTERS].nunique():
        counts = {name: _clusters(found.frame, name).drop(labels[name], errors="ignore") for name in names}
        choices = [(int(own.min()), name) for name, own in counts.items() if len(own) + (name in found.pools) > 1]
        if not choices:
            break
        _, name = min(choices)
        _pool(found, name, labels[name], list(counts[name].index[: 1 if name in found.pools else 2]), found.further)
    return found


def coefficients(frame: pd.DataFrame, formula: Formula) -> int:
    """The number of coefficients that a formula has on these rows, including the intercept."""
    sizes = {name: frame[name].nunique() - 1 for name in formula.factors}
    return 1 + sum(math.prod(sizes.get(name, 1) for name in term) for term in formula.terms)


def level_name(column: str, level: str) -> str:
    """The name of a level's coefficient, as in formulaic."""
    return f"{column}[T.{level}]"


def _clusters(frame: pd.DataFrame, name: str) -> pd.Series[Any]:
    """The number of clusters in which each level occurs, the fewest first."""
    return frame.groupby(name, sort=True)[CLUSTERS].nunique().sort_values(kind="stable")


def _rare(clusters: pd.Series[Any]) -> list[str]:
    """The levels to pool: all levels with too few clusters, and further levels if the pool still has too few."""
    size = int((clusters < FEWEST).sum())
    while 0 < size < len(clusters) and clusters.iloc[:size].sum() < FEWEST:
        size += 1
    return list(clusters.index[:size]) if len(clusters) > 1 else []


def _pool(found: Levels, name: str, label: str, levels: Sequence[str], into: dict[str, list[str]]) -> bool:
    """Add levels to the pool, which is called `label`; return whether any of them is new to the pool."""
    fresh = [level for level in levels if level != label]
    if fresh:
        found.frame = found.frame.assign(**{name: found.frame[name].mask(found.frame[name].isin(fresh), label)})
        found.pools[name] = label
        into[name] = [*into.get(name, []), *fresh]
    return bool(fresh)


def _free(levels: set[str]) -> str:
    label = OTHER
    while label in levels:
        label += "'"
    return label


def _without_separated(found: Levels, formula: Formula, spec: Spec) -> bool:
    """Leave out the rows of a factor's levels at which all outcomes are equal; return whether there were any.

    Such a level's coefficient is infinite; its rows are fitted without error and have no weight. Without these rows,
    the other coefficients are the limits of the maximum likelihood estimates, and their robust covariance is right. A
    penalty would change all coefficients, and there is no established robust covariance for it.
    """
    for name in formula.factors:
        levels = found.frame.groupby(name, sort=True)[formula.outcome].agg(["mean", "size"])
        equal = levels[levels["mean"].isin([0.0, 1.0])]
        if not equal.empty:
            break
    else:
        return False
    for level, (mean, size) in equal.iterrows():
        told = f"all {int(size):,} rows have {formula.outcome} {int(mean)}"
        if spec.separation == "refuse":
            raise AnalysisError(f"separation: {name}={level}: {told}, so the coefficient is infinite")
        found.separated[level_name(name, str(level))] = ("+inf: " if mean else "-inf: ") + told
    kept = found.frame[~found.frame[name].isin(equal.index)]
    if kept.empty:
        raise AnalysisError(f"separation: within each level of {name} all outcomes are equal: {_listed(equal.index)}")
    found.lost += len(found.frame) - len(kept)
    found.frame = kept
    return True


def _listed(levels: Iterable[object]) -> str:
    names = list(map(str, levels))
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
