"""Why cells failed, by planner: a table and a bar chart for each model and data set."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pandas as pd

from analysis import intervals, load
from analysis.failures import figures, read
from analysis.failures.cells import (
    BUDGET,
    CASCADE,
    CLASSES,
    ERROR,
    FORMAT,
    GAVE_UP,
    MISSING,
    NO_RETRIEVAL,
    REDUNDANT,
    SOURCE,
    UNKNOWN,
    UNREADABLE,
    VALUE,
    WRONG_ARGUMENT,
    WRONG_TOOL,
)
from analysis.figures import Drawing
from analysis.intervals import CLUSTER, share
from analysis.load import SETTING
from analysis.table import Column, Table, bounds, number
from analysis.table import count as counted

_CAPTION = "share of all cells of the setting, in % (cells), by the first fault on the path; what each means: "
_MEANINGS = {
    NO_RETRIEVAL: ("retrieval", "the reference's tool was not offered"),
    WRONG_TOOL: ("tool", "another tool was called"),
    WRONG_ARGUMENT: ("argument", "the tool was right, an argument not"),
    MISSING: ("missing", "a call was not made"),
    REDUNDANT: ("redundant", "a call too many, and nothing else"),
    GAVE_UP: ("gave up", "refused, or called nothing"),
    UNREADABLE: ("unreadable", "an answer was no call"),
    BUDGET: ("budget", "time, context, tokens, calls or a search's steps ran out"),
    CASCADE: ("cascade", "follows from an earlier fault"),
    ERROR: ("error", "no failure of the planner"),
    UNKNOWN: ("unknown", "no rule tells"),
}
"""By class the column's name, and what a caption says of it."""
_RULES = "analysis/failures/rules.py"
_KINDS = "value, source and format are the kinds of wrong arguments"
_QUERY = "from pathlib import Path; from analysis.failures.read import classes; print(classes(Path({!r})))"


def sheets(root: Path) -> list[Table]:
    """A table for each model and data set of which any cell failed. Raises StoreError."""
    return [_sheet(root, place, own) for place, own in _places(root)]


def drawings(root: Path, about: str = "") -> list[Drawing]:
    """A bar chart for each; `about` begins its caption. Raises StoreError."""
    found: list[Drawing] = []
    for (model, dataset), own in _places(root):
        name = f"failures-{len(found)}"
        caption = f"{about}share of all cells of a setting, by the first fault on the path; the rest was resolved"
        found.append(Drawing(name, f"{model} on {dataset}: failures", caption, figures.bars(own, name), _query(root)))
    return found


def _places(root: Path) -> list[tuple[tuple[str, str], pd.DataFrame]]:
    found = by_setting(cells(root))
    if found.empty:
        return []
    groups = found.groupby(SETTING[:2], sort=False, observed=True)
    return [((str(model), str(dataset)), own) for (model, dataset), own in groups]


def _sheet(root: Path, place: tuple[str, str], own: pd.DataFrame) -> Table:
    there = [name for name in CLASSES if own[name].any()]
    kinds = [name for name in KINDS if own[name].any()]
    names = [part for name in there for part in ([name, *kinds] if name == WRONG_ARGUMENT else [name])]
    model, dataset = place
    means = _CAPTION + "; ".join(f"{_MEANINGS[name][0]}: {_MEANINGS[name][1]}" for name in there)
    return Table(
        name=f"failures {model} {dataset}",
        title=f"{model} on {dataset}: failures",
        by=SETTING[2:],
        columns=[
            counted("cells"),
            counted("failed", "unresolved"),
            *(_column(name, printed=name not in kinds) for name in names),
        ],
        values=own,
        query=_query(root),
        about=f"{means}{f'; {_KINDS}' if kinds else ''}; [low, high]: 95% intervals, {intervals.SHARES}; the rules: "
        f"{_RULES}",
        briefly=means,
    )


def _column(name: str, printed: bool) -> Column:
    """The share of a class, in %, its interval where there is room, and how many cells that are."""

    def brief(row: dict[str, Any]) -> str:
        return f"{number(row[f'{name}_share'], scale=100)} ({row[name]:,})"

    def text(row: dict[str, Any]) -> str:
        reach = bounds(row[f"{name}_low"], row[f"{name}_high"], missing="")
        return " ".join(filter(None, [number(row[f"{name}_share"], scale=100), reach, f"({row[name]:,})"]))

    return Column(_MEANINGS[name][0] if name in _MEANINGS else name, text, brief, printed)


def _query(root: Path) -> str:
    return f"python -c {shlex.quote(_QUERY.format(str(root)))}"


# How many cells of each setting failed in which way.


NONE = "none"
"""The class of a cell that did not fail."""
KINDS = (VALUE, SOURCE, FORMAT)


def cells(root: Path) -> pd.DataFrame:
    """One row per cell of the settings in which any failed, with its `failure` (NONE where it did not) and `kind`.

    `kind` is the sub-kind of a wrong argument, else empty.

    Raises:
        StoreError: the folder cannot be read.
    """
    told = read.classes(root).select(["cell_id", "failure", "failure_detail"]).to_pandas()
    if told.empty:
        return pd.DataFrame(columns=[*SETTING, CLUSTER, "case_id", "failure", "kind"])
    found = load.episodes(root).merge(told, on="cell_id", how="left")
    kinds = found["failure_detail"].fillna("").str.partition(":")[0]
    found = found.assign(
        failure=found["failure"].fillna(NONE), kind=kinds.where(found["failure"] == WRONG_ARGUMENT, "")
    )
    failing = found["failure"].ne(NONE).groupby([found[name] for name in SETTING], observed=True).transform("any")
    return found.loc[failing, [*SETTING, CLUSTER, "case_id", "failure", "kind"]]


def by_setting(found: pd.DataFrame) -> pd.DataFrame:
    """Of each setting the cells, and of these by class the count, the share and its 95% interval.

    Columns: SETTING, `cells`, `failed`, and for every class, and for every kind of wrong argument, NAME (the count),
    NAME_share, NAME_low and NAME_high (`intervals.share` over clusters, each case its mean over trials).
    """
    rows = []
    for setting, own in found.groupby(SETTING, sort=False, observed=True):
        row = {
            **dict(zip(SETTING, setting, strict=True)),
            "cells": len(own),
            "failed": int((own["failure"] != NONE).sum()),
        }
        flags = {name: own["failure"] == name for name in CLASSES} | {kind: own["kind"] == kind for kind in KINDS}
        for name, flag in flags.items():
            means = flag.astype(float).groupby([own[CLUSTER], own["case_id"]], observed=True).mean()
            found_share = share(means)
            row |= {name: int(flag.sum()), f"{name}_share": float(flag.mean())}
            row |= {f"{name}_low": found_share.low, f"{name}_high": found_share.high}
        rows.append(row)
    return pd.DataFrame(rows)
