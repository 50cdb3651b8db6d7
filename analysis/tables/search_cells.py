"""The episodes of a sweep that searches or is held to a budget: what each took, and on which terms."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from analysis import load
from analysis.load import name_of, provenance, spending, unknowns
from analysis.stats.intervals import CLUSTER, UNKNOWN, Interval, amount, interval, n_clusters, share
from grid import store

# How large trees grow to their end: nodes, executions and rollouts (tooltree, figure 4).


SIZES = {"nodes": "nodes", "executed_nodes": "executed", "rollouts": "rollouts", "pruned": "pruned"}
"""What is counted of a tree, and the names of it."""
QUARTILES = {"q1": 0.25, "median": 0.5, "q3": 0.75}


def trees(root: Path) -> pd.DataFrame:
    """Of each episode's tree, by `cell_id`: its nodes but for the root, and how many were executed or pruned.

    `rollouts` are the rewards that were backed up through the root's edges (the sum of N(s, a) over them); 0 of
    planners that back nothing up.

    Raises:
        StoreError: the folder cannot be read.
    """
    columns = ["cell_id", "depth", "execution", "visits", "pruned"]
    found = store.read(root, "nodes", columns, pc.field("depth") > 0)
    first = pc.if_else(pc.equal(found["depth"], 1), pc.fill_null(found["visits"], 0), pa.scalar(0, pa.int64()))
    table = pa.table({"cell_id": found["cell_id"], "execution": found["execution"], "pruned": found["pruned"],
                      "rollouts": first})  # fmt: skip
    counted = table.group_by("cell_id").aggregate(
        [("cell_id", "count"), ("execution", "count"), ("pruned", "count"), ("rollouts", "sum")]
    )
    names = {"cell_id_count": "nodes", "execution_count": "executed_nodes", "pruned_count": "pruned",
             "rollouts_sum": "rollouts"}  # fmt: skip
    frame: pd.DataFrame = counted.to_pandas().rename(columns=names)
    return frame


def quartiles(group: pd.DataFrame, counted: pd.DataFrame) -> pd.DataFrame:
    """One row a planner and robustness setting that has trees: of each of SIZES median and quartiles over episodes.

    Columns: `robustness`, `planner`, `asked`, `episodes`, and `nodes_q1`, `nodes_median`, `nodes_q3` and so on. NaN for
    the rollouts of a planner that has none.
    """
    found = []
    for key, own in planners(group):
        sizes = own[["cell_id"]].merge(counted, on="cell_id", validate="one_to_one")
        if sizes.empty:
            continue
        row: dict[str, Any] = key | {"episodes": len(sizes)}
        for name in SIZES:
            values = sizes[name].astype(float)
            if name == "rollouts" and not values.any():
                values = values * float("nan")
            row |= {f"{name}_{place}": values.quantile(share) for place, share in QUARTILES.items()}
        found.append(row)
    return pd.DataFrame(found)


# The episodes of a sweep that searches or is held to a budget: what each took, and on which terms.


PARTS = {"steps": "executed calls", "llm_calls": "model calls", "tokens": "tokens", "seconds": "seconds"}
"""The parts of a budget that end an episode, and what they count."""
PLACE = ["model", "dataset", "outline", "budget"]
"""What planners that are compared share, besides the robustness setting."""
ROW = [*PLACE, "robustness", "planner"]
CASE = [CLUSTER, "case_id"]
COSTS = ["tokens", "calls", "executed", "seconds"]
"""What a case took: tokens in and out, completions and scoring passes (the acting model's and the judge's, as budgets
count them; not those of an evaluator, who only scores), calls of tools that were run, its own seconds."""
_JUDGE = ["judge_input_tokens", "judge_output_tokens", "judge_calls", "judge_passes"]
_COLUMNS = [*provenance.SIMULATED_COLUMNS, "config", "budget_reached", "tool_calls", "n_nodes", "case_seconds", *_JUDGE]
_NOT_RECORDED = "not recorded"


class Terms(NamedTuple):
    """What a setting's planner was given: the outline's place, its budget in words, and the executed calls of that.

    `most_calls` are the completions and scoring passes of it.

    `restored` says whether its judge's decisions were set right from the reference.
    """

    outline: str
    budget: str
    limit: float
    most_calls: float
    restored: bool


def apply(root: Path) -> bool:
    """Whether any episode has a search tree or was stopped by its budget.

    Raises:
        StoreError: the folder cannot be read.
    """
    searched = (pc.field("n_nodes") > 0) | pc.field("budget_reached").is_valid()
    return bool(load.rows(root, ["cell_id"], searched).num_rows)


def read(root: Path) -> pd.DataFrame:
    """One row a cell, as `load.episodes` gives them, with `ROW`, `COSTS`, and what follows.

    `limit` are the executed calls that its budget allows, `most_calls` the completions and scoring passes, both
    infinite where they are not recorded; `asked` says whether its planner asked, in any case, whether that was
    resolved, or had a judge whose decisions were set right (tooltree A.2).

    Raises:
        StoreError: the folder cannot be read.
    """
    cells = load.episodes(root, _COLUMNS)
    terms = {text: _terms(text) for text in cells["config"].cat.categories}
    unknown = _terms("{}")
    known = [terms.get(text, unknown) for text in cells["config"].astype(object)]
    spent = cells[_JUDGE].fillna(0)
    cells = cells.assign(
        outline=pd.Categorical([one.outline for one in known]),
        budget=pd.Categorical([one.budget for one in known]),
        limit=np.array([one.limit for one in known]),
        most_calls=np.array([one.most_calls for one in known]),
        tokens=spending.of_judged(cells),
        calls=cells["llm_calls"] + cells["forward_passes"] + spent["judge_calls"] + spent["judge_passes"],
        executed=cells["tool_calls"],
        seconds=cells["case_seconds"],
    )
    checked = (cells["resolved_checks"].fillna(0) > 0) | np.array([one.restored for one in known], dtype=bool)
    return cells.assign(asked=checked.groupby([cells[name] for name in ROW], observed=True).transform("any"))


def places(cells: pd.DataFrame) -> Iterator[tuple[dict[str, str], pd.DataFrame]]:
    """The cells of each model, dataset, outline and budget: planners of different budgets are never compared."""
    for key, group in cells.groupby(PLACE, sort=False, observed=True):
        yield dict(zip(PLACE, map(str, key), strict=True)), group


def planners(group: pd.DataFrame) -> Iterator[tuple[dict[str, Any], pd.DataFrame]]:
    """Each planner's cells in each robustness setting, those who asked whether a case was resolved last."""
    for robustness, part in group.groupby("robustness", sort=False, observed=True):
        for (asked, planner), own in part.groupby(["asked", "planner"], sort=True, observed=True):
            yield {"robustness": str(robustness), "planner": str(planner), "asked": bool(asked)}, own


def by_case(cells: pd.DataFrame, columns: list[str]) -> pd.DataFrame:
    """Each case's means over its trials, by cluster and case."""
    return cells.groupby(CASE, sort=True, observed=True)[columns].mean()


def _terms(config: str) -> Terms:
    found: Mapping[str, Any] = json.loads(config)
    budget = found.get("budget") or {}
    outline = (found.get("dataset") or {}).get("outline") or _NOT_RECORDED
    restored = (found.get("judge") or {}).get("restored", "none") != "none"
    told = [f"{budget[part]:,} {name}" for part, name in PARTS.items() if budget.get(part) is not None]
    steps, calls = (float(budget.get(part) or np.inf) for part in ("steps", "llm_calls"))
    return Terms(str(outline), ", ".join(told) or _NOT_RECORDED, steps, calls, restored)


# What planners would have returned at smaller budgets of executed calls, from one run each (tooltree, figure 3).
#
# A planner says of every trajectory that is better than all before (table `improvements`), and what it had used by
# then. Stopped at a limit it returns the last of them: so the last improvement within a limit is what a run with this
# limit returns, as long as the planner does not look at its budget.


LIMITS = (4, 8, 16, 32, 64, 128)
"""Executed calls, as in the paper."""


def improvements(root: Path) -> pd.DataFrame:
    """Of each improvement its cell, the calls executed and the case's own seconds until then, and whether it resolves.

    Raises:
        StoreError: the folder cannot be read.
    """
    columns = ["cell_id", "improvement", "tool_calls", "seconds", "success"]
    found: pd.DataFrame = store.read(root, "improvements", columns).to_pandas()
    return found.assign(success=found["success"].astype(np.float64))


def curve(group: pd.DataFrame, improved: pd.DataFrame, limits: Sequence[int] = LIMITS) -> pd.DataFrame:
    """One row a planner, robustness setting and limit that is within the budget.

    Columns: `robustness`, `planner`, `asked`, `limit`, `cases`; `success`, `seconds` and `gain_per_second` (see
    `marginal`), each with `_low` and `_high` (95%, over clusters). See `at_limits`.
    """
    reached = at_limits(group, improved, [limit for limit in limits if (group["limit"] >= limit).all()])
    found: list[dict[str, Any]] = []
    for key, own in planners(group):
        of = reached.merge(own[["cell_id", *CASE]], on="cell_id", validate="many_to_one")
        before: pd.DataFrame | None = None
        for limit, part in of.dropna(subset=["success"]).groupby("limit", sort=True):
            means = by_case(part, ["success", "seconds"])
            row = key | {"limit": limit, "cases": len(means)}
            measured = {
                "success": share(means["success"]),
                "seconds": amount(means["seconds"].dropna()),
                "gain_per_second": marginal(means, before),
            }
            before = means
            for name, of_limit in measured.items():
                row |= of_limit.named(name)
            found.append(row)
    return pd.DataFrame(found)


def marginal(means: pd.DataFrame, before: pd.DataFrame | None) -> Interval:
    """The marginal gain per second of a limit (tooltree §4.2): what success gains over what seconds gain.

    Both are gained since the limit `before`, over the same cases; since no call and no second where there is none. Its
    interval is Student's t of the ratio's linear part (delta method), as success may fall. NaN where no time passes.
    """
    gained = (means - before if before is not None else means)[["success", "seconds"]].dropna()
    seconds = float(gained["seconds"].mean()) if len(gained) else 0.0
    if not seconds > 0:
        return UNKNOWN
    gain = float(gained["success"].mean()) / seconds
    return interval(gain + (gained["success"] - gain * gained["seconds"]) / seconds)


def at_limits(cells: pd.DataFrame, improved: pd.DataFrame, limits: Sequence[int]) -> pd.DataFrame:
    """One row a cell and limit: `cell_id`, `limit`, `success`, `seconds`.

    A cell that executed no more calls than the limit has its own success. Another has that of its last improvement
    within the limit, 0 without any. Where a cell's own is not known, none is. Seconds are known at improvements and at
    the end; between them they are interpolated over executed calls.
    """
    mine = improved[improved["cell_id"].isin(cells["cell_id"])].sort_values(["cell_id", "improvement"], kind="stable")
    points = _points(cells, mine)
    own = cells.set_index("cell_id")
    parts = []
    for limit in limits:
        success = success_at(limit, own["executed"], own["success"], mine, "tool_calls")
        seconds = _seconds(points, limit).reindex(own.index).mask(own["seconds"].isna())
        parts.append(pd.DataFrame({"limit": limit, "success": success, "seconds": seconds}).reset_index())
    return pd.concat(parts, ignore_index=True) if parts else _EMPTY


def success_at(
    limit: int, used: pd.Series[Any], success: pd.Series[Any], improved: pd.DataFrame, by: str
) -> pd.Series[Any]:
    """Whether cells would have been resolved at a limit, by `cell_id`.

    Args:
        limit: of what is counted.
        used: by cell, how much it took to its end.
        success: by cell, whether it was resolved then.
        improved: rows of `improvements` in their order.
        by: the column of them that counts the same.
    """
    within = improved[improved[by] <= limit].groupby("cell_id")["success"].last()
    found = within.reindex(used.index).fillna(0.0)
    return found.mask(used <= limit, success).mask(success.isna())


_EMPTY = pd.DataFrame(columns=["cell_id", "limit", "success", "seconds"])


def _points(cells: pd.DataFrame, improved: pd.DataFrame) -> pd.DataFrame:
    """What is known of each cell's time: seconds by executed calls, from none to all."""
    end = cells[["cell_id", "executed", "seconds"]].rename(columns={"executed": "tool_calls"})
    parts = [end.assign(tool_calls=0, seconds=0.0), improved[["cell_id", "tool_calls", "seconds"]], end]
    known = pd.concat(parts, ignore_index=True)
    return known.groupby(["cell_id", "tool_calls"], sort=True)["seconds"].max().reset_index()


def _seconds(points: pd.DataFrame, limit: int) -> pd.Series[float]:
    below = points[points["tool_calls"] <= limit].groupby("cell_id").last()
    above = points[points["tool_calls"] >= limit].groupby("cell_id").first().reindex(below.index)
    above = above.fillna(below)
    span = (above["tool_calls"] - below["tool_calls"]).clip(lower=1)
    share = (limit - below["tool_calls"]).clip(upper=span) / span
    return below["seconds"] + share * (above["seconds"] - below["seconds"])


# Planners at equal budgets, the undominated ones, and variants of one planner (tooltree, tables 1, 2 and 4).


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
    for key, own in planners(group):
        means = by_case(own, ["success", "tool_match_rate", *COSTS, "resolved_checks"])
        found = {"cases": len(means), "clusters": n_clusters(means), "cells": len(own)}
        unknown = own["success"].isna() | own.get(unknowns.COLUMN, False)
        found |= {"failed": int((own["status"] != "ok").sum()), "unknown": int(unknown.sum())}
        rates = share(means["success"].dropna()).named("success")
        rates |= {name: means[name].mean() for name in ("tool_match_rate", *COSTS)}
        rates |= {"checks": means["resolved_checks"].mean()}
        rates |= {f"stopped_{part}": (own["budget_reached"].astype(object) == part).mean() for part in PARTS}
        rows.append(key | found | rates)
    frame = pd.DataFrame(rows)
    for cost in FRONTIERS:
        frame[f"undominated_{cost}"] = False
        for _, own in frame.groupby(["robustness", "asked"]):
            best = undominated(own["success"].to_numpy(np.float64), own[cost].to_numpy(np.float64))
            frame.loc[own.index, f"undominated_{cost}"] = best
    return frame


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
            str(label): by_case(part, measures)
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
    found: dict[str, Any] = {"cases": len(paired), "clusters": n_clusters(paired)}
    for name in paired.columns:
        mean, low, high = np.nan, np.nan, np.nan
        if plain is not None:
            reach = 1.0 if name == "success" else None
            mean, low, high = interval((paired[name] - plain[name].reindex(paired.index)).dropna(), reach)
        found |= {name: paired[name].mean(), f"{name}_difference": mean, f"{name}_low": low, f"{name}_high": high}
    return found


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
