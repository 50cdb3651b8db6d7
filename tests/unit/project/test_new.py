"""What `agent-grid new` writes passes lint, types, its own tests and the contracts at once."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from grid import plugins
from launch.new import main, write

ROOT = Path(__file__).parents[3]
KINDS = {"planner": "mine", "dataset": "sums_and_products", "robustness": "terse"}
STRICT = """
[mypy]
strict = true
explicit_package_bases = true
plugins = pydantic.mypy
[mypy-grid.*,analysis.*]
follow_imports = silent
[mypy-duckdb.*,filelock.*,hydra.*,matplotlib.*,numpy.*,omegaconf.*,pandas.*,rich.*,scipy.*]
follow_imports = skip
follow_imports_for_stubs = true
"""
"""Our own code is checked elsewhere, and what it imports, which no template names, takes five times as long to read."""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one of each."""
    folder = tmp_path_factory.mktemp("lab")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for kind, name in KINDS.items():
            assert main([kind, name]) == 0
    return folder


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT), "MYPYPATH": str(ROOT)}
    for name in [name for name in environment if name.startswith("PYTEST_")]:
        del environment[name]  # of the tests that run this one
    return subprocess.run(
        [sys.executable, "-m", *command], cwd=folder, env=environment, capture_output=True, text=True, timeout=900
    )


@pytest.mark.parametrize(
    "command", [("ruff", "check"), ("ruff", "format", "--check"), ("ruff", "check", "--isolated")], ids=" ".join
)
def test_it_passes_lint(lab: Path, tmp_path: Path, command: Sequence[str]) -> None:
    own = () if "--isolated" in command else ("--config", str(ROOT / "pyproject.toml"))
    for kind in KINDS:
        write(kind, "long_" * 6, "lab__" * 6, tmp_path / kind)
    for folder in (lab, *(tmp_path / kind for kind in KINDS)):
        ended = run(folder, *command, *own, ".")
        assert ended.returncode == 0, ended.stdout


@pytest.mark.long
def test_it_has_strict_types(lab: Path, tmp_path: Path) -> None:
    config = tmp_path / "mypy.ini"
    config.write_text(STRICT)
    wrong = lab / "wrong.py"
    wrong.write_text("from mylab.planners.mine import Mine\n\nplanner: int = Mine()\n")
    command = ("mypy", "--config-file", str(config), "--cache-dir", os.devnull)
    ended = run(lab, *command, "mylab", "tests", "wrong.py")
    wrong.unlink()
    told, count = ended.stdout.splitlines()
    assert told.startswith("wrong.py:3: error: "), "types of the package are known"
    assert count.startswith("Found 1 error in 1 file "), "there is nothing wrong in the package and its tests"


@pytest.mark.long
def test_its_tests_pass(lab: Path) -> None:
    ended = run(lab, "pytest", "-q", "-p", "no:cacheprovider", "tests")
    assert ended.returncode == 0, ended.stdout
    assert "5 passed" in ended.stdout


@pytest.mark.long
def test_it_keeps_the_contracts_and_what_breaks_them_is_told(lab: Path) -> None:
    command = ("pytest", "-q", "-p", "no:cacheprovider", "--pyargs", "grid.contracts", "--plugin", "mylab")
    ended = run(lab, *command, "-k", "not kqa_synthetic")  # whose questions alone take half the time
    assert ended.returncode == 0, ended.stdout
    assert "failed" not in ended.stdout
    setting = lab / "mylab" / "robustness" / "terse.py"
    right = setting.read_text()
    setting.write_text(right.replace("random.Random(derive_seed(seed, NAME, problem.case.id, tool.name))", "random"))
    broken = run(lab, *command, "-k", "disturbs_alike and terse")
    setting.write_text(right)
    assert "1 failed" in broken.stdout
    planner = lab / "mylab" / "planners" / "mine.py"
    right = planner.read_text()
    planner.write_text(right.replace("async def solve", "def solve").replace("await rollout", "rollout"))
    broken = run(lab, *command, "-k", "conf and mine")
    planner.write_text(right)
    assert "solve is async (async def solve" in broken.stdout


@pytest.mark.long
def test_its_wheel_holds_its_yaml_and_is_a_plugin(lab: Path, tmp_path: Path) -> None:
    folder = tmp_path / "lab"
    shutil.copytree(lab, folder)
    build = f"from setuptools import build_meta; print(build_meta.build_wheel({str(tmp_path)!r}))"
    ended = subprocess.run([sys.executable, "-c", build], cwd=folder, capture_output=True, text=True, check=True)
    with zipfile.ZipFile(tmp_path / ended.stdout.split()[-1]) as wheel:
        held = set(wheel.namelist())
        points = wheel.read("mylab-0.1.0.dist-info/entry_points.txt").decode()
    own = {str(path.relative_to(lab)) for path in (lab / "mylab").rglob("*") if path.is_file()}
    assert {name for name in own if "__pycache__" not in name} <= held
    assert f"[{plugins.ENTRY_POINTS}]\nmylab = mylab" in points


def test_a_project_that_is_there_is_kept_and_told_what_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("pyproject.toml").write_text("[project]\n")
    assert main(["planner", "mine"]) == 0
    assert (
        f'before you install the plugin, add [project.entry-points."{plugins.ENTRY_POINTS}"] mylab = "mylab"'
        in capsys.readouterr().out
    )
    assert Path("pyproject.toml").read_text() == "[project]\n"


def test_an_unknown_plugin_is_one_line(lab: Path, tmp_path: Path) -> None:
    ended = run(lab, "pytest", "--pyargs", "grid.contracts", "--plugin", "mylib")
    assert ended.returncode == pytest.ExitCode.USAGE_ERROR
    assert "did you mean mylab?" in ended.stderr


def test_nothing_is_overwritten(lab: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(lab)
    before = {path: path.read_bytes() for path in lab.rglob("*") if path.is_file()}
    for kind, name in KINDS.items():
        assert main([kind, name]) == 2
        assert "whose files do not exist yet" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in lab.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["planner", "react"], "a name that agent-grid does not use"),
        (["planner", "Mine"], "lowercase letters"),
        (["planner", "../x"], "a name that Python can import"),
        (["planner", "x" * 31], "at most 30"),
        (["planner", "class"], "a name that Python can import"),
        (["planner", "x", "--package", "grid"], "must not be the name of a package of agent-grid"),
        (["planner", "x", "--package", "../y"], "a name that Python can import"),
    ],
)
def test_names_that_are_refused(
    arguments: list[str],
    why: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert why in line
    assert list(tmp_path.iterdir()) == []
