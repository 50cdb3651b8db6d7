"""A results folder as data frames."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from grid import store

SETTING = ["model", "dataset", "robustness", "planner"]
"""The labels that tell settings apart; `episodes` makes them do so."""
_EPISODES = [
    *SETTING, "cell_id", "case_id", "trial", "status", "error_kind", "success", "tool_match_rate", "action_accuracy",
    "retrieval_rate", "input_tokens", "output_tokens", "llm_calls", "forward_passes", "wall_seconds",
    "retriever",
    "setting_id",
    "dataset_version",
]  # fmt: skip
_STEPS = ["cell_id", "branch", "entropy", "tool_required", "tool_matches"]


def episodes(root: Path) -> pd.DataFrame:
    """One row per cell, setting by setting, undisturbed ones first; `success` as float, NaN where not known."""
    frame: pd.DataFrame = store.read(root, "episodes", _EPISODES).to_pandas()
    frame = frame.assign(success=frame["success"].astype("float64"), disturbed=frame["robustness"] != "none")
    frame = frame.assign(planner=_told_apart(frame))
    return frame.sort_values(["model", "dataset", "disturbed", "robustness", "planner", "trial", "case_id"])


def _told_apart(frame: pd.DataFrame) -> pd.Series[str]:
    """The planners' labels, with the retriever where it varies, and the setting's id where labels do not suffice."""
    planner = frame["planner"]
    if frame["retriever"].nunique() > 1:
        planner = planner + " / " + frame["retriever"]
    setting = frame["setting_id"].str[:6] + "-" + frame["dataset_version"].str[-4:]
    labels = [frame["model"], frame["dataset"], frame["robustness"], planner]
    shared = setting.groupby(labels).transform("nunique") > 1
    return planner.where(~shared, planner + " #" + setting)


def first_pass_entropies(root: Path, cells: pd.DataFrame) -> pd.DataFrame:
    """The first pass's decisions that need a tool and recorded an entropy, with their setting (egb_slate §6.2)."""
    steps: pd.DataFrame = store.read(root, "steps", _STEPS).to_pandas()
    taken = steps[(steps["branch"] == 0) & steps["entropy"].notna() & steps["tool_required"].eq(True)]
    taken = taken.assign(error=~taken["tool_matches"].astype(bool))
    return cells[["cell_id", *SETTING]].merge(taken, on="cell_id", validate="one_to_many")
