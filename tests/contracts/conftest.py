"""The contracts over our own files: small ones in the place of released data."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.configs import FOLDERS


@pytest.fixture
def folder_of(request: pytest.FixtureRequest) -> Callable[[str], str | None]:
    """The folder of a dataset that needs one."""

    def folder(dataset: str) -> str | None:
        found: str | None = request.getfixturevalue(FOLDERS[dataset]) if dataset in FOLDERS else None
        return found

    return folder
