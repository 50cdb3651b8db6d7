"""The mechanisms that correct a case after a failed first pass (egb_slate B.2, 'How Branching Reduces Error').

A planner that branches (`egb_*`) first goes through a case once. If this first pass fails, the planner changes one of
its decisions, the *branched step*, and decides all later steps again. A cell is *corrected* if its path leaves the
first pass and resolves the case. If the planner of a corrected cell followed an outline, the first mechanism in this
list that applies is the cell's mechanism:

- direct: the branched step needs a tool, and calls the reference's tool.
- cascade: at a later step that needs a tool, the branch calls the reference's tool, but the first pass did not.
- equivalence: the branched step needs a tool, calls a tool that the reference calls at no step of the case, and the
  call did not fail. If tools look calls up (SLATE, UltraTool), a call that does not fail returns the result of one of
  the reference's calls. Usually this is the reference's call at this step, but this is not checked.
- other: none of these applies. For example, the branch corrected only arguments, or calls at steps that need no tool.

So each corrected cell with an outline has exactly one mechanism. Tools are compared by name. The mechanisms are checked
in the paper's order. The paper names the first three mechanisms, whose shares add up to 100%, and no fourth.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from analysis.load import SETTING
from analysis.load.queries import LABELLED, Asked, ask
from analysis.page.table import Table, count, number, texts
from analysis.stats import intervals
from analysis.tables.measures import Measure, known, measured
from analysis.tables.rates import LABELS, place_of
from grid import store

DIRECT, CASCADE, EQUIVALENCE, OTHER = "direct", "cascade", "equivalence", "other"
MECHANISMS = (DIRECT, CASCADE, EQUIVALENCE, OTHER)
"""The mechanisms in the order in which they are checked."""
CORRECTED, LATER, FAILED = "corrected", "later_steps", "failed_first"
MEASURES = [
    Measure(CORRECTED, "corrected"),
    *(Measure(name, name) for name in MECHANISMS),
    Measure(LATER, "later", "amount", scale=1.0, form=".2f"),
]
_STEPS = [
    "cell_id", "branch", "step", "on_path", "tool_required", "reference_tool", "chosen_tool", "failed", "tool_matches",
]  # fmt: skip
_CELLS = f"""WITH k AS (SELECT * FROM e WHERE {{where}} AND success IS NOT NULL
  AND setting_id IN (SELECT setting_id FROM e WHERE branched_steps IS NOT NULL)),
s AS (SELECT s.* FROM steps AS s JOIN k USING (cell_id) WHERE success::BOOLEAN AND branched_steps > 0),
f AS (SELECT cell_id, step, tool_required, reference_tool, chosen_tool AS tool, tool_matches AS matches, TRUE AS there
  FROM s WHERE branch = 0),
p AS (SELECT * FROM s WHERE on_path AND branch > 0),
c AS (SELECT *, coalesce(tool_required AND NOT failed AND (cell_id, chosen_tool) NOT IN
    (SELECT (cell_id, reference_tool) FROM f WHERE tool_required), FALSE) AS equal
  FROM p QUALIFY row_number() OVER (PARTITION BY cell_id ORDER BY step) = 1),
l AS (SELECT cell_id, coalesce(bool_or(p.tool_matches AND NOT coalesce(matches, FALSE)), FALSE) AS repaired,
    count(*) FILTER (there IS NULL OR p.branch IS NULL OR tool IS DISTINCT FROM p.chosen_tool) AS changed
  FROM f FULL JOIN p USING (cell_id, step) JOIN (SELECT cell_id, step AS start FROM c) USING (cell_id)
  WHERE step > start GROUP BY ALL)
SELECT model, dataset, robustness, planner, cluster, case_id, cell_id,
  c.step IS NOT NULL OR NOT success::BOOLEAN AS {FAILED},
  if({FAILED}, c.step IS NOT NULL, NULL) AS {CORRECTED},
  CASE WHEN c.reference_tool IS NULL THEN NULL WHEN c.tool_required AND c.tool_matches THEN '{DIRECT}'
    WHEN repaired THEN '{CASCADE}' WHEN equal THEN '{EQUIVALENCE}' ELSE '{OTHER}' END AS mechanism,
  equal, if(c.reference_tool IS NULL, NULL, coalesce(changed, 0)) AS {LATER}
FROM k LEFT JOIN c USING (cell_id) LEFT JOIN l USING (cell_id)"""
_MEANS = [
    f"avg({FAILED}::INT) AS {FAILED}, avg({CORRECTED}::INT) AS {CORRECTED}, avg({LATER}) AS {LATER}",
    *(f"avg((mechanism = '{name}')::INT) AS {name}" for name in MECHANISMS),
]
_COUNTED = {
    f"all_{FAILED}": FAILED, "corrected_cells": CORRECTED, "classed_cells": "mechanism IS NOT NULL",
    **{f"{name}_cells": f"mechanism = '{name}'" for name in MECHANISMS},
    "cascade_equal_cells": f"mechanism = '{CASCADE}' AND equal",
}  # fmt: skip


def steps(root: Path) -> pa.Table:
    """The rows that are read from the table `steps`: decisions of first passes, and decisions on paths.

    Raises:
        StoreError: the folder cannot be read.
    """
    return store.read(root, "steps", _STEPS, pc.field("on_path") | (pc.field("branch") == 0))


def cells(episodes: pd.DataFrame, steps: pa.Table, where: str = "true") -> Asked:
    """One row per cell of the planners that branch, if its success is known.

    Columns: labels, `cluster`, `case_id`, `cell_id`; FAILED (whether the first pass did not resolve the case);
    CORRECTED (whether the cell was corrected; null if the first pass resolved the case); `mechanism` (null if the cell
    is not corrected or no outline was followed); `equal` (whether the condition of equivalence holds, whatever the
    mechanism); LATER (the number of later steps at which the branch that resolved the case chose a different tool from
    the first pass, or that only one of the two has; null in the same cells as `mechanism`).
    """
    return ask(episodes, _CELLS.format(where=where), steps=steps)


def by_case(episodes: pd.DataFrame, steps: pa.Table, where: str = "true") -> Asked:
    """The columns of `cells` as means over trials, by setting and case, and the counts that `by_setting` adds up."""
    sums = [f"count(*) FILTER ({text}) AS {name}" for name, text in _COUNTED.items()]
    columns = ",\n  ".join([LABELLED, "cluster, case_id, count(*) AS cells", *_MEANS, *sums])
    query = f"SELECT {columns}\nFROM ({_CELLS.format(where=where)}) GROUP BY ALL ORDER BY ALL"
    return ask(episodes, query, steps=steps)


def by_setting(cases: pd.DataFrame) -> pd.DataFrame:
    """One row per setting, from the rows of `by_case`: each of MEASURES with its 95% interval, and counts of cells.

    A mean is over cases; a case's value is its mean over the trials in which the measure is known
    (`measures.measured`). Counts: `cells`, FAILED, and `corrected_cells`, `classed_cells`, `NAME_cells` for each
    mechanism, and `cascade_equal_cells`: cascades in which the condition of equivalence holds too.
    """
    if cases.empty:
        return pd.DataFrame(columns=SETTING)
    sums = cases.groupby(SETTING, sort=False, observed=True)[[*_COUNTED]].sum().reset_index()
    sums = sums.rename(columns={f"all_{FAILED}": FAILED})
    return measured(cases, SETTING, MEASURES).merge(sums, on=SETTING, validate="one_to_one")


# The table of corrections by branching, for each model and dataset.


_COUNTS = {"cells": "cells", FAILED: "failed first", "corrected_cells": "corrected cells"}
_MEANINGS = (
    "failed first: number of cells whose first pass did not resolve the case; corrected: share of these cells that a "
    "branch resolved, in %; then, in % of the corrected cells, the share of each mechanism (if several apply, the "
    "first counts); each share is a mean over cases, so a case counts once, however many of its trials failed first; "
    "direct: the branched step calls the reference's tool; cascade: a later step calls the reference's tool for this "
    "step, and the first pass did not; equivalence: the branched step calls a tool that the reference never calls, and "
    "the call does not fail; other: none of these; later: the number of steps after the branched step whose tool is "
    "not the same as in the first pass"
)
_PUBLISHED = (
    "published (egb_slate B.2: EGB-Logits with Qwen on SLATE): 68 of 114 corrected (59.6%), of these direct 17.6%, "
    "cascade 30.9%, equivalence 51.5%, other 0%; 0.9 later steps"
)
_UNTOLD = "some cells have no known mechanism: they follow no outline, so the reference gives no tool for their steps"


def table(frame: pd.DataFrame, query: str) -> Table:
    """The table of planner x robustness for one model and dataset, from the rows of `by_setting`."""
    place, own = place_of(frame), frame.reset_index(drop=True)
    counts = [count(name, header, printed=name == FAILED) for name, header in _COUNTS.items()]
    return Table(
        name=f"branching {place.model} {place.dataset}",
        title=f"{place.title}: corrections by branches, and their mechanisms (egb_slate, B.2)",
        by=LABELS,
        columns=[*counts, *(measure.shown() for measure in known(own, MEASURES))],
        values=own,
        query=query,
        about=f"{_MEANINGS}; in brackets 95% intervals: {intervals.SHARES}; for later steps: Student's t on the "
        "logarithm of the mean",
        briefly=_MEANINGS,
        notes=[*_notes(own), _PUBLISHED],
        breaks=["robustness"],
    )


def _notes(frame: pd.DataFrame) -> list[str]:
    told = [
        f"{row['planner']} ({row['robustness']}): in {row['cascade_equal_cells']:,} of {row[f'{CASCADE}_cells']:,} "
        "cascades the branched step also called an equivalent tool"
        for row in frame.to_dict("records")
        if row["cascade_equal_cells"]
    ]
    return told + [_UNTOLD] * bool((frame["corrected_cells"] > frame["classed_cells"]).any())


# Entropy against error: if first-pass decisions with high entropy are often wrong, branching there makes sense.


ENTROPY_BINS = 5
CHOICES = {"right": False, "wrong": True}
"""The names that columns use for right and for wrong steps, and for each name whether the step is an error."""
_CENTRES = {"mean": ".3f", "median": ".3f", "n": ",.0f"}
"""The statistics shown for the entropy of right and of wrong choices, with their formats."""
_CENTRE_HEADERS = [name if part == "mean" else f"{name} {part}" for name in CHOICES for part in _CENTRES]
_ENTROPY_PUBLISHED = (
    "published (egb_slate B.2: EGB-Logits with Qwen on SLATE): right: n 233, mean 0.052, median 0.000; "
    "wrong: n 349, mean 0.119, median 0.081; the bins in the paper's table 8 have a mean of at least 0.41, so the "
    "published means must be in another unit"
)


def choices(root: Path) -> pa.Table:
    """The rows of the table `steps` that `entropies` reads: first-pass decisions that recorded an entropy.

    Raises:
        StoreError: the folder cannot be read.
    """
    columns = ["cell_id", "branch", "step", "tool_required", "entropy", "tool_matches"]
    first = (pc.field("branch") == 0) & pc.field("entropy").is_valid() & pc.field("tool_required")
    return store.read(root, "steps", columns, first)


def entropies(cells: pd.DataFrame, steps: pa.Table, condition: str = "true") -> Asked:
    """The first-pass decisions that need a tool and recorded an entropy, with their settings (egb_slate §6.2)."""
    query = (
        f"SELECT {LABELLED}, case_id, trial, step, entropy, NOT coalesce(tool_matches, false) AS error\n"
        f"FROM e JOIN steps USING (cell_id)\n"
        f"WHERE {condition} AND branch = 0 AND entropy IS NOT NULL AND tool_required ORDER BY ALL"
    )
    return ask(cells, query, steps=steps)


def entropy_errors(steps: pd.DataFrame) -> pd.DataFrame:
    """Error rate by entropy (egb_slate tables 6 and 8).

    Each setting has bins of equal width, from 0 to the setting's largest entropy.

    `steps` has one row per first-pass decision that needs a tool: the setting, `entropy` in nats, `error`. The result
    has one row per setting and bin: SETTING, `low` and `high` (the bin's edges), `steps`, `errors` and `error_rate`
    (NaN if the bin is empty).
    """
    rows = []
    for key, group in steps.groupby(SETTING, sort=False, observed=True):
        edges = np.linspace(0.0, max(float(group["entropy"].max()), 1e-12), ENTROPY_BINS + 1)
        place = np.clip(np.searchsorted(edges, group["entropy"], side="right") - 1, 0, ENTROPY_BINS - 1)
        for index in range(ENTROPY_BINS):
            errors = group["error"][place == index]
            rows.append([*key, edges[index], edges[index + 1], len(errors), int(errors.sum())])
    frame = pd.DataFrame(rows, columns=[*SETTING, "low", "high", "steps", "errors"])
    return frame.assign(error_rate=frame["errors"] / frame["steps"].where(frame["steps"] > 0))


def entropy_centres(steps: pd.DataFrame) -> pd.DataFrame:
    """One row per setting: mean, median and number of entropies of right and of wrong choices (egb_slate B.2).

    `steps` are the same as for `entropy_errors`. The columns are the names of CHOICES with `_mean`, `_median` (NaN if
    there is no such choice) and `_n`.
    """
    parts = []
    for name, wrong in CHOICES.items():
        own = steps["entropy"].where(steps["error"].astype(bool) == wrong)
        grouped = own.groupby([steps[column] for column in SETTING], sort=False, observed=True)
        found = grouped.agg(["mean", "median", "count"])
        parts.append(found.set_axis([f"{name}_{part}" for part in ("mean", "median", "n")], axis=1))
    return pd.concat(parts, axis=1).reset_index()


def entropy_table(errors: pd.DataFrame, steps: pd.DataFrame, query: str) -> Table:
    """Error rate by entropy in first passes, a column per bin; number, mean and median for right and wrong choices."""
    place, centres = place_of(errors), entropy_centres(steps)
    of_setting = {tuple(str(row[name]) for name in SETTING): row for row in centres.to_dict("records")}
    rows = []
    for key, group in errors.groupby(SETTING, sort=False, observed=True):
        names = [str(part) for part in key]
        shares = [
            f"{row['errors']}/{row['steps']} {100 * row['error_rate']:.0f}%" if row["steps"] else "none"
            for row in group.to_dict("records")
        ]
        own = of_setting[tuple(names)]
        told = [number(own[f"{name}_{part}"], form) for name in CHOICES for part, form in _CENTRES.items()]
        rows.append([*names[2:], f"{group['high'].max():.3f}", *shares, *told])
    unprinted = frozenset(_CENTRE_HEADERS) - frozenset(CHOICES)
    bins = [f"bin {index}" for index in range(1, ENTROPY_BINS + 1)]
    columns = texts([*LABELS, "max", *bins, *_CENTRE_HEADERS])[len(LABELS) :]
    return Table(
        name=f"entropy {place.model} {place.dataset}",
        title=f"{place.title}: entropy against error in first-pass decisions that need a tool (egb_slate, table 6)",
        about="bins: ranges of equal width from 0 to the largest entropy (max, in nats), each with errors/steps and "
        "the error rate; right, wrong: mean entropy of right and of wrong choices; median: their median entropy; n: "
        "their number",
        by=texts(LABELS),
        columns=[replace(one, printed=one.header not in unprinted) for one in columns],
        lines=rows,
        values=errors.merge(centres, on=SETTING, how="left"),
        query=query,
        notes=[_ENTROPY_PUBLISHED],
    )
