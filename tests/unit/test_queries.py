"""The query under a table gives its numbers: DuckDB runs each, and what both name alike is equal."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from analysis.page.table import Table
from analysis.report import print_report
from tests import searched, simulated
from tests.unit.test_tables import written

KEYS = ("model", "dataset", "robustness", "planner")
APART = ("differences", "regression", "coefficients")
"""Tables whose columns are made of several rows' values of the same name."""


def rates(root: Path) -> None:
    written(root, {"react": 0.3, "egb": 0.8})
    written(root, {"react": 0.2, "egb": 0.5}, "extraneous")


def study(root: Path) -> None:
    simulated.write(root, count=40)


def searches(root: Path) -> None:
    planners = {"tooltree": 0, "dfsdt": 1}
    cells = [
        searched.episode(planner, case, case % 3 > wins, n_nodes=4)
        for planner, wins in planners.items()
        for case in range(9)
    ]
    grown = [node for cell in cells for node in searched.nodes(cell, [3, 1], 2)]
    searched.write(root, cells, trees=grown)


def alike(table: Table) -> list[str]:
    """The columns that the query's rows have under the table's own names, each of which is equal.

    A row of a query is a case's, or a setting's: the table has its mean, or its sum.
    """
    rows: pd.DataFrame = duckdb.connect().execute(table.query).df()
    keys = [key for key in KEYS if key in table.values and key in rows]
    if not keys or table.name.startswith(APART) or table.values[keys].astype(str).duplicated().any():
        return []
    values = table.values.astype(dict.fromkeys(keys, str)).set_index(keys)
    grouped = rows.astype(dict.fromkeys(keys, str)).groupby(keys)
    found = []
    for column in values:
        name = str(column).removesuffix("_mean")
        if name not in rows or name in keys or not all(
            pd.api.types.is_numeric_dtype(one) for one in (rows[name], values[column])
        ):  # fmt: skip
            continue
        ways = [getattr(grouped[name], way)().reindex(values.index).astype(float) for way in ("mean", "sum")]
        known = [pd.concat([values[column].astype(float), one], axis=1).dropna() for one in ways]
        if len(known[0]):
            equal = [np.allclose(pair.iloc[:, 0], pair.iloc[:, 1]) for pair in known]
            assert any(equal), (table.name, column, *known)
            found.append(name)
    return found


@pytest.mark.parametrize(
    ("write", "least"),
    [(rates, {"results": 8, "costs": 5}), (study, {"results": 8}), (searches, {"budgets": 8})],
    ids=["rates", "study", "searches"],
)
def test_every_query_runs_and_gives_the_numbers_above_it(
    write: Callable[[Path], object], least: dict[str, int], tmp_path: Path
) -> None:
    write(tmp_path)
    tables = print_report(tmp_path, Console(file=io.StringIO()), papers=True)
    queried = {table.name: alike(table) for table in tables if table.query.lstrip().startswith(("WITH", "SELECT"))}
    assert len(queried) >= len(tables) - 2, "failures are classed by rules, which their line of Python runs"
    for kind, count in least.items():
        equal = [len(columns) for name, columns in queried.items() if name.startswith(f"{kind} ")]
        assert equal, queried
        assert min(equal) >= count, queried
