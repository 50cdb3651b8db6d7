"""A digest changes with code that can change a result, and with nothing else."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from grid import code_digest as digests

MODULE = '''
"""A planner."""
from typing import TYPE_CHECKING

from pack.parts import helper
from .beside import LIMIT

if TYPE_CHECKING:
    from pack.unrelated import Thing


def solve(case: int) -> int:
    """Solve it."""
    from pack import late  # imported when it is needed

    return helper(case) + LIMIT + late.ONE
'''
FILES = {
    "__init__.py": "",
    "planner.py": MODULE,
    "beside.py": "LIMIT = 3\n",
    "late.py": "ONE = 1\n",
    "unrelated.py": "class Thing: ...\n",
    "parts/__init__.py": "from pack.parts.deep import helper\n",
    "parts/deep.py": "def helper(case: int) -> int:\n    return case * 2\n",
    "words/stop.yaml": "- a\n",
}


@pytest.fixture
def pack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "pack"
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    yield folder
    for name in [name for name in sys.modules if name.partition(".")[0] == "pack"]:
        del sys.modules[name]


def digest() -> str:
    """As a new process has it."""
    for cached in (digests.code_digest, digests._imported, digests._normalised):
        cached.cache_clear()
    importlib.invalidate_caches()
    return digests.code_digest(("pack.planner",))


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("planner.py", "def solve(case: int)", "# why\n\n\ndef  solve( case :int )"),
        ("planner.py", "Solve it.", "Solve it well."),
        ("planner.py", '"""A planner."""', ""),
        ("beside.py", "3\n", "3  # three\n"),
        ("unrelated.py", "...", "x = 1"),
    ],
    ids=["formatting", "docstring", "module's docstring", "comment", "imported for types only"],
)
def test_what_cannot_change_a_result_does_not_count(pack: Path, file: str, old: str, new: str) -> None:
    before = digest()
    text = (pack / file).read_text()
    assert old in text
    (pack / file).write_text(text.replace(old, new))
    assert digest() == before


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("planner.py", "+ LIMIT", "- LIMIT"),
        ("beside.py", "3", "4"),
        ("late.py", "1", "2"),
        ("parts/deep.py", "* 2", "* 3"),
        ("parts/__init__.py", "from", "X = 1\nfrom"),
        ("words/stop.yaml", "a", "b"),
    ],
    ids=["own", "relative import", "late import", "imported by an import", "a package's file", "a word list"],
)
def test_what_can_change_a_result_counts(pack: Path, file: str, old: str, new: str) -> None:
    before = digest()
    text = (pack / file).read_text()
    (pack / file).write_text(text.replace(old, new))
    assert digest() != before


def test_nothing_is_imported_by_being_digested_but_packages(pack: Path) -> None:
    before = digest()
    (pack / "beside.py").write_text("import nosuchmodule\nLIMIT = 3\n")
    assert digest() != before
    imported = {name for name in sys.modules if name.partition(".")[0] == "pack"}
    assert imported <= {"pack", "pack.parts", "pack.parts.deep"}, "the last by its package"


def test_code_of_the_grid_that_a_class_imports_counts(pack: Path) -> None:
    (pack / "beside.py").write_text("from grid.seeds import derive_seed\nLIMIT = 3\n")
    found = digests._closure(["pack.planner"], frozenset({"pack", "grid"}))
    assert "grid.seeds" in found
    assert "ast" not in found


def test_a_planner_counts_its_prompts_and_not_other_planners() -> None:
    found = digests._closure(["grid.planners.react"], frozenset({"grid"}))
    assert {"grid.planners.acting", "grid.planners.prompts", "grid.planners.base", "grid.text.answers"} <= set(found)
    assert not {"grid.planners.egb", "grid.runner.run", "grid.runner.batch", "grid.store"} & set(found)


def test_the_contracts_are_no_part_of_what_they_test() -> None:
    own = frozenset({"grid"})
    found = digests._closure(["grid.planners.react", "grid.datasets.slate.dataset", "grid.metrics.stepwise"], own)
    assert "grid.planners.acting" in found
    assert not [name for name in found if name.startswith("grid.contracts")]
