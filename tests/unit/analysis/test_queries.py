"""The query under a table is the one that DuckDB ran for it, and gives the same rows by the files alone."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from analysis.load import queries, unknowns
from analysis.page.table import Table
from analysis.report import print_report
from grid import store
from grid.core.types import BEHAVIOURS
from tests.support import plan_rows, published, searched, simulated
from tests.unit.analysis import test_plan_execution, test_plan_tables, test_rewards, test_trajectory_tables
from tests.unit.analysis.test_tables import written
from tests.unit.planners import test_restoring

KEYS = ("model", "dataset", "robustness", "planner")
APART = ("regression", "coefficients")
"""Tables whose columns are made of several rows' values of the same name."""
OTHERWISE = {"published"}
"""Tables whose numbers Python still counts, beside the query that is shown."""


class Recorded:
    """A connection that keeps what it ran, and the rows that came of it."""

    def __init__(self) -> None:
        self.inner = duckdb.connect(config={"threads": 1})
        self.rows: dict[str, pd.DataFrame] = {}

    def register(self, name: str, table: Any) -> None:
        self.inner.register(name, table)

    def unregister(self, name: str) -> None:
        self.inner.unregister(name)

    def execute(self, query: str) -> SimpleNamespace:
        found = self.rows[query] = self.inner.execute(query).df()
        return SimpleNamespace(df=lambda: found)


def same(pasted: pd.DataFrame, ran: pd.DataFrame) -> bool:
    """Whether two results have the same rows in the same order."""
    return list(pasted) == list(ran) and all(
        np.allclose(pasted[name].astype(float), ran[name].astype(float), equal_nan=True)
        if pd.api.types.is_numeric_dtype(ran[name])
        else pasted[name].astype(str).tolist() == ran[name].astype(str).tolist()
        for name in ran
    )


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


def apart(root: Path) -> None:
    """One planner with two retrievers: labels tell its settings apart, which the files alone do not."""
    for retriever, wins in (("bm25", 3), ("dense", 8)):
        rows = [
            searched.episode(planner, case, case < wins, retriever=retriever, setting_id=f"{planner}/{retriever}")
            for planner in ("react", "egb")
            for case in range(10)
        ]
        for one in rows:
            one["cell_id"] = one["cell_key"] = f"{one['cell_id']}/{retriever}"
        searched.write(root, rows)


def changed(root: Path) -> None:
    """A study whose labels say what was changed, beside plans that were diagnosed and not run."""
    cells: list[dict[str, Any]] = []
    for robustness in ("tools_forgiving", "tools_strict[similarity=embeddings]"):
        frame = simulated.episodes(0, 40, robustness=robustness)
        hot = frame.assign(planner=frame["planner"] + "[temperature=1]")
        plans = frame[frame["trial"] == 0].assign(dataset="plans", task_family="holistic")
        cells += [simulated.row(cell) for one in (frame, hot, plans) for cell in one.to_dict("records")]
    store.write(root, {"episodes": cells})


def plans(root: Path) -> None:
    """Plans of several kinds of tasks, refined ones, and such as were carried out."""
    rows = [*test_plan_tables.distracted(12), *test_plan_tables.by_steps()[::4], *test_plan_tables.priced(1)]
    for case in range(12):
        right: dict[str, Any] = {"plan_correct": case % 2 == 0, "unrefined_correct": case % 3 == 0}
        rows.append(
            plan_rows.episode("holistic", "holistic", case, success=True, refine="self[taxonomy=true]", **right)
        )
        rows.append(plan_rows.episode("fh", "broken", case, success=True, behaviour=BEHAVIOURS[case % 5], horizon_k=1))
        rows.append(plan_rows.episode("fh", "unsolvable", case, success=case < 3, unsolvable_kind="tool_removal"))
    won = test_plan_execution.won()
    rows += test_plan_execution.ran("slate", won, list("de") * 30)
    plan_rows.write(root, rows + test_plan_execution.ran("workbench", won, ["d"] * 60))


def judged(root: Path) -> None:
    test_restoring.written(root, *test_restoring.ALL)


def rewarded(root: Path) -> None:
    store.write(
        root, {"episodes": [test_rewards.rewarded(case, **cell) for case, cell in enumerate(test_rewards.CELLS)]}
    )


def offered(root: Path) -> None:
    """Metrics of trajectories, and how many tools were on offer."""
    known: dict[str, Any] = {"exact_match": True, "inclusion": 0.5, "retrieval_rate": 1.0, "plan_nodes": 3}
    test_trajectory_tables.written(root, [published.episode(case, **known) for case in range(6)], offered=9)


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


@pytest.mark.long
@pytest.mark.parametrize(
    ("write", "how"),
    [
        *((rates, "left_out"), (study, "left_out"), (searches, "left_out")),
        *((write, "failure") for write in (changed, searches, apart, plans, judged, rewarded, offered)),
    ],
)
def test_the_query_that_is_shown_is_the_one_that_made_the_numbers(
    write: Callable[[Path], object], how: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path)
    ran = Recorded()
    monkeypatch.setattr(queries, "_connection", lambda: ran)
    tables = print_report(tmp_path, Console(file=io.StringIO()), papers=True, unknown=how)
    otherwise = []
    with unknowns.counted(how):
        for table in tables:
            last = next((text for text in ran.rows if table.query.endswith(f";\n{text}")), None)
            if last is None:
                otherwise.append(table)
            else:
                assert same(duckdb.connect().execute(table.query).df(), ran.rows[last]), table.name
    assert {table.name.split()[0] for table in otherwise} <= OTHERWISE
    for table in otherwise:
        if table.query.lstrip().startswith(("WITH", "SELECT")):
            alike(table)
