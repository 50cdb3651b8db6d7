"""Time that does not pass, and a key that nothing may log."""

from __future__ import annotations

import logging
import os
import ssl
from collections.abc import Iterator
from functools import cache

import pytest

from grid.engines.http.client import Client
from tests.support.openai_engine import KEY, KEY_ENV, NOW


@pytest.fixture(scope="package", autouse=True)
def one_tls_context() -> Iterator[None]:
    """All clients have the same: each would read some hundred certificates for itself, and no server here has one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ssl, "create_default_context", cache(ssl.create_default_context))
        yield


@pytest.fixture(scope="package", autouse=True)
def unsynced() -> Iterator[None]:
    """What is written need not outlive a power cut; what a killed process wrote is there all the same."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        yield


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that the engine would have slept, with a clock that stands still."""
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(Client, "sleep", staticmethod(sleep))
    monkeypatch.setattr(Client, "now", staticmethod(lambda: NOW))
    return slept


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """The key is in the environment and must never be in a log, whatever its level."""
    monkeypatch.setenv(KEY_ENV, KEY)
    caplog.set_level(logging.DEBUG)
    yield
    assert KEY not in caplog.text
