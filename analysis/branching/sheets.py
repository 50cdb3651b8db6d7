"""The table of what branching corrected, for each model and dataset."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from analysis import intervals, queries
from analysis.branching.mechanisms import CASCADE, CORRECTED, DIRECT, EQUIVALENCE, FAILED, LATER, MEASURES, OTHER
from analysis.measures import known
from analysis.sheets import LABELS, place_of
from analysis.table import Table, count

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


def sheet(root: Path, table: pd.DataFrame) -> Table:
    """Planner x robustness of one model and dataset: what `mechanisms.by_setting` gives of it."""
    place, own = place_of(table), table.reset_index(drop=True)
    counts = [count(name, header, printed=name == FAILED) for name, header in _COUNTS.items()]
    return Table(
        name=f"branching {place.model} {place.dataset}",
        title=f"{place.title}: what branches corrected, by mechanism (egb_slate, B.2)",
        by=LABELS,
        columns=[*counts, *(measure.shown() for measure in known(own, MEASURES))],
        values=own,
        query=cells(root, *place),
        about=f"{_MEANINGS}; in brackets 95% intervals: {intervals.SHARES}; of later steps Student's t of the mean's "
        "logarithm",
        briefly=_MEANINGS,
        notes=[*_notes(own), _PUBLISHED],
        breaks=["robustness"],
    )


def _notes(table: pd.DataFrame) -> list[str]:
    told = [
        f"{row['planner']} ({row['robustness']}): in {row['cascade_equal_cells']:,} of {row[f'{CASCADE}_cells']:,} "
        "cascades the branched step called an equivalent tool as well"
        for row in table.to_dict("records")
        if row["cascade_equal_cells"]
    ]
    return told + [_UNTOLD] * bool((table["corrected_cells"] > table["classed_cells"]).any())


# The SQL under the table of what branching corrected: `mechanisms.cells` by DuckDB.


def cells(root: Path, model: str, dataset: str) -> str:
    """One row a cell of the planners that branch, with its mechanism where the steps have a reference's tool."""
    place = queries.where({"model": [model], "dataset": [dataset]})
    steps = f"{root}/steps/*.parquet".replace("'", "''")
    return (
        f"{queries.latest(root, place)},\n"
        "k AS (SELECT * FROM e WHERE success IS NOT NULL\n"
        "  AND setting_id IN (SELECT setting_id FROM e WHERE branched_steps IS NOT NULL)),\n"
        f"s AS (SELECT s.* FROM '{steps}' AS s JOIN k USING (cell_id, attempt_id)\n"
        "  WHERE success AND branched_steps > 0),\n"
        "f AS (SELECT cell_id, step, tool_required, reference_tool, chosen_tool AS tool, tool_matches AS matches,\n"
        "  TRUE AS there FROM s WHERE branch = 0),\n"
        "p AS (SELECT * FROM s WHERE on_path AND branch > 0),\n"
        "c AS (SELECT * FROM p QUALIFY row_number() OVER (PARTITION BY cell_id ORDER BY step) = 1),\n"
        "l AS (SELECT cell_id, coalesce(bool_or(p.tool_matches AND NOT coalesce(matches, FALSE)), FALSE) AS repaired,\n"
        "    count(*) FILTER (there IS NULL OR p.branch IS NULL OR tool IS DISTINCT FROM p.chosen_tool) AS changed\n"
        "  FROM f FULL JOIN p USING (cell_id, step) JOIN (SELECT cell_id, step AS start FROM c) USING (cell_id)\n"
        "  WHERE step > start GROUP BY ALL)\n"
        "SELECT model, dataset, robustness, planner, setting_id, cluster, case_id, cell_id,\n"
        f"  c.step IS NOT NULL OR NOT success AS {FAILED},\n"
        f"  if({FAILED}, c.step IS NOT NULL, NULL) AS {CORRECTED},\n"
        "  CASE WHEN c.reference_tool IS NULL THEN NULL\n"
        f"    WHEN c.tool_required AND c.tool_matches THEN '{DIRECT}'\n"
        f"    WHEN repaired THEN '{CASCADE}'\n"
        "    WHEN c.tool_required AND NOT c.failed AND (cell_id, c.chosen_tool) NOT IN\n"
        f"      (SELECT (cell_id, reference_tool) FROM f WHERE tool_required) THEN '{EQUIVALENCE}'\n"
        f"    ELSE '{OTHER}' END AS mechanism,\n"
        f"  if(c.reference_tool IS NULL, NULL, coalesce(changed, 0)) AS {LATER}\n"
        "FROM k LEFT JOIN c USING (cell_id) LEFT JOIN l USING (cell_id)\nORDER BY ALL"
    )
