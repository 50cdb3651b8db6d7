"""Scored again by a judge behind OpenAI's interface: the same one says the same, another one's values stand beside."""

from __future__ import annotations

import asyncio
import csv
import hashlib
import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from grid import store
from grid.cells.run import Stamp, run_chunk
from grid.core.engine import EVALUATOR, JUDGE
from grid.engines.http.engine import OpenAIHTTP
from grid.episode.judging import Judging
from grid.settings.build import build, code_of
from grid.settings.config import BudgetConfig
from grid.settings.roles import with_roles
from grid.settings.setting import Keep, Setting, cells
from grid.sweeps.rescore import CHANGED, EQUAL, Judge, Rescored, rescore
from tests.support.commands import launch
from tests.support.configs import setting_of
from tests.support.http_server import Asked, LocalServer, Reply, completion, models
from tests.support.openai_engine import CHAT

MODEL = {"_target_": "grid.engines.http.engine.OpenAIHTTP", "model": "m", "max_tokens": 300}


def opinion(name: str) -> Callable[[Asked], Reply]:
    """A judge that answers every prompt as its schema wants, and always the same; those of other names otherwise."""

    def play(asked: Asked) -> Reply:
        if asked.path == "/v1/models":
            return models("m")
        said = json.dumps([name, asked.body["messages"]]).encode()
        drawn = int.from_bytes(hashlib.sha256(said).digest()[:8], "big")
        return completion(json.dumps(filled(asked.body["response_format"]["json_schema"]["schema"], drawn)))

    return play


def filled(schema: Mapping[str, Any], drawn: int) -> Any:
    """A value of a schema, by a number."""
    if "properties" in schema:
        return {name: filled(one, drawn >> place) for place, (name, one) in enumerate(schema["properties"].items())}
    given = schema.get("enum") or ([True, False] if schema.get("type") == "boolean" else ["So it is."])
    return given[drawn % len(given)]


def judged(root: Path, url: str, role: str, **labels: Any) -> None:
    """Cells of a data set whose trajectories or plans the judge examines, run and stored."""
    made = setting_of(model="lexical", **labels)
    others = {name: part for name, part in made.config.items() if name != EVALUATOR}
    config = with_roles({**others, role: {**MODEL, "base_url": url}})
    names = {name: label for name, label in made.labels.items() if name != EVALUATOR}
    setting = Setting(config, {**names, EVALUATOR: "openai_http"}, 0, BudgetConfig().identity, code_of(config))
    built = build(setting, BudgetConfig())

    async def through() -> Any:
        await cast(OpenAIHTTP, built.roles[EVALUATOR]).load()
        chunk = list(cells(setting, built.version, built.dataset.case_ids()[:6], 1))
        return await run_chunk(built, setting, chunk, Stamp("test", None), keep=Keep())

    store.write(root, asyncio.run(through()).take_all())


def again(root: Path, url: str) -> Rescored:
    async def through() -> Rescored:
        engine = OpenAIHTTP(base_url=url, model="m", max_tokens=300)
        await engine.load()
        return await rescore(root, Judge("openai_http", {**MODEL, "base_url": url}, engine, Judging()))

    return asyncio.run(through())


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory, small_traject_bench: str, small_apb: str) -> Path:
    """Trajectories whom an evaluator examined, and plans whose judge was named as such."""
    root = tmp_path_factory.mktemp("judged")
    with LocalServer(opinion("strict")) as server:
        for planner in ("react", "plan_first"):
            judged(
                root,
                server.url,
                EVALUATOR,
                planner=planner,
                dataset="traject_bench",
                dataset_values={"path": small_traject_bench},
            )
        judged(root, server.url, JUDGE, planner="holistic", dataset="apb", dataset_values={"path": small_apb})
    return root


@pytest.fixture
def results(swept: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(swept, tmp_path / "results"))


def test_the_same_judge_at_temperature_0_says_the_same(results: Path) -> None:
    with LocalServer(opinion("strict")) as server:
        found = again(results, server.url)
        bodies = server.bodies(CHAT)[1:]  # behind the probe
    assert {one.state for one in found.compared} == {EQUAL}
    assert {"traj_satisfy", "accuracy", "plan_correct"} <= {one.metric for one in found.compared}
    assert {body["temperature"] for body in bodies} == {0.0}
    assert found.spent.llm_calls == len(bodies) > 6


@pytest.mark.long
def test_another_judge_s_values_stand_beside(results: Path, tmp_path: Path) -> None:
    before = store.read(results, "scores").to_pylist()
    with LocalServer(opinion("lenient")) as server:
        given = ["model@evaluator=openai_http", f"evaluator.base_url={server.url}", "evaluator.model=m"]
        ended = launch("rescore", tmp_path, "results", *given, "--csv", "both.csv")
        assert ended.status == 0, ended.err
        asked = len(server.bodies(CHAT))
        assert launch("rescore", tmp_path, "results", *given).status == 0
        assert len(server.bodies(CHAT)) == asked + 2, "the probes alone"
    assert store.read(results, "scores").to_pylist() == before
    with (tmp_path / "both.csv").open(encoding="utf-8", newline="") as file:
        both = list(csv.DictReader(file))
    differ = [row for row in both if row["state"] != EQUAL]
    assert {(row["state"], row["why"]) for row in differ} == {(CHANGED, "who is asked")}
    assert {row["metric"] for row in differ} >= {"traj_satisfy", "plan_correct"}
    rows = store.read(results, "rescores").to_pylist()
    told = {(row["cell_id"], row["name"]): str(row["text"] if row["value"] is None else row["value"]) for row in rows}
    assert told == {(row["cell_id"], row["metric"]): row["now"] for row in both}
    assert {row["evaluator"] for row in store.read(results, "scorings").to_pylist()} == {
        f"openai_http[base_url={server.url},model=m]"
    }
