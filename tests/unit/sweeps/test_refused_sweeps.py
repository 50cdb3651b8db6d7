"""What the command line says without running a cell: what would run, and why something cannot."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from grid import store
from grid.datasets.slate.dataset import generate
from grid.store.schema import EPISODES, SCHEMA_VERSION
from tests.support import commands, in_process
from tests.support.commands import LAUNCH, Ended, files
from tests.unit.store.test_store import named

Run = Callable[..., Ended]


@pytest.fixture(scope="module")
def sweep() -> Run:
    """Runs `launch/sweep.py` in a folder and in this process."""

    def run(folder: Path, *arguments: str) -> Ended:
        return in_process.launch("sweep", folder, *arguments)

    return run


@pytest.mark.long
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
    (
        ["model=qwen2.5-7b-instruct", "++model.path=/weights"],
        ["model.path='/weights'", "cannot be given with model.hub", "add model.hub=null"],
    ),
    (["model=qwen2.5-7b-instruct", "model.hub=null"], ["model.hub=None", "unless model.path=FOLDER"]),
    (
        ["model@judge=qwen2.5-7b-instruct", "judge.hub.id=meta-llama/Llama-3.3-70B-Instruct"],
        ["judge.hub.revision=", "a revision of meta-llama/Llama-3.3-70B-Instruct", "(this one is of Qwen/"],
    ),
    (
        ["-m", "planner=outside,react", "planner.command=python"],
        ["planner.command='python'", "if only some of planner=outside,react have this key", "--config-dir FOLDER"],
    ),
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


@pytest.mark.long
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


@pytest.mark.long
def test_a_second_sweep_of_a_name_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "results" / "held"
    with store.locked(root):
        store.write(root, {"episodes": [{"cell_id": "a", "cell_key": "a", "cluster": "a", "status": "ok"}]})
        before = files(root)
        other = commands.launch("sweep", tmp_path, "name=held", "dataset.limit=1", "trials=1")
        refused(other, "results/held", "another sweep")
        assert files(root) == before


def refused(ended: Ended, *said: str) -> None:
    """Exit status 2, and one line that holds all that is `said`."""
    assert ended.status == 2, ended.err
    (line,) = ended.err.splitlines()
    assert line.startswith("error: ")
    for part in said:
        assert part in line
