"""How often 95% intervals of the planning-horizon study's regression hold the coefficients that were planted.

Studies have the shape of `kqa_synthetic`: its questions drawn at random, two planners, three trials. Success follows
the regression's own model, with an effect of each last step. Successes are correlated in a question, and those of one
planner in the questions of a template, by a Gaussian copula: the planted coefficients are exactly the marginal ones,
which a GEE estimates.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from scipy import special, stats

from analysis.stats.design import level_name
from analysis.stats.spec import Spec
from analysis.tables import regression
from grid.datasets.kqa.dataset import KqaSynthetic
from grid.metrics.scores import plan_shape

FEATURES = ("depth_edges", "breadth_edges")
TRUTH = {"Intercept": 0.8, "depth_edges": -0.5, "breadth_edges": -0.4, "SH": 0.3, "depth_edges:SH": 0.2,
         "breadth_edges:SH": -0.15}  # fmt: skip
"""On the logit scale, of depth and breadth that are z-scored over all questions; the intercept is the mean level's."""
SPREAD = 0.8
"""Levels' effects lie evenly between this and its opposite."""
WITHIN, BETWEEN = 0.5, 0.15
"""Latent correlation of a question's successes; and of a planner's on a template's questions."""
SHORT = "success ~ SH"
"""What as few as ten clusters can carry."""
QUESTIONS = (12, 40, 60, 100, 200)
_LEVELS, _ALL = "last steps", "all"
_NAMES = {"Intercept": "1", "depth_edges": "d", "breadth_edges": "b", "SH": "SH", "depth_edges:SH": "d:SH",
          "breadth_edges:SH": "b:SH", _LEVELS: _LEVELS, _ALL: _ALL}  # fmt: skip
"""What the table calls the coefficients."""
_SEED = 7


def questions() -> pd.DataFrame:
    """The test questions of `kqa_synthetic`: case_id, cluster and the shape of the reference plan."""
    dataset = KqaSynthetic(limit=None, seed=0, outline="hidden")
    rows = [
        {"case_id": case, "cluster": dataset.cluster(case)} | plan_shape(dataset.problem(case).reference)
        for case in dataset.case_ids()
    ]
    return pd.DataFrame(rows)


def episodes(
    rng: np.random.Generator, shapes: pd.DataFrame, count: int, truth: Mapping[str, float] = TRUTH
) -> pd.DataFrame:
    """A study of so many questions: a row for each question, planner and trial, with its success (0 or 1)."""
    drawn = shapes.iloc[rng.choice(len(shapes), count, replace=False)]
    rows = drawn.merge(pd.DataFrame({"planner": ["fh", "sh"]}), how="cross")
    rows = rows.merge(pd.DataFrame({"trial": range(3)}), how="cross")
    chance = special.expit(_logit(rows, shapes, truth, (rows["planner"] == "sh").to_numpy(dtype=np.float64)))
    case, planner, template = (rows.groupby(key).ngroup().to_numpy() for key in ("case_id", "planner", "cluster"))
    latent = (
        np.sqrt(WITHIN) * rng.normal(size=count)[case]
        + np.sqrt(BETWEEN) * rng.normal(size=(count, 2))[template, planner]
        + np.sqrt(1 - WITHIN - BETWEEN) * rng.normal(size=len(rows))
    )
    success = (stats.norm.cdf(latent) < chance).astype(np.float64)
    labels = {"model": "planted", "dataset": "kqa_synthetic", "robustness": "tools_forgiving"}
    return rows.assign(success=success, controls=None, **labels)


def holds(
    rows: pd.DataFrame, spec: Spec, shapes: pd.DataFrame, truth: Mapping[str, float] = TRUTH
) -> pd.DataFrame | None:
    """By coefficient whether its interval holds what was planted, with `clusters` and `size`; None: no fit.

    Left out are coefficients that have no planted value: those of pooled levels.
    """
    ((_, found),) = regression.fits(rows, spec)
    if isinstance(found, regression.Refused):
        return None
    table = found.coefficients.set_index("name")
    truths = _short(shapes, truth) if spec.formula == SHORT else planted(rows, shapes, truth, found.references)
    values = pd.Series(truths).reindex(table.index)
    held = (table["low"] <= values) & (values <= table["high"])
    known = values.notna() & table["se"].notna()
    return pd.DataFrame({"holds": held[known], "clusters": found.clusters, "size": int(table["se"].notna().sum())})


def effects(shapes: pd.DataFrame) -> dict[str, float]:
    """What each last step adds on the logit scale."""
    levels = sorted(shapes["last_step"].unique())
    drawn = np.random.default_rng(_SEED).permutation(np.linspace(-SPREAD, SPREAD, len(levels)))
    return dict(zip(levels, map(float, drawn), strict=True))


def _logit(rows: pd.DataFrame, shapes: pd.DataFrame, truth: Mapping[str, float], single: Any) -> Any:
    found = (
        truth["Intercept"] + truth["SH"] * single + rows["last_step"].map(effects(shapes)).to_numpy(dtype=np.float64)
    )
    for name in FEATURES:
        scored = (rows[name] - shapes[name].mean()) / shapes[name].std(ddof=0)
        found = found + (truth[name] + truth[f"{name}:SH"] * single) * scored.to_numpy()
    return found


def planted(
    rows: pd.DataFrame, shapes: pd.DataFrame, truth: Mapping[str, float], references: Mapping[str, str]
) -> dict[str, float]:
    """The planted coefficients as of z-scores over these rows, and as against the fit's reference level."""
    own = effects(shapes)
    base = own.get(references["last_step"], np.nan)
    found = dict(truth) | {"Intercept": truth["Intercept"] + base}
    for name in FEATURES:
        mean, deviation = shapes[name].mean(), shapes[name].std(ddof=0)
        shift, scale = (rows[name].mean() - mean) / deviation, rows[name].std(ddof=0) / deviation
        for main, slope in (("Intercept", name), ("SH", f"{name}:SH")):
            found[main] += truth[slope] * shift
            found[slope] = truth[slope] * scale
    return found | {level_name("last_step", level): effect - base for level, effect in own.items()}


def _short(shapes: pd.DataFrame, truth: Mapping[str, float]) -> dict[str, float]:
    """The coefficients of `SHORT` over all questions."""
    fh, sh = (special.logit(special.expit(_logit(shapes, shapes, truth, single)).mean()) for single in (0.0, 1.0))
    return {"Intercept": float(fh), "SH": float(sh - fh)}
