"""What a results folder lacks of the planning-horizon study that it has begun."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from analysis.load import provenance
from analysis.papers import horizon, study
from grid.core.errors import StoreError

_HOW = "`agent-grid sweep -m +experiment=planning_horizon` runs what they need"


def missing(root: Path) -> list[str]:
    """A sentence for each part that is missing; none where nothing is, nor where neither `fh` nor `sh` was run.

    Raises:
        StoreError: the folder cannot be read.
    """
    episodes = study.rows(root)
    return [] if episodes.empty else sentences(episodes)


def opened(root: Path) -> tuple[pd.DataFrame, list[str]]:
    """What a notebook begins with: what `study.rows` gives, and what it shows and lacks, in sentences.

    A folder that cannot be read has no rows, and the reason is its sentence.
    """
    try:
        episodes = study.rows(root, provenance.COLUMNS)
        return episodes, [provenance.headline(root), *sentences(episodes)]
    except StoreError as error:
        return pd.DataFrame({"planner": [], "robustness": []}), [f"There is nothing to show: {error}"]


def sentences(episodes: pd.DataFrame) -> list[str]:
    """As `missing`, of what `study.rows` gives."""
    if not study.both(episodes):
        there = ", ".join(sorted(set(episodes["planner"].astype(str)))) or "neither"
        compared = f"they compare the planners fh and sh where calls are run, and of these there is {there} here"
        return [f"planning_horizon's tables 2 to 6 and figures are not here: {compared}; {_HOW}."]
    found = []
    if horizon.robustness_change(episodes).empty:
        needed = f"{horizon.HIGH} and {horizon.LOW} of one model on one data set"
        found.append(f"planning_horizon's table 4 is not here: it needs {needed}; {_HOW}.")
    if episodes["depth"].isna().all():
        found.append(
            "planning_horizon's table 3 and the figures by depth and breadth are not here: of no case the reference's "
            "plan is known."
        )
    return found
