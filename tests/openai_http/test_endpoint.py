"""No form of an answer ends in a wrong number without a sign: all of `tests.support.forms`, over HTTP, cell by cell."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.support.endpoint import main, play, tried
from tests.support.forms import FORMS
from tests.support.http_server import LocalServer


@pytest.mark.long
def test_no_form_is_silently_wrong(tmp_path: Path) -> None:
    with LocalServer(play) as server:
        found = asyncio.run(tried(FORMS.values(), server.url, tmp_path))
    assert len(found) > 2 * len(FORMS)
    assert [came.line() for came in found if not came.as_is_right] == []


def test_the_command_lists_the_forms_and_prints_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list", "--table", "well", "left_kimi", "finish_error"]) == 0
    out = capsys.readouterr().out
    assert all(f"\n{name} " in f"\n{out}" for name in FORMS)
    assert "10 outcomes of 3 forms, 0 wrong" in out
