"""`analysis` and `launch` are found beside `grid`, whatever a folder of the same name holds where a user stands."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[3]


@pytest.fixture(params=[False, True])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder with some of ours' names; Python itself finds one without an `__init__.py` behind all that have one."""
    for name in ("analysis", "launch", "conf"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "mine.py").write_text("x = 1\n")
        if request.param:
            (tmp_path / name / "__init__.py").touch()
    return tmp_path


def python(folder: Path, code: str) -> tuple[str, str]:
    """What a program printed that stands in a folder, with warnings."""
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
    ended = subprocess.run([sys.executable, "-c", code], cwd=folder, env=environment, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout, ended.stderr


def test_both_are_imported_whichever_comes_first(folder: Path) -> None:
    both = "import grid, analysis.page.table, launch.main", "import analysis.mine, launch.mine"
    for lines in (both, both[::-1])[: 2 if (folder / "analysis/__init__.py").exists() else 1]:
        shown = "print(analysis.page.table.__file__, launch.main.__file__, analysis.mine.x, launch.mine.x)"
        out, err = python(folder, "\n".join([*lines, shown]))
        assert out.split() == [str(CHECKOUT / "analysis/page/table.py"), str(CHECKOUT / "launch/main.py"), "1", "1"]
        assert err == ""


def test_what_is_hidden_is_told_by_its_name_and_folder(folder: Path) -> None:
    (folder / "analysis" / "report.py").touch()
    _, err = python(folder, "import grid, analysis.errors")
    assert f"hides report.py in {folder.resolve() / 'analysis'}" in err
    (folder / "analysis" / "__init__.py").touch()
    _, err = python(folder, "import analysis.report, grid")
    assert f"are hidden by report.py in {folder.resolve() / 'analysis'}" in err


def test_old_names_of_our_modules_are_free_for_those_of_a_user(folder: Path) -> None:
    (folder / "analysis" / "table.py").write_text("x = 2\n")  # ours is analysis.page.table today
    out, err = python(folder, "import grid, analysis.table; print(analysis.table.x)")
    assert (out.strip(), err) == ("2", "")
