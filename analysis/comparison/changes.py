"""What was different about two runs: keys of their configs, versions, and code."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from analysis.comparison.runs import PARTS, VERSIONS, Pair
from grid.core.untrusted import loads

COLUMNS = ["what", "a", "b", "settings"]
ALL = "all"
_NESTED = {"config": "", "code_parts": "code of "}
"""Columns that hold JSON objects, and what stands before the names in them."""
_ABSENT = "(not set)"
_DEEPEST = 8


def differing(pairs: Sequence[Pair]) -> pd.DataFrame:
    """One row for each thing that differs, with its values in both runs and the settings in which it does so.

    Columns: `what` (a label, a dotted key of the config, a column of versions, or `code of` a group), `a` and `b` (all
    values that the cells have, in their alphabet's order), and `settings` (ALL, or their planners and robustness).
    """
    found: dict[tuple[str, str, str], list[str]] = {}
    for pair in pairs:
        values = [_values(pair, side) for side in (0, 1)]
        name = f"{pair.label('planner')} ({pair.label('robustness')})"
        for what in dict.fromkeys([*values[0], *values[1]]):
            a, b = (own.get(what, _ABSENT) for own in values)
            if a != b:
                found.setdefault((what, a, b), []).append(name)
    rows = [(*key, ALL if len(own) == len(pairs) else ", ".join(own)) for key, own in found.items()]
    order = {what: place for place, what in enumerate([*PARTS, *VERSIONS])}
    rows.sort(key=lambda row: (order.get(row[0], len(order)), row))
    return pd.DataFrame(rows, columns=COLUMNS)


def _values(pair: Pair, side: int) -> dict[str, str]:
    found = {part: pair.labels[side][part] for part in PARTS}
    for column in VERSIONS:
        texts = sorted(map(str, pair.cells[side][column].dropna().unique()))
        if column in _NESTED:
            found |= _flat(texts, _NESTED[column])
        elif texts:
            found[column] = ", ".join(texts)
    return found


def _flat(texts: Sequence[str], before: str) -> dict[str, str]:
    """By dotted key the values in these objects; where they disagree, all of them."""
    every: dict[str, dict[str, None]] = {}
    for text in texts:
        for key, value in _leaves(_object(text), _DEEPEST):
            every.setdefault(before + key, {})[json.dumps(value, ensure_ascii=False)] = None
    return {key: ", ".join(values) for key, values in every.items()}


def _object(text: str) -> dict[str, Any]:
    """An object's values by their names; any other text as it stands."""
    try:
        found = loads(text)
    except (ValueError, RecursionError):
        found = None
    return found if isinstance(found, dict) else {"text": text}


def _leaves(found: Mapping[str, Any], depth: int, before: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in found.items():
        if isinstance(value, dict) and value and depth:
            yield from _leaves(value, depth - 1, f"{before}{name}.")
        else:
            yield f"{before}{name}", value
