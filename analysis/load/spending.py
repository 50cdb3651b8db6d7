"""The tokens of all requests of a planner, whichever model answered them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

_ROLES = ("", "judge_", "critic_")
_TOKENS = [f"{role}{way}_tokens" for role in _ROLES for way in ("input", "output")]
SPENT = [*_TOKENS, "judge_calls", "critic_calls"]
"""Columns of episodes: tokens of the acting model, its judge and its critic, and calls, which say if these two exist.

Tokens of an evaluator, a simulator or a user are not counted: these belong to the environment.
"""
TOLD = "tokens: in and out, of the acting model, its judge and its critic"
"""The caption about them."""
_TOGETHER = {
    **{f"all_{way}_tokens": [f"{role}{way}_tokens" for role in _ROLES] for way in ("input", "output")},
    "all_calls": ["llm_calls", *(f"{role}calls" for role in _ROLES if role)],
}
ADDED_UP = [name for names in _TOGETHER.values() for name in names]
"""Columns of episodes that are added up over roles."""


def sql(names: Sequence[str]) -> str:
    """The sum of such columns: a role that a setting lacks counts as 0, a role whose answers are uncounted as NULL."""
    parts = []
    for name in names:
        role = name.partition("_")[0] + "_"
        parts.append(f"coalesce({name}, CASE WHEN {role}calls IS NULL THEN 0 END)" if role in _ROLES else name)
    return " + ".join(parts)


SQL = sql(_TOKENS)
OF_JUDGED = sql(_TOKENS[:4])
"""The SQL of the tokens without the critic's."""
DERIVED: Mapping[str, str] = {total: sql(names) for total, names in _TOGETHER.items()}
"""Totals of the acting model, its judge and its critic together, and their SQL."""


def tokens(cells: pd.DataFrame) -> pd.Series[float]:
    """The sum of the token columns of SPENT for each cell; NaN if it is not known, because nobody counted them."""
    return added(cells, _TOKENS)


def added(cells: pd.DataFrame, names: Sequence[str]) -> pd.Series[float]:
    """The sum of columns, by the same rules as in `sql`."""
    total = cells[names[0]].astype("float64")
    for name in names[1:]:
        values, role = cells[name].astype("float64"), name.partition("_")[0] + "_"
        if role in _ROLES:
            values = values.fillna(0.0).where(values.notna() | cells[f"{role}calls"].isna())
        total = total + values
    return total
