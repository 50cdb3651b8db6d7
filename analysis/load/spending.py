"""What a planner asked for in tokens, whoever answered it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

_ROLES = ("", "judge_", "critic_")
_TOKENS = [f"{role}{way}_tokens" for role in _ROLES for way in ("input", "output")]
SPENT = [*_TOKENS, "judge_calls", "critic_calls"]
"""Columns of episodes: tokens of the acting model, of its judge and of its critic, and whether there are these.

Not those of an evaluator, a simulator or a user: these are the environment's.
"""
TOLD = "tokens: in and out, of the acting model, its judge and its critic"
"""What a caption says of them."""
_TOGETHER = {
    **{f"all_{way}_tokens": [f"{role}{way}_tokens" for role in _ROLES] for way in ("input", "output")},
    "all_calls": ["llm_calls", *(f"{role}calls" for role in _ROLES if role)],
}
ADDED_UP = [name for names in _TOGETHER.values() for name in names]
"""Columns of episodes that are added up over roles."""


def sql(names: Sequence[str]) -> str:
    """The sum of such columns: a role that a setting does not have took 0, one whose answers are uncounted NULL."""
    parts = []
    for name in names:
        role = name.partition("_")[0] + "_"
        parts.append(f"coalesce({name}, CASE WHEN {role}calls IS NULL THEN 0 END)" if role in _ROLES else name)
    return " + ".join(parts)


SQL = sql(_TOKENS)
OF_JUDGED = sql(_TOKENS[:4])
"""Without the critic's."""
DERIVED: Mapping[str, str] = {total: sql(names) for total, names in _TOGETHER.items()}
"""What the acting model, its judge and its critic were asked together, and the same in SQL."""


def tokens(cells: pd.DataFrame) -> pd.Series[float]:
    """Of each cell those of SPENT together; NaN where they are not known, as nobody counted them."""
    return added(cells, _TOKENS)


def added(cells: pd.DataFrame, names: Sequence[str]) -> pd.Series[float]:
    """The sum of columns as `sql` has it."""
    total = cells[names[0]].astype("float64")
    for name in names[1:]:
        values, role = cells[name].astype("float64"), name.partition("_")[0] + "_"
        if role in _ROLES:
            values = values.fillna(0.0).where(values.notna() | cells[f"{role}calls"].isna())
        total = total + values
    return total
