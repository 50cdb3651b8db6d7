"""Write episodes.csv, the simulated rows that fit.R and test_gee.py both fit."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from tests.support import simulated

if __name__ == "__main__":
    parts = [simulated.episodes(seed, 60).assign(dataset=name) for seed, name in ((1, "kqapro"), (2, "grailqa"))]
    columns = ["dataset", "case_id", "planner", "trial", "depth", "breadth", "last_step", "success"]
    pd.concat(parts)[columns].to_csv(Path(__file__).parent / "episodes.csv", index=False, lineterminator="\n")
