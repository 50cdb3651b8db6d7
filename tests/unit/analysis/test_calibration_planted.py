"""Calibration figures of the simulated policy recover what its key `calibration` plants."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from scipy import stats

from analysis.stats.intervals import CLUSTER
from analysis.tables import calibrated
from analysis.tables import calibration as tables
from grid.core.types import ToolCall
from grid.engines.places import Place
from grid.engines.simulated.plans import Difficulty, chance
from grid.engines.simulated.policy import Deciding

SKILL, SPREAD, WRONG = 0.5, 1.5, 3
OPTIONS = ("right", *(f"wrong{place}" for place in range(WRONG)))
CASES, STEPS, REPEATS = 60, 5, 10
FIGURES = {"ece": "ece_corrected", "area": "area", "auroc": "auroc", "brier": "brier", "accuracy": "accuracy"}
Numbers = npt.NDArray[np.float64]


class Told(NamedTuple):
    """A step of each difficulty, and how often one is met: confidence and entropy told, whether the choice is right."""

    weight: Numbers
    confidence: Numbers
    entropy: Numbers
    right: Numbers


@cache
def steps() -> Told:
    """In closed form, without the policy's code: the right option has sigmoid(logit(skill) + e), others the rest."""
    effects = np.linspace(-7, 7, 20_001) * np.hypot(1.0, SPREAD)
    weight = stats.norm.pdf(effects, scale=np.hypot(1.0, SPREAD))
    p = 1 / (1 + np.exp(-effects) * (1 - SKILL) / SKILL)
    other = (1 - p) / WRONG
    entropy = -(np.where(p > 0, p * np.log(p), 0) + WRONG * np.where(other > 0, other * np.log(other), 0))
    return Told(weight / weight.sum(), np.maximum(p, other), entropy, (p > other).astype(float))


def truth(calibration: float) -> dict[str, float]:
    """The true figures: at a share `calibration` of the steps what is told is the step's own, else another's."""
    told = steps()
    accuracy = float(told.weight @ told.right)
    right = calibration * told.right + (1 - calibration) * accuracy  # given what is told
    bins = np.minimum((told.confidence * 10).astype(int), 9)
    ece = np.abs(np.bincount(bins, weights=told.weight * (right - told.confidence))).sum()
    order = np.argsort(told.entropy)
    weight, wrong = told.weight[order], (1 - right)[order]
    risk = np.cumsum(weight * wrong) / np.cumsum(weight)
    below = np.cumsum(weight * (1 - wrong)) - weight * (1 - wrong) / 2
    return {
        "accuracy": accuracy,
        "ece": float(ece),
        "brier": float(told.weight @ (right * (1 - told.confidence) ** 2 + (1 - right) * told.confidence**2)),
        "area": float(weight @ risk),
        "auroc": float(weight @ (wrong * below) / (accuracy * (1 - accuracy))),
    }


def decisions(calibration: float, seed: int) -> pd.DataFrame:
    """What the policy chooses and tells, a case a cluster."""
    rows = []
    for case in range(CASES):
        number = 1000 * seed + case
        deciding = Deciding(SKILL, 1.0, 0.0, calibration, Difficulty(number, 1.0, SPREAD), {})
        for step in range(STEPS):
            told = deciding.told(Place(str(step), str(step), ToolCall("right", {})), OPTIONS)
            best = max(told, key=lambda name: told[name])
            rows.append({
                CLUSTER: str(case), "confidence": told[best], "right": float(best == "right"),
                "entropy": float(stats.entropy([*told.values()])),
            })  # fmt: skip
    return pd.DataFrame(rows).assign(model="simulated", dataset="any", robustness="none", planner="any",
                                     distribution="exact choice", engine="simulated")  # fmt: skip


def test_the_closed_form_is_the_policys() -> None:
    told = steps()
    effects = np.array([Difficulty(case, 1.0, SPREAD).effect("0") for case in range(4000)])
    p = np.array([chance(SKILL, effect) for effect in effects])
    assert (p > (1 - p) / WRONG).mean() == pytest.approx(told.weight @ told.right, abs=0.015)


@pytest.mark.long
@pytest.mark.parametrize("calibration", [1.0, 0.5, 0.0])
def test_the_figures_recover_a_planted_calibration(calibration: float) -> None:
    """In 10 grids of 60 cases, each figure's 95% interval holds the true value about as often as it should."""
    found = pd.concat([calibrated.table(decisions(calibration, seed)) for seed in range(REPEATS)])
    for name, value in truth(calibration).items():
        covered = (found[f"{name}_low"] <= value) & (value <= found[f"{name}_high"])
        assert covered.sum() >= REPEATS - 2, name
        assert found[FIGURES[name]].mean() == pytest.approx(value, abs=0.03), name


def test_intervals_tell_planted_calibrations_apart() -> None:
    """They would not hold just anything: those of 1 and 0 exclude one another's true values, and 0.5's."""
    values = {one: truth(one) for one in (1.0, 0.5, 0.0)}
    assert values[0.0]["auroc"] == pytest.approx(0.5)
    for own in (1.0, 0.0):
        (row,) = calibrated.table(decisions(own, 0)).to_dict("records")
        for other in {1.0, 0.5, 0.0} - {own}:
            for name in ("auroc", "brier"):
                assert not row[f"{name}_low"] <= values[other][name] <= row[f"{name}_high"], (own, other, name)


def test_differences_to_the_exact_choice_recover_what_is_planted() -> None:
    """A second setting on the same cases, of less calibration: AUROC, area and Brier differ by what the truth says."""
    values = {one: truth(one) for one in (1.0, 0.0)}
    pair = [decisions(1.0, 3), decisions(0.0, 3).assign(planner="votes", distribution="votes of 10")]
    (row,) = tables.differences(pd.concat(pair)).to_dict("records")
    assert (row["planner"], row["reference"], row["clusters"]) == ("votes", "any", CASES)
    for name in ("brier", "area", "auroc"):
        assert row[f"{name}_low"] <= values[0.0][name] - values[1.0][name] <= row[f"{name}_high"], name
        assert row[f"{name}_holm"] < 0.001, name
    assert row["accuracy"] == 0, "the best option is the same"
    own, other = (calibrated.table(frame).iloc[0] for frame in pair)
    assert [row[name] for name in tables.FIGURES] == pytest.approx([other[n] - own[n] for n in tables.FIGURES])
    (back,) = tables.differences(
        pd.concat(
            [frame.assign(distribution=kind) for frame, kind in zip(pair, ("votes of 10", "exact choice"), strict=True)]
        )
    ).to_dict("records")
    assert [back[f"{n}_low"] for n in tables.FIGURES] == pytest.approx([-row[f"{n}_high"] for n in tables.FIGURES])


def test_without_an_exact_choice_or_a_common_cluster_nothing_is_compared() -> None:
    own = decisions(1.0, 0)
    assert tables.differences(own.assign(distribution="votes of 5")).empty
    assert tables.differences(own).empty
    apart = own.assign(planner="votes", distribution="votes of 5", cluster="other" + own[CLUSTER])
    (row,) = tables.differences(pd.concat([own, apart])).to_dict("records")
    assert row["clusters"] == 0
    assert np.isnan([row[name] for name in tables.FIGURES]).all()
