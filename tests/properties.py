"""Settings of property tests that hold on a machine of any speed."""

from __future__ import annotations

from hypothesis import HealthCheck, settings


def examples(count: int = 100) -> settings:
    """So many; no example is too slow, and neither is drawing it."""
    return settings(max_examples=count, deadline=None, suppress_health_check=[HealthCheck.too_slow])
