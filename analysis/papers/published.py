"""Published tables with our figures below the paper's, in the papers' shape: a row per method, a column per metric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from analysis import load
from analysis.load import grading, name_of, provenance, queries, spending
from analysis.load.queries import ask
from analysis.page.table import MISSING, Column, Table, bounds, number, texts
from analysis.papers import beside as combined
from analysis.papers import files, order
from analysis.papers.beside import NAMED, Block, Measured, blocks, query, settings_of, standing
from analysis.papers.files import JUDGE_ERROR, WIN, Metric, Published, Row
from analysis.stats import intervals
from analysis.stats.spec import FAMILY
from analysis.tables import plan_cells, regression
from analysis.tables.regression import Fit, Fits
from grid import store
from grid.store.schema import JOINED

MODEL, SETTING = "model", "our setting"
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
"""Columns that have values only if there is an evaluator."""
_COMPARED = ["cell_id", "against_cell_id", "against", "win", "created_at"]
_NODES = ["cell_id", "r_pre", "pre_right", "r_post", "post_right"]
_STEPS = ["cell_id", "branch", "substep_id", "reference_tool", "entropy", "tool_required", "tool_matches"]
_CAPTION = (
    "(ours): values of this sweep for the setting named in the line, as means over cases with 95% intervals in "
    f"brackets (for shares: {intervals.SHARES}; for differences: Student's t; for amounts: Student's t on the "
    "logarithm of the mean, so no bound is below 0); all other lines: values from the paper, with its cases, prompts "
    f"and judges; {MISSING}: not measured here, or not in the paper"
)


def tables(root: Path, papers: Sequence[Published] | None = None) -> list[Table]:
    """The published tables that have a row for at least one of our settings, followed by the order of methods.

    `papers` are the published tables to consider; by default, all tables in analysis/papers/tables.

    Raises:
        AnalysisError: a file of analysis/papers/tables is wrong.
        StoreError: the folder cannot be read.
    """
    papers = [published for published in (files.every() if papers is None else papers) if published.of in _OURS]
    cells = _cells(root, papers)
    if cells.empty:
        return []
    ran, made_up, told = (
        {name_of(str(label)) for label in cells["dataset"].unique()},
        provenance.made_up(cells),
        settings_of(cells),
    )
    found, shown = list[Table](), list[tuple[Published, list[Block], str]]()
    for published in papers:
        there, notes = published.of_ours("dataset", ran)
        beside = standing(there, told)
        if not any(beside):
            continue
        asked = ask(cells, query(there, beside), **_further(root, there))
        each = blocks(there, asked.rows, beside)
        lines = [line for block in each for line in _lines(there, each, block)]
        if any("ours" in line for line in lines):
            names = frozenset(str(one) for block in each if block.setting for one in block.cases["dataset"].unique())
            notes = [*published.notes, *(note for name, note in made_up.items() if name in names), *notes]
            text = queries.of_files(root, asked.query)
            table = _table(there, lines, text, [*notes, *_unjudged(there, lines)])
            found.append(replace(table, data=names))
            shown += [(there, each, asked.query)] * (there.of == "cells")
    if not shown:
        return found
    text = queries.of_files(root, ";\n".join(query for *_, query in shown))
    simulated = bool((cells[provenance.ENGINE] == provenance.SIMULATED).any())
    return found + order.tables([one[:2] for one in shown], text, simulated)


def _cells(root: Path, papers: Sequence[Published]) -> pd.DataFrame:
    """The cells of the data sets that these tables' rows name, with all columns that the tables' queries read."""
    datasets = {name for published in papers for row in published.rows for name in published.named(row, "dataset")}
    of_them = pc.match_substring_regex(pc.field("dataset"), rf"^({'|'.join(sorted(datasets))})(\[|$)")
    names = [name for published in papers for name in (*published.columns, *published.kinds)]
    names += [*plan_cells.SOURCES, *spending.ADDED_UP, *grading.SOURCES]
    read = [name for name in dict.fromkeys(names) if name in JOINED.names]
    return grading.added(load.episodes(root, ["config", provenance.ENGINE, *NAMED, *read], of_them))


def _further(root: Path, published: Published) -> dict[str, pa.Table]:
    """The tables, besides the table of cells, that a published table's query reads."""
    found: dict[str, pa.Table] = {}
    if WIN in published.columns:
        found["comparisons"] = store.read(root, "comparisons", _COMPARED)
    if JUDGE_ERROR in published.columns:
        found["nodes"] = store.read(root, "nodes", _NODES)
    if published.of == "decisions":
        found["steps"] = store.read(root, "steps", _STEPS, (pc.field("branch") == 0) & pc.field("tool_required"))
    return found


def _unjudged(published: Published, lines: Sequence[Mapping[str, Any]]) -> list[str]:
    """A note on the metrics that our rows lack because no evaluator was asked to judge our answers."""
    lacking = {
        name: metric.columns
        for name, metric in published.every_metric.items()
        if set(_JUDGED) & set(metric.columns) and not any(line["ours"][name] for line in lines if "ours" in line)
    }
    wins = "; for win rates, run launch/win_rate.py" if any(WIN in columns for columns in lacking.values()) else ""
    told = (
        f"our lines lack {', '.join(lacking)}, because no evaluator judged our answers (set model@evaluator=NAME{wins})"
    )
    return [told] if lacking else []


def _table(published: Published, lines: Sequence[Mapping[str, Any]], text: str, notes: Sequence[str]) -> Table:
    """A table in the paper's shape: a line per method and model, ours below theirs; a column per metric with values."""
    metrics = {
        name: metric
        for name, metric in published.every_metric.items()
        if any(line.get("ours", line.get("theirs"))[name] is not None for line in lines)
    }
    places = [line["block"] for line in lines]
    return Table(
        name=f"published {published.paper} {published.table}",
        section=f"Published: {published.paper}",
        title=f"{published.paper}, {published.called}, published values beside ours: {published.title}",
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
        values=pd.DataFrame([_unrounded(line, [*published.labels, MODEL, SETTING], list(metrics)) for line in lines]),
        query=text,
        notes=notes,
        breaks=frozenset(at for at in range(1, len(places)) if places[at] != places[at - 1]),
    )


def _lines(published: Published, beside: Sequence[Block], block: Block) -> list[dict[str, Any]]:
    """A block's lines: first the paper's models, then ours, each line with its value of every metric."""
    counted = {name: block.row.counted(metric) for name, metric in published.every_metric.items()}
    common = dict(zip(published.labels, block.row.labels, strict=True)) | {"block": id(block), "metrics": counted}
    found = []
    for model in published.models:
        theirs = {name: published.figure(block.row, model, name) for name in counted}
        if any(figure is not None for figure in theirs.values()):
            found.append(common | {MODEL: model, SETTING: MISSING, "theirs": theirs})
    for model in map(str, block.cases["model"].unique()):
        ours = {name: combined.measured(published, beside, block, model, name) for name in counted}
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
    """The label of our setting, without parts that the row or the table names: robustness, refinement and tasks."""
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
    """A cell's text without its interval, for a terminal."""
    return _cell(name, line).partition(" [")[0]


def _unrounded(line: Mapping[str, Any], labels: Sequence[str], names: Sequence[str]) -> dict[str, Any]:
    """Each metric's unrounded figure in the table's units; for our figures, also interval and number of cases."""
    found: dict[str, Any] = {name: line[name] for name in labels}
    if "theirs" in line:
        return found | {name: line["theirs"][name] for name in names}
    for name in names:
        metric, one = line["metrics"][name], line["ours"][name]
        of, scale = (one.of if one else intervals.UNKNOWN), metric.scale * _SCALE.get(metric.unit, 1.0)
        found |= {name: scale * of.mean, f"{name} low": scale * of.low, f"{name} high": scale * of.high}
        found[f"{name} cases"] = one.cases if one else 0
    return found


# Published regressions next to ours: one row per coefficient, one column per model.


COEFFICIENT, REFERENCE = "coefficient", "reference"
_FIT = (FAMILY, "robustness")
_COEFFICIENTS_CAPTION = (
    "coefficient (standard error) on the logit scale; *: p < 0.05, **: p < 0.01; one column per model; (ours): this "
    "folder's regression for the family named in the line; clusters: the number of clusters in this regression; all "
    f"other columns: values from the paper, with its cases, prompts and judges; {MISSING}: not known here, "
    "or not in the paper"
)


class _Fitted(NamedTuple):
    """A row, and our fits for it by model, for one family and robustness setting; without fits, `label` is MISSING."""

    row: Row
    label: str
    fits: Mapping[str, Fit]


def coefficient_tables(
    fits: Fits, query: str, notes: Sequence[str] = (), papers: Sequence[Published] | None = None
) -> list[Table]:
    """The published regressions for which we have at least one fit.

    `query` and `notes` are about the rows that were fitted.

    A level's coefficient is relative to its factor's reference level. If our reference level is not the paper's, the
    coefficient is left out.

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
    """The paper's rows in their order, each with all our families and robustness settings that belong next to it."""
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
    """Whether a fit's label, without its changes, is the wanted label or one of several wanted labels."""
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
        title=f"{published.paper}, {published.called}, published values beside ours: {published.title}",
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
    """Our coefficient, standard error and p; empty if the fit lacks the coefficient or has another reference level."""
    wanted = row.ours or {}
    name = str(wanted.get(COEFFICIENT))
    if fit is None or wanted.get(REFERENCE) not in (None, fit.references.get(name.partition("[")[0])):
        return []
    found = fit.coefficients.loc[fit.coefficients["name"] == name, columns]
    return [None if pd.isna(value) else float(value) for value in found.iloc[0]] if len(found) else []


def _shown(found: Sequence[float | None]) -> str:
    """`coefficient** (standard error)`; the coefficient of a separated level has no standard error."""
    value, error, p = found or (None, None, None)
    if value is None:
        return MISSING
    if error is None or p is None:
        return f"{value:+}"
    return regression.starred(value, error, p)
