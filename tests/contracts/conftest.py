"""The contracts over our own files: small ones in the place of released data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.configs import FOLDERS


@pytest.fixture(autouse=True, scope="module")
def cache(fresh_cache: Path) -> Iterator[None]:
    """Generated data go to a folder of this run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(fresh_cache))
        yield


@pytest.fixture
def folder_of(request: pytest.FixtureRequest) -> Callable[[str], str | None]:
    """The folder of a dataset that needs one."""

    def folder(dataset: str) -> str | None:
        found: str | None = request.getfixturevalue(FOLDERS[dataset]) if dataset in FOLDERS else None
        return found

    return folder
