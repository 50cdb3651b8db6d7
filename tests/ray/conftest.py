"""What tests of Ray are run when: clusters take minutes to start, to fill and to kill."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent
EVERY_TIME = {"test_sweep.py"}
"""What `pytest` runs by itself: a sweep, from its command to its screen. All else is `long`'s: `.ci/run` runs it."""


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents and item.path.name not in EVERY_TIME:
            item.add_marker(pytest.mark.long)
