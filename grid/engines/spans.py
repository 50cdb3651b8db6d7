"""Stretches of time, as (begin, end) of one clock in seconds."""

from __future__ import annotations

from collections.abc import Iterable

Span = tuple[float, float]


def covered(spans: Iterable[Span]) -> float:
    """The seconds that lie in at least one of the spans."""
    total, until = 0.0, float("-inf")
    for begin, end in sorted(spans):
        total += max(end - max(begin, until), 0.0)
        until = max(until, end)
    return total
