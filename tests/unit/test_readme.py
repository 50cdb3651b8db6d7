"""README's figures are those of a sweep, or it is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from launch import readme
from tests import simulated


def test_figures_are_put_into_readme_and_held_against_the_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    simulated.write(tmp_path)
    monkeypatch.setattr(readme, "README", tmp_path / "README.md")
    monkeypatch.setattr(readme, "_UNDISTURBED", "tools_strict")
    before = "# x\n<!-- figures of the default sweep: x -->\nold\n<!-- end of figures -->\nbehind\n"
    readme.README.write_text(before, encoding="utf-8")
    assert readme.main([str(tmp_path), "--check"]) == 1
    assert "README.md has other figures" in capsys.readouterr().err
    assert "old" in readme.README.read_text(encoding="utf-8")
    assert readme.main([str(tmp_path)]) == 0
    said = readme.README.read_text(encoding="utf-8")
    assert "old" not in said
    assert "| tools\\_strict | " in said
    assert said.endswith("<!-- end of figures -->\nbehind\n")
    assert readme.main([str(tmp_path), "--check"]) == 0
    readme.README.write_text(said.replace("| tools\\_strict | ", "| tools\\_strict |  ", 1), encoding="utf-8")
    assert readme.main([str(tmp_path), "--check"]) == 1


def test_what_cannot_be_read_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert readme.main([str(tmp_path / "nothing")]) == 2
    simulated.write(tmp_path)
    monkeypatch.setattr(readme, "README", tmp_path / "README.md")
    readme.README.write_text("no place", encoding="utf-8")
    assert readme.main([str(tmp_path)]) == 2
    assert "has no place for figures" in capsys.readouterr().err
