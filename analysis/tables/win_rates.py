"""Win rates over pairs that `launch/win_rate.py` compared (tooltree §4.3, table 2), and ranks over data sets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from analysis import load
from analysis.load import queries
from analysis.load.queries import LABELLED, Asked, ask
from analysis.page.table import Column, Table, bounded, bounds, count, number
from analysis.stats import intervals
from analysis.stats.intervals import CLUSTER, Interval, n_clusters, share
from grid import store

REFERENCE = 0.5
"""The win rate of the reference planner, by definition."""
_COMPARED = ["cell_id", "against_cell_id", "against", "evaluator", "rule", "win", "decided_by", "created_at"]
_ASKED = """WITH c AS (SELECT cell_id, evaluator, against, rule, win, decided_by
  FROM comparisons WHERE against_cell_id IN (SELECT cell_id FROM e)
  QUALIFY row_number() OVER (PARTITION BY cell_id, against_cell_id, evaluator ORDER BY created_at DESC) = 1)
SELECT {labels}, c.evaluator, against, rule, cluster, case_id, avg(win) AS win, count(*) AS pairs,
  count(*) FILTER (win IS NULL) AS unreadable, count(*) FILTER (decided_by = 'judge') AS asked
FROM c JOIN e USING (cell_id) GROUP BY ALL ORDER BY ALL"""
"""The query for each pair's last comparison by each evaluator; a cell run again with other code is a new cell."""
_PLACE = ["model", "dataset", "evaluator", "against", "rule"]
_LABELS = ["robustness", "planner"]


def tables(root: Path) -> list[Table]:
    """A table for each model, dataset, evaluator, reference planner and rule; no table if nothing was compared.

    Raises:
        StoreError: the folder cannot be read.
    """
    compared = store.read(root, "comparisons", _COMPARED)
    if not compared.num_rows:
        return []
    asked = by_case(load.episodes(root), compared)
    rates, text = win_rates(asked.rows), queries.of_files(root, asked.query)
    return [_table(own, text) for _, own in rates.groupby(_PLACE, sort=False, observed=True)]


def by_case(cells: pd.DataFrame, comparisons: pa.Table) -> Asked:
    """Each case's mean `win` and number of pairs, by setting, `evaluator`, `against` and `rule`."""
    return ask(cells, _ASKED.format(labels=LABELLED), comparisons=comparisons)


def win_rates(cases: pd.DataFrame) -> pd.DataFrame:
    """One row per planner: `win_rate` with `low` and `high` (95%, over clusters), from each case's mean over trials.

    There are separate rows for each model, dataset, evaluator, reference planner, rule and robustness setting. Further
    columns: `cases`, `clusters`, and the numbers of `pairs`, of `unreadable` pairs and of pairs that the evaluator was
    `asked` about.

    Args:
        cases: the rows of `by_case`; `win` of a pair is 1, 0.5 or 0, or null if the evaluator named neither side. A
            pair with null counts only as `unreadable`.

    The reference has no row; its win rate is 0.5 by definition.
    """
    rows = []
    for key, group in cases.groupby([*_PLACE, *_LABELS], sort=False, observed=True):
        by_case = group.set_index([CLUSTER, "case_id"])["win"].dropna()
        mean, low, high = share(by_case)
        rows.append(
            dict(zip([*_PLACE, *_LABELS], map(str, key), strict=True))
            | {"cases": len(by_case), "clusters": n_clusters(by_case)}
            | {name: int(group[name].sum()) for name in ("pairs", "unreadable", "asked")}
            | {"win_rate": mean, "low": low, "high": high}
        )
    return pd.DataFrame(rows)


def _table(rates: pd.DataFrame, query: str) -> Table:
    first = rates.iloc[0]
    lines: list[dict[Any, Any]] = []
    for robustness, group in rates.groupby("robustness", sort=False, observed=True):
        lines += [{"robustness": robustness, "planner": first["against"], "by": REFERENCE}, *group.to_dict("records")]
    counts = ("cases", "clusters", "asked", "unreadable")
    return Table(
        name=f"win rate {first['model']} {first['dataset']} {first['evaluator']} {first['against']} {first['rule']}",
        title=f"{first['model']} on {first['dataset']}: win rate against {first['against']}, by {first['evaluator']}",
        by=_LABELS,
        columns=[
            *(Column(name, partial(_counted, name)) for name in counts),
            Column("win rate", lambda row: number(row.get("by", row.get("win_rate")), scale=100)),
            Column("95% interval", lambda row: "by definition" if "by" in row else bounds(row["low"], row["high"])),
        ],
        values=rates,
        query=query,
        about=f"win rate: share of pairs on the same case, in %; a win counts 1 and a tie 0.5; rule: {first['rule']}; "
        "asked: pairs that the evaluator saw, in both orders, with the results averaged (all other pairs are decided "
        "without it, because the texts are equal word for word or only one episode is solved); unreadable: pairs for "
        f"which the evaluator gave no usable answer in at least one order; 95% interval: {intervals.SHARES}",
        lines=lines,
    )


def _counted(name: str, row: Mapping[Any, Any]) -> str:
    return "" if "by" in row else f"{row[name]:,}"


# Planners over several data sets: their mean rank with an interval, and their success on each.
#
# A rank is a planner's place by success among all planners that ran on every data set; 1 is the best, and ties share a
# rank. Studies with many data sets compare methods by mean ranks (Demšar 2006). The interval resamples clusters of
# cases within each data set (2,000 bootstrap draws), but not the data sets, because these are given and not a sample.


NAME = "over data sets"
LEAST = 2
"""Ranks need at least this number of data sets, and of planners."""
DRAWS, SEED = 2_000, 20_261_128
_CAPTION = (
    "rank: place by success among the planners that ran on all these data sets (1 is the best, ties share a place), "
    f"as a mean over data sets; in brackets 95% intervals: percentiles of {DRAWS:,} bootstrap draws of clusters of "
    "cases within each data set, so other data sets may rank planners differently; mean: success averaged over data "
    "sets, each with the same weight; other columns: success on each data set, in %, with 95% intervals "
    f"({intervals.SHARES}); only cells without disturbances count"
)
Floats = npt.NDArray[np.float64]


def rank_tables(root: Path, episodes: pd.DataFrame) -> list[Table]:
    """A table for each model with at least two planners that all ran, undisturbed, on at least two data sets."""
    found = []
    for model, own in episodes[~episodes["disturbed"]].groupby("model", sort=False, observed=True):
        frame, query = ranks(own, f"{queries.where({'model': [str(model)]})} AND robustness = 'none'")
        if not frame.empty:
            data = [str(name) for name in own["dataset"].unique()]
            found.append(_rank_table(str(model), frame, data, queries.of_files(root, query)))
    return found


def ranks(episodes: pd.DataFrame, where: str = "true") -> Asked:
    """One row per planner that ran on all data sets, by mean rank: `rank`, `mean` and `on DATA`, each with bounds.

    Data sets without known success are left out. `cases` is the number of the planner's cases with known success.

    The frame is empty if there are fewer than LEAST data sets, or fewer than LEAST planners that ran on all of them.
    `episodes` are undisturbed episodes of one model.
    """
    asked = ask(episodes, queries.of_cases(["success"], where))
    cases = asked.rows.dropna(subset=["success"]).sort_values(["dataset", "planner", "case_id"], kind="stable")
    data = [str(name) for name in episodes["dataset"].unique() if (cases["dataset"] == name).any()]
    ran = [set(own["planner"].astype(str)) for _, own in cases.groupby("dataset", observed=True)]
    planners = [str(name) for name in episodes["planner"].unique() if all(str(name) in names for names in ran)]
    if len(data) < LEAST or len(planners) < LEAST:
        return asked._replace(rows=pd.DataFrame())
    rng = np.random.default_rng(SEED)
    seen, drawn = np.zeros((len(data), len(planners))), np.zeros((DRAWS, len(data), len(planners)))
    rows: list[dict[str, Any]] = [{"planner": planner} for planner in planners]
    for place, name in enumerate(data):
        own = cases[(cases["dataset"] == name) & cases["planner"].astype(str).isin(planners)]
        seen[place], drawn[:, place] = _drawn(own, planners, rng)
        for row, planner in zip(rows, planners, strict=True):
            values = own[own["planner"].astype(str) == planner].set_index([CLUSTER, "case_id"])["success"]
            row |= share(values).named(f"on {name}")
            row["cases"] = row.get("cases", 0) + len(values)
    told = {"rank": (_ranked(seen), _ranked(drawn)), "mean": (seen.mean(axis=0), drawn.mean(axis=1))}
    for key, (mean, draws) in told.items():
        low, high = np.quantile(draws, [0.025, 0.975], axis=0)
        for place, row in enumerate(rows):
            row |= Interval(float(mean[place]), float(low[place]), float(high[place])).named(key)
    return asked._replace(rows=pd.DataFrame(rows).sort_values("rank", kind="stable", ignore_index=True))


def _ranked(success: Floats) -> Floats:
    """The mean ranks of planners over data sets; planners are the last axis, data sets the axis before it."""
    flat = pd.DataFrame(-np.round(success, 9).reshape(-1, success.shape[-1]))
    found: Floats = flat.rank(axis=1).to_numpy().reshape(success.shape).mean(axis=-2)
    return found


def _drawn(cases: pd.DataFrame, planners: list[str], rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Each planner's success on one data set (planners,), and the same in every draw of clusters (draws, planners)."""
    clusters = pd.factorize(cases[CLUSTER].astype(str))[0]
    size, which = int(clusters.max()) + 1, pd.Categorical(cases["planner"].astype(str), planners).codes
    sums, counts = np.zeros((size, len(planners))), np.zeros((size, len(planners)))
    np.add.at(sums, (clusters, which), cases["success"].to_numpy(np.float64))
    np.add.at(counts, (clusters, which), 1.0)
    often = rng.multinomial(size, np.full(size, 1 / size), size=DRAWS).astype(np.float64)
    seen = sums.sum(axis=0) / counts.sum(axis=0)
    with np.errstate(invalid="ignore"):
        drawn = (often @ sums) / (often @ counts)
    return seen, np.where(np.isnan(drawn), seen, drawn)  # without cases of a planner, a draw counts as observed


def _rank_table(model: str, values: pd.DataFrame, data: list[str], query: str) -> Table:
    return Table(
        name=f"{NAME} {model}",
        title=f"{model}: planners over {len(data)} data sets",
        by=["planner"],
        columns=[
            count("cases", printed=False),
            Column("rank", partial(bounded, key="rank", form=".2f", scale=1.0)),
            Column("mean", partial(bounded, key="mean")),
            *_of_data(data),
        ],
        values=values,
        query=query,
        about=_CAPTION,
    )


def _of_data(data: list[str]) -> Iterator[Column]:
    for name in data:
        yield Column(name, partial(_success, name), partial(_brief, name))


def _success(name: str, row: Mapping[str, float]) -> str:
    return bounded(row, f"on {name}")


def _brief(name: str, row: Mapping[str, float]) -> str:
    return f"{100 * row[f'on {name}']:.1f}"
