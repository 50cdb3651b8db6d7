"""What all scorers of a cell share: the version of scoring, and what an episode that was never scored is told."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

SCORING = "3"
"""Raise when the same trajectory gets another score; part of every cell's id."""
PATTERNS = (
    "similar_tool_confusion", "wrong_parameters", "missing_parameters", "redundant_related", "redundant_unrelated",
    "intent_missed",
)  # fmt: skip
"""How trajectories go wrong (traject_bench §4.2; `grid.metrics.failure_patterns` has the rules)."""
SUCCESS = "success"
"""The one metric that is a column of `episodes`: whether the case was resolved, None where nobody can tell."""
UNSCORED: Mapping[str, Any] = MappingProxyType(
    {"repeated_call": False, "repeated_call_in_a_row": False, "failed_calls": 0, "finished": False}
)
"""What is so of an episode of which nothing is known."""
