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
from grid.settings.check import Checked, check_sweep
from grid.settings.setting import Setting
from grid.store.schema import TABLES, TIMES
from grid.sweeps.inline import run_inline
from tests.support.configs import job

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


def checked(root: Path, **changes: Any) -> Checked:
    return check_sweep([job(root, **{"cluster": {"kind": "inline"}} | changes)])


@pytest.mark.parametrize(
    "tables", [("episodes",), ("metrics",), ("attempts", "cases", "steps", "sections", "messages")]
)
def test_damaged_files_are_put_aside_and_their_cells_run_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], tables: tuple[store.Table, ...]
) -> None:
    assert run_inline(checked(tmp_path))
    root = tmp_path / "test"
    names = [name for name in TABLES["episodes"].names if name not in TIMES]
    before = store.read(root, "episodes", names)
    paths = [min((root / table).iterdir()) for table in tables]
    for path in paths:
        path.write_bytes(b"x" + path.read_bytes()[1:])
    assert run_inline(checked(tmp_path))
    out = capsys.readouterr().out
    assert all(f"{path} is damaged" in out for path in paths)
    assert all((root / ".aside" / table).is_dir() for table in tables)
    assert f", {2 - len({*tables} & {'episodes', 'steps'})} already done" in out
    assert store.read(root, "episodes", names).equals(before)


def test_transcripts_have_no_more_room_than_on_a_cluster(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_inline(checked(tmp_path, store={"root": str(tmp_path), "transcripts_gib": 1e-8}))
    assert "transcripts reached the limit store.transcripts_gib after 1 cells" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("key", "changes", "allowed"),
    [
        ("fail_fast", {"fail_fast": 3}, {"fail_fast": None}),
        ("budget.money", {"budget": {"money": 1.0}}, {"budget": {"money": None}}),
        ("most_unknown", {"most_unknown": 0.9}, {"most_unknown": None}),
        ("tracing", {"tracing": "otel"}, {"tracing": "none"}),
        (
            "cluster.retries",
            {"cluster": {"kind": "inline", "retries": 2}},
            {"cluster": {"kind": "inline", "retries": 0}},
        ),
    ],
)
def test_keys_that_need_a_cluster_are_refused(
    tmp_path: Path, key: str, changes: dict[str, Any], allowed: dict[str, Any]
) -> None:
    with pytest.raises(ConfigError, match=f"cluster='inline': must be local or address if {key} is given"):
        run_inline(checked(tmp_path, **changes))
    assert run_inline(checked(tmp_path, **allowed))


def test_commands_that_need_a_cluster_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
