"""A results folder as data frames and as SQL, and what a reader has to know before the figures.

`frames` comes first: episodes with labels that tell settings apart, read once for all tables. The names of `frames`
that notebooks need can be imported from here. `queries`: how SQL is put together, run by DuckDB and shown; what a table
counts is written in that table's own file. `unknowns`: cells whose success is not known. `spending` and `grading`:
derived columns. `baselines`: figures of baselines that need no model.

What a report says before its tables: `provenance` (which engine answered, which data, by which command), `partial`
(settings that are not complete, records that were skipped), `answers` (which models gave the answers, which answers
could not be read).

It imports `page` and `stats`, because tables have notes below them and shares have intervals.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from analysis.load.frames import (
        ALL,
        FEW,
        SETTING,
        UNCHANGED,
        answer_prefixes,
        episodes,
        hold,
        models,
        name_of,
        once,
        places,
        rows,
        told_apart,
    )  # fmt: skip
    from grid.store.schema import APART

__all__ = [
    "ALL", "APART", "FEW", "SETTING", "UNCHANGED", "answer_prefixes", "episodes", "hold", "models",
    "name_of", "once", "places", "rows", "told_apart",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """A name of `frames`, imported on first use: `spending` needs neither pandas nor scipy, which load slowly."""
    if name not in __all__:
        raise AttributeError(name)
    from analysis.load import frames

    return getattr(frames, name)
