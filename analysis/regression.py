"""The tables of a regression: planning_horizon's table 3 and C.1."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from analysis import gee, queries
from analysis.render import Sheet
from analysis.significance import holm
from analysis.spec import Spec

HOLM = "p_holm"
EVERY = "all regression coefficients (planning_horizon C.1)"
_STARS = ((0.01, "**"), (0.05, "*"))
_DAGGER, _LEVEL = "†", 0.05
_FIGURES = ["coefficient", "se", "statistic", "p", HOLM, "low", "high", *gee.RAW]
Fits: TypeAlias = Sequence[tuple[gee.Key, gee.Fit | gee.Refused]]


def sheets(root: Path, title: str, spec: Spec, fits: Fits) -> list[Sheet]:
    """Table 3, the coefficients but for factors' levels; and C.1, all of them. None where there is nothing to fit."""
    if not fits:
        return []
    query = queries.rows(root, spec.columns(), queries.where(spec.rows))
    every = coefficients(fits)
    shown = _in_order(set(every["name"][_of_interest(every["name"])]), spec)
    notes = [
        f"{', '.join(key.values()) or 'all rows'}: {note}"
        for key, fit in fits
        for note in (fit.notes if isinstance(fit, gee.Fit) else [f"not fitted: {fit.reason}"])
    ]
    kind, scale = ("binomial", "on the logit scale") if spec.link == "logit" else ("linear", "in the outcome's unit")
    about = f"{spec.formula}; {kind} GEE, {spec.correlation}, robust errors by {' and '.join(spec.cluster)}"
    scored = [name for name in spec.z_scored.columns if name in spec.parsed.columns()]
    units = f", {' and '.join(scored)} z-scored" if scored else ""
    tests = int(every[HOLM].notna().sum())
    over = f"over the {tests} coefficients of table 3, all fits together"
    brief = f"{about}; coefficient (standard error) {scale}{units}; * p < 0.05, ** p < 0.01; "
    long = f"{about}; {scale}{units}; raw: the same model in raw units; low, high: 95% interval; "
    brief_rows = [[*key.values(), *_counts(fit), *_cells(every, place, shown)] for place, (key, fit) in enumerate(fits)]
    long_rows = [
        [*(row[name] for name in [*spec.per, "name"]), *(_figure(row, name) for name in _FIGURES)]
        for row in every.to_dict("records")
    ]
    return [
        Sheet(
            name="regression",
            title=title,
            caption=f"{brief}{_DAGGER} p < 0.05 by Holm's correction {over}",
            labels=spec.per,
            figures=["rows", "clusters", *shown],
            rows=brief_rows,
            values=every[every["name"].isin(shown)].drop(columns="fit"),
            query=query,
            notes=notes,
        ),
        Sheet(
            name="coefficients",
            title=EVERY,
            caption=f"{long}p holm: Holm's correction {over}",
            labels=[*spec.per, "coefficient of"],
            figures=[name.replace("_", " ") for name in _FIGURES],
            rows=long_rows,
            values=every.drop(columns="fit"),
            query=query,
            notes=notes,
        ),
    ]


def coefficients(fits: Fits) -> pd.DataFrame:
    """The coefficients of every fit with its keys, its place in `fits` as `fit`, and p by Holm's correction.

    Corrected are the coefficients that table 3 shows, those of all fits together: they are what the study asks about.
    Levels of factors are controls, and the intercept answers no question.
    """
    tables = [
        (fit.coefficients if isinstance(fit, gee.Fit) else gee.NOTHING).assign(**key, fit=place)
        for place, (key, fit) in enumerate(fits)
    ]
    every = pd.concat(tables, ignore_index=True)
    return every.assign(**{HOLM: holm(every["p"].where(_of_interest(every["name"])))})


def _in_order(names: Container[str], spec: Spec) -> list[str]:
    """As the formula has them: a fit may lack the first ones."""
    terms = (":".join(part.column for part in term) for term in spec.parsed.terms)
    return [name for name in terms if name in names]


def _of_interest(names: pd.Series[Any]) -> pd.Series[Any]:
    return ~names.astype(str).str.contains("[T.", regex=False) & (names != "Intercept")


def _counts(fit: gee.Fit | gee.Refused) -> list[str]:
    """Rows and clusters: those that were fitted, of those that there are."""
    if isinstance(fit, gee.Refused):
        return ["none", "none"]
    pairs = ((fit.rows, fit.rows_in), (fit.clusters, fit.clusters_in))
    return [f"{used:,}" if used == there else f"{used:,} of {there:,}" for used, there in pairs]


def _cells(every: pd.DataFrame, place: int, names: Sequence[str]) -> list[str]:
    """Coefficients of one fit with stars, dagger and error."""
    own = {row["name"]: row for row in every[every["fit"] == place].to_dict("records")}
    return [_starred(own[name]) if name in own else "none" for name in names]


def _starred(row: Mapping[Any, Any]) -> str:
    return starred(row["coefficient"], row["se"], row["p"], _DAGGER if row[HOLM] < _LEVEL else "")


def starred(coefficient: float, error: float, p: float, more: str = "") -> str:
    """`coefficient** (standard error)`, as the paper has it; `more` stands behind the stars."""
    stars = next((stars for bound, stars in _STARS if p < bound), "")
    return f"{coefficient:.3f}{stars}{more} ({error:.3f})"


def _figure(row: Mapping[Any, Any], name: str) -> str:
    value = row[name]
    if pd.isna(value):
        return "none"
    if name in ("p", HOLM, "raw_p") and value < 0.001:
        return "<0.001"
    return f"{value:.3f}" if np.isfinite(value) else f"{value:+}"
