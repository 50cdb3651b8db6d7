"""What a planner asked for in tokens, whoever answered it."""

from __future__ import annotations

import pandas as pd

SPENT = [f"{role}{way}_tokens" for role in ("", "judge_", "critic_") for way in ("input", "output")]
"""Columns of episodes: those of the acting model, of its judge and of its critic.

Not those of an evaluator, a simulator or a user: these are the environment's.
"""
TOLD = "tokens: in and out, of the acting model, its judge and its critic"
"""What a caption says of them."""
SQL = " + ".join(f"coalesce({name}, 0)" for name in SPENT)


def tokens(cells: pd.DataFrame) -> pd.Series[float]:
    """Of each cell all of SPENT together; NaN where what was asked is not known."""
    return cells[SPENT].fillna(0).sum(axis=1).where(cells["input_tokens"].notna()).astype("float64")
