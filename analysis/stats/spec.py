"""A regression as `conf/analysis/*.yaml` describes it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

import pyarrow as pa
from pydantic import ValidationError

from analysis import yaml_files
from analysis.errors import AnalysisError
from analysis.stats import formula as controls
from analysis.stats.formula import Formula, parse
from analysis.yaml_files import Checked
from grid.core.errors import shown_value
from grid.store.schema import JOINED

_TEXTS = ("model", "engine", "planner", "dataset", "robustness", "retriever", "pool", "case_id", "cluster", "last_step")
_NUMBERS = tuple(
    column.name
    for column in JOINED
    if pa.types.is_boolean(column.type) or pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
)
FAMILY = "family"
"""What `per` and `z_scored.within` may name besides columns: the dataset's family."""
COLUMNS = tuple(name for name in JOINED.names if name in {*_TEXTS, *_NUMBERS})
"""The columns of `episodes` that a formula may name, besides metrics that the folder's sweeps declared."""


Link: TypeAlias = Literal["logit", "identity"]
Correlation: TypeAlias = Literal["independence", "exchangeable"]


class ZScored(Checked):
    """Columns to standardise where they are in the formula (mean 0, deviation 1, ddof 0), and the slices' columns."""

    columns: list[str]
    within: list[str]


class Spec(Checked):
    """One regression; the fields are the file's keys, explained in `conf/analysis/planning_horizon.yaml`.

    `metrics` are no key: the metrics with numbers that the sweeps of the folder declared, which it may name as columns.
    """

    formula: str
    rows: dict[str, list[str]]
    indicators: dict[str, dict[str, str]]
    z_scored: ZScored
    cluster: list[str]
    families: dict[str, list[str]]
    per: list[str]
    reference: dict[str, str]
    separation: Literal["drop", "refuse"]
    correlation: Correlation
    few_clusters: Literal["bias_reduced", "none"]
    link: Link = "logit"
    metrics: tuple[str, ...] = ()

    @property
    def parsed(self) -> Formula:
        """The formula; its columns are those of `episodes`, the indicators and the word `controls`."""
        return parse(self.formula, [*COLUMNS, *self.metrics, controls.CONTROLS, *self.indicators])

    @property
    def has_family(self) -> bool:
        """Whether the dataset's family is asked for."""
        return FAMILY in [*self.per, *self.z_scored.within]

    def columns(self) -> list[str]:
        """The columns of `episodes` that a fit reads."""
        conditions = [name for condition in self.indicators.values() for name in condition]
        named = [*self.parsed.columns(), *self.rows, *conditions, *self.z_scored.within, *self.cluster, *self.per]
        named += controls.CONTROL_COLUMNS if controls.CONTROLS in named else ()
        columns = dict.fromkeys("dataset" if name == FAMILY else name for name in named)
        return [name for name in columns if name not in self.indicators]

    def estimates_as(self, other: Spec) -> bool:
        """Whether it has the coefficients of another one for the same rows, whatever errors it gives them."""
        errors = ("cluster", "few_clusters")
        return self.model_dump(exclude={*errors}) == other.model_dump(exclude={*errors})

    def family(self, dataset: str) -> str:
        """The family of a dataset by its label; what was changed in it (`[seed=1]`) tells families apart too."""
        name, bracket, changes = dataset.partition("[")
        families = (family for family, members in self.families.items() if name in members)
        return next(families, name) + bracket + changes


def load(path: Path, metrics: Sequence[str] = ()) -> Spec:
    """The regression in a file; `metrics` are those with numbers that the sweeps of the folder declared.

    Raises:
        AnalysisError: it cannot be read, a key or value is wrong, or a column is not there; the place is named.
    """
    return parsed(yaml_files.read(path), yaml_files.place_of(path), metrics)


def parsed(values: object, place: str = "analysis", metrics: Sequence[str] = ()) -> Spec:
    """The regression that a mapping describes; `place` begins its errors.

    Raises:
        AnalysisError: as for `load`.
    """
    try:
        given = {**values, "metrics": tuple(metrics)} if isinstance(values, dict) and metrics else values
        spec = Spec.model_validate(given)
        formula = spec.parsed
    except ValidationError as error:
        raise yaml_files.refused(place, error) from None
    except AnalysisError as error:
        raise AnalysisError(f"{place}: formula: {error}") from None
    _check_names(spec, formula, place)
    return spec


def _check_controls(formula: Formula, place: str) -> None:
    """The word `controls` stands for itself alone: for how many columns, the rows tell."""
    for part in (part for term in formula.terms for part in term if part.column == controls.CONTROLS):
        if part.factor or any(part in term for term in formula.terms if len(term) > 1):
            raise AnalysisError(f"{place}: formula: {controls.CONTROLS} stands alone, for factors of its own")


def _check_names(spec: Spec, formula: Formula, place: str) -> None:
    _check_controls(formula, place)
    ours = {*spec.indicators, controls.CONTROLS}
    numbers = {name for name in formula.columns() if name not in formula.factors()} - ours
    factors = list(dict.fromkeys([*formula.factors(), *[controls.LAST] * (controls.CONTROLS in formula.columns())]))
    uses: Mapping[str, tuple[list[str], list[str]]] = {
        "formula, as a number": (sorted(numbers), [*(name for name in COLUMNS if name in _NUMBERS), *spec.metrics]),
        "rows": (list(spec.rows), list(COLUMNS)),
        "indicators": ([name for condition in spec.indicators.values() for name in condition], list(COLUMNS)),
        "z_scored.columns": (
            spec.z_scored.columns,
            [name for name in (*_NUMBERS, *spec.metrics) if name != formula.outcome],
        ),
        "z_scored.within": (spec.z_scored.within, [*_TEXTS, FAMILY]),
        "cluster": (spec.cluster, list(_TEXTS)),
        "per": (spec.per, [*_TEXTS, FAMILY]),
        "reference": (list(spec.reference), factors),
    }
    for use, (names, allowed) in uses.items():
        for name in names:
            if name not in allowed:
                raise AnalysisError(
                    f"{place}: {use}: no column {shown_value(name)}; allowed: {', '.join(allowed) or 'none'}"
                )
    members = Counter(name for names in spec.families.values() for name in names)
    for name, count in members.items():
        if count > 1:
            raise AnalysisError(f"{place}: families: {shown_value(name)} stands in them {count} times; once is enough")
    if not spec.cluster:
        raise AnalysisError(f"{place}: cluster: name at least one column")
    for name in spec.indicators:
        if name in [*JOINED.names, FAMILY] or not name.isidentifier():
            raise AnalysisError(f"{place}: indicators: {shown_value(name)} must be a name of its own, not a column's")
