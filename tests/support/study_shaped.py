"""Random results folders of the shape of a planning-horizon study: few questions, and all that can be missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from grid import store
from grid.core.types import to_json
from tests.support import simulated

FEWEST, MOST = 5, 60
HOTPOT = "hotpotqa_multi"
DATASETS = [
    "kqa_synthetic", "kqa_synthetic[seed=1]", "kqapro", "grailqa", "webqsp", "graphquestions", "agentbench_kg", HOTPOT,
    f"{HOTPOT}[objectives=2]",
]  # fmt: skip
LEVELS = [f"Last{place}" for place in range(13)]


def write(root: Path, seed: int) -> None:
    """A folder of what its seed draws."""
    store.write(root, {"episodes": episodes(seed)})


def episodes(seed: int) -> list[dict[str, Any]]:
    """Rows of 5 to 60 questions in all."""
    rng = np.random.default_rng([seed, 20])
    questions = int(rng.integers(FEWEST, MOST + 1))
    several = int(rng.choice([1, 1, 1, 1, 1, 1, 2, 3, 5]))
    names = list(rng.choice(DATASETS, min(questions, several), replace=False))
    sizes = np.full(len(names), questions // len(names))
    sizes[0] += questions - sizes.sum()
    parts = [
        _part(rng, str(name), int(size), model, robustness)
        for name, size in zip(names, sizes, strict=True)
        for model in ["lexical", "other"][: int(rng.choice([1, 1, 2]))]
        for robustness in ["tools_forgiving", "tools_strict"][: int(rng.choice([1, 2]))]
    ]
    rows = pd.concat(parts, ignore_index=True)
    found = list(map(simulated.row, rows.to_dict("records")))
    for row in found:
        _damage(rng, row)
    return found


def _part(rng: np.random.Generator, dataset: str, size: int, model: str, robustness: str) -> pd.DataFrame:
    truth = simulated.TRUTH | {"Intercept": float(rng.choice([-3.0, 0.0, 0.8, 0.8, 2.0, 4.0]))}
    seed, trials = int(rng.integers(10**6)), int(rng.choice([1, 3]))
    frame = simulated.episodes(
        seed, size, trials, truth, robustness=robustness, largest=int(rng.choice([1, 1, 1, 4])), between=0.15
    )
    levels = rng.choice(LEVELS[: int(rng.integers(1, 14))], size)
    last = frame["case_id"].map({f"case-{place}": level for place, level in enumerate(levels)})
    frame = frame.assign(dataset=dataset, model=model, last_step=last)
    if dataset.startswith(HOTPOT):
        frame = _of_parts(rng, frame)
    kind = rng.choice([*[""] * 12, "one planner", "all equal", "one shape", "told apart"])
    if kind == "one planner":
        frame = frame[frame["planner"] == "fh"]
    if kind == "all equal":
        frame["success"] = float(rng.integers(2))
    if kind == "one shape":
        frame = frame.assign(depth=3.0, breadth=1.0, depth_edges=2.0, breadth_edges=1.5)
    if kind == "told apart":
        frame["success"] = (frame["depth"] > 4).astype(float)
    return frame


def _of_parts(rng: np.random.Generator, frame: pd.DataFrame) -> pd.DataFrame:
    """Plans that are mostly equally deep, controls of the cases' own, and no last step in particular."""
    cases = frame["case_id"].unique()
    kinds = rng.choice(["bridge", "comparison", "both"], len(cases), p=rng.choice([[0.3, 0.3, 0.4], [1.0, 0.0, 0.0]]))
    found = {
        case: to_json({"has_bridge": bool(kind != "comparison"), "has_comparison": bool(kind != "bridge")})
        for case, kind in zip(cases, kinds, strict=True)
    }
    edges = pd.Series(rng.choice([1.0, 1.0, 1.0, 2.0], len(cases)) if rng.random() < 0.3 else 1.0, index=cases)
    depth = frame["case_id"].map(edges)
    return frame.assign(
        last_step="search", controls=frame["case_id"].map(found), depth_edges=depth, depth=depth + 1,
        breadth_edges=frame["depth"] * frame["breadth"] / depth,
    )  # fmt: skip


def _damage(rng: np.random.Generator, row: dict[str, Any]) -> None:
    """Now and then a plan without dependencies, an unknown shape, an episode that failed."""
    chance = rng.random()
    if chance < 0.02:
        row |= {"success": None, "status": "error", "error_kind": "infrastructure"}
    elif chance < 0.04:
        row |= {"depth": 1, "breadth": float(row["plan_nodes"]), "depth_edges": 0, "breadth_edges": None}
    elif chance < 0.05:
        row |= dict.fromkeys(("depth", "breadth", "depth_edges", "breadth_edges", "last_step", "controls"))
