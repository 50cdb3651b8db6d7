"""The public names of `grid`: they are what they say, load nothing early, and a plugin's digest sees through them."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import grid
from grid.code_digest import code_digest
from tests.support.loops import each


def test_types_are_told_the_same_names() -> None:
    tree = ast.parse(Path(grid.__file__ or "").read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    imports = (node for node in block.body if isinstance(node, ast.ImportFrom))
    told = {(node.module, name.name, name.asname) for node in imports for name in node.names}
    assert told == {(module, name, name) for module, names in grid.FACE.items() for name in names}


@each("name", [name for names in grid.FACE.values() for name in names])
def test_a_name_is_its_modules(name: str) -> None:
    module = next(module for module, names in grid.FACE.items() if name in names)
    assert getattr(grid, name) is getattr(import_module(module), name)
    assert name in dir(grid)


@pytest.mark.parametrize("name", ["Plannner", "acting", "FACES"])
def test_an_unknown_name_is_none(name: str) -> None:
    with pytest.raises(AttributeError, match=name):
        getattr(grid, name)


def test_nothing_is_loaded_before_it_is_asked_for() -> None:
    heavy = "torch", "ray", "vllm", "hydra", "pandas", "pydantic"
    code = f"import sys, grid; print([name for name in {heavy} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_a_plugins_digest_sees_what_it_takes_from_the_face(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing else of it: the two modules have one digest, and it is another where one of another name is taken."""
    texts = {
        "faced": "from grid import vote\n\n\ndef act():\n    return vote\n",
        "direct": "from grid.planners.votes import vote\n\n\ndef act():\n    return vote\n",
        "other": "from grid import derive_seed as vote\n\n\ndef act():\n    return vote\n",
    }
    for name, text in texts.items():
        folder = tmp_path / f"of_{name}"
        folder.mkdir()
        (folder / "__init__.py").write_text("")
        (folder / "part.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    faced, direct, other = (code_digest((f"of_{name}.part.act",)) for name in texts)
    assert faced == direct != other
