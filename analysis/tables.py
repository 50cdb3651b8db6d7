"""The tables that every sweep ends with."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, cast

import numpy as np
import pandas as pd
from scipy import stats

from analysis.load import SETTING

RATES = ["success", "tool_match_rate", "action_accuracy"]
PAIRED = ["success", "tool_match_rate"]
COSTS = ["input_tokens", "output_tokens", "llm_calls", "forward_passes", "wall_seconds"]
UNASSIGNED = "unassigned"
ENTROPY_BINS = 5
_GROUP = SETTING[:3]
_ROUNDING = 1e-12  # below it a deviation is no variation


class Interval(NamedTuple):
    """A mean and the bounds of its 95% interval."""

    mean: float
    low: float
    high: float


def results(episodes: pd.DataFrame) -> pd.DataFrame:
    """One row per setting: counts, rates and costs.

    Each rate has its mean over trials (of the trial's mean over cases) and its standard deviation over trials (ddof
    1, NaN with one trial); each cost its mean per case, and so has `unassigned`, NaN where nothing was scored.
    """
    by_trial = episodes.groupby([*SETTING, "trial"], sort=False)[RATES].mean()
    over_trials = by_trial.groupby(SETTING, sort=False).agg(["mean", "std"])
    over_trials.columns = over_trials.columns.map("_".join)
    grouped = episodes.groupby(SETTING, sort=False)
    counts = grouped.agg(
        cases=("case_id", "nunique"),
        cells=("cell_id", "size"),
        failed=("status", lambda s: int((s != "ok").sum())),
    )
    return counts.join(over_trials).join(grouped[[*COSTS, UNASSIGNED]].mean()).reset_index()


def paired_differences(episodes: pd.DataFrame, reference: str = "react") -> pd.DataFrame:
    """Each rate of `PAIRED` for each planner, less that of `reference` on the same cases, with a 95% interval.

    A case's value is its mean over trials; the columns are the rate's name (the mean difference), `_low`, `_high`.
    Empty where no planner has a reference (`reference_of`).
    """
    rows = []
    by_case = episodes.groupby([*SETTING, "case_id"], sort=False)[PAIRED].mean()
    for key, group in by_case.groupby(level=[*_GROUP], sort=False):
        planners = [str(planner) for planner in group.index.unique("planner")]
        values = group.droplevel([*_GROUP])
        for planner in planners:
            against = reference_of(planner, planners, reference)
            if against is None:
                continue
            own = cast(pd.DataFrame, values.xs(planner, level="planner"))
            theirs = cast(pd.DataFrame, values.xs(against, level="planner"))
            differences = (own - theirs).dropna(how="all")
            found: dict[str, object] = {"cases": len(differences)}
            for rate in PAIRED:
                mean, low, high = interval(differences[rate].dropna())
                found |= {rate: mean, f"{rate}_low": low, f"{rate}_high": high}
            rows.append(dict(zip(SETTING, map(str, (*key, planner)), strict=True)) | found)
    return pd.DataFrame(rows)


def reference_of(planner: str, planners: Sequence[str], reference: str) -> str | None:
    """The label of the reference planner that a planner is compared with; None for the reference itself.

    The only one there is; of several, the one with the same changes (`react[temperature=0]` for
    `egb_logits[temperature=0]`) and the same retriever.
    """
    found = [label for label in planners if _name(label) == reference]
    if planner in found:
        return None
    same = [label for label in found if label.removeprefix(reference) == planner.removeprefix(_name(planner))]
    return found[0] if len(found) == 1 else same[0] if same else None


def _name(label: str) -> str:
    """A label's planner without changes, retriever and id: `react[temperature=0] / bm25` is `react`."""
    return label.partition("[")[0].partition(" ")[0]


def interval(differences: pd.Series[float]) -> Interval:
    """Mean and 95% t interval; without bounds (NaN) where there are fewer than two values or none varies."""
    count = len(differences)
    mean = float(differences.mean()) if count else math.nan
    deviation = float(differences.std(ddof=1)) if count > 1 else 0.0
    if deviation < _ROUNDING:
        return Interval(mean, math.nan, math.nan)
    half = float(stats.t.ppf(0.975, count - 1)) * deviation / math.sqrt(count)
    return Interval(mean, mean - half, mean + half)


def entropy_errors(steps: pd.DataFrame) -> pd.DataFrame:
    """Error rate by entropy (egb_slate tables 6 and 8): per setting, equal-width bins from 0 to its largest entropy.

    `steps` has one row per first-pass decision that needs a tool: the setting, `entropy` in nats, `error`.
    """
    rows = []
    for key, group in steps.groupby(SETTING, sort=False):
        edges = np.linspace(0.0, max(float(group["entropy"].max()), 1e-12), ENTROPY_BINS + 1)
        place = np.clip(np.searchsorted(edges, group["entropy"], side="right") - 1, 0, ENTROPY_BINS - 1)
        for index in range(ENTROPY_BINS):
            errors = group["error"][place == index]
            rows.append([*key, edges[index], edges[index + 1], len(errors), int(errors.sum())])
    frame = pd.DataFrame(rows, columns=[*SETTING, "low", "high", "steps", "errors"])
    return frame.assign(error_rate=frame["errors"] / frame["steps"].where(frame["steps"] > 0))
