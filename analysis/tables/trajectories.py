"""The trajectory metrics of every setting (traject_bench §4.1), and the values that chance would reach."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator

from analysis import load
from analysis.load import ALL, SETTING, name_of, provenance, queries
from analysis.load.baselines import CHANCE
from analysis.load.queries import LABELLED, Asked, ask
from analysis.page.drawing import ACROSS, COLOURS, MARKERS, Drawing, each_panel, legend, percents, reach, svg_of
from analysis.page.table import MISSING, Column, Row, Table, bounds, count, mean, number
from analysis.stats import intervals
from analysis.stats.intervals import CLUSTER, amount, by_case, share
from grid import store
from grid.core.untrusted import shown
from grid.metrics.scores import PATTERNS

METRICS = {
    "exact_match": ("EM", 100.0),
    "inclusion": ("inclusion", 100.0),
    "inclusion_set": ("inclusion (set)", 100.0),
    "usage": ("usage", 100.0),
    "retrieval_rate": ("retrieval rate", 100.0),
    "tool_precision": ("precision", 100.0),
    "tool_recall": ("recall", 100.0),
    "traj_satisfy": ("traj-satisfy", 1.0),
    "accuracy": ("accuracy", 100.0),
    "correct_path": ("correct path", 100.0),
    "extra_calls": ("extra calls", 1.0),
    "passed": ("pass rate", 100.0),
    "instruction_accuracy": ("instruction", 100.0),
    "tool_accuracy": ("tool", 100.0),
    "argument_accuracy": ("argument", 100.0),
    "answer_score": ("answer", 100.0),
    "tool_f1": ("tool F1", 100.0),
    "argument_f1": ("argument F1", 100.0),
    "plan_f1": ("plan F1", 100.0),
    "execution_f1": ("execution F1", 100.0),
    "argument_name_f1": ("argument-name F1", 100.0),
    "argument_value_f1": ("argument-value F1", 100.0),
    "edge_f1": ("edge F1", 100.0),
    "plan_accuracy": ("plan accuracy", 100.0),
    "plan_names_accuracy": ("plan accuracy (names)", 100.0),
    "plan_values_accuracy": ("plan accuracy (values)", 100.0),
    "edit_distance": ("edit distance", 1.0),
    "answer_em": ("answer EM", 100.0),
    "answer_f1": ("answer F1", 100.0),
    "hallucinated": ("hallucination", 100.0),
    "side_effect": ("side effect", 100.0),
    "milestones": ("milestones", 100.0),
    "forbidden_calls": ("forbidden calls", 1.0),
}
"""Columns of `episodes` with their headers and scales."""
_KNOWN = " OR ".join(f"{name} IS NOT NULL" for name in METRICS)
_HIGHEST = {"traj_satisfy": 10.0, "extra_calls": math.inf, "forbidden_calls": math.inf}
"""Maximum values of metrics whose maximum is not 1."""
_PLACE = ["dataset", "robustness"]
_CAPTION = f"means over cases, in %, with 95% intervals in brackets ({intervals.SHARES})"
_TOLD = {
    "exact_match": "EM: the called tools are the reference's, in the reference's order if order matters",
    "inclusion": "inclusion: share of the reference's list of tools that was called; at most the retrieval rate, and "
    "below 100 if the list names a tool twice; (set): share of the reference's set of tools",
    "usage": "usage: share of the tools called by both the planner and the reference that have the right arguments",
    "retrieval_rate": "retrieval rate: share of the reference's list of tools that was on offer",
    "tool_precision": "precision, recall: of the set of called tools, compared with the set of the reference's tools",
    "traj_satisfy": "traj-satisfy: an evaluator's grade from 0 to 10",
    "accuracy": "accuracy: share of answers that an evaluator calls right",
    "correct_path": "correct path: the calls include all of the reference's, in the reference's order",
    "extra_calls": "extra calls: calls beyond the reference's if the path is correct; their interval: "
    f"{intervals.AMOUNTS}",
    "answer_em": "answer EM, answer F1: exact match and token F1 of the parts of an answer (HotpotQA's official "
    "evaluation)",
    "milestones": "milestones: share of the case's milestones that were reached",
    "forbidden_calls": f"forbidden calls: calls that the case forbids; their interval: {intervals.AMOUNTS}",
    "passed": "pass rate: share of cases that an evaluator passes; the verdict unsure counts half",
}
_CHANCE = (
    f"{CHANCE}: from the tools on offer at the first decision, draws as many different tools as the reference "
    "has calls; its EM compares sets"
)


def read(root: Path) -> pd.DataFrame:
    """The episodes for which at least one metric is known, with METRICS, `plan_nodes` and `engine`.

    Raises:
        StoreError: the folder cannot be read.
    """
    known = pc.field("exact_match").is_valid()
    for name in METRICS:
        known = known | pc.field(name).is_valid()
    return load.once(
        root, "trajectories", lambda: load.episodes(root, ["plan_nodes", provenance.ENGINE, *METRICS], known)
    )


def tables(root: Path, cells: pd.DataFrame) -> list[Table]:
    """One table for each model, from the rows of `read`.

    Raises:
        StoreError: the folder cannot be read.
    """
    steps, found = offers(root), []
    for model, own in cells.groupby("model", sort=False, observed=True):
        where = f"{queries.where({'model': [str(model)]})} AND ({_KNOWN})"
        asked, drawn = ask(own, queries.of_cases([*METRICS], where)), chance(own, steps, where)
        text = queries.of_files(root, asked.query, *[drawn.query] * bool(len(drawn.rows)))
        found.append(_table(str(model), measured(asked.rows), drawn.rows, text))
    return found


def measured(cases: pd.DataFrame) -> pd.DataFrame:
    """One row per setting: `cases`, `clusters`; mean, `_low`, `_high` and `_cases` (known cases) of each of METRICS."""
    rows = []
    for group in by_case(cases, SETTING, [*METRICS]):
        row: dict[str, Any] = dict(zip(SETTING, map(str, group.key), strict=True))
        row |= {"cases": group.cases, "clusters": group.clusters}
        for name, known in group.samples.items():
            most = _HIGHEST.get(name, 1.0)
            found = share(known, most) if math.isfinite(most) else amount(known)
            row |= found.named(name) | {f"{name}_cases": len(known.values)}
        rows.append(row)
    return pd.DataFrame(rows)


def offers(root: Path) -> pa.Table:
    """The rows of the table `steps` that `chance` reads: cells' first decisions.

    Raises:
        StoreError: the folder cannot be read.
    """
    first = (pc.field("branch") == 0) & (pc.field("step") == 0) & pc.field("n_options").is_valid()
    return store.read(root, "steps", ["cell_id", "branch", "step", "n_options"], first)


def chance(cells: pd.DataFrame, steps: pa.Table, where: str = "true") -> Asked:
    """The metrics of random draws, per robustness setting, retriever and pool.

    There are no rows if it is not known which tools were offered.

    n tools (as many as the reference has calls) are drawn from the k tools that were offered at the first decision. Of
    these k tools, r times n are tools of the reference, where r is the retrieval rate. The option `finish`, or the
    option to call no tool, is not among the k. If k is smaller than n, all k are drawn. The metrics are means over
    cases. Cells that follow an outline are left out, because an outline offers tools substep by substep.
    """
    asked = ask(cells, _DRAWN.format(where=where), steps=steps)
    found, several = asked.rows, asked.rows["retriever"].nunique() > 1
    names = [f"{CHANCE} / {retriever}" if several else CHANCE for retriever in found["retriever"]]
    names = [name if pool == ALL else f"{name} / pool {pool}" for name, pool in zip(names, found["pool"], strict=True)]
    return asked._replace(rows=found.assign(planner=names).drop(columns=["retriever", "pool"]))


_DRAWN = """WITH o AS (SELECT cell_id, any_value(n_options) - 1 AS k FROM steps
  WHERE branch = 0 AND step = 0 AND n_options > 1 GROUP BY ALL),
d AS (SELECT *, least(plan_nodes, k)::BIGINT AS n, retrieval_rate * n / k AS hit
  FROM e JOIN o USING (cell_id) WHERE {where} AND tool_match_rate IS NULL AND plan_nodes IS NOT NULL),
c AS (SELECT dataset, robustness, retriever, pool, case_id, avg(hit) AS hit,
    avg(if(retrieval_rate >= 1, coalesce(list_product([(i + 1) / (k - i) for i in range(n)]), 1), 0)) AS exact
  FROM d WHERE hit IS NOT NULL GROUP BY ALL)
SELECT dataset::VARCHAR AS dataset, robustness::VARCHAR AS robustness, retriever::VARCHAR AS retriever,
  pool::VARCHAR AS pool, avg(exact) AS exact_match, avg(hit) AS inclusion, avg(hit) AS tool_precision,
  avg(hit) AS tool_recall, count(*) AS cases
FROM c GROUP BY ALL ORDER BY ALL"""


def _table(model: str, frame: pd.DataFrame, drawn: pd.DataFrame, query: str) -> Table:
    shown = [name for name in METRICS if frame[name].notna().any()]
    lines: list[Row] = []
    for place, own in frame.groupby(_PLACE, sort=False):
        lines += own.to_dict("records")
        lines += drawn[(drawn[_PLACE] == list(place)).all(axis=1)].to_dict("records")
    return Table(
        name=f"trajectory {model}",
        title=f"{model}: trajectory metrics (traject_bench §4.1)",
        by=[*_PLACE, "planner"],
        columns=[
            count("cases"),
            Column("clusters", lambda row: number(row.get("clusters"), ",.0f", missing=MISSING)),
            *(Column(METRICS[name][0], partial(_bounded, name), said=_TOLD.get(name, "")) for name in shown),
        ],
        values=pd.concat([frame, drawn], ignore_index=True),
        query=query,
        about="; ".join([_CAPTION, *[_CHANCE] * len(drawn[:1])]),
        lines=lines,
        notes=_partly(frame, shown),
        breaks=_PLACE,
    )


def _bounded(name: str, row: Mapping[Any, Any]) -> str:
    scale, most = METRICS[name][1], _HIGHEST.get(name, 1.0)
    form = f".{1 if scale > 1 else 2}f"
    mean, low = number(row.get(name), form, scale, MISSING), row.get(f"{name}_low")
    if pd.isna(low):
        return mean
    return f"{mean} {bounds(max(low, 0.0), min(row[f'{name}_high'], most), form, scale)}"


def _partly(frame: pd.DataFrame, shown: list[str]) -> list[str]:
    """Notes on metrics that are not known for every case, so that their means are over only some of the cases."""
    found = []
    for name in shown:
        share = frame[f"{name}_cases"] / frame["cases"]
        if share.min() < 1:
            found.append(
                f"{METRICS[name][0]}: known for {100 * share.min():.0f} to {100 * share.max():.0f}% of the cases"
            )
    return found


# The figure of exact match by the number of tools (traject_bench, figure 2).


_WIDE = 3  # maximum number of panels in a row


def drawings(root: Path, cells: pd.DataFrame, told: str) -> list[Drawing]:
    """Figure 2, a panel for each dataset and robustness setting; `told` begins the caption. Only for TRAJECT-Bench."""
    found, query = curve(cells)
    if found.empty:
        return []
    return [
        Drawing(
            "tools",
            TITLE,
            f"{told}{CAPTION}; points are moved sideways to avoid overlap",
            _svg(found),
            queries.of_files(root, query),
        )
    ]


def _svg(found: pd.DataFrame) -> str:
    places = list(found.groupby(["dataset", "robustness"], sort=False))
    lines = sorted({_line(row) for row in found.to_dict("records")})
    sizes = sorted(found["tools"].unique())

    def draw(axes: Sequence[Axes]) -> None:
        for axis, ((dataset, robustness), own) in each_panel(axes, places):
            _panel(axis, own, lines)
            axis.set_title(shown(str(dataset)) + f"\nrobustness: {shown(str(robustness))}", fontsize=8)
            axis.xaxis.set_major_locator(FixedLocator(sizes))
            axis.set_xlabel("tools in the reference")
            percents(axis.yaxis, "exact match")
            axis.set_ylim(-0.02, 1.02)
        legend(axes)

    rows = math.ceil(len(places) / _WIDE)
    below = 0.18 * math.ceil(len(lines) / ACROSS) / rows
    return svg_of("tools", rows, min(_WIDE, len(places)), draw, width=3.9, height=2.8 + below)


def _panel(axis: Axes, own: pd.DataFrame, lines: Sequence[str]) -> None:
    named = own.assign(line=[_line(row) for row in own.to_dict("records")])
    for line, points in named.groupby("line", sort=True):
        place = lines.index(str(line))
        points = points.sort_values("tools")
        move = 0.4 * ((place + 0.5) / len(lines) - 0.5)
        axis.errorbar(points["tools"] + move, points["exact_match"], yerr=reach(points, "exact_match"),
                      color=COLOURS[place % len(COLOURS)], marker=MARKERS[place % len(MARKERS)], markersize=4,
                      linewidth=1.2, elinewidth=0.5, label=shown(str(line)))  # fmt: skip


def _line(row: Mapping[Any, Any]) -> str:
    return f"{row['model']}, {row['planner']}"


# Exact match by the number of tools in the reference (traject_bench §4.2, figure 2).


DATASET = "traject_bench"
TITLE = "exact match by the number of tools (traject_bench, figure 2)"
CAPTION = (
    "share of cases in which the called tools are the reference's, by the number of the reference's calls, with 95% "
    f"intervals ({intervals.SHARES}); the paper has figure 2 only as a picture, without numbers"
)


def curve(cells: pd.DataFrame) -> Asked:
    """One row per setting on TRAJECT-Bench and number of calls (`tools`): `cases`, `exact_match`, `_low`, `_high`.

    `cells` are the rows of `read`. Without TRAJECT-Bench, the frame and the query are empty.
    """
    names = sorted({str(name) for name in cells["dataset"].unique() if name_of(str(name)) == DATASET})
    if not names:
        return Asked(pd.DataFrame(), "")
    where = f"{queries.where({'dataset': names})} AND exact_match IS NOT NULL AND plan_nodes IS NOT NULL"
    asked = ask(cells, queries.of_cases(["exact_match"], where, ["plan_nodes"]))
    rows: list[dict[str, Any]] = []
    for key, own in asked.rows.groupby([*SETTING, "plan_nodes"], sort=True, observed=True):
        row: dict[str, Any] = dict(zip(SETTING, map(str, key), strict=False))
        row |= {"tools": int(own["plan_nodes"].iloc[0]), "cases": len(own)}
        rows.append(row | share(own.set_index(CLUSTER)["exact_match"]).named("exact_match"))
    return asked._replace(rows=pd.DataFrame(rows))


def scaling_tables(root: Path, cells: pd.DataFrame) -> list[Table]:
    """Figure 2 as a table per model, only for TRAJECT-Bench: a row per setting, a column per number of tools."""
    found, query = curve(cells)
    if found.empty:
        return []
    text = queries.of_files(root, query)
    return [_scaling_table(str(model), own, text) for model, own in found.groupby("model", sort=False)]


def _scaling_table(model: str, frame: pd.DataFrame, query: str) -> Table:
    sizes = sorted(frame["tools"].unique())
    labels = ["dataset", "robustness", "planner"]
    lines = [
        dict(zip(labels, key, strict=True)) | {"at": {row["tools"]: row for row in own.to_dict("records")}}
        for _, part in frame.groupby(labels[:2], sort=False)
        for key, own in part.groupby(labels, sort=False)
    ]
    return Table(
        name=f"tools {model}",
        title=f"{model}: {TITLE}",
        by=labels,
        columns=[Column(f"{size} tools", partial(_share, size)) for size in sizes],
        values=frame,
        query=query,
        about=f"in %; {CAPTION}; in parentheses: the number of cases",
        lines=lines,
        breaks=labels[:2],
    )


def _share(size: int, line: Mapping[str, Any]) -> str:
    row = line["at"].get(size)
    if row is None:
        return MISSING
    low, high = max(row["exact_match_low"], 0), min(row["exact_match_high"], 1)
    return (
        f"{number(row['exact_match'], '.0f', 100)} {bounds(low, high, '.0f', missing='')}".rstrip()
        + f" ({row['cases']:,})"
    )


# F1 of tool choice by kind of tool, over all cases: for GTA by its four categories, for m&m's by each tool.


COUNTS_COLUMN = "tool_counts"
SMALL = 1e-5
"""The number that GTA's evaluator adds to denominators that may be 0; no shown value depends on it."""
_SHOWN = 8  # maximum number of kinds; with more, no kind has its own column
_COUNTED = """SELECT {labels}, one.key AS kind, count(*) AS cells, sum(one.value[1])::BIGINT AS hits,
  sum(one.value[2])::BIGINT AS predicted, sum(one.value[3])::BIGINT AS gold, min(place) AS place
FROM (SELECT *, unnest(map_entries(counts)) AS one, generate_subscripts(map_keys(counts), 1) AS place
  FROM (SELECT *, tool_counts::JSON::MAP(VARCHAR, BIGINT[]) AS counts FROM e WHERE {where} AND tool_counts IS NOT NULL))
GROUP BY ALL ORDER BY ALL"""
_KINDS_CAPTION = (
    "F1 in %, from hits, calls made and gold calls summed over all cells; macro: mean over the kinds with gold calls "
    "(other kinds have no F1); GTA counts a gold call as a hit if its tool was called at all, so F1 can "
    "exceed 100"
)


def kind_tables(root: Path) -> list[Table]:
    """A table for each model and dataset whose tool calls are counted by kind. Raises StoreError."""
    cells = load.episodes(root, [COUNTS_COLUMN], pc.field(COUNTS_COLUMN).is_valid())
    found = []
    for model, dataset, own in load.places(cells):
        asked = ask(own, _COUNTED.format(labels=LABELLED, where=queries.place(model, dataset)))
        kinds = asked.rows.sort_values(["disturbed", "robustness", "planner", "place"], kind="stable")
        told = kinds.drop(columns=["disturbed", "place"]).assign(f1=f1(kinds))
        found.append(_kinds_table(model, dataset, told, queries.of_files(root, asked.query)))
    return found


def f1(counts: pd.DataFrame) -> pd.Series[float]:
    """F1 as in GTA's evaluator, from the columns `hits`, `predicted` and `gold`; NaN without gold calls."""
    precision = counts["hits"] / (counts["predicted"] + SMALL)
    recall = counts["hits"] / counts["gold"].where(counts["gold"] > 0)
    return 2 * precision * recall / (precision + recall + SMALL)


def _kinds_table(model: str, dataset: str, own: pd.DataFrame, query: str) -> Table:
    kinds = list(dict.fromkeys(own["kind"]))
    shown = kinds if len(kinds) <= _SHOWN else []
    lines = []
    for (robustness, planner), found in own.groupby(SETTING[2:], sort=False, observed=True):
        values = found.set_index("kind")["f1"]
        line = {"robustness": robustness, "planner": planner, "gold": found["gold"].sum(), "macro": values.mean()}
        lines.append(line | {f"of {kind}": values.get(kind, math.nan) for kind in shown})
    return Table(
        name=f"tool F1 by category {model} {dataset}",
        title=f"{model} on {dataset}: F1 of tool choice by kind of tool",
        by=SETTING[2:],
        columns=[count("gold", "gold calls"), mean("macro", "macro"), *(mean(f"of {kind}", kind) for kind in shown)],
        lines=lines,
        about=_KINDS_CAPTION,
        values=own,
        query=query,
        notes=[]
        if shown
        else [f"the values of the {len(kinds)} kinds are in the table's CSV file, and in the result of its query"],
    )


# Failure patterns of trajectories: the share of cells with each pattern (traject_bench §4.2).


PATTERNS_COLUMN = "failure_patterns"
_PATTERNS_CAPTION = (
    "share of cells with each pattern, in %; a cell may have several patterns; none: the calls are all or "
    "some of the reference's calls, in any order; the rules are in grid/metrics/failure_patterns.py"
)


def pattern_tables(root: Path) -> list[Table]:
    """A table for each model and dataset whose cells were searched for patterns. Raises StoreError."""
    cells = load.episodes(root, [PATTERNS_COLUMN], pc.field(PATTERNS_COLUMN).is_valid())
    found = []
    each = [(name, f"list_contains({PATTERNS_COLUMN}, '{name}')") for name in PATTERNS]
    means = [f"avg(({text})::INT) AS {name}" for name, text in (*each, ("none", f"len({PATTERNS_COLUMN}) = 0"))]
    for model, dataset, own in load.places(cells):
        where = f"{queries.place(model, dataset)} AND {PATTERNS_COLUMN} IS NOT NULL"
        asked = ask(own, queries.of_settings(["count(*) AS cells", *means], where))
        found.append(_patterns_table(model, dataset, asked.rows, queries.of_files(root, asked.query)))
    return found


def _patterns_table(model: str, dataset: str, own: pd.DataFrame, query: str) -> Table:
    return Table(
        name=f"failure patterns {model} {dataset}",
        title=f"{model} on {dataset}: failure patterns",
        by=SETTING[2:],
        columns=[count("cells"), *(mean(name, name.replace("_", " ")) for name in (*PATTERNS, "none"))],
        values=own.drop(columns="disturbed"),
        query=query,
        about=_PATTERNS_CAPTION,
    )
