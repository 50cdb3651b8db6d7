"""Modules that are taken into their only readers: the reader does what both did, and what would differ stays."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from launch import merged

READER = '''"""Reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grid.a import part
from grid.b import other as known

if TYPE_CHECKING:
    from grid.a.part import Kind

LIMIT = 3


def both(kind: Kind) -> list[object]:
    """What both say."""
    return [part.doubled(LIMIT), part.TABLE["a"], known, kind]
'''
PART = '''"""Doubles numbers.

As a paper has it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

Kind = str
TABLE: Mapping[str, int] = {"a": 1}


def doubled(number: int) -> float:
    """Twice as much."""
    return math.fsum([number, number])  # exactly
'''


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    files = {"a/reader.py": READER, "a/part.py": PART, "b.py": "other = 7\n", "core/moved.txt": ""}
    for name, text in files.items():
        path = tmp_path / "grid" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (tmp_path / "conf").mkdir()
    monkeypatch.setattr(merged, "ROOT", tmp_path)
    return tmp_path


def merge(capsys: pytest.CaptureFixture[str]) -> str:
    assert merged.main(["grid.a"]) == 0
    return capsys.readouterr().out


def values(house: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What the reader gives."""
    monkeypatch.setitem(sys.modules, "grid.b", type(sys)("grid.b"))
    sys.modules["grid.b"].__dict__["other"] = 7
    space: dict[str, Any] = {}
    exec(compile((house / "grid/a/reader.py").read_text(encoding="utf-8"), "reader", "exec"), space)  # noqa: S102
    return space["both"]("k")


def test_the_reader_does_what_both_did(
    house: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert merge(capsys) == "grid.a.part -> grid.a.reader\n"
    assert not (house / "grid/a/part.py").exists()
    assert values(house, monkeypatch) == [6.0, 1, 7, "k"]
    text = (house / "grid/a/reader.py").read_text(encoding="utf-8")
    assert "# Doubles numbers.\n#\n# As a paper has it.\n" in text
    assert text.index("def both") < text.index("def doubled"), "a part that is needed later stands behind"
    assert (house / "grid/core/moved.txt").read_text(encoding="utf-8") == "grid.a.part grid.a.reader\n"


def test_a_reader_without_imports_for_types_has_them_then(
    house: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    without = READER.replace("if TYPE_CHECKING:\n    from grid.a.part import Kind\n\n", "").replace(
        "kind: Kind", "kind"
    )
    text = without.replace("from typing import TYPE_CHECKING\n\n", "")
    (house / "grid/a/reader.py").write_text(text, encoding="utf-8")
    merge(capsys)
    assert values(house, monkeypatch) == [6.0, 1, 7, "k"]


def test_what_is_needed_at_once_stands_before(
    house: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = house / "grid/a/reader.py"
    path.write_text(READER.replace("LIMIT = 3", "LIMIT = int(part.doubled(2)) - 1"), encoding="utf-8")
    merge(capsys)
    assert values(house, monkeypatch) == [6.0, 1, 7, "k"]


@pytest.mark.parametrize(
    ("file", "old", "new", "why"),
    [
        ("reader", "LIMIT = 3", "TABLE = 3", "both have TABLE"),
        ("reader", "import part", "import part, doubled", "both have doubled"),
        ("reader", "kind: Kind", "doubled: Kind", "locals hide doubled"),
        ("reader", "known, kind", "known, part", "takes it for a value"),
        ("part", "import math", "import grid.a.reader\nimport math", "it reads its reader"),
        ("part", "Kind = str", "Kind = str\nif Kind:\n    Kind = int", "a If at its top"),
        ("part", "Kind = str", "Kind = str\nknown = 1", "both have known"),
        ("part", "Kind = str", "Kind = str\nint = str", "both have int"),
        ("part", "Kind = str", "Kind = str\n" + "#\n" * 600, "too long"),
        ("reader", "    return [", "    from grid.a import part\n    return [", "imported late"),
    ],
)
def test_what_would_mean_something_else_stays(
    house: Path, file: str, old: str, new: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = house / f"grid/a/{file}.py"
    before = path.read_text(encoding="utf-8")
    assert old in before
    path.write_text(before.replace(old, new, 1), encoding="utf-8")
    if new.endswith("int = str"):
        (house / "grid/a/reader.py").write_text(READER.replace("part.doubled(LIMIT)", "int(LIMIT)"), encoding="utf-8")
    assert why in merge(capsys)
    assert (house / "grid/a/part.py").exists()


def test_what_a_config_names_stays(house: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (house / "conf/x.yaml").write_text("_target_: grid.a.part.Kind\n", encoding="utf-8")
    assert merge(capsys) == ""
