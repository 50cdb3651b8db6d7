"""A planning-horizon study over all of its families, drawn from known coefficients: rows that no planner made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pandas as pd

from grid import store
from grid.core.types import to_json
from tests.support import simulated

FAMILIES: Mapping[str, Sequence[str]] = MappingProxyType(
    {
        "kqa_synthetic": ["kqa_synthetic"],
        "atomic_kbqa": ["grailqa", "webqsp", "graphquestions"],
        "agentbench_kg": ["agentbench_kg"],
        "hotpotqa_multi": ["hotpotqa_multi"],
    }
)
SHAPE = {"depth_edges": -0.4, "breadth_edges": -0.3, "SH": 0.3, "depth_edges:SH": 0.15, "breadth_edges:SH": -0.2}
"""Coefficients on the logit scale, of z-scores within a family."""
CONTROLS = {
    "last_step[T.find_relation]": -0.5, "last_step[T.merge]": 0.6, "dataset[T.webqsp]": -0.4,
    "dataset[T.graphquestions]": 0.5, "has_bridge[T.True]": -0.7, "has_comparison[T.True]": 0.5,
}  # fmt: skip
"""Those of levels; of all others 0."""
INTERCEPT = 0.4


def truth(names: Sequence[str]) -> pd.Series[float]:
    """What was planted of these coefficients."""
    return pd.Series({name: INTERCEPT if name == "Intercept" else (SHAPE | CONTROLS).get(name, 0.0) for name in names})


def episodes(
    family: str, seed: int, count: int = 200, trials: int = 3, robustness: str = "tools_forgiving", flat: bool = False
) -> pd.DataFrame:
    """`count` questions of a family, both planners; `flat`: all plans are equally deep."""
    rng = np.random.default_rng([seed, *family.encode()])
    found = _parts(rng, count) if family == "hotpotqa_multi" else _logical(rng, count, FAMILIES[family])
    if flat:
        found["depth_edges"] = 1.0
    found["breadth_edges"] = found["nodes"] / found["depth_edges"]
    found = found.assign(
        case=range(count), case_id=[f"case-{place}" for place in range(count)], depth=found["depth_edges"] + 1,
        cluster=[f"template-{place}" for place in range(count)], model="lexical", robustness=robustness,
    )  # fmt: skip
    found["breadth"] = found["nodes"] / found["depth"]
    frame = found.merge(pd.DataFrame({"planner": ["fh", "sh"]}), how="cross")
    frame = frame.merge(pd.DataFrame({"trial": range(trials)}), how="cross")
    single = (frame["planner"] == "sh").astype(float)
    eta = INTERCEPT + SHAPE["SH"] * single + frame["control"]
    for name in ("depth_edges", "breadth_edges"):
        scored = simulated.z(frame[name]) if frame[name].nunique() > 1 else 0.0 * single
        eta += (SHAPE[name] + SHAPE[f"{name}:SH"] * single) * scored
    version = "1-witness" if family in ("atomic_kbqa", "agentbench_kg") else "simulated-1"
    return frame.assign(success=simulated.successes(rng, frame, eta, 0.5), dataset_version=version)


def _logical(rng: np.random.Generator, count: int, datasets: Sequence[str]) -> pd.DataFrame:
    """Plans of functions; datasets and last functions differ in how hard they are."""
    dataset = np.array(datasets)[rng.integers(0, len(datasets), count)]
    last = np.array(["count", "find_relation", "merge", "order"])[rng.integers(0, 4, count)]
    edges = rng.integers(1, 6, count).astype(float)
    control = [
        CONTROLS.get(f"dataset[T.{one}]", 0.0) + CONTROLS.get(f"last_step[T.{step}]", 0.0)
        for one, step in zip(dataset, last, strict=True)
    ]
    nodes = edges + rng.integers(1, 5, count)
    return pd.DataFrame({"dataset": dataset, "last_step": last, "depth_edges": edges, "nodes": nodes,
                         "control": control, "controls": None})  # fmt: skip


def _parts(rng: np.random.Generator, count: int) -> pd.DataFrame:
    """Questions of 1 to 5 parts: a bridge takes two searches, now and then a third; a comparison two and a thought."""
    parts = rng.integers(1, 6, count)
    bridges = rng.integers(0, parts + 1)
    deep = rng.binomial(bridges, 0.15) > 0
    has = [{"has_bridge": bool(b), "has_comparison": bool(b < k)} for b, k in zip(bridges, parts, strict=True)]
    control = [sum(CONTROLS[f"{name}[T.True]"] * value for name, value in one.items()) for one in has]
    return pd.DataFrame({"dataset": "hotpotqa_multi", "last_step": "search", "depth_edges": 1.0 + deep,
                         "nodes": 2.0 * bridges + 3 * (parts - bridges) + deep, "control": control,
                         "controls": [to_json(one) for one in has]})  # fmt: skip


def write(root: Path, families: Sequence[str] = tuple(FAMILIES), seed: int = 0, count: int = 60) -> None:
    """A results folder of both planners and both robustness settings."""
    for family in families:
        for robustness in ("tools_forgiving", "tools_strict"):
            frame = episodes(family, seed, count, robustness=robustness).drop(columns=["case", "control", "nodes"])
            store.write(root, {"episodes": list(map(simulated.row, frame.to_dict("records")))})
