"""The Python API: `from grid import sweep, load`.

results = sweep("model=lexical", "planner=react,egb_logits", "dataset.limit=20", "robustness=none", "name=mine")
results.pandas()                                  # the episodes, one row per cell
results.duckdb("steps").filter("entropy > 1")     # a relation over a table
load("results/mine").arrow("attempts")
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from grid import plugins, store
from grid.core.errors import ConfigError, GridError
from grid.core.places import folder_at
from grid.core.surroundings import usable
from grid.sweeps import arguments

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import pyarrow as pa

    from analysis.load.unknowns import Unknown
    from grid.sweeps.jobs import Setting

_ALONE = threading.RLock()


@dataclass(frozen=True)
class Results:
    """What a sweep left in its folder, one row per cell in `episodes`, with a column for each metric and cost.

    `complete`: every cell has a row that is no failure of infrastructure or code; None where they were only loaded.
    """

    folder: Path
    complete: bool | None = None

    def arrow(self, table: store.Table | store.Long = "episodes", columns: Sequence[str] | None = None) -> pa.Table:
        """A table, or some of its columns, `episodes` in the joined form; raises StoreError where it cannot be read."""
        return store.read(self.folder, table, columns, wide=True)

    def pandas(
        self, table: store.Table | store.Long = "episodes", columns: Sequence[str] | None = None
    ) -> pd.DataFrame:
        """As `arrow`, as a frame."""
        frame: pd.DataFrame = self.arrow(table, columns).to_pandas()
        return frame

    def duckdb(
        self, table: store.Table | store.Long = "episodes", columns: Sequence[str] | None = None
    ) -> duckdb.DuckDBPyRelation:
        """As `arrow`, as a relation: `.filter(...)`, `.aggregate(...)`, `.query("e", "select ... from e")`."""
        import duckdb

        return duckdb.from_arrow(self.arrow(table, columns))

    def report(self, unknown: Unknown = "left_out") -> None:
        """Print the tables of `agent-grid report`.

        Args:
            unknown: how cells count of which nobody can tell whether they succeeded: `left_out`, or `failure`.
        """
        from rich.console import Console

        from analysis.report import print_report

        print_report(self.folder, Console(), unknown=unknown)


def load(folder: str | Path) -> Results:
    """The results in a folder, `results/NAME`; raises StoreError where there are none, or of another version."""
    found = folder_at(folder)
    store.check_there(found)
    store.check(found)
    return Results(found)


def sweep(*overrides: str) -> Results:
    """Run what `python launch/sweep.py -m OVERRIDES` would, in this process, and give its results.

    Sweeps of several threads run one after another. A Ray that this process has initialised is used.

    Args:
        overrides: as on the command line: `planner=react,egb_logits`.

    Raises:
        GridError: it cannot be composed (the key, its value and what is allowed) or did not end (no model, no cluster,
            a disk that is full).
    """
    with _alone():
        from grid.sweeps.jobs import run

        found = settings_of(*overrides)
        config, _ = found[0]
        return Results(folder_at(config["store"]["root"]) / config["name"], run(found))


@contextmanager
def _alone() -> Iterator[None]:
    """One sweep at a time; the caller's own Hydra, plugins and random numbers are as before at the end.

    All that connecting to Ray changes is taken back where that is done.
    """
    drawn = random.getstate()
    from hydra.core.global_hydra import GlobalHydra

    with _ALONE, usable(), plugins.kept():
        outer = GlobalHydra.instance().hydra
        GlobalHydra.instance().clear()
        try:
            yield
        finally:
            GlobalHydra.instance().hydra = outer  # composing puts another instance in its place
            random.setstate(drawn)


def settings_of(*overrides: str) -> list[Setting]:
    """The settings of a sweep, composed and looked at.

    Raises:
        GridError: it cannot be composed.
    """
    from grid.sweeps.arguments import refusal
    from grid.sweeps.composing import multirun, prepared
    from grid.sweeps.jobs import settings

    try:
        arguments.GIVEN.set(arguments.call(overrides))
        given = arguments.with_pilot(overrides)
        arguments.check(given)
        with multirun(prepared(arguments.beside_sweeps(given))) as composed:
            return settings(composed)
    except ConfigError as error:
        raise arguments.kept(error, overrides) from None
    except GridError:
        raise
    except Exception as error:
        raise GridError(refusal(error, overrides)) from error
