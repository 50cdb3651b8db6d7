"""What each role has spent on a cell, as columns of its row: those of others stand beside the acting model's."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from grid.engines.roles import ACTOR, ASKED, Role
from grid.runner.prices import Prices, money
from grid.types import Usage

_NAMES = tuple(vars(Usage()))
_SHORT = {"llm_calls": "calls", "forward_passes": "passes"}
COLUMNS: dict[Role, dict[str, str]] = {
    ACTOR: {name: name for name in _NAMES},
    **{role: {name: f"{role}_{_SHORT.get(name, name)}" for name in _NAMES} for role in ASKED},
}
"""By role, the column of each of a Usage's counts."""


def cost_columns(roles: Collection[Role], prices: Prices, spent: Mapping[Role, Usage]) -> dict[str, int | float | None]:
    """The columns of what each of a setting's roles spent, nothing where nothing is known; null for other roles.

    A role's tokens are null where some of its answers are uncounted. `money` is that of all roles, null where the price
    or the tokens of one are not known.
    """
    spent = dict.fromkeys(roles, Usage()) | dict(spent)
    known = {role: usage.known() for role, usage in spent.items()}
    counts = {
        column: known[role][name] if role in known else None
        for role, columns in COLUMNS.items()
        for name, column in columns.items()
    }
    return {**counts, "money": money(prices, spent)}


def spent_in(episode: Mapping[str, Any]) -> dict[Role, Usage]:
    """What each role spent, from an episode's row, without the tokens of one that has uncounted answers."""
    return {
        role: Usage(**{name: episode[column] or 0 for name, column in columns.items()})
        for role, columns in COLUMNS.items()
    }


def summed(spent: Iterable[Mapping[Role, Usage]]) -> dict[Role, Usage]:
    """What each role spent in all: planners and tools may ask the same."""
    total: dict[Role, Usage] = {}
    for part in spent:
        for role, usage in part.items():
            total[role] = total.get(role, Usage()) + usage
    return total


def larger(one: Usage, other: Usage) -> Usage:
    """The larger of each count."""
    return Usage(**{name: max(getattr(one, name), getattr(other, name)) for name in _NAMES})
