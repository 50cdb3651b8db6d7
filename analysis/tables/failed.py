"""The failure classes of a results folder's cells, computed only from the folder's tables."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from analysis import load
from analysis.tables import failure_cells
from analysis.tables.failure_cells import NOTHING, Cell, Fault, Reference, Taken, Wanted, asked_for
from analysis.tables.failure_rules import faults, primary
from grid import store

LOOKED_UP = frozenset({"slate", "ultratool", "traject_bench", "gta", "null_cases"})
"""Data sets whose tools look calls up in a table of the reference's calls (`grid.worlds.lookup`)."""
SCHEMA = pa.schema([field for field in failure_cells.SCHEMA if field.name != "attempt_id"])
_FAILED = (pc.field("status") != "ok") | ~pc.coalesce(pc.field("success"), pc.scalar(True))
_EPISODES = [
    "cell_id", "attempt_id", "status", "error_kind", "error_message", "budget_reached", "dataset", "config",
    "case_digest", "refused", "unsolvable_kind", "behaviour", "plan_errors", "retrieval_rate",
    "n_nodes", "horizon_k",
]  # fmt: skip
_STEPS = [
    "cell_id", "step", "substep_id", "chosen_tool", "written", "arguments", "observation", "failed", "n_options",
    "reference_rank", "reference_tool", "input_tokens",
]  # fmt: skip
_PART = 100_000
"""Maximum number of cells whose steps are in memory at a time."""
_MISSED = '"no_result"'


def classes(root: Path) -> pa.Table:
    """The class of each cell that failed (status failed, or success false), in the order of the cells' ids.

    Columns (SCHEMA): `failure` is one of `failure_cells.CLASSES`, `failure_detail` the class's sub-kind and a short
    text, `failure_step` the `steps.step` of the decision (null if the failure belongs to no decision), and `failures`
    all classes of the cell, each once, in the order of the cell's path. Until the rules change, a cell's class is kept
    in a sub-folder of the results folder; the store ignores this sub-folder.

    Raises:
        StoreError: the folder cannot be read.
    """
    failed = load.rows(root, _EPISODES, _FAILED, ["dataset", "config"])
    known = failure_cells.known(root)
    fresh = _told(root, failure_cells.unknown(failed, known))
    table = failure_cells.joined(failed, known, fresh)
    if fresh.num_rows:
        failure_cells.keep(root, table)
    return table.select(SCHEMA.names)


def faults_of(root: Path, cell_id: str) -> list[Fault]:
    """All faults of one cell, in the order of its path; empty if the cell did not fail or does not exist.

    Raises the same errors as `classes`.
    """
    own = store.read(root, "episodes", _EPISODES, _FAILED & (pc.field("cell_id") == cell_id))
    return next((faults(cell) for _, cell in _cells(root, own, _references(root))), [])


def _told(root: Path, failed: pa.Table) -> pa.Table:
    """Rows of `failure_cells.SCHEMA` for some failed cells; the cells are read part by part."""
    parts = [pa.table({name: [] for name in failure_cells.SCHEMA.names}, failure_cells.SCHEMA)]
    references = _references(root) if failed.num_rows else {}
    for start in range(0, failed.num_rows, _PART):
        part = failed.slice(start, _PART)
        columns: dict[str, list[Any]] = {name: [] for name in SCHEMA.names}
        for cell_id, cell in _cells(root, part, references):
            found = faults(cell)
            first = primary(found)
            columns["cell_id"].append(cell_id)
            columns["failure"].append(first.kind)
            columns["failure_detail"].append(first.detail)
            columns["failure_step"].append(first.step)
            columns["failures"].append(list(dict.fromkeys(fault.kind for fault in found)))
        parts.append(pa.table({**columns, "attempt_id": part["attempt_id"]}, failure_cells.SCHEMA))
    return pa.concat_tables(parts)


def _cells(root: Path, failed: pa.Table, references: Mapping[str, Reference]) -> Iterator[tuple[str, Cell]]:
    """The cells of some rows of `episodes`, in their order, with everything that the rules read."""
    ids = failed["cell_id"].combine_chunks()
    where = pc.field("on_path") & pc.field("cell_id").isin(ids)
    paths = _paths(store.read(root, "steps", _STEPS, where)) if len(ids) else {}
    for row in _rows(failed):
        path = paths.get(row["cell_id"], ())
        reference = _asked_for(references.get(row["case_digest"], NOTHING), row["horizon_k"], path)
        label, most = (row["dataset"] or "").partition("[")[0], _most_calls(row["config"])
        yield (
            row["cell_id"],
            Cell(
                reference,
                path,
                row["status"],
                row["error_kind"],
                row["error_message"],
                row["budget_reached"],
                looked_up=label in LOOKED_UP
                or any(taken.failed and _MISSED in (taken.observed or "") for taken in path),
                at_once=len(path) > 1 and path[0].asked and not any(taken.asked for taken in path[1:]),
                cut=not reference.followed and most is not None and len(path) >= most,
                searched=bool(row["n_nodes"]),
                refused=bool(row["refused"]),
                unsolvable=row["unsolvable_kind"] is not None,
                behaviour=row["behaviour"],
                plan_errors=row["plan_errors"],
                retrieved=None if reference.followed else row["retrieval_rate"],
            ),
        )


def _paths(steps: pa.Table) -> dict[str, list[Taken]]:
    """Map each cell to the decisions on its path, in order."""
    found: dict[str, list[Taken]] = {}
    columns = [steps[name].to_pylist() for name in _STEPS]
    for cell_id, step, place, tool, written, arguments, observed, failed, options, rank, wanted, tokens in zip(
        *columns, strict=True
    ):
        offered = None if options is None or wanted is None else rank is not None
        found.setdefault(cell_id, []).append(
            Taken(step, place, tool, written, arguments, observed, failed, offered, tokens != 0)
        )
    for path in found.values():
        path.sort(key=lambda taken: taken.step)
    return found


def _references(root: Path) -> dict[str, Reference]:
    cases = store.read(root, "cases", ["digest", "calls", "followed", "ordered"])
    return {row["digest"]: _reference(row) for row in _rows(cases)}


def _reference(row: Mapping[str, Any]) -> Reference:
    calls: Sequence[Mapping[str, Any]] = row["calls"] or ()
    wanted = [
        Wanted(place, str(call["substep_id"]), call["tool"], call["arguments"]) for place, call in enumerate(calls)
    ]
    return Reference(wanted, bool(row["followed"]), row["ordered"] is not False)


def _asked_for(reference: Reference, horizon: int | None, path: Sequence[Taken]) -> Reference:
    """The part of the reference that counts for an episode with this path."""
    if horizon is None or not path:
        return reference
    part = asked_for([one.id for one in reference.wanted], horizon, path[0].id)
    return replace(reference, wanted=reference.wanted[part])


def _rows(table: pa.Table) -> Iterator[dict[str, Any]]:
    columns = [table[name].to_pylist() for name in table.column_names]
    return (dict(zip(table.column_names, row, strict=True)) for row in zip(*columns, strict=True))


@cache
def _most_calls(config: str | None) -> int | None:
    """Maximum number of decisions on a path without an outline; None if the config does not give it."""
    try:
        found = json.loads(config or "{}")["planner"]["max_calls"]
    except (ValueError, KeyError, TypeError):
        return None
    return found if isinstance(found, int) else None
