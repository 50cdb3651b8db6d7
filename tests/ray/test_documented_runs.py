"""The commands of the pages that need nothing else, run as a reader would, one after another in one folder."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from grid import store
from tests.commands import launch
from tests.documented import CELL, FIRST, ROOT, RUN, Shown


def test_the_commands_of_the_pages_run(tmp_path: Path) -> None:
    shown = [Shown("", text) for text in RUN]
    assert shown[0].text == FIRST
    for command, added in zip(shown, RUN.values(), strict=True):
        status, said = ran(command, list(added), tmp_path)
        assert status == 0, f"{command.text}\n{said}"
        if command.text == FIRST:
            assert "ran 36 cells" in said
            shutil.copytree(tmp_path / "results/first", tmp_path / "results/mine")
    assert (tmp_path / "results/both/report.html").is_file()
    assert list((tmp_path / "tables").glob("*.md"))
    assert (tmp_path / "results/mine/comparison.html").is_file()
    assert (tmp_path / "pages/index.html").is_file()
    assert (tmp_path / "mylab/planners/careful.py").is_file()


def ran(command: Shown, added: list[str], folder: Path) -> tuple[int, str]:
    """A command's exit status and what it said."""
    words = [cell_of(folder) if word == CELL else word for word in command.words[1:]]
    if command.program.startswith("agent-grid"):
        ended = launch("main", folder, *words, *added)
        return ended.status, ended.out + ended.err
    path = os.pathsep.join([str(ROOT), str(ROOT / "launch")])
    found = subprocess.run(
        [sys.executable, *words], cwd=folder, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True,
        check=False, timeout=600,
    )  # fmt: skip
    return found.returncode, f"{shlex.join(words)}\n{found.stdout}{found.stderr}"


def cell_of(folder: Path) -> str:
    """The id of some cell of the first sweep."""
    return str(store.read(folder / "results/first", "episodes", ["cell_id"])["cell_id"][0].as_py())
