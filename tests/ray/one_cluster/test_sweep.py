"""A sweep from the command line, again, and with more cases: what runs, what is told, what is written."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from grid import store
from grid.store.schema import TIMES
from tests.support import in_process
from tests.support.commands import Ended, files, launch

GRID = ("-m", "model=lexical", "planner=react,egb_logits", "robustness=none,extraneous", "trials=2")


@dataclass(frozen=True)
class Story:
    """Three cases, the same again, a fourth case; then all four from nothing under another name."""

    first: Ended
    first_files: dict[str, bytes]
    again: Ended
    again_files: dict[str, bytes]
    more: Ended
    afresh: Ended


@pytest.fixture(scope="module")
def story(joined: Sequence[str], tmp_path_factory: pytest.TempPathFactory) -> Story:
    folder = tmp_path_factory.mktemp("story")

    def sweep(*arguments: str) -> Ended:
        """In this process, whose workers stay."""
        return in_process.launch("sweep", folder, *GRID, *arguments)

    first = sweep("dataset.limit=3", "name=a")
    first_files = files(folder / "results/a")
    again = launch("sweep", folder, *GRID, *joined, "dataset.limit=3", "name=a")
    again_files = files(folder / "results/a")
    more = sweep("dataset.limit=4", "name=a")
    afresh = sweep("dataset.limit=4", "name=b", "cluster.chunk_cells=3")
    return Story(first, first_files, again, again_files, more, afresh)


def episodes_in(written: Mapping[str, bytes]) -> int:
    return sum(name.startswith("episodes/") for name in written)


def test_a_sweep_runs_all_its_cells_and_ends_with_one_screen(story: Story) -> None:
    ended = story.first
    assert ended.status == 0, ended.err
    assert "4 settings, 24 cells (2 trials), 0 already done" in ended.out
    assert "24 ok, 0 failed" in ended.out
    assert "lexical on slate" in ended.out
    assert "minus react" in ended.out
    for label in ("egb_logits", "react", "extraneous"):
        assert label in ended.out
    assert episodes_in(story.first_files) == 1, "the chunks' files were merged at the end"
    assert not any(name.startswith(".tmp/") for name in story.first_files)


def test_the_same_again_runs_nothing_and_starts_no_ray(story: Story) -> None:
    assert (story.again.status, story.again.err) == (0, "")
    assert "24 cells (2 trials), 24 already done" in story.again.out
    assert "nothing to run: all 24 cells are already done" in story.again.out
    assert "Ray" not in story.again.out
    assert "lexical on slate" in story.again.out, "the tables are printed all the same"
    assert story.again_files == story.first_files


def test_a_higher_limit_runs_the_new_cells_only(story: Story) -> None:
    assert story.more.status == 0
    assert "32 cells (2 trials), 24 already done" in story.more.out
    assert "8 ok, 0 failed" in story.more.out
    assert len(story.more.rows("a")) == 32
    assert sum(row["cells"] for row in story.more.rows("a", "attempts")) == 32
    (first,) = (content for name, content in story.first_files.items() if name.startswith("episodes/"))
    now = {row["cell_id"]: row for row in store.read(story.more.folder / "results/a", "episodes").to_pylist()}
    for row in pq.read_table(io.BytesIO(first)).to_pylist():
        assert now[row["cell_id"]] == row, "what was written stays as it is"


def test_another_name_gets_the_same_rows_however_they_came_about(story: Story) -> None:
    assert story.afresh.status == 0
    tables: tuple[store.Table, ...] = ("episodes", "steps")
    for table in tables:
        first, second = (lasting(story.afresh.rows(name, table)) for name in ("a", "b"))
        assert len(first) >= 32
        assert first == second


def lasting(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows by cell, without the columns in which two runs may differ; `config` without the limit of its run."""
    kept = [{name: value for name, value in row.items() if name not in TIMES} for row in rows]
    for row in kept:
        if "config" in row:
            row["config"] = json.loads(row["config"])
            del row["config"]["dataset"]["limit"]
    return sorted(kept, key=lambda row: row["cell_id"])


def test_rows_of_a_sweep(story: Story) -> None:
    rows = story.first.rows("a")
    assert {(row["planner"], row["robustness"]) for row in rows} == {
        (planner, robustness) for planner in ("react", "egb_logits") for robustness in ("none", "extraneous")
    }
    assert {row["trial"] for row in rows} == {0, 1}
    assert {row["sweep"] for row in rows} == {"a"}
    assert all(row["status"] == "ok" for row in rows)
    assert all(json.loads(row["config"])["model"]["_target_"] == "grid.engines.lexical.engine.Lexical" for row in rows)


@pytest.mark.long
def test_one_setting_without_m(cluster: None, tmp_path: Path) -> None:
    ended = in_process.launch("sweep", tmp_path, "dataset.limit=1", "trials=1", "name=one")
    assert ended.status == 0, ended.err
    assert "1 setting, 1 cell" in ended.out
    (row,) = ended.rows("one")
    assert (row["planner"], row["robustness"], row["model"]) == ("react", "none", "simulated")


def test_gpus_that_are_missing_leave_no_folder(cluster: None, tmp_path: Path) -> None:
    model = ("model=smollm2-135m", "model.device=cuda")
    values = ("dataset=null_cases", "dataset.limit=1", "trials=1", "planner=react", *model)
    ended = in_process.launch("sweep", tmp_path, *values)
    assert ended.status == 2, ended.err
    (line,) = ended.err.splitlines()
    assert "GPU" in line
    assert not (tmp_path / "results").exists()
