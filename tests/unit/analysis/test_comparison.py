"""Two runs side by side: what was planted is found, matching is by name and case, and bad pairs are one line."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.compare import runs, tables
from analysis.compare.runs import DOWN, UP
from analysis.compare.tables import compare
from analysis.stats import intervals
from analysis.stats.intervals import CLUSTER
from analysis.tables.rates import paired_differences
from grid import store
from launch import report
from launch.report import main
from tests.support import simulated
from tests.support.tables import without_sorting

EVIL = "<script>alert(1)</script>\x1b[31m"


def cell(planner: str, case: int, trial: int, success: float | None, **more: Any) -> dict[str, Any]:
    """One episode, of a cluster of two cases."""
    labels = {"model": "lexical", "dataset": "slate", "robustness": "none"}
    labels |= {name: more.pop(name) for name in tuple(labels) if name in more}
    config = json.dumps({"planner": {"temperature": more.pop("temperature", 0)}, "seed": more.pop("seed", 0)})
    setting = "/".join([*labels.values(), planner, config])
    name = f"{setting}/{case}/{trial}"
    return labels | {
        "planner": planner, "cell_id": name, "cell_key": name, "setting_id": setting, "pool": "all",
        "case_id": f"case-{case}", CLUSTER: f"template-{case // 2}", "trial": trial, "status": "ok",
        "success": success, "config": config, "input_tokens": 100, "output_tokens": 10, "code_parts": "{}",
        "dataset_version": "v1", "engine": "lexical", "created_at": simulated.NOON, "case_digest": f"digest-{case}",
    } | more  # fmt: skip


def written(root: Path, rows: Sequence[dict[str, Any]]) -> Path:
    store.write(root, {"episodes": list(rows)})
    return root


def planted(planner: str, solved: Sequence[float], **more: Any) -> list[dict[str, Any]]:
    """One trial a case with these successes."""
    return [cell(planner, case, 0, bool(value), **more) for case, value in enumerate(solved)]


def reported(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setattr("sys.argv", ["report.py", *map(str, arguments)])
    return main()


def matched(first: Path, second: Path) -> runs.Matched:
    return runs.matched(runs.read(first), runs.read(second))


def queried(sql: str) -> pd.DataFrame:
    with duckdb.connect() as connection:
        return connection.execute(sql).df()


def test_planted_flips_ratios_and_difference_are_found(tmp_path: Path) -> None:
    before, after = [1, 1, 0, 0, 1, 0, 1, 0], [1, 0, 1, 1, 1, 0, 1, 1]
    a = written(tmp_path / "a", planted("react", before))
    b = written(tmp_path / "b", planted("react", after, input_tokens=200, output_tokens=20))
    found = matched(a, b)
    cases = found.cases.rows.set_index("case_id")
    assert cases["flip"].to_dict() == {
        f"case-{place}": "" if one == other else UP if other else DOWN
        for place, (one, other) in enumerate(zip(before, after, strict=True))
    }
    (row,) = runs.compared(found).to_dict("records")
    assert (row["cases"], row["clusters"], row[UP], row[DOWN], row["changed"]) == (8, 4, 3, 1, 0)
    assert (row["success_a"], row["success_b"], row["difference"]) == (0.5, 0.75, 0.25)
    assert row["tokens"] == pytest.approx(2.0)
    assert np.isnan(row["money"])


def test_the_difference_is_that_of_two_planners_of_one_run(tmp_path: Path) -> None:
    """Paired over cases and clusters, trials averaged: as the table of paired differences has it."""
    rng = np.random.default_rng(1)
    solved = rng.random((2, 20, 3)) < 0.5  # (runs, cases, trials)
    parts = [[cell("react", c, t, bool(solved[run, c, t])) for c in range(20) for t in range(3)] for run in (0, 1)]
    a, b = (written(tmp_path / name, rows) for name, rows in zip("ab", parts, strict=True))
    (row,) = runs.compared(matched(a, b)).to_dict("records")
    one_run = pd.DataFrame([*parts[0], *({**one, "planner": "egb"} for one in parts[1])])
    one_run = one_run.astype({"success": float}).assign(tool_match_rate=1.0, resolved_checks=0)
    (expected,) = paired_differences(one_run).to_dict("records")
    assert [row["difference"], row["difference_low"], row["difference_high"]] == pytest.approx(
        [expected["success"], expected["success_low"], expected["success_high"]]
    )


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 6), st.sampled_from([-1.0, -0.5, 0.0, 0.5, 1.0])), max_size=25))
def test_p_is_below_5_percent_where_the_interval_excludes_0(cases: list[tuple[int, float]]) -> None:
    index = pd.MultiIndex.from_tuples([(c, i) for i, (c, _) in enumerate(cases)], names=[CLUSTER, "case_id"])
    values = pd.Series([value for _, value in cases], index=index, dtype="float64")
    p, (_, low, high) = intervals.p_value(values, 1.0), intervals.interval(values, reach=1.0)
    if np.isnan(low):
        assert np.isnan(p)
    elif min(abs(low), abs(high)) > 1e-9:
        assert (p < 0.05) == (low > 0 or high < 0)


def test_swapping_the_runs_swaps_every_sign(tmp_path: Path) -> None:
    a = written(tmp_path / "a", planted("react", [1, 0, 0, 0, 1, 0]) + planted("sh", [0, 0, 0, 1, 1, 0]))
    b = written(tmp_path / "b", planted("react", [1, 1, 1, 0, 0, 0]) + planted("sh", [1, 0, 1, 1, 1, 1]))
    there, back = (runs.compared(matched(*pair)) for pair in ((a, b), (b, a)))
    assert there["difference"].to_list() == pytest.approx((-back["difference"]).to_list())
    assert there["difference_low"].to_list() == pytest.approx((-back["difference_high"]).to_list())
    assert there[UP].to_list() == back[DOWN].to_list()
    assert there[runs.HOLM].to_list() == pytest.approx(back[runs.HOLM].to_list())
    assert there["tokens"].to_list() == pytest.approx((1 / back["tokens"]).to_list())


def test_a_half_solved_case_flips_neither_way(tmp_path: Path) -> None:
    a = written(tmp_path / "a", [cell("react", c, t, bool(t)) for c in range(4) for t in range(2)])
    b = written(tmp_path / "b", [cell("react", c, t, c > 1) for c in range(4) for t in range(2)])
    (row,) = runs.compared(matched(a, b)).to_dict("records")
    assert (row[UP], row[DOWN], row["difference"]) == (0, 0, 0.0)


def test_models_are_compared_where_each_run_has_one(tmp_path: Path) -> None:
    a = written(tmp_path / "a", planted("react", [0, 1]))
    b = written(tmp_path / "b", planted("react", [1, 1], model="other"))
    (pair,) = matched(a, b).pairs
    assert pair.label("model") == "lexical → other"
    both = written(tmp_path / "both", planted("react", [1, 1], model="other") + planted("react", [1, 0]))
    found = matched(a, both)
    assert [pair.label("model") for pair in found.pairs] == ["lexical"]
    assert found.alone == ([], ["react on slate (none, other)"])


def test_settings_of_one_label_are_matched_by_their_id(tmp_path: Path) -> None:
    rows = planted("react", [0, 1], seed=1) + planted("react", [1, 1], seed=2)
    a, b = written(tmp_path / "a", rows), written(tmp_path / "b", [*rows, *planted("react", [0, 0], seed=3)])
    found = matched(a, b)
    assert len(found.pairs) == 2
    assert len(found.alone[1]) == 1
    assert tables.differing(found).empty
    assert (runs.compared(found)["difference"] == 0).all()


def test_a_changed_planner_is_compared_with_the_plain_one(tmp_path: Path) -> None:
    a = written(tmp_path / "a", planted("react", [0, 1]) + planted("sh", [0, 1]))
    b = written(tmp_path / "b", planted("react[temperature=1]", [1, 1], temperature=1) + planted("fh", [1, 1]))
    found = matched(a, b)
    (pair,) = found.pairs
    assert pair.label("planner") == "react → react[temperature=1]"
    assert [len(own) for own in found.alone] == [1, 1]
    told = tables.differing(found).set_index("what")
    assert [told.loc["planner.temperature", name] for name in ("a", "b", "settings")] == ["0", "1", tables.ALL]


@pytest.mark.long
def test_what_differs_is_named_by_its_key(tmp_path: Path) -> None:
    parts = [json.dumps({"planner": "1", "dataset": digest}) for digest in "xy"]
    a, b = (
        written(tmp_path / name, planted("react", [1, 0], seed=seed, dataset_version=f"v{seed}", code_parts=parts[seed],
                                         case_digest=f"digest-{seed}", git_commit=f"commit-{seed}"))
        for seed, name in enumerate("ab")
    )  # fmt: skip
    found = matched(a, b)
    told = tables.differing(found)
    assert {row["what"]: (row["a"], row["b"]) for row in told.to_dict("records")} == {
        "dataset_version": ("v0", "v1"), "git_commit": ("commit-0", "commit-1"), "seed": ("0", "1"),
        "code of dataset": ('"x"', '"y"'),
    }  # fmt: skip
    (row,) = runs.compared(found).to_dict("records")
    assert row["changed"] == 2
    assert any("the same id but a different question or reference" in note for note in compare(a, b).tables[0].notes)


@pytest.mark.long
def test_the_query_gives_the_cases(tmp_path: Path) -> None:
    a = written(tmp_path / "a", planted("react", [1, 0, 0, 1]) + planted("sh", [1, 0, 0, 1]))
    b = written(tmp_path / "b", planted("react", [1, 1, 1, 0], model="m'x") + planted("sh", [0, 0, 0, 1], model="m'x"))
    found = compare(a, b)
    asked = queried(found.tables[0].query)
    assert len(asked) == 8
    assert asked["flip"].tolist() == ["", "up", "up", "down", "down", "", "", ""]
    ran = matched(a, b).cases.rows
    pd.testing.assert_frame_equal(asked, ran.astype(asked.dtypes))
    assert len(queried(found.tables[-1].query)) == 4


def test_the_page_has_every_case_and_the_terminal_twenty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = (written(tmp_path / n, planted("react", [value] * 30)) for n, value in (("a", 0), ("b", 1)))
    assert reported(monkeypatch, a, b, "--tables", tmp_path / "tables") == 0
    printed = capsys.readouterr().out
    (header,) = [line for line in printed.splitlines() if "p holm  up" in line]
    assert len(header) <= 100
    assert "[11" not in printed, "the page has the intervals of success"
    assert len(re.findall(r"case-\d+ +template", printed)) == 20
    assert "success is 100.0 points higher in B than in A" in printed
    page = (b / report.COMPARISON).read_text(encoding="utf-8")
    assert all(f">case-{case}<" in page for case in range(30))
    assert page.count("<svg") == 1
    assert not (a / report.COMPARISON).exists()
    assert len(list((tmp_path / "tables").glob("*.csv"))) == 3


def test_hostile_labels_stay_texts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = (
        written(tmp_path / n, planted(EVIL, [value] * 3, dataset=EVIL, model=EVIL, case_id=EVIL, cluster=EVIL,
                                      git_commit=f"{EVIL}{n}"))
        for n, value in (("a", 0), ("b", 1))
    )  # fmt: skip
    assert reported(monkeypatch, a, b) == 0
    assert "\x1b" not in capsys.readouterr().out
    page = (b / report.COMPARISON).read_text(encoding="utf-8")
    assert "<script" not in without_sorting(page)
    assert "\x1b" not in page


def test_what_cannot_be_compared_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    a = written(tmp_path / "a", planted("react", [1, 0]))
    other = written(tmp_path / "other", planted("sh", [1, 0], dataset="ultratool"))
    rows = [row | {"case_id": f"x-{row['case_id']}"} for row in planted("react", [1, 0])]
    elsewhere = written(tmp_path / "elsewhere", rows)
    (tmp_path / "empty").mkdir()
    (tmp_path / "bare" / "episodes").mkdir(parents=True)
    (tmp_path / "link").symlink_to(a)
    told = {
        (a, other): "no setting in common: .*react on slate .none, lexical.*sh on ultratool",
        (a, elsewhere): "no case in common: .*has case-0, case-1; .*has x-case-0, x-case-1",
        (a, a): "named twice",
        (a, tmp_path / "link"): "named twice",
        (a, tmp_path / "empty"): "empty: ",
        (a, tmp_path / "bare"): "bare: this folder holds no episodes yet",
        (a, tmp_path / "gone"): "gone: ",
        (a, other, elsewhere): "need --into FOLDER",
        (a, other, "--follow"): "--follow",
        (a, other, "--analysis", "x"): "--analysis",
    }
    for arguments, message in told.items():
        assert reported(monkeypatch, *arguments) == 2, arguments
        out, err = capsys.readouterr()
        assert out == ""
        assert re.match(rf"error: .*{message}.*\n\Z", err), err
    assert not list(tmp_path.rglob("*.html"))


def test_a_damaged_config_is_no_traceback(tmp_path: Path) -> None:
    a, b = (written(tmp_path / n, planted("react", [1, 0], config=text)) for n, text in (("a", "[1"), ("b", "[1]")))
    told = tables.differing(matched(a, b))
    assert told[["what", "a", "b"]].to_numpy().tolist() == [["text", '"[1"', '"[1]"']]
