"""Which mechanism corrected a case that a first pass had failed (egb_slate B.2, 'How Branching Reduces Error').

A planner that branches (`egb_*`) goes through a case once. Where that pass fails, it changes one decision of it, the
*branched step*, and decides all later steps anew. A cell is *corrected* where its path leaves the first pass and
resolves the case. Of a corrected cell whose planner followed an outline, the first of these that holds is the
mechanism:

- direct: the branched step needs a tool, and calls the reference's.
- cascade: at a later step that needs a tool the branch calls the reference's, and the first pass did not.
- equivalence: the branched step needs a tool and calls one that the reference calls at no step of the case, and the
  call did not fail. Where tools look calls up (SLATE, UltraTool), a call that does not fail returns what a call of the
  reference returns: as a rule that of this step, which is not checked.
- other: none of these. For example only arguments, or calls at steps that need no tool, became right.

So mechanisms exclude each other, and every corrected cell has one. Tools are compared by name. The order is the paper's
own; it names three mechanisms, whose shares add up to 100%, and no fourth.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow.compute as pc

from analysis.load import SETTING, queries
from analysis.page.table import Table, count
from analysis.stats import intervals
from analysis.stats.intervals import CLUSTER
from analysis.tables.measures import Measure, known, measured
from analysis.tables.rates import LABELS, place_of
from grid import store

DIRECT, CASCADE, EQUIVALENCE, OTHER = "direct", "cascade", "equivalence", "other"
MECHANISMS = (DIRECT, CASCADE, EQUIVALENCE, OTHER)
"""In the order in which they are asked for."""
CORRECTED, LATER, FAILED = "corrected", "later_steps", "failed_first"
MEASURES = [
    Measure(CORRECTED, "corrected"),
    *(Measure(name, name) for name in MECHANISMS),
    Measure(LATER, "later", "amount", scale=1.0, form=".2f"),
]
_STEPS = [
    "cell_id", "branch", "step", "on_path", "tool_required", "reference_tool", "chosen_tool", "failed", "tool_matches",
]  # fmt: skip
_PLACE = ["cell_id", "step"]
_NOTHING = pd.DataFrame(columns=["mechanism", "equal", LATER], index=pd.Index([], dtype=object))


def cells(root: Path, episodes: pd.DataFrame) -> pd.DataFrame:
    """One row a cell of the planners that branch, where its success is known.

    Columns: SETTING, `cluster`, `case_id`, `cell_id`, and flags as floats: FAILED (the first pass did not resolve the
    case), CORRECTED (NaN where it did), each of MECHANISMS (NaN where the cell is not corrected or no outline was
    followed), `equal` (what equivalence asks for holds, whatever the mechanism), and LATER: at how many later steps the
    branch that resolved the case made another choice of tool than the first pass.

    Args:
        root: a results folder.
        episodes: what `load.episodes` gives of it.

    Raises:
        StoreError: the folder cannot be read.
    """
    setting = [episodes[name] for name in SETTING]
    branches = episodes["branched_steps"].notna().groupby(setting, observed=True, sort=False).transform("any")
    known = episodes[branches.astype(bool) & episodes["success"].notna()]
    branched = known.loc[(known["success"] == 1.0) & (known["branched_steps"] > 0), "cell_id"]
    found = known[[*SETTING, CLUSTER, "case_id", "cell_id"]].join(_told(root, branched), on="cell_id")
    corrected = found["mechanism"].notna()
    failed = corrected | (known["success"] != 1.0)
    flags = pd.DataFrame({name: found["mechanism"] == name for name in MECHANISMS})
    classed = flags.any(axis=1)
    found = found.assign(
        **{FAILED: failed.astype(float), CORRECTED: corrected.astype(float).where(failed)},
        **{name: flags[name].astype(float).where(classed) for name in MECHANISMS},
        **{name: found[name].astype(float).where(classed) for name in ("equal", LATER)},
    )
    return found.drop(columns="mechanism")


def by_setting(found: pd.DataFrame) -> pd.DataFrame:
    """One row a setting of what `cells` gives: each of MEASURES with its 95% interval, and counts of cells.

    A mean is over cases, each its mean over those trials in which the measure is known (`measures.measured`).
    Counts: `cells`, FAILED, and `corrected_cells`, `classed_cells`, `NAME_cells` for each mechanism, and
    `cascade_equal_cells`: cascades for which equivalence would have held too.
    """
    if found.empty:
        return pd.DataFrame(columns=SETTING)
    told = found.assign(cascade_equal=found[CASCADE] * found["equal"], classed=found[DIRECT].notna())
    counted = [CORRECTED, "classed", *MECHANISMS, "cascade_equal"]
    sums = told.groupby(SETTING, sort=False, observed=True)[[FAILED, *counted]].sum().astype(int)
    sums = sums.rename(columns={name: f"{name}_cells" for name in counted}).reset_index()
    return measured(found, SETTING, MEASURES).merge(sums, on=SETTING, validate="one_to_one")


def _told(root: Path, ids: pd.Series[str]) -> pd.DataFrame:
    """What `corrections` says of some cells, whose ids are given."""
    if ids.empty:
        return _NOTHING
    rows = (pc.field("on_path") | (pc.field("branch") == 0)) & pc.field("cell_id").isin(list(ids))
    return corrections(store.read(root, "steps", _STEPS, rows).to_pandas())


def corrections(steps: pd.DataFrame) -> pd.DataFrame:
    """By cell whose path is on a branch: `mechanism` (empty without an outline), `equal` and LATER, as in `cells`.

    Args:
        steps: the rows of `steps` of cells that resolved their case: those of the first pass, and those on the path.
    """
    first, path = steps[steps["branch"] == 0], steps[steps["on_path"].eq(True) & (steps["branch"] > 0)]
    if path.empty:
        return _NOTHING
    start = path.sort_values(_PLACE).drop_duplicates("cell_id").set_index("cell_id")
    required = start["tool_required"].eq(True)
    needed = first.loc[first["tool_required"].eq(True), ["cell_id", "reference_tool"]]
    called = pd.MultiIndex.from_arrays([start.index, start["chosen_tool"]])
    foreign = ~called.isin(pd.MultiIndex.from_frame(needed))
    equal = required & foreign & start["failed"].eq(False)
    both = first[[*_PLACE, "chosen_tool", "tool_matches"]].merge(
        path[[*_PLACE, "chosen_tool", "tool_matches"]], on=_PLACE, how="outer", suffixes=("", "_branch"), indicator=True
    )
    later = both[both["step"] > both["cell_id"].map(start["step"])]
    alike = (later["_merge"] == "both") & (later["chosen_tool"].fillna("") == later["chosen_tool_branch"].fillna(""))
    right = later["tool_matches_branch"].eq(True) & ~later["tool_matches"].eq(True)
    cascade = right.groupby(later["cell_id"]).any().reindex(start.index, fill_value=False)
    changed = (~alike).groupby(later["cell_id"]).sum().reindex(start.index, fill_value=0)
    mechanism = pd.Series(OTHER, index=start.index, dtype=object)
    direct = required & start["tool_matches"].eq(True)
    for name, holds in reversed(list(zip(MECHANISMS, (direct, cascade, equal), strict=False))):
        mechanism = mechanism.mask(holds, name)
    outlined = start["reference_tool"].notna()
    return pd.DataFrame({"mechanism": mechanism.where(outlined, ""), "equal": equal, LATER: changed})


# The table of what branching corrected, for each model and dataset.


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


def table(root: Path, frame: pd.DataFrame) -> Table:
    """Planner x robustness of one model and dataset: what `by_setting` gives of it."""
    place, own = place_of(frame), frame.reset_index(drop=True)
    counts = [count(name, header, printed=name == FAILED) for name, header in _COUNTS.items()]
    return Table(
        name=f"branching {place.model} {place.dataset}",
        title=f"{place.title}: what branches corrected, by mechanism (egb_slate, B.2)",
        by=LABELS,
        columns=[*counts, *(measure.shown() for measure in known(own, MEASURES))],
        values=own,
        query=cells_query(root, *place),
        about=f"{_MEANINGS}; in brackets 95% intervals: {intervals.SHARES}; of later steps Student's t of the mean's "
        "logarithm",
        briefly=_MEANINGS,
        notes=[*_notes(own), _PUBLISHED],
        breaks=["robustness"],
    )


def _notes(frame: pd.DataFrame) -> list[str]:
    told = [
        f"{row['planner']} ({row['robustness']}): in {row['cascade_equal_cells']:,} of {row[f'{CASCADE}_cells']:,} "
        "cascades the branched step called an equivalent tool as well"
        for row in frame.to_dict("records")
        if row["cascade_equal_cells"]
    ]
    return told + [_UNTOLD] * bool((frame["corrected_cells"] > frame["classed_cells"]).any())


# The SQL under the table of what branching corrected: `cells` by DuckDB.


def cells_query(root: Path, model: str, dataset: str) -> str:
    """One row a cell of the planners that branch, with its mechanism where the steps have a reference's tool."""
    steps = f"{root}/steps/*.parquet".replace("'", "''")
    return (
        f"{queries.latest(root, queries.place(model, dataset))},\n"
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
