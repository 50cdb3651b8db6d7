"""A report over several results folders: their rows in one, each cell once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from grid import store
from grid.core.errors import StoreError
from launch.report import main
from tests.support import families, simulated


def written(root: Path, family: str, count: int = 12) -> Path:
    families.write(root, [family], count=count)
    return root


def cells(root: Path) -> set[str]:
    found = store.read(root, "episodes", ["cell_id"])["cell_id"].to_pylist()
    assert len(set(found)) == len(found), "each cell once"
    return set(found)


def test_rows_of_all_folders_are_there_and_the_folders_stay_as_they_were(tmp_path: Path) -> None:
    roots = [written(tmp_path / family, family) for family in ("kqa_synthetic", "hotpotqa_multi")]
    before = [cells(root) for root in roots]
    store.gather(tmp_path / "all", [*roots, roots[0]])
    assert cells(tmp_path / "all") == before[0] | before[1]
    assert [cells(root) for root in roots] == before
    file = next((tmp_path / "all" / "episodes").iterdir())
    assert os.stat(file).st_nlink == 2, "no copy"


def test_gathered_again_it_has_what_the_folders_have_now(tmp_path: Path) -> None:
    one, other = (written(tmp_path / family, family) for family in ("kqa_synthetic", "hotpotqa_multi"))
    target = tmp_path / "all"
    store.gather(target, [one])
    (target / "report.html").write_text("old")
    store.compact(other)
    store.gather(target, [other])
    assert cells(target) == cells(other)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["all", "hotpotqa_multi", "kqa_synthetic"], "no drafts"


def test_a_cell_that_both_hold_counts_with_its_latest_row(tmp_path: Path) -> None:
    one, other = written(tmp_path / "one", "kqa_synthetic"), tmp_path / "other"
    rows = store.read(one, "episodes", wide=True).to_pylist()
    later = simulated.NOON.replace(year=2027)
    store.write(other, {"episodes": [row | {"planner": "react", "created_at": later} for row in rows[:5]]})
    store.gather(tmp_path / "all", [other, one])
    assert cells(tmp_path / "all") == cells(one)
    planners = store.read(tmp_path / "all", "episodes", ["planner"])["planner"].to_pylist()
    assert planners.count("react") == 5


def test_what_was_not_gathered_is_never_lost(tmp_path: Path) -> None:
    one, other = (written(tmp_path / family, family) for family in ("kqa_synthetic", "hotpotqa_multi"))
    with pytest.raises(StoreError, match="one of the folders to gather"):
        store.gather(one, [one, other])
    with pytest.raises(StoreError, match="has files that were not gathered"):
        store.gather(other, [one])
    store.gather(tmp_path / "all", [one])
    families.write(tmp_path / "all", ["agentbench_kg"], count=5)  # a sweep of that name
    with pytest.raises(StoreError, match="has files that were not gathered"):
        store.gather(tmp_path / "all", [one])
    assert len(cells(other)) == 12 * 12
    (tmp_path / "notes").mkdir()
    with pytest.raises(StoreError, match="has files that were not gathered"):
        store.gather(tmp_path / "notes", [one])
    with pytest.raises(StoreError, match="no results here"):
        store.gather(tmp_path / "new", [one, tmp_path / "gone"])
    assert not (tmp_path / "new").exists()


def reported(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setattr("sys.argv", ["report.py", *map(str, arguments)])
    return main()


@pytest.mark.long
@pytest.mark.usefixtures("undrawn")
def test_one_report_has_every_family_of_every_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    roots = [written(tmp_path / family, family, 45) for family in ("kqa_synthetic", "atomic_kbqa", "hotpotqa_multi")]
    assert reported(monkeypatch, *roots) == 2
    assert "several folders need --into FOLDER" in capsys.readouterr().err
    assert reported(monkeypatch, *roots, "--into", tmp_path / "study", "--follow") == 2
    assert "--follow works for only one sweep" in capsys.readouterr().err
    assert reported(monkeypatch, *roots, "--into", tmp_path / "study", "--tables", tmp_path / "tables") == 0
    printed = capsys.readouterr().out
    assert "has no results on their data" not in printed, "no family is missing"
    files = {path.stem.partition("_")[2]: path.read_text() for path in (tmp_path / "tables").glob("*.md")}
    for table in ("2", "2_ratios", "4", "5", "5_low_robustness"):
        told = files[f"published_planning_horizon_{table}"]
        assert all(name in told for name in ("KQA Pro", "GrailQA", "WebQSP", "GraphQ", "Mul. HotpotQA")), table
    for table in ("3", "c_1"):
        told = files[f"published_planning_horizon_{table}"]
        assert all(name in told for name in ("KQA Pro", "Atomic KBQA", "Mul. HotpotQA")), table
    assert (tmp_path / "study" / "report.html").is_file()
    assert not (roots[0] / "report.html").exists()
