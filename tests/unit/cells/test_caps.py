"""A model's limit on tokens below a planner's: told for planners of single calls, refused for those of whole plans."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from analysis.load import provenance
from grid import store
from grid.cluster import connection as cluster
from grid.core.engine import Engine
from grid.core.errors import ConfigError
from grid.episode.episode import Planner
from grid.settings.check import check_sweep, cut
from grid.settings.make import make
from grid.sweeps import session
from tests.support import plan_rows
from tests.support.configs import job, names, solvers, yaml
from tests.support.loops import each

AHEAD = {"astar", "cot", "fh", "holistic", "plan_first", "zero_shot"}


def planned(planner: str, cap: int, **planner_values: Any) -> str | None:
    """What is said of answers of a planner that a model's limit cuts off."""
    engine = make("model", yaml("model", "local") | {"path": "nowhere", "max_tokens": cap})
    made = make("planner", yaml("planner", planner) | planner_values)
    return cut(cast(Engine, engine), cast(Planner, made), {"model": "local", "planner": planner})


def test_a_file_without_a_limit_is_told_where_its_class_has_one(tmp_path: Path) -> None:
    model = {"_target_": yaml("model", "openai_http")["_target_"], "base_url": "http://127.0.0.1:1/v1", "model": "m"}
    with pytest.raises(ConfigError, match=r"default of the class.*defaults: \[openai_http, _self_\]"):
        check_sweep([job(tmp_path, model=model, planner=yaml("planner", "plan_first"))])


@each("planner", solvers())
def test_a_limit_below_the_planners_is_told_or_refused(planner: str) -> None:
    wanted = yaml("planner", planner)["max_tokens"]
    assert planned(planner, wanted) is None
    if planner in AHEAD:
        with pytest.raises(ConfigError) as refused:
            planned(planner, wanted - 1)
        assert (refused.value.key, refused.value.value) == ("model.max_tokens", wanted - 1)
        assert f"at least planner.max_tokens={wanted}" in str(refused.value)
        assert "default of the class" not in str(refused.value)
        assert planned(planner, 96, max_tokens=96) is None
    else:
        line = planned(planner, wanted - 1)
        assert line is not None
        assert f"model.max_tokens={wanted - 1} of local" in line
        assert f"cut off at {wanted - 1} tokens" in line


def test_a_chain_in_single_steps_is_told() -> None:
    assert planned("cot", 96, mode="step")


def test_a_sweep_says_so_once_before_it_starts(tmp_path: Path) -> None:
    model = yaml("model", "local") | {"path": str(tmp_path), "max_tokens": 96}
    of_two = [job(tmp_path, model=model, planner__temperature=t) for t in (0.5, 1.0)]
    assert len(check_sweep(of_two).cut) == 1
    with pytest.raises(ConfigError, match="max_tokens"):
        check_sweep([job(tmp_path, model=model, planner=yaml("planner", "fh"))])


def test_no_shipped_model_handicaps_planners_that_plan_ahead() -> None:
    most = max(yaml("planner", planner)["max_tokens"] for planner in solvers())
    caps = {name: yaml("model", name).get("max_tokens") for name in names("model")}
    assert {name for name, cap in caps.items() if cap is not None and cap < most} == {
        "smollm2-135m",  # it rambles
        "smollm2-135m-vllm",
    }


@pytest.mark.parametrize("planner", ["fh", "sh", "react"])
def test_a_planner_that_fits_its_answers_is_bounded_and_told_so(planner: str) -> None:
    line = planned(planner, 2048, max_tokens=10_000, fit_tokens=True)
    assert line is not None
    assert "planner.max_tokens=10000" in line
    assert "limited by model.max_tokens=2048 of local" in line
    alone = planned(planner, 10_000, max_tokens=10_000, fit_tokens=True)
    assert alone is not None
    assert "limited by the space that the prompt leaves in the context of local" in alone
    lexical, made = make("model", yaml("model", "lexical")), make("planner", yaml("planner", planner))
    fitted = replace(cast(Any, made), fit_tokens=True)
    assert cut(cast(Engine, lexical), fitted, {"model": "lexical", "planner": planner}) is None


def test_what_bounds_answers_stands_in_the_record_and_in_the_head_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "cpus", lambda: 2)
    monkeypatch.setattr(cluster, "gpus", dict)
    model = yaml("model", "local") | {"path": str(tmp_path), "max_tokens": 96}
    planner = yaml("planner", "fh") | {"max_tokens": 10_000, "fit_tokens": True}
    found = check_sweep([job(tmp_path, model=model, planner=planner)])
    session.record(found.plan, cut=found.cut)
    (run,) = store.runs(found.plan.root)["runs"]
    assert run.get("cut") == list(found.cut)
    plan_rows.write(found.plan.root, [plan_rows.episode("fh", "holistic", case, success=True) for case in range(2)])
    assert "limited by model.max_tokens=96" in dict(provenance.terms(found.plan.root))["answers"]
