"""What a regression controls for besides the plan's shape: `controls` in a formula (planning_horizon B.3).

The word stands for the cases' own controls where their dataset gives any (the column `controls`), each a factor, else
for the function in which a plan ends, `C(last_step)`. So one formula fits every family of data sets as published.
"""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from analysis.errors import AnalysisError
from analysis.formula import Formula, Part, Term
from grid.core.errors import shown_value
from grid.core.untrusted import loads

CONTROLS, LAST = "controls", "last_step"
COLUMNS = (CONTROLS, LAST)
"""The columns of `episodes` that the word reads."""
_WORD: Term = (Part(CONTROLS, factor=False),)


def spelt_out(rows: pd.DataFrame, formula: Formula) -> tuple[pd.DataFrame, Formula]:
    """The formula with these rows' controls in the place of the word, and the rows with a column of each.

    A row without a control that others have is null there.

    Raises:
        AnalysisError: the column holds no controls, or one whose name is none or another column's.
    """
    if _WORD not in formula.terms:
        return rows, formula
    texts = rows[CONTROLS].astype(object)
    by_text = {text: _read(text) for text in texts.dropna().unique()}
    names = sorted({name for found in by_text.values() for name in found}) or [LAST]
    for name in names:
        if name == LAST:
            continue
        if not name.isidentifier() or name in rows.columns or name in formula.columns():
            raise AnalysisError(f"controls: {shown_value(name)} is no name of its own for a column")
        rows = rows.assign(**{name: texts.map({text: found.get(name) for text, found in by_text.items()})})
    there = [term for term in formula.terms if term != _WORD]
    new: list[Term] = [term for name in names if (term := (Part(name, factor=True),)) not in there]
    return rows, replace(formula, terms=tuple(sorted([*there, *new], key=len)))


def _read(text: str) -> dict[str, str]:
    """The controls in a column's text, levels as text."""
    try:
        found = loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not all(isinstance(value, str | bool) for value in found.values()):
        raise AnalysisError(f"controls: {shown_value(text)} is no mapping of names to levels")
    return {name: str(value) for name, value in found.items()}
