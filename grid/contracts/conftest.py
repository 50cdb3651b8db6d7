"""The fixture for the folders of datasets. The contracts look for a dataset's files only where its YAML says."""

from __future__ import annotations

from collections.abc import Callable

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker `slow`, even when a user runs the contracts."""
    config.addinivalue_line("markers", "slow: tests of every pair at once, which take minutes")


@pytest.fixture
def folder_of() -> Callable[[str], str | None]:
    """A function that returns the folder of a dataset whose YAML names no folder; in the contracts, always None."""
    return lambda dataset: None
