"""First-pass decisions with a distribution over the options: its confidence, its entropy, and whether it was right."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from analysis import load, planted, queries
from analysis.intervals import CLUSTER
from analysis.load import SETTING
from grid import store

EXACT, VOTES = "exact choice", "votes"
"""Where a distribution comes from: the model's own probabilities, or sampled answers."""
_STEPS = ["cell_id", "entropy", "reference_tool", "options"]
_DIGITS = 9  # entropies and shares that differ by rounding are equal


def read(root: Path) -> pd.DataFrame:
    """One row a first-pass decision that recorded a distribution, setting by setting.

    Columns: SETTING, `cell_id`, `cluster`, `engine`; `distribution` (EXACT, or VOTES with their number); `confidence`,
    the probability of the most probable option, which is the one taken; `entropy` in nats; `right`: that option is the
    reference's, or says as the reference does that no tool is needed. `right` is NaN where no reference is known, and
    `confidence` where a planner that records options had none (no answer could be read), or one without a number.

    Raises:
        StoreError: the folder cannot be read.
    """
    first = pc.field("branch") == 0
    table = store.read(root, "steps", _STEPS, first & pc.field("entropy").is_valid())
    if not table.num_rows:
        return pd.DataFrame()
    cells = load.episodes(root, [*planted.COLUMNS, "config"])
    recording = cells["cell_id"].isin(table["cell_id"].to_pandas())
    settings = cells.groupby(SETTING, sort=False, observed=True).ngroup()
    cells = cells[settings.isin(settings[recording].unique())]
    kinds = {text: distribution(str(text)) for text in cells["config"].cat.remove_unused_categories().cat.categories}
    cells = cells.assign(distribution=cells["config"].astype(object).map(kinds))
    theirs = pc.field("cell_id").isin(pa.array(cells["cell_id"]))
    silent = store.read(root, "steps", ["cell_id"], first & pc.field("entropy").is_null() & theirs).to_pandas()
    taken = pd.concat([judged(table), silent], ignore_index=True)
    known = [*SETTING, "cell_id", CLUSTER, planted.ENGINE, "distribution"]
    found = cells[known].merge(taken, on="cell_id", validate="one_to_many")
    return found.assign(right=found["right"].astype("float64"))


def judged(table: pa.Table) -> pd.DataFrame:
    """`cell_id`, `entropy`, `confidence`, `right` and `reference_tool` of each row of the table `steps`."""
    options = table["options"].combine_chunks()
    each = pc.list_flatten(options)
    tops = pd.DataFrame({
        "row": pc.list_parent_indices(options).to_numpy(),
        "top": pc.struct_field(each, "tool").to_pandas(),
        "confidence": pc.struct_field(each, "probability").to_numpy(zero_copy_only=False),
    })  # fmt: skip
    tops = tops.dropna().sort_values(["row", "confidence"], ascending=[True, False], kind="stable")
    tops = tops.drop_duplicates("row").set_index("row")
    found = table.drop_columns(["options"]).to_pandas().join(tops)
    right = (found["top"] == found["reference_tool"]).astype("float64")
    found = found.assign(right=right.where(found["top"].notna() & found["reference_tool"].notna()))
    kept: pd.DataFrame = found.drop(columns="top")
    return kept.round({"confidence": _DIGITS, "entropy": _DIGITS})


def distribution(config: str) -> str:
    """What a planner's distribution is, by the resolved configuration: planners that vote have a number of samples."""
    planner: Any = json.loads(config or "{}").get("planner")
    samples = planner.get("samples") if isinstance(planner, dict) else None
    return EXACT if samples is None else f"{VOTES} of {samples}"


def query(root: Path, model: str, dataset: str) -> str:
    """The decisions of one model and dataset as SQL."""
    steps = f"{root}/steps/*.parquet".replace("'", "''")
    of = queries.where({"model": [model], "dataset": [dataset]})
    most = "list_max([o.probability FOR o IN options])"
    return (
        f"{queries.latest(root)}\nSELECT robustness, planner, setting_id, cluster, cell_id, step, entropy,\n"
        f"  {most} AS confidence,\n"
        f"  [o.tool FOR o IN options IF o.probability = {most}][1] = reference_tool AS right\n"
        f"FROM e JOIN '{steps}' AS s USING (cell_id, attempt_id)\n"
        f"WHERE {of} AND branch = 0 AND entropy IS NOT NULL AND len(options) > 0\n"
        "  AND reference_tool IS NOT NULL\nORDER BY ALL"
    )
