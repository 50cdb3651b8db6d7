"""Reading the tables: one row per cell, the latest, and which cells need not run again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from grid.store.files import Table, load
from grid.types import ErrorKind

Retry = Literal["none", "infrastructure", "all"]
_KEYS = {"episodes": ["cell_id", "attempt_id", "created_at"], "steps": ["cell_id", "attempt_id", "branch", "step"]}


class CellIds:
    """Ids of cells, in some sixteen bytes each."""

    def __init__(self, ids: Sequence[str]) -> None:
        self._ids = np.sort(np.array(ids, dtype="S")) if len(ids) else np.array([], dtype="S1")

    def __len__(self) -> int:
        return len(self._ids)

    def __contains__(self, cell_id: object) -> bool:
        wanted = str(cell_id).encode()
        place = int(self._ids.searchsorted(wanted))
        return place < len(self._ids) and bool(self._ids[place] == wanted)

    def __iter__(self) -> Iterator[str]:
        return (cell_id.decode() for cell_id in self._ids)


def read(
    root: str | Path, table: Table, columns: Sequence[str] | None = None, where: pc.Expression | None = None
) -> pa.Table:
    """One table of a results folder, also while a sweep writes to it.

    `episodes` has one row per cell, the latest; `steps` those of these rows; `attempts` every row. An empty folder
    gives an empty table.

    Args:
        root: the folder.
        table: its name.
        columns: these only, in this order.
        where: the rows for which it holds, of whatever columns: `pc.field("planner") == "react"`.

    Raises:
        StoreError: a file has another schema version or cannot be read.
    """
    needed = None
    if columns is not None and where is None:
        needed = list(dict.fromkeys([*columns, *_KEYS.get(table, [])]))
    data = load(Path(root), table, needed)
    if table == "episodes":
        data = _latest(data)
    elif table == "steps":
        data = _of_latest(Path(root), data)
    if where is not None:
        data = data.filter(where)
    return data.select(list(columns)) if columns is not None else data


def finished(root: Path, retry: Retry = "none") -> CellIds:
    """The ids of the cells that need not run again."""
    data = _latest(load(root, "episodes", ["cell_id", "created_at", "status", "error_kind"]))
    if retry == "infrastructure":
        data = data.filter(pc.not_equal(pc.fill_null(data["error_kind"], ""), ErrorKind.INFRASTRUCTURE))
    elif retry == "all":
        data = data.filter(pc.equal(data["status"], "ok"))
    return CellIds(data["cell_id"].to_numpy())


def _of_latest(root: Path, steps: pa.Table) -> pa.Table:
    """The steps of the rows that `episodes` has."""
    keep = _latest(load(root, "episodes", _KEYS["episodes"]))
    steps = steps.filter(pc.is_in(_tries(steps), value_set=_tries(keep).combine_chunks()))
    return steps.sort_by([("cell_id", "ascending"), ("branch", "ascending"), ("step", "ascending")])


def _latest(data: pa.Table) -> pa.Table:
    """One row per cell, the latest created (the last in file order of equals), sorted by cell."""
    data = data.append_column("_row", pa.array(range(len(data)), pa.int64()))
    data = data.sort_by([("cell_id", "ascending"), ("created_at", "ascending"), ("_row", "ascending")])
    cells = data["cell_id"].to_numpy()
    last = np.append(cells[1:] != cells[:-1], [True] if len(cells) else [])
    return data.filter(pa.array(last, pa.bool_())).drop_columns(["_row"])


def _tries(data: pa.Table) -> pa.ChunkedArray:
    """Which try of which cell each row belongs to."""
    return pc.binary_join_element_wise(data["cell_id"], data["attempt_id"], "/")
