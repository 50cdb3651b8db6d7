"""What a data set skipped stands in the record of a run, in the report and on its page, by its reasons."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from analysis.load import partial, provenance
from grid import store
from grid.cluster import connection as cluster
from grid.core.types import Skipped
from grid.settings.check import MOST_REASONS, OTHER_REASONS, Checked, Job, by_kind, check_sweep
from grid.sweeps import session
from launch.report import main
from tests.support import plan_rows
from tests.support.apb import row, write
from tests.support.configs import LABELS, job, yaml

PICTURES = "the record has an image (…), which no engine here accepts"
LINE = f"apb: 4 records are left out, so no result includes them (3: {PICTURES}; 1: the query is missing or empty)"


def checked(root: Path, data: Path) -> Checked:
    records = [row("1"), row("3"), row("4", query=" "), *(row(f"p{n}", files=[f"{n}.png"]) for n in range(3))]
    dataset = {**yaml("dataset", "apb"), "path": write(data, *records), "scorer": "rules"}
    planner = yaml("planner", "react")
    return check_sweep([Job(job(root, dataset=dataset, planner=planner).config, LABELS | {"dataset": "apb"})])


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the record of a run over records with images, and rows of that data set and another."""
    monkeypatch.setattr(cluster, "cpus", lambda: 2)
    monkeypatch.setattr(cluster, "gpus", dict)
    found = checked(tmp_path / "results", tmp_path)
    session.record(found.plan, found.skipped_by_reason())
    rows = [
        plan_rows.episode("react", "holistic", case, success=case % 2 == 0, dataset=dataset)
        for dataset in ("apb", "other")
        for case in range(6)
    ]
    plan_rows.write(found.plan.root, rows)
    return found.plan.root


def test_reasons_that_differ_in_a_records_own_words_are_of_one_kind() -> None:
    reasons = ["a file (x.png)", "a file (y.png)", "line 3 of 'a'", "line 12 of 'b'", "one (z) alone"]
    found = by_kind(Skipped(str(place), reason) for place, reason in enumerate(reasons))
    assert found == {"a file (…)": 2, "line N of '…'": 2, "one (z) alone": 1}
    many = by_kind(Skipped(str(n), "x" * n) for n in range(1, MOST_REASONS + 8))
    assert len(many) == MOST_REASONS + 1
    assert many[OTHER_REASONS] == 7
    assert sum(many.values()) == MOST_REASONS + 7


def test_a_task_of_ones_own_file_has_a_line_before_the_sweep(results: Path, tmp_path: Path) -> None:
    own = Skipped("desk-0003", "there is no tool", "desk.jsonl:3")
    found = replace(
        checked(tmp_path / "more", tmp_path),
        skipped={"desk": [own, Skipped("r", "odd"), Skipped("s", "odd"), Skipped("t", "even")]},
    )
    assert found.skipped_lines() == [
        "desk: a task is left out: desk.jsonl:3 (desk-0003): there is no tool",
        "desk: 2 records skipped: odd",
        "desk: 1 record skipped: even",
    ]


def test_it_is_in_the_record_of_the_run_and_the_latest_counts(results: Path) -> None:
    assert store.runs(results).get("skipped") == {"apb": {PICTURES: 3, "the query is missing or empty": 1}}
    run = store.runs(results)["runs"][0]
    store.record_run(results, run, {}, {"other": {"a reason": 1}})
    assert partial.skipped(results)["other"] == ("other: 1 record is left out, so no result includes it (1: a reason)")
    store.record_run(results, run, {}, {"other": {"a reason": 2}})
    assert store.runs(results).get("skipped") == {
        "apb": {PICTURES: 3, "the query is missing or empty": 1},
        "other": {"a reason": 2},
    }
    store.record_run(results, run, {}, {"apb": {}})
    assert store.runs(results).get("skipped") == {"other": {"a reason": 2}}


@pytest.mark.long
@pytest.mark.usefixtures("undrawn")
def test_it_stands_under_the_tables_of_its_data_set_and_on_the_page(
    results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["report.py", str(results), "--wide", "--tables", str(results / "tables")])
    assert main() == 0
    tables = {path.stem: path.read_text() for path in (results / "tables").glob("*.tex")}
    with_it = {name for name, text in tables.items() if "apb: 4 records are left out" in text}
    assert {name.partition("_")[2] for name in with_it} == {"results_tiny_apb", "plans_tiny_on_apb"}
    printed = " ".join(capsys.readouterr().out.split())
    assert printed.count(LINE) == len(with_it)
    page = (results / "report.html").read_text()
    assert page.count(LINE) == 1 + len(with_it)
    assert dict(provenance.terms(results))["left out"] == LINE


def test_a_folder_gathered_of_others_keeps_it(results: Path, tmp_path: Path) -> None:
    other = tmp_path / "second"
    plan_rows.write(other, [plan_rows.episode("react", "holistic", 0, success=True)])
    store.gather(tmp_path / "all", [other, results])
    assert store.runs(tmp_path / "all").get("skipped") == store.runs(results).get("skipped")
    assert store.runs(tmp_path / "all")["settings"] == {}
    store.gather(tmp_path / "none", [other])
    assert "skipped" not in store.runs(tmp_path / "none")
