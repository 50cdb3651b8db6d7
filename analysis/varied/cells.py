"""Which settings are one planner with two of its numbers varied, and what they solve."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from analysis import load, planted, spending
from analysis.apart import APART
from analysis.intervals import CLUSTER, Interval, count, share
from analysis.search.comparing import name_of

LEAST = 4
"""Settings that make a grid: two values of each number."""
PLACE = ["model", "dataset", "robustness"]
_SAME = [name for name in APART if name not in ("planner", "setting_id")]
_COLUMNS = [*planted.COLUMNS, *spending.SPENT, "config"]


@dataclass(frozen=True)
class Grid:
    """A planner's settings that differ in two numbers, `first` and `second`, and in nothing else.

    `place` has the labels of PLACE. `table` has a row a setting: both numbers by their names, `cases`, `clusters`,
    `success` with `_low` and `_high` (95%, over clusters of cases), and `tokens`, the mean per case of all roles.
    """

    place: Mapping[str, str]
    planner: str
    first: str
    second: str
    table: pd.DataFrame

    def values(self, key: str) -> list[float]:
        """The values of a number, ascending."""
        return sorted(self.table[key].unique())

    def middle(self, key: str) -> float:
        """The value at which one number is held while the other varies: the middle one, of two the higher."""
        values = self.values(key)
        return values[len(values) // 2]

    def at(self, first: float, second: float) -> Interval | None:
        """Success of a setting; None where it did not run, or nothing is known of it."""
        own = self.table[(self.table[self.first] == first) & (self.table[self.second] == second)]
        known = own.dropna(subset=["success"])
        return Interval(*map(float, known[["success", "success_low", "success_high"]].iloc[0])) if len(known) else None


def read(root: Path) -> pd.DataFrame:
    """One row a cell, as `load.episodes` gives them; none where no planner can have a grid, which few columns tell.

    Raises:
        StoreError: the folder cannot be read.
    """
    few = load.rows(root, ["planner", "config"], categories=["planner", "config"])
    by_name: dict[str, list[dict[str, float]]] = {}
    for pair in few.group_by(["planner", "config"]).aggregate([]).to_pylist():
        found = _numbers(json.loads(pair["config"] or "{}").get("planner", {}))
        by_name.setdefault(name_of(str(pair["planner"])), []).append(found)
    if not any(len(settings) >= LEAST and len(_varied(settings)) > 1 for settings in by_name.values()):
        return pd.DataFrame()
    return load.episodes(root, _COLUMNS)


def grids(cells: pd.DataFrame) -> list[Grid]:
    """Every planner of which exactly two numbers vary among settings that are else alike, in the cells' order.

    Numbers are values of the planner's own keys; settings that differ in other values of these, in their budget or in
    any other part are of another grid.
    """
    if cells.empty:
        return []
    cells = cells.assign(tokens=spending.tokens(cells))
    configs = {str(text): json.loads(str(text)) for text in cells["config"].dropna().unique()}
    numbers = {text: _numbers(config.get("planner", {})) for text, config in configs.items()}
    rest = {text: _rest(config) for text, config in configs.items()}
    names = cells["planner"].astype(str).map(name_of)
    alike = cells.assign(name=names, rest=cells["config"].astype(str).map(rest))
    found = []
    for _, own in alike.groupby([*_SAME, "name", "rest"], sort=False, observed=True, dropna=False):
        texts = own["config"].astype(str)
        each = pd.DataFrame([numbers[text] for text in texts], index=own.index)
        varied = _varied([numbers[text] for text in texts.unique()])
        if len(varied) != 2 or len(each[varied].drop_duplicates()) < LEAST:
            continue
        first, second = varied
        table = pd.DataFrame(_rows(own.assign(**{key: each[key] for key in varied}), first, second))
        place = {name: str(own[name].iloc[0]) for name in PLACE}
        found.append(Grid(place, str(own["name"].iloc[0]), first, second, table))
    return found


def _rows(own: pd.DataFrame, first: str, second: str) -> Iterator[dict[str, Any]]:
    for key, cells in own.groupby([first, second], sort=True):
        means = cells.groupby([CLUSTER, "case_id"], observed=True)[["success", "tokens"]].mean()
        success, low, high = share(means["success"].dropna())
        yield dict(zip((first, second), key, strict=True)) | {
            "cases": len(means),
            "clusters": count(means),
            "success": success,
            "success_low": low,
            "success_high": high,
            "tokens": means["tokens"].mean(),
        }


def _numbers(planner: Mapping[str, Any]) -> dict[str, float]:
    return {key: value for key, value in planner.items() if _is_number(value)}


def _rest(config: Mapping[str, Any]) -> str:
    """What else the settings of a grid share: the planner's other values, and the budget."""
    other = {key: value for key, value in config.get("planner", {}).items() if not _is_number(value)}
    return json.dumps([other, config.get("budget")], sort_keys=True)


def _varied(settings: Sequence[Mapping[str, float]]) -> list[str]:
    """The numbers of which settings have several values."""
    keys = dict.fromkeys(key for numbers in settings for key in numbers)
    return [key for key in keys if len({numbers.get(key) for numbers in settings}) > 1]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
