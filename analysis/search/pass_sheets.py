"""The table of planners at equal completions and scoring passes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from analysis import intervals, queries
from analysis.table import POINTS, Column, Table, bounded, marks

SUCCESS = "success, %"
_COUNTED = "completions and scoring passes a case, the acting model's and the judge's"
_AT = (
    "at a limit counts what the planner had found best by then, which is what it would have returned; a case without "
    "anything by then counts as not resolved"
)


class Told(NamedTuple):
    """What such tables say alike."""

    name: str
    title: str
    terms: str
    asked: str


_QUERY = """{latest},
i AS (SELECT i.* FROM '{root}/improvements/*.parquet' AS i JOIN e USING (cell_id, attempt_id)),
l AS (SELECT unnest({limits}) AS most),
s AS (SELECT cell_id, most, max_by(success::INT, improvement) AS success
  FROM i JOIN l ON llm_calls + forward_passes <= most GROUP BY ALL)
SELECT robustness, planner, setting_id, code, config->'budget' AS budget, cluster, case_id, most,
  avg(if(llm_calls + forward_passes + coalesce(judge_calls, 0) + coalesce(judge_passes, 0) <= most OR e.success IS NULL,
    e.success::INT, coalesce(s.success, 0))) AS success
FROM e CROSS JOIN l LEFT JOIN s USING (cell_id, most) GROUP BY ALL ORDER BY ALL"""


def sheets(root: Path, place: Mapping[str, str], told: Told, table: pd.DataFrame) -> list[Table]:
    """None where no limit is within the budget."""
    if table.empty:
        return []
    limits = sorted(table["limit"].unique())
    ordered = table.assign(less=table["less"].astype(object).where(table["less"].notna(), ""))
    ordered = ordered.sort_values(["robustness", "asked"], key=_undisturbed_first, kind="stable")
    keys = ["robustness", "asked", "planner", "less"]
    lines = [
        dict(zip(keys, key, strict=True)) | {"at": {row["limit"]: row for row in own.to_dict("records")}}
        for key, own in ordered.groupby(keys, sort=False, observed=True)
    ]
    differences = (
        "; less: points of success above another planner on the same terms, paired over cases, "
        f"{intervals.TOLD}; *: the interval excludes 0, †: also by Holm's correction over all of them"
    )
    return [
        Table(
            name=told.name,
            title=f"{told.title}: planners at equal model calls",
            by=[
                "robustness",
                Column("asked", lambda line: "yes" if line["asked"] else "no"),
                "planner",
                Column("of", lambda line: f"less {line['less']}" if line["less"] else SUCCESS),
            ],
            columns=[Column(str(limit), partial(_at, limit)) for limit in limits],
            values=table,
            query=_query(root, place, limits),
            about=f"{told.terms}; columns: limits of {_COUNTED}; {_AT}; in brackets 95% intervals, {intervals.SHARES}"
            f"{differences if (table['less'].notna()).any() else ''}; {told.asked}",
            lines=lines,
            breaks=["robustness", "asked"],
        )
    ]


def _query(root: Path, place: Mapping[str, str], limits: Sequence[int]) -> str:
    """Each case's success at the limits."""
    latest = queries.latest(root, queries.where({name: [place[name]] for name in ("model", "dataset")}))
    return _QUERY.format(latest=latest, root=str(root).replace("'", "''"), limits=[int(limit) for limit in limits])


def _undisturbed_first(column: pd.Series[Any]) -> pd.Series[Any]:
    """The order in which planners' rows come, kept: differences stand behind all of them."""
    return column.map({value: place for place, value in enumerate(dict.fromkeys(column))})


def _at(limit: int, line: Mapping[str, Any]) -> str:
    row = line["at"][limit]
    if not line["less"]:
        return bounded(row, "success")
    told = marks(row["success_low"], row["success_high"], row["holm"], level=intervals.LEVEL)
    return bounded(row, "success", POINTS, marks=told)
