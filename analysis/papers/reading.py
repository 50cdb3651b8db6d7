"""What the study's tables say, in words: computed from their numbers, and no more than these show.

A difference is called shown where its 95% interval excludes 0. Where it does not, the interval's ends say how large a
difference may still be: that none is shown does not mean that there is none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from analysis.page.table import changed, joined, shown_by
from analysis.papers.horizon import HIGH, LOW, REPEATS

_EFFECTS = {
    "depth": ("deeper questions are solved less often", "deeper questions are solved more often"),
    "breadth": ("wider questions are solved less often", "wider questions are solved more often"),
    "depth:SH": ("SH loses more with depth than FH", "SH loses less with depth than FH"),
    "breadth:SH": ("SH loses more with breadth than FH", "SH loses less with breadth than FH"),
}
"""What a coefficient says where it is below 0, and above; `_edges` in a column's name changes nothing."""


def accuracy(comparisons: pd.DataFrame) -> str:
    """Of table 2's rows (`horizon.accuracy_and_tokens`): who solves more, and what it costs."""
    parts = []
    for row in comparisons.to_dict("records"):
        verdict = _difference(row, "success_difference", ("FH solves more questions", "SH solves more questions"))
        parts.append(f"{_place(row)}: {verdict}; {_cost(row)}")
    return joined(parts)


def robustness(changes: pd.DataFrame) -> str:
    """Of table 4's rows (`horizon.robustness_change`): what strict tools cost, and whom more."""
    parts = []
    for row in changes.to_dict("records"):
        told = [
            changed(row, f"change_{planner}", name, (f"{name} solves fewer", f"{name} solves more"))
            for planner, name in (("fh", "FH"), ("sh", "SH"))
        ]
        both = _difference(row, "change_difference", ("SH loses more than FH", "SH loses less than FH"))
        parts.append(f"{_place(row)}, from {HIGH} to {LOW}: {'; '.join(told)}; {both}")
    return joined(parts)


def repeats(shares: pd.DataFrame) -> str:
    """Of table 5's rows (`horizon.repeated_calls`): who repeats calls more often."""
    parts = []
    for row in shares.to_dict("records"):
        told = [
            f"{name}: {_difference(row, f'{column}_difference', ('FH repeats more often', 'SH repeats more often'))}"
            for column, name in REPEATS.items()
        ]
        parts.append(f"{_place(row)}: {'; '.join(told)}")
    return joined(parts)


def coefficients(found: pd.DataFrame, per: Sequence[str]) -> str:
    """Of a regression's coefficients (columns `per`, `name`, `coefficient`, `low`, `high`): what each effect says."""
    fits: dict[str, list[str]] = {}
    for row in found.to_dict("records"):
        name = str(row["name"]).replace("_edges", "")
        if name in _EFFECTS and not pd.isna(row["low"]):
            told = shown_by(row["low"], row["high"], _EFFECTS[name]) or "no effect is shown"
            bounds = f"{row['coefficient']:+.2f} [{row['low']:+.2f}, {row['high']:+.2f}]"
            where = ", ".join(str(row[column]) for column in per) or "all rows"
            fits.setdefault(where, []).append(f"{row['name']} {bounds}: {told}")
    parts = [f"{where}: {'; '.join(told)}" for where, told in fits.items()]
    return joined(parts, sum(map(len, fits.values())))


def _difference(row: Mapping[Any, Any], name: str, verdicts: tuple[str, str]) -> str:
    """SH less FH in points, and what that says."""
    return changed(row, name, "SH − FH", verdicts, "no difference is shown")


def _cost(row: Mapping[Any, Any]) -> str:
    told = [
        f"{row[f'{column}_ratio']:.1f} times the {label} tokens of FH"
        for column, label in (("input_tokens", "input"), ("output_tokens", "output"))
        if not pd.isna(row[f"{column}_ratio"])
    ]
    return f"SH used {' and '.join(told)}" if told else "tokens cannot be compared"


def _place(row: Mapping[Any, Any]) -> str:
    return f"{row['dataset']}, {row['model']}"
