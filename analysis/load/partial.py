"""Settings of which cells are missing, as a sweep was interrupted or still runs: they are marked in every report."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pandas as pd

from analysis.load.frames import SETTING
from grid import store

_NAMED = 3
"""Settings that a line names."""


def planned(root: Path, episodes: pd.DataFrame) -> pd.DataFrame:
    """One row per setting: `SETTING`, and how many of its cells are `done`, of how many that are `planned`.

    The sweep's own record says how many are planned, and which settings have no cell yet; they stand last. A folder
    without one, made before sweeps kept it or gathered from others, shows it by its rows: planned are then as many
    cells as the largest setting has of the same model, dataset and robustness setting.

    Raises:
        StoreError: the record cannot be read.
    """
    known = store.runs(root)["settings"]
    grouped = episodes.groupby([*SETTING, "setting_id"], sort=False, observed=True, dropna=False)
    done = grouped.size().reset_index(name="done")
    asked = done["setting_id"].astype(str).map({name: setting["cells"] for name, setting in known.items()})
    largest = done.groupby(SETTING[:3], sort=False, observed=True)["done"].transform("max")
    found = done.assign(planned=asked.fillna(largest).clip(lower=done["done"]).astype(int))
    begun = set(done["setting_id"].astype(str))
    rest = [
        {**{name: cast(dict[str, str], setting)[name] for name in SETTING}, "done": 0, "planned": setting["cells"]}
        for name, setting in known.items()
        if name not in begun
    ]
    columns = [*SETTING, "done", "planned"]
    texts = found.astype(dict.fromkeys(SETTING, str))[columns]
    return pd.concat([texts, pd.DataFrame(rest, columns=columns)], ignore_index=True) if rest else texts


def with_planned(results: pd.DataFrame, plan: pd.DataFrame) -> pd.DataFrame:
    """The settings of `tables.results` with their cells that are `planned`."""
    cells = plan.set_index(SETTING)["planned"]
    keys = pd.MultiIndex.from_frame(results[SETTING].astype(str))
    return results.assign(planned=cells.reindex(keys).to_numpy())


def lines(plan: pd.DataFrame) -> list[str]:
    """A line that says which settings are not complete; none where all are."""
    missing = plan[plan["done"] < plan["planned"]]
    if missing.empty:
        return []
    told = [
        f"{row['planner']} on {row['dataset']} ({row['robustness']}): {row['done']:,} of {row['planned']:,} cells"
        for row in missing.head(_NAMED).to_dict("records")
    ]
    more = f"; and {len(missing) - _NAMED:,} more" if len(missing) > _NAMED else ""
    return [
        f"Partial results: {len(missing):,} of {len(plan):,} settings are not complete ({'; '.join(told)}{more}). Run "
        "the sweep again with the same name to complete them. Differences compare the cases that both planners have."
    ]
