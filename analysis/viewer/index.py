"""The part of a results folder that is kept in memory: one row per cell, with few columns, in a separate database.

A million cells take about a second of CPU and 150 MiB; all pages except the pages of single episodes are made from this
database.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from analysis.load import spending
from analysis.viewer.reading import again, ask, connect
from grid.core.errors import StoreError
from grid.core.places import Address
from grid.store import sql
from grid.store.schema import APART, LATEST

if TYPE_CHECKING:  # imported later, because these are slow to import
    import pandas as pd

    from analysis.stats.intervals import Interval

_APART = ", ".join(f'"{name}"' for name in APART)
UNRESOLVED = "not resolved"
"""The class of a cell that did not resolve its case and about which nothing more is known."""
_KIND = f"""CASE WHEN error_kind IS NOT NULL THEN 'error: ' || error_kind
  WHEN success THEN NULL
  WHEN budget_reached IS NOT NULL THEN 'budget: ' || budget_reached
  WHEN NOT success THEN '{UNRESOLVED}' END"""
_CELLS = f"""
SELECT hash({_APART}) AS setting, case_id::cases AS case_id, cluster::clusters AS cluster, trial, cell_id,
  hash(cell_key) AS cell_key, status = 'ok' AS ok, success, {_KIND} AS kind, depth, created_at,
  attempt_id::tries AS attempt_id, {spending.SQL} AS tokens, false AS unknown
FROM {{rows}}"""
_LABELS = f"""
SELECT hash({_APART}) AS key, {", ".join(f'first("{name}") AS "{name}"' for name in APART)}, first(config) AS config
FROM {{rows}} GROUP BY key HAVING key IN (SELECT setting FROM e)"""
"""The query for settings' labels, except settings whose cells have all been run again with different code."""
_ORDER = ", ".join(f"{name} DESC" for name in LATEST)
_AGAIN = f"""
DELETE FROM e WHERE rowid IN (
  SELECT rowid FROM e WHERE cell_key IN (FROM several)
  QUALIFY row_number() OVER (PARTITION BY cell_key, case_id, trial ORDER BY {_ORDER}) > 1)"""
_NO_SUCCESS = """
CREATE OR REPLACE TEMP TABLE n AS
SELECT setting FROM e GROUP BY setting HAVING count(success) = 0 AND count(*) FILTER (ok) > 0"""
_UNREAD = f"""
DELETE FROM n WHERE setting NOT IN (
  SELECT setting FROM e SEMI JOIN (
    SELECT cell_id, attempt_id::tries AS attempt_id FROM {{rows}}
    WHERE status = 'ok' AND coalesce(evaluator_failures, 0) + coalesce(judge_failures, 0) = 0
      AND hash({_APART}) IN (FROM n)) AS r
  ON e.cell_id = r.cell_id AND e.attempt_id IS NOT DISTINCT FROM r.attempt_id)"""
_UNKNOWN = "UPDATE e SET unknown = true WHERE success IS NULL AND setting NOT IN (FROM n)"
"""The rule of `analysis.load.unknowns.applied`; the table `n` has the settings without any success value."""
_VIEWS = """
CREATE OR REPLACE VIEW left_out AS SELECT * FROM e;
CREATE OR REPLACE VIEW failure AS SELECT * REPLACE (success AND NOT unknown AS success) FROM e"""
"""The views of cells: one for each way to count unknown cells (`addresses.UNKNOWN`)."""
_CLASSES = "cell_id VARCHAR, failure VARCHAR, failure_detail VARCHAR, failure_step INTEGER"


@dataclass(frozen=True)
class Setting:
    """The labels of a setting, with `planner` as in reports; `key` is the setting's key in the table `e`."""

    key: int
    model: str
    dataset: str
    robustness: str
    planner: str

    @property
    def place(self) -> tuple[str, str, str]:
        """The setting's place; planners of one place are shown side by side."""
        return self.model, self.dataset, self.robustness


@dataclass(frozen=True)
class Summary:
    """A setting in numbers; `success` is the mean over cases of means over trials, with the interval used in reports.

    `broken` is the number of cells that ended in an error. `bounds` are the success if all unknown cells failed, and
    the success if all of them succeeded; `bounds` is None if few cells are unknown. `tokens` is the mean per cell, None
    if no cell's tokens were counted.
    """

    setting: Setting
    cases: int
    trials: int
    cells: int
    broken: int
    unknown: int
    success: Interval
    bounds: tuple[float, float] | None
    tokens: float | None


class Index:
    """The cells in a folder's files at one point in time, each with its latest row.

    `names` are the names of the folder's files before they were read; files that arrived later may not have been read.
    Only the kinds of failures can change later, once failure classes become available; `version` counts these changes.

    Raises:
        StoreError: the folder is gone or has no episodes, or a file is damaged or of another version.
    """

    def __init__(self, root: Path) -> None:
        began = time.monotonic()
        self.root, self.version = root, 0
        self._connection = connect(root)
        self._summaries, self._summing = dict[str, Mapping[int, Summary]](), Lock()
        self.names = file_names(root)
        again(root, "episodes", self._load, sql.named(_CELLS + _UNREAD))
        self.seconds = time.monotonic() - began

    def _load(self, names: Sequence[str], rows: str) -> None:
        """Read the cells; this function is called again if files were replaced in the meantime."""
        if not names:
            raise StoreError(f"{self.root}: the folder has no episodes yet")
        run = self._connection.execute
        run(f"CREATE OR REPLACE TEMP TABLE given AS SELECT DISTINCT case_id, cluster FROM {rows}")
        run("DROP TABLE IF EXISTS e")
        for kind, column, of in (
            ("cases", "case_id", "given"),
            ("clusters", "cluster", "given"),
            ("tries", "attempt_id", rows),
        ):
            names_of = f"SELECT DISTINCT {column} FROM {of} WHERE {column} IS NOT NULL ORDER BY {column}"
            run(f"DROP TYPE IF EXISTS {kind}")
            run(f"CREATE TYPE {kind} AS ENUM ({names_of})")
        run(f"CREATE TABLE e AS {_CELLS.format(rows=rows)}")
        self._keep_latest()
        run(_NO_SUCCESS)
        if run("FROM n LIMIT 1").fetchall():  # read the files again, to find verdicts that could not be read
            run(_UNREAD.format(rows=rows))
        run(_UNKNOWN)
        run(_VIEWS)
        run(f"CREATE OR REPLACE TABLE f ({_CLASSES})")
        self.settings = _settings(self._connection.sql(_LABELS.format(rows=rows)).to_arrow_table())

    def _keep_latest(self) -> None:
        """For each cell that ran again, keep only the row that counts.

        Such cells are found by sorting the keys, which takes a fraction of the time of grouping by keys.
        """
        keys = np.sort(self._connection.sql("SELECT cell_key FROM e").to_arrow_table()["cell_key"])
        again = keys[1:] == keys[:-1]
        if again.any():
            self._connection.register("several", pa.table({"cell_key": keys[1:][again]}))
            self._connection.execute(_AGAIN)
            self._connection.unregister("several")

    def classify(self, classes: pa.Table) -> None:
        """From now on, use these failure classes (`runs.Classes`) as the kinds of failure of their cells."""
        cursor = self._connection.cursor()
        cursor.register("given", classes)
        cursor.execute("CREATE OR REPLACE TABLE f AS SELECT cell_id, failure, failure_detail, failure_step FROM given")
        cursor.execute("UPDATE e SET kind = failure FROM f WHERE e.cell_id = f.cell_id")
        self.version += 1

    def failure(self, cell: str) -> tuple[str | None, str | None, int | None]:
        """A cell's kind of failure, a short text on the failure, and the step of its decision, if these are known."""
        query = "SELECT kind, failure_detail, failure_step FROM e LEFT JOIN f USING (cell_id) WHERE e.cell_id = $cell"
        found = self.ask(query, {"cell": cell})
        return found[0] if found else (None, None, None)

    def ask(self, query: str, values: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
        """The rows that a query returns; the query reads the table `e`, which is kept in memory."""
        return self._connection.cursor().execute(query, dict(values or {})).fetchall()

    def arrow(self, query: str, values: Mapping[str, Any] | None = None, **tables: pa.Table) -> pa.Table:
        """The result of a query, as in `ask`, but as a table; the query can also read `tables` by their names."""
        cursor = self._connection.cursor()
        for name, table in tables.items():
            cursor.register(name, table)
        return cursor.sql(query, params=dict(values or {})).to_arrow_table()

    def rows(self, table: Any, query: str, values: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The rows that a query over a table's files returns; none if the table has no files.

        The files are read for each query, because they are not kept in memory.

        Raises:
            StoreError: a file cannot be read.
        """
        found = ask(self._connection, self.root, table, query, values)
        rows: list[dict[str, Any]] = [] if found is None else found.to_pylist()
        return rows

    @property
    def places(self) -> list[tuple[str, str, str]]:
        """Models, datasets and robustness settings, in the order of settings."""
        return list(dict.fromkeys(one.place for one in self.settings))

    def of_place(self, place: tuple[str, str, str]) -> list[Setting]:
        """The settings of one place."""
        return [one for one in self.settings if one.place == place]

    @property
    def summaries(self) -> Mapping[int, Summary]:
        """Map each setting's key to its summary; unknown cells are left out."""
        return self.summed_up("left_out")

    def summed_up(self, cells: str) -> Mapping[int, Summary]:
        """Map each setting's key to its summary over the cells of a view: `left_out` or `failure`."""
        with self._summing:  # another thread may be computing the same summaries
            if cells not in self._summaries:
                self._summaries[cells] = self._summed_up(cells)
            return self._summaries[cells]

    def _summed_up(self, cells: str) -> Mapping[int, Summary]:
        frame = self.arrow(
            "SELECT setting, cluster, count(*) AS cells, count(*) FILTER (NOT ok) AS broken,\n"
            "  max(trial) + 1 AS trials, count(*) FILTER (unknown OR success IS NULL) AS unknown,\n"
            "  avg(if(unknown, 0, success::INT)) AS least, avg(if(unknown, 1, success::INT)) AS most,\n"
            "  avg(success::INT) AS success, sum(tokens) AS tokens, count(tokens) AS counted\n"
            f"FROM {cells} GROUP BY setting, cluster, case_id"
        ).to_pandas()
        return {one.key: _summary(one, frame[frame["setting"] == one.key]) for one in self.settings}

    @cached_property
    def domains(self) -> pa.Table | None:
        """The cases with their domains, as their dataset names them; None if no case has a domain."""
        if not self.rows("cases", "SELECT digest FROM $files WHERE domain IS NOT NULL LIMIT 1", {}):
            return None
        found = ask(self._connection, self.root, "cases", "SELECT DISTINCT digest, domain FROM $files", {})
        of = f"SELECT DISTINCT hash({_APART}) AS setting, case_id, case_digest AS digest FROM $files"
        cases = ask(self._connection, self.root, "episodes", of, {})
        query = "SELECT setting, case_id, domain FROM cases JOIN named USING (digest)"
        return None if found is None or cases is None else self.arrow(query, named=found, cases=cases)

    @cached_property
    def categories(self) -> Sequence[str]:
        """The categories by which cases can be filtered: domains, if there are any, and clusters."""
        clusters = [name for (name,) in self.ask("SELECT DISTINCT cluster FROM e ORDER BY 1")]
        domains = [] if self.domains is None else sorted(set(self.domains["domain"].to_pylist()) - {None})
        return [*domains, *clusters]


def file_names(root: Path) -> frozenset[str]:
    """The names of the folder's files of episodes; raises StoreError if there is no such folder."""
    try:
        if isinstance(root, Address):
            return frozenset(path.name for path in (root / "episodes").glob("*.parquet"))
        with os.scandir(root / "episodes") as entries:
            return frozenset(entry.name for entry in entries if entry.name.endswith(".parquet"))
    except OSError as error:
        raise StoreError(f"{root}: cannot be read ({error.strerror})") from None


def _settings(rows: pa.Table) -> Sequence[Setting]:
    """The settings in the order of reports: undisturbed settings first."""
    import pandas as pd

    from analysis.load import told_apart
    from grid.core.labels import short

    frame = pd.DataFrame(rows.to_pylist())
    configs = dict(zip(frame["setting_id"], frame["config"], strict=True))
    told = told_apart(frame.astype(dict.fromkeys(APART, "category")), lambda: configs)
    frame = frame.assign(planner=told.astype(str), model=frame["model"].map(short(frame["model"].dropna())))
    frame = frame.assign(disturbed=frame["robustness"] != "none")
    frame = frame.sort_values(["model", "dataset", "disturbed", "robustness", "planner"])
    return [
        Setting(int(row["key"]), *(str(row[name]) for name in ("model", "dataset", "robustness", "planner")))
        for row in frame.to_dict("records")
    ]


def _summary(setting: Setting, rows: pd.DataFrame) -> Summary:
    from analysis.load.unknowns import MOST
    from analysis.stats.intervals import CLUSTER, share

    cells = int(rows["cells"].sum())
    unknown = int(rows["unknown"].sum())
    bounds = float(rows["least"].mean()), float(rows["most"].mean())
    values = rows.set_index(CLUSTER)["success"].dropna()
    tokens: npt.NDArray[np.float64] = rows["tokens"].to_numpy(dtype=float)
    return Summary(
        setting=setting,
        cases=len(rows),
        trials=int(rows["trials"].max()),
        cells=cells,
        broken=int(rows["broken"].sum()),
        unknown=unknown,
        success=share(values),
        bounds=bounds if unknown > MOST * cells and not np.isnan(bounds[0]) else None,
        tokens=None if np.isnan(tokens).all() else float(np.nansum(tokens)) / int(rows["counted"].sum()),
    )
