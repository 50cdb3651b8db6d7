"""What each planner takes a case and solves, and which of them nobody dominates."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis import load, made_up, planted, spending
from analysis.intervals import CLUSTER, count, interval, ratio, share
from analysis.load import SETTING
from analysis.search.comparing import undominated

TOKENS, MONEY = "tokens", "money"
PLACE = SETTING[:3]
UNDISTURBED = "none"


def read(root: Path) -> pd.DataFrame:
    """One row a cell, as `load.episodes` gives them, with `tokens`.

    Raises:
        StoreError: the folder cannot be read.
    """
    cells = load.episodes(root, [*planted.COLUMNS, *spending.SPENT])
    return cells.assign(tokens=spending.tokens(cells))


def about(cells: pd.DataFrame) -> str:
    """What every caption begins with: a simulated policy, simulated tools."""
    return planted.notice(cells) + made_up.notice(cells)


def cost_of(cells: pd.DataFrame) -> str:
    """MONEY where every model has a price, else TOKENS."""
    paid = cells.groupby("model", observed=True)["money"].max()
    return MONEY if len(paid) and (paid > 0).all() else TOKENS


def points(cells: pd.DataFrame) -> pd.DataFrame:
    """One row a setting, undisturbed ones first: SETTING, what it solves and takes, and whether it is on the frontier.

    Columns: `cases`, `clusters`; `success` with `_low` and `_high` (95%, over clusters); TOKENS and MONEY, means per
    case; `asked`: its planner asked, in some case, whether that was resolved; `frontier`: no planner on the same terms
    (asked or not) of its model, dataset and robustness does at least as well at no more cost (`cost_of`), by means.

    Of those on a frontier, in the order of their cost: `gain`, the paired difference in success to the one before (on
    the cases that both have) with bounds, and `times`, the ratio of their costs with bounds. NaN for the first.
    """
    cost = cost_of(cells)
    by_setting = dict(iter(cells.groupby(SETTING, sort=False, observed=True)))
    means = {key: _by_case(own) for key, own in by_setting.items()}
    rows = []
    for key, own in by_setting.items():
        success, low, high = share(means[key]["success"].dropna())
        found: dict[str, Any] = dict(zip(SETTING, map(str, key), strict=True))
        found |= {"cases": len(means[key]), "clusters": count(means[key]), "success": success}
        found |= {"success_low": low, "success_high": high}
        found |= {name: means[key][name].mean() for name in (TOKENS, MONEY)}
        rows.append(found | {"asked": bool((own["resolved_checks"].fillna(0) > 0).any())})
    table = pd.DataFrame(rows).assign(frontier=False, gain=np.nan, times=np.nan)
    table = table.assign(**{f"{name}_{end}": np.nan for name in ("gain", "times") for end in ("low", "high")})
    keys = list(by_setting)
    for _, group in table.groupby([*PLACE, "asked"], sort=False):
        best = group[undominated(group["success"].to_numpy(np.float64), group[cost].to_numpy(np.float64))]
        table.loc[best.index, "frontier"] = True
        ordered = best.sort_values([cost, "planner"], kind="stable").index
        for before, place in itertools.pairwise(ordered):
            for name, value in _step(means[keys[place]], means[keys[before]], cost).items():
                table.loc[place, name] = value
    return table


def comparable(table: pd.DataFrame, cost: str) -> pd.DataFrame:
    """The rows of which success and a cost above 0 are known, in places where two planners or more have them."""
    known = table[table["success"].notna() & (table[cost] > 0)]
    return known[known.groupby(PLACE)["planner"].transform("size") > 1]


def places(table: pd.DataFrame) -> Iterator[tuple[tuple[str, str, str], pd.DataFrame]]:
    """The rows of each model, dataset and robustness setting."""
    for key, own in table.groupby(PLACE, sort=False):
        model, dataset, robustness = map(str, key)
        yield (model, dataset, robustness), own


def _by_case(own: pd.DataFrame) -> pd.DataFrame:
    return own.groupby([CLUSTER, "case_id"], sort=True, observed=True)[["success", TOKENS, MONEY]].mean()


def _step(own: pd.DataFrame, before: pd.DataFrame, cost: str) -> dict[str, float]:
    """From one planner of a frontier to the next."""
    both = own.join(before.add_suffix("_before"), how="inner")
    known = both[["success", "success_before", cost, f"{cost}_before"]].dropna()
    gain = interval(known["success"] - known["success_before"], reach=1.0)
    times = ratio(known[cost], known[f"{cost}_before"])
    return {
        f"{name}{end}": value
        for name, found in (("gain", gain), ("times", times))
        for end, value in zip(("", "_low", "_high"), found, strict=True)
    }
