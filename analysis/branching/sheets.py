"""The table of what branching corrected, for each model and dataset."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from analysis import intervals
from analysis.branching import queries
from analysis.branching.mechanisms import CASCADE, FAILED, MEASURES
from analysis.plans.sheet import Rows
from analysis.render import Sheet
from analysis.sheets import LABELS, breaks_of, place_of

_COUNTS = {"cells": "cells", FAILED: "failed first", "corrected_cells": "corrected cells"}
_MEANINGS = (
    "failed first: cells whose first pass did not resolve the case; corrected: of these, those that a branch resolved, "
    "in %; of the corrected in %, the first that holds: direct: the branched step calls the reference's tool; cascade: "
    "a later step does, where the first pass did not; equivalence: the branched step calls a tool that the reference "
    "does not call, and gets a result all the same; other: none of these; later: how many steps behind the branched "
    "one had another tool than in the first pass"
)
_PUBLISHED = (
    "published (egb_slate B.2: EGB-Logits with Qwen on SLATE): 68 of 114 corrected (59.6%); direct 17.6, cascade 30.9, "
    "equivalence 51.5, no other; 0.9 later steps"
)
_UNTOLD = "no outline is followed, so that no step has a reference's tool: mechanisms cannot be told"


def sheet(root: Path, table: pd.DataFrame) -> Sheet:
    """Planner x robustness of one model and dataset: what `mechanisms.by_setting` gives of it."""
    place, own = place_of(table), table.reset_index(drop=True)
    rows = Rows(own, {name: name for name in LABELS}, MEASURES, counts=list(_COUNTS))
    return Sheet(
        name=f"branching {place.model} {place.dataset}",
        title=f"{place.title}: what branches corrected, by mechanism (egb_slate, B.2)",
        caption=f"{_MEANINGS}; in brackets 95% intervals: {intervals.SHARES}; of later steps Student's t of the mean's "
        "logarithm",
        short=_MEANINGS,
        labels=LABELS,
        figures=[*_COUNTS.values(), *(measure.header for measure in rows.shown)],
        rows=rows.texts(brief=False),
        printed=rows.texts(brief=True),
        unprinted=frozenset(_COUNTS.values()) - {_COUNTS[FAILED]},
        values=own,
        query=queries.cells(root, *place),
        notes=[*_notes(own), _PUBLISHED],
        breaks=breaks_of(own),
    )


def _notes(table: pd.DataFrame) -> list[str]:
    told = [
        f"{row['planner']} ({row['robustness']}): in {row['cascade_equal_cells']:,} of {row[f'{CASCADE}_cells']:,} "
        "cascades the branched step called an equivalent tool as well"
        for row in table.to_dict("records")
        if row["cascade_equal_cells"]
    ]
    return told + [_UNTOLD] * bool((table["corrected_cells"] > table["classed_cells"]).any())
