"""Every report names the gaps in its figures: missing cells, spent budgets, failed calls and skipped records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import pandas as pd

from analysis.load.frames import SETTING, UNCHANGED, models
from analysis.page.table import Table
from grid import store

_NAMED = 3
"""Maximum number of settings that a line names."""
_MOST_STOPPED = 0.5
"""If a budget ended more than this share of a setting's cells, there is a warning."""
_MOST_FAILED = 0.9
"""If more than this share of an undisturbed setting's tool calls failed, there is a warning."""
CALLS = "tool_calls", "failed_calls"
"""The columns of `episodes` that `failing` needs."""


def planned(root: Path, episodes: pd.DataFrame) -> pd.DataFrame:
    """One row per setting, with the columns `SETTING`, and the numbers of cells in the columns `done` and `planned`.

    The sweep's own record gives the number of planned cells, and names the settings that have no cells yet. Settings
    without cells come last; if another setting has the same labels, their ids are added to their planners' labels,
    because the record has no other labels. A folder has no record if it was made before sweeps kept one, or if it was
    gathered from other folders. In that case, the number of planned cells is the number of cells of the largest setting
    with the same model, dataset and robustness setting.

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
    names = models(root)
    rest = [
        {
            **{name: cast(dict[str, str], setting)[name] for name in SETTING},
            "model": names.get(setting["model"], setting["model"]),
            "setting_id": name,
            "done": 0,
            "planned": setting["cells"],
        }
        for name, setting in known.items()
        if name not in begun
    ]
    columns = [*SETTING, "done", "planned"]
    texts = found.astype(dict.fromkeys(SETTING, str))[columns]
    if not rest:
        return texts
    plan = pd.concat([texts, pd.DataFrame(rest)], ignore_index=True)
    alike = plan.duplicated(SETTING, keep=False) & (plan["done"] == 0)
    longer = plan["planner"] + " #" + plan["setting_id"].str[:6]
    return plan.assign(planner=plan["planner"].mask(alike, longer))[columns]


def with_planned(results: pd.DataFrame, plan: pd.DataFrame) -> pd.DataFrame:
    """The settings of `rates.results`, with a column `planned`: the number of planned cells."""
    cells = plan[plan["done"] > 0].set_index(SETTING)["planned"]
    keys = pd.MultiIndex.from_frame(results[SETTING].astype(str))
    return results.assign(planned=cells.reindex(keys).to_numpy())


def lines(plan: pd.DataFrame) -> list[str]:
    """A line that says which settings are not complete; no line if all are."""
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
        "the sweep again with the same name to complete them. Differences between two planners are computed on the "
        "cases that both have."
    ]


# Records that data sets skipped. Notes under tables report these records, because no rate includes them.


_KINDS = 5
"""Maximum number of reasons that a line names; the record of the runs has all reasons."""


def skipped(root: Path) -> dict[str, str]:
    """Map the label of each data set that skipped records to a line about these; empty if the runs recorded none.

    Raises:
        StoreError: the record cannot be read.
    """
    return {dataset: _line(dataset, reasons) for dataset, reasons in store.runs(root).get("skipped", {}).items()}


def with_skipped(tables: Sequence[Table], lines: Mapping[str, str]) -> list[Table]:
    """The tables, each with the lines about its data sets added to its notes."""
    return [replace(table, notes=[*table.notes, *_shown(table, lines)]) for table in tables]


def _shown(table: Table, lines: Mapping[str, str]) -> list[str]:
    shown = set(table.values["dataset"].dropna().astype(str)) if "dataset" in table.values else set()
    return [line for dataset, line in lines.items() if dataset in shown]


def _line(dataset: str, reasons: Mapping[str, int]) -> str:
    ranked = sorted(reasons.items(), key=lambda one: -one[1])
    told = "; ".join(f"{count:,}: {reason}" for reason, count in ranked[:_KINDS])
    more = f"; and {len(ranked) - _KINDS:,} more reasons, which run.json lists" if len(ranked) > _KINDS else ""
    count = sum(reasons.values())
    left_out = f"{count:,} records are left out, so no result includes them"
    if count == 1:
        left_out = "1 record is left out, so no result includes it"
    return f"{dataset}: {left_out} ({told}{more})"


def stopped(episodes: pd.DataFrame) -> list[str]:
    """A line for each setting in which a budget was used up in more than half of the cells.

    `episodes` are cells with the column `budget_reached`.
    """
    lines = []
    for key, own in episodes.groupby(SETTING, sort=False, observed=True):
        reached = own["budget_reached"].dropna().astype(str)
        if len(reached) <= _MOST_STOPPED * len(own):
            continue
        model, dataset, robustness, planner = map(str, key)
        disturbed = f" ({robustness})" if robustness != UNCHANGED else ""
        budgets = " or ".join(f"budget.{name}" for name in sorted(set(reached)))
        lines.append(
            f"warning: {model}, {planner} on {dataset}{disturbed}: {budgets} was used up in {len(reached):,} of "
            f"{len(own):,} cells; they are scored on the best result that they had by then"
        )
    return lines


def failing(episodes: pd.DataFrame) -> list[str]:
    """A line for each model and data set if, without disturbances, over nine tenths of a planner's tool calls failed.

    `episodes` are cells with the columns `CALLS`. The failures count against the planner, but the cause may be a tool,
    a key or a reference to an earlier result.
    """
    lines = []
    plain = episodes[episodes["robustness"] == UNCHANGED]
    for (model, dataset), own in plain.groupby(["model", "dataset"], sort=False, observed=True):
        counts = own.groupby("planner", sort=False, observed=True)[[*CALLS]].sum()
        calls, failed = (counts[name] for name in CALLS)
        named = [f"{planner} ({failed[planner]:,.0f} of {calls[planner]:,.0f})"
                 for planner in counts.index[failed > _MOST_FAILED * calls]]  # fmt: skip
        if named:
            lines.append(
                f"warning: {model} on {dataset}: nearly all tool calls of {', '.join(named)} failed; the steps in "
                "`agent-grid view` say why"
            )
    return lines
