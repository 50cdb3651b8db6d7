"""The columns of the tables: types from the schema, meanings from `columns.txt`, and metrics as in `declared.txt`."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from docs.facts.markdown import code, table
from grid.core.metric import METRICS
from grid.store.schema import COST, COSTS, SCORES, TABLES

SCHEMAS = {**TABLES, COSTS: pa.schema([*COST])}
"""The schemas of the tables, and of a role's entry in the map of costs."""
_FILE = Path(__file__).with_name("columns.txt")


class Column(NamedTuple):
    """The description of a column, or of all columns whose names match a pattern (`judge_*`)."""

    pattern: str
    unit: str
    meaning: str
    null: str


def render(name: str) -> str:
    """A table that lists one table's columns in the order of `columns.txt`; the columns of one pattern share a row.

    `scores`: our metrics, in the order of the joined form.
    """
    if name == SCORES:
        return _metrics()
    told = read()[name]
    rows = []
    for one in told:
        fitting = [field for field in SCHEMAS[name] if of(field.name, told) is one]
        types = list(dict.fromkeys(type_of(field.type) for field in fitting))
        names = ", ".join(code(field.name) for field in fitting)
        unit = f" ({one.unit})" if one.unit else ""
        rows.append((names, ", ".join(types) + unit, one.meaning, one.null))
    return table(["column", "type (unit)", "meaning", "null"], rows)


def _metrics() -> str:
    rows = [
        (code(one.name), one.kind + (f" ({one.unit})" if one.unit else ""), one.better, one.meaning, one.null)
        for one in METRICS
    ]
    return table(["metric", "kind (unit)", "better", "meaning", "no value where"], rows)


def read() -> dict[str, list[Column]]:
    """The descriptions in `columns.txt`, by table, in the file's order."""
    found: dict[str, list[Column]] = {}
    for line in _FILE.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            found[line.strip("[]")] = []
        elif line and not line.startswith("#"):
            parts = [part.strip() for part in line.split("|")]
            if len(parts) != len(Column._fields):
                raise ValueError(f"columns.txt: {line!r}: {' | '.join(Column._fields)}")
            found[list(found)[-1]].append(Column(*parts))
    return found


def of(name: str, told: list[Column]) -> Column | None:
    """A column's description: under its own name, else under the first pattern that matches; None if there is none."""
    own = [one for one in told if one.pattern == name]
    fitting = own or [one for one in told if fnmatchcase(name, one.pattern)]
    return fitting[0] if fitting else None


def type_of(kind: pa.DataType) -> str:
    """A column's type in a word or two."""
    if pa.types.is_map(kind):
        return f"map to {type_of(kind.item_type)}"
    if pa.types.is_list(kind):
        return f"list of {type_of(kind.value_type)}"
    if pa.types.is_struct(kind):
        return "{" + ", ".join(field.name for field in kind) + "}"
    return {"string": "text", "double": "float", "bool": "bool"}.get(str(kind), str(kind).partition("[")[0])
