"""Success as in planning_horizon's tables: the verdict of an evaluator on the answer, if there is one (B.3)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pandas as pd

from analysis.load import unknowns
from grid.core.engine import EVALUATOR

COLUMN = "graded_success"
"""The derived column: whether the evaluator called the answer correct, or the success in settings without verdicts."""
SOURCES = ("verdict",)
"""Columns that are read in addition to the usual columns of `load.episodes`."""
CORRECT = "correct"
"""The only verdict that counts as success; a partially correct answer has a different verdict."""


def added(cells: pd.DataFrame) -> pd.DataFrame:
    """Add COLUMN to cells that have the columns SOURCES.

    Unknown verdicts are treated in the same way as unknown successes (`unknowns`).
    """
    verdict = cells["verdict"].astype(object)
    known = verdict.notna()
    right = (verdict == CORRECT).astype("float64").where(known | (unknowns.how_counted() == unknowns.FAILURE))
    return cells.assign(**{COLUMN: right.where(_has_verdicts(cells), cells["success"].astype("float64"))})


def taken(cells: pd.DataFrame) -> pd.DataFrame:
    """Add COLUMN, and give `success` the same values."""
    found = added(cells)
    return found.assign(success=found[COLUMN])


def sql() -> str:
    """The SQL expression for COLUMN, over the cells that `queries.of_files` reads."""
    right = f"verdict = '{CORRECT}'"
    right = f"coalesce({right}, false)" if unknowns.how_counted() == unknowns.FAILURE else right
    over = f"OVER (PARTITION BY {', '.join(unknowns.SETTING)})"
    return f"CASE WHEN count(verdict) {over} > 0 THEN {right} ELSE success END AS {COLUMN}"


def notes(cells: pd.DataFrame) -> list[str]:
    """Notes on settings with verdicts: the meaning of accuracy, and the number of unreadable verdicts.

    Further notes name the settings without verdicts.

    There are no notes if no setting has verdicts. `cells` are the cells of `load.episodes` with the columns SOURCES.
    """
    return [*_notes(cells.assign(graded=_has_verdicts(cells)))]


def _notes(cells: pd.DataFrame) -> Iterator[str]:
    graded = cells[cells["graded"]]
    for key, own in graded.groupby(["dataset", "model"], sort=True, observed=True):
        who = ", ".join(sorted(map(str, own[EVALUATOR].dropna().unique()))) or "an evaluator"
        lacking = int((own["verdict"].isna() & (own["status"] == "ok")).sum())
        unread = f"; in {lacking:,} of {len(own):,} cells the verdict could not be read" if lacking else ""
        yield (
            f"{', '.join(map(str, cast(tuple[Any, ...], key)))}: accuracy is the share of answers that {who} called "
            f"correct (planning_horizon B.3){unread}; in other tables success is the share of answers that match the "
            "reference's answer"
        )
    if len(graded):
        rest = cells.loc[~cells["graded"], ["dataset", "model", "planner"]].astype(str).drop_duplicates()
        for label in sorted(rest.agg(", ".join, axis=1)) if len(rest) else []:
            yield (
                f"{label}: there are no verdicts, so accuracy is the share of answers that match the reference's answer"
            )


def _has_verdicts(cells: pd.DataFrame) -> pd.Series[bool]:
    found = (
        cells["verdict"]
        .notna()
        .groupby([cells[name] for name in unknowns.SETTING], sort=False, observed=True, dropna=False)
    )
    return found.transform("any").astype(bool)
