"""A checked sweep: its settings, and their cells in chunks, which are made lazily."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc

from grid import store
from grid.core.errors import ConfigError
from grid.core.metric import Metric
from grid.core.untrusted import loads
from grid.settings.build import build_engine
from grid.settings.config import BudgetConfig, ClusterConfig, Tracing
from grid.settings.make import PRICE
from grid.settings.parts import KEPT, key_of_data
from grid.settings.roles import models
from grid.settings.setting import KEEP_NONE, Cell, Keep, Setting, cells
from grid.settings.weights import MODELS

_BLOCK = 10_000  # number of cells that are looked up at once, over all settings that take turns
_LEAST_BLOCK = 64  # minimum number of cells of each setting that are looked up at once
_CHOICE = "accept_code=true (keep their rows) or accept_code=false (run them again)"


@dataclass(frozen=True)
class OtherCode:
    """Cells whose rows come from a different version of the code, and the groups whose code differs.

    `most`: whether other code made the rows of more than half of the cells answered by a model outside this process.
    """

    cells: int
    parts: tuple[str, ...]
    most: bool = False

    def told(self, accept: bool | None) -> str:
        """The line that tells the user about these cells; `accept` is the value of the key `accept_code`."""
        fate = "they run again; to keep them, set accept_code=true"
        if accept:
            fate = "they are kept (accept_code=true)"
        elif accept is None and self.most:
            fate = f"they do not run again until you choose: set {_CHOICE}"
        return f"{self.cells:,} cells were run with different code (it differs in {', '.join(self.parts)}): {fate}"


@dataclass(frozen=True)
class Plan:
    """The cells to run, and where their results go.

    `keep` says which cells' requests are kept; all transcripts together use about `transcripts_bytes` (`Room`).
    `dollars` has limits in US dollars, by key of the budget: `money` for all runs with the sweep's name, `cell_money`
    for one cell. `hard`: requests that would exceed `money` are refused. `metrics` are the metrics that cells may have,
    by name. `fail_fast`: the number or share of failed cells that ends a run early. `most_unknown`: the share of cells
    with unknown success that ends a run early. `tracing`: whether episodes are sent as traces.
    """

    name: str
    root: Path
    settings: Sequence[Setting]
    case_ids: dict[str, Sequence[str]]
    dataset_versions: dict[str, str]
    trials: int
    budget: BudgetConfig
    cluster: ClusterConfig
    retry: store.Retry = "none"
    accept_code: bool | None = None
    git_commit: str | None = None
    keep: Keep = KEEP_NONE
    transcripts_bytes: int = 0
    dollars: Mapping[str, float] = field(default_factory=dict)
    hard: bool = True
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    fail_fast: int | float | None = None
    most_unknown: float | None = None
    tracing: Tracing = "none"

    def cells_of(self, setting: Setting) -> Iterator[Cell]:
        """All cells of a setting, including finished ones."""
        return cells(setting, self.dataset_versions[setting.id], self.case_ids[setting.id], self.trials)

    def cells_in(self, setting: Setting) -> int:
        """The number of a setting's cells, including finished ones."""
        return len(self.case_ids[setting.id]) * self.trials

    def total(self) -> int:
        """The number of cells of all settings, including finished ones."""
        return sum(map(self.cells_in, self.settings))

    def finished(self, retry: store.Retry | None = None) -> store.CellIds:
        """The ids (with `accept_code`: the keys) of cells that need not run; `retry` replaces the plan's `retry`.

        The caller must hold the folder's lock from this call until the cells are run.
        """
        return store.finished(self.root, retry or self.retry, "cell_key" if self.accept_code else "cell_id")

    def by_other_code(self) -> OtherCode:
        """The number of cells that must run only because code has changed, and the parts whose code differs."""
        changed = self._changed_parts()
        if not changed:
            return OtherCode(0, ())
        ids, keys = store.finished(self.root, self.retry), store.finished(self.root, self.retry, "cell_key")
        costly = {setting.id: _asks_elsewhere(setting) for setting in self.settings}
        every = ((cell, costly[setting.id]) for setting in self.settings for cell in self.cells_of(setting))
        count = again = done = 0
        while block := list(islice(every, _BLOCK)):
            known = keys.holds([cell.cell_key for cell, _ in block])
            other, real = known & ~ids.holds([cell.cell_id for cell, _ in block]), np.array([real for _, real in block])
            count, again, done = count + int(other.sum()), again + (other & real).sum(), done + (known & real).sum()
        return OtherCode(count, changed, bool(2 * again > done))

    def expect_choice(self, other: OtherCode) -> None:
        """Raise ConfigError if most stored cells of real models would run again and the user has not made a choice."""
        if self.accept_code is None and other.most:
            told = f"the code of {', '.join(other.parts)} has changed since {other.cells:,} cells were run"
            raise ConfigError("accept_code", None, f"{told}: choose {_CHOICE}; nothing has run")

    def _changed_parts(self) -> tuple[str, ...]:
        """The groups whose code differs from the code that made stored rows of the same settings."""
        columns = ["setting_id", "code_parts"]
        now = {setting.id: setting.code for setting in self.settings}
        rows = store.read(self.root, "episodes", columns, categories=columns)
        changed: set[str] = set()
        for row in rows.group_by(columns).aggregate([]).to_pylist():
            then, code = loads(row["code_parts"] or "{}"), now.get(row["setting_id"], {})
            changed |= {part for part in code if code[part] != then.get(part)}
        return tuple(sorted(changed))

    def about_rows(self) -> list[str]:
        """Lines about stored rows of these settings that differ from new rows, and about files that ids do not cover.

        Reports show rows made with different data beside the new rows. Rows without costs in money, although their
        models now have prices, are left out of tables of money. The files are named in the arguments of an MCP server.
        """
        columns = ["setting_id", "dataset", "dataset_version", "money"]
        settings = {setting.id: setting for setting in self.settings}
        rows = store.read(self.root, "episodes", columns, pc.field("setting_id").isin(list(settings)), columns[:3])
        other, unpaid = Counter[str](), 0
        for row in rows.group_by(columns[:3]).aggregate([([], "count_all"), ("money", "count")]).to_pylist():
            setting = settings[row["setting_id"]]
            if row["dataset_version"] != self.dataset_versions[setting.id]:
                other[row["dataset"]] += row["count_all"]
            if all(setting.config[role].get(PRICE) for role in MODELS if setting.config.get(role)):
                unpaid += row["count_all"] - row["money_count"]
        lines = [
            f"{cells:,} stored cells were run on a different version of the data of {name}: they are kept, and reports "
            "show them beside the cells run on the current data; to keep the two apart, run with another name=NAME"
            for name, cells in other.items()
        ]
        without = (
            "they ran before model.price was given, or their token counts are not known; tables of costs leave them out"
        )
        lines += [f"{unpaid:,} stored cells have no known cost in US dollars: {without}"] if unpaid else []
        return lines + [
            f"dataset.args: the contents of {file} are not part of the cells' ids, so finished cells are kept even if "
            "this file has changed; to make its contents part of the ids, put it in dataset.folder and give only its "
            "name in dataset.args"
            for file in dict.fromkeys(file for one in self.settings for file in _programs(one.config["dataset"]))
        ]

    def missing(self, done: store.CellIds) -> dict[str, int]:
        """For each setting id, the number of cells that are not `done`."""
        return {setting.id: sum(1 for _ in self._pending(setting, done)) for setting in self.settings}

    def chunks(
        self,
        done: store.CellIds,
        size: Callable[[Setting], int],
        settings: Sequence[Setting],
        grouped: bool = True,
    ) -> Iterator[tuple[Setting, list[Cell]]]:
        """The settings' cells that are not `done`; settings take turns (`by_turns`), by default in groups (`together`).

        If cells cost money, all settings should take turns, because the run may end before the first group is done.
        """
        for group in together(settings) if grouped else [settings]:
            block = max(_BLOCK // len(group), _LEAST_BLOCK)
            yield from by_turns([(setting, self._pending(setting, done, block)) for setting in group], size)

    def _pending(self, setting: Setting, done: store.CellIds, block: int = _BLOCK) -> Iterator[tuple[int, Cell]]:
        """The setting's cells that are not `done`, with their positions; `block` cells are looked up at a time."""
        every = enumerate(self.cells_of(setting))
        while found := list(islice(every, block)):
            names = [cell.cell_key if self.accept_code else cell.cell_id for _, cell in found]
            for placed, known in zip(found, done.holds(names), strict=True):
                if not known:
                    yield placed


def _programs(dataset: Mapping[str, Any]) -> Iterator[str]:
    """The files on this machine that the arguments of an MCP server name by absolute path."""
    for server in (dataset, *(dataset.get("servers") or {}).values()):
        for given in server.get("args") or ():
            if Path(given).is_absolute() and Path(given).is_file():
                yield given


def _asks_elsewhere(setting: Setting) -> bool:
    """Whether a model of the setting is on a GPU, in a replica or at a server; other models cost next to nothing."""
    return any(build_engine(model).home != "task" for model in models(setting.config).values())


# Settings take turns, so that an interrupted sweep has about the same cases of each setting.


Waiting = tuple[Setting, Iterator[tuple[int, Cell]]]
"""A setting and its cells to run; each cell is in a pair (position in the setting, cell)."""


def by_turns(waiting: Sequence[Waiting], size: Callable[[Setting], int]) -> Iterator[tuple[Setting, list[Cell]]]:
    """Chunks of all settings' cells; the next chunk is from the setting whose next cell has the lowest position.

    A setting's cells stay in order. While two settings have cells left, one can be ahead of the other by at most one of
    its own chunks. `size` is called before each chunk.
    """
    turns = [(0, number) for number in range(len(waiting))]
    heapify(turns)
    first: dict[int, tuple[int, Cell]] = {}
    while turns:
        place, number = heappop(turns)
        setting, cells = waiting[number]
        found = first.pop(number, None) or next(cells, None)
        if found is None:
            continue
        if found[0] > place:  # earlier cells are already done, so other settings may be less advanced
            first[number] = found
            heappush(turns, (found[0], number))
            continue
        chunk = [found, *islice(cells, size(setting) - 1)]
        heappush(turns, (chunk[-1][0] + 1, number))
        yield setting, [cell for _, cell in chunk]


def together(settings: Sequence[Setting]) -> Iterator[list[Setting]]:
    """The settings in groups that take turns among themselves: one group, if a process can keep all their data.

    If a worker got chunks in turn from more datasets than it keeps, it would read a dataset again for every chunk.
    """
    by_data: dict[tuple[str, ...], list[Setting]] = {}
    for setting in settings:
        by_data.setdefault(key_of_data(setting.config), []).append(setting)
    found = list(by_data.values())
    for begin in range(0, len(found), KEPT):
        yield [setting for own in found[begin : begin + KEPT] for setting in own]
