"""What searches took and gained, as tables: equal budgets, ablation, anytime results, sizes of trees, the frontier."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis import intervals, queries
from analysis.intervals import count, interval, share
from analysis.render import Sheet
from analysis.search import anytime, cells, comparing, pass_sheets
from analysis.search import cells as rows_of
from analysis.search import cells as sizes
from analysis.search.anytime import success_at
from analysis.search.cells import PARTS
from analysis.search.comparing import name_of
from grid import store

ASKED = (
    "asked: whether the planner asked, in any case, if that was resolved, or its judge was set right from the "
    "reference; those who did have a block of their own"
)
INTERVAL = f"95% intervals, {intervals.TOLD}"
OF_SUCCESS = f"95% intervals, {intervals.SHARES}"
_DIGITS = "three significant digits"
_LABELS = ["robustness", "asked", "planner"]
_COSTS = (
    "tokens: in and out; calls: completions and scoring passes; executed: calls of tools that were run; seconds: of "
    "the case itself, and in the first case of a process what that loads; tokens and calls are the "
    "acting model's and the judge's; means per case"
)


def sheets(root: Path) -> list[Sheet]:
    """The tables of each model, dataset, outline and budget; none where nobody searched or reached a budget.

    Raises:
        StoreError: the folder cannot be read.
    """
    if not cells.apply(root):
        return []
    every = cells.read(root)
    improved, trees = anytime.improvements(root), sizes.trees(root)
    by_calls = improvements(root)
    found: list[Sheet] = []
    for place, group in cells.places(every):
        table = comparing.compared(group)
        found += [comparison_sheet(root, place, table), *frontier_sheets(root, place, table)]
        found += ablation_sheets(root, place, comparing.ablation(group))
        found += anytime_sheets(root, place, anytime.curve(group, improved))
        told = pass_sheets.Told(name("passes", place), title(place), terms(place), ASKED)
        found += pass_sheets.sheets(root, place, told, curve(group, by_calls))
        found += sizes_sheets(root, place, sizes.quartiles(group, trees))
    return found


def title(place: Mapping[str, str]) -> str:
    """How a table or figure of these planners begins."""
    return f"{place['model']} on {place['dataset']}, outline {place['outline']}"


def name(kind: str, place: Mapping[str, str]) -> str:
    """What tells it from others of its kind."""
    return " ".join([kind, *(place[part] for part in cells.PLACE)])


def terms(place: Mapping[str, str]) -> str:
    """The budget, in a caption."""
    return f"budget per case, the same for all: {place['budget']}"


def comparison_sheet(root: Path, place: Mapping[str, str], table: pd.DataFrame) -> Sheet:
    """Tables 1 and 2 in form: success, tool match, costs, and which part of the budget stopped whom."""
    stopping = [part for part in PARTS if (table[f"stopped_{part}"] > 0).any()]
    rows = [
        [
            *_labels(row),
            *(f"{row[count]:,}" for count in ("cases", "clusters", "failed")),
            _share(row, "success"),
            _number(100 * row["tool_match_rate"], ".1f"),
            *(
                _number(row[cost], form)
                for cost, form in zip(cells.COSTS, (",.0f", ",.1f", ",.1f", _DIGITS), strict=True)
            ),
            *(_number(100 * row[f"stopped_{part}"], ".0f") for part in stopping),
            _number(row["checks"], ".1f"),
        ]
        for row in table.to_dict("records")
    ]
    stopped = "; stopped by: % of episodes that this part of the budget ended, with the best so far" * bool(stopping)
    return Sheet(
        name=name("budgets", place),
        title=f"{title(place)}: planners at equal budgets (tooltree, tables 1 and 2)",
        caption=f"{terms(place)}; success and tool match in %; in brackets {OF_SUCCESS}; {_COSTS}{stopped}; "
        f"checks: how often it asked, per case; {ASKED}; failed counts cells",
        labels=_LABELS,
        figures=["cases", "clusters", "failed", "success", "tool match", *cells.COSTS,
                 *(f"stopped by {part}" for part in stopping), "checks"],
        rows=rows,
        values=table,
        query=queries.search_costs(root, place["model"], place["dataset"]),
        notes=_unknown(table),
        breaks=_breaks(table),
    )  # fmt: skip


def frontier_sheets(root: Path, place: Mapping[str, str], table: pd.DataFrame) -> list[Sheet]:
    """Who is undominated; none where a planner has nobody to be compared with."""
    if table.groupby(["robustness", "asked"]).size().max() < 2:
        return []
    rows = [
        [
            *_labels(row),
            _share(row, "success"),
            *(cell for cost, form in zip(comparing.FRONTIERS, (",.0f", _DIGITS), strict=True)
              for cell in (_number(row[cost], form), "yes" if row[f"undominated_{cost}"] else "no")),
        ]
        for row in table.to_dict("records")
    ]  # fmt: skip
    return [
        Sheet(
            name=name("frontier", place),
            title=f"{title(place)}: success against cost",
            caption=f"{terms(place)}; success in %, in brackets {OF_SUCCESS}; tokens (the acting model's and the "
            "judge's) and seconds: means per case; undominated: nobody on the same terms has at least its success at "
            f"its cost or less, and either strictly, by means alone; {ASKED}, and a frontier of their own",
            labels=_LABELS,
            figures=["success", "tokens", "undominated", "seconds", "undominated"],
            rows=rows,
            values=table,
            query=queries.search_costs(root, place["model"], place["dataset"]),
            notes=_unknown(table),
            breaks=_breaks(table),
        )
    ]


def ablation_sheets(root: Path, place: Mapping[str, str], table: pd.DataFrame) -> list[Sheet]:
    """Table 4; none where no variant of ToolTree stands beside it."""
    if table.empty:
        return []
    forms = {"success": (".1f", 100.0), "tokens": (",.0f", 1.0), "executed": (".1f", 1.0), "n_nodes": (".1f", 1.0)}
    rows = [
        [
            row["robustness"],
            row["planner"],
            *(f"{row[count]:,}" for count in ("cases", "clusters")),
            *(cell for measure, (form, scale) in forms.items() for cell in _difference(row, measure, form, scale)),
        ]
        for row in table.to_dict("records")
    ]
    return [
        Sheet(
            name=name("ablation", place),
            title=f"{title(place)}: {comparing.ABLATED} without its parts (tooltree, table 4)",
            caption=f"{terms(place)}; success in %, tokens (the judge's too), executed calls and nodes of the tree: "
            "means per case, and behind each its difference to the plain planner (the row without one) over the cases "
            f"that both have; in brackets {INTERVAL}; {intervals.ALIKE}; * it excludes 0",
            labels=["robustness", "planner"],
            figures=["cases", "clusters", "success", "difference", "tokens", "difference", "executed", "difference",
                     "nodes", "difference"],
            rows=rows,
            values=table,
            query=queries.search_costs(root, place["model"], place["dataset"]),
            breaks=_breaks(table.assign(asked=table["reference"])),
        )
    ]  # fmt: skip


ANYTIME = (
    "at a limit counts what the planner had found best when it had executed so many calls, which is what it would have "
    "returned; a case without anything by then counts as not resolved"
)
SIZES = (
    "nodes: proposed calls, the root left out; executed: those that were run, or had been before; rollouts: rewards "
    "backed up through the root, where a planner backs any up; pruned: nodes that were not gone on from"
)
EFFICIENCY = (
    "gain per second: the marginal one, what mean success gains since the limit before over what mean seconds gain, of "
    "the first limit since no call and no second; below 0 where success falls, none where no time passes"
)
OF_GAINS = f"{intervals.TOLD}, by the delta method"
SECONDS = "seconds: of the case itself, between improvements interpolated over executed calls"


def anytime_sheets(root: Path, place: Mapping[str, str], table: pd.DataFrame) -> list[Sheet]:
    """Figure 3 as a table: three rows a planner, a column a limit."""
    if table.empty:
        return []
    limits = sorted(table["limit"].unique())
    rows: list[list[str]] = []
    breaks: set[int] = set()
    for key, own in table.groupby(["robustness", "asked", "planner"], sort=False, observed=True):
        at = {row["limit"]: row for row in own.to_dict("records")}
        breaks.add(len(rows))
        for measure, name_, form, scale in (
            ("success", "success, %", ".1f", 100.0),
            ("seconds", "seconds", _DIGITS, 1.0),
            ("gain_per_second", "gain per second", _DIGITS, 1.0),
        ):
            written = _bounded if measure == "success" else _mean
            shown = [written(at[limit], measure, form, scale) if limit in at else "none" for limit in limits]
            rows.append([str(key[0]), "yes" if key[1] else "no", str(key[2]), name_, *shown])
    return [
        Sheet(
            name=name("anytime", place),
            title=f"{title(place)}: anytime results by executed calls (tooltree, figure 3)",
            caption=f"{terms(place)}; columns: limits of executed calls per case; {ANYTIME}; {SECONDS}; "
            f"{EFFICIENCY} (success as a share); in brackets {OF_SUCCESS}; those of seconds ({intervals.AMOUNTS}) and "
            f"of gains per second ({OF_GAINS}) are in the figure and the file of values; {ASKED}",
            labels=[*_LABELS, "of"],
            figures=[str(limit) for limit in limits],
            rows=rows,
            values=table,
            query=queries.anytime(root, place["model"], place["dataset"], limits),
            breaks=frozenset(breaks - {0}),
        )
    ]


def sizes_sheets(root: Path, place: Mapping[str, str], table: pd.DataFrame) -> list[Sheet]:
    """Figure 4 as a table; none where nobody has a tree."""
    if table.empty:
        return []
    rows = [
        [*_labels(row), f"{row['episodes']:,}", *(_quartiles(row, name_) for name_ in sizes.SIZES)]
        for row in table.to_dict("records")
    ]
    return [
        Sheet(
            name=name("trees", place),
            title=f"{title(place)}: trees at their end (tooltree, figure 4)",
            caption=f"{terms(place)}; median [quartiles] over episodes; {SIZES}; {ASKED}",
            labels=_LABELS,
            figures=["episodes", *sizes.SIZES.values()],
            rows=rows,
            values=table,
            query=queries.trees(root, place["model"], place["dataset"]),
            breaks=_breaks(table),
        )
    ]


def _labels(row: Mapping[Any, Any]) -> list[str]:
    return [row["robustness"], "yes" if row["asked"] else "no", row["planner"]]


def _breaks(table: pd.DataFrame) -> frozenset[int]:
    """The rows at which another robustness setting begins, or those who asked."""
    keys = list(table[["robustness", "asked"]].itertuples(index=False, name=None))
    return frozenset(place for place in range(1, len(keys)) if keys[place] != keys[place - 1])


def _unknown(table: pd.DataFrame) -> list[str]:
    return [
        f"{row['planner']} ({row['robustness']}): {row['unknown']:,} of {row['cells']:,} cells are left out of "
        "success: nobody can tell whether they resolved their case"
        for row in table.to_dict("records")
        if row["unknown"]
    ]


def _share(row: Mapping[Any, Any], measure: str) -> str:
    return _bounded(row, measure, ".1f", 100.0)


def _mean(row: Mapping[Any, Any], measure: str, form: str, scale: float) -> str:
    return _number(scale * row[measure], form)


def _bounded(row: Mapping[Any, Any], measure: str, form: str, scale: float) -> str:
    """A value with its interval, where it has one."""
    low, high = scale * row[f"{measure}_low"], scale * row[f"{measure}_high"]
    shown = _number(scale * row[measure], form)
    return shown if pd.isna(low) else f"{shown} [{_number(low, form)}, {_number(high, form)}]"


def _difference(row: Mapping[Any, Any], measure: str, form: str, scale: float) -> tuple[str, str]:
    low, high = scale * row[f"{measure}_low"], scale * row[f"{measure}_high"]
    mean, difference = _number(scale * row[measure], form), scale * row[f"{measure}_difference"]
    if pd.isna(difference):
        return mean, ""
    if pd.isna(low):
        return mean, f"{difference:+{form}}"
    return mean, f"{difference:+{form}}{'*' if low > 0 or high < 0 else ''} [{low:+{form}}, {high:+{form}}]"


def _quartiles(row: Mapping[Any, Any], name_: str) -> str:
    low, middle, high = (row[f"{name_}_{place}"] for place in sizes.QUARTILES)
    return "none" if pd.isna(middle) else f"{middle:,.0f} [{low:,.0f}, {high:,.0f}]"


def _number(value: float, form: str) -> str:
    if pd.isna(value):
        return "none"
    return f"{float(f'{value:.3g}'):,.6g}" if form == _DIGITS else f"{value:{form}}"


# What planners would have returned at equal completions and scoring passes, and `egb_tree` less each of the others.
#
# Executed calls (`anytime`) are what tools cost, these are what models cost: the acting model's and the judge's, as the
# budget `llm_calls` counts them.


LIMITS = (16, 32, 64, 128, 256, 512)
"""Completions and scoring passes."""
REFERENCE = "egb_tree"
"""The planner whose differences to others are told."""


def improvements(root: Path) -> pd.DataFrame:
    """Of each improvement its cell, the completions and scoring passes until then, and whether it resolves.

    Raises:
        StoreError: the folder cannot be read.
    """
    columns = ["cell_id", "improvement", "llm_calls", "forward_passes", "success"]
    found: pd.DataFrame = store.read(root, "improvements", columns).to_pandas()
    found = found.sort_values(["cell_id", "improvement"], kind="stable")
    return found.assign(calls=found["llm_calls"] + found["forward_passes"], success=found["success"].astype(np.float64))


def curve(group: pd.DataFrame, improved: pd.DataFrame, limits: Sequence[int] = LIMITS) -> pd.DataFrame:
    """One row a planner, robustness setting and limit within the budget, and one for each planner less another.

    Columns: `robustness`, `asked`, `planner`, `less` (None, or the planner that is subtracted), `limit`, `cases`,
    `clusters`, `success` or its paired difference with `_low` and `_high` (95%, over clusters), and of differences
    `holm`, their p by Holm's correction over all of them. A planner and what it is less are on the same terms; of two
    variants of REFERENCE one is told less the other.
    """
    kept = [limit for limit in limits if (group["most_calls"] >= limit).all()]
    found: list[dict[str, Any]] = []
    by_planner: dict[tuple[str, bool], dict[str, list[pd.Series[float]]]] = {}
    for key, episodes in rows_of.planners(group):
        means = [_by_case(episodes, improved, limit) for limit in kept]
        by_planner.setdefault((key["robustness"], key["asked"]), {})[key["planner"]] = means
        found += [_row(key, None, limit, at, share(at)) for limit, at in zip(kept, means, strict=True)]
    for (robustness, asked), planners in by_planner.items():
        for one, other in itertools.permutations(planners, 2):
            if _base(one) == REFERENCE and (_base(other) != REFERENCE or one > other):
                key = {"robustness": robustness, "asked": asked, "planner": one}
                for limit, own, theirs in zip(kept, planners[one], planners[other], strict=True):
                    paired = (own - theirs).dropna()
                    p = intervals.p_value(paired, reach=1.0)
                    found.append(_row(key, other, limit, paired, interval(paired, reach=1.0)) | {"p": p})
    table = pd.DataFrame(found)
    return table if "p" not in table else table.assign(holm=intervals.holm(table["p"]))


def _base(label: str) -> str:
    """A label's planner without folders and changes: `passes/egb_tree[branching=3]` is `egb_tree`."""
    return name_of(label).rpartition("/")[2]


def _by_case(own: pd.DataFrame, improved: pd.DataFrame, limit: int) -> pd.Series[float]:
    cells = own.set_index("cell_id")
    mine = improved[improved["cell_id"].isin(cells.index)]
    at = success_at(limit, cells["calls"], cells["success"], mine, "calls")
    known = cells[rows_of.CASE].assign(success=at).dropna(subset="success")
    found: pd.Series[float] = rows_of.by_case(known, ["success"])["success"]
    return found


def _row(
    key: Mapping[str, Any], less: str | None, limit: int, values: pd.Series[float], told: intervals.Interval
) -> dict[str, Any]:
    counts = {"limit": limit, "cases": len(values), "clusters": count(values)}
    return {**key, "less": less, **counts, "success": told.mean, "success_low": told.low, "success_high": told.high}
