"""What every YAML in conf/ promises. A new file there is picked up by itself."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from grid.datasets.base import (
    BRANCHING,
    DEMONSTRATIONS,
    DIAGNOSED,
    EXAMINED,
    OUTLINE,
    REFERENCES,
    SIMULATED,
    SOLVED_FIRST,
    Dataset,
)
from grid.engines.base import CHOOSE, SAMPLE, Engine
from grid.engines.roles import JUDGE
from grid.errors import ConfigError
from grid.planners.base import Planner
from grid.runner.config import ClusterConfig
from grid.runner.make import ROOMS, load_class, make, unpriced
from tests.configs import CONF, names, outlines, yaml


def parts(group: str, name: str) -> list[tuple[str, dict[str, Any]]]:
    """Key and config of each object that a file names: several in robustness, else one."""
    config = yaml(group, name)
    return [(f"robustness.{key}", part) for key, part in config.items()] if group == "robustness" else [(group, config)]


def given(config: dict[str, Any]) -> dict[str, Any]:
    """The config as its engine gets it, with something in the place of what has no default."""
    return {key: "something" if value == "???" else value for key, value in unpriced(config).items()}


@pytest.fixture(autouse=True, scope="module")
def cache(fresh_cache: Path) -> Iterator[None]:
    """Generated data go to a folder of this run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(fresh_cache))
        yield


PROVIDED = (OUTLINE, DEMONSTRATIONS, BRANCHING, REFERENCES, EXAMINED, SIMULATED, SOLVED_FIRST, DIAGNOSED)
FILES = [(group, name) for group in (*ROOMS, "cluster") for name in names(group)]


@pytest.mark.parametrize(("group", "name"), FILES)
def test_the_first_line_says_what_it_is(group: str, name: str) -> None:
    first = (CONF / group / f"{name}.yaml").read_text(encoding="utf-8").splitlines()[0]
    assert first.startswith("# ")
    assert len(first.split()) > 4
    assert first.endswith(".")


@pytest.mark.parametrize(("group", "name"), [file for file in FILES if file[0] != "cluster"])
def test_it_builds_with_its_own_values(group: str, name: str, tmp_path: Path) -> None:
    for key, part in parts(group, name):
        cls = load_class(key, part, group)
        missing = [field for field, value in part.items() if value == "???"]
        made = make(key, unpriced(part) | dict.fromkeys(missing, str(tmp_path / "absent")), group)
        assert type(made) is cls
        if missing:
            assert (group, missing) in (("dataset", ["path"]), ("model", ["path"]), ("model", ["model"]))
        if missing and group == "dataset":
            data = cast(Dataset, made)
            for read in (data.case_ids, partial(getattr, data, "tools"), partial(getattr, data, "version")):
                with pytest.raises(ConfigError) as caught:
                    cast(Callable[[], object], read)()
                assert caught.value.key == "dataset.path"
                assert caught.value.value == str(tmp_path / "absent")


@pytest.mark.parametrize("name", names("cluster"))
def test_clusters_are_valid(name: str) -> None:
    values = yaml("cluster", name)
    if values.get("address") == "???":
        values["address"] = "127.0.0.1:6379"
    assert ClusterConfig.model_validate(values).kind == name


@pytest.mark.parametrize("name", names("model"))
def test_engines_keep_their_protocol(name: str) -> None:
    engine = cast(Engine, make("model", given(yaml("model", name))))
    assert isinstance(engine.provides, frozenset)
    assert engine.provides
    assert engine.provides <= {SAMPLE, CHOOSE}
    assert engine.name.isidentifier()
    assert engine.home in ("task", "replica", "gateway")
    if engine.home != "task":
        for member in ("gpus", "load", "check", "occupancy"):
            assert hasattr(type(engine), member)
    assert isinstance(engine.version, str)
    assert engine.version
    for verb in (SAMPLE, CHOOSE):
        assert inspect.iscoroutinefunction(getattr(engine, verb))


def test_the_tables_name_every_kind_of_engine_apart() -> None:
    engines = [cast(Engine, make("model", given(yaml("model", name)))) for name in names("model")]
    kinds = {(type(engine), engine.name) for engine in engines}
    assert len(kinds) == len(dict(kinds)) == len({name for _, name in kinds})


@pytest.mark.parametrize("name", names("planner"))
def test_planners_keep_their_protocol(name: str) -> None:
    planner = cast(Planner, make("planner", yaml("planner", name)))
    assert isinstance(planner.needs, frozenset)
    assert planner.needs or name == "refuser"
    assert planner.needs <= {SAMPLE, CHOOSE, JUDGE, OUTLINE, DEMONSTRATIONS, BRANCHING}
    assert inspect.iscoroutinefunction(planner.solve)


@pytest.mark.parametrize("name", names("dataset"))
def test_datasets_keep_their_protocol(name: str) -> None:
    dataset = cast(Dataset, make("dataset", given(yaml("dataset", name))))
    assert dataset.provides <= set(PROVIDED)
    assert dataset.outline in outlines(name), "a dataset has no outline as its own default that it cannot have"
