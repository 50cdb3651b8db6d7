"""Where a dataset's files are: nowhere but where its own YAML says."""

from __future__ import annotations

from collections.abc import Callable

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """A user's own run knows the marker, too."""
    config.addinivalue_line("markers", "slow: every pair at once, which takes minutes")


@pytest.fixture
def folder_of() -> Callable[[str], str | None]:
    """The folder of a dataset whose YAML names none; None for all."""
    return lambda dataset: None
