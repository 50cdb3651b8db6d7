"""Commands where the output knows few letters, or the cache cannot be written."""

from __future__ import annotations

import os
import sys
from io import BytesIO, TextIOWrapper
from pathlib import Path

import platformdirs
import pytest

from grid.core import surroundings
from grid.core.surroundings import usable

BARS = "● ├──┤ 1–2 ≥ 3 × τ²"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(surroundings, "own_folder", lambda: tmp_path / "own")
    return tmp_path / "cache" / "agent-grid"


@pytest.mark.parametrize(
    ("encoding", "shown"),
    [("ascii", "o |--| 1-2 > 3 x ?2"), ("latin-1", "o |--| 1-2 > 3 × ?²"), ("utf-8", BARS), ("UTF8", BARS)],
)
def test_an_output_gets_letters_that_it_can_show_of_the_same_width(
    encoding: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = TextIOWrapper(BytesIO(), encoding=encoding, errors="strict")
    monkeypatch.setattr(sys, "stdout", output)
    with usable():
        print(BARS, flush=True)
    assert output.buffer.getvalue().decode(encoding) == shown + "\n"
    assert output.errors == "strict"


def test_outputs_of_other_kinds_are_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    with usable():
        print(BARS)
    assert capsys.readouterr().out == BARS + "\n"


def used() -> Path:
    with usable():
        return platformdirs.user_cache_path("agent-grid")


def test_a_cache_that_can_be_written_is_used(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert used() == cache
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("home", ["/sys", os.devnull, "/proc"])  # where root cannot make folders either
def test_a_home_that_cannot_be_written_gives_way(
    home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", home)
    assert used() == tmp_path / "own" / "cache" / "agent-grid"
    told = f"{home}/.cache/agent-grid cannot be written to, so {tmp_path}/own/cache is used instead\n"
    assert capsys.readouterr().err == told
    assert "XDG_CACHE_HOME" not in os.environ


def test_a_cache_of_which_one_folder_is_somebody_elses_gives_way(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (cache / "slate").mkdir(parents=True)
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).name != "slate")
    assert used() == tmp_path / "own" / "cache" / "agent-grid"
    assert os.environ["XDG_CACHE_HOME"] == str(tmp_path / "cache")
