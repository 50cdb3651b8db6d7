"""Answers that could not be read: a setting whose answers mostly could not has no result to speak of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from analysis import load
from analysis.load import SETTING
from grid import store
from grid.core.engine import ACTOR
from grid.core.errors import ErrorKind

MOST = 0.5
"""A larger share of a setting's answers is a warning."""
MANY = 0.01
"""A larger share of any row's answers is a column of its table."""
COLUMNS = ("n_messages", "cut_answers")
"""The columns of `episodes` that `shares` needs, besides those that every table reads."""
_COUNTS = ["cell_id", "role", "answers", "unread"]


def warnings(root: Path, episodes: pd.DataFrame | None = None) -> list[str]:
    """A line for each setting, and role, of whose answers more than half could not be read.

    Args:
        root: the folder.
        episodes: its cells with `n_messages`, where they have been read.

    Raises:
        StoreError: the folder cannot be read.
    """
    found = by_setting(root, episodes)
    lines = []
    for row in found[found["unread"] > MOST * found["answers"]].to_dict("records"):
        whose = "answers" if row["role"] == ACTOR else f"the {row['role']}'s answers"
        disturbed = f" ({row['robustness']})" if row["robustness"] != "none" else ""
        lines.append(
            f"warning: {row['model']}, {row['planner']} on {row['dataset']}{disturbed}: "
            f"{100 * row['unread'] / row['answers']:.0f}% of {whose} could not be read (of {row['answers']:,}); its "
            f"figures say little; see: agent-grid view {root}"
        )
    return lines


def by_setting(root: Path, episodes: pd.DataFrame | None = None) -> pd.DataFrame:
    """By setting and role the `answers` that were sampled, and how many of them are `unread`.

    Of a cell of which it was not kept what it asked (`store.transcripts`), each decision on any branch counts as an
    answer of the acting model, and so does a plan that could not be read after all tries. `episodes` are all cells of
    the folder with `n_messages`, where they have been read.
    """
    made = lambda: _by_setting(root, load.episodes(root, ["n_messages"]) if episodes is None else episodes)  # noqa: E731
    return load.once(root, "unreadable", made, few=True)


def shares(root: Path, episodes: pd.DataFrame) -> pd.DataFrame:
    """By setting, of the acting model's answers the shares that are `unreadable` and that were `cut`; NaN without any.

    `cut` are those that the limit on tokens, or a filter, ended before the model did.
    """
    counted = by_setting(root, episodes)
    acting = counted[counted["role"] == ACTOR].set_index(SETTING)
    sums = episodes.groupby(SETTING, sort=False, observed=True)[["cut_answers", "llm_calls"]].sum()
    cut = sums["cut_answers"] / sums["llm_calls"].where(sums["llm_calls"] > 0)
    unread = acting["unread"] / acting["answers"].where(acting["answers"] > 0)
    return pd.DataFrame({"cut": cut}).join(unread.rename("unreadable")).reset_index()


def _by_setting(root: Path, episodes: pd.DataFrame) -> pd.DataFrame:
    counted = [_asked(root)]
    unkept = episodes[episodes["n_messages"].isna()]
    if len(unkept):
        counted += [_decided(root, unkept), _broken_off(unkept)]
    grouped = episodes.groupby(SETTING, sort=False, observed=True)
    places, ids = grouped.ngroup().to_numpy(), pa.array(episodes["cell_id"], pa.string())
    found: list[pd.DataFrame] = [_summed(one, places, ids) for one in counted]
    sums = pd.concat(found).groupby(["place", "role"], observed=True)[["answers", "unread"]].sum().reset_index()
    settings = grouped[SETTING].head(1).reset_index(drop=True)
    return settings.join(sums.set_index("place"), how="inner").reset_index(drop=True)


def _summed(rows: pa.Table, places: npt.NDArray[np.integer[Any]], ids: pa.Array) -> pd.DataFrame:
    """Answers by setting and role; `rows` have cells and counts, `places` the setting of each of the cells `ids`."""
    own = pc.index_in(rows["cell_id"], ids)
    known = rows.append_column("place", pa.array(places).take(own)).filter(own.is_valid()).drop_columns("cell_id")
    found: pd.DataFrame = known.to_pandas().astype({"role": object})
    return found.groupby(["place", "role"], sort=False)[["answers", "unread"]].sum().reset_index()


def _asked(root: Path) -> pa.Table:
    """By request, of those that have been kept."""
    rows = store.read(root, "messages", ["cell_id", "role", "n", "unreadable"], pc.field("n").is_valid(), ["role"])
    return pa.table([rows["cell_id"], rows["role"], rows["n"], pc.list_value_length(rows["unreadable"])], _COUNTS)


def _decided(root: Path, cells: pd.DataFrame) -> pa.Table:
    """By decision of these cells."""
    ids = pa.array(cells["cell_id"], pa.string())
    rows = store.read(root, "steps", ["cell_id", "chosen_tool"], pc.field("cell_id").isin(ids))
    return _of_actor(rows["cell_id"], rows["chosen_tool"].is_null())


def _broken_off(cells: pd.DataFrame) -> pa.Table:
    """Cells that broke off as an answer could not be read."""
    broken = pa.array(cells["cell_id"][cells["error_kind"] == ErrorKind.MODEL], pa.string())
    return _of_actor(broken, pa.repeat(True, len(broken)))


def _of_actor(cells: pa.Array | pa.ChunkedArray, unread: pa.Array | pa.ChunkedArray) -> pa.Table:
    """An answer of the acting model each."""
    return pa.table([cells, pa.repeat(ACTOR, len(cells)), pa.repeat(1, len(cells)), unread.cast(pa.int64())], _COUNTS)
