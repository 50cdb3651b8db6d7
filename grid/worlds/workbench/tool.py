"""What WorkBench's tools are made of: the tables that they read and write, and how one is declared.

Names, parameters and behaviour are the benchmark's (Styles et al. 2024, §3), descriptions and errors our own words.
Where its published code says one thing and its documentation another, the code holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

from grid.core.types import Json, Parameter, ToolSpec, hashed_once
from grid.worlds.workbench.table import Table, shown

NOW = datetime(2023, 11, 30)
"""The benchmark's present."""
MESSAGE = "message"
EXACT = frozenset({"status", "list_name", "board"})
"""The columns in which the case of letters counts."""


@hashed_once
@dataclass(frozen=True)
class Workplace:
    """The five tables that calls change, and the two things that they only read: visits and employees' addresses."""

    events: Table
    emails: Table
    plots: Table
    tasks: Table
    customers: Table
    visits: Table
    directory: tuple[str, ...]

    def changing(self) -> tuple[Table, ...]:
        """The five."""
        return self.events, self.emails, self.plots, self.tasks, self.customers


class RefusedError(Exception):
    """A call that a tool refuses; it changes nothing."""


Outcome: TypeAlias = "tuple[Workplace, Mapping[str, Json]]"
"""The tables behind a call, and the fields that it returned."""


@dataclass(frozen=True)
class Tool:
    """What planners see of a tool, and what it does: (tables, arguments) to Outcome, or RefusedError."""

    spec: ToolSpec
    run: Callable[..., Outcome]
    writes: bool


def text(name: str, description: str, *values: str, required: bool = False) -> Parameter:
    """An argument: all of them are texts. Where it has `values`, its description names them."""
    told = f"{description} One of: {', '.join(values)}." if values else description
    return Parameter(name, "string", told, required, values)


def needed(name: str, description: str, *values: str) -> Parameter:
    """One that the tool refuses to go without."""
    return text(name, description, *values, required=True)


def tool(
    name: str, description: str, *parameters: Parameter, returns: Sequence[str], writes: bool = False
) -> Callable[[Callable[..., Outcome]], Tool]:
    """Declare a function of the tables and the arguments that were given as a tool."""
    spec = ToolSpec(name, description, parameters, tuple(returns), name.partition(".")[0])
    return lambda run: Tool(spec, run, writes)


def require(**given: str | None) -> None:
    """Refuse where one of these is missing or empty."""
    missing = [name for name, value in given.items() if not value]
    if missing:
        raise RefusedError(f"missing: {', '.join(missing)}")


def one_of(name: str, value: str | None, allowed: Sequence[str]) -> None:
    """Refuse another value."""
    if value not in allowed:
        raise RefusedError(f"{name} must be one of {', '.join(allowed)}")


def exists(table: Table, column: str, value: str | None) -> None:
    """Refuse where no row has this identifier."""
    if not any(cell == value for cell in table.column(column)):
        raise RefusedError(f"nothing has the {column} {value:.40}")


def looked_up(table: Table, column: str, value: str | None, field: str | None) -> dict[str, Json]:
    """One field of the first row with this identifier."""
    require(**{column: value, "field": field})
    exists(table, column, value)
    record = shown(table.having(column, value).records()[0])
    if field not in record:
        raise RefusedError(f"there is no field {field:.40}; there are {', '.join(table.columns)}")
    return {str(field): record[str(field)]}


def next_number(table: Table, column: str) -> int:
    """One more than the identifier that is last of all as a text."""
    cells: list[Any] = list(table.column(column))
    try:
        return int(max(cells)) + 1
    except ValueError:  # no row, or an identifier that was made something else
        raise RefusedError(f"no number follows the last {column}") from None
