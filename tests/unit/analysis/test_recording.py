"""What a sweep records of itself: nothing secret, nothing of where things lie, and enough for the head of its page."""

from __future__ import annotations

import json
import platform
from pathlib import Path

import pytest

from analysis.load import provenance
from grid import store
from grid.cluster import connection as cluster
from grid.core.errors import StoreError
from grid.settings.check import check_sweep
from grid.sweeps import arguments, session
from launch.report import main
from tests.support import simulated
from tests.support.configs import job
from tests.support.tables import without_sorting


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("planner=react,egb_logits", "planner=react,egb_logits"),
        ("model.max_tokens=200", "model.max_tokens=200"),
        ("model.api_key=abc", "model.api_key=***"),
        ("+model.access_token='a b'", "+model.access_token=***"),
        ("model={Secret: xyz, top_k: 5}", "model={Secret: ***, top_k: 5}"),
        ("password=1,2", "password=***,2"),
        ("model.base_url=http://me:word@host:80/v1/x", "model.base_url=http://***@host:80/v1/x"),
        ("dataset.path=/data/of mine/ultratool", "dataset.path=.../ultratool"),
        ("paths.a=/x/y,~/z/w/q", "paths.a=.../y,.../q"),
        ("--config-dir=/home/me/conf/", "--config-dir=.../conf/"),
        ("hydra.searchpath=[file:///home/me/conf,pkg://x]", "hydra.searchpath=[.../conf,pkg://x]"),
        ("store.root=results/mine", "store.root=results/mine"),
    ],
)
def test_a_command_line_can_be_shown_to_others(given: str, told: str) -> None:
    assert arguments.masked(given) == told
    assert "me" not in arguments.masked("a=/home/me/x,/home/me/y")


def test_a_command_line_can_be_typed_again() -> None:
    assert arguments.line("agent-grid sweep", ["-m", "model={a: 1}"]) == "agent-grid sweep -m 'model={a: 1}'"
    assert arguments.line("agent-grid sweep", []) == "agent-grid sweep"
    assert arguments.call(["planner=react", "model.key=x"]) == "grid.sweep('planner=react', 'model.key=***')"


def test_versions_are_of_what_runs_and_of_what_engines_are_made_of() -> None:
    assert session.versions([])["python"] == platform.python_version()
    plain = session.versions(["grid.engines.lexical.engine.Lexical"])
    assert {"python", "ray"} <= set(plain)
    assert "torch" not in plain
    assert "grid.engines.transformers_of_mine.Engine".startswith("grid.engines.transformers")
    assert "torch" not in session.versions(["grid.engines.transformers_of_mine.Engine"])
    pytest.importorskip("torch")
    assert {"torch", "transformers"} <= set(session.versions(["grid.engines.transformers.engine.Transformers"]))


@pytest.fixture
def one_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a cluster says of itself, without one."""
    monkeypatch.setattr(cluster, "cpus", lambda: 8)
    monkeypatch.setattr(cluster, "gpus", lambda: {"H100": 2})


@pytest.mark.usefixtures("one_machine")
def test_runs_of_a_name_are_kept_one_behind_the_other_and_the_head_says_them(tmp_path: Path) -> None:
    plan = check_sweep([job(tmp_path)]).plan
    (setting,) = plan.settings
    for typed in ("agent-grid sweep -m trials=1", "agent-grid sweep -m trials=1 cluster=local"):
        arguments.GIVEN.set(typed)
        session.record(plan)
    found = store.runs(plan.root)
    assert [run["command"] for run in found["runs"]] == ["agent-grid sweep -m trials=1", arguments.GIVEN.get()]
    assert found["settings"][setting.id]["cells"] == plan.total() == 2
    assert set(found["settings"][setting.id]) == {"model", "dataset", "robustness", "planner", "cells"}
    text = (plan.root / "run.json").read_text()
    assert platform.node() not in text
    assert str(tmp_path) not in text
    assert provenance.terms(plan.root) == [], "no episodes yet"
    simulated.write(plan.root, count=5)
    head = dict(provenance.terms(plan.root))
    assert list(head) == ["date", "command", "commit", "versions", "seed", "machine", "engine", "run it again"]
    assert "-c launch/constraints/gpu.txt" in head["run it again"], "its machine has GPUs"
    assert head["date"] == "2026-01-01 12:00 UTC, 2 runs"
    assert head["command"].splitlines() == [arguments.GIVEN.get(), "agent-grid sweep -m trials=1"], "the latest first"
    assert "8 CPUs; 2 x H100" in head["machine"]
    assert f"python {platform.python_version()}" in head["versions"]
    assert head["engine"].startswith("lexical: ")


def test_a_folder_without_a_record_says_that_nothing_is_recorded(tmp_path: Path) -> None:
    simulated.write(tmp_path, count=5)
    head = dict(provenance.terms(tmp_path))
    assert head["command"] == head["machine"] == head["versions"] == "not recorded"
    assert head["date"].startswith("2026-01-01")


@pytest.mark.parametrize("broken", ["", "{", "[]", '{"runs": [], "settings": {"a": {"cells": "many"}}}'])
def test_a_broken_record_is_named(
    tmp_path: Path, broken: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    simulated.write(tmp_path, count=5)
    (tmp_path / "run.json").write_text(broken)
    with pytest.raises(StoreError, match=r"run\.json: not in the form that a sweep writes"):
        store.runs(tmp_path)
    monkeypatch.setattr("sys.argv", ["report.py", str(tmp_path)])
    assert main() == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.long
@pytest.mark.usefixtures("undrawn")
def test_what_is_recorded_is_escaped_on_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    simulated.write(tmp_path, count=5)
    (tmp_path / "run.json").write_text(json.dumps({"runs": [RUN], "settings": {}}))
    monkeypatch.setattr("sys.argv", ["report.py", str(tmp_path)])
    assert main() == 0
    page = (tmp_path / "report.html").read_text()
    assert "<dt>command</dt><dd>&lt;script&gt;" in page
    assert "<script" not in without_sorting(page)


RUN: store.RunRecord = {
    "started_at": "2026-01-01T12:00:00+00:00",
    "command": "<script>alert(1)</script>",
    "git_commit": None,
    "versions": {"python": "3.11"},
    "seed": 0,
    "system": "Linux x86_64",
    "cpu": "a CPU",
    "cpus": 2,
    "gpus": {},
}
