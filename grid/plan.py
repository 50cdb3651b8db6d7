"""A checked sweep: its settings with their cells, lazily, in chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from grid import store
from grid.build import BudgetConfig, ClusterConfig
from grid.cell import Cell, Setting, cells

_BLOCK = 10_000  # cells


@dataclass(frozen=True)
class Plan:
    """What is to be run, and where results go."""

    name: str
    root: Path
    settings: Sequence[Setting]
    case_ids: dict[str, Sequence[str]]
    dataset_versions: dict[str, str]
    trials: int
    budget: BudgetConfig
    cluster: ClusterConfig
    retry: store.Retry = "none"
    git_commit: str | None = None

    def cells_of(self, setting: Setting) -> Iterator[Cell]:
        """All cells of a setting, finished ones included."""
        return cells(setting, self.dataset_versions[setting.id], self.case_ids[setting.id], self.trials)

    def cells_in(self, setting: Setting) -> int:
        """How many they are."""
        return len(self.case_ids[setting.id]) * self.trials

    def total(self) -> int:
        """Cells in all."""
        return sum(map(self.cells_in, self.settings))

    def finished(self) -> store.CellIds:
        """The ids of the cells that need not run; hold the folder's lock from here to the run."""
        return store.finished(self.root, self.retry)

    def missing(self, done: store.CellIds) -> dict[str, int]:
        """How many cells of each setting are not `done`, by the setting's id."""
        return {setting.id: sum(1 for _ in self._pending(setting, done)) for setting in self.settings}

    def chunks(
        self, done: store.CellIds, size: Callable[[Setting], int], settings: Sequence[Setting]
    ) -> Iterator[tuple[Setting, list[Cell]]]:
        """The settings' cells that are not `done`, setting by setting; `size` is asked before each chunk."""
        for setting in settings:
            pending = self._pending(setting, done)
            while chunk := list(islice(pending, size(setting))):
                yield setting, chunk

    def _pending(self, setting: Setting, done: store.CellIds) -> Iterator[Cell]:
        """The setting's cells that are not `done`; looked up some thousand at a time."""
        every = self.cells_of(setting)
        while block := list(islice(every, _BLOCK)):
            for cell, known in zip(block, done.holds([cell.cell_id for cell in block]), strict=True):
                if not known:
                    yield cell
