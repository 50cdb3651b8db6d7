"""Modules that have another name today: a plugin of before runs, is told the new names, and can be rewritten."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from grid.core.moved import FIRST, MOVED, named_today, today
from grid.settings.make import load_class
from grid.settings.setting import cells
from grid.sweeps.composing import Composed
from grid.sweeps.jobs import resolved
from launch.renamed import main, renamed
from tests.support.configs import setting_of
from tests.support.loops import each

ROOT = Path(__file__).parents[3]
BEFORE = ROOT / "tests/data/mylab_before.tar.gz"
"""`examples/mylab` as it was before any module moved."""


ROOM = {
    "datasets": "dataset", "planners": "planner", "robustness": "robustness", "engines": "model",
    "retrievers": "retriever",
}  # fmt: skip
"""The group of a config whose classes a room has."""
INSPECTING = [old for old in MOVED if old.startswith("analysis.inspect")]


@each("old", [old for old in MOVED if old not in INSPECTING])
def test_an_old_name_is_the_same_module_and_tells_the_new_one(old: str) -> None:
    same_module(old)


@pytest.mark.parametrize("old", INSPECTING)
def test_so_is_an_old_name_that_needs_inspect(old: str) -> None:
    pytest.importorskip("inspect_ai")
    same_module(old)


def same_module(old: str) -> None:
    sys.modules.pop(old, None)
    with pytest.warns(FutureWarning, match=f"{old} has moved to {MOVED[old]}"):
        module = import_module(old)
    new = import_module(MOVED[old])
    assert module is new
    assert new.__spec__ is not None
    assert (new.__name__, new.__spec__.name) == (MOVED[old], MOVED[old])
    assert not (ROOT / old.replace(".", "/")).with_suffix(".py").exists()


def test_new_names_are_no_old_ones() -> None:
    assert not MOVED.keys() & set(MOVED.values())
    assert all(find_spec(new) for new in MOVED.values())


@each("first", [*FIRST.values()])
def test_a_config_may_name_a_class_by_either_name_and_a_row_has_the_first(first: str) -> None:
    now, group = today(first), ROOM[first.split(".")[1]]
    assert named_today({"part": {"_target_": first}}) == {"part": {"_target_": now}}
    load_class(group, {"_target_": now})
    known = setting_of(dataset="slate")
    old, new = (
        replace(known, config={**known.config, group: {"one": part} if group == "robustness" else part})
        for part in ({"_target_": first}, {"_target_": now})
    )
    assert (old.id, old.seed_id, old.text) == (new.id, new.seed_id, new.text)
    assert first in new.text
    assert next(cells(old, "1", ["a"], 1)) == next(cells(new, "1", ["a"], 1))


def test_every_first_name_is_of_a_class_that_moved() -> None:
    modules = {first.rpartition(".")[0]: now.rpartition(".")[0] for now, first in FIRST.items()}
    assert {first: MOVED[first] for first in modules} == modules


def test_a_sweep_reads_a_class_by_the_name_of_before() -> None:
    composed = Composed(
        OmegaConf.create({"planner": {"_target_": "grid.planners.sh.SingleStepHorizon"}}), {"planner": "sh"}, []
    )
    assert resolved(composed)[0]["planner"]["_target_"] == "grid.planners.horizon.SingleStepHorizon"


@pytest.mark.long
def test_a_plugin_of_before_runs_and_once_rewritten_without_a_warning(tmp_path: Path) -> None:
    folder = tmp_path / "mylab"
    with tarfile.open(BEFORE) as archive:
        archive.extractall(tmp_path, filter="data")
    told = own_tests(folder)
    assert "FutureWarning: grid.types has moved to grid.core.types" in told
    program = [sys.executable, str(ROOT / "launch/renamed.py"), str(folder)]
    written = subprocess.run(program, capture_output=True, text=True, check=True).stdout
    assert str(folder / "mylab/planners/two_minds.py") in written
    assert "FutureWarning" not in own_tests(folder)
    assert subprocess.run(program, capture_output=True, text=True, check=True).stdout == ""


def own_tests(folder: Path) -> str:
    """What a plugin's own tests print."""
    found = subprocess.run(
        [sys.executable, "-W", "always", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "always", "tests"],
        cwd=folder, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"},
    )  # fmt: skip
    assert found.returncode == 0, found.stdout + found.stderr
    return found.stdout + found.stderr


TABLE = {"grid.a.base": "grid.core.thing", "grid.types": "grid.core.types"}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("from grid.types import X\n", "from grid.core.types import X\n"),
        ("import grid.types as t\n", "import grid.core.types as t\n"),
        ("from grid import types\n", "from grid.core import types\n"),
        ("    from grid.a import base, b as c\n",
         "    from grid.a import b as c\n    from grid.core import thing as base\n"),
        ("# grid/types.py, grid.types_of, my.grid.types\n", "# grid/core/types.py, grid.types_of, my.grid.types\n"),
        ("from grid.types import (\n    X,\n    Y,\n)\n", "from grid.core.types import (\n    X,\n    Y,\n)\n"),
        ("'grid.types.Usage'\n", "'grid.core.types.Usage'\n"),
        ("from grid.a import base; x = 1  # kept\n", "from grid.core import thing as base; x = 1  # kept\n"),
        ("é = 1; from grid.a import base, b; from grid import types\n",
         "é = 1; from grid.a import b; from grid.core import thing as base; from grid.core import types\n"),
        ("\tfrom grid.a import base, b  # é\n", "\tfrom grid.a import b\n\tfrom grid.core import thing as base  # é\n"),
        ("from grid.a import (  # one\n    base,  # two\n    b,\n)  # three\n",
         "# one\n# two\nfrom grid.a import b\nfrom grid.core import thing as base  # three\n"),
        ("x = 1; from grid.a import (base,  # kept\n)\n", "x = 1; from grid.a import (base,  # kept\n)\n"),
    ],
)  # fmt: skip
def test_names_are_rewritten(before: str, after: str) -> None:
    text = f"if x:\n{before}" if before[0].isspace() else before
    assert renamed(text, python=True, moved=TABLE) == text.replace(before, after)
    assert renamed(after, python=True, moved=TABLE) == after


def test_a_file_that_is_no_python_is_rewritten_by_its_words() -> None:
    assert renamed("_target_: grid.types.A  # (", python=True, moved=TABLE) == "_target_: grid.core.types.A  # ("


def test_a_notebooks_cells_are_rewritten_and_nothing_else_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def notebook(code: str) -> str:
        cells = [
            {"cell_type": "markdown", "source": ["Times: ½\n", "see `analysis.drawings`"]},
            {"cell_type": "code", "source": [f"from analysis import {code}, report\n", f"{code}.draw()"]},
        ]
        return json.dumps({"cells": cells, "nbformat": 4}, indent=1, ensure_ascii=False) + "\n"

    (tmp_path / "old.ipynb").write_text(notebook("heatmaps"), encoding="utf-8")
    (tmp_path / "none.ipynb").write_text("{}", encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["renamed.py", str(tmp_path)])
    assert main() == 0
    after = json.loads((tmp_path / "old.ipynb").read_text(encoding="utf-8"))["cells"][1]["source"]
    assert "".join(after) == (
        "from analysis import report\nfrom analysis.figures import drawings as heatmaps\nheatmaps.draw()"
    )
    assert (tmp_path / "none.ipynb").read_text(encoding="utf-8") == "{}"


@pytest.mark.long
@pytest.mark.parametrize("old", ["from analysis import heatmaps", "from launch import pilots"])
def test_an_old_name_loads_first_of_all(old: str) -> None:
    found = subprocess.run(
        [sys.executable, "-c", old], cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True,
        text=True, check=True,
    )  # fmt: skip
    assert "FutureWarning" in found.stderr
