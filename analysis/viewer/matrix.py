"""The page of cases against planners: the cases that it shows, their order, and each planner's outcomes."""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from analysis.viewer.addresses import Filters
from analysis.viewer.index import Index, Setting
from grid.core.errors import StoreError

PAGE = 50
"""The number of cases on a page."""
Codes = npt.NDArray[np.int64]
_KEPT = 16  # maximum number of orders kept, because the next page or case needs the same order again
_RESOLVED = 0.5
_FIRST = "arg_min(cell_id, coalesce(success::INT, 0) * 100000 + trial)"
_SHARES = "g AS (SELECT case_id, setting, avg(success::INT) AS share FROM {} WHERE setting IN $settings GROUP BY ALL)"
_ORDERS = {
    "failed": "avg(share) FILTER (setting IN $chosen) NULLS LAST, case_id",
    "flipped": "count(*) FILTER (setting IN $chosen AND (share > 0.5) <> (base > 0.5)) DESC, case_id",
    "id": "case_id",
}
_OUTCOMES = {
    "resolved": "success",
    "unresolved": "NOT success AND NOT unknown",
    "unknown": "(success IS NULL OR unknown)",
    "broken": "NOT ok",
}
"""SQL conditions for cells by outcome; the condition for unknown cells does not depend on how these are counted."""


@dataclass(frozen=True)
class Cell:
    """One planner's outcome in one case: `known` trials have known success, and `resolved` trials solved the case.

    `first` is the episode to look at first: one that is not known to have resolved the case, if the cell has one.
    `flip` compares this outcome with the reference's: `gained`, `lost` or "". `kinds` are the kinds of failures, and
    `broken` is the number of trials that ended in an error.
    """

    resolved: int
    known: int
    trials: int
    first: str
    kinds: Sequence[str]
    flip: str
    broken: int


@dataclass(frozen=True)
class Row:
    """A case, and its cells by the key of their setting."""

    case_id: str
    cluster: str
    depth: int | None
    cells: Mapping[int, Cell]


class Matrix:
    """The cases of one place under some filters; cells are compared with `base`: (case_id, setting, share).

    Conditions and orders apply to the cells of the filters' planner or, if the filters name no planner, to all cells.
    `other` is the index from which `base` was computed; None if it was computed from `index`.
    """

    def __init__(
        self,
        index: Index,
        settings: Sequence[Setting],
        filters: Filters,
        base: pa.Table,
        other: Index | None = None,
    ) -> None:
        self.index, self.settings, self.filters, self.base = index, settings, filters, base
        self._of = index, other
        chosen = [one.key for one in settings if one.planner == filters.planner] or [one.key for one in settings]
        self._values = {"settings": [one.key for one in settings], "chosen": chosen}

    def order(self) -> Codes:
        """The codes of the cases that match the filters, in the filters' order."""
        key = self.filters.but(page=1), self.index.version, *map(id, self._of)
        with _lock:
            if key in _orders:
                _orders.move_to_end(key)
                return _orders[key][1]
        found = self._order()
        with _lock:
            _orders[key] = self._of, found  # keeps the objects whose ids are in the key alive
            while len(_orders) > _KEPT:
                _orders.popitem(last=False)
        return found

    def _order(self) -> Codes:
        conditions, values = self._conditions()
        cells = self.filters.cells
        kept = f"k AS (SELECT DISTINCT case_id FROM {cells}\n  WHERE setting IN $chosen AND {' AND '.join(conditions)})"
        query = (
            f"WITH {_SHARES.format(cells)},\n{kept}\n"
            "SELECT enum_code(case_id)::BIGINT AS code FROM g SEMI JOIN k USING (case_id)\n"
            "LEFT JOIN (SELECT case_id::cases AS case_id, setting, share AS base FROM base) USING (case_id, setting)\n"
            f"GROUP BY case_id ORDER BY {_ORDERS[self.filters.sort or 'failed']}"
        )
        table = self._ask(query, self._values | values)
        codes: Codes = table["code"].to_numpy()
        return codes

    def _conditions(self) -> tuple[list[str], dict[str, Any]]:
        filters, conditions, values = self.filters, ["true"], dict[str, Any]()
        if filters.outcome:
            conditions.append(_OUTCOMES[filters.outcome])
        if filters.failure:
            conditions.append("kind = $failure")
            values["failure"] = filters.failure
        if filters.depth:
            conditions.append("depth = $depth")
            values["depth"] = int(filters.depth)
        if filters.case:
            conditions.append("contains(lower(case_id::VARCHAR), lower($case))")
            values["case"] = filters.case
        if filters.category:
            domain = "(setting, case_id) IN (SELECT (setting, case_id::cases) FROM domains WHERE domain = $category)"
            conditions.append(f"(cluster::VARCHAR = $category OR {domain})")
            values["category"] = filters.category
        return conditions, values

    def rows(self, codes: Sequence[int] | Codes) -> list[Row]:
        """The rows of the cases with these codes, in this order; codes without a case in the place are left out."""
        query = (
            "WITH b AS (SELECT case_id::cases AS case_id, setting, share AS base FROM base)\n"
            "SELECT enum_code(case_id)::BIGINT AS code, case_id::VARCHAR AS case_id, setting,\n"
            "  count(*) FILTER (success) AS resolved, count(success) AS known, count(*) AS trials,\n"
            "  count(*) FILTER (NOT ok) AS broken, any_value(cluster)::VARCHAR AS cluster, any_value(depth) AS depth,\n"
            f"  {_FIRST} AS first, any_value(base) AS base,\n"
            "  list(DISTINCT kind) FILTER (NOT coalesce(success, false)) AS kinds\n"
            f"FROM {self.filters.cells} LEFT JOIN b USING (case_id, setting)\n"
            "WHERE setting IN $settings AND enum_code(case_id) IN $codes GROUP BY ALL"
        )
        table = self._ask(query, {"settings": self._values["settings"], "codes": [int(code) for code in codes] or [-1]})
        found: dict[int, list[dict[str, Any]]] = {}
        for row in table.to_pylist():
            found.setdefault(row["code"], []).append(row)
        return [_row(found[int(code)]) for code in codes if int(code) in found]

    def first(self, code: int, setting: int) -> str | None:
        """The episode to which a cell on the page links; None if the setting has no episode of the case."""
        query = f"SELECT {_FIRST} FROM {self.filters.cells} WHERE setting = $setting AND enum_code(case_id) = $code"
        found: str | None = self.index.ask(query, {"setting": setting, "code": code})[0][0]
        return found

    def kinds(self) -> list[str]:
        """The kinds of failures to filter by, the most frequent first."""
        query = (
            "SELECT kind FROM e\n"
            "WHERE setting IN $settings AND kind IS NOT NULL GROUP BY ALL ORDER BY count(*) DESC, kind"
        )
        kinds: list[str] = self._ask(query, {"settings": self._values["settings"]})["kind"].to_pylist()
        return kinds

    def depths(self) -> list[int]:
        """The depths of the cases' references."""
        query = "SELECT DISTINCT depth FROM e WHERE setting IN $settings AND depth IS NOT NULL ORDER BY 1"
        return [depth for (depth,) in self.index.ask(query, {"settings": self._values["settings"]})]

    def _ask(self, query: str, values: Mapping[str, Any]) -> pa.Table:
        domains = self.index.domains if "domains" in query else None
        return self.index.arrow(query, values, base=self.base, domains=_NO_DOMAINS if domains is None else domains)


def against_planner(
    index: Index, settings: Sequence[Setting], reference: Setting | None, cells: str = "left_out"
) -> pa.Table:
    """The shares that the other settings' cells are compared with: the reference's; no rows without a reference."""
    if reference is None:
        return _NO_BASE
    others = [one.key for one in settings if one != reference]
    query = (
        f"WITH r AS (SELECT case_id, avg(success::INT) AS share FROM {cells} WHERE setting = $reference GROUP BY ALL)\n"
        "SELECT case_id::VARCHAR AS case_id, unnest($others::UBIGINT[]) AS setting, share FROM r"
    )
    return index.arrow(query, {"reference": reference.key, "others": others})


def against_other(index: Index, settings: Sequence[Setting], other: Index, cells: str = "left_out") -> pa.Table:
    """The shares that each setting's cells are compared with: the shares of its counterpart in another folder.

    Only cases that both folders have are included.
    """
    pairs = {one.key: found.key for one in settings if (found := counterpart(one, other))}
    if not pairs:
        return _NO_BASE
    query = (
        "SELECT case_id::VARCHAR AS case_id, p.own AS setting, avg(success::INT) AS share\n"
        f"FROM {cells} AS e JOIN pairs AS p ON e.setting = p.other GROUP BY ALL"
    )
    given = pa.table({name: pa.array(keys, pa.uint64()) for name, keys in (("own", pairs), ("other", pairs.values()))})
    shares = other.arrow(query, pairs=given)
    both = "SELECT * FROM shares SEMI JOIN (SELECT DISTINCT case_id::VARCHAR AS case_id FROM e) USING (case_id)"
    return index.arrow(both, shares=shares)


def counterpart(setting: Setting, other: Index) -> Setting | None:
    """The setting with the same labels in another folder; None if there is none.

    If the other folder has a single model, that model need not have the same name.
    """
    alike = [one for one in other.settings if one.place[1:] == setting.place[1:] and one.planner == setting.planner]
    same = [one for one in alike if one.model == setting.model]
    return same[0] if same else alike[0] if len({one.model for one in other.settings}) == 1 and alike else None


def _row(rows: Sequence[Mapping[str, Any]]) -> Row:
    cells = {row["setting"]: _cell(row) for row in rows}
    depths = [row["depth"] for row in rows if row["depth"] is not None]
    return Row(rows[0]["case_id"], rows[0]["cluster"], depths[0] if depths else None, cells)


def _cell(row: Mapping[str, Any]) -> Cell:
    flip = ""
    if row["known"] and row["base"] is not None:
        own, theirs = row["resolved"] / row["known"] > _RESOLVED, row["base"] > _RESOLVED
        flip = "" if own == theirs else "gained" if own else "lost"
    kinds = sorted(kind for kind in row["kinds"] or [] if kind)
    return Cell(row["resolved"], row["known"], row["trials"], row["first"], kinds, flip, row["broken"])


def _empty(**columns: pa.DataType) -> pa.Table:
    return pa.Table.from_batches([], pa.schema(columns))  # an empty array would import pandas


_NO_BASE = _empty(case_id=pa.string(), setting=pa.uint64(), share=pa.float64())
_NO_DOMAINS = _empty(setting=pa.uint64(), case_id=pa.string(), domain=pa.string())
_orders: OrderedDict[Any, tuple[Any, Codes]] = OrderedDict()
_lock = Lock()


# Each failed cell's class, determined in a separate process, so that no page waits for it.


_NICE = 10
_LOOK_SECONDS = 2.0


def classes(root: Path) -> pa.Table:
    """The table of `analysis.tables.failed.classes`, computed in a separate process.

    Raises:
        StoreError: the folder cannot be read, or the process was ended.
    """
    from analysis.tables import failed

    with ProcessPoolExecutor(1, get_context("spawn"), initializer=_begin, initargs=(os.getpid(),)) as pool:
        try:
            return pool.submit(failed.classes, root).result()
        except BrokenProcessPool:
            raise StoreError(
                f"{root}: the failure classes could not be computed, because the process that computes them died"
            ) from None


def _begin(parent: int) -> None:
    """Run at a low priority, and end when the viewer ends for whatever reason."""
    os.nice(_NICE)

    def look() -> None:
        while os.getppid() == parent:
            time.sleep(_LOOK_SECONDS)
        os._exit(1)

    threading.Thread(target=look, daemon=True).start()
