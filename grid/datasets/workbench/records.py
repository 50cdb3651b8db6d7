"""WorkBench's released files: six of queries with gold answers, five of tables, and one of employees' addresses."""

from __future__ import annotations

import ast
import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from grid.core.errors import DataError
from grid.core.types import ToolCall
from grid.worlds.workbench import analytics, calendar, customers, email, projects
from grid.worlds.workbench.table import Cell, Table
from grid.worlds.workbench.tool import Workplace
from grid.worlds.workbench.world import TOOLS

KINDS = (
    "analytics", "calendar", "customer_relationship_manager", "email", "multi_domain", "project_management",
)  # fmt: skip
"""The files of queries."""
TABLES = {
    "data/processed/calendar_events.csv": calendar.FIELDS,
    "data/processed/emails.csv": email.FIELDS,
    "data/processed/project_tasks.csv": projects.FIELDS,
    "data/processed/customer_relationship_manager_data.csv": customers.FIELDS,
    "data/processed/analytics_data.csv": analytics.FIELDS,
}
ADDRESSES = "data/raw/email_addresses.csv"
QUERIES = {kind: f"data/processed/queries_and_answers/{kind}_queries_and_answers.csv" for kind in KINDS}
FILES = (*TABLES, ADDRESSES, *QUERIES.values())
_COLUMNS = ("query", "answer", "base_template", "domains")
_ALSO_CALLED = {"crm": "customer_relationship_manager"}
_TOOLKITS = frozenset(tool.spec.category for tool in TOOLS.values())
_MAX_BYTES = 50_000_000
_MOST_ROWS = 4_000
_LONGEST_ANSWER = 100_000  # characters
_LONGEST_CALL = 20_000
_MOST_CALLS = 64


class Query(NamedTuple):
    """One row of a file of queries; `calls` are its gold answer, `toolkits` those of its domains."""

    text: str
    calls: tuple[ToolCall, ...]
    template: str
    toolkits: tuple[str, ...]


def read_workplace(root: Path) -> Workplace:
    """The tables before any call; an empty cell is unknown, and there are no plots. Raises DataError."""
    events, emails, tasks, people, visits = (_table(root / name, columns) for name, columns in TABLES.items())
    engaged = visits.columns.index("user_engaged")
    seen = [[*r.cells[:engaged], r.cells[engaged] == "True", *r.cells[engaged + 1 :]] for r in visits.rows]
    addresses = tuple(row[0] for _, row in _rows(root / ADDRESSES) if row)
    plots, visited = Table.of(("file_path",), ()), Table.of(visits.columns, seen)
    return Workplace(events, emails, plots, tasks, people, visited, addresses)


def _table(path: Path, columns: Sequence[str]) -> Table:
    """A file's rows; its first line names the columns, in whatever order."""
    rows = _rows(path)
    number, names = next(rows, (1, list[str]()))
    for name in columns:
        if name not in names:
            raise DataError(path, number, f"the column {name} is missing; there are {', '.join(names)}"[:400])
    if len(set(names)) < len(names):
        raise DataError(path, number, "two columns have one name")
    found: list[list[Cell]] = []
    for number, row in rows:
        if len(row) != len(names):
            raise DataError(path, number, f"{len(row)} cells, where there are {len(names)} columns")
        if len(found) >= _MOST_ROWS:
            raise DataError(path, number, f"a table of more than {_MOST_ROWS:,} rows")
        found.append([cell or None for cell in row])
    return Table.of(names, found)


def read_queries(path: Path) -> Iterator[tuple[int, Query | str]]:
    """Yield (number from 0, query, or why it cannot be a case) of every row; raises DataError for a broken file."""
    table = _table(path, _COLUMNS)
    for number, record in enumerate(table.records()):
        try:
            yield number, _query({name: str(record[name] or "") for name in _COLUMNS})
        except ValueError as error:
            yield number, str(error)


def _query(row: dict[str, str]) -> Query:
    text = row["query"].strip()
    if not text:
        raise ValueError("it has no query")
    domains = [_ALSO_CALLED.get(name, name) for name in _texts(row["domains"], "domains")]
    unknown = [name for name in domains if name not in _TOOLKITS]
    if unknown or not domains:
        raise ValueError(f"its domains are unknown: {', '.join(unknown) or 'none'}"[:200])
    calls = tuple(map(gold_call, _texts(row["answer"], "answer")))
    return Query(text, calls, row["base_template"].strip(), tuple(dict.fromkeys(domains)))


def _texts(written: str, name: str) -> list[str]:
    """A list of texts, written as a Python literal, which is read and never run."""
    if len(written) > _LONGEST_ANSWER:
        raise ValueError(f"its {name} has more than {_LONGEST_ANSWER:,} characters")
    found = _parsed(written, f"its {name} is no list of texts")
    items = found.elts if isinstance(found, ast.List) else None
    if items is None or len(items) > _MOST_CALLS:
        raise ValueError(f"its {name} is no list of at most {_MOST_CALLS} texts")
    return [_text(item, f"its {name}") for item in items]


def gold_call(written: str) -> ToolCall:
    """A call as the benchmark writes it, `toolkit.tool.func(name="text")`; raises ValueError for any other text."""
    if len(written) > _LONGEST_CALL:
        raise ValueError(f"a gold call has more than {_LONGEST_CALL:,} characters")
    call = _parsed(written.replace("\n", "\\n"), "its gold call cannot be read")
    if not isinstance(call, ast.Call) or call.args:
        raise ValueError("its gold answer is no call with named arguments")
    match call.func:
        case ast.Attribute(ast.Attribute(ast.Name(toolkit), function), "func"):
            name = f"{toolkit}.{function}"
        case _:
            raise ValueError("its gold call is none of a tool")
    if name not in TOOLS:
        raise ValueError(f"its gold call is of an unknown tool, {name:.80}")
    known = {parameter.name for parameter in TOOLS[name].spec.parameters}
    if any(keyword.arg not in known for keyword in call.keywords):
        raise ValueError(f"its gold call gives {name} an argument that it does not have")
    return ToolCall(name, {str(keyword.arg): _text(keyword.value, name) for keyword in call.keywords})


def _parsed(written: str, otherwise: str) -> ast.expr:
    try:
        return ast.parse(written.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise ValueError(otherwise) from None


def _text(item: ast.expr, where: str) -> str:
    if not isinstance(item, ast.Constant) or not isinstance(item.value, str):
        raise ValueError(f"{where} has something that is no text")
    return item.value


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """(line, cells) of each record of a CSV file that is not blank."""
    if path.stat().st_size > _MAX_BYTES:
        raise DataError(path, None, f"a file of more than {_MAX_BYTES:,} bytes")
    with path.open(encoding="utf-8", newline="") as file:
        reader: Any = csv.reader(file, strict=True)
        try:
            for row in reader:
                if row:
                    yield reader.line_num, row
        except (csv.Error, UnicodeDecodeError) as error:
            raise DataError(path, reader.line_num + 1, f"no CSV in UTF-8: {error}") from None
