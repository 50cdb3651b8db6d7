"""What a report says of benchmarks whose tools are simulated."""

from __future__ import annotations

import pandas as pd

MADE_UP = "-simulated"
"""What the version of such a dataset holds."""


def told(episodes: pd.DataFrame) -> str:
    """What every caption begins with where tools of any dataset were simulated; nothing where none were."""
    made_up = episodes["dataset_version"].astype(str).str.contains(MADE_UP, regex=False)
    names = sorted(map(str, episodes["dataset"][made_up].unique()))
    return (
        f"simulated tools ({', '.join(names)}): what they return is made up, no server was reached; " if names else ""
    )
