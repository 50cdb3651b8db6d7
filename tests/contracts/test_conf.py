"""What our own YAML promises besides what anybody's does."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from grid import plugins
from grid.contracts.test_conf import (
    given,
    pytest_generate_tests,
    test_datasets_keep_their_protocol,
    test_engines_keep_their_protocol,
    test_it_builds_with_its_own_values,
    test_planners_keep_their_protocol,
    test_robustness_settings_keep_their_protocol,
    test_the_first_line_says_what_it_is,
)
from grid.core.engine import Engine
from grid.episode.episode import Planner
from grid.settings.config import ClusterConfig
from grid.settings.make import make
from tests.support.configs import CONF, names, solvers, yaml
from tests.support.plugins import standing_in, write

__all__ = [
    "pytest_generate_tests",
    "test_datasets_keep_their_protocol",
    "test_engines_keep_their_protocol",
    "test_it_builds_with_its_own_values",
    "test_planners_keep_their_protocol",
    "test_robustness_settings_keep_their_protocol",
    "test_the_first_line_says_what_it_is",
]


@pytest.mark.parametrize("name", names("cluster"))
def test_clusters_are_valid(name: str) -> None:
    values = yaml("cluster", name)
    if values.get("address") == "???":
        values["address"] = "127.0.0.1:6379"
    assert ClusterConfig.model_validate(values).kind == name


@pytest.mark.parametrize("name", names("cluster"))
def test_a_clusters_first_line_says_what_it_is(name: str) -> None:
    assert (CONF / "cluster" / f"{name}.yaml").read_text(encoding="utf-8").startswith("# ")


def test_the_tables_name_every_kind_of_engine_apart() -> None:
    engines = [cast(Engine, make("model", given(yaml("model", name)))) for name in names("model")]
    kinds = {(type(engine), engine.name) for engine in engines}
    assert len(kinds) == len(dict(kinds)) == len({name for _, name in kinds})


@pytest.mark.parametrize("name", solvers())
def test_planners_that_solve_ask_a_model(name: str) -> None:
    assert cast(Planner, make("planner", yaml("planner", name))).needs


@pytest.mark.parametrize(
    ("room", "ours", "values", "keeps"),
    [
        ("dataset", "tau2", {"domain": "airline", "user": "model"}, test_datasets_keep_their_protocol),
        ("model", "openai_http", {"tools": "native", "history": "text"}, test_engines_keep_their_protocol),
        ("model", "openai_http", {"history": "messages"}, test_engines_keep_their_protocol),
    ],
)
def test_a_plugin_may_set_what_our_files_leave_out(
    tmp_path: Path, room: str, ours: str, values: dict[str, Any], keeps: Callable[[str], None]
) -> None:
    file = json.dumps(yaml(room, ours) | values)  # which is YAML too
    write(tmp_path, {"mylab/__init__.py": "", f"mylab/conf/{room}/theirs.yaml": file})
    with standing_in(tmp_path):
        plugins.allow(["mylab"])
        keeps("theirs")
