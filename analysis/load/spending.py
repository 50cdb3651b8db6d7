"""The tokens of all requests of a planner, whether its own model, its judge or its critic answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

_ROLES = ("", "judge_", "critic_")
_TOKENS = [f"{role}{way}_tokens" for role in _ROLES for way in ("input", "output")]
SPENT = [*_TOKENS, "judge_calls", "critic_calls"]
"""Columns of episodes: tokens of the acting model, its judge and its critic; calls say whether judge and critic exist.

Tokens of an evaluator, a simulator or a user are not counted, because these three belong to the environment.
"""
TOLD = "tokens: input and output tokens of the acting model, its judge and its critic"
"""The caption about these tokens."""
_TOGETHER = {
    **{f"all_{way}_tokens": [f"{role}{way}_tokens" for role in _ROLES] for way in ("input", "output")},
    "all_calls": ["llm_calls", *(f"{role}calls" for role in _ROLES if role)],
}
ADDED_UP = [name for names in _TOGETHER.values() for name in names]
"""Columns of episodes that are added up over roles."""


def sql(names: Sequence[str]) -> str:
    """The SQL of the sum of these columns.

    A role that a setting lacks counts as 0. The sum is NULL if nobody counted the tokens of a role that the setting
    has.
    """
    parts = []
    for name in names:
        role = name.partition("_")[0] + "_"
        parts.append(f"coalesce({name}, CASE WHEN {role}calls IS NULL THEN 0 END)" if role in _ROLES else name)
    return " + ".join(parts)


SQL = sql(_TOKENS)
OF_JUDGED = sql(_TOKENS[:4])
"""The SQL of the tokens of the acting model and its judge, without the critic's."""
DERIVED: Mapping[str, str] = {total: sql(names) for total, names in _TOGETHER.items()}
"""The SQL of each total over the acting model, its judge and its critic, by the total's name."""


def tokens(cells: pd.DataFrame) -> pd.Series[float]:
    """The sum of the token columns of SPENT for each cell; NaN if nobody counted a role's tokens."""
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
