"""Restoration analysis (tooltree A.2, table 6): a judge's wrong decisions, and the gain from correcting them.

A decision compares a threshold with the score that a node got before its call was run, or with the score that it got
afterwards. The decision is wrong if a call that is right by the reference has a score below the threshold, or if a
wrong call has a score that is not below it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.compute as pc

from analysis import load
from analysis.load import queries
from analysis.load.queries import Asked, ask
from analysis.page.table import MISSING, POINTS, Column, Table, bounds, count, mean, number
from analysis.stats.intervals import ALIKE, CLUSTER, TOLD, interval, n_clusters
from grid import store
from grid.core.engine import JUDGE
from grid.planners.restoring import NOT_RESTORED, Restoring

SHOWN = {
    NOT_RESTORED: "as judged",
    "false_positives": "+ fix false positives",
    "false_negatives": "+ fix false negatives",
    "both": "perfect judge",
}
"""The names of a table's rows, in their order, by the value of `judge.restored`."""
PLACE = ["model", "judge", "dataset", "robustness", "planner"]
_PARTS = {"pre": Restoring.pre_threshold, "post": Restoring.post_threshold}
"""The judge's two scores, before and after a call, and their default thresholds."""
_SCORED = """  SELECT cell_id, r_{0} >= coalesce((keys->>'{0}_threshold')::DOUBLE, {1}) AS passed, {0}_right AS truth
  FROM nodes JOIN j USING (cell_id) WHERE r_{0} IS NOT NULL AND {0}_right IS NOT NULL"""
_EVERY = "\n  UNION ALL\n".join(_SCORED.format(part, least) for part, least in _PARTS.items())
_DECIDED = f"""WITH j AS (SELECT *, config::VARCHAR->'{JUDGE}' AS keys FROM e WHERE {JUDGE} IS NOT NULL),
d AS (
{_EVERY}),
c AS (SELECT cell_id, count(*) AS decisions, count(*) FILTER (passed AND NOT truth) AS false_positives,
  count(*) FILTER (truth AND NOT passed) AS false_negatives FROM d GROUP BY ALL)
"""  # noqa: S608  names are ours
_BY_CASE = f"""{_DECIDED}SELECT model, replace(regexp_replace({JUDGE}, ',?restored=\\w+', ''), '[]', '') AS {JUDGE},
  dataset, robustness, regexp_extract(planner, '^(.*?)( / | #|$)', 1) AS planner,
  md5(json_merge_patch(config::VARCHAR, '{{"{JUDGE}": {{"restored": null}}}}') || dataset_version || code) AS alike,
  coalesce(keys->>'restored', '{NOT_RESTORED}') AS restored, cluster, case_id, sum(decisions) AS decisions,
  sum(false_positives) AS false_positives, sum(false_negatives) AS false_negatives, avg(success::INT) AS success
FROM j LEFT JOIN c USING (cell_id) GROUP BY ALL ORDER BY ALL"""  # noqa: S608  names are ours
"""Each case's number of decisions, numbers of wrong decisions, and success.

`alike` is equal for settings that differ only in `restored`.
"""
_CAPTION = (
    "first row of a block: the judge's own results; rows below it: results with the same seeds, but wrong decisions of "
    "the judge were corrected with the reference, so these are not the judge's own results; decisions: the number of "
    "scores, given by the judge before or after a call, that were compared with their thresholds; error: share of "
    "wrong decisions (a false positive lets a call pass that is wrong according to the reference; a false negative "
    "rejects a call that is right according to the reference); success in % of cases; gain: success minus that of the "
    f"first row, in percentage points; 95% interval: {TOLD}; {ALIKE}"
)


def notice(root: Path) -> str:
    """The start of every caption if decisions of a judge were corrected; else an empty text.

    Raises:
        StoreError: the folder cannot be read.
    """
    found = load.rows(root, ["config"], categories=["config"]).column("config").unique().to_pylist()
    judges = [json.loads(text or "{}").get(JUDGE) or {} for text in found]
    restored = any(judge.get("restored", NOT_RESTORED) != NOT_RESTORED for judge in judges)
    return (
        "restored=...: decisions of the judge were corrected with the reference, so these are not the judge's own "
        "results; "
        if restored
        else ""
    )


def tables(root: Path) -> list[Table]:
    """Table 6: rows for each of PLACE with restored settings; no table without such rows.

    Raises:
        StoreError: the folder cannot be read.
    """
    found, query = table(root)
    if found.empty:
        return []
    firsts = found.index[found["restored"] == NOT_RESTORED]
    return [
        Table(
            name="restoration",
            title="restoration of the judge's decisions (tooltree, table 6)",
            by=[*PLACE, Column("decisions are", lambda row: SHOWN[row["restored"]])],
            columns=[
                count("cases"),
                count("decisions"),
                mean("error", "error"),
                mean("false_positives", "false pos."),
                mean("false_negatives", "false neg."),
                mean("success", "success"),
                Column("gain", _gain),
                Column("95% interval", _bounds),
            ],
            values=found,
            query=queries.of_files(root, query),
            about=_CAPTION,
            breaks=frozenset(map(int, firsts)) - {0},
        )
    ]


def table(root: Path) -> Asked:
    """One row for each setting of a group in which only `judge.restored` differs.

    A group counts if it has a setting without corrections and at least one other setting. Columns: `PLACE`, `restored`,
    `cases` and `clusters` (the numbers that both this setting and the setting without corrections have), `decisions`,
    the shares `error`, `false_positives` and `false_negatives` of these decisions, `success` (mean over these cases of
    the mean over trials), `gain` with `low` and `high`; a figure that does not exist is NaN. If no group counts, the
    frame is empty and has no columns.

    Raises:
        StoreError: the folder cannot be read.
    """
    asked, rows = _ask(root, _BY_CASE), list[dict[str, Any]]()
    for _, group in asked.rows.groupby("alike", sort=False):
        settings = {how: own.set_index([CLUSTER, "case_id"]) for how, own in group.groupby("restored")}
        if NOT_RESTORED in settings and len(settings) > 1:
            first = settings[NOT_RESTORED]["success"]
            for restored in (name for name in SHOWN if name in settings):
                own = settings[restored]
                place = {name: str(own[name].iloc[0]) for name in PLACE} | {"restored": restored}
                rows.append(place | _decided(own) | _against(own["success"], first))
    return asked._replace(rows=pd.DataFrame(rows))


def _ask(root: Path, query: str) -> Asked:
    """Run a query over the cells with a judge, and over their nodes with a score and a known truth."""
    cells = load.episodes(root, ["config"], pc.field(JUDGE).is_valid())
    known = (pc.field(f"r_{part}").is_valid() & pc.field(f"{part}_right").is_valid() for part in _PARTS)
    columns = ["cell_id", *(name for part in _PARTS for name in (f"r_{part}", f"{part}_right"))]
    return ask(cells, query, nodes=store.read(root, "nodes", columns, reduce(or_, known)))


def _decided(cases: pd.DataFrame) -> dict[str, float]:
    """The number of decisions, and the shares of wrong decisions."""
    decisions, *wrong = (float(cases[name].sum()) for name in ("decisions", "false_positives", "false_negatives"))
    accepted, rejected = (one / decisions if decisions else math.nan for one in wrong)
    found = {"decisions": int(decisions), "error": accepted + rejected}
    return found | {"false_positives": accepted, "false_negatives": rejected}


def _against(own: pd.Series[float], first: pd.Series[float]) -> dict[str, float]:
    """The success of a setting, and its gain over another setting, on the cases that both have."""
    both = pd.concat([own, first], axis=1, keys=["own", "first"]).dropna()
    gain = interval(both["own"] - both["first"], reach=1.0)
    found = {"cases": len(both), "clusters": n_clusters(both), "success": float(both["own"].mean())}
    return found | {"gain": gain.mean, "low": gain.low, "high": gain.high}


def _gain(row: Mapping[Any, Any]) -> str:
    return MISSING if row["restored"] == NOT_RESTORED else number(row["gain"], POINTS, 100)


def _bounds(row: Mapping[Any, Any]) -> str:
    return MISSING if row["restored"] == NOT_RESTORED else bounds(row["low"], row["high"], POINTS)
