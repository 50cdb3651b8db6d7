"""What several files of unit tests begin with."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page of whose figures nothing is asked: they take longer than its tables."""
    from analysis.figures import drawings  # few of these files need what it imports

    monkeypatch.setattr(drawings, "drawings", lambda root: ())


@pytest.fixture(scope="session")
def once_filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A results folder with every table, each of its files synced: for copies, or for links where nobody writes."""
    from tests.unit.store.test_compacting import fill  # few of these files need what it imports

    root = tmp_path_factory.mktemp("filled")
    fill(root)
    return root
