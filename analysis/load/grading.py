"""Success as planning_horizon's tables have it: an evaluator's verdict on the answer, where one was asked (its B.3)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pandas as pd

from analysis.load import unknowns
from grid.core.engine import EVALUATOR

COLUMN = "graded_success"
"""What is worked out of SOURCES: of a setting that has verdicts whether the answer is correct, else its success."""
SOURCES = ("verdict",)
"""The columns of `episodes` that are read besides those that `load.episodes` has."""
CORRECT = "correct"
"""The one verdict that counts: not an answer that is partially so."""


def added(cells: pd.DataFrame) -> pd.DataFrame:
    """With COLUMN, unknown verdicts counted as unknown successes are (`unknowns`). `cells` have SOURCES."""
    verdict = cells["verdict"].astype(object)
    known = verdict.notna()
    right = (verdict == CORRECT).astype("float64").where(known | (unknowns.how_counted() == unknowns.FAILURE))
    return cells.assign(**{COLUMN: right.where(_has_verdicts(cells), cells["success"].astype("float64"))})


def taken(cells: pd.DataFrame) -> pd.DataFrame:
    """With COLUMN, and the same as `success`."""
    found = added(cells)
    return found.assign(success=found[COLUMN])


def sql() -> str:
    """COLUMN in DuckDB, of cells as `queries.latest` has them."""
    right = f"verdict = '{CORRECT}'"
    right = f"coalesce({right}, false)" if unknowns.how_counted() == unknowns.FAILURE else right
    over = f"OVER (PARTITION BY {', '.join(unknowns.SETTING)})"
    return f"CASE WHEN count(verdict) {over} > 0 THEN {right} ELSE success END AS {COLUMN}"


def notes(cells: pd.DataFrame) -> list[str]:
    """What success is of each data set and model with verdicts, how many could not be read, and who has none.

    Nothing where no setting has any. `cells` are those of `load.episodes` with SOURCES.
    """
    return [*_notes(cells.assign(graded=_has_verdicts(cells)))]


def _notes(cells: pd.DataFrame) -> Iterator[str]:
    graded = cells[cells["graded"]]
    for key, own in graded.groupby(["dataset", "model"], sort=True, observed=True):
        who = ", ".join(sorted(map(str, own[EVALUATOR].dropna().unique()))) or "an evaluator"
        lacking = int((own["verdict"].isna() & (own["status"] == "ok")).sum())
        unread = f"; of {lacking:,} of {len(own):,} cells it could not be read" if lacking else ""
        yield (
            f"{', '.join(map(str, cast(tuple[Any, ...], key)))}: accuracy is the verdict of {who} that the answer is "
            f"correct (planning_horizon B.3){unread}; success in other tables compares it with the reference's"
        )
    if len(graded):
        rest = cells.loc[~cells["graded"], ["dataset", "model", "planner"]].astype(str).drop_duplicates()
        for label in sorted(rest.agg(", ".join, axis=1)) if len(rest) else []:
            yield f"{label}: no verdicts; accuracy compares the answer with the reference's"


def _has_verdicts(cells: pd.DataFrame) -> pd.Series[bool]:
    found = (
        cells["verdict"]
        .notna()
        .groupby([cells[name] for name in unknowns.SETTING], sort=False, observed=True, dropna=False)
    )
    return found.transform("any").astype(bool)
