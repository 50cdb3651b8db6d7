"""How settings are called in frames, tables and queries: as short as may be, and told apart."""

from __future__ import annotations

import io
import json
from pathlib import Path

import duckdb
import pandas as pd
import pyarrow.compute as pc
import pytest
from rich.console import Console

from analysis.load import episodes, queries
from analysis.report import print_report
from grid import store
from tests.support import searched
from tests.unit.analysis.test_tables import NOON, row


def test_settings_with_equal_labels_are_told_apart(tmp_path: Path) -> None:
    rows = [
        row("react", 0, 0, 1.0)
        | {
            "cell_id": setting,
            "cell_key": setting,
            "retriever": retriever,
            "setting_id": setting * 16,
            "dataset_version": "slate-1234",
        }
        | {"success": True, "created_at": NOON, "attempt_id": "a"}
        for setting, retriever in (("a", "bm25[top_k=5]"), ("b", "bm25[top_k=50]"), ("c", "bm25[top_k=50]"))
    ]
    store.write(tmp_path, {"episodes": rows})
    labels = sorted(episodes(tmp_path)["planner"])
    assert len(set(labels)) == 3
    assert labels == [
        "react / bm25[top_k=50] #bbbbbb-1234",
        "react / bm25[top_k=50] #cccccc-1234",
        "react / bm25[top_k=5]",
    ]


def test_a_model_behind_an_interface_has_its_own_name_and_equal_labels_what_differs(tmp_path: Path) -> None:
    model = r"openai_http[model=fake-1,base_url=http\://127.0.0.1\:8795/v1]"
    rows = [
        row("react", case, 0, float(case % 2))
        | {"cell_id": f"{seed}{case}", "cell_key": f"{seed}{case}", "model": model, "setting_id": str(seed) * 16}
        | {"config": json.dumps({"planner": {"_target_": "x"}, "seed": seed}), "created_at": NOON, "attempt_id": "a"}
        | {"success": bool(case % 2), "code": "c" * 16, "dataset_version": "slate-1234"}
        for seed in (1, 2)
        for case in range(4)
    ]
    store.write(tmp_path, {"episodes": rows})
    frame = episodes(tmp_path)
    assert set(frame["model"]) == {"fake-1"}
    assert set(frame["planner"]) == {"react (seed=1)", "react (seed=2)"}
    (table, *_) = print_report(tmp_path, Console(file=io.StringIO()))
    assert table.name == "results fake-1 slate"
    found = duckdb.connect().execute(table.query).df()
    assert set(found["model"]) == {"fake-1"}
    assert set(found["planner"].dropna()) >= {"react (seed=1)", "react (seed=2)"}
    assert store.read(tmp_path, "episodes", ["model"])["model"].unique().to_pylist() == [model]


@pytest.mark.parametrize(
    ("judged", "labels"),
    [
        ([("small", "small"), ("large", "large")], ["best_first", "best_first"]),
        ([("small", "large"), ("large", "large")], ["best_first", "best_first"]),
        ([("small", "small"), ("small", "large")], ["best_first / judge large", "best_first / judge small"]),
        ([("small", "large"), ("small", None)], ["best_first", "best_first"]),
    ],
)
def test_a_judge_is_named_where_a_model_has_several(
    tmp_path: Path, judged: list[tuple[str, str | None]], labels: list[str]
) -> None:
    rows = [
        row("best_first", 0, 0, 1.0)
        | {"cell_id": str(n), "cell_key": str(n), "model": model, "judge": judge, "dataset": f"d{n}"}
        | {"success": True, "created_at": NOON, "attempt_id": "a", "setting_id": str(n) * 16}
        for n, (model, judge) in enumerate(judged)
    ]
    store.write(tmp_path, {"episodes": rows})
    assert sorted(episodes(tmp_path)["planner"]) == labels


@pytest.mark.parametrize(
    ("settings", "labels"),
    [
        ([{}, {"planner": "sh"}], {"fh", "sh"}),
        ([{}, {"planner": "react", "retriever": "dense"}], {"fh / bm25", "react / dense"}),
        ([{}, {"planner": "react", "retriever": "dense"}, {"planner": "sh", "retriever": None, "pool": None}],
         {"fh / bm25", "react / dense", "sh"}),
        ([{"judge": "small"}, {"judge": "large"}], {"fh / judge large", "fh / judge small"}),
        ([{"config": '{"seed": 1}'}, {"config": '{"seed": 2}'}], {"fh (seed=1)", "fh (seed=2)"}),
        ([{"code": None}, {"code": None}], {"fh #id-0-te-1", "fh #id-1-te-1"}),
        ([{"dataset_version": None}, {"dataset_version": None}], {"fh #id-0-", "fh #id-1-"}),
        ([{"planner": r"fh[at=http\://a]"}, {}], {"fh[at=http://a]", "fh"}),
        ([{"model": "api[model=a,url=x]"}, {"model": "api[model=a,url=x]", "retriever": "dense"}],
         {"fh / bm25", "fh / dense"}),
    ],
)  # fmt: skip
def test_a_selection_and_a_query_have_the_labels_of_the_whole_folder(
    tmp_path: Path, settings: list[dict[str, str | None]], labels: set[str]
) -> None:
    rows = [
        searched.episode("fh", place, True, setting_id=f"id-{place}")
        | {"cell_id": str(place), "cell_key": str(place)}
        | own
        for place, own in enumerate(settings)
    ]
    store.write(tmp_path, {"episodes": rows})
    whole = {case: (planner, model) for case, planner, model in _labels_of(episodes(tmp_path))}
    assert {planner for planner, _ in whole.values()} == labels
    asked = duckdb.connect().execute(queries.of_files(tmp_path, "SELECT case_id, planner, model FROM e"))
    assert {case: (planner, model) for case, planner, model in asked.fetchall()} == whole
    for case, told in whole.items():
        ((_, *own),) = _labels_of(episodes(tmp_path, where=pc.field("case_id") == case))
        assert tuple(own) == told


def _labels_of(frame: pd.DataFrame) -> list[tuple[str, ...]]:
    return list(frame[["case_id", "planner", "model"]].astype(str).itertuples(index=False, name=None))
