"""What a report says of benchmarks whose tools are simulated, or whose facts are invented."""

from __future__ import annotations

import pandas as pd

MADE_UP, INVENTED = "-simulated", "-witness"
"""What the versions of such datasets hold."""
SYNTHETIC = "real questions, logical forms and schema; synthetic facts"


def told(episodes: pd.DataFrame) -> str:
    """What every caption begins with where tools of any dataset were simulated, or facts invented; else nothing."""
    simulated, invented = _named(episodes, MADE_UP), _named(episodes, INVENTED)
    return (
        f"simulated tools ({simulated}): what they return is made up, no server was reached; " if simulated else ""
    ) + (f"{invented}: {SYNTHETIC}; " if invented else "")


def _named(episodes: pd.DataFrame, mark: str) -> str:
    """The datasets whose version has a mark."""
    marked = episodes["dataset_version"].astype(str).str.contains(mark, regex=False)
    return ", ".join(sorted(map(str, episodes["dataset"][marked].unique())))
