"""The gallery: which presets it runs and how, what its index says, and what it refuses."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from analysis import gallery
from analysis.errors import AnalysisError
from analysis.gallery import Counts, Entry
from analysis.page.drawing import Drawing
from analysis.page.table import Table
from analysis.papers import order
from grid import store
from grid.core.errors import ConfigError, StoreError
from launch.gallery import SMALL, Preset, Wanted, _overrides, about, chosen, load, main
from tests.support.searched import episode
from tests.support.tables import table_of

HOSTILE = "<script>alert(1)</script>"


def folder_of(tmp_path: Path, values: Any, *names: str) -> tuple[Path, Path]:
    """A file of presets, and a folder with presets of these names."""
    path, folder = tmp_path / "gallery.yaml", tmp_path / "experiment"
    path.write_text(yaml.safe_dump(values))
    folder.mkdir()
    for name in names:
        (folder / f"{name}.yaml").write_text("# @package _global_\n# What it\n# is.\n#   a command\nname: x\n")
    return path, folder


def test_a_new_preset_without_its_papers_tables_or_a_reason_is_refused(tmp_path: Path) -> None:
    path, folder = folder_of(tmp_path, {"old": {"published": ["tooltree_table1"]}}, "old", "new")
    with pytest.raises(
        ConfigError, match="'new': must have exactly the presets of experiment, each with published tables or a reason"
    ):
        load(path, folder)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"one": {}}, "one: Value error, give either `published`"),
        ({"one": {"published": ["a"], "unpublished": "b"}}, "either `published`"),
        ({"one": {"unpublished": "b", "row": ["c"]}}, "`row` needs `published`"),
        ({"one": {"unpublished": "b", "runs": []}}, "one.runs: "),
        ({"one": {"unpublished": "b", "sise": []}}, "one.sise: Extra inputs"),
        ({"one": {"published": "a"}}, "one.published: "),
    ],
)
def test_a_wrong_file_of_presets_names_its_place(values: Any, said: str, tmp_path: Path) -> None:
    path, folder = folder_of(tmp_path, values, "one")
    with pytest.raises(AnalysisError, match=rf"gallery\.yaml: .*{re.escape(said)}"):
        load(path, folder)


def test_presets_are_chosen_by_name_and_told_by_their_heads(tmp_path: Path) -> None:
    path, folder = folder_of(tmp_path, {name: {"unpublished": "no"} for name in ("b", "a")}, "a", "b")
    found = load(path, folder)
    assert list(found) == ["a", "b"]
    assert list(chosen(found, [])) == ["a", "b"]
    assert list(chosen(found, ["b"])) == ["b"]
    assert about("a", folder) == "What it is."


def test_overrides_of_the_user_come_last_and_no_key_comes_twice() -> None:
    preset = Preset(published=["tooltree_table2"], small=["dataset.limit=40"], runs=[["dataset=restbench"]])
    wanted = Wanted({}, Path("out"), ["dataset.limit=3", "paths.restbench=/r", "+x=1"])
    found = _overrides("tooltree_table2", preset.runs[0], preset, wanted)
    assert found == [
        "+experiment=tooltree_table2", "name=tooltree_table2", "store.root=out", "dataset.limit=3", SMALL[1],
        "dataset=restbench", "paths.restbench=/r", "+x=1",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["--only", "tooltree_tabel1"],
            "--only='tooltree_tabel1': one of the presets in conf/experiment: .*did you mean tooltree_table",
        ),
        (["--limit", "0"], "--limit=0: an integer of 1 or more"),
        (["name=x"], "name='x': must be a sweep's override"),
        (["store.root=x"], "store.root='x': "),
        (["+experiment=x"], "experiment='x': "),
        (["paths.bfcl"], "paths.bfcl='': "),
        (["--only", "bfcl", "name=x"], "name='x': "),
        (["hydra.run.dir=x"], "hydra.run.dir='x'"),
    ],
)
def test_what_cannot_be_asked_is_told_in_one_line(
    words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["agent-grid gallery", *words])
    assert main() == 2
    told = capsys.readouterr().err
    assert re.match(f"error: {said}", told), told
    assert told.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_the_index_escapes_what_it_shows_links_reports_and_loads_nothing(tmp_path: Path) -> None:
    svg = Drawing("x", "a figure", "", f'<svg xmlns="http://www.w3.org/2000/svg">{HOSTILE}</svg>', "")
    image, title = gallery.image([svg])
    counts = Counts(2, 10, 19, 1)
    done = Entry(
        "one", HOSTILE, gallery.COMPLETE, ["tooltree, table 1"], counts=counts, seconds=61.4, page="one/report.html"
    )
    done = Entry(**{**vars(done), "image": image, "image_title": title, "verdict": [HOSTILE]})
    failed = Entry("two", "About.", gallery.FAILED, reason=f"broken {HOSTILE}", unpublished="the paper has none")
    path = gallery.write(tmp_path, {"one": done, "two": failed}, ["what it is"])
    text = path.read_text()
    assert HOSTILE not in text
    assert "&lt;script&gt;" in text
    assert '<a href="one/report.html">one</a>' in text
    assert all(
        told in text for told in ("tooltree, table 1", ">19<", ">61<", "No published figures: the paper has none")
    )
    assert "default-src 'none'" in text
    assert "img-src data:" in text
    assert not re.search(r'(src|href)="(?!data:|#|one/)', text)
    assert gallery.read(tmp_path) == {"one": done, "two": failed}


@pytest.mark.parametrize("text", ["", "[]", '{"a": {"name": "a"}}', "\0"])
def test_a_broken_record_of_a_gallery_is_told(text: str, tmp_path: Path) -> None:
    (tmp_path / gallery.KEPT).write_text(text)
    with pytest.raises(
        StoreError,
        match=r"gallery\.json: this file was not written by `agent-grid gallery` .*; remove it to begin a new gallery",
    ):
        gallery.read(tmp_path)
    assert gallery.read(tmp_path / "none") == {}


def test_counts_are_of_the_rows_that_a_folder_holds(tmp_path: Path) -> None:
    assert gallery.counts(tmp_path) == Counts()
    cells = [episode(planner, case, True) for planner in ("react", "cot") for case in range(3)]
    cells += [episode("cot", 3, None, status="failed", error_kind="model")]
    store.write(tmp_path, {"episodes": cells})
    assert gallery.counts(tmp_path) == Counts(settings=2, cases=4, ok=6, failed=1)


def table(name: str, rows: list[list[str]], reading: str = "") -> Table:
    labels = ["mode", "planner", "model", "our setting"]
    figures = ["cases", "Pass, %", "success"]
    return table_of(rows, name=name, labels=labels, figures=figures, reading=reading)


def test_the_verdict_is_the_order_and_the_row_that_is_asked_for() -> None:
    row = ["RestBench-TMDB", "ReAct"]
    rows = [
        [*row, "Big", "–", "–", "38.82", "–"],
        [*row, "Small", "–", "–", "62.42", "–"],
        [*row, "tiny (ours)", "react", "10", "–", "40.0 [20.0, 60.0]"],
        ["RestBench-TMDB", "CoT", "tiny (ours)", "cot", "10", "1.0", "34.42"],
    ]
    found = gallery.verdict(
        [table("published tooltree 2", rows), table(order.NAME, [], "Of 3 orders, all agree.")], "tooltree_table2", row
    )
    assert found == [
        "Of 3 orders, all agree.",
        "RestBench-TMDB, ReAct, success: not in the paper; tiny (ours) 40.0 [20.0, 60.0]",
    ]
    both = [*rows[:2], [*row, "tiny (ours)", "react", "10", "40.0", "–"]]
    assert gallery.verdict([table("published tooltree 2", both)], "tooltree_table2", row) == [
        "RestBench-TMDB, ReAct, Pass, %: Big 38.82, Small 62.42; tiny (ours) 40.0"
    ]
    assert gallery.verdict([], None, None) == []
    with pytest.raises(AnalysisError, match="no row 'RestBench-TMDB, MCTS'"):
        gallery.verdict([], "tooltree_table2", ["RestBench-TMDB", "MCTS"])


def test_tables_are_named_by_paper() -> None:
    names = ["tooltree_table1", "planning_horizon_2_ratios", "tooltree_table5"]
    assert gallery.published(names) == ["tooltree, tables 1, 5", "planning_horizon, table 2 ratios"]
    names = ["egb_slate_table3", "egb_slate_figure_6", "egb_slate_table4"]
    assert gallery.published(names) == ["egb_slate, tables 3, 4, figure 6"]
    assert gallery.published(names[1:2]) == ["egb_slate, figure 6"]
    assert gallery.published([]) == []
    with pytest.raises(AnalysisError, match="no such file"):
        gallery.published(["tooltree_table0"])
