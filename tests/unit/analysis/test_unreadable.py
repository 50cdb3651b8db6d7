"""Answers that could not be read: a model that answers prose to everything is a warning, be its words kept or not."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import duckdb
import pytest
from rich.console import Console

from analysis.load import answers as unreadable
from analysis.load import queries
from analysis.report import print_report
from analysis.tables import failed
from grid import store
from grid.cells.run import Stamp, run_chunk
from grid.engines.http.engine import OpenAIHTTP
from grid.settings.build import build
from grid.settings.config import BudgetConfig
from grid.settings.setting import Keep, cells
from launch.report import write_page
from tests.support.configs import setting_of
from tests.support.http_server import Asked, LocalServer, Reply, completion, models
from tests.unit.store.test_store import episode, message, step
from tests.unit.store.test_transcripts import taken

PROSE = "That is a wonderful question. Let me think about what you may want to know about it."


def prose(asked: Asked) -> Reply:
    """A model that answers prose to everything."""
    return models("m") if asked.path == "/v1/models" else completion(PROSE)


def asked_of_prose(root: Path, planner: str, keep: str) -> None:
    """Two cases of SLATE, whose rows are written."""
    with LocalServer(prose) as server:
        keys = {"base_url": server.url, "model": "m", "structured": False, "sampling": "plain"}
        labels: dict[str, Any] = {"dataset": "slate", "planner": planner, "model": "openai_http"}
        setting = setting_of({"limit": 2}, model_values=keys, **labels)
        built = build(setting, BudgetConfig())
        assert isinstance(built.engine, OpenAIHTTP)
        engine = built.engine
        chunk = list(cells(setting, built.version, built.dataset.case_ids(), 1))

        async def run() -> Any:
            await engine.load()
            return await run_chunk(built, setting, chunk, Stamp("test", None), keep=Keep.of(keep))

        store.write(root, taken(asyncio.run(run())))


@pytest.mark.long
@pytest.mark.parametrize(("planner", "keep"), [("react", "all"), ("zero_shot", "none")])
def test_a_model_that_answers_prose_to_everything_is_a_warning(tmp_path: Path, planner: str, keep: str) -> None:
    asked_of_prose(tmp_path, planner, keep)
    (line,) = unreadable.unreadable(tmp_path)
    asked = unreadable.by_setting(tmp_path)
    answers = int(asked.rows["answers"].sum())
    pasted = duckdb.connect().execute(queries.of_files(tmp_path, asked.query)).df()
    assert pasted["answers"].tolist() == pasted["unread"].tolist() == [answers]
    assert answers > 1
    assert f", {planner} on slate: 100% of answers ({answers:,} in all) could not be read" in line
    assert f"agent-grid view {tmp_path}" in line
    assert set(failed.classes(tmp_path)["failure"].to_pylist()) == {"unreadable"}
    with (tmp_path / "printed").open("w") as file:
        tables = print_report(tmp_path, Console(file=file, width=200))
    assert line in (tmp_path / "printed").read_text().splitlines()[1]
    assert f"100% of answers ({answers:,} in all) could not be read" in write_page(tmp_path, tables, ()).read_text()


def labels(**more: Any) -> dict[str, Any]:
    found = dict.fromkeys(("model", "dataset", "planner", "retriever", "setting_id", "dataset_version", "code"), "x")
    return found | {"pool": "all", "robustness": "none", "case_id": "c", "trial": 0} | more


def test_half_of_the_answers_is_no_warning_and_more_is(tmp_path: Path) -> None:
    why = [{"place": 0, "why": "no call"}]
    rows = [message("a", place=place, role="actor", n=1, unreadable=why if place < 2 else []) for place in range(4)]
    store.write(tmp_path, {"episodes": [episode("a", n_messages=4, **labels())], "messages": rows})
    assert unreadable.unreadable(tmp_path) == []
    further = [message("b", role="actor", n=1, unreadable=why)]
    store.write(tmp_path, {"episodes": [episode("b", n_messages=1, **labels(case_id="d"))], "messages": further})
    (line,) = unreadable.unreadable(tmp_path)
    assert "60% of answers (5 in all) could not be read" in line


def test_roles_are_told_apart(tmp_path: Path) -> None:
    why = [{"place": 0, "why": "no score"}]
    rows = [message("a", place=place, role="actor", n=1) for place in range(9)]
    rows += [message("a", place=9 + place, role="judge", n=1, unreadable=why) for place in range(3)]
    rows += [message("a", place=12, role="actor", n=None)]  # a choice, which can always be read
    store.write(tmp_path, {"episodes": [episode("a", n_messages=13, **labels())], "messages": rows})
    (line,) = unreadable.unreadable(tmp_path)
    assert "100% of the judge's answers (3 in all) could not be read" in line


def test_without_transcripts_decisions_count(tmp_path: Path) -> None:
    steps = [step("a", index=place, chosen_tool="find" if place == 3 else None) for place in range(4)]
    store.write(tmp_path, {"episodes": [episode("a", **labels())], "steps": steps})
    (line,) = unreadable.unreadable(tmp_path)
    assert "75% of answers (4 in all) could not be read" in line


def test_an_empty_folder_has_no_warning(tmp_path: Path) -> None:
    assert unreadable.unreadable(tmp_path) == []
