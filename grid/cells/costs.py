"""What each role has spent on a cell, as its row has it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from grid.core.roles import Role
from grid.core.types import Usage
from grid.settings.prices import Prices, money
from grid.store.schema import SPENT

_NONE = Usage()
_NAMES = tuple(vars(_NONE))


def costs_of(roles: Collection[Role], prices: Prices, spent: Mapping[Role, Usage]) -> dict[str, Any]:
    """The map `costs`, of each of a setting's roles what it spent, and `money`, which is that of all.

    A role's tokens are null where some of its answers are uncounted, and money where the price or the tokens of one are
    not known.
    """
    spent = dict.fromkeys(roles, _NONE) | dict(spent)
    costs = {
        role: {**usage.known(), "money": money({role: prices[role]}, spent) if role in prices else None}
        for role, usage in spent.items()
    }
    return {"costs": costs, "money": money(prices, spent)}


def spent_in(episode: Mapping[str, Any]) -> dict[Role, Usage]:
    """What each role spent, from an episode's row, without the tokens of one that has uncounted answers."""
    return {
        role: Usage(**{name: (episode["costs"][role][name] or 0) for name in _NAMES})
        for role in SPENT
        if role in episode["costs"]
    }


def spent_by_columns(row: Mapping[str, Any]) -> dict[Role, Usage]:
    """The same from a row of the joined form."""
    return {
        role: Usage(**{name: row[column] or 0 for name, column in columns.items()}) for role, columns in SPENT.items()
    }


def summed(spent: Iterable[Mapping[Role, Usage]]) -> dict[Role, Usage]:
    """What each role spent in all: planners and tools may ask the same."""
    total: dict[Role, Usage] = {}
    for part in spent:
        for role, usage in part.items():
            total[role] = total[role] + usage if role in total else usage
    return total


def larger(one: Usage, other: Usage) -> Usage:
    """The larger of each count."""
    return Usage(**{name: max(getattr(one, name), getattr(other, name)) for name in _NAMES})
