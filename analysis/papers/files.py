"""Tables that papers published, as stored in `analysis/papers/tables/*.yaml`."""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, model_validator

from analysis import yaml_files
from analysis.errors import AnalysisError
from analysis.load import UNCHANGED, grading, spending
from analysis.stats.agreement import MEASURES
from analysis.tables.plan_cells import DERIVED
from analysis.tables.regression import FIGURES, RAW
from analysis.yaml_files import Checked
from grid.core.errors import one_line
from grid.store.schema import JOINED

FOLDER = Path(__file__).with_name("tables")
_PLACE = "analysis/papers/tables"
Value = str | int | float | bool | None
Wanted = Value | list[Value]
"""The value that a key must have; a list means that any of its values is allowed."""


JUDGE_ERROR = "judge_error"
"""The share of wrong decisions among a judge's decisions in an episode."""
WIN = "win"
"""An evaluator's verdict on an episode compared with the reference planner's episode: 1, 0.5 or 0.

`launch/win_rate.py` asks for the verdicts.
"""
DECISIONS = ("decisions", "errors", "error_rate", "tools", "decisions_per_tool")
"""Measures of first-pass decisions that need a tool (egb_slate §6.2).

Counts are sums over all cases, and the count of a case is the mean over its trials. An error is a decision that does
not choose the reference's tool. `error_rate` is the ratio of errors to decisions; `tools` is the number of different
tools that the references of these cases call, and `decisions_per_tool` is the mean number of the references' calls per
tool.
"""
_OF = {
    "cells": f"the columns of episodes, and is neither {WIN!r} nor {JUDGE_ERROR!r}",
    "decisions": "the measures of a first pass's decisions",
    "coefficients": "the figures of a regression's coefficients",
    "agreement": "the measures of agreement",
}
COMPARING = ("change", "ratio")
"""Units of metrics that compare a setting with another setting."""


class Metric(Checked):
    """Our columns that measure the same quantity as a column of the paper, and the paper's unit for this column.

    Units: a `score` is from 0 to 10. A `count` is a number of cases out of `Row.over` cases. An `amount` and a `mean`
    have no largest value, and a `mean` is shown with decimals. `cases` is the number of cases for which the column is
    1. A `change` is a share minus the same share of another setting, and a `ratio` is a mean divided by the same mean
    of another setting (`Published.against`). `points` are differences of shares that a column already has, shown in %;
    a `difference` is such a difference without this scaling. `logit` is the scale of a coefficient, `p` a p-value.

    `column` is a column of `episodes`, a column derived for plans (`plan_cells.DERIVED`), a sum of spending
    (`spending.DERIVED`), success by verdicts (`grading.COLUMN`), WIN or JUDGE_ERROR; depending on `Published.of`, it is
    instead a measure of DECISIONS, a figure of a regression's coefficients or a measure of agreement (MEASURES). If
    `column` lists several columns, their mean is used; `column` is null if none of our columns measures the same
    quantity. Our value is multiplied by `scale`, because the paper's value may be a count over several cases.
    """

    column: str | list[str] | None
    unit: Literal[
        "share", "percent", "score", "amount", "count", "cases", "mean", "change", "points", "difference", "ratio",
        "logit", "p",
    ]  # fmt: skip
    scale: float = 1.0

    @property
    def columns(self) -> list[str]:
        """The columns whose mean is the metric."""
        return [self.column] if isinstance(self.column, str) else self.column or []

    @property
    def value(self) -> str:
        """The name of the metric's value in a query."""
        return "_and_".join(self.columns)


class Row(Checked):
    """The labels of a row in the paper, our settings that belong next to it, and each model's figures.

    `ours` are conditions on our settings, in addition to the table's conditions: names of files (`planner: react`) and
    values of keys (`dataset.level: hard`). `ours` is null if none of our settings can belong next to the row. `cells`
    maps columns of `episodes` to values (null: no value); only cells that match these values and the values of the
    table's `cells` count. `entropy` has two bounds in nats: only decisions whose entropy is at least the first bound
    and below the second bound count; null means no bound. `over` is the number of cases to which the paper's counts in
    this row refer; our counts are scaled to the same number. `figures` are in the order of the table's metrics; they
    are empty for a row that we have and the paper does not.
    """

    labels: list[str]
    ours: dict[str, Wanted] | None = Field(default_factory=dict)
    cells: dict[str, Wanted] = Field(default_factory=dict)
    entropy: Annotated[list[float | None], Field(min_length=2, max_length=2)] | None = None
    over: Annotated[int, Field(ge=1)] = 1
    figures: dict[str, list[float | None]] = Field(default_factory=dict)

    @property
    def bounds(self) -> tuple[float | None, float | None]:
        """The lowest entropy that counts, and the lowest entropy that is too high to count.

        None means no such bound; if both are None, all decisions count.
        """
        low, high = self.entropy or (None, None)
        return (low or 0.0 if self.entropy else None), high

    def counted(self, metric: Metric) -> Metric:
        """The metric as this row shows it: a count is multiplied by `over`."""
        return metric.model_copy(update={"scale": metric.scale * self.over}) if metric.unit == "count" else metric


class Part(Checked):
    """A summand of a combined metric: a weighted metric of the row whose label is `row` (null: the same row)."""

    row: str | None = None
    metric: str
    weight: float


class Combined(Checked):
    """A metric that is a weighted sum of figures of the table.

    The metric is combined in the rows whose label `label` has the value `stands` (null: in all rows). Each of these
    rows differs from the rows of the metric's parts only in this label.
    """

    label: str
    stands: str | None = None
    of: Annotated[list[Part], Field(min_length=2)]


class Published(Checked):
    """One table of a paper; `labels` are the headers of the rows' labels, `notes` are facts that readers must know.

    `of` says what the table measures: cells of settings, first-pass decisions, coefficients of a regression, or
    agreement between scorers. `against` names the planner or robustness setting with which `change` and `ratio`
    compare. `combined` are the metrics that are sums of other figures. `unpublished` are metrics that only we have;
    they are shown after the paper's metrics. The table is shown next to our figures if we have at least `least` of its
    rows.
    """

    paper: str
    table: str
    title: str
    of: Literal["cells", "decisions", "coefficients", "agreement"] = "cells"
    against: dict[Literal["planner", "robustness"], str] = Field(default_factory=dict)
    metrics: dict[str, Metric]
    combined: dict[str, Combined] = Field(default_factory=dict)
    unpublished: dict[str, Metric] = Field(default_factory=dict)
    labels: list[str]
    ours: dict[str, Wanted]
    cells: dict[str, Wanted] = Field(default_factory=dict)
    rows: list[Row]
    least: Annotated[int, Field(ge=1)] = 1
    notes: list[str] = Field(default_factory=list)

    @property
    def models(self) -> list[str]:
        """The models with figures in the table, as the paper names them."""
        return list(dict.fromkeys(model for row in self.rows for model in row.figures))

    @property
    def every_metric(self) -> dict[str, Metric]:
        """The paper's metrics, then the metrics that only we have."""
        return self.metrics | self.unpublished

    @property
    def columns(self) -> list[str]:
        """The columns that the table's metrics read."""
        return list(dict.fromkeys(column for metric in self.every_metric.values() for column in metric.columns))

    @property
    def kinds(self) -> list[str]:
        """The columns by which the table's rows tell a setting's cells apart."""
        return list(dict.fromkeys([*self.cells, *(name for row in self.rows for name in row.cells)]))

    @property
    def bins(self) -> list[tuple[float | None, float | None]]:
        """The distinct entropy bounds of the rows; empty if all decisions count in every row."""
        return list(dict.fromkeys(row.bounds for row in self.rows if any(row.entropy for row in self.rows)))

    @property
    def called(self) -> str:
        """The table's name in the paper: `table N`, unless the name says that it is a figure."""
        return self.table if self.table.startswith("figure") else f"table {self.table}"

    @property
    def file(self) -> str:
        """The name of the table's file, without the ending."""
        return (
            f"{self.paper}_table{self.table}"
            if self.table.isdigit()
            else f"{self.paper}_{self.table.replace(' ', '_')}"
        )

    def row(self, labels: Sequence[str]) -> Row:
        """The row with these labels.

        Raises:
            AnalysisError: there is no such row; the error names the file, the row and the existing rows.
        """
        found = next((row for row in self.rows if row.labels == list(labels)), None)
        if found is None:
            there = "; ".join(", ".join(row.labels) for row in self.rows)
            asked = one_line(", ".join(labels), 200)
            raise AnalysisError(
                one_line(f"{_PLACE}/{self.file}.yaml: there is no row {asked!r}; the rows are: {there}", 4_000)
            )
        return found

    def figure(self, row: Row, model: str, metric: str) -> float | None:
        """A figure of the paper; None if the paper does not have it."""
        return dict(zip(self.metrics, row.figures.get(model, []), strict=False)).get(metric)

    def named(self, row: Row, key: str) -> list[str]:
        """The names that a row's conditions give for a key."""
        found = (self.conditions(row) or {}).get(key)
        return [name for name in (found if isinstance(found, list) else [found]) if isinstance(name, str)]

    def of_ours(self, key: str, there: Container[str]) -> tuple[Published, list[str]]:
        """The table without the rows whose names for a key are all missing in `there`, and a note about these rows."""
        kept, gone = [], dict[str, None]()
        for row in self.rows:
            names = self.named(row, key)
            if names and not any(name in there for name in names):
                gone[row.labels[0]] = None
            else:
                kept.append(row)
        told = f"the paper's rows of {', '.join(gone)} are left out, because this folder has no results on their data"
        return self.model_copy(update={"rows": kept}), [told] * bool(gone)

    def conditions(self, row: Row) -> dict[str, Wanted] | None:
        """The conditions on settings that belong next to a row; None if no setting can fulfil them.

        A setting with memory fulfils the conditions only if they ask for memory.
        """
        return None if row.ours is None else {"memory": UNCHANGED, **self.ours, **row.ours}

    @model_validator(mode="after")
    def _check(self) -> Published:
        of_cells = [*JOINED.names, WIN, JUDGE_ERROR, grading.COLUMN, *DERIVED, *spending.DERIVED]
        kinds = {
            "cells": of_cells,
            "decisions": [*DECISIONS],
            "coefficients": [*FIGURES, *RAW],
            "agreement": [*MEASURES],
        }
        columns = kinds[self.of]
        for name, metric in self.every_metric.items():
            for column in metric.columns:
                if column not in columns:
                    there = _OF[self.of]
                    raise ValueError(f"metrics.{name}.column: {column!r} is not one of {there}")
            if self.of != "agreement" and (metric.unit in COMPARING) != bool(self.against):
                raise ValueError(
                    f"metrics.{name}.unit: the unit is {metric.unit}, and `against` is "
                    f"{self.against or 'not given'}; `against` is "
                    "required for the units change and ratio, and not allowed for other units"
                )
        for name, how in self.combined.items():
            if how.label not in self.labels:
                raise ValueError(
                    f"combined.{name}.label: {how.label} is not one of the labels {', '.join(self.labels)}"
                )
            unknown = [one for one in (name, *(part.metric for part in how.of)) if one not in self.every_metric]
            if unknown:
                raise ValueError(f"combined.{name}: the table has no metric {unknown[0]!r}")
        for name in self.kinds:
            if name not in JOINED.names:
                raise ValueError(f"cells.{name}: the table `episodes` has no column {name!r}")
        for place, row in enumerate(self.rows):
            if row.entropy and self.of != "decisions":
                raise ValueError(
                    f"rows.{place}.entropy: this key is allowed only with `of: decisions`, not with `of: {self.of}`"
                )
            if len(row.labels) != len(self.labels):
                raise ValueError(
                    f"rows.{place}: the row has {len(row.labels)} labels, but the table has {len(self.labels)}"
                )
            for model, figures in row.figures.items():
                if len(figures) != len(self.metrics):
                    raise ValueError(
                        f"rows.{place}.figures.{model}: there are {len(figures)} figures, but the table "
                        f"has {len(self.metrics)} metrics"
                    )
        return self


def load(path: Path) -> Published:
    """The table in a file.

    Raises:
        AnalysisError: the file cannot be read, or a key or value is wrong; the error names the place.
    """
    found = path.stat() if path.is_file() else None
    return _load(path, (found.st_mtime_ns, found.st_size) if found else None)


@lru_cache(maxsize=256)
def _load(path: Path, state: tuple[int, int] | None) -> Published:
    """The table in a file; cached until the file changes, because every report reads all files."""
    place, values = yaml_files.place_of(path), yaml_files.read(path)
    try:
        return Published.model_validate(values)
    except ValidationError as error:
        raise yaml_files.refused(place, error) from None


def find(name: str, folder: Path = FOLDER) -> Published:
    """The table in a file of analysis/papers/tables, by the file's name without its ending.

    Raises:
        AnalysisError: there is no such file (the error names the existing files), or the file is wrong, as for `load`.
    """
    names = sorted(path.stem for path in folder.glob("*.yaml"))
    if name not in names:
        raise AnalysisError(
            one_line(f"{_PLACE}/{name}.yaml: there is no such file; the files are: {', '.join(names)}", 4_000)
        )
    return load(folder / f"{name}.yaml")


def every(folder: Path = FOLDER) -> list[Published]:
    """All tables in a folder, sorted by paper and table.

    Raises:
        AnalysisError: as for `load`.
    """
    found = [load(path) for path in folder.glob("*.yaml")]
    return sorted(found, key=lambda published: (published.paper, _natural(published.table)))


def _natural(name: str) -> Sequence[tuple[str, int]]:
    """A sorting key by which numbers in a name are sorted as numbers: `2`, then `2 ratios`, then `10`."""
    return [(text, int(number or 0)) for text, number in re.findall(r"(\D*)(\d*)", name)]


def value_at(config: Any, key: str) -> Any:
    """The value of a resolved config at a dotted key; None if there is no such key."""
    for part in key.split("."):
        config = config.get(part) if isinstance(config, dict) else None
    return config
