"""Simulated episodes of the planning-horizon study: rows that no planner made, drawn from known coefficients."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import special, stats

from grid import store

TRUTH = {"Intercept": 0.8, "depth": -0.5, "breadth": -0.4, "SH": 0.3, "depth:SH": 0.2, "breadth:SH": -0.15}
"""Coefficients on the logit scale, of z-scored depth and breadth."""
LAST = ["QueryAttr", "QueryName", "Count", "SelectAmong"]
NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)


def z(values: pd.Series[float]) -> pd.Series[float]:
    return (values - values.mean()) / values.std(ddof=0)


def cases(rng: np.random.Generator, count: int, largest: int = 1) -> pd.DataFrame:
    """Questions with depths of 2 to 7 and breadths of 1 to 2.5, in clusters of 1 to `largest`."""
    depth = rng.integers(2, 8, count).astype(float)
    breadth = np.ceil(depth * rng.uniform(0.8, 2.5, count)).clip(depth) / depth
    edges = {"depth_edges": depth - 1, "breadth_edges": depth * breadth / (depth - 1)}
    last = [LAST[place] for place in rng.integers(0, len(LAST), count)]
    template = np.repeat(np.arange(count), rng.integers(1, largest + 1, count))[:count]
    return pd.DataFrame({"case_id": [f"case-{i}" for i in range(count)], "depth": depth, "breadth": breadth,
                         "last_step": last, "cluster": [f"template-{i}" for i in template], **edges})  # fmt: skip


def episodes(
    seed: int,
    count: int = 200,
    trials: int = 3,
    truth: Mapping[str, float] = TRUTH,
    within: float = 0.5,
    robustness: str = "tools_forgiving",
    largest: int = 1,
    between: float = 0.0,
) -> pd.DataFrame:
    """One row per question, planner and trial; successes of one question are correlated, each with its exact mean.

    The correlation comes from a Gaussian copula, so that the coefficients are those of the marginal model, which is
    the one that a GEE fits. `within` is its latent correlation in one question, `between` that of a planner's
    successes on questions of one cluster (of 1 to `largest`).
    """
    rng = np.random.default_rng(seed)
    found = cases(rng, count, largest)
    frame = found.merge(pd.DataFrame({"planner": ["fh", "sh"]}), how="cross")
    frame = frame.merge(pd.DataFrame({"trial": range(trials)}), how="cross")
    single = (frame["planner"] == "sh").astype(float)
    eta = truth["Intercept"] + truth["SH"] * single
    for name in ("depth", "breadth"):
        eta += (truth[name] + truth[f"{name}:SH"] * single) * z(frame[name])
    success = successes(rng, frame.assign(case=frame["case_id"].str.slice(5).astype(int)), eta, within, between)
    labels = {"model": "lexical", "dataset": "kqa_synthetic", "robustness": robustness}
    return frame.assign(success=success, controls=None, **labels)


def successes(
    rng: np.random.Generator, frame: pd.DataFrame, eta: pd.Series[float], within: float, between: float = 0.0
) -> pd.Series[float]:
    """0 or 1 with these log odds, by a Gaussian copula, as `episodes` says; `frame` has each row's case as a number."""
    count = int(frame["case"].max()) + 1
    latent = np.sqrt(within) * rng.normal(size=count)[frame["case"]]
    latent = latent + np.sqrt(1 - within - between) * rng.normal(size=len(frame))
    if between:
        by_planner = rng.normal(size=(count, 2))
        template = frame["cluster"].str.slice(9).astype(int)
        latent += np.sqrt(between) * by_planner[template, (frame["planner"] == "sh").astype(int)]
    found: pd.Series[float] = (stats.norm.cdf(latent) < special.expit(eta)).astype(float)
    return found


def write(root: Path, seed: int = 0, count: int = 60, models: Sequence[str] = ("lexical",)) -> None:
    """A results folder: both planners, both robustness settings, three trials; strict tools lower success."""
    for model in models:
        for robustness, drop in (("tools_forgiving", 0.0), ("tools_strict", 0.7)):
            truth = TRUTH | {"Intercept": TRUTH["Intercept"] - drop}
            frame = episodes(seed, count, 3, truth, robustness=robustness).assign(model=model)
            store.write(root, {"episodes": list(map(row, frame.to_dict("records")))})


def row(found: Mapping[Any, Any]) -> dict[str, Any]:
    """A row of the table `episodes`: what the simulation does not speak of follows from what it does."""
    labels = [str(found[name]) for name in ("model", "dataset", "robustness", "planner")]
    cell = "/".join([*labels, found["case_id"], str(found["trial"])])
    single = found["planner"] == "sh"
    nodes = round(found["depth"] * found["breadth"])
    calls = nodes if single else 1
    return dict(found) | {
        "cell_id": cell,
        "cell_key": cell,
        "cluster": found["cluster"],
        "setting_id": "/".join(labels),
        "attempt_id": "simulated",
        "sweep": "simulated",
        "retriever": "bm25",
        "pool": "all",
        "memory": "none",
        "status": "ok",
        "success": bool(found["success"]),
        "dataset_version": found.get("dataset_version", "simulated-1"),
        "depth": int(found["depth"]),
        "depth_edges": int(found["depth_edges"]),
        "plan_nodes": nodes,
        "n_steps": nodes,
        "tool_calls": nodes,
        "repeated_call": single and not found["success"] and found["trial"] == 0,
        "repeated_call_in_a_row": False,
        "config": "{}",
        "input_tokens": 1500 * calls + 20 * nodes,
        "output_tokens": 25 * nodes,
        "llm_calls": calls,
        "forward_passes": 0,
        "resolved_checks": 0,
        "unassigned": 0.01 * nodes if single else None,
        "wall_seconds": 0.01 * calls,
        "created_at": NOON,
    }
