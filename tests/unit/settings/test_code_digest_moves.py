"""The digest on this project's source and a plugin's: a few moves and changes; `-m slow` makes hundreds."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import grid
from tests.studies.code_trials import EXAMPLES, MOVES, PLUGIN, ROOTS, Trial
from tests.studies.source_moves import Module, Tree, merged, module_renamed, read, reformatted, taken

HERE = Path(grid.__file__).parent.parent
SOURCES = {
    "grid": (HERE, ("grid.planners.react.ReAct", "grid.robustness.costs.Costs")),
    "mylab": (EXAMPLES, PLUGIN),
}


@pytest.mark.long
@pytest.mark.parametrize("package", SOURCES)
def test_moves_change_no_digest_and_changes_those_that_reach_them(package: str, tmp_path: Path) -> None:
    source, roots = SOURCES[package]
    trial = Trial.of(source, package, roots, tmp_path)
    moves = [*trial.moves(len(MOVES), seed=7)]
    assert {one.kind for one in moves} == set(MOVES)
    assert "none" not in {one.what for one in moves}
    changes = [*trial.changes(7, seed=7), *trial.changes(2, seed=7, reached=False)]
    assert len(changes) == 9
    assert [one for one in (*moves, *changes) if one.wrong] == []


@pytest.mark.slow
@pytest.mark.parametrize("package", SOURCES)
def test_hundreds_of_moves_change_no_digest_and_each_change_of_reached_code_does(package: str, tmp_path: Path) -> None:
    trial = Trial.of(SOURCES[package][0], package, ROOTS if package == "grid" else PLUGIN, tmp_path)
    tried = [*trial.moves(200, seed=0), *trial.changes(200, seed=0), *trial.changes(100, seed=0, reached=False)]
    assert len(tried) == 500
    assert [one for one in tried if one.wrong] == []


ONE = '''"""Docs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pack.two import helper

if TYPE_CHECKING:
    from pack.two import Kind

LIMIT = 3


# Why it is so.
def used(x: Kind) -> int:
    """Say it."""
    return helper(x) + LIMIT


def user() -> int:
    return used(1)
'''
TWO = "class Kind: ...\n\n\ndef helper(x):\n    return x\n"
USER = "from pack import one\nfrom pack.one import used as it\n\n\ndef root():\n    return it(1), one.user()\n"


def run_in(tmp_path: Path, texts: dict[str, str], name: str) -> object:
    """What `name.root()` gives, of modules written to a folder."""
    for module, text in texts.items():
        file = tmp_path.joinpath(*module.split("."))
        file = file / "__init__.py" if module == "pack" else file.with_suffix(".py")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    code = f"from {name} import root; print(root())"
    return subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("kind", ["taken", "taken with a face", "renamed", "merged", "written otherwise"])
def test_moved_source_runs_as_before(kind: str, tmp_path: Path) -> None:
    texts = {"pack": "", "pack.one": ONE, "pack.two": TWO, "pack.user": USER}
    assert run_in(tmp_path, texts, "pack.user") == "(4, 4)\n"
    for file in tmp_path.rglob("*.py"):
        file.unlink()
    tree = read(tmp_path, ("pack",), ("pack.user.root",))
    tree = tree.put(*(Module(name, text, name == "pack") for name, text in texts.items()))
    moves: dict[str, Callable[[], Tree | None]] = {
        "taken": lambda: taken(tree, {"helper"}, "pack.two", "pack.three", faces=False),
        "taken with a face": lambda: taken(tree, {"helper", "Kind"}, "pack.two", "pack.three", faces=True),
        "renamed": lambda: module_renamed(tree, "pack.one", "pack.first"),
        "merged": lambda: merged(tree, "pack.two", "pack.one"),
        "written otherwise": lambda: tree.with_text("pack.one", reformatted(ONE)),
    }
    moved = moves[kind]()
    assert moved
    now = {name: module.text for name, module in moved.modules.items()}
    assert now != texts
    assert run_in(tmp_path, now, moved.roots["pack.user.root"].rpartition(".")[0]) == "(4, 4)\n"
    assert ("# Why" in now.get("pack.one", "# Why")) == (kind != "written otherwise")
