"""What several files of unit tests begin with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from grid.core.places import Address
from tests.support import objects


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


@pytest.fixture(scope="session")
def s3() -> Iterator[str]:
    """The address of an S3 server, which all tests of this process share."""
    with objects.served() as url:
        yield url


@pytest.fixture
def bucket(s3: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Address:
    """A bucket of its own there, for this process and its children; and a cache of their own."""
    for name, value in objects.environment(s3).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return objects.bucket(s3)
