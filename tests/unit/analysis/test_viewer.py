"""The viewer says what the tables say, of the latest rows; and answers bad questions in words."""

from __future__ import annotations

import datetime as dt
import itertools
import re
import shutil
import subprocess
import sys
import urllib.parse
from collections import Counter, defaultdict
from collections.abc import Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("httpx2")

from starlette.testclient import TestClient

from analysis.viewer import addresses, episodes, runs
from analysis.viewer.addresses import OTHER, UNKNOWN, Filters, reference_of
from analysis.viewer.app import app
from analysis.viewer.index import Index
from analysis.viewer.matrix import Matrix, against_planner
from analysis.viewer.runs import Progress, Run, _with_values
from grid import store
from grid.core.errors import StoreError
from grid.store.runs import RunRecord, record_run
from tests.support import viewed

RUN: RunRecord = {
    "started_at": "2026-11-28T12:00:00+00:00", "command": "", "git_commit": None, "versions": {}, "seed": 0,
    "system": "Linux", "cpu": "", "cpus": 2, "gpus": {},
}  # fmt: skip
HOST = {"host": "127.0.0.1:8321"}


def client(*roots: Path, **further: Any) -> TestClient:
    runs = [Run(root, key, **further) for root, key in zip(roots, ("", "2"), strict=False)]
    return TestClient(app(runs, 8321), base_url="http://127.0.0.1:8321", follow_redirects=False)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("viewer") / "small"
    viewed.write(found)
    return found


def texts(html: str) -> str:
    """What a page shows, without tags."""
    parts: list[str] = []

    class Reader(HTMLParser):
        def handle_data(self, data: str) -> None:
            parts.append(data)

    Reader().feed(html)
    return " ".join(" ".join(parts).split())


def elements(html: str) -> Counter[str]:
    """The elements of a page; none has a handler, or an address of a script."""
    found = Counter[str]()

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            found[tag] += 1
            for name, value in attrs:
                assert not name.startswith("on")
                assert name not in ("href", "src", "action") or not (value or "").startswith("javascript")

    Reader().feed(html)
    return found


def test_rows_are_being_read_before_anything_that_takes_long_is_imported() -> None:
    """What is imported while the files are read: pandas, scipy, and the server."""
    code = "import sys; from launch import view; view._runs([]); print(*sorted(sys.modules))"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300).stdout
    assert "analysis.viewer.index" in told.split()
    assert not {"pandas", "scipy", "uvicorn", "starlette"} & set(told.split())


def test_the_first_page_counts_the_latest_row_of_each_cell(tmp_path: Path) -> None:
    viewed.write(tmp_path / "r")
    later = viewed.NOON + dt.timedelta(hours=1)
    again = [viewed.episode("react", case, 0, success=True, created_at=later, attempt_id="a1") for case in (2, 3)]
    store.write(tmp_path / "r", {"episodes": again})
    index = Index(tmp_path / "r")
    rows = store.read(tmp_path / "r", "episodes", ["planner", "success"]).to_pandas()
    means = rows.groupby("planner")["success"].mean()
    assert {one.setting.planner: one.success.mean for one in index.summaries.values()} == pytest.approx(dict(means))
    assert means["react"] == 6 / 8
    text = texts(client(tmp_path / "r").get("/").text)
    assert "24 episodes" in text
    assert "react 75.0 [" in text


def test_a_setting_whose_cells_all_ran_again_by_other_code_is_gone(tmp_path: Path) -> None:
    cells = [(case, trial) for case in range(2) for trial in range(2)]
    old = [viewed.episode("react", *one) for one in cells]
    later = viewed.NOON + dt.timedelta(hours=1)
    new = [{**row, "code": "other", "cell_id": f"{row['cell_id']}-new", "created_at": later} for row in old]
    store.write(tmp_path, {"episodes": old})
    store.write(tmp_path, {"episodes": new})
    (one,) = Index(tmp_path).summaries.values()
    assert (one.cells, one.setting.planner) == (4, "react")


def made_up(seed: int) -> tuple[list[dict[str, Any]], Mapping[tuple[str, str], float]]:
    """Random rows, and each case's share by planner, of those whose success is known."""
    rng = np.random.default_rng(seed)
    rows, shares = [], defaultdict[tuple[str, str], list[float]](list)
    for planner in viewed.PLANNERS:
        for case in range(12):
            for trial in range(rng.integers(1, 4)):
                success = [True, False, None][rng.integers(0, 3)]
                rows.append(viewed.episode(planner, case, trial, success=success))
                shares[f"case-{case}", planner] += [] if success is None else [float(success)]
    return rows, {key: float(np.mean(values)) for key, values in shares.items() if values}


@pytest.mark.parametrize("seed", range(3))
def test_orders_and_flips_are_those_of_a_plain_loop(seed: int, tmp_path: Path) -> None:
    rows, shares = made_up(seed)
    store.write(tmp_path, {"episodes": rows})
    index = Index(tmp_path)
    settings = index.of_place(index.places[0])
    reference = reference_of(settings, Filters())
    assert reference is not None
    base = against_planner(index, settings, reference)
    names = {one.key: one.planner for one in settings}
    cases = sorted({row["case_id"] for row in rows})

    def flip(case: str, planner: str) -> str:
        own, theirs = shares.get((case, planner)), shares.get((case, "react"))
        if own is None or theirs is None or planner == "react" or (own > 0.5) == (theirs > 0.5):
            return ""
        return "gained" if own > 0.5 else "lost"

    found = {}
    for sort in ("failed", "flipped", "id"):
        table = Matrix(index, settings, Filters(sort=sort), base)
        found[sort] = [row.case_id for row in table.rows(table.order())]
    of_case = {case: [shares[case, p] for p in viewed.PLANNERS if (case, p) in shares] for case in cases}
    by_mean = {case: (not values, float(np.mean(values)) if values else 0.0) for case, values in of_case.items()}
    flips = {case: sum(bool(flip(case, planner)) for planner in viewed.PLANNERS) for case in cases}
    assert found["id"] == cases
    assert [by_mean[case] for case in found["failed"]] == sorted(by_mean.values())
    assert [flips[case] for case in found["flipped"]] == sorted(flips.values(), reverse=True)
    table = Matrix(index, settings, Filters(), base)
    for row in table.rows(table.order()):
        for key, cell in row.cells.items():
            assert cell.flip == flip(row.case_id, names[key])
            known = shares.get((row.case_id, names[key]))
            assert (cell.resolved / cell.known if cell.known else None) == known
            first = next(one for one in rows if one["cell_id"] == cell.first)
            assert cell.known == cell.resolved or first["success"] is not True


def unknown_rows() -> list[dict[str, Any]]:
    """Of react's four cases the first resolved twice, the second never; the other cells' success is not known."""
    failed = {"success": None, "status": "failed", "error_kind": "infrastructure"}
    unread = {"success": None, "judge_failures": 1}
    told: list[list[dict[str, Any]]] = [[{}, {}], [{"success": False}, failed], [failed, unread], [{}, failed]]
    react = [viewed.episode("react", case, trial, **{"success": True, **further})
             for case, of_case in enumerate(told) for trial, further in enumerate(of_case)]  # fmt: skip
    none = [viewed.episode("egb_logits", case, 0, success=None) for case in range(4)]
    return [*react, *none]


@pytest.mark.parametrize("unknown", UNKNOWN)
def test_unknown_cells_count_as_in_reports(unknown: str, tmp_path: Path) -> None:
    from analysis import load
    from analysis.load import unknowns
    from analysis.tables import rates

    store.write(tmp_path, {"episodes": unknown_rows()})
    with unknowns.counted(unknown):
        own = rates.results(load.episodes(tmp_path)).set_index("planner")
    found = {one.setting.planner: one for one in Index(tmp_path).summed_up(unknown).values()}
    for planner, row in found.items():
        told = own.loc[planner]
        assert row.success.mean == pytest.approx(told["success_mean"], nan_ok=True)
        assert (row.success.low, row.success.high) == pytest.approx(
            (told["success_low"], told["success_high"]), nan_ok=True
        )
        assert row.unknown == told["unknown"]
    assert found["react"].bounds == pytest.approx(
        (own.loc["react", unknowns.LEAST], own.loc["react", unknowns.LARGEST])
    )
    assert found["react"].bounds == pytest.approx((0.375, 0.875))
    assert found["egb_logits"].bounds is None, "it has no success: nothing of it is unknown"


@pytest.mark.long
@pytest.mark.parametrize("seed", range(6))
def test_unknown_cells_are_those_of_reports_whatever_ran_again(seed: int, tmp_path: Path) -> None:
    """Of settings with and without a known success; what could not be read counts in the latest row alone."""
    from analysis import load

    rng = np.random.default_rng(seed)
    tries: list[list[dict[str, Any]]] = [[], [], []]
    for planner, hasty, known in itertools.product(viewed.PLANNERS, (0.1, 0.9), (0.0, 0.3)):
        setting = f"{planner}-{hasty}-{known}"
        for case, attempt in itertools.product(range(4), range(1 + rng.integers(0, 3))):
            further: dict[str, Any] = {
                "success": bool(rng.random() < 0.5) if rng.random() < known else None,
                "status": "ok" if rng.random() < 0.3 else "failed",
                "created_at": viewed.NOON + dt.timedelta(hours=int(rng.integers(0, 2))),
                **{name: 1 if rng.random() < hasty else None for name in ("judge_failures", "evaluator_failures")},
                **dict.fromkeys(("cell_id", "cell_key"), f"{setting}-{case}"),
            }
            tries[attempt].append(
                viewed.episode(planner, case, 0, setting_id=setting, attempt_id=f"a{attempt}", **further)
            )
    for rows in tries:
        store.write(tmp_path, {"episodes": rows})
    own = load.episodes(tmp_path).set_index("cell_id")["unknown"].to_dict()
    assert dict(Index(tmp_path).ask("SELECT cell_id, unknown FROM e")) == own
    assert set(own.values()) == {False, True}


def test_the_page_counts_unknown_cells_as_the_address_says(tmp_path: Path) -> None:
    store.write(tmp_path, {"episodes": unknown_rows()})
    viewer = client(tmp_path)
    left, matrix = (texts(viewer.get(f"/{query}").text) for query in ("", "?unknown=failure"))
    assert "react 66.7 [" in left
    assert "react 37.5 [" in matrix
    assert "[37.5, 87.5]" in left
    assert "[37.5, 87.5]" in matrix
    assert "they are left out. Bounds" in left
    assert "they are counted as failures. Bounds" in matrix
    cases = viewer.get("/?unknown=failure").text.split('href="/cases?')[1].split('"')[0]
    assert "unknown=failure" in cases, "links keep it"
    assert [texts(viewer.get(f"/cases?sort=id{query}").text).count("? unknown")
            for query in ("", "&unknown=failure")] == [5, 4]  # fmt: skip
    text = texts(viewer.get("/cases?sort=id&unknown=failure").text)
    assert "37.5%, bounds [37.5, 87.5]" in text
    assert "✗ 0/2" in text
    wrong = texts(viewer.get("/?unknown=maybe").text)
    assert "unknown: the value is not one of left_out, failure, and is ignored" in wrong
    assert "react 66.7 [" in wrong


def test_cells_that_nobody_can_tell_are_found_however_they_are_counted(tmp_path: Path) -> None:
    store.write(tmp_path, {"episodes": unknown_rows()})
    viewer = client(tmp_path)
    for unknown in UNKNOWN:
        for outcome, expected in (("unknown", {"case-1", "case-2", "case-3"}), ("unresolved", {"case-1"})):
            html = viewer.get(f"/cases?planner=react&outcome={outcome}&unknown={unknown}").text
            assert set(re.findall(r"<span>(case-\d)</span>", html)) == expected


def test_flips_count_unknown_cells_too(tmp_path: Path) -> None:
    """Where react's only trial is unknown, another planner's success gained nothing unless it counts as a failure."""
    rows = [
        viewed.episode("react", case, 0, success=(True, None)[case], status=("ok", "failed")[case]) for case in (0, 1)
    ]
    rows += [viewed.episode("tooltree", case, 0, success=True) for case in (0, 1)]
    store.write(tmp_path, {"episodes": rows})
    viewer = client(tmp_path)
    gained = [texts(viewer.get(f"/cases?unknown={unknown}").text).count("▲ gained") for unknown in UNKNOWN]
    assert gained == [1, 2], "one is the legend's"


@pytest.mark.long
def test_filters_leave_the_cases_that_fit(root: Path) -> None:
    def cases(**query: str) -> set[str]:
        html = client(root).get(addresses.address("/cases", query)).text
        return set(re.findall(r"<span>(case-\d)</span>", html))

    everything = {f"case-{case}" for case in range(viewed.CASES)}
    assert cases() == everything
    assert cases(planner="react", outcome="unresolved") == {"case-2", "case-3"}
    assert cases(planner="react", failure="not resolved") == {"case-2", "case-3"}
    assert cases(failure="not resolved") == everything
    assert cases(depth="3") == {"case-1"}
    assert cases(category="domain-1") == {"case-1", "case-3"}
    assert cases(category="c0") == {"case-0", "case-1"}
    assert cases(case="SE-2") == {"case-2"}
    assert cases(case="no such") == set()
    assert cases(page="99") == everything, "the last page there is"


def test_classes_of_failures_take_the_place_of_what_rows_say(root: Path) -> None:
    import pyarrow as pa

    names = [viewed.cell("react", case, trial) for case in (2, 3) for trial in (0, 1)]
    told = {"failure_detail": ["sort"] * 4, "failure_step": pa.array([0] * 4, pa.int32())}
    classes = pa.table({"cell_id": names, "failure": ["wrong tool", "wrong tool", "budget", "budget"], **told})
    run = Run(root, classes=lambda folder: classes)
    viewer = TestClient(app([run], 8321), base_url="http://127.0.0.1:8321")
    viewer.get("/cases")
    assert run._working is not None
    run._working.result(30)
    html = viewer.get("/cases?planner=react&failure=wrong+tool").text
    assert set(re.findall(r"<span>(case-\d)</span>", html)) == {"case-2"}
    text = texts(viewer.get(f"/episode?cell={names[0]}").text)
    assert "wrong tool: sort" in text
    assert "here it failed: wrong tool" in text


@pytest.mark.long
def test_the_classes_are_those_of_the_failures(root: Path) -> None:
    from analysis.tables.failed import classes
    from analysis.viewer import matrix

    assert matrix.classes(root).equals(classes(root))
    assert len(classes(root)) == 12


def test_an_episode_stands_beside_its_reference(root: Path) -> None:
    viewer = client(root)
    wrong = texts(viewer.get("/episode?cell=react-3-1").text)
    for said in ("Rank list 3", "And then?", "It must be ranked.", "entropy 0.325 nats", "0.900",
                 "other tool than the reference", "≠ not in the reference", "the call failed",
                 "50 + 5 tokens", "sort"):  # fmt: skip
        assert said in wrong
    assert re.search(r"most 4 3 ≠ different", wrong)
    assert re.search(r"list L1 L1 (?!≠)", wrong)
    right = texts(viewer.get("/episode?cell=react-0-1").text)
    assert "other tool than the reference" not in right
    assert "guess" in texts(viewer.get("/episode?cell=react-0-1&branch=1").text)
    assert "branch 1" in texts(viewer.get("/episode?cell=react-0-1&first=0").text)


def test_a_reference_begins_and_ends_where_its_prediction_does(tmp_path: Path) -> None:
    """Three calls were made before the case began, and two more were asked for."""
    calls = [{"substep_id": str(place), "tool": f"tool_{place}", "arguments": "{}"} for place in range(7)]
    row = viewed.episode("react", 0, 0, horizon_k=2)
    step = {"cell_id": row["cell_id"], "attempt_id": "a0", "branch": 0, "step": 0, "on_path": True, "substep_id": "3"}
    case = {"digest": row["case_digest"], "case_id": row["case_id"], "calls": calls, "followed": False}
    store.write(tmp_path, {"episodes": [row], "steps": [step | {"chosen_tool": "tool_3"}], "cases": [case]})
    page = episodes.page(Index(tmp_path), row["cell_id"], None)
    assert page is not None
    assert [call["substep_id"] for call in page.missed] == ["4"]


def test_previous_and_next_follow_the_filters(root: Path) -> None:
    viewer = client(root)
    html = viewer.get("/episode?cell=react-2-0&planner=react&outcome=unresolved&sort=id").text
    found = dict(re.findall(r'<a rel="(prev|next)" href="/episode\?cell=([^&]*)&amp;', html))
    assert found == {"next": "react-3-0"}
    html = viewer.get("/episode?cell=react-2-0&sort=id").text
    found = dict(re.findall(r'<a rel="(prev|next)" href="/episode\?cell=([^&]*)&amp;', html))
    assert found == {"prev": "react-1-0", "next": "react-3-0"}


def test_prompts_and_trees(root: Path) -> None:
    viewer = client(root)
    assert "Query: rank" in texts(viewer.get("/asked?cell=react-0-0").text)
    tree = viewer.get("/tree?cell=tooltree-0-0").text
    assert tree.count("<circle") == 4
    assert "pruned: pre" in texts(tree)
    assert viewer.get("/tree?cell=tooltree-0-0&node=0.0").text.count("<circle") == 2
    assert viewer.get("/tree?cell=tooltree-0-0&node=0.7").status_code == 404
    assert viewer.get("/tree?cell=react-0-0").status_code == 404


HOSTILE = [
    "../../../etc/passwd", "..%2f..%2fetc", "<script>alert(1)</script>", "x" * 30_000, "a\0b", "'; DROP TABLE e; --",
    "$files", "{{7*7}}", "\ud800", "%", "‮evil",
]  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
@pytest.mark.parametrize("page", ["episode", "tree", "asked", "cases"])
def test_a_hostile_id_in_an_address_is_nobodys(page: str, name: str, root: Path) -> None:
    viewer = client(root)
    quoted = urllib.parse.quote(name.encode("utf-8", "surrogatepass"))
    parts = {"cases": f"case={quoted}&model=&planner={quoted}"}
    answer = viewer.get(f"/{page}?{parts.get(page, f'cell={quoted}')}")
    assert answer.status_code == (200 if page == "cases" else 404)
    assert "<script>alert" not in answer.text
    assert "root:" not in answer.text
    assert len(answer.text) < 40_000
    assert viewer.get("/").status_code == 200, "the table is still there"


@pytest.mark.parametrize("path", ["/static/../app.py", "/static/..%2f..%2fapp.py", "/static//etc/passwd", "/nothing"])
def test_only_the_viewers_own_files_are_served(path: str, root: Path) -> None:
    assert client(root).get(path).status_code == 404


def test_a_folder_of_another_version_is_told(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("grid.store.writing.SCHEMA_VERSION", "1")
    viewed.write(tmp_path / "old")
    answer = client(tmp_path / "old").get("/")
    assert answer.status_code == 503
    assert "schema_version='1'" in texts(answer.text)


def test_a_damaged_file_is_told(root: Path, tmp_path: Path) -> None:
    shutil.copytree(root, tmp_path / "r")
    viewer = client(tmp_path / "r")
    assert viewer.get("/episode?cell=react-0-0").status_code == 200
    (path,) = (tmp_path / "r/steps").iterdir()
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    answer = viewer.get("/episode?cell=react-0-0")
    assert answer.status_code == 503
    assert "damaged" in texts(answer.text)
    assert viewer.get("/").status_code == 200, "what does not need it is shown"


def test_a_folder_that_disappears_is_told(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("analysis.viewer.runs._LOOK_SECONDS", 0.0)
    shutil.copytree(root, tmp_path / "r")
    viewer = client(tmp_path / "r")
    assert viewer.get("/").status_code == 200
    shutil.rmtree(tmp_path / "r")
    for path in ("/", "/cases", "/episode?cell=react-0-0"):
        answer = viewer.get(path)
        assert answer.status_code == 503
        assert "Not here" in texts(answer.text)
    shutil.copytree(root, tmp_path / "r")
    assert viewer.get("/episode?cell=react-0-0").status_code == 200, "it came back"


def test_rows_that_come_are_shown(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("analysis.viewer.runs._LOOK_SECONDS", 0.0)
    monkeypatch.setattr("analysis.viewer.runs._AT_ONCE_SECONDS", 60.0)  # on a busy machine too
    viewed.write(tmp_path / "r", count=1)
    told = Progress("cells 6/24", running=True)
    viewer = client(tmp_path / "r", watch=lambda: told)
    html = viewer.get("/").text
    assert 'data-refresh="3"' in html
    assert "6 episodes" in texts(html)
    viewed.write(tmp_path / "r", first=1, count=3)
    assert "24 episodes" in texts(viewer.get("/").text)
    assert "data-refresh" not in client(root, watch=lambda: Progress("ended", running=False)).get("/").text


def test_cells_are_compared_with_the_other_folder(root: Path, tmp_path: Path) -> None:
    shutil.copytree(root, tmp_path / "b")
    later = viewed.NOON + dt.timedelta(hours=1)
    changed = [viewed.episode("react", 0, trial, success=False, created_at=later) for trial in (0, 1)]
    store.write(tmp_path / "b", {"episodes": changed})
    viewer = client(root, tmp_path / "b")
    ours = viewer.get(addresses.address("/cases", {"against": OTHER})).text
    theirs = viewer.get(addresses.address("/cases", {"against": OTHER, "run": "2"})).text
    assert (texts(ours).count("▲ gained"), texts(ours).count("▼ lost")) == (2, 1), "one cell, and the legend"
    assert (texts(theirs).count("▲ gained"), texts(theirs).count("▼ lost")) == (1, 2)


def test_runs_without_common_cases_are_told(root: Path, tmp_path: Path) -> None:
    viewed.write(tmp_path / "far", first=50)
    html = client(root, tmp_path / "far").get(addresses.address("/cases", {"against": OTHER})).text
    assert "have no case in common" in texts(html)


def test_the_cases_shown_can_be_run_again_by_the_line_that_stands_there(tmp_path: Path) -> None:
    """The newest run's command with the ids of the page; none without a run, or where an id needs quotes."""
    viewed.write(tmp_path / "small")
    viewed.write(tmp_path / "evil", viewed.EVIL)
    pages = []
    for name in ("small", "evil"):
        pages.append(client(tmp_path / name).get("/cases?outcome=failed").text)
        (tmp_path / name / "run.json").write_text("no JSON")
        pages.append(client(tmp_path / name).get("/cases?outcome=failed").text)
        (tmp_path / name / "run.json").unlink()
        record_run(tmp_path / name, {**RUN, "command": "agent-grid sweep -m part=test planner=react"}, {})
        pages.append(client(tmp_path / name).get("/cases?outcome=failed").text)
    without, damaged, line, *evil = map(texts, pages)
    rows = re.findall(r"case-\d+", without)
    quoted = ",".join(f'"{row}"' for row in dict.fromkeys(rows))
    assert f"agent-grid sweep -m planner=react part=all name=small-again 'cases=[{quoted}]'" in line
    assert not any("cases=[" in page for page in (without, damaged, *evil))


@pytest.mark.parametrize(
    ("command", "line", "missing"),
    [
        ("agent-grid sweep -m name=a dataset=b,c planner=react", "agent-grid sweep -m planner=react {}", []),
        ("agent-grid sweep -m 'cases=[x]' store.root=.../r +dataset=b", "agent-grid sweep -m {}", []),
        (
            "agent-grid sweep 'dataset.args=[.../desk_server.py]' model.serving.x=***",
            "agent-grid sweep 'dataset.args=[.../desk_server.py]' 'model.serving.x=***' {}",
            ["dataset.args=[.../desk_server.py]", "model.serving.x=***"],
        ),
        ("grid.sweep('name=a', 'planner=react')", "grid.sweep('planner=react', 'name=n', 'cases=1', 'dataset=b')", []),
    ],
)
def test_a_line_that_runs_again_has_each_key_once(command: str, line: str, missing: list[str]) -> None:
    values = {"name": "n", "cases": "1", "dataset": "b"}
    assert _with_values(command, values) == (line.format("name=n cases=1 dataset=b"), missing)


def test_a_line_is_about_one_data_set_and_says_what_is_to_be_filled_in(tmp_path: Path) -> None:
    episodes = [
        viewed.episode("react", case, 0, dataset=name) for case, name in ((1, "slate"), (2, "kqa[outline=given]"))
    ]
    store.write(tmp_path / "r", {"episodes": episodes})
    command = "agent-grid sweep -m dataset=slate,kqa 'dataset.args=[.../desk.py]' name=r"
    record_run(tmp_path / "r", {**RUN, "command": command}, {})
    viewer = client(tmp_path / "r")
    for label, name, case in (("slate", "slate", 1), ("kqa[outline=given]", "kqa", 2)):
        page = texts(viewer.get(addresses.address("/cases", {"dataset": label})).text)
        assert "agent-grid sweep -m 'dataset.args=[.../desk.py]' name=r-again 'cases=[" in page
        assert f"]' dataset={name}" in page
        assert f'"{episodes[case - 1]["case_id"]}"' in page
        assert "Fill in before you run it: dataset.args=[.../desk.py]" in page


def test_nothing_of_a_hostile_folder_is_markup(tmp_path: Path) -> None:
    viewed.write(tmp_path / "evil", viewed.EVIL)
    viewer = client(tmp_path / "evil")
    cell = viewed.cell("tooltree", 0, 0) + viewed.EVIL
    for path in (
        "/",
        "/cases",
        *(addresses.address(f"/{page}", {"cell": cell}) for page in ("episode", "tree", "asked")),
    ):
        answer = viewer.get(path)
        assert answer.status_code == 200, path
        assert elements(answer.text)["script"] == 1, "the viewer's own"
        assert not {"img", "iframe", "object", "embed"} & set(elements(answer.text))
        assert "\x1b" not in answer.text
        assert "\u202e" not in answer.text
        assert str(4321 * 1234) not in answer.text


@pytest.mark.long
@pytest.mark.parametrize("path", ["/", "/cases", "/episode?cell=tooltree-0-0", "/tree?cell=tooltree-0-0", "/nothing"])
def test_every_answer_forbids_what_is_not_the_viewers(path: str, root: Path) -> None:
    answer = client(root).get(path)
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert not re.search(r"<script(?![^>]*\bsrc=)|\bstyle=|\son[a-z]+=", answer.text)
    for address in re.findall(r'(?:href|src|action)="([^"]*)"', answer.text):
        assert address.startswith(("/", "#")), address


@pytest.mark.parametrize(("host", "status"), [
    ("127.0.0.1:8321", 200), ("localhost:8321", 200), ("LOCALHOST", 200), ("[::1]:8321", 200), ("evil.example", 403),
    ("evil.example:8321", 403), ("127.0.0.1.evil.example:8321", 403), ("", 403),
])  # fmt: skip
def test_on_loopback_only_this_machines_names_are_answered(host: str, status: int, root: Path) -> None:
    assert client(root).get("/", headers={"host": host}).status_code == status


def test_elsewhere_a_token_opens_it_once_and_a_cookie_then(root: Path) -> None:
    viewer = TestClient(app([Run(root)], 8321, "secret"), base_url="http://host.example:8321", follow_redirects=False)
    assert viewer.get("/").status_code == 403
    assert viewer.get("/static/viewer.css").status_code == 403
    assert viewer.get("/?token=wrong").status_code == 403
    found = viewer.get("/cases?token=secret&sort=id")
    assert (found.status_code, found.headers["location"]) == (303, "/cases?sort=id")
    cookie = found.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=lax" in cookie
    assert viewer.get("/cases?sort=id").status_code == 200
    away = viewer.get("http://host.example:8321//evil.example/?token=secret")
    assert away.headers["location"] == "/evil.example/"


def test_nothing_can_be_sent_to_it(root: Path) -> None:
    assert client(root).post("/", data={"a": "b"}).status_code == 405


def test_files_that_arrive_while_others_are_read_are_read_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slowly(root: Path) -> Index:
        found = Index(root)
        if len(found.of_place(found.places[0])) < 2:
            store.write(root, {"episodes": [viewed.episode("egb_logits", 0, 0)]})
        return found

    monkeypatch.setattr(runs, "Index", slowly)
    monkeypatch.setattr(runs, "_LOOK_SECONDS", -1.0)
    monkeypatch.setattr(runs, "_AT_ONCE_SECONDS", float("inf"))
    store.write(tmp_path, {"episodes": [viewed.episode("react", 0, 0)]})
    run = Run(tmp_path)
    assert [len(run.index().settings) for _ in range(3)] == [1, 2, 2]
    assert run.index() is run.index(), "nothing has arrived since"


def test_an_index_without_episodes(tmp_path: Path) -> None:
    (tmp_path / "episodes").mkdir()
    with pytest.raises(StoreError, match="no episodes yet"):
        Index(tmp_path)
