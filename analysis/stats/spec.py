"""A regression as a file `conf/analysis/*.yaml` describes it, and the regression's formula."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias

import pandas as pd
import pyarrow as pa
from pydantic import Field, ValidationError

from analysis import yaml_files
from analysis.errors import AnalysisError
from analysis.yaml_files import Checked
from grid.core.errors import nearest, shown_value
from grid.core.untrusted import loads
from grid.store.schema import JOINED

_TEXTS = ("model", "engine", "planner", "dataset", "robustness", "retriever", "pool", "case_id", "cluster", "last_step")
_NUMBERS = tuple(
    column.name
    for column in JOINED
    if pa.types.is_boolean(column.type) or pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
)
FAMILY = "family"
"""A name that `per` and `z_scored.within` accept besides column names; it means the dataset's family."""
COLUMNS = tuple(name for name in JOINED.names if name in {*_TEXTS, *_NUMBERS})
"""The columns of `episodes` that a formula may name, besides metrics that the folder's sweeps declared."""


Link: TypeAlias = Literal["logit", "identity"]
Correlation: TypeAlias = Literal["independence", "exchangeable"]


class ZScored(Checked):
    """Columns to z-score (mean 0, deviation 1, ddof 0) if the formula has them, and the columns that define slices."""

    columns: list[str]
    within: list[str]


class Spec(Checked):
    """One regression; the fields are the file's keys, explained in `conf/analysis/planning_horizon.yaml`.

    A file must have `formula` and `cluster`; the other keys have defaults.

    `metrics` is not a key of the file: it holds the numeric metrics that the folder's sweeps declared. The formula may
    name these metrics as columns.
    """

    formula: str
    cluster: list[str]
    rows: dict[str, list[str]] = Field(default_factory=dict)
    indicators: dict[str, dict[str, str]] = Field(default_factory=dict)
    z_scored: ZScored = Field(default_factory=lambda: ZScored(columns=[], within=[]))
    families: dict[str, list[str]] = Field(default_factory=dict)
    per: list[str] = Field(default_factory=list)
    reference: dict[str, str] = Field(default_factory=dict)
    separation: Literal["drop", "refuse"] = "drop"
    correlation: Correlation = "independence"
    few_clusters: Literal["bias_reduced", "none"] = "bias_reduced"
    pooling: Literal["few", "none"] = "none"
    link: Link = "logit"
    metrics: tuple[str, ...] = ()

    @property
    def parsed(self) -> Formula:
        """The parsed formula; it may name columns of `episodes`, metrics, indicators and the word `controls`."""
        return parse(self.formula, [*COLUMNS, *self.metrics, CONTROLS, *self.indicators])

    @property
    def has_family(self) -> bool:
        """Whether `per` or `z_scored.within` uses the dataset's family."""
        return FAMILY in [*self.per, *self.z_scored.within]

    def columns(self) -> list[str]:
        """The columns of `episodes` that a fit reads."""
        conditions = [name for condition in self.indicators.values() for name in condition]
        named = [*self.parsed.columns(), *self.rows, *conditions, *self.z_scored.within, *self.cluster, *self.per]
        named += CONTROL_COLUMNS if CONTROLS in named else ()
        columns = dict.fromkeys("dataset" if name == FAMILY else name for name in named)
        return [name for name in columns if name not in self.indicators]

    def estimates_as(self, other: Spec) -> bool:
        """Whether two regressions give the same coefficients on the same rows; standard errors may differ."""
        errors = ("cluster", "few_clusters")
        return self.model_dump(exclude={*errors}) == other.model_dump(exclude={*errors})

    def family(self, dataset: str) -> str:
        """The family of a dataset by its label; changes in the label (`[seed=1]`) become part of the family's name."""
        name, bracket, changes = dataset.partition("[")
        families = (family for family, members in self.families.items() if name in members)
        return next(families, name) + bracket + changes


def load(path: Path, metrics: Sequence[str] = ()) -> Spec:
    """The regression in a file; `metrics` are the numeric metrics that the folder's sweeps declared.

    Raises:
        AnalysisError: the file cannot be read, a key or value is wrong, or a column does not exist; the error names
            the place.
    """
    return parsed(yaml_files.read(path), yaml_files.place_of(path), metrics)


def parsed(values: object, place: str = "analysis", metrics: Sequence[str] = ()) -> Spec:
    """The regression that a mapping describes; error messages begin with `place`.

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
    """Raise AnalysisError unless `controls` is a term by itself, because its number of factors depends on the rows."""
    if CONTROLS in formula.factors or any(CONTROLS in term for term in formula.terms if len(term) > 1):
        raise AnalysisError(
            f"{place}: formula: {CONTROLS} must be a separate term, because it is replaced by one or more factors"
        )


def _check_names(spec: Spec, formula: Formula, place: str) -> None:
    _check_controls(formula, place)
    ours = {*spec.indicators, CONTROLS}
    numbers = {name for name in formula.columns() if name not in formula.factors} - ours
    factors = list(dict.fromkeys([*formula.factors, *[LAST] * (CONTROLS in formula.columns())]))
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
    faults = [
        f"{use}: no column {shown_value(name)}; allowed: {', '.join(allowed) or 'none'}{nearest(name, allowed)}"
        for use, (names, allowed) in uses.items()
        for name in names
        if name not in allowed
    ]
    members = Counter(name for names in spec.families.values() for name in names)
    faults += [
        f"families: {shown_value(name)} is listed {count} times, but must be listed once"
        for name, count in members.items()
        if count > 1
    ]
    faults += ["cluster: name at least one column"] * (not spec.cluster)
    faults += [
        f"indicators: {shown_value(name)} must be a valid name that is not the name of a column"
        for name in spec.indicators
        if name in [*JOINED.names, FAMILY] or not name.isidentifier()
    ]
    if faults:
        raise AnalysisError(f"{place}: {'; '.join(faults)}")


# A regression's formula: `success ~ depth * SH + C(last_step)`.
#
# The library formulaic, which parses the formula, would run anything that looks like a call as Python code. So the text
# is first checked against the grammar, and formulaic sees only names of allowed columns and `~ + * :`. This module
# itself notes which columns are factors (`C(name)`). The intercept is always included.


_COLUMN = r"\s*(?:C\(\s*[A-Za-z_]\w*\s*\)|[A-Za-z_]\w*)\s*"
_WHOLE = re.compile(rf"\s*[A-Za-z_]\w*\s*~{_COLUMN}(?:[+*:]{_COLUMN})*")
_FACTOR, _NAME = re.compile(r"C\(\s*(\w+)\s*\)"), re.compile(r"\w+")
_GRAMMAR = "write `outcome ~ a + C(b) + a:c + a * d`"
_LONGEST, _MOST_IN_PRODUCT = 2000, 4


Term: TypeAlias = tuple[str, ...]
"""The columns whose product is in the model; a single column is a main effect."""


@dataclass(frozen=True)
class Formula:
    """The outcome, the terms (each once, main effects first), and the columns that are factors.

    A factor has a coefficient for each level except one; any other column is a number.
    """

    outcome: str
    terms: tuple[Term, ...]
    factors: tuple[str, ...]

    def columns(self) -> list[str]:
        """Every column that the formula names, the outcome first."""
        return list(dict.fromkeys([self.outcome, *(name for term in self.terms for name in term)]))


def parse(text: str, allowed: Sequence[str]) -> Formula:
    """The formula that a text states.

    Raises:
        AnalysisError: the text is too long, does not follow the grammar, names a column that is not allowed, uses a
            column in two ways, has too long a product, or has an interaction with a factor but lacks a part of it.
    """
    import formulaic  # imported late, as it takes a fifth of a second and most reports have no regression

    _check_text(text)
    plain, numbers = _FACTOR.sub(r"\1", text), _NAME.findall(_FACTOR.sub("", text))
    for name in _NAME.findall(plain):
        if name not in allowed:
            raise AnalysisError(f"{text!r}: no column {name!r}; allowed: {', '.join(sorted(allowed))}")
    outcome, factors = numbers.pop(0), set(_FACTOR.findall(text))
    twice = sorted(factors.intersection(numbers)) or [outcome] * (outcome in {*numbers, *factors})
    if twice:
        found = ", ".join(twice)
        raise AnalysisError(f"{text!r}: {found} is used both as a number and as a factor, or on both sides of ~")
    parsed = formulaic.Formula(plain)
    terms = tuple(tuple(column.expr for column in term.factors) for term in parsed.rhs if term.degree)
    _check_hierarchy(terms, factors, text)
    return Formula(outcome, terms, tuple(dict.fromkeys(name for term in terms for name in term if name in factors)))


def _check_text(text: str) -> None:
    """Raise AnalysisError unless a text consists of columns with exactly one operator between neighbouring columns."""
    if len(text) > _LONGEST:
        raise AnalysisError(f"the formula has {len(text):,} characters, but at most {_LONGEST:,} are allowed")
    found = _WHOLE.match(text)
    rest = text[found.end() :] if found else text
    if rest or not found:
        raise AnalysisError(f"{text!r}: {rest.strip()[:20]!r} cannot be read; {_GRAMMAR}")
    longest = max(product.count("*") for product in text.split("+")) + 1
    if longest > _MOST_IN_PRODUCT:
        raise AnalysisError(f"{text!r}: a product has {longest} columns, but at most {_MOST_IN_PRODUCT} are allowed")


def _check_hierarchy(terms: Sequence[Term], factors: Set[str], text: str) -> None:
    """Raise AnalysisError if a formula has an interaction that contains a factor, but lacks the interaction's parts.

    Without these parts, contrasts have no meaning.
    """
    there = set(map(frozenset, terms))
    for term in (term for term in terms if len(term) > 1 and factors & {*term}):
        for lower in itertools.combinations(term, len(term) - 1):
            if frozenset(lower) not in there:
                names = " : ".join(f"C({name})" if name in factors else name for name in lower)
                raise AnalysisError(
                    f"{text!r}: an interaction with a factor also needs the term {names}; write * instead of :"
                )


CONTROLS, LAST = "controls", "last_step"
# The word `controls` in a formula stands for the controls other than the plan's shape (planning_horizon B.3).
#
# The word means the cases' own controls, each a factor, if their dataset gives any (the column `controls`); otherwise
# it means the function in which a plan ends, `C(last_step)`. So a single formula gives the published regression for
# every family of data sets.


CONTROL_COLUMNS = (CONTROLS, LAST)
"""The columns of `episodes` that the word `controls` reads."""
_WORD: Term = (CONTROLS,)


def spelt_out(rows: pd.DataFrame, formula: Formula) -> tuple[pd.DataFrame, Formula]:
    """The rows with a column for each control, and the formula with these columns in place of the word `controls`.

    A row that lacks a control has null in that control's column.

    Raises:
        AnalysisError: a text in the column of controls does not map names to levels, or a control's name is not a valid
            name or is the name of another column.
    """
    if _WORD not in formula.terms:
        return rows, formula
    texts = rows[CONTROLS].astype(object)
    by_text = {text: _read(text) for text in texts.dropna().unique()}
    names = sorted({name for found in by_text.values() for name in found}) or [LAST]
    for name in names:
        if name == LAST:
            continue
        if not name.isidentifier() or name in rows.columns or name in formula.columns():
            raise AnalysisError(
                f"controls: {shown_value(name)} cannot name a column, because it is not a valid name or is already used"
            )
        rows = rows.assign(**{name: texts.map({text: found.get(name) for text, found in by_text.items()})})
    terms = dict.fromkeys([term for term in formula.terms if term != _WORD] + [(name,) for name in names])
    factors = tuple(dict.fromkeys([*formula.factors, *names]))
    return rows, replace(formula, terms=tuple(sorted(terms, key=len)), factors=factors)


def _read(text: str) -> dict[str, str]:
    """The controls in a column's text; the levels of a factor are strings."""
    try:
        found = loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not all(isinstance(value, str | bool) for value in found.values()):
        raise AnalysisError(f"controls: {shown_value(text)} is not a mapping of names to levels")
    return {name: str(value) for name, value in found.items()}
