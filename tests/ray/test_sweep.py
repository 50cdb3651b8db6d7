"""Whole sweeps from the command line on a local Ray, what it refuses, and how a case's failure becomes a row."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pyarrow.parquet as pq
import pytest

from grid import store
from grid.datasets.base import OUTLINE, Dataset, Outline, Problem
from grid.datasets.slate.dataset import generate
from grid.errors import ContextError, ModelError, ToolError
from grid.planners.progress import Budget
from grid.pools.whole import Whole
from grid.retrievers.bm25 import BM25
from grid.store.schema import EPISODES, SCHEMA_VERSION, TIMES
from grid.sweep.build import Built, build
from grid.sweep.cell import Setting, cells
from grid.sweep.config import BudgetConfig
from grid.sweep.pooled import Pooled
from grid.sweep.run import Stamp, run_chunk
from grid.types import Observation, Skipped, ToolCall, ToolSpec
from grid.worlds.base import State, World
from tests.commands import LAUNCH, Ended, launch
from tests.unit.test_store import named

GRID = (
    *("-m", "model=lexical", "planner=react,egb_logits", "robustness=none,extraneous"),
    *("trials=2", "cluster.dashboard=false"),
)

Run = Callable[..., Ended]


@pytest.fixture(scope="module")
def sweep(fresh_cache: Path) -> Run:
    """Runs `launch/sweep.py` in a folder."""

    def run(folder: Path, *arguments: str) -> Ended:
        return launch("sweep", folder, *arguments, environment={"XDG_CACHE_HOME": str(fresh_cache)})

    return run


@dataclass(frozen=True)
class Story:
    """Three cases, the same again, a fourth case; then all four from nothing under another name."""

    first: Ended
    first_files: dict[str, bytes]
    again: Ended
    again_files: dict[str, bytes]
    more: Ended
    afresh: Ended


@pytest.fixture(scope="module")
def story(sweep: Run, tmp_path_factory: pytest.TempPathFactory) -> Story:
    folder = tmp_path_factory.mktemp("story")
    first = sweep(folder, *GRID, "dataset.limit=3", "name=a")
    first_files = files(folder / "results/a")
    again = sweep(folder, *GRID, "dataset.limit=3", "name=a")
    again_files = files(folder / "results/a")
    more = sweep(folder, *GRID, "dataset.limit=4", "name=a")
    afresh = sweep(folder, *GRID, "dataset.limit=4", "name=b", "cluster.chunk_cells=3")
    return Story(first, first_files, again, again_files, more, afresh)


def files(folder: Path) -> dict[str, bytes]:
    found = {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
    return {name: content for name, content in found.items() if name != ".owner"}


def episodes_in(written: Mapping[str, bytes]) -> int:
    return sum(name.startswith("episodes/") for name in written)


def test_a_sweep_runs_all_its_cells_and_prints_the_table(story: Story) -> None:
    ended = story.first
    assert ended.status == 0, ended.err
    assert "4 settings, 24 cells (2 trials), 0 already done" in ended.out
    assert "24 ok, 0 failed" in ended.out
    assert "lexical on slate" in ended.out
    assert "difference to react" in ended.out
    for label in ("egb_logits", "react", "extraneous"):
        assert label in ended.out
    assert episodes_in(story.first_files) == 1, "the chunks' files were merged at the end"
    assert not any(name.startswith(".tmp/") for name in story.first_files)


def test_the_same_again_runs_nothing_and_starts_no_ray(story: Story) -> None:
    assert (story.again.status, story.again.err) == (0, "")
    assert "24 cells (2 trials), 24 already done" in story.again.out
    assert "nothing to run: all 24 cells are already done" in story.again.out
    assert "Ray" not in story.again.out
    assert "lexical on slate" in story.again.out, "the tables are printed all the same"
    assert story.again_files == story.first_files


def test_a_higher_limit_runs_the_new_cells_only(story: Story) -> None:
    assert story.more.status == 0
    assert "32 cells (2 trials), 24 already done" in story.more.out
    assert "8 ok, 0 failed" in story.more.out
    assert len(story.more.rows("a")) == 32
    assert sum(row["cells"] for row in story.more.rows("a", "attempts")) == 32
    (first,) = (content for name, content in story.first_files.items() if name.startswith("episodes/"))
    now = {row["cell_id"]: row for row in story.more.rows("a")}
    for row in pq.read_table(io.BytesIO(first)).to_pylist():
        assert now[row["cell_id"]] == row, "what was written stays as it is"


def test_another_name_gets_the_same_rows_however_they_came_about(story: Story) -> None:
    assert story.afresh.status == 0
    tables: tuple[store.Table, ...] = ("episodes", "steps")
    for table in tables:
        first, second = (lasting(story.afresh.rows(name, table)) for name in ("a", "b"))
        assert len(first) >= 32
        assert first == second


def lasting(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows by cell, without the columns in which two runs may differ; `config` without the limit of its run."""
    kept = [{name: value for name, value in row.items() if name not in TIMES} for row in rows]
    for row in kept:
        if "config" in row:
            row["config"] = json.loads(row["config"])
            del row["config"]["dataset"]["limit"]
    return sorted(kept, key=lambda row: row["cell_id"])


def test_rows_of_a_sweep(story: Story) -> None:
    rows = story.first.rows("a")
    assert {(row["planner"], row["robustness"]) for row in rows} == {
        (planner, robustness) for planner in ("react", "egb_logits") for robustness in ("none", "extraneous")
    }
    assert {row["trial"] for row in rows} == {0, 1}
    assert {row["sweep"] for row in rows} == {"a"}
    assert all(row["status"] == "ok" for row in rows)
    assert all(json.loads(row["config"])["model"]["_target_"] == "grid.engines.lexical.engine.Lexical" for row in rows)


def test_one_setting_without_m(sweep: Run, tmp_path: Path) -> None:
    ended = sweep(tmp_path, "dataset.limit=1", "trials=1", "name=one", "cluster.dashboard=false", "cluster.cpus=1")
    assert ended.status == 0, ended.err
    assert "1 settings, 1 cells" in ended.out
    (row,) = ended.rows("one")
    assert (row["planner"], row["robustness"], row["model"]) == ("react", "none", "simulated")


def test_a_dry_run_lists_the_settings_and_writes_no_results(sweep: Run, tmp_path: Path) -> None:
    ended = sweep(tmp_path, "-m", "dry_run=true", "dataset.limit=5", "trials=2")
    assert (ended.status, ended.err) == (0, "")
    assert "21 settings, 210 cells (2 trials), 0 already done" in ended.out
    assert not [name for name in files(tmp_path) if name.endswith(".parquet")]
    assert not (tmp_path / "results" / "default").exists()
    lines = [line.split() for line in ended.out.splitlines()]
    planners = ["baseline_llm", "react", "self_consistency", "self_consistency_plan", "reflexion", "egb_sampling"]
    for planner in [*planners, "egb_logits"]:
        for robustness in ("none", "inaccurate_plan", "extraneous"):
            assert sum(planner in line and robustness in line for line in lines) == 1, (planner, robustness)


def test_a_dry_run_shows_what_was_changed_literally(sweep: Run, tmp_path: Path) -> None:
    values = ["planner.temperature=0.5", "model.tool_skill=0.25"]
    ended = sweep(tmp_path, "dry_run=true", *values, "dataset.limit=2")
    assert ended.status == 0
    assert "react[temperature=0.5]" in ended.out
    assert "simulated[tool_skill=0.25]" in ended.out


def test_robustness_settings_compose(sweep: Run, tmp_path: Path) -> None:
    ended = sweep(tmp_path, "robustness=[inaccurate_plan,extraneous]", "dry_run=true", "dataset.limit=2")
    assert (ended.status, ended.err) == (0, "")
    assert "inaccurate_plan+extraneous" in ended.out


REFUSED: list[tuple[list[str], list[str]]] = [
    (["planner.samples=0", "planner=egb_sampling"], ["planner.samples=0", "greater than or equal to 1"]),
    (["planner.samples=ten", "planner=egb_sampling"], ["planner.samples='ten'", "valid integer"]),
    (["dataset=ultratool"], ["dataset.path='???'", "must be given"]),
    (
        ["dataset=ultratool", "dataset.path=/nonexistent"],
        ["dataset.path='/nonexistent'", "no such folder", "test.json"],
    ),
    (["trials=0"], ["trials=0", "greater than or equal to 1"]),
    (["name=../x"], ["name='../x'", "A-Za-z0-9"]),
    (["+planner.nosuch=1"], ["planner.nosuch=1", "temperature"]),
]


@pytest.mark.parametrize(("arguments", "said"), REFUSED, ids=lambda value: value[0])
def test_what_cannot_run_is_refused_in_one_line(
    sweep: Run, tmp_path: Path, arguments: list[str], said: list[str]
) -> None:
    refused(sweep(tmp_path, *arguments), *said)
    assert files(tmp_path) == {}


@pytest.mark.parametrize("group", ["planner", "dataset"])
def test_an_unknown_choice_is_answered_with_the_choices(sweep: Run, tmp_path: Path, group: str) -> None:
    files_there = [path.stem for path in (LAUNCH.parent / "conf" / group).glob("*.yaml")]
    refused(sweep(tmp_path, f"{group}=nosuch"), f"{group}='nosuch'", *files_there)
    assert files(tmp_path) == {}


def test_a_refused_multirun_makes_no_results(sweep: Run, tmp_path: Path) -> None:
    refused(sweep(tmp_path, "-m", "planner=react,egb_sampling", "trials=0"), "trials=0")
    assert not (tmp_path / "results" / "default").exists()


def test_a_broken_line_of_a_dataset_is_named(sweep: Run, tmp_path: Path) -> None:
    data, work = tmp_path / "slate", tmp_path / "work"
    data.mkdir()
    work.mkdir()
    generate(data, 0, 2)
    lines = (data / "cases.jsonl").read_text(encoding="utf-8").splitlines()
    (data / "cases.jsonl").write_text(f"{lines[0]}\n{lines[1][:40]}\n", encoding="utf-8")
    refused(sweep(work, f"dataset.path={data}"), f"{data}/cases.jsonl:2:", "broken JSON")
    assert files(work) == {}


def test_results_of_another_version_are_refused_and_left_alone(sweep: Run, tmp_path: Path) -> None:
    old = EPISODES.with_metadata({b"schema_version": b"0"}).empty_table()
    path = named(tmp_path / "results" / "old" / "episodes", old)
    before = files(tmp_path)
    refused(
        sweep(tmp_path, "name=old"),
        f"results/old/episodes/{path.name}",
        "schema_version='0'",
        repr(SCHEMA_VERSION),
    )
    assert files(tmp_path) == before


def test_a_second_sweep_of_a_name_is_refused(sweep: Run, tmp_path: Path) -> None:
    root = tmp_path / "results" / "held"
    with store.locked(root):
        store.write(root, {"episodes": [{"cell_id": "a", "cell_key": "a", "cluster": "a", "status": "ok"}]})
        before = files(root)
        refused(sweep(tmp_path, "name=held", "dataset.limit=1", "trials=1"), "results/held", "another sweep")
        assert files(root) == before


def refused(ended: Ended, *said: str) -> None:
    """Exit status 2, and one line that holds all that is `said`."""
    assert ended.status == 2, ended.err
    (line,) = ended.err.splitlines()
    assert line.startswith("error: ")
    for part in said:
        assert part in line


@dataclass(frozen=True)
class BrokenWorld:
    """Raises at the first call, like a tool whose service is down."""

    inner: World
    error: Exception
    branches: ClassVar[bool] = True

    def start(self) -> State:
        return self.inner.start()

    async def apply(self, state: State, call: ToolCall) -> tuple[State, Observation]:
        raise self.error

    def resolved(self, state: State) -> bool:
        return self.inner.resolved(state)

    def answer(self, state: State) -> str | None:
        return self.inner.answer(state)


@dataclass(frozen=True)
class OneBrokenCase:
    """A dataset one of whose cases has a broken world."""

    inner: Dataset
    broken: str
    error: Exception
    provides: ClassVar[frozenset[str]] = frozenset({OUTLINE})
    outline: ClassVar[Outline] = "given"

    @property
    def version(self) -> str:
        return self.inner.version

    @property
    def tools(self) -> Mapping[str, ToolSpec]:
        return self.inner.tools

    @property
    def skipped(self) -> Sequence[Skipped]:
        return self.inner.skipped

    def case_ids(self) -> Sequence[str]:
        return self.inner.case_ids()

    def cluster(self, case_id: str) -> str:
        return self.inner.cluster(case_id)

    def problem(self, case_id: str) -> Problem:
        problem = self.inner.problem(case_id)
        if case_id != self.broken:
            return problem
        return replace(problem, world=BrokenWorld(problem.world, self.error))


@pytest.fixture
def setting(fresh_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Setting:
    """ReAct on three cases of SLATE."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(fresh_cache))
    config = {
        "model": {"_target_": "grid.engines.lexical.engine.Lexical"},
        "planner": {"_target_": "grid.planners.react.ReAct"},
        "dataset": {"_target_": "grid.datasets.slate.dataset.Slate", "limit": 3},
        "robustness": {},
        "retriever": {"_target_": "grid.retrievers.bm25.BM25"},
        "pool": {"_target_": "grid.pools.whole.Whole"},
    }
    labels = {
        "model": "lexical",
        "planner": "react",
        "dataset": "slate",
        "robustness": "none",
        "retriever": "bm25",
        "pool": "all",
    }
    return Setting(config, labels, seed=0)


def built_of(setting: Setting) -> Built:
    return build(setting, BudgetConfig())


def episodes_of(built: Built, setting: Setting) -> dict[str, list[dict[str, Any]]]:
    chunk = list(cells(setting, built.dataset.version, built.dataset.case_ids(), 1))
    return asyncio.run(run_chunk(built, setting, chunk, Stamp("test", None))).take()


@pytest.mark.parametrize(
    ("error", "kind", "message", "success"),
    [
        (ToolError("the warehouse is down"), "tool", "the warehouse is down", None),
        (ValueError("nobody foresaw this"), "code", "ValueError: nobody foresaw this", None),
        (ModelError("no answer"), "model", "no answer", False),
        (ContextError("9000 tokens of 8192"), "context", "9000 tokens of 8192", False),
        (TimeoutError("60 s"), "infrastructure", "TimeoutError: 60 s", None),  # the system's or a library's
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_a_case_that_breaks_becomes_a_row(
    setting: Setting, tmp_path: Path, error: Exception, kind: str, message: str, success: bool | None
) -> None:
    built = built_of(setting)
    broken = built.dataset.case_ids()[1]
    dataset = OneBrokenCase(built.dataset, broken, error)
    tools = dict(dataset.tools)
    offered = Pooled(dataset, Whole(), tools, BM25().index(tools))
    rows = episodes_of(replace(built, dataset=dataset, pooled=offered), setting)
    store.write(tmp_path, rows)
    found = {row["case_id"]: row for row in store.read(tmp_path, "episodes").to_pylist()}
    row = found.pop(broken)
    assert (row["status"], row["error_kind"]) == ("failed", kind)
    assert row["error_message"].partition(" (test_sweep.py:")[0] == message
    assert row["success"] is success
    assert row["llm_calls"] > 0, "what was spent before it broke is counted"
    assert [other["status"] for other in found.values()] == ["ok", "ok"]
    left = store.finished(tmp_path, "infrastructure")
    assert (row["cell_id"] in left) == (kind != "infrastructure")


def test_where_a_budget_is_used_up_what_is_best_so_far_is_the_result(setting: Setting) -> None:
    built = replace(built_of(setting), budget=Budget(llm_calls=2))
    for row in episodes_of(built, setting)["episodes"]:
        assert (row["status"], row["error_kind"], row["success"]) == ("ok", None, False)
        assert (row["budget_reached"], row["llm_calls"], row["n_steps"]) == ("llm_calls", 2, 2)
