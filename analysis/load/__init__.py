"""TODO."""

from analysis.load.frames import (
    ALL,
    APART,
    FEW,
    SETTING,
    UNCHANGED,
    answer_prefixes,
    episodes,
    first_pass_entropies,
    hold,
    once,
    rows,
    told_apart,
)

__all__ = [
    "ALL",
    "APART",
    "FEW",
    "SETTING",
    "UNCHANGED",
    "answer_prefixes",
    "episodes",
    "first_pass_entropies",
    "hold",
    "once",
    "rows",
    "told_apart",
]
