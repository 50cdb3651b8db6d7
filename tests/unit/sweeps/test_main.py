"""The command `agent-grid`, its help, its completion, and how little is imported before a mistake is told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from grid import CONF
from grid.sweeps import arguments
from grid.sweeps.arguments import text
from launch import main

HEAVY = ("pandas", "pyarrow", "ray", "torch", "transformers", "scipy", "matplotlib", "statsmodels", "duckdb")


def run(*words: str, line: str | None = None, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    script = "import sys; from launch.main import main; sys.argv[0] = 'agent-grid'; sys.exit(main())"
    env = os.environ | ({"COMP_LINE": line, "COMP_POINT": str(len(line))} if line is not None else {})
    return subprocess.run([sys.executable, "-c", script, *words], capture_output=True, text=True, env=env, cwd=folder)


def test_without_a_command_it_says_which_there_are() -> None:
    said = run()
    assert said.returncode == 0
    assert all(f"  {name} " in said.stdout for name in main.COMMANDS)


def test_it_tells_its_version() -> None:
    assert run("--version").stdout == run("-V").stdout == f"agent-grid {metadata.version('agent-grid')}\n"


def test_whoever_reads_no_further_is_shown_no_traceback() -> None:
    script = "import sys; from launch.main import main; sys.argv = ['agent-grid', '--help']; sys.exit(main())"
    reading, writing = os.pipe()
    os.close(reading)  # as `| head` does once it has its lines
    ended = subprocess.run([sys.executable, "-c", script], stdout=writing, stderr=subprocess.PIPE, text=True)
    os.close(writing)
    assert (ended.returncode, ended.stderr) == (128 + 13, "")


def test_an_unknown_command_is_told_with_the_nearest() -> None:
    said = run("swep")
    assert said.returncode == main.CANNOT_RUN
    assert said.stderr.startswith("error: command='swep': one of ")
    assert said.stderr.rstrip().endswith("(did you mean sweep?)")
    assert said.stderr.count("\n") == 1


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(main.COMMANDS.keys() - {"sweep"}))
def test_each_command_has_help(name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["agent-grid", name, "--help"])
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert ended.value.code == 0
    assert f"agent-grid {name}" in capsys.readouterr().out


@pytest.mark.long
def test_a_sweep_has_hydras_help() -> None:
    said = run("sweep", "--help")  # a process of its own: Hydra's help leaves with it
    assert said.returncode == 0, said.stderr
    assert "agent-grid sweep" in said.stdout


def test_the_help_of_a_sweep_names_every_file_that_can_be_chosen() -> None:
    said = text([CONF])
    assert max(map(len, said.splitlines())) <= 122
    for group in (
        "model",
        "planner",
        "dataset",
        "robustness",
        "retriever",
        "pool",
        "refine",
        "memory",
        "cluster",
        "experiment",
    ):
        for file in (CONF / group).glob("*.yaml"):
            assert file.stem in said, f"{group}/{file.name}"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["--info"], ["--info", "all"]),
        (["--info", "planner=fh"], ["--info", "all", "planner=fh"]),
        (["-i", "-m"], ["-i", "all", "-m"]),
        (["--info", "defaults", "planner=fh"], ["--info", "defaults", "planner=fh"]),
        (["planner=fh", "--info"], ["planner=fh", "--info", "all"]),
        (["--cfg", "job"], ["--cfg", "job"]),
    ],
)
def test_info_takes_no_override_for_what_it_shows(given: list[str], expected: list[str]) -> None:
    assert arguments.completed(given) == expected


@pytest.mark.long
@pytest.mark.parametrize("words", [["--info", "planner=egb_logits"], ["--cfg", "job", "-p", "planner"]])
def test_hydras_own_ways_to_look_at_a_config_work(words: list[str], tmp_path: Path) -> None:
    said = run("sweep", *words, folder=tmp_path)
    assert said.returncode == 0, said.stderr
    assert "_target_: grid.planners." in said.stdout
    assert not list(tmp_path.iterdir())


@pytest.mark.long
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("agent-grid ", set(main.COMMANDS)),
        ("agent-grid re", {"report", "replicas", "rescore"}),
        (
            "agent-grid sweep planner=egb",
            {"planner=egb_logits", "planner=egb_names", "planner=egb_sampling", "planner=egb_tree"},
        ),
        ("agent-grid report res", set()),
        ("agent-grid view results/first --e", {"--export", "--episodes"}),
        ("agent-grid sweep -m planner=react,egb_t", {"planner=react,egb_tree"}),
        ("agent-grid sweep -m planner=react,fh dataset=mcp dataset.arg", {"dataset.args="}),
        ("agent-grid sweep -m dataset=mcp dataset.pa", {"dataset.path="}),
    ],
)
def test_tab_completion(line: str, expected: set[str]) -> None:
    assert set(run("-sc", "query=bash", line=line).stdout.split()) == expected


MISTAKES = [
    ["planner=reakt"],
    ["planer=react"],
    ["-m", "planner.budgt=3"],
    ["-m", "trials=0"],
    ["-m", "seed=minus"],
    ["cluster=adress"],
    ["planner=egb_logits", "planner.trajectories=-1"],
]
_EACH_FORKED = """
import json, os, sys
from launch.main import main
from launch import sweep
for number, words in enumerate(json.loads(sys.argv[1])):
    if not os.fork():
        os.dup2(os.open(f"{sys.argv[2]}/{number}", os.O_CREAT | os.O_WRONLY), 2)
        sys.argv = ["agent-grid", "sweep", *words]
        status = main()
        print(json.dumps([number, status, [name for name in HEAVY if name in sys.modules]]), flush=True)
        os._exit(0)
    os.wait()
"""
"""Python starts once: what is imported by then is what every mistake needs, and counts for each of them."""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[int, list[str], str]]:
    """Of each mistake its exit status, what heavy was imported, and what was said."""
    folder, said = tmp_path_factory.mktemp("work"), tmp_path_factory.mktemp("said")
    command = [sys.executable, "-c", f"HEAVY = {HEAVY!r}{_EACH_FORKED}", json.dumps(MISTAKES), str(said)]
    lines = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=True).stdout.splitlines()
    found = {number: (status, heavy) for number, status, heavy in map(json.loads, lines)}
    assert not list(folder.iterdir())
    return [(*found.get(number, (-1, [])), (said / str(number)).read_text()) for number in range(len(MISTAKES))]


@pytest.mark.long
@pytest.mark.parametrize("number", range(len(MISTAKES)), ids=lambda number: " ".join(MISTAKES[number]))
def test_a_mistake_is_told_before_anything_heavy_is_imported(
    told: list[tuple[int, list[str], str]], number: int
) -> None:
    status, heavy, said = told[number]
    assert (status, heavy) == (2, []), said
    assert said.startswith("error: ")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["planner=a,b", "planner.key=1"], ["planner=a,b", "planner.key=choice(1)"]),
        (
            ["-m", "planner.key=[1,2]", "planner=choice(a,b)"],
            ["-m", "planner.key=choice([1,2])", "planner=choice(a,b)"],
        ),
        (["planner=a,b", "planner.key=1,2", "model.key=1"], ["planner=a,b", "planner.key=1,2", "model.key=1"]),
        (["+experiment=x", "planner.key=1", "store.a=1"], ["+experiment=x", "planner.key=choice(1)", "store.a=1"]),
        (["planner=a", "planner.key=1", "trials=1,2"], ["planner=a", "planner.key=1", "trials=1,2"]),
        (["planner=a,b", "planner.key=null", "planner.x='1'"], ["planner=a,b", "planner.key=null", "planner.x='1'"]),
        (["planner=a,b", "+planner.key=1", "planner.x="], ["planner=a,b", "+planner.key=1", "planner.x="]),
    ],
)
def test_a_single_value_below_a_swept_group_is_given_to_each_of_its_files(
    given: list[str], expected: list[str]
) -> None:
    assert arguments.beside_sweeps(given) == expected
