"""Restoration analysis (tooltree A.2): how well would a planner do if its judge's wrong decisions were corrected?

A decision compares a score with a threshold: a call is accepted if its score reaches the threshold. The run layer uses
the reference to correct wrong scores, so corrected scores are not results of the judge. The planner sees only the
corrected score.
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
    """The bounds for correct decisions: a wrong call has to score below `low`, and a right call at least `high`."""

    low: float
    high: float


@dataclass(frozen=True, config=STRICT)
class Restoring:
    """The decisions to correct, set by the keys `judge.restored`, `judge.pre_threshold` and `judge.post_threshold`.

    `false_positives`: wrong calls that were accepted; `false_negatives`: right calls that were rejected. The judge does
    not know the planner's thresholds, so the judge has keys for these thresholds. The keys' defaults are the planner's
    own thresholds or, if the planner has none, the thresholds in B.4.
    """

    restored: Restored = NOT_RESTORED
    pre_threshold: _Threshold = 0.3
    post_threshold: _Threshold = 0.4

    def fixes(self, score: float, right: bool, bounds: Bounds) -> bool:
        """Whether a score leads to a wrong decision of a kind that is to be corrected."""
        if right:
            return score < bounds.high and self.restored in ("false_negatives", "both")
        return score >= bounds.low and self.restored in ("false_positives", "both")

    def restore(self, score: float, right: bool, bounds: Bounds) -> float:
        """The corrected score: the wrong decision is reversed with the same confidence (our rule; the paper is silent).

        A rejection with score 0 becomes an acceptance with score 1; the closer a score is to the threshold, the closer
        the corrected score is to it. With a threshold of 0 nothing can be rejected.
        """
        low, high = bounds
        if not self.fixes(score, right, bounds):
            return score
        if right:
            return min(high + (1 - high) * (high - score) / high, 1.0)  # rounding may exceed it
        if low == 0:
            return score
        return min(low * (1 - score) / (1 - low), math.nextafter(low, 0)) if low < 1 else 0.0
