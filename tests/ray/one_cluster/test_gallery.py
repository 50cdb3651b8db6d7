"""The gallery from the command line: two tiny presets, one that fails, one that is left out; and again."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from analysis import gallery
from analysis.figures import drawings
from grid import store
from tests.support.commands import Ended
from tests.support.in_process import launch

NAMES = ("tooltree_judge_noise", "apb_efficiency", "workbench", "two_cores")
SIZE = {"apb_efficiency": 5 * 2, "tooltree_judge_noise": 8 * 2}


@dataclass(frozen=True)
class Story:
    """All four; then a setting's rows are removed, and all four run again."""

    folder: Path
    first: Ended
    entries: dict[str, gallery.Entry]
    kept: dict[str, float]
    again: Ended
    entries_again: dict[str, gallery.Entry]


@pytest.fixture(scope="module")
def story(cluster: None, tmp_path_factory: pytest.TempPathFactory) -> Story:
    folder = tmp_path_factory.mktemp("gallery")
    into = folder / "results" / "gallery"
    words = (f"paths.workbench={folder / 'gone'}", "--limit", "2", "--only", *NAMES)
    first = launch("gallery", folder, *words)
    entries = gallery.read(into)
    kept = {path.name: path.stat().st_mtime for path in (into / "apb_efficiency" / "episodes").glob("*.parquet")}
    for path in (into / "tooltree_judge_noise" / "episodes").glob("*.parquet"):
        path.unlink()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(drawings, "drawings", lambda root: ())  # drawn once is enough
        again = launch("gallery", folder, *words)
    return Story(into, first, entries, kept, again, gallery.read(into))


def test_what_can_run_runs_and_the_others_are_told(story: Story) -> None:
    entries = story.entries
    assert story.first.status == 1, story.first.err + story.first.out
    assert {name: one.state for name, one in entries.items()} == {
        "apb_efficiency": gallery.COMPLETE, "tooltree_judge_noise": gallery.COMPLETE,
        "two_cores": gallery.LEFT_OUT, "workbench": gallery.FAILED,
    }  # fmt: skip
    for name, cells in SIZE.items():
        counts = entries[name].counts
        assert counts.ok + counts.failed == cells == len(store.read(story.folder / name, "episodes"))
        assert (story.folder / name / "report.html").is_file()
    assert "gone" in entries["workbench"].reason
    assert "real model" in entries["two_cores"].reason
    said = story.first.out.splitlines()
    assert [line.split()[0] for line in said[:4]] == ["1/4", "2/4", "3/4", "4/4"]
    assert "workbench: failed (" in story.first.out
    assert "sweep apb_efficiency: 5 settings" in (story.folder / "apb_efficiency.log").read_text()


def test_the_index_links_the_reports_that_there_are(story: Story) -> None:
    text = (story.folder / gallery.INDEX).read_text()
    linked = set(re.findall(r'href="([^"#]+)"', text))
    assert linked == {f"{name}/report.html" for name in SIZE}
    assert all((story.folder / link).is_file() for link in linked)
    assert "tooltree, table 6" in text
    assert "Of 4 orders" in text, "success and the judge's errors, each beside two models"
    assert "cost-aware, CR, %: GPT-5 89.50" in text


def test_again_it_continues_what_is_missing_and_nothing_else(story: Story) -> None:
    done = (story.folder / "apb_efficiency.log").read_text()
    assert "nothing to run: all 10 cells are already done" in done
    again = (story.folder / "tooltree_judge_noise.log").read_text()
    assert "0 already done" in again
    assert "ran 16 cells" in again
    episodes = (story.folder / "apb_efficiency" / "episodes").glob("*.parquet")
    assert {path.name: path.stat().st_mtime for path in episodes} == story.kept
    for name in NAMES:
        before, after = story.entries[name], story.entries_again[name]
        assert (before.state, before.counts, before.command) == (after.state, after.counts, after.command)
    assert story.entries_again["apb_efficiency"].seconds > story.entries["apb_efficiency"].seconds, "of both runs"
