"""How WorkBench's tools match texts and read dates."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import cast

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from grid.worlds.workbench.table import Cell
from grid.worlds.workbench.tool import NOW, RefusedError

_TIME = re.compile(r"\d{1,2}:")


def matches(pattern: str, cells: Sequence[Cell], about: str, ignore_case: bool = True) -> list[bool]:
    """Which cells a regular expression is found in.

    RE2 takes linear time whatever a model wrote; Python's own engine, which the benchmark uses, may take for ever. What
    RE2 lacks (lookaround, references to groups) is refused. As there, cells that are unknown cannot be searched.
    """
    if any(cell is None for cell in cells):
        raise RefusedError(f"{about} is unknown for some of them and cannot be searched")
    try:
        found = pc.match_substring_regex(pa.array(cells, pa.string()), pattern=pattern, ignore_case=ignore_case)
    except pa.ArrowInvalid:
        raise RefusedError(f"{about} is no regular expression that can be searched for: {pattern:.80}") from None
    return cast("list[bool]", found.to_pylist())


@lru_cache(maxsize=8192)
def moment(given: object) -> pd.Timestamp:
    """A date and time in any form that pandas reads; raises RefusedError.

    Now, today and a time alone are the benchmark's day, not the machine's.
    """
    text = str(given)
    if text in ("now", "today"):
        return pd.Timestamp(NOW)
    try:
        return pd.Timestamp(f"{NOW:%Y-%m-%d} {text}" if _TIME.match(text) else text)
    except (ValueError, OverflowError):
        raise RefusedError(f"no date: {text:.40}") from None


def not_before(one: object, other: object) -> bool:
    """Whether a moment is another or later; raises RefusedError where one has a time zone and the other none."""
    try:
        return bool(moment(one) >= moment(other))
    except TypeError:
        raise RefusedError("a time zone is given, and events have none") from None
