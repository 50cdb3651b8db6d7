"""Time that does not pass, and a key that nothing may log."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from grid.engines.http.client import HTTPClient
from tests.openai_engine import KEY, KEY_ENV, NOW


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that the engine would have slept, with a clock that stands still."""
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(HTTPClient, "sleep", staticmethod(sleep))
    monkeypatch.setattr(HTTPClient, "now", staticmethod(lambda: NOW))
    return slept


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """The key is in the environment and must never be in a log, whatever its level."""
    monkeypatch.setenv(KEY_ENV, KEY)
    caplog.set_level(logging.DEBUG)
    yield
    assert KEY not in caplog.text
