"""How many cells of each setting failed in which way."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from analysis import load
from analysis.failures import read
from analysis.failures.cells import CLASSES, FORMAT, SOURCE, VALUE, WRONG_ARGUMENT
from analysis.intervals import CLUSTER, share
from analysis.load import SETTING

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
            bounds = share(means)
            row |= {name: int(flag.sum()), f"{name}_share": float(flag.mean())}
            row |= {f"{name}_low": bounds.low, f"{name}_high": bounds.high}
        rows.append(row)
    return pd.DataFrame(rows)
