"""pass^k and pass@k over trials: whether all of k trials of a case succeed (τ-bench, Yao et al. 2024), or any does."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.load import SETTING, queries
from analysis.page.table import Column, Table, count
from analysis.stats import intervals
from analysis.stats.intervals import CLUSTER
from analysis.tables.measures import Measure, known, measured

_LABELS = SETTING[2:]
_PRINTED = 4
"""The largest k of which a terminal shows columns."""
_EVERY = 8
"""Each k up to this one has its columns; above it those that double, and the number of trials itself."""
_CAPTION = (
    "in % of cases, of n trials with c successes: pass^k is the chance that k trials drawn without replacement all "
    "succeed, C(c, k) / C(n, k) (τ-bench, Yao et al. 2024); pass@k that any does, 1 − C(n − c, k) / C(n, k); pass^1 is "
    f"the success rate over these cases; of more than {_EVERY} trials, k = 1 to {_EVERY}, those that double, and all; "
    f"in brackets 95% intervals: {intervals.SHARES}; of k above 1 their number is at most that of the cases, where few "
    "cases have any such trials"
)
_SHORT = (
    "% of cases; pass^k: k trials of a case, drawn from those that ran, all succeed (τ-bench, Yao et al. 2024); "
    "pass@k: any of them does; pass^1 is the success rate"
)


def brief(k: int) -> str:
    """What a caption says where only one k is shown."""
    return f"pass@{k}: any of {k} trials succeeds, pass^{k}: all do (% of cases with {k} known trials)"


def all_of(successes: int, trials: int, k: int) -> float:
    """pass^k of one case: C(c, k) / C(n, k), for 1 <= k <= n trials of which c succeeded."""
    return math.comb(successes, k) / math.comb(trials, k)


def any_of(successes: int, trials: int, k: int) -> float:
    """pass@k of one case: 1 − C(n − c, k) / C(n, k), for 1 <= k <= n trials of which c succeeded."""
    return 1 - all_of(trials - successes, trials, k)


def shown(most: int) -> list[int]:
    """The k that tables show: 1 to 8, 16, 32 and so on, and `most` (of 200 trials there are 13)."""
    doubled = (_EVERY << power for power in range(1, most.bit_length()))
    return [*range(1, min(most, _EVERY) + 1), *(k for k in doubled if k < most), *[most] * (most > _EVERY)]


def sheets(root: Path, cases: pd.DataFrame) -> list[Table]:
    """A table for each model and dataset of which some case has two trials or more; `cases` are those of `by_case`."""
    found = []
    for (model, dataset), own in cases.groupby(SETTING[:2], sort=False, observed=True):
        most = int(own["trials"].max())
        if most > 1:
            found.append(_sheet(root, str(model), str(dataset), own, most))
    return found


def by_case(episodes: pd.DataFrame) -> pd.DataFrame:
    """One row a setting and case: `trials` whose success is known, and the `successes` among them."""
    grouped = episodes.groupby([*SETTING, CLUSTER, "case_id"], sort=False, observed=True)["success"]
    counted = grouped.agg(trials="count", successes="sum").reset_index()
    return counted.astype({"trials": int, "successes": int})


def rates(cases: pd.DataFrame, most: int) -> pd.DataFrame:
    """One row a planner and robustness setting: each of `measures(most)` with `_low`, `_high` and `_cases`.

    Args:
        cases: what `by_case` gives, of one model and dataset.
        most: the largest k.

    A case with fewer than k known trials is left out of pass^k and pass@k; `_cases` are the others. NaN without any.
    """
    pairs = list(zip(cases["successes"], cases["trials"], strict=True))
    columns = {
        f"{name}{k}": [of(won, trials, k) if trials >= k else math.nan for won, trials in pairs]
        for name, of in (("all_", all_of), ("any_", any_of))
        for k in shown(most)
    }
    values = pd.DataFrame(columns, index=cases.index, dtype="float64")
    return measured(pd.concat([cases, values], axis=1), _LABELS, measures(most)).drop(columns="cells")


def measures(most: int) -> list[Measure]:
    """pass^1 to pass^most, then pass@2 to pass@most, of the k that are `shown`: pass@1 is pass^1."""
    return [
        *(Measure(f"all_{k}", f"pass^{k}", "rare" if k > 1 else "share") for k in shown(most)),
        *(Measure(f"any_{k}", f"pass@{k}", "rare") for k in shown(most)[1:]),
    ]


def _sheet(root: Path, model: str, dataset: str, cases: pd.DataFrame, most: int) -> Table:
    table = rates(cases, most)
    place = queries.where({"model": [model], "dataset": [dataset]})
    return Table(
        name=f"pass^k {model} {dataset}",
        title=f"{model} on {dataset}: all of k trials (pass^k), and any of them (pass@k)",
        by=_LABELS,
        columns=_columns(table, most),
        values=table,
        query=queries.by_case(root, ["success"], f"success IS NOT NULL AND {place}"),
        about=_CAPTION,
        briefly=_SHORT,
        notes=_left_out(table.to_dict("records"), most),
        breaks=["robustness"],
    )


def _columns(table: pd.DataFrame, most: int) -> list[Column]:
    """A terminal has the small k alone."""
    printed = {one.header for one in measures(_PRINTED)}
    figures = [one.shown(printed=one.header in printed) for one in known(table, measures(most))]
    return [count("cases"), count("clusters", printed=False), *figures]


def _left_out(rows: Iterable[dict[Any, Any]], most: int) -> list[str]:
    """How many cases each row leaves out, by k."""
    found = []
    for row in rows:
        missing = {k: row["cases"] - row[f"all_{k}_cases"] for k in shown(most)}
        told = ", ".join(f"{count:,} at k = {k}" for k, count in missing.items() if count)
        if told:
            found.append(
                f"{row['planner']} ({row['robustness']}): of {row['cases']:,} cases left out, as fewer than k trials "
                f"are known: {told}"
            )
    return found
