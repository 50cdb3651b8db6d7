"""The place of a dataset's files, which is only where its own YAML says."""

from __future__ import annotations

from collections.abc import Callable

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker for a user's own run, too."""
    config.addinivalue_line("markers", "slow: every pair at once, which takes minutes")


@pytest.fixture
def folder_of() -> Callable[[str], str | None]:
    """The folder of a dataset whose YAML names none; None for every dataset."""
    return lambda dataset: None
