"""TRAJECT-Bench's statistics beside the paper's (traject_bench tables 8 and 9)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from grid import data
from grid.datasets.traject_bench import stats
from grid.datasets.traject_bench.dataset import TrajectBench


def test_the_published_figures_add_up_to_the_paper_s_totals() -> None:
    sums = [sum(column) for column in zip(*stats.PUBLISHED.values(), strict=True)]
    assert sums == [1228, 2000, 2000, 1870]


def test_files_are_counted_entry_by_entry(small_traject_bench: str) -> None:
    root = TrajectBench(small_traject_bench).root
    for domain, found in stats.tools(root).items():
        rows = json.loads((root / "tools" / f"{domain}_tool.json").read_text(encoding="utf-8"))
        assert found == (len(rows), len({" ".join(row["tool name"].split()) for row in rows}))
    assert stats.tools(root)["Travel"] == (7, 6), "a definition that comes twice"
    for level, name in (("simple", "simple_ver"), ("hard", "hard_ver")):
        for domain, found in stats.queries(root, "parallel", level).items():  # type: ignore[arg-type]
            rows = json.loads((root / "parallel" / domain / f"{name}.json").read_text(encoding="utf-8"))
            assert found == (len(rows), len(rows))


def test_what_cannot_be_a_case_is_counted_apart(small_traject_bench: str, tmp_path: Path) -> None:
    file = tmp_path / "parallel" / "Travel" / "simple_ver.json"
    file.parent.mkdir(parents=True)
    there = TrajectBench(small_traject_bench).root / "parallel" / "Travel" / file.name
    rows = json.loads(there.read_text(encoding="utf-8"))
    file.write_text(json.dumps([*rows, {"query": " ", "tool list": rows[0]["tool list"]}]), encoding="utf-8")
    assert stats.queries(tmp_path, "parallel", "simple") == {"Travel": (len(rows) + 1, len(rows))}


def test_the_command_prints_both_tables(small_traject_bench: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert data.main(["traject_bench", f"dataset.path={small_traject_bench}", "--stats"]) == 0
    assert "table 9" in capsys.readouterr().out
