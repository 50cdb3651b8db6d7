"""`launch/report.py`: files that nobody vouches for, folders that are none, progress that is cut."""

from __future__ import annotations

import io
import json
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from analysis.errors import AnalysisError
from analysis.stats.spec import load
from grid.core.errors import StoreError
from grid.sweeps import progress
from launch import report

BOMB = "a: &a [1,2,3,4,5,6,7,8,9]\n" + "".join(
    f"{chr(98 + i)}: &{chr(98 + i)} [{','.join([f'*{chr(97 + i)}'] * 9)}]\n" for i in range(9)
)
SPECS = {
    "lists": "formula: " + "[" * 5000 + "]" * 5000,
    "digits": "formula: " + "9" * 5000,
    "date": "formula: 2001-13-45",
    "large": "formula: '" + "x" * 20_000_000 + "'",
    "bomb": BOMB,
    "recursive": "&a [*a]",
    "nul": 'formula: "\0"',
    "code": "formula: !!python/object/apply:os.system ['true']",
    "list": "[1]",
    "empty": "",
    "keys": "{[1]: 2}",
    "bytes": "\udcff",
}
TOLD: dict[str, object] = {
    **dict.fromkeys(("cells", "done", "ok", "failed", "lost", "in_flight"), 1),
    **dict.fromkeys(("updated_at", "seconds", "cells_per_second", "tokens_per_second"), 1.0),
    "state": "running",
    "seconds_left": None,
    "settings": [],
}


@pytest.mark.parametrize("name", SPECS)
def test_an_analysis_that_cannot_be_read_is_one_line(name: str, tmp_path: Path) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text(SPECS[name], encoding="utf-8", errors="surrogateescape")
    with pytest.raises(AnalysisError) as caught:
        load(path)
    assert str(caught.value).startswith(str(path))
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 1_000


@pytest.mark.parametrize("path", ["x" * 5000, "a\0b", "nosuch.yaml"])
def test_a_path_that_is_none(path: str) -> None:
    with pytest.raises(AnalysisError):
        load(Path(path))


@pytest.mark.parametrize(
    "arguments", [["x" * 5000], ["a\0b"], ["file"], ["."], ["x" * 5000, "--follow"], ["file", "--follow"]]
)
def test_a_folder_that_is_none(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    monkeypatch.setattr(sys, "argv", ["report.py", *arguments])
    assert report.main() == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert err.rstrip("\n").isprintable()
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(
    "option",
    [["--follow"], ["--analysis=x"], ["--wide"], ["--metric=x"], ["--papers"], ["--by=depth"], ["--figures=x"]],
)
def test_an_option_that_a_comparison_would_ignore_is_refused(
    option: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["report.py", "one", "other", *option])
    assert report.main() == 2
    assert capsys.readouterr().err.startswith(f"error: {option[0].partition('=')[0]} works for only one sweep")


def followed(folder: Path) -> str:
    shown = io.StringIO()
    report.follow(folder, Console(file=shown, width=200))
    return shown.getvalue()


@pytest.mark.parametrize(
    "text",
    ["", '{"state": "runn', "[1]", "1", "{}", json.dumps(TOLD | {"seconds": float("inf")}), "\udcff", "[" * 99_999],
)
def test_progress_that_no_sweep_wrote_is_said(text: str, tmp_path: Path) -> None:
    (tmp_path / progress.FILE).write_text(text, encoding="utf-8", errors="surrogateescape")
    with pytest.raises(StoreError, match="not in the form that a sweep writes"):
        followed(tmp_path)


@pytest.mark.parametrize("spoil", [Path.unlink, lambda path: path.write_text("[")], ids=["deleted", "cut"])
def test_progress_that_is_spoilt_meanwhile_is_waited_for(spoil: Callable[[Path], object], tmp_path: Path) -> None:
    path = tmp_path / progress.FILE
    path.write_text(json.dumps(TOLD))

    def sweep() -> None:
        time.sleep(0.5)
        spoil(path)
        time.sleep(1.5)
        path.write_text(json.dumps(TOLD | {"state": progress.ENDED, "done": 7}))

    writer = threading.Thread(target=sweep)
    writer.start()
    shown = followed(tmp_path)
    writer.join()
    assert "cells 7/1" in shown


def test_progress_that_stays_away_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "_PATIENCE_SECONDS", 0.5)
    (tmp_path / progress.FILE).write_text(json.dumps(TOLD))
    threading.Timer(0.2, (tmp_path / progress.FILE).unlink).start()
    with pytest.raises(StoreError, match="the file is missing"):
        followed(tmp_path)
