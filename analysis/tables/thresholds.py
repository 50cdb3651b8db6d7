"""The entropy above which a planner should branch, learned from a pilot: the threshold that maximises Youden's J.

J (Youden 1950) of a threshold is the share of wrong decisions that are above it minus the share of right decisions that
are above it. With an outline, the right choice at each step is known. In this case, a first-pass decision counts if the
reference's tool was offered, because otherwise no branch can be right. Without an outline, it is not known which
decision was wrong. In this case, a whole first pass counts as one decision, which has the pass's highest entropy and is
wrong if the pass failed; it counts only if all the reference's tools were retrieved.

Only entropies of exact choices (`egb_logits`, `egb_names`) in the first trial of the folder count.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow.compute as pc

from analysis import load
from analysis.errors import AnalysisError
from analysis.load import SETTING, name_of
from analysis.load.queries import LABELLED, Asked, ask, of_files
from analysis.page.table import NONE, Column, Table, count, mean
from analysis.stats.intervals import CLUSTER
from grid import store

DRAWS = 2000
"""The number of draws of the bootstrap over clusters."""
DIGITS = 3
"""The number of significant digits of a threshold in tables."""
_STEPS = ["cell_id", "branch", "entropy", "reference_rank", "tool_matches", "tool_required"]
_KEYS = [*SETTING, "labels", "unit"]
_QUERY = f"""WITH f AS (SELECT * FROM steps WHERE branch = 0 AND entropy IS NOT NULL),
d AS (SELECT cell_id, 'decision' AS unit, entropy, NOT coalesce(tool_matches, false) AS error
  FROM f WHERE reference_rank IS NOT NULL
  UNION ALL SELECT cell_id, 'first pass', max(f.entropy), NOT any_value(improvements.success)
  FROM f JOIN improvements USING (cell_id)
  WHERE improvement = 0 AND improvements.success IS NOT NULL
    AND cell_id NOT IN (SELECT cell_id FROM steps WHERE tool_required IS NOT NULL)
    AND cell_id NOT IN (SELECT cell_id FROM e WHERE retrieval_rate < 1) GROUP BY cell_id)
SELECT {LABELLED}, config::VARCHAR->'planner'->>'labels' AS labels, unit, case_id, cluster, d.entropy, error
FROM e JOIN d USING (cell_id) WHERE trial = (SELECT min(trial) FROM e) AND labels IS NOT NULL ORDER BY ALL"""  # noqa: S608  names are ours
"""The query for `decisions`; only planners with exact choices have a key `labels`."""
Floats = npt.NDArray[np.float64]


class Best(NamedTuple):
    """A threshold in nats and its J; both are NaN if no threshold can separate right from wrong."""

    threshold: float
    j: float


def decisions(root: Path) -> Asked:
    """One row per decision, or per first pass in settings without an outline; and the query of these rows.

    Columns: `load.SETTING`, `labels` (how options were asked for), `unit` (`decision` or `first pass`), `cluster`,
    `case_id`, `entropy` in nats, and `error`.

    Raises:
        AnalysisError: the folder has no first pass, in its first trial, of a planner that makes exact choices.
        StoreError: the folder cannot be read.
    """
    met = ((pc.field("branch") == 0) & pc.field("entropy").is_valid()) | pc.field("tool_required").is_valid()
    tried = store.read(root, "improvements", ["cell_id", "improvement", "success"])
    found = ask(
        load.episodes(root, ["config"]), _QUERY, steps=store.read(root, "steps", _STEPS, met), improvements=tried
    )
    if found.rows.empty:
        raise AnalysisError(
            f"{root}: the folder has no first pass by a planner that makes exact choices; to run a pilot: "
            "planner=egb_logits planner.trajectories=1 trials=1"
        )
    return Asked(found.rows, of_files(root, found.query))


def best(entropy: Floats, error: npt.NDArray[np.bool_], weights: Floats | None = None) -> Best:
    """The threshold with the largest J, halfway between two entropies; the lowest if several have the largest J.

    Args:
        entropy: in nats, shape (n,).
        error: whether each decision was wrong, shape (n,).
        weights: how often each decision counts, shape (n,); None: once.
    """
    weights = np.ones(len(entropy)) if weights is None else weights
    order = np.argsort(entropy, kind="stable")
    order = order[weights[order] > 0]
    values, wrong, counted = entropy[order], error[order], weights[order]
    of_wrong, of_right = float(counted[wrong].sum()), float(counted[~wrong].sum())
    last = np.flatnonzero(np.diff(values) > 0)  # the last index of every entropy but the highest
    if not (of_wrong and of_right and len(last)):
        return Best(math.nan, math.nan)
    below = np.cumsum(counted * ~wrong)[last] / of_right - np.cumsum(counted * wrong)[last] / of_wrong
    place = int(np.argmax(below))
    return Best(float(values[last[place]] + values[last[place] + 1]) / 2, float(below[place]))


def learned(found: pd.DataFrame, draws: int = DRAWS) -> pd.DataFrame:
    """One row per setting: the threshold and its J, each with `_low` and `_high` (95%, a bootstrap over clusters).

    Further columns: `unit`, `labels`, `cases`, `clusters`, `decisions`, `errors`, `branching` (the share of decisions
    above the threshold), and `error_above` and `error_below` (the error rates above and below it). Threshold and J are
    NaN if all decisions were right, all were wrong, or all have the same entropy. There are no bounds if all cases are
    in one cluster. J is computed on the decisions from which the threshold was learned; on other decisions J is lower.
    """
    rows = []
    for key, own in found.groupby(_KEYS, sort=False, observed=True):
        named = dict(zip(_KEYS, map(str, key), strict=True))
        entropy, error = own["entropy"].to_numpy(np.float64), own["error"].to_numpy(np.bool_)
        cluster = pd.factorize(own[CLUSTER].astype(str))[0]
        chosen, drawn = best(entropy, error), _bootstrap(entropy, error, cluster, draws)
        above = entropy > chosen.threshold
        row: dict[str, Any] = {**named, "cases": own["case_id"].nunique(), "clusters": int(cluster.max()) + 1}
        row |= {"decisions": len(own), "errors": int(error.sum()), "branching": float(above.mean())}
        for place, name in enumerate(Best._fields):
            low, high = np.nanpercentile(drawn[:, place], [2.5, 97.5]) if len(drawn) else (math.nan, math.nan)
            row |= {name: chosen[place], f"{name}_low": float(low), f"{name}_high": float(high)}
        for side, part in (("above", above), ("below", ~above)):
            row[f"error_{side}"] = float(error[part].mean()) if part.any() else math.nan
        rows.append(row)
    return pd.DataFrame(rows)


def _bootstrap(entropy: Floats, error: npt.NDArray[np.bool_], cluster: npt.NDArray[np.intp], draws: int) -> Floats:
    """Thresholds and J of resamples; shape (draws, 2).

    Each resample draws as many clusters as the data has, with replacement.

    The array is empty for a single cluster, or if the threshold is NaN.
    """
    count = int(cluster.max()) + 1
    if count < 2 or math.isnan(best(entropy, error).j):
        return np.zeros((0, 2))
    rng = np.random.default_rng(0)
    often = rng.multinomial(count, np.full(count, 1 / count), size=draws).astype(np.float64)
    return np.array([best(entropy, error, weights[cluster]) for weights in often])


def table(frame: pd.DataFrame, query: str) -> Table:
    """The rows of `learned` as a table; `query` gave the decisions."""
    return Table(
        name="thresholds",
        title="the entropy above which a state should branch",
        by=[*SETTING, "labels"],
        columns=[
            count("cases"),
            count("clusters"),
            count("decisions"),
            count("errors", "wrong"),
            *(Column(header, partial(_bounded, name)) for name, header in (("threshold", "threshold"), ("j", "J"))),
            mean("branching", "branching"),
            mean("error_above", "wrong above"),
            mean("error_below", "wrong below"),
        ],
        values=frame,
        query=query,
        about="threshold: in nats, chosen so that J is largest; J: share of wrong decisions that are above the "
        "threshold minus share of right decisions that are above it (Youden 1950), on the decisions from which the "
        "threshold was learned; in brackets 95% intervals from a bootstrap over clusters of cases; branching: % of "
        "decisions above the threshold; wrong above, wrong below: % of the decisions above and below it that were "
        f"wrong; {UNITS}; only first trials count",
    )


UNITS = (
    "decisions: first-pass decisions for which the reference's tool was on offer; if no outline is followed, each "
    "first pass for which all tools were retrieved counts as one decision: its entropy is the highest of the pass, "
    "and it is wrong if the pass failed"
)


def overlap(pilot: Path, tested: Path) -> dict[str, tuple[int, int]]:
    """For each dataset that shares cases with the pilot: the number of shared cases, and of all tested cases.

    Raises:
        StoreError: a folder cannot be read.
    """
    taken, asked = (_cases(root) for root in (pilot, tested))
    return {
        dataset: (len(own & taken.get(dataset, set())), len(own))
        for dataset, own in asked.items()
        if own & taken.get(dataset, set())
    }


def _cases(root: Path) -> dict[str, set[str]]:
    rows = store.read(root, "episodes", ["dataset", "case_id"]).to_pylist()
    found: dict[str, set[str]] = {}
    for row in rows:
        found.setdefault(name_of(row["dataset"]), set()).add(row["case_id"])
    return found


def _bounded(name: str, row: Mapping[Any, Any]) -> str:
    value, low, high = (row[name + part] for part in ("", "_low", "_high"))
    if pd.isna(value):
        return NONE
    return f"{value:.{DIGITS}g}" + ("" if pd.isna(low) else f" [{low:.{DIGITS}g}, {high:.{DIGITS}g}]")
