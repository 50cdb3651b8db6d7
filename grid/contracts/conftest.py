"""The fixture for the folders of datasets. Here, a dataset's files are only where its own YAML says."""

from __future__ import annotations

from collections.abc import Callable

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker `slow`, also for a user's own run of the contracts."""
    config.addinivalue_line("markers", "slow: every pair at once, which takes minutes")


@pytest.fixture
def folder_of() -> Callable[[str], str | None]:
    """A function for the folder of a dataset whose YAML names no folder. It returns None for every dataset."""
    return lambda dataset: None
