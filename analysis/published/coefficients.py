"""Published regressions with ours beside: a row a coefficient, a column a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from analysis import regression
from analysis.gee import Fit
from analysis.published import files
from analysis.published.files import Published, Row
from analysis.regression import Fits
from analysis.render import Sheet
from analysis.search.comparing import name_of
from analysis.spec import FAMILY

MISSING = "–"
COEFFICIENT, REFERENCE = "coefficient", "reference"
_FIT = (FAMILY, "robustness")
_CAPTION = (
    "coefficient (standard error) on the logit scale; * p < 0.05, ** p < 0.01; a column a model; (ours): of this "
    "folder's regression of the family named beside, over so many clusters; all other columns: as the paper has them, "
    f"with its cases, prompts and judges; {MISSING}: not known here, or not in the paper"
)


class _Fitted(NamedTuple):
    """A row and the fits of one family and robustness setting that stand beside it, by model; no label: none do."""

    row: Row
    label: str
    fits: Mapping[str, Fit]


def sheets(fits: Fits, query: str, notes: Sequence[str] = (), tables: Sequence[Published] | None = None) -> list[Sheet]:
    """The published regressions that any of these fits stands beside; `query` and `notes` are of the rows fitted.

    A level's coefficient is against its factor's reference level: one against another than the paper's is left out.

    Raises:
        AnalysisError: a file of analysis/published/tables is wrong.
    """
    families = {name_of(key.get(FAMILY, "")) for key, _ in fits}
    found = []
    for table in files.every() if tables is None else tables:
        if table.of == "coefficients":
            there, left_out = table.of_ours(FAMILY, families)
            beside = _beside(there, fits)
            if any(one.fits for one in beside):
                found.append(_sheet(there, beside, query, [*table.notes, *notes, *left_out]))
    return found


def _beside(table: Published, fits: Fits) -> list[_Fitted]:
    """The rows in their order, each with every family and robustness setting of ours that stands beside it."""
    found: list[_Fitted] = []
    for row in table.rows:
        conditions = table.conditions(row) or {}
        settings: dict[tuple[str, ...], dict[str, Fit]] = {}
        for key, fit in fits:
            if isinstance(fit, Fit) and all(_is(key.get(name, ""), conditions.get(name)) for name in _FIT):
                settings.setdefault(tuple(key.get(name, "") for name in _FIT), {})[key.get("model", "")] = fit
        several = len({family for family, _ in settings}) < len(settings)
        found += [
            _Fitted(row, family + f" / {robustness}" * several, own) for (family, robustness), own in settings.items()
        ]
        if not settings:
            found.append(_Fitted(row, MISSING, {}))
    return found


def _is(label: str, wanted: object) -> bool:
    """Whether a fit's label is the wanted one, or one of several, its changes aside."""
    return wanted is None or name_of(label) in (wanted if isinstance(wanted, list) else [wanted])


def _sheet(table: Published, beside: Sequence[_Fitted], query: str, notes: Sequence[str]) -> Sheet:
    ours = list(dict.fromkeys(model for one in beside for model in one.fits))
    columns = [metric.columns[0] for metric in table.metrics.values()]
    rows, values = list[list[str]](), list[dict[str, Any]]()
    breaks, before = set[int](), None
    for row, label, fits in beside:
        if row.labels[0] != before:
            breaks.add(len(rows))
            before = row.labels[0]
        own = {model: _figures(row, fits.get(model), columns) for model in ours}
        clusters = "/".join(dict.fromkeys(f"{fits[model].clusters:,}" for model in ours if own[model])) or MISSING
        theirs = {model: row.figures.get(model, []) for model in table.models}
        shown = [_shown(found) for found in (*own.values(), *theirs.values())]
        rows.append([*row.labels, label, clusters, *shown])
        told: dict[str, Any] = dict(zip([*table.labels, "our family"], rows[-1], strict=False))
        for model, found in [*((f"{model} (ours)", found) for model, found in own.items()), *theirs.items()]:
            told |= {f"{model} {name}": value for name, value in zip(table.metrics, found or [], strict=False)}
        values.append(told)
    return Sheet(
        name=f"published {table.paper} {table.table}",
        title=f"{table.paper}, {table.called}, published beside ours: {table.title}",
        caption=_CAPTION,
        labels=[*table.labels, "our family"],
        figures=["clusters", *(f"{model} (ours)" for model in ours), *table.models],
        rows=rows,
        values=pd.DataFrame(values),
        query=query,
        notes=notes,
        breaks=frozenset(breaks - {0}),
    )


def _figures(row: Row, fit: Fit | None, columns: Sequence[str]) -> list[float | None]:
    """Coefficient, error and p of ours; none where the fit has no such coefficient, or another reference level."""
    wanted = row.ours or {}
    name = str(wanted.get(COEFFICIENT))
    if fit is None or wanted.get(REFERENCE) not in (None, fit.references.get(name.partition("[")[0])):
        return []
    found = fit.coefficients.loc[fit.coefficients["name"] == name, columns]
    return [None if pd.isna(value) else float(value) for value in found.iloc[0]] if len(found) else []


def _shown(found: Sequence[float | None]) -> str:
    """`coefficient** (standard error)`; a separated level's has no error."""
    value, error, p = found or (None, None, None)
    if value is None:
        return MISSING
    if error is None or p is None:
        return f"{value:+}"
    return regression.starred(value, error, p)
