"""A results folder as data frames and as SQL, and the facts that a reader has to know before reading the figures.

`frames` comes first: episodes with labels that tell settings apart, read once for all tables. The names of `frames`
that notebooks need can be imported from here. `queries` composes SQL, runs it in DuckDB and shows it; the quantities
that a table counts are defined in that table's own file. `unknowns`: cells whose success is not known. `spending` and
`grading`: derived columns. `baselines`: figures of baselines that need no model.

Three modules write the text before a report's tables: `provenance` (engines, data and commands), `partial` (settings
that are not complete, records that were skipped) and `answers` (which models gave the answers, which answers could not
be read).

This package imports `page` and `stats`, because tables have notes below them and shares have intervals.
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
    """A name of `frames`, imported on first use, because pandas and scipy load slowly and `spending` needs neither."""
    if name not in __all__:
        raise AttributeError(name)
    from analysis.load import frames

    return getattr(frames, name)
