"""A judge that is another model than the actor: each has its pool, and what they spent is told apart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from grid import store
from grid.cells.rows import spent_by_columns
from grid.cluster import batch
from grid.cluster.fleet import Fleet
from grid.cluster.worker import Report
from grid.core.engine import ACTOR, JUDGE
from grid.core.errors import ConfigError
from grid.core.types import Usage
from grid.settings import make
from grid.settings.check import Job, check_sweep
from grid.settings.plan import Plan
from tests.support.configs import LABELS, job
from tests.support.http_server import Asked, LocalServer, Reply, completion, refusal
from tests.support.http_server import models as known
from tests.support.judged import CONFIG, ROOM, dying_once, judged_chunk

COUNTERS = ("llm_calls", "forward_passes", "input_tokens", "cached_input_tokens", "output_tokens")
LEXICAL = {"_target_": "grid.engines.lexical.engine.Lexical"}


@pytest.fixture(autouse=True)
def own(cluster: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver takes planners from the tests, as the workers do."""
    monkeypatch.setitem(make.ROOMS, "planner", ROOM["planner"])


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], dict[str, Any]]:
    """Two language models that differ."""
    pytest.importorskip("torch")
    from tests.support.models import make_model

    folders = [make_model(tmp_path_factory.mktemp("model"), seed=seed, context=16384) for seed in (0, 1)]
    target = {"_target_": "grid.engines.transformers.engine.HuggingFace", "dtype": "float32", "max_tokens": 48}
    first, second = ({**target, "path": str(folder)} for folder in folders)
    return first, second


def plan_of(root: Path, *pairs: tuple[dict[str, Any], dict[str, Any]]) -> Plan:
    """Settings of an actor and a judge, which scores in digits unless it says otherwise."""
    jobs = [
        job(
            root,
            model=model,
            planner=CONFIG,
            judge={"form": "digits"} | judge,
            dataset={"_target_": "grid.datasets.null.Null", "cases": 3},
            cluster={"kind": "local", "chunk_cells": 1},
        )
        for model, judge in pairs
    ]
    labels = [LABELS | {"model": f"model{place}", JUDGE: f"judge{place}[changed]"} for place in range(len(jobs))]
    return check_sweep([Job(one.config, label) for one, label in zip(jobs, labels, strict=True)]).plan


def run(plan: Plan, monkeypatch: pytest.MonkeyPatch, chunk: Any) -> dict[str, Usage]:
    """Run a plan; what each pool's replicas answered, by the pool's label."""
    monkeypatch.setattr(batch, "solve_chunk", chunk)

    def report(ended: Report) -> None:
        assert ended.error is None

    with Fleet(plan.settings, 1, 600, print) as fleet:
        batch.Run(plan, plan.finished(), report, fleet).go()
        return {total.label: total.stats.usage for total in fleet.totals()}


def summed(rows: list[dict[str, Any]], role: Any, model: str) -> Usage:
    return sum((spent_by_columns(row)[role] for row in rows if row["model"] == model), Usage())


def counted_in_attempts(plan: Plan, rows: list[dict[str, Any]]) -> None:
    """What both roles spent is in the attempts."""
    attempts = store.read(plan.root, "attempts").to_pylist()
    for counter in COUNTERS:
        every = sum(getattr(usage, counter) for row in rows for usage in spent_by_columns(row).values())
        assert sum(row[counter] for row in attempts) == every, counter


def talking(asked: Asked) -> Reply:
    """A server of two models: `actor` calls the tool, `judge` scores."""
    if asked.path == "/v1/models":
        return known("actor", "judge")
    judging = asked.body["model"] == "judge"
    text = '{"score": 7, "explanation": ""}' if judging else '{"tool": "answer", "arguments": {}}'
    return completion(text, prompt=5 if judging else 9, output=2)


def test_a_judge_at_another_server_has_a_pool_and_columns_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LocalServer(talking) as server:
        target = {"_target_": "grid.engines.http.engine.OpenAIHTTP", "base_url": server.url, "structured": False}
        actor, judge = ({**target, "model": name} for name in ("actor", "judge"))
        judge["form"] = "text"
        plan = plan_of(tmp_path, (actor, judge), (LEXICAL, judge), (actor, {"form": "text"}))
        answered = run(plan, monkeypatch, judged_chunk)
    rows = store.read(plan.root, "episodes", wide=True).to_pylist()
    assert answered == {
        "model2": summed(rows, ACTOR, "model0") + summed(rows, ACTOR, "model2") + summed(rows, JUDGE, "model2"),
        "judge1": summed(rows, JUDGE, "model0") + summed(rows, JUDGE, "model1"),
    }
    for row in rows:
        cost = [row[name] for name in ("llm_calls", "input_tokens", "judge_calls", "judge_input_tokens")]
        if row["model"] == "model2":  # which calls a tool where it should judge
            assert (row["status"], row["success"], *cost) == ("ok", None, 2, 18, 4, 36)
            assert row["judge_failures"]
        elif row["model"] == "model0":
            assert (row["status"], *cost) == ("ok", 2, 18, 3, 15)
        else:
            assert (row["status"], row["engine"]) == ("ok", "lexical")
            assert row["judge_calls"] >= 2
    counted_in_attempts(plan, rows)


def test_what_a_server_refuses_of_a_judges_requests_is_found_before_the_first_cell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = "'temperature' does not support 0 with this model. Only the default (1) value is supported."

    def play(asked: Asked) -> Reply:
        return refusal(400, words) if asked.body and asked.body.get("temperature") == 0 else talking(asked)

    with LocalServer(play) as server:
        target = {"_target_": "grid.engines.http.engine.OpenAIHTTP", "base_url": server.url, "structured": False}
        judge = {**target, "model": "judge", "form": "text"}
        with pytest.raises(ConfigError) as caught:
            run(plan_of(tmp_path / "none", (LEXICAL, judge)), monkeypatch, judged_chunk)
        changes: dict[str, dict[str, Any]] = {"at1": {"temperature": 1.0}, "omit": {"omit": ["temperature"]}}
        for name, change in changes.items():
            plan = plan_of(tmp_path / name, (LEXICAL, judge | change))
            run(plan, monkeypatch, judged_chunk)
            assert {row["status"] for row in store.read(plan.root, "episodes", wide=True).to_pylist()} == {"ok"}
    assert caught.value.key == "model.omit"
    assert "the judge is asked at temperature 0 (judge.temperature; if model@judge" in str(caught.value)
    assert words in str(caught.value)


@pytest.mark.slow
def test_two_models_have_two_pools_whatever_their_roles(
    models: tuple[dict[str, Any], dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = models
    plan = plan_of(tmp_path, (first, second), (LEXICAL, first))
    answered = run(plan, monkeypatch, judged_chunk)
    rows = store.read(plan.root, "episodes", wide=True).to_pylist()
    assert [row["error_message"] for row in rows] == [None] * 6
    assert {(row["model"], row["judge"]) for row in rows} == {
        ("model0", "judge0[changed]"),
        ("model1", "judge1[changed]"),
    }
    assert answered == {
        "model0": summed(rows, ACTOR, "model0") + summed(rows, JUDGE, "model1"),
        "judge0": summed(rows, JUDGE, "model0"),
    }
    assert answered["judge0"].forward_passes > 0
    assert summed(rows, JUDGE, "model1").forward_passes > 0
    counted_in_attempts(plan, rows)


@pytest.mark.slow
def test_what_a_judge_answered_for_a_worker_that_died_is_counted(
    models: tuple[dict[str, Any], dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_of(tmp_path, (LEXICAL, models[1]))
    (answered,) = run(plan, monkeypatch, dying_once).values()
    rows, attempts = (store.read(plan.root, table, wide=True).to_pylist() for table in ("episodes", "attempts"))
    assert [row["error_message"] for row in rows] == [None] * 3
    assert sorted(row["status"] for row in attempts) == ["died", *["ended"] * 3]
    (died,) = (row for row in attempts if row["status"] == "died")
    assert died["forward_passes"] > 0
    assert sum(row["forward_passes"] for row in attempts) == answered.forward_passes
    assert sum(row["judge_passes"] for row in rows) == answered.forward_passes - died["forward_passes"]
