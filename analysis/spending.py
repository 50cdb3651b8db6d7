"""What a planner asked for in tokens, whoever answered it."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

_ROLES = ("", "judge_", "critic_")
SPENT = [f"{role}{way}_tokens" for role in _ROLES for way in ("input", "output")]
"""Columns of episodes: those of the acting model, of its judge and of its critic.

Not those of an evaluator, a simulator or a user: these are the environment's.
"""
TOLD = "tokens: in and out, of the acting model, its judge and its critic"
"""What a caption says of them."""
SQL = " + ".join(f"coalesce({name}, 0)" for name in SPENT)
_TOGETHER = {
    **{f"all_{way}_tokens": [f"{role}{way}_tokens" for role in _ROLES] for way in ("input", "output")},
    "all_calls": ["llm_calls", *(f"{role}calls" for role in _ROLES if role)],
}
ADDED_UP = [name for names in _TOGETHER.values() for name in names]
"""Columns of episodes that are added up over roles."""
DERIVED: Mapping[str, str] = {
    total: f"{names[0]} + {' + '.join(f'coalesce({name}, 0)' for name in names[1:])}"
    for total, names in _TOGETHER.items()
}
"""What the acting model, its judge and its critic were asked together, and the same in SQL."""


def tokens(cells: pd.DataFrame) -> pd.Series[float]:
    """Of each cell all of SPENT together; NaN where what was asked is not known."""
    return cells[SPENT].fillna(0).sum(axis=1).where(cells["input_tokens"].notna()).astype("float64")


def added_up(cells: pd.DataFrame) -> pd.DataFrame:
    """With the columns DERIVED; NaN where what the acting model was asked is not known."""
    sums = {
        total: cells[names].astype("float64").fillna(0).sum(axis=1).where(cells[names[0]].notna())
        for total, names in _TOGETHER.items()
    }
    return cells.assign(**sums)
