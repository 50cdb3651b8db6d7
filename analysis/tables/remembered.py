"""The gain from memory: each planner's results with memory minus those without, on the same cases (egb_slate B.1)."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.compute as pc

from analysis import load
from analysis.load import UNCHANGED, queries
from analysis.load.queries import Asked, ask
from analysis.page.table import MISSING, Column, Table, count, number
from analysis.stats.intervals import ALIKE, CLUSTER, TOLD, holm, interval, n_clusters, p_value
from analysis.tables.rates import paired

GAINS = ["success", "tool_match_rate"]
"""The rates that are compared."""
_LABELS = ["robustness", "planner", "memory"]
_CAPTION = (
    "traces: the number of remembered traces / the number of cases that the earlier sweep ran; cases: the number of "
    "cases run both with and without memory; without, with: success in %; gain: success with memory minus success "
    f"without it, in percentage points, paired over cases; 95% interval: {TOLD}; *: the interval excludes 0, †: "
    f"significant also after Holm's correction over this table's gains in the same column; {ALIKE}; apart=true: no "
    "trace comes from the case's own cluster (the cases of one template)"
)


def tables(root: Path) -> list[Table]:
    """A table for each model and dataset with planners that ran both with and without memory.

    Raises:
        StoreError: the folder cannot be read.
    """
    if not _labels(root) - {UNCHANGED}:
        return []
    cells = load.episodes(root, ["config"])
    found = []
    for model, dataset, own in load.places(cells):
        values, query = gains(own, queries.place(model, dataset))
        if not values.empty:
            found.append(_table(model, dataset, values, queries.of_files(root, query)))
    return found


def gains(cells: pd.DataFrame, where: str = "true") -> Asked:
    """For one model and dataset, one row per robustness setting, planner and memory, with its gain.

    A planner has rows only if it also ran without memory in the same robustness setting.

    `traces` is the number of remembered traces, and `of_cases` the number of cases that the traces come from. `cases`
    and `clusters` count the cases with known success both with and without memory. Each of GAINS has the shares
    `_without` and `_with`, the difference with `_low` and `_high`, its p (`_p`) and Holm's p (`_holm`). A figure that
    is not known is NaN. The frame is empty, without columns, if no planner has rows.
    """
    memory = f"coalesce(memory, '{UNCHANGED}') AS memory"
    asked = ask(cells, queries.of_cases(GAINS, where, [memory, "any_value(config) AS config"]))
    base = _without_memory(asked.rows["planner"].astype(str), asked.rows["memory"])
    grouped = asked.rows.assign(base=base).groupby(["robustness", "base", "memory"], observed=True)
    settings = {key: own.set_index([CLUSTER, "case_id"]) for key, own in grouped}
    rows = []
    for (robustness, planner, label), own in settings.items():
        if label == UNCHANGED or (robustness, planner, UNCHANGED) not in settings:
            continue
        held = json.loads(own["config"].iloc[0]).get("memory", {}).get("held", {})
        row = {"robustness": str(robustness), "planner": planner, "memory": label}
        row |= {"traces": held.get("traces", math.nan), "of_cases": held.get("cases", math.nan)}
        rows.append(row | _gained(own, settings[robustness, planner, UNCHANGED]))
    found = pd.DataFrame(rows)
    found = found.assign(**{f"{rate}_holm": holm(found[f"{rate}_p"]) for rate in GAINS}) if rows else found
    return asked._replace(rows=found)


def _gained(own: pd.DataFrame, without: pd.DataFrame) -> dict[str, float]:
    """Each rate's difference over the cases for which the rate is known both with and without memory."""
    found: dict[str, float] = {}
    for rate in GAINS:
        both = pd.concat([own[rate], without[rate]], axis=1, join="inner", keys=["own", "without"]).dropna()
        difference = both["own"] - both["without"]
        if rate == "success":
            found |= {"cases": len(both), "clusters": n_clusters(difference)}
        found |= {f"{rate}_without": both["without"].mean(), f"{rate}_with": both["own"].mean()}
        found |= interval(difference, reach=1.0).named(rate) | {f"{rate}_p": p_value(difference, 1.0)}
    return found


def _without_memory(planners: pd.Series[str], memory: pd.Series[str]) -> list[str]:
    """The labels that the planners would have without their memory (`load.told_apart`)."""
    pairs = zip(planners, memory, strict=True)
    return [planner.replace(f" / memory {label}", "") for planner, label in pairs]


def _labels(root: Path) -> set[str]:
    known = pc.field("memory").is_valid()
    return set(load.rows(root, ["memory"], known, ["memory"])["memory"].unique().to_pylist())


def _table(model: str, dataset: str, values: pd.DataFrame, query: str) -> Table:
    return Table(
        name=f"memory {model} {dataset}",
        title=f"{model} on {dataset}: gain from memory (egb_slate B.1, table 7)",
        by=_LABELS,
        columns=[
            Column("traces", _traces),
            count("cases"),
            *(Column(way, partial(_share, f"success_{way}")) for way in ("without", "with")),
            *paired("success", "gain"),
            *paired("tool_match_rate", "tool match", "95% interval (tools)", printed=False),
        ],
        values=values,
        query=query,
        about=_CAPTION,
    )


def _traces(row: Mapping[Any, Any]) -> str:
    return MISSING if pd.isna(row["traces"]) else f"{row['traces']:.0f}/{row['of_cases']:.0f}"


def _share(name: str, row: Mapping[Any, Any]) -> str:
    return number(row[name], scale=100, missing=MISSING)
