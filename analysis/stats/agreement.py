"""The agreement between two scorers of plans: rates, Cohen's kappa and F1, with 95% intervals over clusters.

Raw agreement, precision, recall, the mean error of grades and the agreement on errors are means over plans, and have
the intervals of `intervals`. Kappa and F1 are not means: their intervals are the 2.5th and 97.5th percentiles over
resamples of whole clusters (Field and Welsh 2007). These percentile intervals have no width if all plans are judged
alike.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis.stats.intervals import CLUSTER, UNKNOWN, Interval, interval, share
from grid.core.errors import DataError
from grid.core.types import ERRORS
from grid.datasets.files import MAX_LINE_BYTES, read_jsonl

DRAWS = 2_000
"""The number of resamples of clusters."""
_SEED = 0
Counts = np.ndarray
"""Last axis: the numbers of plans to which scorer and truth say yes: both, only the scorer, only the truth, neither."""


def kappa(counts: Counts) -> np.ndarray:
    """Cohen's kappa: agreement corrected for chance, given how often each says "yes"; NaN if chance agreement is 1."""
    both, scorer, truth, neither = np.moveaxis(np.asarray(counts, float), -1, 0)
    total = both + scorer + truth + neither
    with np.errstate(invalid="ignore", divide="ignore"):
        said, true = (both + scorer) / total, (both + truth) / total
        chance = said * true + (1 - said) * (1 - true)
        found: np.ndarray = ((both + neither) / total - chance) / (1 - chance)
    return np.where(np.isclose(chance, 1), np.nan, found)


def f1(counts: Counts) -> np.ndarray:
    """The harmonic mean of precision and recall of yes; NaN if neither scorer nor truth ever says yes."""
    both, scorer, truth, _ = np.moveaxis(np.asarray(counts, float), -1, 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        found: np.ndarray = 2 * both / (2 * both + scorer + truth)
    return found


def counts_of(said: pd.Series[bool], true: pd.Series[bool]) -> pd.DataFrame:
    """The four counts of each cluster."""
    said, true = said.astype(bool), true.astype(bool)
    cells = {"both": said & true, "scorer": said & ~true, "truth": ~said & true, "neither": ~said & ~true}
    return pd.DataFrame(cells).astype(float).groupby(level=CLUSTER, observed=True).sum()


def resampled(counts: pd.DataFrame, measure: Callable[[Counts], np.ndarray]) -> Interval:
    """A measure, computed from counts summed over clusters, with its interval; a single cluster gives no bounds.

    Resamples in which the measure is not defined are left out; there are no bounds if more than half of all resamples
    are left out.
    """
    mean = float(measure(counts.to_numpy().sum(axis=0)))
    if len(counts) < 2 or np.isnan(mean):
        return Interval(mean, np.nan, np.nan)
    size = len(counts)
    weights = np.random.default_rng(_SEED).multinomial(size, np.full(size, 1 / size), size=DRAWS)
    drawn = measure(weights @ counts.to_numpy())
    known = drawn[~np.isnan(drawn)]
    if len(known) < DRAWS / 2:
        return Interval(mean, np.nan, np.nan)
    low, high = np.percentile(known, [2.5, 97.5])
    return Interval(mean, float(low), float(high))


def yes_or_no(said: pd.Series[bool], true: pd.Series[bool]) -> dict[str, Interval]:
    """agreement, kappa, precision, recall and f1 of a scorer's verdicts against the truth; both indexed by cluster."""
    counts = counts_of(said, true)
    alike = (said == true).astype(float)
    return {
        "agreement": share(alike),
        "kappa": resampled(counts, kappa),
        "precision": share(true[said.astype(bool)].astype(float)),
        "recall": share(said[true.astype(bool)].astype(float)),
        "f1": resampled(counts, f1),
    }


def against(plans: pd.DataFrame) -> dict[str, Interval]:
    """All measures, over the plans for which both the scorer and the truth have a verdict.

    Args:
        plans: `said_correct`, `true_correct`, `said_grade`, `true_grade`, and for each of ERRORS `said_E1`, `true_E1`
            and so on (NaN if not given), indexed by cluster.

    Returns `yes_or_no` of the verdicts, `mae` of the grades, and `error_types`: the share of the six errors on which
    both agree. All are UNKNOWN if there are no such plans.
    """
    known = plans.dropna(subset=["said_correct", "true_correct"])
    if known.empty:
        return dict.fromkeys(("agreement", "kappa", "precision", "recall", "f1", "mae", "error_types"), UNKNOWN)
    found = yes_or_no(known["said_correct"].astype(bool), known["true_correct"].astype(bool))
    graded = (known["said_grade"] - known["true_grade"]).abs().dropna()
    told = known.dropna(subset=[f"{who}_{name}" for who in ("said", "true") for name in ERRORS])
    alike = [told[f"said_{name}"].astype(bool) == told[f"true_{name}"].astype(bool) for name in ERRORS]
    types = pd.concat(alike, axis=1).astype(float).mean(axis=1) if len(told) else pd.Series(dtype=float)
    return found | {"mae": share(graded), "error_types": share(types)}


def per_error(plans: pd.DataFrame) -> dict[str, dict[str, Interval]]:
    """`yes_or_no` of each error, over the plans for which both scorer and truth say whether the error occurs.

    An error that neither the scorer nor the truth ever names is left out.
    """
    found = {}
    for name in ERRORS:
        known = plans.dropna(subset=[f"said_{name}", f"true_{name}"])
        said, true = known[f"said_{name}"].astype(bool), known[f"true_{name}"].astype(bool)
        if said.any() or true.any():
            found[name] = yes_or_no(said, true)
    return found


def bias(plans: pd.DataFrame) -> dict[str, Interval]:
    """The rate of right plans and the mean grade, according to truth and judge, and the judge's excess (table 9).

    `passed_wrong` is the share of wrong plans that are called right, and `failed_right` the share of right plans that
    are called wrong. Unlike these shares, the judge's excess depends on how many plans are right: a judge that errs at
    random overrates models that are mostly wrong, and underrates models that are mostly right.
    """
    known = plans.dropna(subset=["said_correct", "true_correct"])
    graded = known.dropna(subset=["said_grade", "true_grade"])
    said, true = known["said_correct"].astype(float), known["true_correct"].astype(float)
    return {
        "true_rate": share(true),
        "judged_rate": share(said),
        "rate_bias": interval(said - true, reach=1.0),
        "passed_wrong": share(said[true == 0]),
        "failed_right": share(1 - said[true == 1]),
        "true_grade": share(graded["true_grade"].astype(float)),
        "judged_grade": share(graded["said_grade"].astype(float)),
        "grade_bias": interval((graded["said_grade"] - graded["true_grade"]).astype(float), reach=1.0),
    }


MEASURES = (
    "agreement", "kappa", "precision", "recall", "f1", "mae", "error_types",
    "true_rate", "judged_rate", "rate_bias", "passed_wrong", "failed_right", "true_grade", "judged_grade", "grade_bias",
)  # fmt: skip
"""The names of all measures."""


# Human labels of plans: a file of JSON Lines (`.jsonl`) or CSV (`.csv`) that is not trusted.
#
# A row has `case_id` and `correct` (true or false). It may have `grade` (0 to 1), `errors` (of E1 to E6: a list or, in
# CSV, names separated by blanks; empty: none), `same` (whether a right plan is the known solution, table 8), and the
# keys that tell episodes apart if several episodes have the case: `model`, `planner`, `dataset`, `robustness`, `trial`,
# or `cell_id`. Other keys are refused, because a misspelt key would go unnoticed.


APART = ("cell_id", "model", "planner", "dataset", "robustness", "trial")
"""The keys of a label that say which of a case's episodes the label is for."""
KEYS = ("case_id", "correct", "grade", "errors", "same", *APART)
MOST_LABELS = 1_000_000
_TRUTH = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


@dataclass(frozen=True)
class Label:
    """A person's label of a plan; `named` has the keys that identify the plan, `line` is the line in the file."""

    line: int
    case_id: str
    correct: bool
    grade: float | None
    errors: frozenset[str] | None
    same: bool | None
    named: Mapping[str, str]


def read_labels(path: Path) -> list[Label]:
    """All labels of a file.

    Raises:
        DataError: the file cannot be read, or a row is wrong; the error names the line.
    """
    kinds = {".jsonl": _jsonl, ".csv": _csv}
    if path.suffix not in kinds:
        raise DataError(path, None, f"the name of a file of labels must end in {' or '.join(kinds)}")
    try:
        found = [_label(path, line, row) for line, row in kinds[path.suffix](path)]
    except OSError as error:
        raise DataError(path, None, f"cannot be read: {error.strerror}") from None
    if not 0 < len(found) <= MOST_LABELS:
        raise DataError(path, None, f"the file has {len(found):,} labels; 1 to {MOST_LABELS:,} are allowed")
    return found


def _jsonl(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    return read_jsonl(path, own=True)


def _csv(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Rows as mappings keyed by column name; empty cells are left out, except in the column `errors`."""
    csv.field_size_limit(MAX_LINE_BYTES)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv.reader(file, strict=True)
            header = next(rows, [])
            if len(set(header)) < len(header):
                raise DataError(path, 1, "the header names a column twice")
            _check_keys(path, 1, header)
            for cells in rows:
                if not cells:
                    continue
                if len(cells) != len(header):
                    raise DataError(
                        path, rows.line_num, f"the row has {len(cells)} cells, but the header has {len(header)}"
                    )
                yield rows.line_num, {key: cell for key, cell in zip(header, cells, strict=True)
                                      if cell.strip() or key == "errors"}  # fmt: skip
    except (csv.Error, UnicodeDecodeError) as error:
        raise DataError(path, None, f"broken CSV: {error}") from None


def _check_keys(path: Path, line: int, keys: Any) -> None:
    unknown = [key for key in keys if key not in KEYS]
    if unknown:
        raise DataError(path, line, f"unknown key {unknown[0]!r:.60}; the keys are {', '.join(KEYS)}")


def _label(path: Path, line: int, row: Mapping[str, Any]) -> Label:
    def wrong(why: str) -> DataError:
        return DataError(path, line, why)

    _check_keys(path, line, row)
    case_id = row.get("case_id")
    if not isinstance(case_id, str) or not case_id.strip():
        raise wrong("the label has no case_id")
    correct, same = _truth(row.get("correct")), _truth(row.get("same"))
    if correct is None:
        raise wrong(f"`correct` is {row.get('correct')!r:.60}, but must be true or false")
    if same is None and row.get("same") is not None:
        raise wrong(f"`same` is {row['same']!r:.60}, but must be true or false")
    grade = _grade(row.get("grade"))
    if grade is None and row.get("grade") is not None:
        raise wrong(f"`grade` is {row['grade']!r:.60}, but must be a number from 0 to 1")
    errors = _errors(row.get("errors"))
    if errors is None and row.get("errors") is not None:
        raise wrong(f"`errors` is {row['errors']!r:.60}, but must be a list of names from {', '.join(ERRORS)}")
    if correct and errors:
        raise wrong("the plan is labeled correct, but has errors")
    named = {key: row[key] for key in APART if row.get(key) is not None}
    if not all(isinstance(value, str | int) and not isinstance(value, bool) for value in named.values()):
        raise wrong(f"the values of {', '.join(APART)} must be texts or whole numbers")
    texts = {key: str(value).strip() for key, value in named.items()}
    return Label(line, case_id.strip(), correct, grade, errors, same, texts)


def _truth(value: Any) -> bool | None:
    if isinstance(value, bool):
        return value
    return _TRUTH.get(str(value).strip().casefold()) if isinstance(value, str | int) else None


def _grade(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return found if 0 <= found <= 1 else None


def _errors(value: Any) -> frozenset[str] | None:
    names = value.replace(",", " ").replace(";", " ").split() if isinstance(value, str) else value
    if not isinstance(names, list) or not all(name in ERRORS for name in names if isinstance(name, str)):
        return None
    return frozenset(names) if all(isinstance(name, str) for name in names) else None
