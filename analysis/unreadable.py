"""Answers that could not be read: a setting whose answers mostly could not has no result to speak of."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from analysis import load
from analysis.load import SETTING
from grid import store
from grid.core.errors import ErrorKind
from grid.core.roles import ACTOR

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
    found = by_setting(root) if episodes is None else _by_setting(root, episodes)
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


def by_setting(root: Path) -> pd.DataFrame:
    """By setting and role the `answers` that were sampled, and how many of them are `unread`.

    Of a cell of which it was not kept what it asked (`store.transcripts`), each decision on any branch counts as an
    answer of the acting model, and so does a plan that could not be read after all tries.
    """
    return _by_setting(root, load.episodes(root, ["n_messages"]))


def shares(root: Path, episodes: pd.DataFrame) -> pd.DataFrame:
    """By setting, of the acting model's answers the shares that are `unreadable` and that were `cut`; NaN without any.

    `cut` are those that the limit on tokens, or a filter, ended before the model did.
    """
    counted = _by_setting(root, episodes)
    acting = counted[counted["role"] == ACTOR].set_index(SETTING)
    sums = episodes.groupby(SETTING, sort=False, observed=True)[["cut_answers", "llm_calls"]].sum()
    cut = sums["cut_answers"] / sums["llm_calls"].where(sums["llm_calls"] > 0)
    unread = acting["unread"] / acting["answers"].where(acting["answers"] > 0)
    return pd.DataFrame({"cut": cut}).join(unread.rename("unreadable")).reset_index()


def _by_setting(root: Path, episodes: pd.DataFrame) -> pd.DataFrame:
    counts = [_asked(root)]
    unkept = episodes[episodes["n_messages"].isna()]
    if len(unkept):
        counts += [_decided(root, unkept), _broken_off(unkept)]
    counted = pd.concat(counts).merge(episodes[["cell_id", *SETTING]], on="cell_id")
    return counted.groupby([*SETTING, "role"], sort=False, observed=True)[["answers", "unread"]].sum().reset_index()


def _asked(root: Path) -> pd.DataFrame:
    """By cell and role, of those requests that have been kept."""
    rows = store.read(root, "messages", ["cell_id", "role", "n", "unreadable"], pc.field("n").is_valid(), ["role"])
    unread = pc.list_value_length(rows["unreadable"])
    found: pd.DataFrame = pa.table([rows["cell_id"], rows["role"], rows["n"], unread], _COUNTS).to_pandas()
    return _summed(found)


def _decided(root: Path, cells: pd.DataFrame) -> pd.DataFrame:
    """By cell, of its decisions."""
    ids = pa.array(cells["cell_id"], pa.string())
    steps: pd.DataFrame = store.read(
        root, "steps", ["cell_id", "chosen_tool"], pc.field("cell_id").isin(ids)
    ).to_pandas()
    found = steps.assign(role=ACTOR, answers=1, unread=steps["chosen_tool"].isna().astype(int))
    return _summed(found)


def _broken_off(cells: pd.DataFrame) -> pd.DataFrame:
    """Cells that broke off as an answer could not be read."""
    broken = cells[cells["error_kind"] == ErrorKind.MODEL]
    return broken[["cell_id"]].assign(role=ACTOR, answers=1, unread=1)


def _summed(found: pd.DataFrame) -> pd.DataFrame:
    return found.groupby(_COUNTS[:2], sort=False, observed=True)[_COUNTS[2:]].sum().reset_index()
