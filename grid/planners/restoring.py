"""Restoration analysis (tooltree A.2): what would a planner reach if its judge's wrong decisions were set right?

A decision is a score held against a threshold: a call goes on where its score reaches it. Such scores are no result of
the judge: the run layer sets them right from the reference, and the planner sees no more than the score.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal, NamedTuple

from pydantic import Field
from pydantic.dataclasses import dataclass

from grid.core.util import STRICT

Restored = Literal["none", "false_positives", "false_negatives", "both"]
NOT_RESTORED: Restored = "none"
_Threshold = Annotated[float, Field(ge=0, le=1)]


class Bounds(NamedTuple):
    """What is wrong must score below `low`, what is right at least `high`."""

    low: float
    high: float


@dataclass(frozen=True, config=STRICT)
class Restoring:
    """Which decisions are set right: the keys `judge.restored`, `judge.pre_threshold` and `judge.post_threshold`.

    `false_positives`: what is wrong and was accepted; `false_negatives`: what is right and was rejected. The judge
    does not know the planner's thresholds, so they are keys; by default the planner's own where it has them, else
    those of B.4.
    """

    restored: Restored = NOT_RESTORED
    pre_threshold: _Threshold = 0.3
    post_threshold: _Threshold = 0.4

    def fixes(self, score: float, right: bool, bounds: Bounds) -> bool:
        """Whether a score is a wrong decision of the kind that is set right."""
        if right:
            return score < bounds.high and self.restored in ("false_negatives", "both")
        return score >= bounds.low and self.restored in ("false_positives", "both")

    def restore(self, score: float, right: bool, bounds: Bounds) -> float:
        """The score that a planner sees: a wrong decision becomes one as sure the other way (the paper is silent).

        A rejection at 0 becomes an acceptance at 1, and the nearer it was to the threshold the nearer it stays. With a
        threshold of 0 nothing can be rejected.
        """
        low, high = bounds
        if not self.fixes(score, right, bounds):
            return score
        if right:
            return min(high + (1 - high) * (high - score) / high, 1.0)  # rounding may be beyond it
        if low == 0:
            return score
        return min(low * (1 - score) / (1 - low), math.nextafter(low, 0)) if low < 1 else 0.0
