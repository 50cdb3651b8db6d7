"""What a report says of benchmarks whose tools are simulated, whose facts are invented, or whose user is a ticket."""

from __future__ import annotations

import pandas as pd

MADE_UP, INVENTED, TICKET = "-simulated", "-witness", "-ticket"
"""What the versions of such datasets hold."""
SYNTHETIC = "real questions, logical forms and schema; synthetic facts"
TOLD_ALL = "the user's instructions are the ticket: an easier task, comparable with itself alone"


def told(episodes: pd.DataFrame) -> str:
    """What every caption begins with where any dataset is one of those; else nothing."""
    simulated, invented, ticket = (_named(episodes, mark) for mark in (MADE_UP, INVENTED, TICKET))
    return (
        (f"simulated tools ({simulated}): what they return is made up, no server was reached; " if simulated else "")
        + (f"{invented}: {SYNTHETIC}; " if invented else "")
        + (f"{ticket}: {TOLD_ALL}; " if ticket else "")
    )


def _named(episodes: pd.DataFrame, mark: str) -> str:
    """The datasets whose version has a mark."""
    marked = episodes["dataset_version"].astype(str).str.contains(mark, regex=False)
    return ", ".join(sorted(map(str, episodes["dataset"][marked].unique())))
