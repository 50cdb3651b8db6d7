"""One setting from the command line, on a local Ray of its own."""

from __future__ import annotations

from pathlib import Path

from tests.commands import launch


def test_one_setting_without_m(own_cache: None, tmp_path: Path) -> None:
    ended = launch(
        "sweep", tmp_path, "dataset.limit=1", "trials=1", "name=one", "cluster.dashboard=false", "cluster.cpus=1"
    )
    assert ended.status == 0, ended.err
    assert "1 settings, 1 cells" in ended.out
    (row,) = ended.rows("one")
    assert (row["planner"], row["robustness"], row["model"]) == ("react", "none", "simulated")
