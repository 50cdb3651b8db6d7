"""The episodes of a sweep that searches or has a budget: the cost of each episode, and its planner's terms."""

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
from analysis.load import name_of, provenance, queries, spending, unknowns
from analysis.load.queries import LABELLED, Asked, ask
from analysis.stats.intervals import CLUSTER, UNKNOWN, Interval, amount, interval, n_clusters, share
from grid import store

# The sizes of trees at the end of an episode: nodes, executions and rollouts (tooltree, figure 4).


SIZES = {"nodes": "nodes", "executed_nodes": "executed", "rollouts": "rollouts", "pruned": "pruned"}
"""The counts of a tree, with their names."""
_PLACED = ("model", "dataset", "disturbed")
QUARTILES = {"q1": 0.25, "median": 0.5, "q3": 0.75}
_SIZES = """SELECT {labels}, count(*) AS episodes, {quartiles}
FROM (SELECT model, dataset, robustness, planner, cell_id, count(*) AS nodes, count(n.execution) AS executed_nodes,
    coalesce(sum(n.visits) FILTER (n.depth = 1), 0) AS rollouts, count(n.pruned) AS pruned
  FROM e JOIN nodes AS n USING (cell_id) WHERE {where} AND n.depth > 0 GROUP BY ALL)
GROUP BY ALL ORDER BY ALL"""


def sizes(group: pd.DataFrame, nodes: pa.Table, where: str = "true") -> Asked:
    """One row per planner and robustness setting with trees: median and quartiles of each of SIZES over episodes.

    Columns: the labels, `asked`, `episodes`, and `nodes_q1`, `nodes_median`, `nodes_q3` and so on. `rollouts` is the
    number of rewards that were backed up through the root's edges (the sum of N(s, a) over these edges), NaN for
    planners that back up no rewards. The root does not count as a node. `nodes` is the folder's table, from `trees`.
    """
    of = {name: f"quantile_cont({name}, {{}})" for name in SIZES}
    of["rollouts"] = f"if(max(rollouts) > 0, {of['rollouts']}, NULL)"
    quartiles = [f"{text.format(q)} AS {name}_{place}" for name, text in of.items() for place, q in QUARTILES.items()]
    found = ask_of(group, _SIZES.format(labels=LABELLED, quartiles=", ".join(quartiles), where=where), nodes=nodes)
    first = ["robustness", "planner", "asked"]
    return found._replace(rows=found.rows[[*first, *(name for name in found.rows if name not in (*first, *_PLACED))]])


def trees(root: Path) -> pa.Table:
    """The table `nodes`, with the columns that `sizes` reads.

    Raises:
        StoreError: the folder cannot be read.
    """
    return store.read(root, "nodes", ["cell_id", "depth", "execution", "visits", "pruned"])


# The episodes of a sweep that searches or has a budget: the cost and the terms of each episode.


PARTS = {
    "steps": "executed calls", "llm_calls": "model calls", "tokens": "tokens", "seconds": "seconds",
    "cell_money": "dollars",
}  # fmt: skip
"""The parts of a budget that end an episode, with the names of the quantities that they limit."""
PLACE = ["model", "dataset", "outline", "budget"]
"""The labels that compared planners share, besides the robustness setting."""
ROW = [*PLACE, "robustness", "planner"]
CASE = [CLUSTER, "case_id"]
COSTS = ["tokens", "calls", "executed", "seconds"]
"""The costs of a case: tokens, calls, executed calls and seconds.

Tokens are input and output tokens. Calls are completions and scoring passes. Both are those of the acting model, its
judge and its critic, as budgets count them; an evaluator, which only scores, does not count. Executed calls are calls
of tools that were run. Seconds are the case's own time, without queueing.
"""
_CALLS = ["judge_calls", "judge_passes", "critic_calls", "critic_passes"]
_COLUMNS = [
    *provenance.SIMULATED_COLUMNS, "config", "budget_reached", "tool_calls", "n_nodes", "case_seconds",
    *spending.SPENT, *_CALLS,
]  # fmt: skip
ALL_CALLS = " + ".join(["llm_calls", "forward_passes", *(f"coalesce({name}, 0)" for name in _CALLS)])
"""The SQL for completions and scoring passes, as budgets count them."""
_VALUES = {
    "success": "success", "tool_match_rate": "tool_match_rate", "tokens": spending.SQL, "calls": ALL_CALLS,
    "executed": "tool_calls", "seconds": "case_seconds", "n_nodes": "n_nodes", "checks": "resolved_checks",
}  # fmt: skip
_NOT_RECORDED = "not recorded"


class Terms(NamedTuple):
    """The terms of a setting's planner: the dataset's outline key, budget in words, and limit on executed calls.

    `most_calls` is the budget's limit on completions and scoring passes. `restored` says whether the judge's decisions
    were corrected with the reference.
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
    """One row per cell from `load.episodes`, with `ROW` and further columns.

    `limit` is the number of executed calls that the cell's budget allows, `most_calls` the number of completions and
    scoring passes; both are infinite if not recorded. `asked` is true if the cell's planner asked, in at least one
    case, whether the case was resolved, or had a judge whose decisions were corrected (tooltree A.2).

    Raises:
        StoreError: the folder cannot be read.
    """
    cells = load.episodes(root, _COLUMNS)
    terms = {text: _terms(text) for text in cells["config"].cat.categories}
    unknown = _terms("{}")
    known = [terms.get(text, unknown) for text in cells["config"].astype(object)]
    cells = cells.assign(
        outline=pd.Categorical([one.outline for one in known]),
        budget=pd.Categorical([one.budget for one in known]),
        limit=np.array([one.limit for one in known]),
        most_calls=np.array([one.most_calls for one in known]),
    )
    checked = (cells["resolved_checks"].fillna(0) > 0) | np.array([one.restored for one in known], dtype=bool)
    return cells.assign(asked=checked.groupby([cells[name] for name in ROW], observed=True).transform("any"))


def places(cells: pd.DataFrame) -> Iterator[tuple[dict[str, str], pd.DataFrame]]:
    """The cells of each model, dataset, outline and budget; planners with different budgets are never compared.

    Besides PLACE, the labels have `where`, the SQL condition for these cells.
    """
    of_place = cells.groupby(PLACE[:2], sort=False, observed=True)["setting_id"].nunique().to_dict()
    for key, group in cells.groupby(PLACE, sort=False, observed=True):
        place = dict(zip(PLACE, map(str, key), strict=True))
        settings = sorted(map(str, group["setting_id"].unique()))
        where = {name: [place[name]] for name in PLACE[:2]}
        if len(settings) < of_place[key[:2]]:
            where["setting_id"] = settings
        yield place | {"where": queries.where(where)}, group


def planners(rows: pd.DataFrame) -> Iterator[tuple[dict[str, Any], pd.DataFrame]]:
    """Each planner's rows in each robustness setting; planners that asked whether a case was resolved come last."""
    for robustness, part in rows.groupby("robustness", sort=False, observed=True):
        for (asked, planner), own in part.groupby(["asked", "planner"], sort=True, observed=True):
            yield {"robustness": str(robustness), "planner": str(planner), "asked": bool(asked)}, own


def ask_of(group: pd.DataFrame, query: str, **further: pa.Table) -> Asked:
    """The result of a query over one of `places`, with `asked` for each planner and robustness setting."""
    found, keys = ask(group, query, **further), ["robustness", "planner"]
    asked = group.groupby(keys, observed=True)["asked"].any().reset_index()
    rows = found.rows.merge(asked, on=keys).sort_values(["disturbed", "robustness", "asked", "planner"], kind="stable")
    return found._replace(rows=rows.reset_index(drop=True))


def cases(group: pd.DataFrame, where: str = "true") -> Asked:
    """Each case's success and costs, which `compared` and `ablation` read; `where` is the condition of the place."""
    stopped = {f"stopped_{part}": f"coalesce(budget_reached = '{part}', false)::INT" for part in PARTS}
    unknown = " OR unknown" * (unknowns.COLUMN in group)
    counts = [
        "count(*) FILTER (status <> 'ok') AS failed", f"count(*) FILTER (success IS NULL{unknown}) AS unknown",
        *(f"sum({text}) AS {name}" for name, text in stopped.items()),
    ]  # fmt: skip
    return ask_of(group, queries.of_cases(_VALUES, where, further=counts))


def by_case(rows: pd.DataFrame, columns: list[str]) -> pd.DataFrame:
    """Columns of the cases' rows, indexed by cluster and case."""
    return rows.set_index(CASE)[columns]


def _terms(config: str) -> Terms:
    found: Mapping[str, Any] = json.loads(config)
    budget = found.get("budget") or {}
    outline = (found.get("dataset") or {}).get("outline") or _NOT_RECORDED
    restored = (found.get("judge") or {}).get("restored", "none") != "none"
    told = [f"{budget[part]:,} {name}" for part, name in PARTS.items() if budget.get(part) is not None]
    steps, calls = (float(budget.get(part) or np.inf) for part in ("steps", "llm_calls"))
    return Terms(str(outline), ", ".join(told) or _NOT_RECORDED, steps, calls, restored)


# The results that planners would have returned at smaller budgets of executed calls, from one run each (tooltree,
# figure 3).
#
# A planner reports every trajectory that is better than all earlier ones (table `improvements`), with the calls and
# time used by then. If it is stopped at a limit, it returns the last of these trajectories. So the last improvement
# within a limit is what a run with this limit would return, if the planner's decisions do not depend on its budget.


LIMITS = (4, 8, 16, 32, 64, 128)
"""Limits of executed calls, as in the paper."""


_AT_LIMITS = """WITH i AS (SELECT i.* FROM improvements AS i JOIN e USING (cell_id)),
p AS (SELECT cell_id, tool_calls, max(seconds) AS seconds FROM (
  SELECT cell_id, 0 AS tool_calls, 0.0 AS seconds FROM e
  UNION ALL BY NAME SELECT cell_id, tool_calls, case_seconds AS seconds FROM e
  UNION ALL BY NAME SELECT cell_id, tool_calls, seconds FROM i) GROUP BY ALL),
l AS (SELECT unnest({limits}) AS most),
s AS (SELECT cell_id, most, max_by(success::INT, improvement) AS success
  FROM i JOIN l ON tool_calls <= most GROUP BY ALL),
t AS (SELECT cell_id, most,
    max(tool_calls) FILTER (tool_calls <= most) AS c0, min(tool_calls) FILTER (tool_calls >= most) AS c1,
    arg_max(seconds, tool_calls) FILTER (tool_calls <= most) AS s0,
    arg_min(seconds, tool_calls) FILTER (tool_calls >= most) AS s1
  FROM p CROSS JOIN l GROUP BY ALL)
SELECT {labels}, most, cluster, case_id,
  avg(if(tool_calls <= most, e.success::DOUBLE, coalesce(s.success, 0))) AS success,
  avg(if(case_seconds IS NULL, NULL, if(coalesce(c1, c0) = c0, s0, s0 + (most - c0) * (s1 - s0) / (c1 - c0))))
    AS seconds
FROM e JOIN t USING (cell_id) LEFT JOIN s USING (cell_id, most)
WHERE {where} AND e.success IS NOT NULL GROUP BY ALL ORDER BY ALL"""


def improvements(root: Path) -> pa.Table:
    """The table `improvements`, with the columns that both functions `at_limits` read: calls, time and success.

    Raises:
        StoreError: the folder cannot be read.
    """
    columns = ["cell_id", "improvement", "tool_calls", "seconds", "llm_calls", "forward_passes", "success"]
    return store.read(root, "improvements", columns)


def at_limits(
    group: pd.DataFrame, improvements: pa.Table, limits: Sequence[int] = LIMITS, where: str = "true"
) -> Asked:
    """One row per limit (`most`) within the budget, and per case with known success: means over trials.

    A cell that executed no more calls than the limit counts with its own success. Any other cell counts with the
    success of its last improvement within the limit, or 0 if it has none. Seconds are known at improvements and at the
    end; between these points they are interpolated over executed calls.
    """
    within = [limit for limit in limits if (group["limit"] >= limit).all()]
    query = _AT_LIMITS.format(labels=LABELLED, limits=f"{within}::INT[]", where=where)
    return ask_of(group, query, improvements=improvements)


def curve(cases: pd.DataFrame) -> pd.DataFrame:
    """One row per planner, robustness setting and limit, from the rows of `at_limits`.

    Columns: `robustness`, `planner`, `asked`, `limit`, `cases`; `success`, `seconds` and `gain_per_second` (see
    `marginal`), each with `_low` and `_high` (95%, over clusters). Without rows, the frame has no columns.
    """
    found: list[dict[str, Any]] = []
    for key, own in planners(cases):
        before: pd.DataFrame | None = None
        for limit, part in own.groupby("most", sort=True):
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
    """The marginal gain per second at a limit (tooltree §4.2): the gain in success divided by the gain in seconds.

    Both gains are from the limit `before` to this limit, over the same cases; if there is no `before`, they are from 0
    calls and 0 seconds. The interval is a Student's t interval for the linearised ratio (delta method), because the
    gain in success may be negative. The result is NaN if no time passes, or if no case has both values.
    """
    gained = (means - before if before is not None else means)[["success", "seconds"]].dropna()
    seconds = float(gained["seconds"].mean()) if len(gained) else 0.0
    if not seconds > 0:
        return UNKNOWN
    gain = float(gained["success"].mean()) / seconds
    return interval(gain + (gained["success"] - gain * gained["seconds"]) / seconds)


# Planners at equal budgets, undominated planners, and variants of one planner (tooltree, tables 1, 2 and 4).


Flags = npt.NDArray[np.bool_]
ABLATED = "tooltree"
FRONTIERS = ("tokens", "seconds")
"""The costs against which the success of planners is compared."""


def compared(cases: pd.DataFrame) -> pd.DataFrame:
    """One row per planner and robustness setting; planners that asked whether cases were resolved come last.

    Columns: `robustness`, `planner`, `asked`, `cases`, `clusters`, `cells`, `failed`, `unknown` (cells for which it is
    not known whether they resolved their case), `success` with `_low` and `_high` (95%, over clusters), the means over
    cases of `tool_match_rate`, COSTS and `checks`, and for each of PARTS `stopped_`: the share of episodes that this
    part of the budget stopped. For each of FRONTIERS, `undominated_` is the result of `undominated` among planners on
    the same terms. The argument `cases` has the rows of the function `cases`.
    """
    rows = []
    for key, own in planners(cases):
        means, counts = (
            by_case(own, [*_VALUES]),
            {name: int(own[name].sum()) for name in ("cells", "failed", "unknown")},
        )
        found: dict[str, Any] = key | {"cases": len(own), "clusters": n_clusters(means)} | counts
        found |= share(means["success"].dropna()).named("success")
        found |= {name: means[name].mean() for name in ("tool_match_rate", *COSTS, "checks")}
        rows.append(found | {f"stopped_{part}": own[f"stopped_{part}"].sum() / counts["cells"] for part in PARTS})
    frame = pd.DataFrame(rows)
    for cost in FRONTIERS:
        frame[f"undominated_{cost}"] = False
        for _, own in frame.groupby(["robustness", "asked"]):
            best = undominated(own["success"].to_numpy(np.float64), own[cost].to_numpy(np.float64))
            frame.loc[own.index, f"undominated_{cost}"] = best
    return frame


def undominated(success: npt.NDArray[np.float64], cost: npt.NDArray[np.float64]) -> Flags:
    """Whether each planner is dominated by no other planner; all arrays have shape (n,).

    A planner dominates another if it is better in one of success and cost and not worse in the other. A planner whose
    success or cost is not known neither dominates others nor counts as undominated.
    """
    known = ~(np.isnan(success) | np.isnan(cost))
    as_good = (success[None, :] >= success[:, None]) & (cost[None, :] <= cost[:, None])
    better = (success[None, :] > success[:, None]) | (cost[None, :] < cost[:, None])
    dominated = (as_good & better & known[None, :]).any(axis=1)
    return np.asarray(known & ~dominated, dtype=np.bool_)


def ablation(cases: pd.DataFrame, planner: str = ABLATED) -> pd.DataFrame:
    """Each variant of a planner (`tooltree[pre_pruning=false]`) minus the plain planner, on cases that both have.

    Planners of the same name whose files are in folders (`sampled/tooltree`) are included, each with its own variants.
    Columns: `robustness`, `planner`, `reference`, `cases`, `clusters`; for success, tokens, executed calls and nodes,
    the mean, and the `_difference` with `_low` and `_high` (95%, over clusters). The plain planner is the reference; it
    has a row without differences before its variants. The frame is empty if no variant has a reference.
    """
    measures = ["success", "tokens", "executed", "n_nodes"]
    rows: list[dict[str, Any]] = []
    for robustness, own in cases.groupby("robustness", sort=False, observed=True):
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
    """The label with which a variant is compared; None if the label is not a variant, or no single label fits.

    The label to compare with changes no key, or only sets keys to `true`, so everything that can be switched off is on.
    Of several such labels, it is the one with the same retriever and judge.
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
    """A label's changes (`a=1,b=2`), and the text after them."""
    rest = label[len(name_of(label)) :]
    if not rest.startswith("["):
        return "", rest
    depth = 0
    for place, char in enumerate(rest):
        depth += (char == "[") - (char == "]")
        if not depth:
            return rest[1:place], rest[place + 1 :]
    return rest[1:], ""
