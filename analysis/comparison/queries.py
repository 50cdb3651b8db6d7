"""The SQL under the tables of a comparison: DuckDB runs it in the folder from which the report was made."""

from __future__ import annotations

from collections.abc import Sequence

from analysis import queries, spending
from analysis.comparison.measures import COSTS, LABELS
from analysis.comparison.runs import ACROSS, VERSIONS, Pair, Run

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
