"""Published tables with ours below theirs, in the papers' own shape: methods down, metrics across."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow.compute as pc

from analysis import load
from analysis.load import grading, name_of, provenance, queries, spending
from analysis.page.table import MISSING, Column, Table, bounds, number, texts
from analysis.papers import beside as combined
from analysis.papers import files, order
from analysis.papers.beside import NAMED, Block, Measured, Told, blocks, settings_of
from analysis.papers.beside import blocks as of_cells
from analysis.papers.files import JUDGE_ERROR, WIN, Metric, Published, Row
from analysis.stats import intervals
from analysis.stats.intervals import CLUSTER, Interval, share
from analysis.stats.spec import FAMILY
from analysis.tables import plan_cells, regression, restoration, win_rates
from analysis.tables.regression import Fit, Fits
from grid import store
from grid.store.schema import JOINED

MODEL, SETTING = "model", "our setting"
AGAINST = "zero_shot"
"""Against whom the papers' win rates are."""
_SCALE = {"percent": 100.0, "points": 100.0}
_FORM = {
    "share": ".3f",
    "percent": ".2f",
    "score": ".3f",
    "amount": ",.0f",
    "count": ",.0f",
    "cases": ",.0f",
    "mean": ",.2f",
    "points": "+.2f",
    "difference": "+.3f",
    "change": "+.3f",
    "ratio": ".1f",
}
_UNIT = {"percent": ", %", "points": ", points", "score": ", 0 to 10"}
_UNDISTURBED = "none"
_OURS = ("cells", "decisions")
_JUDGED = ("passed", "traj_satisfy", "accuracy", WIN)
"""Columns that nobody has without an evaluator."""
_CAPTION = (
    "(ours): of this sweep, of the setting named beside, means over cases, in brackets 95% intervals "
    f"({intervals.SHARES}; of differences Student's t, of amounts that of the mean's logarithm, so that none is below "
    f"0); all other lines: as the paper has them, with its cases, prompts and judges; {MISSING}: not measured here, "
    "or not in the paper"
)


def tables(root: Path, papers: Sequence[Published] | None = None) -> list[Table]:
    """The published tables that any setting of a sweep stands beside, and behind them the order of methods.

    `papers` are all of analysis/papers/tables where not given.

    Raises:
        AnalysisError: a file of analysis/papers/tables is wrong.
        StoreError: the folder cannot be read.
    """
    papers = [published for published in (files.every() if papers is None else papers) if published.of in _OURS]
    columns = list(dict.fromkeys(column for published in papers for column in published.columns))
    of_them = pc.match_substring_regex(pc.field("dataset"), rf"^({'|'.join(_datasets(papers))})(\[|$)")
    kinds = [name for published in papers for name in published.kinds]
    read = [
        column
        for column in (*columns, *kinds, *plan_cells.SOURCES, *spending.ADDED_UP, *grading.SOURCES)
        if column in JOINED.names
    ]
    cells = load.episodes(root, ["config", provenance.ENGINE, *NAMED, *read], of_them)
    if cells.empty:
        return []
    cells = grading.added(spending.added_up(plan_cells.derived(cells)))
    wins, wrong = win_rates.wins(root, AGAINST), restoration.errors(root)
    cells = cells.assign(
        **{name: cells["cell_id"].map(of).astype("float64") for name, of in ((WIN, wins), (JUDGE_ERROR, wrong))}
    )
    ran, made_up = {name_of(str(label)) for label in cells["dataset"].unique()}, provenance.made_up(cells)
    told = settings_of(cells)
    found, shown = list[Table](), list[tuple[Published, list[Block]]]()
    for published in papers:
        there, notes = published.of_ours("dataset", ran)
        beside = blocks(there, cells, told) if there.of == "cells" else decided_blocks(root, there, cells, told)
        if any(_known(block, there) for block in beside):
            names = {str(one) for block in beside if block.setting for one in block.cells["dataset"].unique()}
            notes = [*published.notes, *(note for name, note in made_up.items() if name in names), *notes]
            notes += _unjudged(there, beside)
            found.append(replace(_table(root, there, beside, notes), data=frozenset(names)))
            shown += [(there, beside)] * (there.of == "cells")
    simulated = bool((cells[provenance.ENGINE] == provenance.SIMULATED).any())
    return found + (order.tables(shown, _query(root, shown), simulated) if shown else [])


def _query_of(root: Path, published: Published, beside: Sequence[Block]) -> str:
    if published.of == "decisions":
        return queries.steps(root, COLUMNS, f"{CONDITION} AND {_where(beside)}")
    return queries.by_case(
        root, _values(published), _where(beside), [name for name in published.kinds if name != "refine"]
    )


def _query(root: Path, shown: Sequence[tuple[Published, Sequence[Block]]]) -> str:
    """Each case's values, of all tables together."""
    values = {name: text for published, _ in shown for name, text in _values(published).items()}
    return queries.by_case(root, values, _where([block for _, beside in shown for block in beside]))


def _datasets(papers: Sequence[Published]) -> list[str]:
    """The files of conf/dataset on which settings can stand beside these tables."""
    return sorted({name for published in papers for row in published.rows for name in published.named(row, "dataset")})


def _known(block: Block, published: Published) -> bool:
    return any(
        block.measured(model, metric) for model in _models([block]) for metric in published.every_metric.values()
    )


def _unjudged(published: Published, beside: Sequence[Block]) -> list[str]:
    """What ours have nothing of, as nobody was asked to judge their answers."""
    models = _models(beside)
    lacking = {
        name: metric.columns
        for name, metric in published.every_metric.items()
        if set(_JUDGED) & set(metric.columns)
        and not any(block.measured(model, metric) for block in beside for model in models)
    }
    wins = "; win rates: launch/win_rate.py" if any(WIN in columns for columns in lacking.values()) else ""
    told = f"ours have no {', '.join(lacking)}: no evaluator was asked (model@evaluator=NAME{wins})"
    return [told] if lacking else []


def _models(beside: Sequence[Block]) -> list[str]:
    return list(dict.fromkeys(str(model) for block in beside for model in block.cells["model"].unique()))


def _table(root: Path, published: Published, beside: Sequence[Block], notes: Sequence[str]) -> Table:
    """In the paper's own shape: a line a method and model, a column a metric, ours below theirs."""
    metrics = {name: metric for name, metric in published.every_metric.items() if _there(published, beside, name)}
    lines = [line for block in beside for line in _lines(published, beside, block, list(metrics))]
    places = [line["block"] for line in lines]
    return Table(
        name=f"published {published.paper} {published.table}",
        section=f"Published: {published.paper}",
        title=f"{published.paper}, {published.called}, published beside ours: {published.title}",
        by=[*published.labels, MODEL, SETTING],
        columns=[
            Column("cases", _cases),
            *(
                Column(name + _UNIT.get(metric.unit, ""), partial(_cell, name), partial(_mean, name))
                for name, metric in metrics.items()
            ),
        ],
        lines=lines,
        about=_CAPTION,
        values=pd.DataFrame([_unrounded(line, list(published.labels)) for line in lines]),
        query=_query_of(root, published, beside),
        notes=notes,
        breaks=frozenset(at for at in range(1, len(places)) if places[at] != places[at - 1]),
    )


def _there(published: Published, beside: Sequence[Block], name: str) -> bool:
    """Whether the paper has a metric, or any of our settings does."""
    if any(published.figure(block.row, model, name) is not None for block in beside for model in published.models):
        return True
    ours = _models(beside)
    return any(combined.measured(published, beside, block, model, name) for block in beside for model in ours)


def _lines(published: Published, beside: Sequence[Block], block: Block, names: Sequence[str]) -> list[dict[str, Any]]:
    """A block's lines: the models that the paper has, then ours, each with what it has of every metric."""
    counted = {name: block.row.counted(published.every_metric[name]) for name in names}
    common = dict(zip(published.labels, block.row.labels, strict=True)) | {"block": id(block), "metrics": counted}
    found = []
    for model in published.models:
        theirs = {name: published.figure(block.row, model, name) for name in names}
        if any(figure is not None for figure in theirs.values()):
            found.append(common | {MODEL: model, SETTING: MISSING, "theirs": theirs})
    for model in _models([block]):
        ours = {name: combined.measured(published, beside, block, model, name) for name in names}
        if any(ours.values()):
            found.append(common | {MODEL: f"{model} (ours)", SETTING: _setting(block, published), "ours": ours})
    return found


def _cases(line: Mapping[str, Any]) -> str:
    counts = dict.fromkeys(f"{one.cases:,}" for one in line.get("ours", {}).values() if one)
    return "/".join(counts) or MISSING


def _cell(name: str, line: Mapping[str, Any]) -> str:
    metric: Metric = line["metrics"][name]
    return _theirs(line["theirs"][name], metric) if "theirs" in line else _ours(line["ours"][name], metric)


def _setting(block: Block, published: Published) -> str:
    """Which setting of ours it is; not what the row or the whole table says: robustness, refinement and tasks."""
    if block.setting is None:
        return MISSING
    told = (_UNDISTURBED, published.ours.get("robustness"))
    planner, dataset = block.setting["planner"], block.setting["dataset"]
    if "refine" in (block.row.ours or {}):
        planner = planner.partition(" / refine ")[0]
    if "task_family" in published.kinds:
        dataset = plan_cells.data_of(dataset)
    parts = [planner, *[block.setting["robustness"]] * (block.setting["robustness"] not in told)]
    return " / ".join([*parts, *[dataset] * block.alike])


def _ours(measured: Measured | None, metric: Metric) -> str:
    if measured is None:
        return MISSING
    scale, form = metric.scale * _SCALE.get(metric.unit, 1.0), _FORM[metric.unit]
    of = measured.of
    return f"{number(of.mean, form, scale)} {bounds(of.low, of.high, form, scale, missing='')}".rstrip()


def _theirs(figure: float | None, metric: Metric) -> str:
    return number(figure, _FORM[metric.unit], missing=MISSING)


def _mean(name: str, line: Mapping[str, Any]) -> str:
    """Without its interval, for a terminal."""
    return _cell(name, line).partition(" [")[0]


def _unrounded(line: Mapping[str, Any], labels: Sequence[str]) -> dict[str, Any]:
    """Each metric's figure, in the table's units, with its interval and cases where it is ours."""
    found: dict[str, Any] = {name: line[name] for name in (*labels, MODEL, SETTING)}
    if "theirs" in line:
        return {**found, **line["theirs"]}
    for name, one in line["ours"].items():
        metric: Metric = line["metrics"][name]
        of, scale = (one.of if one else intervals.UNKNOWN), metric.scale * _SCALE.get(metric.unit, 1.0)
        found |= {name: scale * of.mean, f"{name} low": scale * of.low, f"{name} high": scale * of.high}
        found[f"{name} cases"] = one.cases if one else 0
    return found


def _values(published: Published) -> dict[str, str]:
    """Its columns and what each is in SQL; without those that take other rows too."""
    derived = {**plan_cells.DERIVED, **spending.DERIVED}
    values = {column: derived.get(column, column) for column in published.columns if column not in (WIN, JUDGE_ERROR)}
    return {column: text for column, text in values.items() if text}


def _where(beside: Sequence[Block]) -> str:
    """The rows that ours come from; only labels as the files have them."""
    cells = pd.concat([block.cells for block in beside])
    planners = {name_of(str(planner)) for planner in cells["planner"].unique()}
    return queries.where({"dataset": sorted(map(str, cells["dataset"].unique())), "planner": sorted(planners)})


# Published regressions with ours beside: a row a coefficient, a column a model.


COEFFICIENT, REFERENCE = "coefficient", "reference"
_FIT = (FAMILY, "robustness")
_COEFFICIENTS_CAPTION = (
    "coefficient (standard error) on the logit scale; * p < 0.05, ** p < 0.01; a column a model; (ours): of this "
    "folder's regression of the family named beside, over so many clusters; all other columns: as the paper has them, "
    f"with its cases, prompts and judges; {MISSING}: not known here, or not in the paper"
)


class _Fitted(NamedTuple):
    """A row and the fits of one family and robustness setting that stand beside it, by model; no label: none do."""

    row: Row
    label: str
    fits: Mapping[str, Fit]


def coefficient_tables(
    fits: Fits, query: str, notes: Sequence[str] = (), papers: Sequence[Published] | None = None
) -> list[Table]:
    """The published regressions that any of these fits stands beside; `query` and `notes` are of the rows fitted.

    A level's coefficient is against its factor's reference level: one against another than the paper's is left out.

    Raises:
        AnalysisError: a file of analysis/papers/tables is wrong.
    """
    families = {name_of(key.get(FAMILY, "")) for key, _ in fits}
    found = []
    for published in files.every() if papers is None else papers:
        if published.of == "coefficients":
            there, left_out = published.of_ours(FAMILY, families)
            beside = _beside(there, fits)
            if any(one.fits for one in beside):
                found.append(_fits_table(there, beside, query, [*published.notes, *notes, *left_out]))
    return found


def _beside(published: Published, fits: Fits) -> list[_Fitted]:
    """The rows in their order, each with every family and robustness setting of ours that stands beside it."""
    found: list[_Fitted] = []
    for row in published.rows:
        conditions = published.conditions(row) or {}
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


def _fits_table(published: Published, beside: Sequence[_Fitted], query: str, notes: Sequence[str]) -> Table:
    ours = list(dict.fromkeys(model for one in beside for model in one.fits))
    columns = [metric.columns[0] for metric in published.metrics.values()]
    rows, values = list[list[str]](), list[dict[str, Any]]()
    breaks, before = set[int](), None
    for row, label, fits in beside:
        if row.labels[0] != before:
            breaks.add(len(rows))
            before = row.labels[0]
        own = {model: _figures(row, fits.get(model), columns) for model in ours}
        clusters = "/".join(dict.fromkeys(f"{fits[model].clusters:,}" for model in ours if own[model])) or MISSING
        theirs = {model: row.figures.get(model, []) for model in published.models}
        shown = [_shown(found) for found in (*own.values(), *theirs.values())]
        rows.append([*row.labels, label, clusters, *shown])
        told: dict[str, Any] = dict(zip([*published.labels, "our family"], rows[-1], strict=False))
        for model, found in [*((f"{model} (ours)", found) for model, found in own.items()), *theirs.items()]:
            told |= {f"{model} {name}": value for name, value in zip(published.metrics, found or [], strict=False)}
        values.append(told)
    labels = [*published.labels, "our family"]
    return Table(
        name=f"published {published.paper} {published.table}",
        section=f"Published: {published.paper}",
        title=f"{published.paper}, {published.called}, published beside ours: {published.title}",
        by=texts(labels),
        columns=texts(["clusters", *(f"{model} (ours)" for model in ours), *published.models], len(labels)),
        lines=rows,
        about=_COEFFICIENTS_CAPTION,
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
    root: Path, published: Published, cells: pd.DataFrame, told: Sequence[Told] | None = None
) -> list[Block]:
    """The table's rows as `beside.blocks` gives them, with the decisions of ours.

    Raises:
        StoreError: the folder cannot be read.
    """
    found = of_cells(published, cells, told)
    if not any(block.setting for block in found):
        return found
    wanted = {str(cell) for block in found for cell in block.cells["cell_id"]}
    taken = read(root, wanted, with_entropy=all(row.entropy for row in published.rows))
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
