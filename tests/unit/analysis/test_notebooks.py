"""Every notebook runs from a clean kernel, on the sweep that GRID_RESULTS names, else on simulated rows."""

from __future__ import annotations

import os
import re
import runpy
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from grid import store
from tests.support import simulated
from tests.unit.analysis.test_version_16 import HORIZON, WRITTEN

NOTEBOOKS = sorted((Path(__file__).parents[3] / "analysis" / "notebooks").glob("sec*.ipynb"))


def ran(path: Path) -> list[str]:
    """What each code cell of a notebook printed."""
    notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    assert not any(cell.get("outputs") for cell in notebook.cells), "kept without outputs"
    NotebookClient(notebook, timeout=600, kernel_name="python3").execute()
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(cell.outputs for cell in cells)
    return ["".join(one.get("text", "") for one in cell.outputs) for cell in cells]


def test_there_is_one_for_each_section() -> None:
    assert [path.name.partition("_")[0] for path in NOTEBOOKS] == ["sec4p2", "sec4p3", "sec4p4", "sec4p5"]


@pytest.mark.long
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if "GRID_RESULTS" not in os.environ:
        simulated.write(tmp_path, count=60)
        monkeypatch.setenv("GRID_RESULTS", str(tmp_path))
    assert ran(path)[0].startswith("This shows ")


def code(path: Path) -> list[str]:
    notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    return [cell.source for cell in notebook.cells if cell.cell_type == "code"]


def printed_by(
    path: Path, root: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> list[str]:
    """What its code prints in this process: a kernel each would take seconds."""
    monkeypatch.setenv("GRID_RESULTS", str(root))
    script = scratch / "notebook.py"
    script.write_text("\n".join(code(path)), encoding="utf-8")
    runpy.run_path(str(script))
    return capsys.readouterr().out.strip().split("\n")


@pytest.mark.long
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
@pytest.mark.parametrize("folder", ["another planner", "version 16", "no episodes", "no folder"])
def test_a_folder_without_the_study_ends_with_a_sentence(
    path: Path, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if folder == "another planner":
        rows = simulated.episodes(0, 5).assign(planner="react", robustness="none")
        store.write(tmp_path, {"episodes": [simulated.row(row) for row in rows.to_dict("records")]})
    roots = {"no folder": tmp_path / "gone", "version 16": WRITTEN}
    printed = printed_by(path, roots.get(folder, tmp_path), tmp_path, monkeypatch, capsys)
    there = folder in ("another planner", "version 16")
    assert printed[0].startswith("This shows " if there else "There is nothing to show: ")
    assert printed[-1].endswith(".")
    assert not there or "of these two planners this folder has neither" in printed[1]


@pytest.mark.long
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_study_of_version_16_lacks_nothing(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its figures are those of its time: `test_version_16`."""
    printed = printed_by(path, HORIZON, tmp_path, monkeypatch, capsys)
    assert printed[0].startswith("This shows simulated: ")
    assert printed[0].endswith("160 episodes.")
    assert "SVG object" in "".join(printed)
    assert not [line for line in printed if re.match(r"No|not fitted|planning_horizon's", line)]
