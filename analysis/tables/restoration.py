"""Restoration analysis (tooltree A.2, table 6): a judge's wrong decisions, and what setting them right would gain.

A decision is a node's score held against a threshold, before its call was run or after it. It is wrong where what is
right by the reference stays below, or what is wrong does not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.compute as pc

from analysis import load
from analysis.load import queries, unknowns
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
"""The rows of a table, in their order, by the values of `judge.restored`."""
PLACE = ["model", "judge", "dataset", "robustness", "planner"]
_ROW = ["setting_id", "dataset_version", "code", *PLACE, "config"]
_EPISODES = list(dict.fromkeys([*_ROW, "cell_id", "case_id", CLUSTER, "success", *unknowns.SETTING, *unknowns.READ]))
_SCORES = [("r_pre", "pre_right", "pre_threshold"), ("r_post", "post_right", "post_threshold")]
_CAPTION = (
    "rows below the first of a block: wrong decisions set right from the reference, on the same seeds, no result of "
    "the judge; decisions: scores held against the thresholds before and after a call, where the judge was asked; "
    "error: the share that is wrong (a false positive goes on with what is not the reference's, a false negative "
    f"rejects what is); success in % of cases; gain: above the first row's, in points; 95% interval: {TOLD}; {ALIKE}"
)


def notice(root: Path) -> str:
    """What every caption begins with where decisions of a judge were set right; nothing where none were."""
    found = load.rows(root, ["config"], categories=["config"]).column("config").unique().to_pylist()
    restored = any(_restoring(text).restored != NOT_RESTORED for text in found)
    return "restored=...: decisions of the judge set right from the reference, no result of it; " if restored else ""


def tables(root: Path) -> list[Table]:
    """Table 6 for each model, judge, dataset and planner with restored settings; none without any."""
    found = table(root)
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
            query=queries.restoration(root),
            about=_CAPTION,
            breaks=frozenset(map(int, firsts)) - {0},
        )
    ]


def table(root: Path) -> pd.DataFrame:
    """One row for each setting of those that differ in `judge.restored` alone, where several do.

    Columns: `PLACE`, `restored`, `cases` (that the setting and the one as judged have), `decisions`, the shares
    `error`, `false_positives` and `false_negatives` of these, `success` (mean over cases of the mean over trials),
    `gain` with `low` and `high`; NaN where there is none.
    """
    episodes: pd.DataFrame = load.rows(
        root, _EPISODES, pc.field("judge").is_valid(), [*_ROW, "case_id", CLUSTER]
    ).to_pandas()
    episodes = unknowns.applied(episodes.assign(success=episodes["success"].astype("float64")))
    settings = episodes[_ROW].drop_duplicates()
    how = {text: _restoring(text) for text in settings["config"].unique()}
    settings = settings.assign(
        restored=[how[text].restored for text in settings["config"]],
        alike=[_alike(row) for row in settings.to_dict("records")],
        judge=[_plain(str(label)) for label in settings["judge"]],
    )
    rows: list[dict[str, Any]] = []
    for _, group in settings.groupby("alike", sort=False):
        one_each = {row["restored"]: row for row in group.to_dict("records")}
        if NOT_RESTORED not in one_each or len(one_each) < 2:
            continue
        first = _of(episodes, one_each[NOT_RESTORED])
        for restored in (name for name in SHOWN if name in one_each):
            setting = one_each[restored]
            cells = _of(episodes, setting)
            own = {name: str(setting[name]) for name in PLACE} | {"restored": restored}
            rows.append(own | _decided(root, cells, how[str(setting["config"])]) | _against(cells, first))
    return pd.DataFrame(rows)


def errors(root: Path) -> pd.Series[float]:
    """By cell, of the judge's decisions on its nodes the share that is wrong; cells without any are left out.

    Raises:
        StoreError: the folder cannot be read.
    """
    rows: pd.DataFrame = load.rows(root, ["cell_id", "config"], pc.field("judge").is_valid(), ["config"]).to_pandas()
    found = []
    for text, cells in rows.groupby("config", observed=True):
        decisions = _decisions(root, cells, _restoring(str(text)))
        found += [(one["passed"] != one["right"]).groupby(one["cell_id"]).agg(["sum", "size"]) for one in decisions]
    if not found:
        return pd.Series(dtype="float64")
    counts = pd.concat(found).groupby(level=0).sum()
    shares: pd.Series[float] = counts["sum"] / counts["size"]
    return shares


def _plain(label: str) -> str:
    """A judge's label without what is set right."""
    return re.sub(r",?restored=\w+", "", label).replace("[]", "")


def _restoring(config: str | None) -> Restoring:
    judge = json.loads(config or "{}").get(JUDGE) or {}
    keys = Restoring.__dataclass_fields__
    return Restoring(**{key: value for key, value in judge.items() if key in keys})


def _alike(row: Mapping[Any, Any]) -> str:
    """Equal for settings that differ in which decisions are set right alone."""
    config = json.loads(row["config"])
    config[JUDGE].pop("restored", None)
    return json.dumps([config, row["dataset_version"], row["code"]], sort_keys=True)


def _of(episodes: pd.DataFrame, setting: Mapping[Any, Any]) -> pd.DataFrame:
    same = [episodes[name] == setting[name] for name in ("setting_id", "dataset_version", "code")]
    found: pd.DataFrame = episodes[same[0] & same[1] & same[2]]
    return found


def _decisions(root: Path, cells: pd.DataFrame, how: Restoring) -> Iterator[pd.DataFrame]:
    """The decisions on these cells' nodes, by each of _SCORES: `cell_id`, whether it `passed`, and is `right`."""
    mine = pc.field("cell_id").isin(cells["cell_id"].tolist())
    for score, truth, threshold in _SCORES:
        known = mine & pc.field(score).is_valid() & pc.field(truth).is_valid()
        nodes: pd.DataFrame = store.read(root, "nodes", ["cell_id", score, truth], known).to_pandas()
        yield nodes.assign(passed=nodes[score] >= getattr(how, threshold), right=nodes[truth].astype(bool))


def _decided(root: Path, cells: pd.DataFrame, how: Restoring) -> dict[str, float]:
    """Of the decisions on a setting's nodes how many there were, and which shares were wrong."""
    decisions = accepted_wrong = rejected_right = 0
    for one in _decisions(root, cells, how):
        decisions += len(one)
        accepted_wrong += int((one["passed"] & ~one["right"]).sum())
        rejected_right += int((~one["passed"] & one["right"]).sum())
    each = max(decisions, 1) if decisions else float("nan")
    shares = {"false_positives": accepted_wrong / each, "false_negatives": rejected_right / each}
    return {"decisions": decisions, "error": sum(shares.values())} | shares


def _against(cells: pd.DataFrame, first: pd.DataFrame) -> dict[str, float]:
    """Success, and what it is above that of another setting, on the cases that both have."""
    means = []
    for part in (cells, first):
        known = part.assign(success=part["success"].astype("float64"))
        means.append(known.groupby([CLUSTER, "case_id"], observed=True)["success"].mean())
    both = pd.concat(means, axis=1, keys=["own", "first"]).dropna()
    gain = interval(both["own"] - both["first"], reach=1.0)
    found = {"cases": len(both), "clusters": n_clusters(both), "success": float(both["own"].mean())}
    return found | {"gain": gain.mean, "low": gain.low, "high": gain.high}


def _gain(row: Mapping[Any, Any]) -> str:
    return MISSING if row["restored"] == NOT_RESTORED else number(row["gain"], POINTS, 100)


def _bounds(row: Mapping[Any, Any]) -> str:
    return MISSING if row["restored"] == NOT_RESTORED else bounds(row["low"], row["high"], POINTS)
