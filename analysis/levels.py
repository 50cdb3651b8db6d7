"""Factors' levels that the data cannot tell apart: pooled where their clusters are few, left out where separated.

Pooling looks at clusters alone, never at outcomes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from analysis.errors import AnalysisError
from analysis.formula import Formula
from analysis.spec import Spec

FEWEST = 3
"""Clusters that a level of its own needs: of one alone the robust error knows nothing, of two next to nothing."""
EACH = 5
"""Clusters that each coefficient needs."""
OTHER = "other"
CLUSTERS = " cluster"
"""The column of a fit's rows that numbers their clusters; its name is no column's of a table."""
_NAMED = 12  # levels that a note names, at most


@dataclass
class Levels:
    """The rows of a fit with their factors' levels as they are told apart, and what became of the others."""

    frame: pd.DataFrame
    lost: int = 0
    """Rows of separated levels, which are left out."""
    separated: dict[str, str] = field(default_factory=dict)
    """Coefficients that are infinite, and what was seen at their level."""
    pools: dict[str, str] = field(default_factory=dict)
    """By factor, what the pooled level is called."""
    rare: dict[str, list[str]] = field(default_factory=dict)
    """By factor, the levels that were pooled for the sake of `FEWEST`."""
    further: dict[str, list[str]] = field(default_factory=dict)
    """By factor, those that were pooled for the sake of `EACH`."""

    def notes(self) -> list[str]:
        """What was pooled, and why."""
        found = []
        for pooled, why in ((self.rare, f"level needs {FEWEST}"), (self.further, f"coefficient needs {EACH}")):
            for name, levels in pooled.items():
                told = f"{name}: {len(levels)} levels pooled as {self.pools[name]!r}, since each {why} clusters"
                found.append(f"{told}: {_listed(levels)}")
        gone = [name for name in self.pools if self.frame[name].nunique() == 1]
        return found + [f"{name} has no coefficient: all of its levels are pooled" for name in gone]


def told_apart(frame: pd.DataFrame, formula: Formula, spec: Spec) -> Levels:
    """Rows, which have the column `CLUSTERS`, with levels that each stand in `FEWEST` clusters and are not separated.

    Levels with too few clusters become one. Where they have too few together, the level that has the next fewest joins
    them. Then levels go whose outcomes are all equal. Where clusters are still too few for the formula, levels are
    pooled further, those with the fewest clusters first.

    Raises:
        AnalysisError: a level is separated where `spec` refuses that, or every level of a factor is.
    """
    names = formula.factors()
    texts = {name: frame[name].astype(str).astype(object) for name in names}
    found = Levels(frame.assign(**texts))
    labels = {name: _free(set(texts[name])) for name in names}
    while True:
        for name in names:
            while _pool(found, name, labels[name], _rare(_clusters(found.frame, name)), found.rare):
                pass
        if spec.link != "logit" or not _without_separated(found, formula, spec):
            break
    while EACH * coefficients(found.frame, formula) > found.frame[CLUSTERS].nunique():
        counts = {name: _clusters(found.frame, name).drop(labels[name], errors="ignore") for name in names}
        choices = [(int(own.min()), name) for name, own in counts.items() if len(own) + (name in found.pools) > 1]
        if not choices:
            break
        _, name = min(choices)
        _pool(found, name, labels[name], list(counts[name].index[: 1 if name in found.pools else 2]), found.further)
    return found


def coefficients(frame: pd.DataFrame, formula: Formula) -> int:
    """How many a formula has on these rows, the intercept's included."""
    sizes = {name: frame[name].nunique() - 1 for name in formula.factors()}
    return 1 + sum(math.prod(sizes[part.column] if part.factor else 1 for part in term) for term in formula.terms)


def level_name(column: str, level: str) -> str:
    """What a level's coefficient is called, as patsy does."""
    return f"{column}[T.{level}]"


def _clusters(frame: pd.DataFrame, name: str) -> pd.Series[Any]:
    """By level, in how many clusters it stands, the fewest first."""
    return frame.groupby(name, sort=True)[CLUSTERS].nunique().sort_values(kind="stable")


def _rare(clusters: pd.Series[Any]) -> list[str]:
    """The levels to make one: all that stand in too few clusters, and more where these few do together."""
    size = int((clusters < FEWEST).sum())
    while 0 < size < len(clusters) and clusters.iloc[:size].sum() < FEWEST:
        size += 1
    return list(clusters.index[:size]) if len(clusters) > 1 else []


def _pool(found: Levels, name: str, label: str, levels: Sequence[str], into: dict[str, list[str]]) -> bool:
    """Let levels join the pool, which is called `label`; whether any did."""
    fresh = [level for level in levels if level != label]
    if fresh:
        found.frame = found.frame.assign(**{name: found.frame[name].mask(found.frame[name].isin(fresh), label)})
        found.pools[name] = label
        into[name] = [*into.get(name, []), *fresh]
    return bool(fresh)


def _free(levels: set[str]) -> str:
    label = OTHER
    while label in levels:
        label += "'"
    return label


def _without_separated(found: Levels, formula: Formula, spec: Spec) -> bool:
    """Leave out the rows of one factor's levels whose outcomes are all equal; whether there were any.

    Such a level's coefficient is infinite, its rows are fitted without error and weigh nothing: leaving them out
    gives the other coefficients that maximum likelihood tends to, and their robust covariance. A penalty would
    move all of them, and has no settled robust covariance.
    """
    for name in formula.factors():
        levels = found.frame.groupby(name, sort=True)[formula.outcome].agg(["mean", "size"])
        equal = levels[levels["mean"].isin([0.0, 1.0])]
        if not equal.empty:
            break
    else:
        return False
    for level, (mean, size) in equal.iterrows():
        told = f"all {int(size):,} rows have {formula.outcome} {int(mean)}"
        if spec.separation == "refuse":
            raise AnalysisError(f"separation: {name}={level}: {told}, so its coefficient is infinite")
        found.separated[level_name(name, str(level))] = ("+inf: " if mean else "-inf: ") + told
    kept = found.frame[~found.frame[name].isin(equal.index)]
    if kept.empty:
        raise AnalysisError(f"separation: every level of {name} has equal outcomes: {_listed(equal.index)}")
    found.lost += len(found.frame) - len(kept)
    found.frame = kept
    return True


def _listed(levels: Iterable[object]) -> str:
    names = list(map(str, levels))
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
