"""The commands of the pages that need nothing else, run as a reader would, one after another in one folder."""

from __future__ import annotations

import shutil
from contextlib import chdir, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

import grid.store.__main__
from grid import store
from tests.support import in_process
from tests.support.documented import CELL, FIRST, RUN, Shown, with_agent, with_desk, with_endpoints
from tests.support.plugins import standing_in


def test_the_commands_of_the_pages_run(cluster: None, tmp_path: Path) -> None:
    shown = [Shown("", text) for text in RUN]
    assert shown[0].text == FIRST
    with_agent(tmp_path)
    with_endpoints(tmp_path, ["http://127.0.0.1:1/v1"] * 2)
    with standing_in(tmp_path):  # some have plugins
        for command, added in zip(shown, RUN.values(), strict=True):
            status, said = ran(command, list(added), tmp_path)
            assert status == 0, f"{command.text}\n{said}"
            if command.text == FIRST:
                assert "ran 24 cells" in said
                shutil.copytree(tmp_path / "results/first", tmp_path / "results/mine")
            if command.text == "agent-grid new dataset desk":
                with_desk(tmp_path)
    assert (tmp_path / "results/both/report.html").is_file()
    assert list((tmp_path / "tables").glob("*.md"))
    assert (tmp_path / "results/mine/comparison.html").is_file()
    assert (tmp_path / "pages/index.html").is_file()
    assert (tmp_path / "mylab/planners/careful.py").is_file()


def ran(command: Shown, added: list[str], folder: Path) -> tuple[int, str]:
    """A command's exit status and what it said."""
    words = [cell_of(folder) if word == CELL else word for word in command.words[1:]]
    if command.program == "python -m grid.store":
        return store_command(words[2:], folder)
    ended = in_process.launch("main", folder, *words, *added)
    return ended.status, ended.out + ended.err


def store_command(words: list[str], folder: Path) -> tuple[int, str]:
    """As `python -m grid.store` runs it."""
    said = StringIO()
    with chdir(folder), redirect_stdout(said), redirect_stderr(said), pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["grid.store", *words])
        return grid.store.__main__.main(), said.getvalue()


def cell_of(folder: Path) -> str:
    """The id of some cell of the first sweep."""
    return str(store.read(folder / "results/first", "episodes", ["cell_id"])["cell_id"][0].as_py())
