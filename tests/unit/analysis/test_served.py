"""Who answered, and answers that nobody counted: lines of every report, and tables that leave these out."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from analysis import load
from analysis.load import answers, spending
from analysis.load.queries import ask
from analysis.report import print_report
from analysis.tables import search_cells
from analysis.viewer.index import Index
from grid import store
from grid.store import sql
from launch.report import write_page
from tests.unit.store.test_store import episode

_numbers = itertools.count()


def rows(count: int, **columns: Any) -> list[dict[str, Any]]:
    """Cells of one setting, each of a case of its own, in two clusters."""
    return [_row(next(_numbers), columns) for _ in range(count)]


def _row(number: int, columns: dict[str, Any]) -> dict[str, Any]:
    name, planner = f"{number:032x}", columns.get("planner", "react")
    ids = {"cell_key": name, "case_id": name, "cluster": "ab"[number % 2], "setting_id": planner, "planner": planner}
    labels = {"sweep": "s", "model": "big", "dataset": "made_up", "robustness": "none", "retriever": "bm25"}
    labels |= {"pool": "all", "refine": "none", "memory": "none", "dataset_version": "v1", "code": "c", "config": "{}"}
    told = {"engine": "openai_http", "engine_version": "gpt-4o@api.example", "uncounted_answers": 0}
    took = {"trial": 0, "success": number % 3 == 0, "llm_calls": 3, "forward_passes": 0, "tool_calls": 2}
    return episode(name) | ids | labels | told | took | columns


def lines(root: Path, *parts: list[dict[str, Any]]) -> list[str]:
    store.write(root, {"episodes": [row for part in parts for row in part]})
    return answers.served(root)


def test_nothing_is_said_where_all_is_well(tmp_path: Path) -> None:
    known = {"answered_by": "gpt-4o", "system_fingerprint": "fp_1", "provider": "P"}
    assert lines(tmp_path, rows(2, **known), rows(1)) == []


def test_another_model_is_a_warning_with_its_cells(tmp_path: Path) -> None:
    found = lines(tmp_path, rows(3, answered_by="gpt-4o"), rows(2, answered_by="gpt-4o; gpt-4o-mini"))
    assert found == [
        "warning: big: a model other than the requested one answered: requests named gpt-4o, and answers came from "
        "gpt-4o (5 cells), gpt-4o-mini (2 cells)"
    ]


def test_a_version_of_the_model_is_told_and_two_are_a_warning(tmp_path: Path) -> None:
    found = lines(tmp_path / "one", rows(3, answered_by="gpt-4o-2024-08-06"))
    assert found == [
        "big: requests named gpt-4o, and answers came from gpt-4o-2024-08-06 (3 cells), which counts as the same model"
    ]
    (line,) = lines(
        tmp_path / "two", rows(3, answered_by="gpt-4o-2024-08-06"), rows(1, answered_by="gpt-4o-2024-11-20")
    )
    assert line.startswith("warning: big: several versions of the model answered: ")


def test_cells_of_one_model_that_were_served_in_several_places_say_so(tmp_path: Path) -> None:
    here, there = (f"gpt-4o@{host}" for host in ("127.0.0.1:8795", "localhost:8795"))
    told = {"answered_by": "gpt-4o"}
    assert lines(tmp_path, rows(2, engine_version=here, **told), rows(1, engine_version=there, **told)) == [
        "big: its cells were served at 127.0.0.1:8795 (2 cells), localhost:8795 (1 cell)"
    ]


def test_several_configurations_and_providers_are_warnings(tmp_path: Path) -> None:
    parts = (
        rows(1, system_fingerprint=f"fp_{place}", provider="P" if place else "Q", answered_by="gpt-4o")
        for place in range(7)
    )
    first, second = lines(tmp_path, *parts)
    assert first.startswith("warning: big: answers came from 7 configurations (system_fingerprint): fp_")
    assert first.endswith(", 2 more")
    assert second == "warning: big: answers came from 2 providers: P (6 cells), Q (1 cell)"


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("gpt-4o", "gpt-4o", True),
        ("gpt-4o", "GPT-4o", True),
        ("gpt-4o", "gpt-4o-2024-08-06", True),
        ("openai/gpt-4o", "gpt-4o-2024-08-06", True),
        ("claude-3-5-sonnet-latest", "claude-3-5-sonnet-20241022", True),
        ("claude-3-5-sonnet", "claude-3-5-sonnet@20241022", True),
        ("mistral-large-latest", "mistral-large-2411", True),
        ("gpt-4", "gpt-4-0613", True),
        ("models/gemini-1.5-pro", "gemini-1.5-pro-002", True),
        ("gpt-4o", "gpt-4o-mini", False),
        ("gpt-4o", "gpt-4o-mini-2024-07-18", False),
        ("llama-3-70b", "llama-3-8b", False),
        ("llama-3", "llama-3-405", False),
        ("qwen2.5-7b", "qwen2.5-72b", False),
        ("gpt-4", "gpt-4-1106-preview", False),
    ],
)
def test_which_names_are_the_same(one: str, other: str, same: bool) -> None:
    assert answers.same_model(one, other) == same


UNKNOWN = {"uncounted_answers": 3, "money": None}
UNKNOWN |= dict.fromkeys(("input_tokens", "cached_input_tokens", "output_tokens", "reasoning_tokens"))
KNOWN = {"input_tokens": 100, "cached_input_tokens": 0, "output_tokens": 10, "money": 0.5, "case_seconds": 1.0}


def test_uncounted_answers_are_a_warning_by_model_and_role(tmp_path: Path) -> None:
    judged = {"judge": "j[text]", "judge_calls": 2, "judge_uncounted_answers": 2}
    first, second = lines(tmp_path, rows(2, **KNOWN), rows(1, **UNKNOWN), rows(1, **KNOWN, **judged))
    assert first.startswith("warning: big: for 3 answers the server gave no token counts, or contradictory ones")
    assert "; 1 of 4 cells have no values of tokens and money for this model. These cells are left out of" in first
    assert second.startswith("warning: j[text] as judge: for 2 answers the server gave no token counts")
    assert "; 1 of 1 cells" in second


def test_means_leave_out_what_is_not_counted(tmp_path: Path) -> None:
    """Of the acting model and of a judge: a null is no zero."""
    judged = {"judge": "j[text]", "judge_calls": 2, "judge_uncounted_answers": 0, "judge_passes": 0}
    told = judged | {"judge_input_tokens": 40, "judge_output_tokens": 2}
    untold = judged | {"judge_input_tokens": None, "judge_output_tokens": None, "judge_uncounted_answers": 2}
    lines(tmp_path, rows(1, **KNOWN, **told), rows(1, **KNOWN, **untold), rows(1, **UNKNOWN, **told), rows(1, **KNOWN))
    cells = load.episodes(tmp_path, spending.SPENT)
    assert sorted(spending.tokens(cells).dropna()) == [110, 152]
    both = ask(cells.assign(llm_calls=1), f"SELECT {spending.DERIVED['all_input_tokens']} AS tokens FROM e")  # noqa: S608
    assert sorted(both.rows["tokens"].dropna()) == [100, 140]
    ((_, group),) = search_cells.places(search_cells.read(tmp_path))
    assert sorted(search_cells.cases(group).rows["tokens"].dropna()) == [110, 152]
    query = sql.joined(f"SELECT {spending.SQL} FROM (SELECT * FROM '{tmp_path}/episodes/*.parquet')")  # noqa: S608
    by_sql = pytest.importorskip("duckdb").sql(query)
    assert sorted(value for (value,) in by_sql.fetchall() if value is not None) == [110, 152]
    summaries = Index(tmp_path).summaries.values()
    assert sorted(one.tokens or 0.0 for one in summaries) == [110, 152], "settings with the judge and without"


@pytest.mark.long
@pytest.mark.parametrize("count", [0, 2])
def test_a_report_with_uncounted_cells_has_its_lines_and_tables(tmp_path: Path, count: int) -> None:
    """Also where no cell at all is counted."""
    planners = ("react", "egb_logits", "fh", "sh")
    for planner in planners:
        name = {"planner": planner, "answered_by": "gpt-4o-mini"}
        store.write(tmp_path, {"episodes": [*rows(count, **KNOWN, **name), *rows(2, **UNKNOWN, **name)]})
    with (tmp_path / "printed").open("w") as file:
        tables = print_report(tmp_path, Console(file=file, width=200), all_columns=True)
    printed, page = (tmp_path / "printed").read_text(), write_page(tmp_path, tables).read_text()
    for text in (printed, page):
        assert "a model other than the requested one answered" in text
        assert f"8 of {4 * (count + 2)} cells have no values of tokens and money for this model" in text
    costs = next(table for table in tables if "money" in table.values.columns and "input_tokens" in table.values)
    means = set(costs.values["input_tokens"].dropna())
    assert means == ({100.0} if count else set())
