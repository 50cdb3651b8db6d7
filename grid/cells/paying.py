"""The money that cells spend: with `budget.money`, each request is recorded before it is sent and when it is answered.

An attempt at a chunk has its own file in the results folder, until a row says how much the attempt spent. The file has
one line per event and is opened anew for each line. So the file survives if the worker or the driver is killed and, on
a shared file system, if the machine is lost.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol

import pyarrow.compute as pc
from pydantic import BaseModel, ConfigDict, Field

from grid import store
from grid.cells.deadline import asking
from grid.cells.metered import T, metered
from grid.cells.rows import ChunkResult, attempt_row, larger, spent_by_columns, summed
from grid.core.engine import Prompt, Role
from grid.core.errors import BudgetError, UnfinishedError
from grid.core.places import beside
from grid.core.types import Usage
from grid.episode.episode import Episode
from grid.episode.requests import Requests
from grid.settings.build import Built
from grid.settings.roles import Prices, at_least

FOLDER = ".money"
_NOTHING = Usage()
_WAIT_SECONDS, _MOST_SECONDS = 0.1, 2.0  # first and longest wait before asking again whether a request may be sent


class Line(BaseModel):
    """An event in the life of a request for `calls` calls: sent, answered at a cost, or failed.

    `seconds` is the time since the attempt began.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)
    event: Literal["asked", "answered", "failed"]
    role: Role
    seconds: Annotated[float, Field(ge=0)]
    calls: Annotated[int, Field(ge=1)] = 1
    money: Annotated[float, Field(ge=0)] = 0.0
    usage: dict[str, Annotated[int, Field(ge=0)]] = {}


@dataclass
class Tab:
    """The contents of an attempt's file: by role, the costs of answers and the numbers of answered and `unheard` calls.

    A call is `unheard` if it was sent, but was neither answered nor failed. `unreadable` is the number of damaged or
    truncated lines. `seconds` is the time from the attempt's start to the last line.
    """

    spent: dict[Role, Usage] = field(default_factory=dict)
    money: dict[Role, float] = field(default_factory=dict)
    answers: Counter[Role] = field(default_factory=Counter)
    unheard: Counter[Role] = field(default_factory=Counter)
    unreadable: int = 0
    seconds: float = 0.0

    @staticmethod
    def read(path: Path) -> Tab:
        """The `Tab` of a file; it is empty if there is no file."""
        tab = Tab()
        with suppress(FileNotFoundError):
            for line in path.read_bytes().splitlines():
                if line.strip():
                    try:
                        tab._take(Line.model_validate_json(line))
                    except (ValueError, TypeError):
                        tab.unreadable += 1
        return tab

    def _take(self, line: Line) -> None:
        if line.event == "answered":
            self.spent[line.role] = self.spent.get(line.role, _NOTHING) + Usage(**line.usage)
            self.money[line.role] = self.money.get(line.role, 0.0) + line.money
            self.answers[line.role] += line.calls
        self.unheard[line.role] += line.calls if line.event == "asked" else -line.calls
        self.seconds = max(self.seconds, line.seconds)

    def dollars(self, each: Mapping[Role, float] | None = None) -> float:
        """The cost of answers and of unheard calls.

        An unheard call is charged at the mean cost of its role's calls in this attempt or, if there is no such mean, at
        the cost in `each`; it is free if `each` lacks the role.
        """
        each = {**(each or {}), **{role: money / self.answers[role] for role, money in self.money.items()}}
        unheard = sum(calls * each.get(role, 0.0) for role, calls in (+self.unheard).items())
        return sum(self.money.values()) + unheard


class Ledger:
    """An attempt's file, for the worker that writes it."""

    def __init__(self, root: Path, setting_id: str, attempt_id: str) -> None:
        self.path, self._began = _path(root, setting_id, attempt_id), time.monotonic()
        with suppress(OSError):  # for example a full disk, which writing the rows will report
            self.path.parent.mkdir(parents=True, exist_ok=True)

    def write(self, event: Literal["asked", "answered", "failed"], role: Role, calls: int = 1, **more: Any) -> None:
        """Write a line, preceded by a line break, so that a truncated line before it does no harm.

        A line that cannot be written is lost.
        """
        line = Line(event=event, role=role, calls=calls, seconds=round(time.monotonic() - self._began, 3), **more)
        with suppress(OSError), self.path.open("a") as file:
            file.write(f"\n{line.model_dump_json(exclude_defaults=True)}\n")


def forget(root: Path, setting_id: str, attempt_id: str) -> None:
    """Remove an attempt's file, because a row of `attempts` now says how much the attempt spent."""
    with suppress(OSError):
        _path(root, setting_id, attempt_id).unlink()


def tab_of(root: Path, setting_id: str, attempt_id: str) -> Tab:
    """The contents of an attempt's file."""
    return Tab.read(_path(root, setting_id, attempt_id))


def _path(root: Path, setting_id: str, attempt_id: str) -> Path:
    return folder_of(root) / f"{setting_id}-{attempt_id}.jsonl"


def folder_of(root: Path) -> Path:
    """The folder of the attempts' files, always in a file system, because objects cannot be appended to."""
    return beside(root) / FOLDER


# In a worker: which requests may be sent, and how a cell ends if a request may not be sent.


class Till(Protocol):
    """An object that tracks how much money is left for the requests of all workers."""

    async def may(self, request: int, role: Role, calls: int) -> bool | None:
        """Whether a request may be sent; None if it has to wait until other requests are answered."""
        ...

    def ended(self, request: int, dollars: float | None) -> None:
        """Report that a request has ended, and that it cost `dollars` (None if there is no answer)."""
        ...


class Paying:
    """The payments of an attempt at a chunk, at the given prices; a `till` refuses requests that would exceed `limit`.

    `spent` is the usage of all answered requests, including requests of cells without a row, and `money` is their cost.
    `unpaid` is the number of cells for which a request was refused.
    """

    def __init__(self, ledger: Ledger, prices: Prices, limit: float, till: Till | None) -> None:
        self.spent: dict[Role, Usage] = {}
        self.money, self.unpaid = 0.0, 0
        self.limit = limit
        self._ledger, self._prices, self._till, self._numbers = ledger, prices, till, count()
        self.roles = {role for role, price in prices.items() if price and not price.free}

    def cell(self, built: Built) -> tuple[Built, PaidCell]:
        """The setting with engines whose requests are charged to one cell, and the record of the cell's payments."""
        paid = PaidCell(self)
        return metered(built, paid, self.roles), paid

    async def asked(self, role: Role, calls: int, request: Callable[[], Awaitable[T]]) -> T | None:
        """Send the request as soon as there is money for it, and return the answer; None if there is no money left."""
        number, answer, dollars = next(self._numbers), None, None
        try:
            if self._till and not await self._may(self._till, number, role, calls):
                return None
            self._ledger.write("asked", role, calls)
            try:
                answer = await request()
            except UnfinishedError:  # the engine is gone, but may still have computed the answer
                raise
            except Exception:
                self._ledger.write("failed", role, calls)
                raise
            dollars = self._take(role, calls, answer.usage)
            return answer
        finally:
            if self._till:
                self._till.ended(number, dollars)

    async def _may(self, till: Till, number: int, role: Role, calls: int) -> bool:
        seconds = _WAIT_SECONDS
        with asking():
            while (may := await till.may(number, role, calls)) is None:
                await asyncio.sleep(seconds)
                seconds = min(1.5 * seconds, _MOST_SECONDS)
        return may

    def _take(self, role: Role, calls: int, usage: Usage) -> float:
        price = self._prices[role]
        dollars = price.of(usage) if price else 0.0
        self.spent[role] = self.spent.get(role, _NOTHING) + usage
        self.money += dollars
        counts = {name: number for name, number in vars(usage).items() if number}
        self._ledger.write("answered", role, calls, money=dollars, usage=counts)
        return dollars


class PaidCell:
    """A cell's requests. After one request is `refused`, all later requests are refused, and the cell has no result."""

    def __init__(self, paying: Paying) -> None:
        self._paying, self.refused = paying, False

    async def asked(self, role: Role, calls: int, request: Callable[[], Awaitable[T]]) -> T:
        """Like `Paying.asked`, but raises BudgetError if there is no money; this error ends planners."""
        answer = None if self.refused else await self._paying.asked(role, calls, request)
        if answer is None:
            self._paying.unpaid += not self.refused
            self.refused = True
            raise BudgetError("money", self._paying.limit)
        return answer


# The limit of one cell.


class PaidEpisode(Episode):
    """An episode that ends when planner and environment together have spent `budget.cell_money` US dollars."""

    def __init__(self, prices: Prices, most: float, beside: Sequence[Requests], *args: Any, **keys: Any) -> None:
        """`most` is the limit in US dollars; `beside` are the environment's requests, which count towards the limit."""
        self._prices, self._most, self._beside = prices, most, beside
        super().__init__(*args, **keys)

    def _allow(self, prompt: Prompt, calls: int) -> None:
        super()._allow(prompt, calls)
        spent = at_least(self._prices, summed([self.spent, *(part.spent for part in self._beside)]))
        if spent is not None and spent >= self._most:
            self.budget_reached = "cell_money"
            raise BudgetError(self.budget_reached, self._most)


# At the start of a run: the costs of attempts whose workers or driver were killed before a row could report them.


def settle(root: Path) -> list[str]:
    """Write a row of `attempts` for every file whose attempt has no row; remove the files; return lines to report.

    A file without answered or unheard calls gets no row. The caller must hold the folder's lock. Raises StoreError.
    """
    folder = folder_of(root)
    tabs = {path: Tab.read(path) for path in sorted(folder.glob("*-*.jsonl"))}
    each, rows, unheard, unknown = _each(root, tabs), [], 0, 0
    for path, tab in tabs.items():
        setting_id, _, attempt_id = path.stem.partition("-")
        if (tab.answers or +tab.unheard) and not store.rows_of_try(root, "attempts", attempt_id):
            known = {role: each.get((setting_id, role), each.get((setting_id, None))) for role in +tab.unheard}
            rows.append(_row(root, setting_id, attempt_id, tab, {role: one or 0.0 for role, one in known.items()}))
            unheard += (+tab.unheard).total()
            unknown += sum(tab.unheard[role] for role, one in known.items() if one is None)
    if rows:
        store.write(root, {"attempts": rows})
    for path in tabs:
        path.unlink(missing_ok=True)
    with suppress(OSError):
        folder.rmdir()
    return [*_told(rows, unheard, unknown, sum(tab.unreadable for tab in tabs.values()))]


def _each(root: Path, tabs: Mapping[Path, Tab]) -> dict[tuple[str, Role | None], float]:
    """The mean cost of a call by setting and role, computed from the files.

    For role None, this is the mean over all roles, computed from the rows.
    """
    money, calls = Counter[tuple[str, Role | None]](), Counter[tuple[str, Role | None]]()
    for path, tab in tabs.items():
        for role, dollars in tab.money.items():
            key = path.stem.partition("-")[0], role
            money[key] += dollars  # type: ignore[assignment]
            calls[key] += tab.answers[role]
    if any(+tab.unheard for tab in tabs.values()):
        columns = ["setting_id", "money", "llm_calls", "forward_passes"]
        for row in store.read(root, "attempts", columns, pc.field("money").is_valid()).to_pylist():
            money[row["setting_id"], None] += row["money"]
            calls[row["setting_id"], None] += row["llm_calls"] + row["forward_passes"]
    return {key: dollars / calls[key] for key, dollars in money.items() if calls[key]}


def _row(root: Path, setting_id: str, attempt_id: str, tab: Tab, each: Mapping[Role, float]) -> dict[str, Any]:
    result = ChunkResult()
    for row in store.rows_of_try(root, "episodes", attempt_id):
        result.count(row["status"], spent_by_columns(row))
    for role, usage in tab.spent.items():
        result.spent[role] = larger(result.spent[role], usage)
    row = attempt_row(attempt_id, setting_id, {}, result, tab.seconds, dt.datetime.now(dt.UTC), result.cells)
    return row | {"money": None if result.usage.uncounted_answers else tab.dollars(each)}


def _told(rows: list[dict[str, Any]], unheard: int, unknown: int, unreadable: int) -> list[str]:
    lines = []
    if rows:
        dollars = sum(row["money"] or 0.0 for row in rows)
        line = f"a run of this name was killed: {len(rows):,} chunks of its cells had spent {dollars:.6g} US dollars"
        if unheard:
            line += f"; {unheard:,} calls were in flight at that time, and each counts at the mean cost of other calls"
        if unknown:
            line += f", except {unknown:,} calls whose cost cannot be estimated"
        lines.append(line)
    if unreadable:
        lines.append(f"{unreadable:,} lines of the record of spent money ({FOLDER}) are damaged and not counted")
    return lines
