"""What a report says of benchmarks whose tools are simulated, whose facts are invented, or whose user is a ticket."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from analysis import planted
from analysis.render import Sheet

MADE_UP, INVENTED, TICKET = "-simulated", "-witness", "-ticket"
"""What the versions of such datasets hold."""
SYNTHETIC = "real questions, logical forms and schema; synthetic facts"
TOLD_ALL = "the user's instructions are the ticket: an easier task, comparable with itself alone"


def notice(episodes: pd.DataFrame) -> str:
    """What a caption of those episodes begins with where any dataset is one of those; else nothing."""
    simulated, invented, ticket = (_named(episodes, mark) for mark in (MADE_UP, INVENTED, TICKET))
    return (
        (f"simulated tools ({simulated}): what they return is made up, no server was reached; " if simulated else "")
        + (f"{invented}: {SYNTHETIC}; " if invented else "")
        + (f"{ticket}: {TOLD_ALL}; " if ticket else "")
    )


def kinds(episodes: pd.DataFrame) -> pd.DataFrame:
    """What of episodes tells which policy and which data they are of, once each."""
    return episodes[["model", planted.ENGINE, "dataset", "dataset_version"]].astype(object).drop_duplicates()


def captioned(sheets: Sequence[Sheet], kinds: pd.DataFrame, more: str = "") -> list[Sheet]:
    """The tables, their captions behind what the policy and the tools of their own data sets are, and `more`.

    Args:
        sheets: the tables.
        kinds: those `kinds` of all episodes of the report.
        more: what every caption begins with besides.
    """
    found = []
    for sheet in sheets:
        own = kinds[kinds["dataset"].astype(str).isin(_shown(sheet))]
        about = planted.notice(kinds) + notice(kinds if own.empty else own) + more
        found.append(replace(sheet, caption=about + sheet.caption, short=sheet.short and about + sheet.short))
    return found


def _shown(sheet: Sheet) -> frozenset[str]:
    """The data sets that a table says it is of; none where it says nothing."""
    if sheet.data or "dataset" not in sheet.values:
        return sheet.data
    return frozenset(sheet.values["dataset"].dropna().astype(str))


def _named(episodes: pd.DataFrame, mark: str) -> str:
    """The datasets whose version has a mark."""
    marked = episodes["dataset_version"].astype(str).str.contains(mark, regex=False)
    return ", ".join(sorted(map(str, episodes["dataset"][marked].unique())))
