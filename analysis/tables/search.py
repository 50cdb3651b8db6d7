"""Tables of the costs and gains of searches: equal budgets, ablation, anytime results, sizes of trees, the frontier."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from analysis.load import name_of, queries
from analysis.load.queries import LABELLED, Asked
from analysis.page.table import NONE, POINTS, SIGNIFICANT, Column, Table, bounded, count, marks, mean, number
from analysis.stats import intervals
from analysis.stats.intervals import interval, n_clusters, share
from analysis.tables import search_cells
from analysis.tables.search_cells import ALL_CALLS, PARTS

ASKED = (
    "asked: yes if the planner asked, in at least one case, whether the case was resolved, or if its judge's decisions "
    "were corrected with the reference; such planners have a block of their own"
)
INTERVAL = f"95% intervals, {intervals.TOLD}"
OF_SUCCESS = f"95% intervals, {intervals.SHARES}"
_FORMS = dict(zip(search_cells.COSTS, (",.0f", ",.1f", ",.1f", SIGNIFICANT), strict=True))
_LABELS: Sequence[Column | str] = [
    "robustness",
    Column("asked", lambda row: "yes" if row["asked"] else "no"),
    "planner",
]
_TERMS = ["robustness", "asked"]
"""A line is drawn before a row in which one of these labels changes."""
_COSTS = (
    "tokens: input and output tokens; calls: completions and scoring passes; executed: tool calls that were run; "
    "seconds: the case's own time, which in the first case of a process includes the time for loading; tokens and "
    "calls are those of the acting model, its judge and its critic; all are means per case"
)


def tables(root: Path) -> list[Table]:
    """The tables of each model, dataset, outline and budget; none if no planner searched or reached a budget.

    Raises:
        StoreError: the folder cannot be read.
    """
    if not search_cells.apply(root):
        return []
    improved, trees = search_cells.improvements(root), search_cells.trees(root)
    found: list[Table] = []
    for place, group in search_cells.places(search_cells.read(root)):
        where = place["where"]
        cases = search_cells.cases(group, where)
        reached, passed = search_cells.at_limits(group, improved, where=where), at_limits(group, improved, where=where)
        sizes = search_cells.sizes(group, trees, where)
        costs, anytime, passes, of_trees = (
            queries.of_files(root, asked.query) for asked in (cases, reached, passed, sizes)
        )
        frame = search_cells.compared(cases.rows)
        found += [comparison_table(place, frame, costs), *frontier_tables(place, frame, costs)]
        found += ablation_tables(place, search_cells.ablation(cases.rows), costs)
        found += anytime_tables(place, search_cells.curve(reached.rows), anytime)
        found += pass_tables(place, curve(passed.rows), passes)
        found += sizes_tables(place, sizes.rows, of_trees)
    return found


def title(place: Mapping[str, str]) -> str:
    """The start of the title of a table or figure of these planners."""
    return f"{place['model']} on {place['dataset']}, outline {place['outline']}"


def name(kind: str, place: Mapping[str, str]) -> str:
    """The name that distinguishes a table from others of its kind."""
    return " ".join([kind, *(place[part] for part in search_cells.PLACE)])


def terms(place: Mapping[str, str]) -> str:
    """The text about the budget in a caption."""
    return f"budget per case, the same for all planners: {place['budget']}"


def comparison_table(place: Mapping[str, str], frame: pd.DataFrame, query: str) -> Table:
    """A table like tables 1 and 2: success, tool match, costs, and the share of episodes that a budget stopped.

    Each part of the budget has its own share of episodes that it stopped.
    """
    stopping = [part for part in PARTS if (frame[f"stopped_{part}"] > 0).any()]
    stopped = (
        "stopped by: % of episodes that ended because the named part of the budget was used up; such an episode "
        "returns its best result so far"
    )
    return Table(
        name=name("budgets", place),
        title=f"{title(place)}: planners at equal budgets (tooltree, tables 1 and 2)",
        by=_LABELS,
        columns=[
            *(count(one) for one in ("cases", "clusters", "failed")),
            _success(),
            mean("tool_match_rate", "tool match"),
            *(mean(cost, cost, form, 1.0) for cost, form in _FORMS.items()),
            *(mean(f"stopped_{part}", f"stopped by {part}", ".0f", said=stopped) for part in stopping),
            mean(
                "checks",
                "checks",
                ".1f",
                1.0,
                said="checks: how often per case the planner asked whether the case was resolved",
            ),
        ],
        values=frame,
        query=query,
        about=f"{terms(place)}; success and tool match in %; in brackets {OF_SUCCESS}; {_COSTS}; {ASKED}; failed: "
        "number of failed cells",
        notes=_unknown(frame),
        breaks=_TERMS,
    )


def _success() -> Column:
    return Column("success", lambda row: bounded(row, "success"))


def frontier_tables(place: Mapping[str, str], frame: pd.DataFrame, query: str) -> list[Table]:
    """The table of undominated planners; no table if no two planners can be compared."""
    if frame.groupby(["robustness", "asked"]).size().max() < 2:
        return []
    columns = [_success()]
    for cost, form in zip(search_cells.FRONTIERS, (",.0f", SIGNIFICANT), strict=True):
        columns += [mean(cost, cost, form, 1.0), Column("undominated", partial(_undominated, cost))]
    return [
        Table(
            name=name("frontier", place),
            title=f"{title(place)}: success against cost",
            by=_LABELS,
            columns=columns,
            values=frame,
            query=query,
            about=f"{terms(place)}; success in %, in brackets {OF_SUCCESS}; tokens (of the acting model and the "
            "judge) and seconds: means per case; undominated: yes if no planner on the same terms is at least as "
            f"good in success and in cost, and better in one of the two (only means are compared); {ASKED}, and a "
            "frontier of their own",
            notes=_unknown(frame),
            breaks=_TERMS,
        )
    ]


def _undominated(cost: str, row: Mapping[Any, Any]) -> str:
    return "yes" if row[f"undominated_{cost}"] else "no"


def ablation_tables(place: Mapping[str, str], frame: pd.DataFrame, query: str) -> list[Table]:
    """Table 4; no table if no variant of ToolTree ran together with ToolTree."""
    if frame.empty:
        return []
    columns = [count("cases"), count("clusters")]
    for measure, header, form, scale in (
        ("success", "success", ".1f", 100.0),
        ("tokens", "tokens", ",.0f", 1.0),
        ("executed", "executed", ".1f", 1.0),
        ("n_nodes", "nodes", ".1f", 1.0),
    ):
        columns.append(mean(measure, header, form, scale))
        columns.append(Column("difference", partial(_difference, measure, form, scale)))
    return [
        Table(
            name=name("ablation", place),
            title=f"{title(place)}: {search_cells.ABLATED} without some of its parts (tooltree, table 4)",
            by=["robustness", "planner"],
            columns=columns,
            values=frame,
            query=query,
            about=f"{terms(place)}; success in %, tokens (including the judge's), executed calls and nodes of the "
            "tree: means per case; difference: the row minus the plain planner (the row without differences), over the "
            f"cases that both have; in brackets {INTERVAL}; {intervals.ALIKE}; *: the interval excludes 0",
            breaks=["robustness", "reference"],
        )
    ]


ANYTIME = (
    "success at a limit: the success of the best result that the planner had found after this number of executed "
    "calls, and would have returned at that point; a case without a result by then counts as not resolved"
)
SIZES = (
    "nodes: proposed calls, without the root; executed: nodes whose call was run, or had been run before; rollouts: "
    "rewards backed up through the root, for planners that back up rewards; pruned: nodes from which the search did "
    "not continue"
)
EFFICIENCY = (
    "gain per second: the gain in mean success since the previous limit, divided by the gain in mean seconds (for "
    "the first limit: since 0 calls and 0 seconds); negative if success falls, none if no time passes"
)
OF_GAINS = f"{intervals.TOLD}, by the delta method"
SECONDS = "seconds: the case's own time, interpolated over executed calls between improvements"


def anytime_tables(place: Mapping[str, str], frame: pd.DataFrame, query: str) -> list[Table]:
    """Figure 3 as a table: three rows per planner, one column per limit; no table if no limit is within the budget."""
    if frame.empty:
        return []
    limits = sorted(frame["limit"].unique())
    lines: list[dict[str, Any]] = []
    for key, own in frame.groupby([*_TERMS, "planner"], sort=False, observed=True):
        at = {row["limit"]: row for row in own.to_dict("records")}
        lines += [dict(zip([*_TERMS, "planner"], key, strict=True)) | {"of": of, "at": at} for of in _AT_LIMITS]
    return [
        Table(
            name=name("anytime", place),
            title=f"{title(place)}: anytime results by executed calls (tooltree, figure 3)",
            by=[*_LABELS, "of"],
            columns=[Column(str(limit), partial(_at_limit, limit)) for limit in limits],
            values=frame,
            query=query,
            about=f"{terms(place)}; columns: limits on executed calls per case; {ANYTIME}; {SECONDS}; {EFFICIENCY} "
            f"(success as a share); in brackets {OF_SUCCESS}; the intervals of seconds ({intervals.AMOUNTS}) and of "
            f"gains per second ({OF_GAINS}) are in the figure and in the table's CSV file; {ASKED}",
            lines=lines,
            breaks=[*_TERMS, "planner"],
        )
    ]


_AT_LIMITS = {
    "success, %": ("success", ".1f", 100.0),
    "seconds": ("seconds", SIGNIFICANT, 1.0),
    "gain per second": ("gain_per_second", SIGNIFICANT, 1.0),
}
"""The figures that are shown at each limit: for each, the column, the format and the scale."""


def _at_limit(limit: int, line: Mapping[str, Any]) -> str:
    row = line["at"].get(limit)
    measure, form, scale = _AT_LIMITS[line["of"]]
    if row is None:
        return NONE
    return bounded(row, measure, form, scale) if measure == "success" else number(row[measure], form, scale)


def sizes_tables(place: Mapping[str, str], frame: pd.DataFrame, query: str) -> list[Table]:
    """Figure 4 as a table; no table if no planner has a tree."""
    if frame.empty:
        return []
    return [
        Table(
            name=name("trees", place),
            title=f"{title(place)}: search trees at the end of the search (tooltree, figure 4)",
            by=_LABELS,
            columns=[
                count("episodes"),
                *(Column(header, partial(_quartiles, key)) for key, header in search_cells.SIZES.items()),
            ],
            values=frame,
            query=query,
            about=f"{terms(place)}; median [quartiles] over episodes; {SIZES}; {ASKED}",
            breaks=_TERMS,
        )
    ]


def _unknown(frame: pd.DataFrame) -> list[str]:
    return [
        f"{row['planner']} ({row['robustness']}): {row['unknown']:,} of {row['cells']:,} cells are left out of "
        "success, because nobody can tell whether they resolved their case"
        for row in frame.to_dict("records")
        if row["unknown"]
    ]


def _difference(measure: str, form: str, scale: float, row: Mapping[Any, Any]) -> str:
    if pd.isna(row[f"{measure}_difference"]):
        return ""
    star = marks(row[f"{measure}_low"], row[f"{measure}_high"])
    return bounded(row, f"{measure}_difference", f"+{form}", scale, star, of=measure)


def _quartiles(name_: str, row: Mapping[Any, Any]) -> str:
    low, middle, high = (row[f"{name_}_{place}"] for place in search_cells.QUARTILES)
    return NONE if pd.isna(middle) else f"{middle:,.0f} [{low:,.0f}, {high:,.0f}]"


# The results of planners at equal numbers of completions and scoring passes, and `egb_tree` minus each other planner.
#
# Executed calls (`anytime`) measure the cost of tools. Completions and scoring passes of the acting model, its judge
# and its critic, as the budget `llm_calls` counts them, measure the cost of models.


LIMITS = (16, 32, 64, 128, 256, 512)
"""Limits on the number of completions and scoring passes."""
REFERENCE = "egb_tree"
"""The planner whose differences from other planners are shown."""


_AT_CALLS = """WITH i AS (SELECT i.* FROM improvements AS i JOIN e USING (cell_id)),
l AS (SELECT unnest({limits}) AS most),
s AS (SELECT cell_id, most, max_by(success::INT, improvement) AS success
  FROM i JOIN l ON llm_calls + forward_passes <= most GROUP BY ALL)
SELECT {labels}, most, cluster, case_id,
  avg(if({calls} <= most, e.success::DOUBLE, coalesce(s.success, 0))) AS success
FROM e CROSS JOIN l LEFT JOIN s USING (cell_id, most)
WHERE {where} AND e.success IS NOT NULL GROUP BY ALL ORDER BY ALL"""


def at_limits(
    group: pd.DataFrame, improvements: pa.Table, limits: Sequence[int] = LIMITS, where: str = "true"
) -> Asked:
    """One row per limit (`most`) within the budget, and per case with known success; `success` is the mean over trials.

    A cell that used no more than the limit counts with its own success. Any other cell counts with the success of its
    last improvement within the limit, or 0 if it has none.
    """
    within = [limit for limit in limits if (group["most_calls"] >= limit).all()]
    query = _AT_CALLS.format(labels=LABELLED, calls=ALL_CALLS, limits=f"{within}::INT[]", where=where)
    return search_cells.ask_of(group, query, improvements=improvements)


def curve(cases: pd.DataFrame) -> pd.DataFrame:
    """Rows per robustness setting and limit: one per planner, and one per difference between two planners.

    `cases` are the rows of `at_limits`. Columns: `robustness`, `asked`, `planner`, `less` (None, or the planner that is
    subtracted), `limit`, `cases`, `clusters`, `success` (the success or the paired difference) with `_low` and `_high`
    (95%, over clusters), and for differences `p`, and `holm`: p by Holm's correction over all of them. Each difference
    is REFERENCE minus one other planner on the same terms. Two variants of REFERENCE are compared only once: the later
    label minus the earlier one, in alphabetical order.
    """
    found: list[dict[str, Any]] = []
    by_planner: dict[tuple[str, bool], dict[str, dict[int, pd.Series[float]]]] = {}
    for key, own in search_cells.planners(cases):
        at_limit = {int(limit): own[own["most"] == limit] for limit in sorted(own["most"].unique())}
        means = {limit: search_cells.by_case(at, ["success"])["success"] for limit, at in at_limit.items()}
        by_planner.setdefault((key["robustness"], key["asked"]), {})[key["planner"]] = means
        found += [_row(key, None, limit, at, share(at)) for limit, at in means.items()]
    for (robustness, asked), planners in by_planner.items():
        for one, other in itertools.permutations(planners, 2):
            if _base(one) == REFERENCE and (_base(other) != REFERENCE or one > other):
                key = {"robustness": robustness, "asked": asked, "planner": one}
                for limit in sorted(planners[one].keys() & planners[other].keys()):
                    paired = (planners[one][limit] - planners[other][limit]).dropna()
                    p = intervals.p_value(paired, reach=1.0)
                    found.append(_row(key, other, limit, paired, interval(paired, reach=1.0)) | {"p": p})
    frame = pd.DataFrame(found)
    return frame if "p" not in frame else frame.assign(holm=intervals.holm(frame["p"]))


def _base(label: str) -> str:
    """The planner in a label, without folders and changes: `passes/egb_tree[branching=3]` gives `egb_tree`."""
    return name_of(label).rpartition("/")[2]


def _row(
    key: Mapping[str, Any], less: str | None, limit: int, values: pd.Series[float], told: intervals.Interval
) -> dict[str, Any]:
    counts = {"limit": limit, "cases": len(values), "clusters": n_clusters(values)}
    return {**key, "less": less, **counts, **told.named("success")}


# The table of planners at equal numbers of completions and scoring passes.


SUCCESS = "success, %"
_COUNTED = "completions and scoring passes per case, of the acting model, its judge and its critic"
_AT = (
    "success at a limit: the success of the best result that the planner had found by then, and would have returned at "
    "that point; a case without a result by then counts as not resolved"
)


def pass_tables(place: Mapping[str, str], frame: pd.DataFrame, query: str) -> list[Table]:
    """The table of planners at equal numbers of calls; no table if no limit is within the budget."""
    if frame.empty:
        return []
    limits = sorted(frame["limit"].unique())
    ordered = frame.assign(less=frame["less"].astype(object).where(frame["less"].notna(), ""))
    ordered = ordered.sort_values(["robustness", "asked"], key=_undisturbed_first, kind="stable")
    keys = ["robustness", "asked", "planner", "less"]
    lines = [
        dict(zip(keys, key, strict=True)) | {"at": {row["limit"]: row for row in own.to_dict("records")}}
        for key, own in ordered.groupby(keys, sort=False, observed=True)
    ]
    differences = (
        "; less ...: success minus that of the named planner, which is on the same terms, in percentage points, "
        f"paired over cases, with 95% intervals ({intervals.TOLD}); *: the interval excludes 0, †: significant also "
        "after Holm's correction over all these differences"
    )
    return [
        Table(
            name=name("passes", place),
            title=f"{title(place)}: planners at equal numbers of model calls",
            by=[*_LABELS, Column("of", lambda line: f"less {line['less']}" if line["less"] else SUCCESS)],
            columns=[Column(str(limit), partial(_at, limit)) for limit in limits],
            values=frame,
            query=query,
            about=f"{terms(place)}; columns: limits on {_COUNTED}; {_AT}; in brackets {OF_SUCCESS}"
            f"{differences if (frame['less'].notna()).any() else ''}; {ASKED}",
            lines=lines,
            breaks=["robustness", "asked"],
        )
    ]


def _undisturbed_first(column: pd.Series[Any]) -> pd.Series[Any]:
    """A sorting key that keeps a label's values in their order in the frame, where undisturbed settings come first."""
    return column.map({value: place for place, value in enumerate(dict.fromkeys(column))})


def _at(limit: int, line: Mapping[str, Any]) -> str:
    row = line["at"][limit]
    if not line["less"]:
        return bounded(row, "success")
    told = marks(row["success_low"], row["success_high"], row["holm"], level=intervals.LEVEL)
    return bounded(row, "success", POINTS, marks=told)
