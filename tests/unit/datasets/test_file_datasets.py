"""What all data sets out of files share, shown by the one that docs/tools.md has."""

from __future__ import annotations

import json
import re
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from grid.contracts.trying import reference_resolves
from grid.core.errors import ConfigError, DataError

PAGE = Path(__file__).parents[3] / "docs" / "tools.md"
LINE = json.loads(re.findall(r"```json\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)[-1])


@pytest.fixture(scope="module")
def cls(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The class that the page shows."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    code = next(block for block in blocks if "FileDataset" in block)
    module = tmp_path_factory.mktemp("page") / "desk.py"
    module.write_text(code, encoding="utf-8")
    return runpy.run_path(str(module))["Desk"]


@pytest.fixture
def desk(cls: Any, tmp_path: Path) -> Callable[..., Any]:
    """The data set of lines, with keys."""

    def made(*lines: Any, **keys: Any) -> Any:
        (tmp_path / "desk.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        return cls(str(tmp_path), **keys)

    return made


def line(template: str, tool: str = "reset") -> Any:
    first, last = LINE["calls"]
    return {**LINE, "template": template, "calls": [first, {**last, "tool": tool}]}


def test_a_case_is_resolved_by_its_own_calls(desk: Callable[..., Any]) -> None:
    data = desk(LINE)
    (case_id,) = data.case_ids()
    assert case_id == "desk-1"
    assert reference_resolves(data.problem(case_id))
    assert data.version.startswith("desk-a1-")


def test_what_cannot_be_a_case_is_told(desk: Callable[..., Any]) -> None:
    data = desk(line("a"), line("a", "delete"), line("b"))
    assert data.case_ids()
    assert [(skip.record, skip.reason) for skip in data.skipped] == [("desk-2", "there is no tool delete")]
    with pytest.raises(
        ConfigError,
        match=r"dataset.path=.*usable record; reason for the first of 1 skipped records: there is no tool x",
    ):
        desk(line("a", "x")).case_ids()


def test_what_nobody_foresaw_ends_the_reading_with_the_case(desk: Callable[..., Any]) -> None:
    with pytest.raises(DataError, match=r"desk\.jsonl: desk-2 cannot be read: KeyError: 'calls'"):
        desk(LINE, {"question": "What?", "template": "a"}).case_ids()


def test_a_first_part_has_its_share_of_each_template(desk: Callable[..., Any]) -> None:
    lines = [line("often")] * 8 + [line("seldom")] * 4
    clusters = [desk(*lines, limit=6).cluster(name) for name in desk(*lines, limit=6).case_ids()]
    assert sorted(clusters) == ["often"] * 4 + ["seldom"] * 2
    assert desk(*lines, limit=2, order="file").case_ids() == ["desk-1", "desk-2"]


@pytest.mark.parametrize("asked", ["tools", "version", "files"])
def test_a_folder_without_the_file_is_refused_by_name(cls: Any, tmp_path: Path, asked: str) -> None:
    with pytest.raises(ConfigError, match=r"dataset\.path=.*desk\.jsonl"):
        getattr(cls(str(tmp_path)), asked)
