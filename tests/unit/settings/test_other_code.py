"""Rows that other code made: noticed, run again or kept, and never counted beside those of the present code."""

from __future__ import annotations

import asyncio
import datetime as dt
import re
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

import grid.settings.build
import grid.settings.check
from analysis.load import episodes
from grid import store
from grid.cells.run import Stamp, run_chunk
from grid.code_digest import code_digest
from grid.core.errors import ConfigError, UnfinishedError
from grid.engines.lexical.engine import Lexical
from grid.settings.build import build, expect_code
from grid.settings.check import Checked, check_sweep
from grid.settings.plan import OtherCode, Plan
from grid.sweeps import session
from grid.sweeps.inline import run_inline
from tests.support import plan_rows
from tests.support.configs import job, yaml

OTHER = "0123456789abcdef"


def plan_of(root: Path, **changes: object) -> Plan:
    return check_sweep([job(root, **changes)]).plan


def run(plan: Plan, cells: int | None = None) -> None:
    done = plan.finished()
    for setting, chunk in plan.chunks(done, lambda _: cells or 100, plan.settings):
        result = asyncio.run(run_chunk(build(setting, plan.budget), setting, chunk, Stamp("s", None)))
        store.write(plan.root, result.take())
        if cells:
            return


@pytest.fixture
def change(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the planner other code, from when it is asked for."""
    real = code_digest

    def changed(modules: tuple[str, ...], also: tuple[str, ...]) -> str:
        return OTHER if "grid.planners.react.ReAct" in modules else real(modules, also)

    monkeypatch.setattr(grid.settings.build, "code_digest", changed)


def test_changed_code_is_told_and_its_cells_run_again(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    first = plan_of(tmp_path)
    run(first)
    assert first.by_other_code() == OtherCode(0, ())
    assert sum(first.missing(first.finished()).values()) == 0
    request.getfixturevalue("change")
    second = plan_of(tmp_path)
    assert second.by_other_code() == OtherCode(2, ("planner",))
    assert sum(second.missing(second.finished()).values()) == 2
    kept = plan_of(tmp_path, accept_code=True)
    assert kept.by_other_code() == OtherCode(2, ("planner",))
    assert sum(kept.missing(kept.finished()).values()) == 0
    run(second)
    assert second.by_other_code() == OtherCode(0, ())
    rows = store.read(second.root, "episodes", wide=True).to_pylist()
    assert len(rows) == 2
    assert {row["code"] for row in rows} == {second.settings[0].code_id}
    assert OTHER in rows[0]["code_parts"]
    steps = store.read(second.root, "steps", ["cell_id"])["cell_id"].to_pylist()
    assert set(steps) == {row["cell_id"] for row in rows}


def test_rows_of_other_data_are_told(tmp_path: Path) -> None:
    first = plan_of(tmp_path)
    run(first)
    assert first.about_rows() == []
    edited = replace(first, dataset_versions=dict.fromkeys(first.dataset_versions, "edited"))
    (line,) = edited.about_rows()
    assert line.startswith(
        "2 stored cells were run on a different version of the data of dataset: they are kept, and reports show"
    )


def test_a_program_that_is_known_by_its_path_alone_is_told(tmp_path: Path) -> None:
    plan, server = plan_of(tmp_path), tmp_path / "server.py"
    server.touch()

    def lines(**keys: object) -> list[str]:
        dataset = plan.settings[0].config["dataset"] | keys
        settings = [replace(one, config={**one.config, "dataset": dataset}) for one in plan.settings]
        return replace(plan, settings=settings, dataset_versions={settings[0].id: ""}).about_rows()

    for keys in (
        {"args": [str(server), "-v"]},
        {"servers": {"a": {"args": ["server.py"]}, "b": {"args": [str(server)]}}},
    ):
        (line,) = lines(**keys)
        assert line.startswith(f"dataset.args: the contents of {server} are not part of the cells' ids")
    assert lines(args=["server.py", "/nowhere.py"]) == []


def test_rows_without_money_are_told_if_a_price_is_given_later(tmp_path: Path) -> None:
    model = yaml("model", "openai_http") | {"model": "m"}
    first, priced = (plan_of(tmp_path, model=model | {"price": price}) for price in (None, {"input": 1, "output": 2}))
    (setting,) = first.settings
    row = {"setting_id": setting.id, "dataset": "d", "dataset_version": first.dataset_versions[setting.id]}
    rows = [plan_rows.episode("react", "d", case, success=True) | row | {"money": None} for case in range(3)]
    rows.append(plan_rows.episode("react", "d", 3, success=True) | row | {"money": 0.5})
    plan_rows.write(first.root, rows)
    assert first.about_rows() == []
    (line,) = priced.about_rows()
    assert line.startswith("3 stored cells have no known cost in US dollars: they ran before model.price was given")


def test_a_sweep_of_real_models_asks_before_most_of_its_cells_run_again(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(plan_of(tmp_path))
    request.getfixturevalue("change")
    plan = plan_of(tmp_path)
    plan.expect_choice(plan.by_other_code())  # the lexical engine costs nothing
    monkeypatch.setattr(Lexical, "home", "replica")
    other = plan.by_other_code()
    assert other == OtherCode(2, ("planner",), most=True)
    with pytest.raises(ConfigError, match=r"accept_code=None: .*planner has changed since 2 cells were run.*=false"):
        plan.expect_choice(other)
    assert other.told(None).endswith("set accept_code=true (keep their rows) or accept_code=false (run them again)")
    for choice in (True, False):
        chosen = plan_of(tmp_path, accept_code=choice)
        chosen.expect_choice(chosen.by_other_code())
    run(plan, cells=1)
    half = plan.by_other_code()
    assert half == OtherCode(1, ("planner",), most=False)
    plan.expect_choice(half)
    assert half.told(None).endswith("they run again; to keep them, set accept_code=true")


@pytest.mark.parametrize("sweep", [session.run_checked, run_inline])
def test_a_sweep_stops_before_any_work_until_the_choice_is_made(
    tmp_path: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    sweep: Callable[[Checked], bool],
) -> None:
    run(plan_of(tmp_path))
    request.getfixturevalue("change")
    monkeypatch.setattr(Lexical, "home", "replica")
    checked = check_sweep([job(tmp_path)])
    with pytest.raises(ConfigError, match="accept_code"):
        sweep(checked)
    assert "they do not run again until you choose: set accept_code=true (keep their" in capsys.readouterr().out
    assert checked.plan.by_other_code().cells == 2
    assert not (checked.plan.root / "run.json").exists()


def test_rows_of_several_codes_are_told_apart_in_tables(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    run(plan_of(tmp_path))
    request.getfixturevalue("change")
    run(plan_of(tmp_path), cells=1)
    planners = set(episodes(tmp_path / "test")["planner"])
    assert len(planners) == 2
    assert all(re.fullmatch(r"planner / pool pool \(code=[0-9a-f]{4}\)", label) for label in planners)


def test_a_machine_with_other_code_ends_the_sweep(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    (setting,) = plan_of(tmp_path).settings
    expect_code(setting)
    request.getfixturevalue("change")
    with pytest.raises(UnfinishedError, match=r"and the sweep's driver have different code \(it differs in planner\)"):
        expect_code(setting)


def test_a_commit_is_dirty_with_changed_and_with_untracked_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def git(*arguments: str) -> None:
        identity = ("-c", "user.name=a", "-c", "user.email=a@b.c")
        subprocess.run(["git", *identity, *arguments], cwd=tmp_path, check=True, capture_output=True)

    monkeypatch.setattr(grid.settings.check, "__file__", str(tmp_path / "check.py"))
    assert grid.settings.check.git_commit() is None
    git("init")
    (tmp_path / "a.py").write_text("1")
    (tmp_path / ".gitignore").write_text("results/\n")
    git("add", ".")
    git("commit", "-m", "first")
    clean = grid.settings.check.git_commit()
    assert clean is not None
    assert len(clean) == 40
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "rows").write_text("ignored")
    assert grid.settings.check.git_commit() == clean
    (tmp_path / "planner.py").write_text("untracked")
    assert grid.settings.check.git_commit() == f"{clean}-dirty"
    git("add", ".")
    assert grid.settings.check.git_commit() == f"{clean}-dirty"


@pytest.mark.long
@pytest.mark.parametrize(("kind", "complete"), [("model", True), ("code", False), ("infrastructure", False)])
def test_a_failure_of_code_leaves_a_sweep_incomplete(
    tmp_path: Path, kind: str, complete: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    checked = check_sweep([job(tmp_path)])
    run(checked.plan)
    row = store.read(checked.plan.root, "episodes", wide=True).to_pylist()[0]
    row |= {"status": "failed", "error_kind": kind, "created_at": row["created_at"] + dt.timedelta(seconds=1)}
    store.write(checked.plan.root, {"episodes": [row | {"error_message": "KeyError: 1 (grid/planners/react.py:30)"}]})
    assert session.complete(checked, Console(width=200), 0, warn=True) is complete
    said = capsys.readouterr().out
    assert f"1 cells failed ({kind}), the first with the error: KeyError: 1 (grid/planners/react.py:30)" in said
    assert ("after you fix the code" in said) == (kind == "code")
