"""Published regressions with ours beside: a row a coefficient, a column a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow.compute as pc

from analysis.page.table import MISSING, Table, texts
from analysis.papers import files
from analysis.papers.beside import Block, Measured, Told
from analysis.papers.beside import blocks as of_cells
from analysis.papers.files import Metric, Published, Row
from analysis.stats.intervals import CLUSTER, Interval, share
from analysis.stats.spec import FAMILY
from analysis.tables import regression
from analysis.tables.regression import Fit, Fits
from analysis.tables.search_cells import name_of
from grid import store

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


def coefficient_sheets(
    fits: Fits, query: str, notes: Sequence[str] = (), tables: Sequence[Published] | None = None
) -> list[Table]:
    """The published regressions that any of these fits stands beside; `query` and `notes` are of the rows fitted.

    A level's coefficient is against its factor's reference level: one against another than the paper's is left out.

    Raises:
        AnalysisError: a file of analysis/papers/tables is wrong.
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


def _sheet(table: Published, beside: Sequence[_Fitted], query: str, notes: Sequence[str]) -> Table:
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
    labels = [*table.labels, "our family"]
    return Table(
        name=f"published {table.paper} {table.table}",
        section=f"Published: {table.paper}",
        title=f"{table.paper}, {table.called}, published beside ours: {table.title}",
        by=texts(labels),
        columns=texts(["clusters", *(f"{model} (ours)" for model in ours), *table.models], len(labels)),
        lines=rows,
        about=_CAPTION,
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


# Published tables of first-pass decisions that need a tool: errors by entropy, and how often tools are needed.


COLUMNS = ["cell_id", "substep_id", "reference_tool", "entropy", "tool_matches"]
CONDITION = "branch = 0 AND tool_required"
_CASE = [CLUSTER, "case_id"]


@dataclass(frozen=True)
class Decided(Block):
    """A row and a setting as `Block`, measured over first-pass decisions that need a tool (egb_slate §6.2).

    `decisions` and `errors` are counts over all cases, each the mean of its trials; an error is a tool other than the
    reference's. `error_rate` is their ratio, with an interval that knows how decisions fall into clusters. `tools` are
    the different tools that the references of these cases call, `decisions_per_tool` the calls of each.
    """

    decisions: pd.DataFrame = field(default_factory=pd.DataFrame)

    def measured(self, model: str, metric: Metric) -> Measured | None:
        """What a model of ours has of a metric; None where it made no such decision."""
        own = self._decisions_by_model.get(model)
        if own is None or not metric.columns:
            return None
        (name,) = metric.columns
        if name in ("tools", "decisions_per_tool"):
            needed = own.drop_duplicates([*_CASE, "substep_id"])["reference_tool"]
            tools = int(needed.nunique())
            figure = float(tools) if name == "tools" else len(needed) / tools
            return Measured(own["case_id"].nunique(), Interval(figure, np.nan, np.nan))
        counts = own.groupby([*_CASE, "trial"], observed=True)["error"].agg(["size", "sum"])
        counts = counts.groupby(level=_CASE, observed=True).mean().astype("float64")
        if name == "error_rate":
            return Measured(len(counts), _ratio(counts["sum"], counts["size"]))
        figure = float(counts["size" if name == "decisions" else "sum"].sum())
        return Measured(len(counts), Interval(figure, np.nan, np.nan))

    @cached_property
    def _decisions_by_model(self) -> Mapping[str, pd.DataFrame]:
        if self.setting is None or self.decisions.empty:
            return {}
        known = self.cells[["cell_id", "model", "trial", *_CASE]].merge(self.decisions, on="cell_id")
        if self.row.entropy:
            low, high = self.row.entropy
            known = known[known["entropy"] >= (0.0 if low is None else low)]
            known = known if high is None else known[known["entropy"] < high]
        return {str(model): own for model, own in known.groupby("model", observed=True)}


def _ratio(errors: pd.Series[float], decisions: pd.Series[float]) -> Interval:
    """Errors per decision over cases of unequal numbers of these: each case's part in the ratio (its linearization)."""
    rate = float(errors.sum() / decisions.sum())
    return share(rate + (errors - rate * decisions) / float(decisions.mean()))


def decided_blocks(
    root: Path, table: Published, cells: pd.DataFrame, told: Sequence[Told] | None = None
) -> list[Block]:
    """The table's rows as `beside.blocks` gives them, with the decisions of ours.

    Raises:
        StoreError: the folder cannot be read.
    """
    found = of_cells(table, cells, told)
    if not any(block.setting for block in found):
        return found
    wanted = {str(cell) for block in found for cell in block.cells["cell_id"]}
    taken = read(root, wanted, with_entropy=all(row.entropy for row in table.rows))
    return [Decided(**_fields(block), decisions=taken) for block in found]


def read(root: Path, cells: Set[str], with_entropy: bool) -> pd.DataFrame:
    """COLUMNS of the first-pass decisions of some cells that need a tool, and whether each was an `error`.

    `with_entropy`: only those that recorded one.
    """
    needed = (pc.field("branch") == 0) & pc.field("tool_required")
    if with_entropy:
        needed = needed & pc.field("entropy").is_valid()
    taken: pd.DataFrame = store.read(root, "steps", COLUMNS, needed).to_pandas()
    taken = taken[taken["cell_id"].isin(cells)]
    return taken.assign(error=(~taken["tool_matches"].astype("boolean").fillna(False)).astype(float))


def _fields(block: Block) -> dict[str, Any]:
    return {name: getattr(block, name) for name in ("row", "setting", "cells", "alike", "others")}
