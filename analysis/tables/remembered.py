"""What memory is worth: each planner with it less the same planner without, on the same cases (egb_slate B.1)."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, cast

import pandas as pd
import pyarrow.compute as pc

from analysis import load
from analysis.load import UNCHANGED, queries
from analysis.page.table import MISSING, Column, Table, count, number
from analysis.stats.intervals import ALIKE, CLUSTER, TOLD, holm, interval, n_clusters, p_value
from analysis.tables.rates import paired

GAINS = ["success", "tool_match_rate"]
"""The rates that are compared."""
_LABELS = ["robustness", "planner", "memory"]
_CAPTION = (
    "traces: of how many cases the planner remembers what it did, of all that its earlier sweep ran; cases: run with "
    "memory and without; without, with: success in %; gain: in percentage points, paired over cases; 95% interval: "
    f"{TOLD}; * it excludes 0, † also by Holm's correction over this table's gains in that rate; {ALIKE}; "
    "apart=true: no trace is of a case that shares the case's cluster, as cases of one template do"
)


def tables(root: Path) -> list[Table]:
    """A table for each model and dataset with planners that remember, beside themselves without memory.

    Raises:
        StoreError: the folder cannot be read.
    """
    if not _labels(root) - {UNCHANGED}:
        return []
    cells = load.episodes(root, ["config"])
    found = []
    for model, dataset, own in load.places(cells):
        values = gains(own)
        if not values.empty:
            found.append(_table(root, model, dataset, values))
    return found


def gains(cells: pd.DataFrame) -> pd.DataFrame:
    """One row a planner with memory, of one model and dataset, that ran without it too on some of the cases.

    `traces` of `of_cases` are remembered; `cases` and `clusters` have a known success both ways. Of each of GAINS there
    are the shares `_without` and `_with`, the difference with `_low` and `_high`, and Holm's p (`_holm`). NaN where
    nothing is known.
    """
    labels = cells["memory"].astype(object).fillna(UNCHANGED).astype(str)
    own = cells.assign(memory=labels, base=_without_memory(cells["planner"].astype(str), labels))
    keys = ["robustness", "base", "memory"]
    by_case = own.groupby([*keys, CLUSTER, "case_id"], observed=True)[GAINS].mean()
    configs = own.groupby(keys, observed=True)["config"].first()
    rows = []
    for robustness, planner, memory in configs.index:
        if memory == UNCHANGED or (robustness, planner, UNCHANGED) not in configs.index:
            continue
        held = json.loads(configs[robustness, planner, memory]).get("memory", {}).get("held", {})
        row = {"robustness": str(robustness), "planner": planner, "memory": memory}
        row |= {"traces": held.get("traces", math.nan), "of_cases": held.get("cases", math.nan)}
        own_cases, without = (_of(by_case, robustness, planner, label) for label in (memory, UNCHANGED))
        rows.append(row | _gained(own_cases, without))
    found = pd.DataFrame(rows)
    return found.assign(**{f"{rate}_holm": holm(found[f"{rate}_p"]) for rate in GAINS}) if rows else found


def _of(by_case: pd.DataFrame, *place: Any) -> pd.DataFrame:
    """The cases of one setting."""
    return cast(pd.DataFrame, by_case.xs(place, level=[0, 1, 2]))


def _gained(own: pd.DataFrame, without: pd.DataFrame) -> dict[str, float]:
    """Each rate's difference over the cases whose rate is known both ways."""
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
    """The labels of planners as they are without memory (`load.told_apart`)."""
    pairs = zip(planners, memory, strict=True)
    return [planner.replace(f" / memory {label}", "") for planner, label in pairs]


def _labels(root: Path) -> set[str]:
    known = pc.field("memory").is_valid()
    return set(load.rows(root, ["memory"], known, ["memory"])["memory"].unique().to_pylist())


def _table(root: Path, model: str, dataset: str, values: pd.DataFrame) -> Table:
    return Table(
        name=f"memory {model} {dataset}",
        title=f"{model} on {dataset}: what memory gains (egb_slate B.1, table 7)",
        by=_LABELS,
        columns=[
            Column("traces", _traces),
            count("cases"),
            *(Column(way, partial(_share, f"success_{way}")) for way in ("without", "with")),
            *paired("success", "gain"),
            *paired("tool_match_rate", "tool match", "95% interval (tools)", printed=False),
        ],
        values=values,
        query=queries.of_place(root, GAINS, model, dataset),
        about=_CAPTION,
    )


def _traces(row: Mapping[Any, Any]) -> str:
    return MISSING if pd.isna(row["traces"]) else f"{row['traces']:.0f}/{row['of_cases']:.0f}"


def _share(name: str, row: Mapping[Any, Any]) -> str:
    return number(row[name], scale=100, missing=MISSING)
