"""What a part of a setting needs beside the packages that are always there is said before anything starts."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from grid.core.errors import ConfigError
from grid.settings import extras
from grid.settings.setting import Setting
from tests.support.configs import yaml

CHECKOUT = Path(__file__).parents[3]
TOLD_ELSEWHERE = {"dev", "docs", "inspect", "objects", "otel", "vllm-cpu"}  # commands of their own, and `vllm` on a CPU


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing beside the base is installed."""
    monkeypatch.setattr(extras, "find_spec", lambda name: None)


def one(**names: str) -> Setting:
    chosen = {"model": "simulated", "planner": "react", "dataset": "slate", "retriever": "bm25", **names}
    return Setting({group: yaml(group, name) for group, name in chosen.items()}, chosen, seed=0)


@pytest.mark.parametrize(
    ("group", "name", "extra"),
    [
        ("model", "openai_http", "openai"),
        ("model", "litellm", "providers"),
        ("model", "smollm2-135m", "huggingface"),
        ("model", "smollm2-135m-vllm", "vllm-cpu"),
        ("model", "qwen3-4b-instruct", "vllm"),
        ("dataset", "mcp", "mcp"),
        ("dataset", "tau2", "tau2"),
        ("planner", "outside", "mcp"),
        ("retriever", "dense", "dense"),
        ("retriever", "hybrid", "dense"),
    ],
)
@pytest.mark.usefixtures("bare")
def test_the_part_is_named_with_the_line_that_installs_it(group: str, name: str, extra: str) -> None:
    with pytest.raises(ConfigError) as refused:
        extras.expect_installed([one(), one(**{group: name})])
    assert str(refused.value).startswith(f"{group}='{name}': ")
    assert str(refused.value).endswith(f": pip install 'agent-grid[{extra}]'")


@pytest.mark.usefixtures("bare")
def test_what_needs_nothing_is_let_through_and_so_is_a_key_without_a_value() -> None:
    assert extras.expect_installed([one(), one(dataset="webqsp"), one(planner="egb_logits")]) == []
    asked = one(dataset="webqsp")
    asked.config["dataset"]["endpoint"] = "http://127.0.0.1:1/sparql"
    with pytest.raises(ConfigError, match="needs httpx on this machine"):
        extras.expect_installed([asked])


@pytest.mark.usefixtures("bare")
def test_a_model_that_runs_elsewhere_is_told_of_and_not_refused_once_for_all_settings() -> None:
    here, elsewhere = one(model="qwen3-4b-instruct"), one(model="qwen3-4b-instruct", planner="egb_logits")
    (line,) = extras.expect_installed([here, elsewhere], here=False)
    assert line.startswith("model qwen3-4b-instruct needs vllm")
    with pytest.raises(ConfigError, match="retriever='dense'"):
        extras.expect_installed([one(retriever="dense")], here=False)


def test_a_script_that_is_not_there_is_refused_where_it_would_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "agent.py").touch()
    agent = one(planner="outside")
    for command in ("python3 agent.py", "python3 -m agent", "true agnt.py", f"python3 {tmp_path}/agent.py data.py"):
        agent.config["planner"]["command"] = command
        assert extras.expect_installed([agent]) == []
    agent.config["planner"]["command"] = "python3 agnt.py"
    assert extras.expect_installed([agent], here=False) == []
    with pytest.raises(ConfigError, match=rf"planner\.command='python3 agnt.py'.* {tmp_path}/agnt.py does not"):
        extras.expect_installed([agent])


def test_every_extra_is_known() -> None:
    named = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert {need.extra for need in extras.NEEDS} == set(named) - TOLD_ELSEWHERE


def test_what_is_installed_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda name: name)
    assert extras.expect_installed([one(model="openai_http"), one(planner="outside")]) == []


def test_a_class_that_inherits_needs_what_its_base_does(monkeypatch: pytest.MonkeyPatch) -> None:
    from grid.planners.outside.agent import Agent

    class Mine(Agent):
        async def run(self, query: str, tools: object, client: object) -> str | None:
            return None

    monkeypatch.setattr(extras, "load_class", lambda room, config: Mine)
    assert [need.extra for need in extras.needs("planner", {})] == ["agents"]
