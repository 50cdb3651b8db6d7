"""The Python API, and the notebook that shows it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

import grid
from grid.core.errors import GridError, StoreError

NOTEBOOK = Path(__file__).parents[2] / "analysis" / "notebooks" / "python_api.ipynb"


def test_the_notebook_runs_and_its_sweep_is_done_once(tmp_path: Path) -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)  # type: ignore[no-untyped-call]
    assert not any(cell.get("outputs") for cell in notebook.cells), "kept without outputs"
    client = NotebookClient(notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": tmp_path}})
    client.execute()
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    last = [next(one for one in reversed(cell.outputs) if one.output_type == "execute_result") for cell in cells]
    told = [one["data"]["text/plain"] for one in last]
    assert [len(cell.outputs) for cell in (cells[0], cells[3])] == [2, 2], "of a sweep one output, and its results"
    assert cells[0].outputs[0]["data"]["text/plain"].startswith("ran 160 cells in ")
    assert "<table>" in last[0]["data"]["text/html"]
    assert sum(len(str(cell.outputs)) for cell in (cells[0], cells[3])) < 25_000
    assert "results/python_api" in told[0]
    assert told[0].endswith("True)")
    assert all(name in told[1] for name in ("react", "egb_logits", "extraneous", "40"))
    assert told[3] == "160", "2 planners, 2 settings, 20 cases, 2 trials"
    shown = "".join(one["data"]["text/plain"] for one in cells[3].outputs if "data" in one)
    assert "nothing to run: all 160 cells" in shown

    found = grid.load(tmp_path / "results" / "python_api")
    frame = found.pandas("episodes", ["planner", "success"])
    assert len(frame) == found.arrow().num_rows == 160
    (row,) = found.duckdb().aggregate("count(*) as n, sum(success::int) as solved").fetchall()
    assert row == (160, int(frame["success"].sum()))


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["planner=reakt"], "(did you mean react?)"),
        (["trials=0"], "trials=0: "),
        (["planner.budgt=1"], "budgt"),
        (["--config-path=x"], "--config-path"),
        (["hydra.run.dir=x"], "hydra.run.dir"),
        (["planner=react,"], "planner"),
    ],
)
def test_what_cannot_run_is_an_error_of_one_line_that_names_the_key(
    overrides: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(GridError) as caught:
        grid.sweep(*overrides)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not os.listdir(tmp_path)


def test_a_folder_without_results_is_told() -> None:
    with pytest.raises(StoreError, match="no results here"):
        grid.load("gone")


def test_there_is_nothing_else() -> None:
    with pytest.raises(AttributeError, match="no attribute 'run'"):
        _ = grid.run


LEFT = """
import faulthandler, json, os, random, signal, sys
import pandas  # imports six, which adds to sys.meta_path
import ray
import grid

SMALL = "planner=react", "model=lexical", "robustness=none", "dataset.limit=2", "trials=1", "cluster.dashboard=false"

def state():
    handlers = [str(signal.getsignal(one)) for one in signal.Signals if one not in (signal.SIGKILL, signal.SIGSTOP)]
    return dict(os.environ), handlers, list(sys.meta_path), random.getstate(), faulthandler.is_enabled()

before = state()
assert grid.sweep(*SMALL, "name=first").complete
assert state() == before
assert not ray.is_initialized()
ray.init(address="local", num_cpus=1, include_dashboard=False, log_to_driver=False)
assert grid.sweep(*SMALL, "name=second").complete
assert ray.get(ray.remote(lambda: 5).remote()) == 5, "the caller's own Ray runs on"
assert sorted(os.listdir(os.environ["HOME"])) == [".ray"], "the token of the caller's own"
"""


def test_a_process_is_as_it_was_and_its_own_ray_is_used(tmp_path: Path) -> None:
    """Of the imports of Ray and pandas nothing is asked."""
    (home := tmp_path / "home").mkdir()
    ran = tmp_path / "ran"
    ran.mkdir()
    root = Path(__file__).parents[2]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    environment = {"XDG_CACHE_HOME": str(Path.home() / ".cache")} | kept | {"HOME": str(home), "PYTHONPATH": str(root)}
    ended = subprocess.run(
        [sys.executable, "-c", LEFT], cwd=ran, env=environment, capture_output=True, text=True, timeout=600
    )
    assert ended.returncode == 0, ended.stderr
