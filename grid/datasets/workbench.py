"""WorkBench (Styles et al. 2024): workplace tasks, scored by the final content of the tables.

Only the outcome is scored, not the calls or the agent's messages (§3.3). The authors count an agent that was stopped by
a limit as wrong; in our runs the tables decide in this case too.
"""

from __future__ import annotations

import ast
import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass as plain_dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from pydantic.dataclasses import dataclass

from grid.core.errors import DataError
from grid.core.problem import Problem, Reference
from grid.core.types import Case, Json, Observation, Plan, ToolCall, ToolSpec, Trajectory
from grid.core.util import STRICT
from grid.core.world import State, own_state
from grid.datasets.dataset import FileDataset, Stratum, UnusableError
from grid.datasets.workbench_table import (
    ANALYTICS,
    ANALYTICS_FIELDS,
    EXACT,
    NOW,
    Cell,
    FullError,
    RefusedError,
    Table,
    Tool,
    Workplace,
    alike,
)
from grid.datasets.workbench_tools import (
    CALENDAR,
    CALENDAR_FIELDS,
    CUSTOMERS,
    CUSTOMERS_FIELDS,
    EMAIL,
    EMAIL_FIELDS,
    PROJECTS,
    PROJECTS_FIELDS,
)
from grid.worlds.schema import ERROR

# WorkBench's workplace: calls change tables, and the final content of the tables is the outcome.
#
# States are tuples of rows. A call creates a new tuple of pointers for the one table that it changes, and everything
# else is shared (`Table`). Data frames would be copied for every state, or would share cells that a later call changes.
# A database would need a transaction for each branch of a search. The tables have at most 500 rows, so no index is
# needed.


TOOLS: Mapping[str, Tool] = {
    tool.spec.name: tool for tools in (CALENDAR, EMAIL, ANALYTICS, PROJECTS, CUSTOMERS) for tool in tools
}
LONGEST = 10_000
"""Maximum length of an argument, in characters."""


@plain_dataclass(frozen=True)
class WorkBenchWorld:
    """One case: the tables at its start, and the calls of its gold answer.

    Arguments are texts. A number or boolean is converted to text, and null means that the argument is not given. In the
    arguments of a tool that writes, a line break equals the two characters backslash and n, as in the benchmark's
    scorer.
    """

    before: Workplace
    gold: Sequence[ToolCall]
    branches: ClassVar[bool] = True

    def start(self) -> Workplace:
        """The tables before any call."""
        return self.before

    async def apply(self, state: State, call: ToolCall) -> tuple[Workplace, Observation]:
        """The tables after the call, and the tool's result; `{"error"}` if the tool refuses the call."""
        return respond(own_state(state, Workplace), call)

    def resolved(self, state: State) -> bool:
        """Whether all five tables equal those after the gold calls.

        Letter case matters only in the columns for status, list name and board (the authors' `is_correct`).
        """
        reached = own_state(state, Workplace).changing()
        return all(alike(one, other, EXACT) for one, other in zip(reached, self.wanted.changing(), strict=True))

    def side_effect(self, state: State) -> bool:
        """Whether the tables are wrong and also differ from the tables at the start (`has_side_effects`)."""
        return own_state(state, Workplace).changing() != self.before.changing() and not self.resolved(state)

    def answer(self, state: State) -> str | None:
        """None, because only the tables count."""
        return None

    @cached_property
    def wanted(self) -> Workplace:
        """The tables after the gold calls."""
        return played(self.before, self.gold)


def played(place: Workplace, calls: Sequence[ToolCall]) -> Workplace:
    """The tables after the calls. A refused call changes nothing."""
    for call in calls:
        place = respond(place, call)[0]
    return place


def respond(place: Workplace, call: ToolCall) -> tuple[Workplace, Observation]:
    """The tables after a call, and the call's result."""
    try:
        known = TOOLS.get(call.tool)
        if known is None:
            raise RefusedError(f"there is no tool {call.tool:.80}")
        after, content = known.run(place, **_taken(known, call.arguments))
    except (RefusedError, FullError) as refused:
        return place, Observation({ERROR: str(refused)}, failed=True)
    return after, Observation(content)


def _taken(known: Tool, arguments: Mapping[str, Json]) -> dict[str, str]:
    """The given arguments, as texts."""
    names = {parameter.name for parameter in known.spec.parameters}
    found = dict[str, str]()
    for name, value in arguments.items():
        if name not in names:
            raise RefusedError(f"there is no argument {name:.40}")
        if isinstance(value, list | dict):
            raise RefusedError(f"{name} must be a text")
        if value is not None:
            text = str(value)
            if len(text) > LONGEST:
                raise RefusedError(f"{name} has more than {LONGEST:,} characters")
            found[name] = text.replace("\\n", "\n") if known.writes else text
    return found


# WorkBench (Styles et al. 2024): workplace tasks, scored by the final content of the tables.


# WorkBench's released files: six with queries and gold answers, five with tables, and one with employees' addresses.


KINDS = (
    "analytics", "calendar", "customer_relationship_manager", "email", "multi_domain", "project_management",
)  # fmt: skip
"""The files with queries."""
TABLES = {
    "data/processed/calendar_events.csv": CALENDAR_FIELDS,
    "data/processed/emails.csv": EMAIL_FIELDS,
    "data/processed/project_tasks.csv": PROJECTS_FIELDS,
    "data/processed/customer_relationship_manager_data.csv": CUSTOMERS_FIELDS,
    "data/processed/analytics_data.csv": ANALYTICS_FIELDS,
}
ADDRESSES = "data/raw/email_addresses.csv"
QUERIES = {kind: f"data/processed/queries_and_answers/{kind}_queries_and_answers.csv" for kind in KINDS}
FILES = (*TABLES, ADDRESSES, *QUERIES.values())
_COLUMNS = ("query", "answer", "base_template", "domains")
_ALSO_CALLED = {"crm": "customer_relationship_manager"}
_TOOLKITS = frozenset(tool.spec.category for tool in TOOLS.values())
_MAX_BYTES = 50_000_000
_MOST_ROWS = 4_000
_LONGEST_ANSWER = 100_000  # maximum length in characters
_LONGEST_CALL = 20_000
_MOST_CALLS = 64


class Query(NamedTuple):
    """One row of a query file. `calls` is its gold answer; `toolkits` has the toolkits of its domains."""

    text: str
    calls: tuple[ToolCall, ...]
    template: str
    toolkits: tuple[str, ...]


def read_workplace(root: Path) -> Workplace:
    """The tables before any call. An empty cell means an unknown value; the table of plots is empty.

    Raises DataError if a file cannot be read or does not have the expected form.
    """
    events, emails, tasks, people, visits = (_table(root / name, columns) for name, columns in TABLES.items())
    engaged = visits.columns.index("user_engaged")
    seen = [[*r.cells[:engaged], r.cells[engaged] == "True", *r.cells[engaged + 1 :]] for r in visits.rows]
    addresses = tuple(row[0] for _, row in _rows(root / ADDRESSES) if row)
    plots, visited = Table.of(("file_path",), ()), Table.of(visits.columns, seen)
    return Workplace(events, emails, plots, tasks, people, visited, addresses)


def _table(path: Path, columns: Sequence[str]) -> Table:
    """A file's rows; the file's first line names the columns, in any order."""
    rows = _rows(path)
    number, names = next(rows, (1, list[str]()))
    for name in columns:
        if name not in names:
            raise DataError(path, number, f"the column {name} is missing; there are {', '.join(names)}"[:400])
    if len(set(names)) < len(names):
        raise DataError(path, number, "two columns have the same name")
    found: list[list[Cell]] = []
    for number, row in rows:
        if len(row) != len(names):
            raise DataError(path, number, f"the row has {len(row)} cells, but the table has {len(names)} columns")
        if len(found) >= _MOST_ROWS:
            raise DataError(path, number, f"the table has more than {_MOST_ROWS:,} rows")
        found.append([cell or None for cell in row])
    return Table.of(names, found)


def read_queries(path: Path) -> Iterator[dict[str, str]]:
    """The rows of a query file; raises DataError for a broken file."""
    for row in _table(path, _COLUMNS).records():
        yield {name: str(row[name] or "") for name in _COLUMNS}


def query_of(row: Mapping[str, str]) -> Query:
    """A row as a query.

    UnusableError is raised if the query is empty, a domain is missing or unknown, or the answer cannot be read.
    """
    text = row["query"].strip()
    if not text:
        raise UnusableError("the record has no query")
    domains = [_ALSO_CALLED.get(name, name) for name in _texts(row["domains"], "domains")]
    unknown = [name for name in domains if name not in _TOOLKITS]
    if unknown or not domains:
        raise UnusableError(f"unknown domains: {', '.join(unknown) or 'none'}"[:200])
    calls = tuple(map(gold_call, _texts(row["answer"], "answer")))
    return Query(text, calls, row["base_template"].strip(), tuple(dict.fromkeys(domains)))


def _texts(written: str, name: str) -> list[str]:
    """A list of texts, written as a Python literal, which is parsed and never run."""
    if len(written) > _LONGEST_ANSWER:
        raise UnusableError(f"the field {name} has more than {_LONGEST_ANSWER:,} characters")
    found = _parsed(written, f"the field {name} is not a list of texts")
    items = found.elts if isinstance(found, ast.List) else None
    if items is None or len(items) > _MOST_CALLS:
        raise UnusableError(f"the field {name} is not a list of at most {_MOST_CALLS} texts")
    return [_text(item, f"the field {name}") for item in items]


def gold_call(written: str) -> ToolCall:
    """A call in the benchmark's form, `toolkit.tool.func(name="text")`; raises UnusableError for any other text."""
    if len(written) > _LONGEST_CALL:
        raise UnusableError(f"a gold call has more than {_LONGEST_CALL:,} characters")
    call = _parsed(written.replace("\n", "\\n"), "a gold call cannot be read")
    if not isinstance(call, ast.Call) or call.args:
        raise UnusableError("a gold call is not a call with named arguments only")
    match call.func:
        case ast.Attribute(ast.Attribute(ast.Name(toolkit), function), "func"):
            name = f"{toolkit}.{function}"
        case _:
            raise UnusableError("a gold call does not call a tool")
    if name not in TOOLS:
        raise UnusableError(f"a gold call calls an unknown tool, {name:.80}")
    known = {parameter.name for parameter in TOOLS[name].spec.parameters}
    if any(keyword.arg not in known for keyword in call.keywords):
        raise UnusableError(f"a gold call gives {name} an argument that the tool does not have")
    return ToolCall(name, {str(keyword.arg): _text(keyword.value, name) for keyword in call.keywords})


def _parsed(written: str, otherwise: str) -> ast.expr:
    try:
        return ast.parse(written.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise UnusableError(otherwise) from None


def _text(item: ast.expr, where: str) -> str:
    if not isinstance(item, ast.Constant) or not isinstance(item.value, str):
        raise UnusableError(f"{where} has a value that is not a text")
    return item.value


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Pairs (line number, cells) for all records of a CSV file that are not blank."""
    if path.stat().st_size > _MAX_BYTES:
        raise DataError(path, None, f"the file has more than {_MAX_BYTES:,} bytes")
    with path.open(encoding="utf-8", newline="") as file:
        reader: Any = csv.reader(file, strict=True)
        try:
            for row in reader:
                if row:
                    yield reader.line_num, row
        except (csv.Error, UnicodeDecodeError) as error:
            raise DataError(path, reader.line_num + 1, f"the file is not CSV in UTF-8: {error}") from None


DIRECTORY = "company_directory"
TOLD = f"It is {NOW:%A, %Y-%m-%d, %H:%M}. Meetings may not start before 09:00 nor end after 18:00."
"""The text before each query, as for the authors' agents."""


@plain_dataclass(frozen=True)
class _Record:
    """One usable query, and its file's kind."""

    kind: str
    query: Query


@dataclass(config=STRICT)
class WorkBench(FileDataset[_Record]):
    """The queries of all six files. `path` is the released folder: it contains `data/processed` and `data/raw`.

    A case's own tools are those in the toolkits of its domains, and the directory. The authors' agents have only a
    case's own tools (`pool=case`) unless they are given all tools. `limit` draws a sample in which files and templates
    keep their proportions (`order`).
    """

    name: ClassVar[str] = "workbench"

    @cached_property
    def _root(self) -> Path:
        return self.folder(*FILES)

    @property
    def files(self) -> Sequence[Path]:
        """The files with tables, addresses and queries."""
        return [self._root / name for name in FILES]

    @cached_property
    def tools(self) -> Mapping[str, ToolSpec]:
        """The tools of all toolkits; each toolkit is a category."""
        return {name: tool.spec for name, tool in TOOLS.items() if self._root}  # `_root` rejects a folder without data

    @cached_property
    def before(self) -> Workplace:
        """The tables with which every case starts."""
        return read_workplace(self._root)

    def rows(self) -> Iterator[tuple[str, tuple[str, dict[str, str]]]]:
        """The queries of each file, with the kind of the file."""
        for kind, name in QUERIES.items():
            for number, row in enumerate(read_queries(self._root / name)):
                yield f"workbench-{kind}-{number:03d}", (kind, row)

    def record(self, case_id: str, row: tuple[str, dict[str, str]]) -> _Record:
        """A query whose gold answer can be read."""
        return _Record(row[0], query_of(row[1]))

    def strata(self) -> Sequence[Stratum]:
        """Files, and templates within a file."""
        return self._kind, self.cluster

    def _kind(self, case_id: str) -> str:
        return self.records[case_id].kind

    def cluster(self, case_id: str) -> str:
        """The case's file and template."""
        return f"{self._kind(case_id)}: {self.records[case_id].query.template}"

    def problem(self, case_id: str) -> Problem:
        """One query. The reference has the calls of the gold answer, which lists only calls that change something."""
        query = self.records[case_id].query
        world, tools = WorkBenchWorld(self.before, query.calls), tuple(self.tools.values())
        own = {*query.toolkits, DIRECTORY}
        return Problem(
            case=Case(case_id, f"{TOLD} {query.text}", Plan(())),
            reference=reference(self.before, query.calls),
            world=world,
            candidates=lambda case, substep: tools,
            library=self.tools,
            same_function={},
            domain=query.toolkits[0],
            own=tuple(tool.name for tool in tools if tool.category in own),
            measure=partial(measure, world),
        )


def reference(before: Workplace, gold: Sequence[ToolCall]) -> Reference:
    """The gold calls; no calls if nothing may change.

    The calls have no order if making them in reverse order leads to the same tables, as with deletions. Calls that add
    rows have an order, because the new rows depend on the order. Calls that are refused are listed in `failing`.
    """
    calls = {str(place): call for place, call in enumerate(gold)}
    failing, place = set[str](), before
    for step, call in calls.items():
        place, observation = respond(place, call)
        if observation.failed:
            failing.add(step)
    in_order = played(before, tuple(reversed(gold))) != place
    return Reference(dict(calls), tuple(calls), followed=False, ordered=in_order, failing=frozenset(failing))


def measure(world: WorkBenchWorld, trajectory: Trajectory) -> Mapping[str, Any]:
    """side_effect: the tables are wrong and also differ from those at the start (unwanted side effects in §3.3)."""
    return {"side_effect": world.side_effect(trajectory.end)}
