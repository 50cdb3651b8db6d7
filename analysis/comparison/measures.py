"""What two runs differ in on the cases that both have: success, tokens, seconds and money, and which cases flipped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from analysis import intervals, queries, spending
from analysis.comparison.runs import ACROSS, VERSIONS, Pair, Run
from analysis.intervals import CLUSTER

HOLM = "p_holm"
UP, DOWN = "up", "down"
LABELS = ["model", "dataset", "robustness", "planner"]
COSTS = ["tokens", "seconds", "money"]
_MEANS = ["success", *COSTS]


def by_case(pair: Pair) -> pd.DataFrame:
    """One row a case that both have, by its cluster (of the first run) and id, in the ids' order.

    Columns: `success` and COSTS of the first run (means over trials, `_a`) and of the second (`_b`),
    `flip` (UP, DOWN or nothing), and `changed`: what is asked for or its reference is not the same in both.

    A case flips where more than half of the trials of one run solve it, and fewer than half of the other's.
    """
    means = [
        cells.groupby("case_id", sort=True, observed=True)[_MEANS].mean().add_suffix(f"_{name}")
        for name, cells in zip("ab", pair.cells, strict=True)
    ]
    known = [cells.drop_duplicates("case_id").set_index("case_id").astype(object) for cells in pair.cells]
    found = means[0].join(means[1], how="inner")
    digests = [own["case_digest"].reindex(found.index) for own in known]
    changed = digests[0].notna() & digests[1].notna() & (digests[0] != digests[1])
    sides = [np.sign(found[f"success_{name}"] - 0.5) for name in "ab"]
    crossed = sides[0] * sides[1] < 0
    flip = pd.Series(np.where(~crossed, "", np.where(sides[1] > 0, UP, DOWN)), index=found.index)
    cluster = known[0][CLUSTER].reindex(found.index).astype(str)
    found = found.assign(flip=flip, changed=changed, **{CLUSTER: cluster}).reset_index()
    return found.astype({"case_id": str}).set_index([CLUSTER, "case_id"])


def compared(pairs: Sequence[Pair]) -> pd.DataFrame:
    """One row a pair of settings: LABELS, counts, and what changed from the first run (a) to the second (b).

    Columns: `cases` and `clusters` that both have, `cells_a` and `cells_b` of them, `changed` (cases whose contents
    differ), `success_a` and `success_b` with `_low` and `_high` (over the cases whose success both know: `known`),
    their paired `difference` with its bounds, its `p` and, over all rows, `p_holm`; how many cases flipped `up` and
    `down`; the ratios of COSTS (b / a) with bounds, NaN where one has none.
    """
    rows = [{label: pair.label(label) for label in LABELS} | _row(pair) for pair in pairs]
    found = pd.DataFrame(rows)
    return found.assign(**{HOLM: intervals.holm(found["p"])})


def flipped(pairs: Sequence[Pair]) -> pd.DataFrame:
    """One row a case that flipped: LABELS, `case_id`, its cluster, `flip`, and its success in both runs."""
    parts = []
    for pair in pairs:
        cases = by_case(pair).reset_index()
        labels = {label: pair.label(label) for label in LABELS}
        parts.append(cases[cases["flip"] != ""].assign(**labels))
    columns = [*LABELS, "case_id", CLUSTER, "flip", "success_a", "success_b"]
    return pd.concat(parts, ignore_index=True)[columns]


def _row(pair: Pair) -> dict[str, Any]:
    cases = by_case(pair)
    known = cases[cases["success_a"].notna() & cases["success_b"].notna()]
    common = set(cases.index.get_level_values("case_id"))
    cells = [int(own["case_id"].isin(common).sum()) for own in pair.cells]
    difference = known["success_b"] - known["success_a"]
    found: dict[str, Any] = {
        "cases": len(cases),
        "known": len(known),
        "clusters": intervals.count(cases),
        "cells_a": cells[0],
        "cells_b": cells[1],
        "changed": int(cases["changed"].sum()),
    }
    measured = {
        "success_a": intervals.share(known["success_a"]),
        "success_b": intervals.share(known["success_b"]),
        "difference": intervals.interval(difference, reach=1.0),
        **{name: _ratio(cases[[f"{name}_a", f"{name}_b"]].dropna(), name) for name in COSTS},
    }
    for name, (mean, low, high) in measured.items():
        found |= {name: mean, f"{name}_low": low, f"{name}_high": high}
    flips = known["flip"].value_counts()
    return found | {"p": intervals.p_value(difference, 1.0), **{way: int(flips.get(way, 0)) for way in (UP, DOWN)}}


def _ratio(both: pd.DataFrame, name: str) -> intervals.Interval:
    return intervals.ratio(both[f"{name}_b"], both[f"{name}_a"])


# The SQL under the tables of a comparison: DuckDB runs it in the folder from which the report was made.


_SETTING = [*LABELS, *ACROSS[1:], "setting_id", "dataset_version"]


def cases(runs: tuple[Run, Run], pairs: Sequence[Pair]) -> str:
    """Each case's means over trials in both runs, where both have it."""
    across = [part for part in [*LABELS, *ACROSS[1:]] if any(pair.labels[0][part] != pair.labels[1][part]
                                                              for pair in pairs)]  # fmt: skip
    shared = [part for part in [*LABELS, *ACROSS[1:]] if part not in across]
    same = " AND ".join(f"a.{name} IS NOT DISTINCT FROM b.{name}" for name in [*shared, "case_id"])
    apart = "".join(f"a.{name} AS {name}_a, b.{name} AS {name}_b, " for name in [*across, "success", *COSTS])
    return (
        f"WITH a AS ({_means(runs[0])}),\nb AS ({_means(runs[1])})\n"
        f"SELECT {', '.join(f'a.{name}' for name in [*shared, 'cluster', 'case_id'])}, {apart.rstrip(', ')}\n"
        f"FROM a JOIN b ON {same}\nORDER BY ALL"
    )


def _means(run: Run) -> str:
    return (
        f"{queries.latest(run.root)}\n"
        f"SELECT {', '.join(_SETTING)}, any_value(cluster) AS cluster, case_id, count(*) AS cells,\n"
        "  avg(success::INT) AS success, avg(case_seconds) AS seconds, avg(money) AS money,\n"
        f"  avg({spending.SQL}) AS tokens\nFROM e GROUP BY ALL"
    )


def versions(runs: tuple[Run, Run]) -> str:
    """What each setting of both runs was made with."""
    columns = ", ".join(dict.fromkeys([*_SETTING, *VERSIONS]))
    each = (
        f"SELECT DISTINCT '{name}' AS run, {columns} FROM ({queries.latest(run.root)} SELECT * FROM e)"  # noqa: S608  a text to be shown
        for name, run in zip("ab", runs, strict=True)
    )
    return "\nUNION ALL\n".join(each) + "\nORDER BY ALL"
