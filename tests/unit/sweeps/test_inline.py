"""A sweep in this process: the rows of any other, and a planner that prints, logs and may be stopped."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

import grid
from grid import store
from grid.cells import printed
from grid.core.errors import ConfigError
from grid.planners.react import ReAct
from grid.settings.setting import Setting

SMALL = ("model=simulated", "planner=react,egb_logits", "robustness=none", "dataset.limit=2", "trials=2")


def swept(folder: Path, monkeypatch: pytest.MonkeyPatch, *more: str) -> grid.Results:
    monkeypatch.chdir(folder)
    return grid.sweep(*SMALL, "cluster=inline", "name=here", *more)


@pytest.mark.long
def test_rows_are_there_and_the_same_again_runs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    solved: list[str] = []
    solve = ReAct.solve

    async def heard(self: ReAct, episode: Any) -> Any:
        solved.append(episode.case.id)
        print("looks at", episode.case.id)
        logging.getLogger("mine").warning("is slow")
        return await solve(self, episode)

    monkeypatch.setattr(ReAct, "solve", heard)
    results = swept(tmp_path, monkeypatch)
    out = capsys.readouterr()
    assert results.complete
    assert len(solved) == 4
    assert out.out.index(f"case {solved[0]}, trial 0") < out.out.index(f"looks at {solved[0]}")
    assert "WARNING mine: is slow" in out.err
    root = tmp_path / "results" / "here"
    rows = store.read(root, "episodes").to_pylist()
    assert len(rows) == 8
    assert {row["status"] for row in rows} == {"ok"}
    assert store.read(root, "attempts").num_rows == 2
    assert {row["cell_id"] for row in store.read(root, "steps").to_pylist()} == {row["cell_id"] for row in rows}
    assert json.loads((root / "run.json").read_text())["runs"][0]["cpus"] == 1
    assert swept(tmp_path, monkeypatch).complete
    assert len(solved) == 4
    assert "8 already done" in capsys.readouterr().out


def test_what_needs_a_cluster_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="if fail_fast is given"):
        swept(tmp_path, monkeypatch, "fail_fast=3")
    with pytest.raises(ConfigError, match=r"cluster='inline'.*if budget\.money is given"):
        swept(tmp_path, monkeypatch, "budget.money=1")
    with pytest.raises(ConfigError, match=r"cluster='inline'.*this command needs a cluster"):
        swept(tmp_path, monkeypatch, "dry_run.pilot=2")


def test_what_is_printed_in_a_worker_is_kept_by_setting(tmp_path: Path) -> None:
    one, other = (Setting({}, {"planner": name}, seed=0) for name in ("my[x=1]", "other"))
    for setting in (one, other):
        setting.__dict__["id"] = f"{setting.labels['planner'][:2]}0123456789"
    before = printed.sizes(tmp_path)
    with printed.printed(tmp_path, other):
        pass
    assert printed.told(tmp_path, before) == ""
    level = logging.getLogger().level
    for _ in range(2):
        with printed.printed(tmp_path, one):
            print("words")
            logging.getLogger("mine").warning("slow")
            logging.getLogger("mine").debug("not of interest")
    (file,) = printed.sizes(tmp_path)
    assert file.name.startswith("my_x_1_-my0123")
    assert file.read_text() == 2 * "words\nWARNING mine: slow\n"
    assert printed.told(tmp_path, before) == f"texts that planners printed or logged: {file}"
    assert printed.told(tmp_path, printed.sizes(tmp_path)) == ""
    assert logging.getLogger().level == level


def test_a_file_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(printed, "_MOST_BYTES", 10)
    setting = Setting({}, {"planner": "p"}, seed=0)
    setting.__dict__["id"] = "0" * 16
    with printed.printed(tmp_path, setting):
        for _ in range(100):
            print("many words")
    assert sum(printed.sizes(tmp_path).values()) < 30
