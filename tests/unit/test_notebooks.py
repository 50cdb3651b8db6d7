"""Every notebook runs from a clean kernel, on the sweep that GRID_RESULTS names, else on simulated rows."""

from __future__ import annotations

import os
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from tests import simulated

NOTEBOOKS = sorted((Path(__file__).parents[2] / "analysis" / "notebooks").glob("*.ipynb"))


def test_there_is_one_for_each_section() -> None:
    assert [path.name.partition("_")[0] for path in NOTEBOOKS] == ["sec4p2", "sec4p3", "sec4p4", "sec4p5"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if "GRID_RESULTS" not in os.environ:
        simulated.write(tmp_path, count=60)
        monkeypatch.setenv("GRID_RESULTS", str(tmp_path))
    notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    assert not any(cell.get("outputs") for cell in notebook.cells), "kept without outputs"
    NotebookClient(notebook, timeout=600, kernel_name="python3").execute()
    shown = [cell for cell in notebook.cells if cell.cell_type == "code" and cell.outputs]
    assert len(shown) == sum(cell.cell_type == "code" for cell in notebook.cells)
