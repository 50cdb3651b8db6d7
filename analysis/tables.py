"""The tables that every sweep ends with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
import pandas as pd

from analysis.intervals import CLUSTER, count, interval
from analysis.load import SETTING

RATES = ["success", "tool_match_rate", "action_accuracy"]
PAIRED = ["success", "tool_match_rate"]
CHECKS = "resolved_checks"
COSTS = [
    "input_tokens", "output_tokens", "llm_calls", "forward_passes", "judge_input_tokens", "judge_output_tokens",
    "judge_calls", "judge_passes", "wall_seconds", CHECKS, "branched_steps", "money", "unassigned",
]  # fmt: skip
ENTROPY_BINS = 5
_GROUP = SETTING[:3]


def results(episodes: pd.DataFrame) -> pd.DataFrame:
    """One row per setting: counts (`unknown` cells are those whose success is not known), rates and costs.

    Each rate has its mean over trials (of the trial's mean over cases) and its standard deviation over trials (ddof
    1, NaN with one trial or where `repeated`: every case has the same rates in all trials, so that there is nothing
    to deviate). `success_solvable` is the mean over trials on the cases that are solvable. Each cost has its mean per
    case. NaN where nothing is known.
    """
    solvable = episodes["success"].where(episodes["solvable"] == 1.0)
    by_trial = episodes.assign(success_solvable=solvable).groupby([*SETTING, "trial"], sort=False)
    means = by_trial[[*RATES, "success_solvable"]].mean().groupby(SETTING, sort=False)
    over_trials = means[RATES].agg(["mean", "std"])
    over_trials.columns = over_trials.columns.map("_".join)
    grouped = episodes.groupby(SETTING, sort=False)
    found = grouped.agg(
        cases=("case_id", "nunique"),
        clusters=(CLUSTER, "nunique"),
        cells=("cell_id", "size"),
        failed=("status", lambda s: int((s != "ok").sum())),
        unknown=("success", lambda s: int(s.isna().sum())),
    )
    found = found.join(over_trials).join(means[["success_solvable"]].mean()).join(grouped[COSTS].mean())
    found = found.assign(repeated=_repeated(episodes))
    for rate in RATES:
        found[f"{rate}_std"] = found[f"{rate}_std"].mask(found["repeated"])
    return found.reset_index()


def _repeated(episodes: pd.DataFrame) -> pd.Series[bool]:
    """By setting, whether it has several trials in which every case has the same rates."""
    by_case = episodes.groupby([*SETTING, "case_id"], sort=False)[RATES]
    differ = (by_case.nunique(dropna=False) > 1).any(axis=1).groupby(SETTING, sort=False).any()
    several = episodes.groupby(SETTING, sort=False)["trial"].nunique() > 1
    return several & ~differ


def paired_differences(episodes: pd.DataFrame, reference: str = "react") -> pd.DataFrame:
    """Each rate of `PAIRED` for each planner, less that of `reference` on the same cases, with a 95% interval.

    A case's value is its mean over trials; the columns are the rate's name (the mean difference), `_low`, `_high`,
    `reference` (its label), how often each asked whether a case was resolved (`resolved_checks` a case, `_reference`),
    `cases` and `clusters` that both have. Empty where no planner has a reference (`reference_of`).
    """
    rows = []
    by_case = episodes.groupby([*SETTING, CLUSTER, "case_id"], sort=False)[[*PAIRED, CHECKS]].mean()
    for key, group in by_case.groupby(level=[*_GROUP], sort=False):
        planners = [str(planner) for planner in group.index.unique("planner")]
        values = group.droplevel([*_GROUP])
        for planner in planners:
            against = reference_of(planner, planners, reference)
            if against is None:
                continue
            own = cast(pd.DataFrame, values.xs(planner, level="planner"))
            theirs = cast(pd.DataFrame, values.xs(against, level="planner"))
            found = dict(zip(SETTING, map(str, (*key, planner)), strict=True)) | {"reference": against}
            rows.append(found | _compared(own, theirs))
    return pd.DataFrame(rows)


def _compared(own: pd.DataFrame, theirs: pd.DataFrame) -> dict[str, object]:
    differences = (own - theirs).dropna(how="all", subset=PAIRED)
    found: dict[str, object] = {"cases": len(differences), "clusters": count(differences)}
    for rate in PAIRED:
        mean, low, high = interval(differences[rate].dropna(), reach=1.0)
        found |= {rate: mean, f"{rate}_low": low, f"{rate}_high": high}
    return found | {CHECKS: own[CHECKS].mean(), f"{CHECKS}_reference": theirs[CHECKS].mean()}


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
