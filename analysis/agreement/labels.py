"""Human labels of plans: a file of JSON Lines (`.jsonl`) or CSV (`.csv`) that nobody vouches for.

A row has `case_id` and `correct` (true or false). It may have `grade` (0 to 1), `errors` (of E1 to E6: a list or, in
CSV, names apart by blanks; empty: none), `same` (whether a right plan is the known solution, table 8), and what tells
the episode apart where several have the case: `model`, `planner`, `dataset`, `robustness`, `trial`, or `cell_id`. No
other keys: a misspelt one would go unseen.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grid.core.chains import ERRORS
from grid.core.errors import DataError
from grid.datasets.files import MAX_LINE_BYTES, read_jsonl

APART = ("cell_id", "model", "planner", "dataset", "robustness", "trial")
"""Keys that tell which episode of a case is meant."""
KEYS = ("case_id", "correct", "grade", "errors", "same", *APART)
MOST_LABELS = 1_000_000
_TRUTH = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


@dataclass(frozen=True)
class Label:
    """What a person said of a plan; `named` tells which one, `line` where it stands in the file."""

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
        DataError: it cannot be read, or a row is wrong; the line is named.
    """
    kinds = {".jsonl": _jsonl, ".csv": _csv}
    if path.suffix not in kinds:
        raise DataError(path, None, f"labels are a file {' or '.join(kinds)}")
    try:
        found = [_label(path, line, row) for line, row in kinds[path.suffix](path)]
    except OSError as error:
        raise DataError(path, None, f"cannot be read: {error.strerror}") from None
    if not 0 < len(found) <= MOST_LABELS:
        raise DataError(path, None, f"it has {len(found):,} labels; 1 to {MOST_LABELS:,} are expected")
    return found


def _jsonl(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    return read_jsonl(path, own=True)


def _csv(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Rows by the header's names; cells that are empty are left out, but errors', which are then none."""
    csv.field_size_limit(MAX_LINE_BYTES)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv.reader(file, strict=True)
            header = next(rows, [])
            if len(set(header)) < len(header):
                raise DataError(path, 1, "a column stands in it twice")
            _check_keys(path, 1, header)
            for cells in rows:
                if not cells:
                    continue
                if len(cells) != len(header):
                    raise DataError(path, rows.line_num, f"{len(cells)} cells, where the header has {len(header)}")
                yield rows.line_num, {key: cell for key, cell in zip(header, cells, strict=True)
                                      if cell.strip() or key == "errors"}  # fmt: skip
    except (csv.Error, UnicodeDecodeError) as error:
        raise DataError(path, None, f"broken CSV: {error}") from None


def _check_keys(path: Path, line: int, keys: Any) -> None:
    unknown = [key for key in keys if key not in KEYS]
    if unknown:
        raise DataError(path, line, f"an unknown key {unknown[0]!r:.60}; there are {', '.join(KEYS)}")


def _label(path: Path, line: int, row: Mapping[str, Any]) -> Label:
    def wrong(why: str) -> DataError:
        return DataError(path, line, why)

    _check_keys(path, line, row)
    case_id = row.get("case_id")
    if not isinstance(case_id, str) or not case_id.strip():
        raise wrong("it has no case_id")
    correct, same = _truth(row.get("correct")), _truth(row.get("same"))
    if correct is None:
        raise wrong(f"correct is {row.get('correct')!r:.60}: true or false is expected")
    if same is None and row.get("same") is not None:
        raise wrong(f"same is {row['same']!r:.60}: true or false is expected")
    grade = _grade(row.get("grade"))
    if grade is None and row.get("grade") is not None:
        raise wrong(f"grade is {row['grade']!r:.60}: a number from 0 to 1 is expected")
    errors = _errors(row.get("errors"))
    if errors is None and row.get("errors") is not None:
        raise wrong(f"errors is {row['errors']!r:.60}: a list of {', '.join(ERRORS)} is expected")
    if correct and errors:
        raise wrong("it is called correct and has errors")
    named = {key: row[key] for key in APART if row.get(key) is not None}
    if not all(isinstance(value, str | int) and not isinstance(value, bool) for value in named.values()):
        raise wrong(f"one of {', '.join(APART)} is neither a text nor a whole number")
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
