"""TRAJECT-Bench's statistics beside the paper's (traject_bench tables 8 and 9)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

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


def test_the_command_prints_both_tables_or_says_what_it_needs(small_traject_bench: str, tmp_path: Path) -> None:
    for folder, status, said in ((small_traject_bench, 0, "table 9"), (str(tmp_path), 2, "dataset.path")):
        command = [sys.executable, "-m", "grid.datasets.traject_bench", "--stats", folder]
        found = subprocess.run(command, capture_output=True, text=True, check=False)
        assert found.returncode == status
        assert said in found.stdout
