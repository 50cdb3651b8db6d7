"""Published tables with ours below theirs, in the papers' own shape: methods down, metrics across."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.compute as pc

from analysis import load
from analysis.load import grading, planted, provenance, queries, spending
from analysis.page.table import MISSING, Column, Table, bounds, number
from analysis.papers import beside as combined
from analysis.papers import coefficients, files, order
from analysis.papers.beside import NAMED, Block, Measured, blocks, settings_of
from analysis.papers.files import JUDGE_ERROR, WIN, Metric, Published
from analysis.stats import intervals
from analysis.tables import plan_cells as plans
from analysis.tables import restoration, win_rates
from analysis.tables.search_cells import name_of
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


def sheets(root: Path, tables: Sequence[Published] | None = None) -> list[Table]:
    """The published tables that any setting of a sweep stands beside, and behind them the order of methods.

    `tables` are all of analysis/papers/tables where not given.

    Raises:
        AnalysisError: a file of analysis/papers/tables is wrong.
        StoreError: the folder cannot be read.
    """
    tables = [table for table in (files.every() if tables is None else tables) if table.of in _OURS]
    columns = list(dict.fromkeys(column for table in tables for column in table.columns))
    of_them = pc.match_substring_regex(pc.field("dataset"), rf"^({'|'.join(_datasets(tables))})(\[|$)")
    kinds = [name for table in tables for name in table.kinds]
    read = [
        column
        for column in (*columns, *kinds, *plans.SOURCES, *spending.ADDED_UP, *grading.SOURCES)
        if column in JOINED.names
    ]
    cells = load.episodes(root, ["config", planted.ENGINE, *NAMED, *read], of_them)
    if cells.empty:
        return []
    cells = grading.added(spending.added_up(plans.derived(cells)))
    wins, wrong = win_rates.wins(root, AGAINST), restoration.errors(root)
    cells = cells.assign(
        **{name: cells["cell_id"].map(of).astype("float64") for name, of in ((WIN, wins), (JUDGE_ERROR, wrong))}
    )
    ran, made_up = {name_of(str(label)) for label in cells["dataset"].unique()}, provenance.made_up(cells)
    told = settings_of(cells)
    found, shown = list[Table](), list[tuple[Published, list[Block]]]()
    for table in tables:
        there, notes = table.of_ours("dataset", ran)
        beside = (
            blocks(there, cells, told) if there.of == "cells" else coefficients.decided_blocks(root, there, cells, told)
        )
        if any(_known(block, there) for block in beside):
            names = {str(one) for block in beside if block.setting for one in block.cells["dataset"].unique()}
            notes = [*table.notes, *(note for name, note in made_up.items() if name in names), *notes]
            notes += _unjudged(there, beside)
            found.append(replace(_sheet(root, there, beside, notes), data=frozenset(names)))
            shown += [(there, beside)] * (there.of == "cells")
    simulated = bool((cells[planted.ENGINE] == planted.SIMULATED).any())
    return found + (order.sheets(shown, _query(root, shown), simulated) if shown else [])


def _query_of(root: Path, table: Published, beside: Sequence[Block]) -> str:
    if table.of == "decisions":
        return queries.steps(root, coefficients.COLUMNS, f"{coefficients.CONDITION} AND {_where(beside)}")
    return queries.by_case(root, _values(table), _where(beside), [name for name in table.kinds if name != "refine"])


def _query(root: Path, shown: Sequence[tuple[Published, Sequence[Block]]]) -> str:
    """Each case's values, of all tables together."""
    values = {name: text for table, _ in shown for name, text in _values(table).items()}
    return queries.by_case(root, values, _where([block for _, beside in shown for block in beside]))


def _datasets(tables: Sequence[Published]) -> list[str]:
    """The files of conf/dataset on which settings can stand beside these tables."""
    return sorted({name for table in tables for row in table.rows for name in table.named(row, "dataset")})


def _known(block: Block, table: Published) -> bool:
    return any(block.measured(model, metric) for model in _models([block]) for metric in table.every_metric.values())


def _unjudged(table: Published, beside: Sequence[Block]) -> list[str]:
    """What ours have nothing of, as nobody was asked to judge their answers."""
    models = _models(beside)
    lacking = {
        name: metric.columns
        for name, metric in table.every_metric.items()
        if set(_JUDGED) & set(metric.columns)
        and not any(block.measured(model, metric) for block in beside for model in models)
    }
    wins = "; win rates: launch/win_rate.py" if any(WIN in columns for columns in lacking.values()) else ""
    told = f"ours have no {', '.join(lacking)}: no evaluator was asked (model@evaluator=NAME{wins})"
    return [told] if lacking else []


def _models(beside: Sequence[Block]) -> list[str]:
    return list(dict.fromkeys(str(model) for block in beside for model in block.cells["model"].unique()))


def _sheet(root: Path, table: Published, beside: Sequence[Block], notes: Sequence[str]) -> Table:
    """In the paper's own shape: a line a method and model, a column a metric, ours below theirs."""
    metrics = {name: metric for name, metric in table.every_metric.items() if _there(table, beside, name)}
    lines = [line for block in beside for line in _lines(table, beside, block, list(metrics))]
    places = [line["block"] for line in lines]
    return Table(
        name=f"published {table.paper} {table.table}",
        section=f"Published: {table.paper}",
        title=f"{table.paper}, {table.called}, published beside ours: {table.title}",
        by=[*table.labels, MODEL, SETTING],
        columns=[
            Column("cases", _cases),
            *(
                Column(name + _UNIT.get(metric.unit, ""), partial(_cell, name), partial(_mean, name))
                for name, metric in metrics.items()
            ),
        ],
        lines=lines,
        about=_CAPTION,
        values=pd.DataFrame([_unrounded(line, list(table.labels)) for line in lines]),
        query=_query_of(root, table, beside),
        notes=notes,
        breaks=frozenset(at for at in range(1, len(places)) if places[at] != places[at - 1]),
    )


def _there(table: Published, beside: Sequence[Block], name: str) -> bool:
    """Whether the paper has a metric, or any of our settings does."""
    if any(table.figure(block.row, model, name) is not None for block in beside for model in table.models):
        return True
    ours = _models(beside)
    return any(combined.measured(table, beside, block, model, name) for block in beside for model in ours)


def _lines(table: Published, beside: Sequence[Block], block: Block, names: Sequence[str]) -> list[dict[str, Any]]:
    """A block's lines: the models that the paper has, then ours, each with what it has of every metric."""
    counted = {name: block.row.counted(table.every_metric[name]) for name in names}
    common = dict(zip(table.labels, block.row.labels, strict=True)) | {"block": id(block), "metrics": counted}
    found = []
    for model in table.models:
        theirs = {name: table.figure(block.row, model, name) for name in names}
        if any(figure is not None for figure in theirs.values()):
            found.append(common | {MODEL: model, SETTING: MISSING, "theirs": theirs})
    for model in _models([block]):
        ours = {name: combined.measured(table, beside, block, model, name) for name in names}
        if any(ours.values()):
            found.append(common | {MODEL: f"{model} (ours)", SETTING: _setting(block, table), "ours": ours})
    return found


def _cases(line: Mapping[str, Any]) -> str:
    counts = dict.fromkeys(f"{one.cases:,}" for one in line.get("ours", {}).values() if one)
    return "/".join(counts) or MISSING


def _cell(name: str, line: Mapping[str, Any]) -> str:
    metric: Metric = line["metrics"][name]
    return _theirs(line["theirs"][name], metric) if "theirs" in line else _ours(line["ours"][name], metric)


def _setting(block: Block, table: Published) -> str:
    """Which setting of ours it is; not what the row or the whole table says: robustness, refinement and tasks."""
    if block.setting is None:
        return MISSING
    told = (_UNDISTURBED, table.ours.get("robustness"))
    planner, dataset = block.setting["planner"], block.setting["dataset"]
    if "refine" in (block.row.ours or {}):
        planner = planner.partition(" / refine ")[0]
    if "task_family" in table.kinds:
        dataset = plans.data_of(dataset)
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


def _values(table: Published) -> dict[str, str]:
    """Its columns and what each is in SQL; without those that take other rows too."""
    derived = {**plans.DERIVED, **spending.DERIVED}
    values = {column: derived.get(column, column) for column in table.columns if column not in (WIN, JUDGE_ERROR)}
    return {column: text for column, text in values.items() if text}


def _where(beside: Sequence[Block]) -> str:
    """The rows that ours come from; only labels as the files have them."""
    cells = pd.concat([block.cells for block in beside])
    planners = {name_of(str(planner)) for planner in cells["planner"].unique()}
    return queries.where({"dataset": sorted(map(str, cells["dataset"].unique())), "planner": sorted(planners)})
