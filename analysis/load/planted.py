"""What a report says of the simulated policy: what it is, and its estimates beside the closed form."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from analysis.load import queries
from analysis.load.frames import SETTING
from analysis.page.table import Column, Table, bounds, count, mean
from analysis.stats.intervals import CLUSTER, TOLD, interval

ENGINE, EXPECTED = "engine", "expected_success"
SIMULATED_COLUMNS = (ENGINE, EXPECTED)
"""What is read of every episode besides the columns of other tables."""
SIMULATED = "simulated"
_TOLD = "simulated policy: no language model, and told the answers"


def simulated_notice(episodes: pd.DataFrame) -> str:
    """What every caption begins with where any cell is of a simulated policy; nothing where none is."""
    models = episodes["model"][episodes[ENGINE] == SIMULATED].unique()
    others = set(episodes["model"].unique()) - set(models)
    of = f" ({', '.join(map(str, models))})" if others else ""
    return f"{_TOLD}{of}; " if len(models) else ""


def closed_form(root: Path, episodes: pd.DataFrame) -> list[Table]:
    """Success of single-pass planners beside what is expected of them; none without a simulated policy."""
    known = episodes[episodes[EXPECTED].notna() & episodes["success"].notna()]
    if known.empty:
        return []
    found = pd.DataFrame([
        dict(zip(SETTING, map(str, key), strict=True)) | _beside(group)
        for key, group in known.groupby(SETTING, sort=False, observed=True)
    ])  # fmt: skip
    return [
        Table(
            name="closed form",
            title="success of a single pass, estimated and in closed form",
            by=SETTING,
            columns=[
                count("cases"),
                count("clusters"),
                mean("success", "success"),
                Column("95% interval", lambda row: bounds(row["low"], row["high"])),
                mean(EXPECTED, "closed form"),
            ],
            values=found,
            query=queries.expected(root),
            about="% of cases; closed form: over all that is drawn, difficulty included, given the cases' plans and "
            f"what was retrieved; 95% interval of the estimate: {TOLD}",
        )
    ]


def _beside(cells: pd.DataFrame) -> dict[str, float]:
    by_case = cells.groupby([CLUSTER, "case_id"], sort=False, observed=True)[["success", EXPECTED]].mean()
    # The expectation differs from case to case: the interval is of what cases do beyond it.
    _, low, high = interval(by_case["success"] - by_case[EXPECTED], reach=1.0)
    expected = float(by_case[EXPECTED].mean())
    return {
        "cases": len(by_case),
        "clusters": by_case.index.get_level_values(CLUSTER).nunique(),
        "success": float(by_case["success"].mean()),
        "low": max(expected + low, 0.0),
        "high": min(expected + high, 1.0),
        EXPECTED: expected,
    }
