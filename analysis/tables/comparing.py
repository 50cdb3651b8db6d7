"""Planners at equal budgets, the undominated ones, and variants of one planner (tooltree, tables 1, 2 and 4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from analysis.load import unknowns
from analysis.stats.intervals import count, interval, share
from analysis.tables import search_cells as cells
from analysis.tables.search_cells import COSTS, PARTS

Flags = npt.NDArray[np.bool_]
ABLATED = "tooltree"
FRONTIERS = ("tokens", "seconds")
"""The costs against which success is held."""


def compared(group: pd.DataFrame) -> pd.DataFrame:
    """One row a planner and robustness setting, those who asked whether a case was resolved behind the others.

    Columns: `robustness`, `planner`, `asked`, `cases`, `clusters`, `cells`, `failed`, `unknown` (cells of which it is
    not known whether they resolved their case), `success` with `_low` and `_high` (95%, over clusters), the means over
    cases of `tool_match_rate`, COSTS and `checks`, and `stopped_` by each of PARTS: the share of episodes. For each of
    FRONTIERS `undominated_` says whether no other planner on the same terms does as well at no more cost.
    """
    rows = []
    for key, own in cells.planners(group):
        means = cells.by_case(own, ["success", "tool_match_rate", *COSTS, "resolved_checks"])
        mean, low, high = share(means["success"].dropna())
        found = {"cases": len(means), "clusters": count(means), "cells": len(own)}
        unknown = own["success"].isna() | own.get(unknowns.COLUMN, False)
        found |= {"failed": int((own["status"] != "ok").sum()), "unknown": int(unknown.sum())}
        rates = {"success": mean, "success_low": low, "success_high": high}
        rates |= {name: means[name].mean() for name in ("tool_match_rate", *COSTS)}
        rates |= {"checks": means["resolved_checks"].mean()}
        rates |= {f"stopped_{part}": (own["budget_reached"].astype(object) == part).mean() for part in PARTS}
        rows.append(key | found | rates)
    table = pd.DataFrame(rows)
    for cost in FRONTIERS:
        table[f"undominated_{cost}"] = False
        for _, own in table.groupby(["robustness", "asked"]):
            best = undominated(own["success"].to_numpy(np.float64), own[cost].to_numpy(np.float64))
            table.loc[own.index, f"undominated_{cost}"] = best
    return table


def undominated(success: npt.NDArray[np.float64], cost: npt.NDArray[np.float64]) -> Flags:
    """Whether nobody has at least this success at this cost or less, and either strictly; shapes (n,).

    Whoever's success or cost is not known neither dominates nor is undominated.
    """
    known = ~(np.isnan(success) | np.isnan(cost))
    as_good = (success[None, :] >= success[:, None]) & (cost[None, :] <= cost[:, None])
    better = (success[None, :] > success[:, None]) | (cost[None, :] < cost[:, None])
    dominated = (as_good & better & known[None, :]).any(axis=1)
    return np.asarray(known & ~dominated, dtype=np.bool_)


def ablation(group: pd.DataFrame, planner: str = ABLATED) -> pd.DataFrame:
    """Each variant of a planner (`tooltree[pre_pruning=false]`) less the plain one, over the cases that both have.

    The files of a planner in folders (`sampled/tooltree`) count, each with its own variants. Columns: `robustness`,
    `planner`, `reference`, `cases`, `clusters`; each of success, tokens, executed calls and nodes with its mean, and
    its `_difference` with `_low` and `_high` (95%, over clusters). The reference has a row of its own in front, without
    differences. Empty where no variant has a reference.
    """
    measures = ["success", "tokens", "executed", "n_nodes"]
    rows: list[dict[str, Any]] = []
    for robustness, own in group.groupby("robustness", sort=False, observed=True):
        means = {
            str(label): cells.by_case(part, measures)
            for label, part in own.groupby("planner", sort=True, observed=True)
            if name_of(str(label)).rpartition("/")[2] == planner
        }
        variants = {label: plain_of(label, [one for one in means if name_of(one) == name_of(label)]) for label in means}
        for plain in dict.fromkeys(reference for reference in variants.values() if reference):
            base = {"robustness": str(robustness), "reference": plain}
            rows.append(base | {"planner": plain} | _told(means[plain], None))
            rows += [
                base | {"planner": label} | _told(means[label], means[plain])
                for label, reference in variants.items()
                if reference == plain
            ]
    return pd.DataFrame(rows)


def _told(own: pd.DataFrame, plain: pd.DataFrame | None) -> dict[str, Any]:
    paired = own if plain is None else own[own.index.isin(plain.index)]
    found: dict[str, Any] = {"cases": len(paired), "clusters": count(paired)}
    for name in paired.columns:
        mean, low, high = np.nan, np.nan, np.nan
        if plain is not None:
            reach = 1.0 if name == "success" else None
            mean, low, high = interval((paired[name] - plain[name].reindex(paired.index)).dropna(), reach)
        found |= {name: paired[name].mean(), f"{name}_difference": mean, f"{name}_low": low, f"{name}_high": high}
    return found


def name_of(label: str) -> str:
    """A label's planner without its changes and whatever stands behind it."""
    return label.partition("[")[0].partition(" ")[0]


def plain_of(label: str, labels: Sequence[str]) -> str | None:
    """The label that a variant is compared with; None for one that is no variant, or has nothing to be compared with.

    It has no changes, or all of them `true`: all that can be switched off is on. Of several it is the one with the
    same retriever and judge.
    """
    plain = [other for other in labels if _is_plain(other)]
    if label in plain:
        return None
    same = [other for other in plain if _split(other)[1] == _split(label)[1]]
    found = same or plain
    return found[0] if len(found) == 1 else None


def _is_plain(label: str) -> bool:
    changes = _split(label)[0]
    return not changes or all(change.lower().endswith("=true") for change in changes.split(","))


def _split(label: str) -> tuple[str, str]:
    """A label's changes (`a=1,b=2`), and what stands behind them."""
    rest = label[len(name_of(label)) :]
    if not rest.startswith("["):
        return "", rest
    depth = 0
    for place, char in enumerate(rest):
        depth += (char == "[") - (char == "]")
        if not depth:
            return rest[1:place], rest[place + 1 :]
    return rest[1:], ""
