"""The Python API: `from grid import sweep, load`.

results = sweep("model=lexical", "planner=react,egb_logits", "dataset.limit=20", "robustness=none", "name=mine")
results                                           # in a notebook: its first table
results.table("costs")                            # any table of the report, or results.figure("cost")
results.pandas()                                  # the episodes, one row per cell
results.duckdb("steps").filter("entropy > 1")     # a relation over a table
load("results/mine").arrow("attempts")
"""

from __future__ import annotations

import io
import random
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from grid import plugins, store
from grid.core.errors import ConfigError, GridError, StoreError, nearest, shown_value
from grid.core.places import folder_at
from grid.core.surroundings import usable
from grid.store.scanning import LONG_TABLES
from grid.store.schema import EPISODES, JOINED, TABLES
from grid.sweeps import arguments

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import pyarrow as pa

    from analysis.load.unknowns import Unknown
    from analysis.page.drawing import Drawing
    from analysis.page.table import Table
    from grid.sweeps.jobs import Setting

T = TypeVar("T", "Table", "Drawing")
_ALONE = threading.RLock()


class Figures(list["Drawing"]):
    """Several figures, which a notebook shows one below the other."""

    def _repr_html_(self) -> str:
        """The display in a notebook."""
        return "".join(one._repr_html_() for one in self)


@dataclass(frozen=True)
class Results:
    """The results in a sweep's folder, one row per cell in `episodes`, with a column for each metric and cost.

    `complete`: whether every cell has a row and no cell failed because of infrastructure or code; None if results were
    only loaded.
    """

    folder: Path
    complete: bool | None = None

    def arrow(self, table: store.Table | store.Long = "episodes", columns: Sequence[str] | None = None) -> pa.Table:
        """A table, or some of its columns; `episodes` is in the joined form.

        Raises:
            ConfigError: there is no such table.
            StoreError: the table cannot be read, or has no such column.
        """
        _expect_table(table)
        if columns is not None:
            self._expect_columns(table, columns)
        return store.read(self.folder, table, columns, wide=True)

    def pandas(
        self, table: store.Table | store.Long = "episodes", columns: Sequence[str] | None = None
    ) -> pd.DataFrame:
        """The table that `arrow` returns, as a pandas data frame; errors are as for `arrow`."""
        frame: pd.DataFrame = self.arrow(table, columns).to_pandas()
        return frame

    def duckdb(
        self, table: store.Table | store.Long = "episodes", columns: Sequence[str] | None = None
    ) -> duckdb.DuckDBPyRelation:
        """The table of `arrow` as a relation: `.filter(...)`, `.aggregate(...)`, `.query("e", "select ... from e")`."""
        import duckdb

        return duckdb.from_arrow(self.arrow(table, columns))

    def report(self, unknown: Unknown = "left_out") -> None:
        """Print the tables of `agent-grid report`.

        Args:
            unknown: how to count cells whose success cannot be determined: `left_out` or `failure`.
        """
        from rich.console import Console

        from analysis.report import print_report

        out = io.StringIO() if Console().is_jupyter else None  # a notebook would show each piece as a separate output
        print_report(self.folder, Console(file=out, force_jupyter=False), unknown=unknown)
        print(out.getvalue() if out else "", end="")

    def tables(self, name: str = "", model: str | None = None, dataset: str | None = None) -> list[Table]:
        """The report's tables whose names begin with `name`, in order; each displays itself, and has `values`.

        `model` and `dataset` select the tables that are only about this model and this data set.
        """
        from rich.console import Console

        from analysis import load
        from analysis.report import print_report

        def found() -> list[Table]:
            return print_report(self.folder, Console(file=io.StringIO(), force_jupyter=False))

        every = load.once(self.folder, "api tables", found)
        wanted = {"model": model, "dataset": dataset}
        return [table for table in every if table.name.startswith(name) and _about(table, wanted)]

    def table(self, name: str, model: str | None = None, dataset: str | None = None) -> Table:
        """The table whose name begins with the words `name`, such as `results`.

        If there are several tables of this kind, for several models or data sets, they are joined into one, with a
        column for the model and one for the data set; `model` and `dataset` choose among them.

        Raises:
            ConfigError: no table's name begins with these words, or the names of several kinds of tables do, or there
                is no such model or data set.
        """
        from analysis.page.table import together

        self._expect_place(model, dataset)
        found = _named("table", name, self.tables("", model, dataset))
        try:
            return found[0] if len(found) == 1 else together(found, name)
        except ValueError:
            raise ConfigError("table", name, f"one of {', '.join(table.name for table in found)}") from None

    def differences(self, model: str | None = None, dataset: str | None = None) -> Table:
        """The differences from the reference planner, paired over cases; arguments and errors are as for `table`."""
        from analysis.tables.rates import REFERENCE

        to_reference = f"differences {REFERENCE}"
        return self.table(to_reference if self.tables(f"{to_reference} ") else "differences", model, dataset)

    def figure(self, name: str, model: str | None = None, dataset: str | None = None) -> Drawing | Figures:
        """The figure of the report's page whose name begins with the words `name`; a list if there are several.

        For example, `name` can be `cost`. `model` and `dataset` select the figures that are only about this model and
        this data set.

        Raises:
            ConfigError: no figure's name begins with these words, or there is no such model or data set.
        """
        from analysis import load, summary
        from analysis.figures import drawings

        def found() -> list[Drawing]:
            return [*summary.drawings(self.tables()), *drawings.drawings(self.folder)]

        self._expect_place(model, dataset)
        wanted = {"model": model or "", "dataset": dataset or ""}
        every: list[Drawing] = load.once(self.folder, "api figures", found)
        chosen = [one for one in every if all(getattr(one, key) == of for key, of in wanted.items() if of)]
        shown = _named("figure", name, chosen)
        return shown[0] if len(shown) == 1 else Figures(shown)

    def _repr_html_(self) -> str:
        """The display in a notebook: the first table, after the notes that qualify its figures."""
        from markupsafe import escape

        from analysis.load import provenance
        from analysis.report import warned

        tables = self.tables()
        lines = [*provenance.lines(self.folder), *warned(self.folder)] if tables else [provenance.EMPTY]
        told = "".join(f"<p>{escape(line)}</p>" for line in lines)
        others = ", ".join(repr(table.name) for table in tables[1:])
        more = f"<p>further tables, which <code>.table(name)</code> shows: {escape(others)}</p>" if others else ""
        return told + "".join(table._repr_html_() for table in tables[:1]) + more

    def _expect_place(self, model: str | None, dataset: str | None) -> None:
        """Raise ConfigError for a model or a data set that is in no table's rows."""
        for key, wanted in (("model", model), ("dataset", dataset)):
            there = (table.values[key].dropna().astype(str) for table in self.tables() if key in table.values)
            known = list(dict.fromkeys(str(name) for column in there for name in column.unique()))
            if wanted is not None and wanted not in known:
                raise ConfigError(key, wanted, f"one of {', '.join(known)}{nearest(wanted, known)}")

    def _expect_columns(self, table: store.Table | store.Long, columns: Sequence[str]) -> None:
        """Raise StoreError for a column that a table does not have; the error names the most similar column."""
        known = [*COLUMNS[table], *(store.metrics(self.folder) if table == "episodes" else ())]
        for name in columns:
            if name not in known:
                raise StoreError(f"{self.folder}: {table} has no column {shown_value(name)}{nearest(name, known)}")


COLUMNS: Mapping[str, Sequence[str]] = {
    **{name: list(schema.names) for name, schema in [*TABLES.items(), *LONG_TABLES.items()]},
    "episodes": list(dict.fromkeys([*JOINED.names, *EPISODES.names])),
}
"""The columns of each table, as returned by `Results`; `episodes` also has the metrics that a sweep declares."""


def _expect_table(name: str) -> None:
    if name not in COLUMNS:
        raise ConfigError("table", name, f"one of {', '.join(COLUMNS)}{nearest(name, [*COLUMNS])}")


def _about(table: Table, wanted: Mapping[str, str | None]) -> bool:
    """Whether all rows of a table have the wanted model and data set."""
    return all(
        key in table.values and set(table.values[key].dropna().astype(str)) == {of} for key, of in wanted.items() if of
    )


def _named(kind: str, name: str, parts: Sequence[T]) -> list[T]:
    """The parts that a name refers to.

    If a part has exactly the name `name`, the result is this part alone. Otherwise, the result is all parts whose names
    begin with `name` as whole words. If there are no such parts either, the result is all parts whose names begin with
    the letters of `name`.

    Raises:
        ConfigError: there is no such part, or only the letters match, and they match parts of several kinds.
    """
    names: list[str] = [part.name for part in parts]
    words = [part for part in parts if f"{part.name} ".startswith(f"{name} ")]
    found = [part for part in words if part.name == name] or words
    letters = [part for part in parts if part.name.startswith(name)]
    if not found and len({part.name.split()[0] for part in letters}) == 1:
        found = letters
    if not found:
        near = "" if letters else nearest(name, [*names, *(one.partition(" ")[0] for one in names)])
        raise ConfigError(kind, name, f"one of {', '.join([part.name for part in letters] or names)}{near}")
    return found


def load(folder: str | Path) -> Results:
    """The results in a folder, `results/NAME`.

    Raises:
        StoreError: there are none, files are damaged or cannot be read, or an unsupported version wrote them.
    """
    found = folder_at(folder)
    store.check_there(found)
    store.check(found)
    return Results(found)


def sweep(*overrides: str) -> Results:
    """Run the sweep of `python launch/sweep.py -m OVERRIDES` in this process, and return its results.

    Sweeps from several threads run one after another. If this process has already initialised Ray, the sweep uses that
    Ray instance.

    Args:
        overrides: as on the command line: `planner=react,egb_logits`.

    Raises:
        GridError: the sweep cannot be composed (with the key, its value and the allowed values) or did not end (no
            model, no cluster, a full disk).
    """
    with _alone():  # the imports stay inside, because rich draws a random number
        from grid.sweeps.jobs import run
        from grid.sweeps.notebook import one_output

        inline = "cluster=inline" in overrides  # for debugging a planner while it runs
        with nullcontext() if inline else one_output() as output:
            found = settings_of(*overrides)
            config, _ = found[0]
            complete = run(found, report=False) if output else run(found)
            if output:
                output.end(unfolded=not complete)
        return Results(folder_at(config["store"]["root"]) / config["name"], complete)


@contextmanager
def _alone() -> Iterator[None]:
    """Run one sweep at a time; afterwards the caller's Hydra, plugins and random numbers are as they were before.

    The changes made by connecting to Ray are undone elsewhere, by the code that connects.
    """
    drawn = random.getstate()
    from hydra.core.global_hydra import GlobalHydra

    with _ALONE, usable(), plugins.kept():
        outer = GlobalHydra.instance().hydra
        GlobalHydra.instance().clear()
        try:
            yield
        finally:
            GlobalHydra.instance().hydra = outer  # composing replaces it with a new instance
            random.setstate(drawn)


def settings_of(*overrides: str) -> list[Setting]:
    """The composed and checked settings of a sweep.

    Raises:
        GridError: the sweep cannot be composed.
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
    except Exception as error:  # noqa: BLE001 - Hydra and OmegaConf raise many kinds
        raise GridError(refusal(error, overrides)) from None
