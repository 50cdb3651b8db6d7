"""Code that was changed without effect on results counts as the first one, so that stored cells keep their ids."""

from __future__ import annotations

from pathlib import Path

import pytest

from grid.code_digest import code_digest
from grid.settings.build import SAME, code_of
from launch import same_code
from tests.support.configs import setting_of

ROOT = Path(__file__).parents[3]
SLATE = ("grid.datasets.slate.dataset.Slate",)


def test_a_line_has_two_digests_and_what_they_are_of() -> None:
    lines = [line.split(" ", 2) for line in same_code.TABLE.read_text(encoding="utf-8").splitlines()]
    assert lines
    assert all(len(digest) == 16 and int(digest, 16) for now, first, _ in lines for digest in (now, first))
    assert {now: first for now, first, _ in lines} == SAME
    assert not SAME.keys() & {*SAME.values()}


def test_a_settings_code_is_the_first_one() -> None:
    digest = code_digest(SLATE)
    assert code_of(setting_of(dataset="slate").config)["dataset"] == SAME.get(digest, digest)


def test_a_change_counts_as_what_it_was_and_a_second_one_as_what_was_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The checkout before is this one: once without a table, then with one that knows an earlier digest."""
    table = tmp_path / same_code.TABLE.relative_to(ROOT)
    table.parent.mkdir(parents=True)
    monkeypatch.setattr(same_code, "TABLE", table)
    named = [("dataset slate", SLATE), ("planner ghost", ("grid.planners.ghost.Ghost",))]
    monkeypatch.setattr(same_code, "_named", lambda: iter(named))
    monkeypatch.setattr(same_code, "_digests", lambda folder, names: {"dataset slate": "0" * 16})
    monkeypatch.setattr(same_code, "__file__", str(tmp_path / "launch" / "same_code.py"))
    now = code_digest(SLATE)
    assert same_code.main([str(tmp_path)]) == 0
    assert table.read_text(encoding="utf-8") == f"{now} {'0' * 16} dataset slate\n"
    assert "counts as new code: planner ghost" in capsys.readouterr().out
    table.write_text(f"{'0' * 16} {'f' * 16} dataset slate\n", encoding="utf-8")
    assert same_code.main([str(tmp_path)]) == 0
    assert table.read_text(encoding="utf-8") == f"{now} {'f' * 16} dataset slate\n"


def test_another_checkout_is_asked_in_a_process_of_its_own() -> None:
    found = same_code._digests(ROOT, {"dataset slate": SLATE, "planner ghost": ("grid.planners.ghost.Ghost",)})
    assert found == {"dataset slate": code_digest(SLATE)}


def test_what_moved_since_is_found_by_its_name_of_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(same_code, "MOVED", {SLATE[0].rpartition(".")[0]: "grid.datasets.renamed"})
    assert same_code._digests(ROOT, {"dataset slate": ("grid.datasets.renamed.Slate",)}) == {
        "dataset slate": code_digest(SLATE)
    }
