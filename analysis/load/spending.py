"""The tokens of all requests that a planner makes to its own model, its judge and its critic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

_ROLES = ("", "judge_", "critic_")
_TOKENS = [f"{role}{way}_tokens" for role in _ROLES for way in ("input", "output")]
SPENT = [*_TOKENS, "judge_calls", "critic_calls"]
"""Token columns of the acting model, its judge and its critic; the calls show whether there is a judge or critic.

Tokens of an evaluator, a simulator or a user are not counted, because these three belong to the environment.
"""
TOLD = "tokens: input and output tokens of the acting model, its judge and its critic"
"""The caption about the tokens of a planner's requests."""
_TOGETHER = {
    **{f"all_{way}_tokens": [f"{role}{way}_tokens" for role in _ROLES] for way in ("input", "output")},
    "all_calls": ["llm_calls", *(f"{role}calls" for role in _ROLES if role)],
}
ADDED_UP = [name for names in _TOGETHER.values() for name in names]
"""Columns of episodes that are added up over roles."""


def sql(names: Sequence[str]) -> str:
    """The SQL expression for the sum of these columns.

    A role that a setting lacks counts as 0. The sum is NULL if the setting has a role whose tokens were not counted.
    """
    parts = []
    for name in names:
        role = name.partition("_")[0] + "_"
        parts.append(f"coalesce({name}, CASE WHEN {role}calls IS NULL THEN 0 END)" if role in _ROLES else name)
    return " + ".join(parts)


SQL = sql(_TOKENS)
DERIVED: Mapping[str, str] = {total: sql(names) for total, names in _TOGETHER.items()}
"""Map the name of each total over the acting model, its judge and its critic to the total's SQL expression."""


def tokens(cells: pd.DataFrame) -> pd.Series[float]:
    """The sum of the token columns of SPENT for each cell; NaN if a role's tokens were not counted."""
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
