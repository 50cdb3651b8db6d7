"""Tests the promises of every YAML file in conf/, or in a plugin's folder.

New files in these folders are found automatically.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from grid.contracts.subject import file_of, outlines, subject_of, yaml
from grid.core.engine import CHOOSE, JUDGE, MESSAGES, NATIVE, SAMPLE, Engine
from grid.core.errors import ConfigError
from grid.core.problem import (
    BRANCHING,
    DEMONSTRATIONS,
    DIAGNOSED,
    EXAMINED,
    OUTLINE,
    PLANS,
    REFERENCES,
    SIMULATED,
    SOLVED_FIRST,
    TALKS,
    TEXTS,
    Dataset,
)
from grid.episode.episode import Planner
from grid.robustness.base import Robustness
from grid.settings.make import ROOMS, load_class, make, unpriced


def parts(group: str, name: str) -> list[tuple[str, dict[str, Any]]]:
    """The key and the config of each object that a file names: several in robustness files, one in any other file."""
    config = yaml(group, name)
    return [(f"robustness.{key}", part) for key, part in config.items()] if group == "robustness" else [(group, config)]


def given(config: dict[str, Any]) -> dict[str, Any]:
    """The config as it is passed to its class, with a text in place of every missing value."""
    return {key: "something" if value == "???" else value for key, value in unpriced(config).items()}


PROVIDED = (OUTLINE, DEMONSTRATIONS, BRANCHING, REFERENCES, EXAMINED, SIMULATED, SOLVED_FIRST, DIAGNOSED, TALKS)
MADE = tuple(ROOMS)
"""The groups whose files name a class."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make a test for each file of a group, or for each file of all groups."""
    files = subject_of(metafunc.config).files
    if "group" in metafunc.fixturenames:
        metafunc.parametrize(("group", "name"), [(group, name) for group in MADE for name in files[group]])
    for group in {"model", "planner", "dataset", "robustness"} & set(metafunc.fixturenames):
        metafunc.parametrize(group, files[group])


def test_the_first_line_says_what_it_is(group: str, name: str) -> None:
    first = file_of(group, name).read_text(encoding="utf-8").splitlines()[0]
    wanted = (
        "the first line must be a comment with a sentence about the file, such as: # Recorded calls at a help desk."
    )
    assert first.startswith("# ") and len(first.split()) > 4 and first.endswith("."), wanted  # noqa: PT018


def test_it_builds_with_its_own_values(group: str, name: str, tmp_path: Path) -> None:
    for key, part in parts(group, name):
        cls = load_class(key, part, group)
        missing = [field for field, value in part.items() if value == "???"]
        made = make(key, unpriced(part) | dict.fromkeys(missing, str(tmp_path / "absent")), group)
        assert type(made) is cls
        if missing:
            assert (group, missing) in (
                ("dataset", ["path"]),
                ("dataset", ["path", "command"]),
                ("model", ["path"]),
                ("model", ["model"]),
            )
        if missing and group == "dataset":
            data = cast(Dataset, made)
            for read in (data.case_ids, partial(getattr, data, "tools"), partial(getattr, data, "version")):
                with pytest.raises(ConfigError) as caught:
                    cast(Callable[[], object], read)()
                if "must be installed" not in str(caught.value):  # a benchmark's package may be named first
                    assert (caught.value.key, caught.value.value) == ("dataset.path", str(tmp_path / "absent"))


def test_engines_keep_their_protocol(model: str) -> None:
    engine = cast(Engine, make("model", given(yaml("model", model))))
    assert isinstance(engine.provides, frozenset)
    assert engine.provides
    assert engine.provides <= {SAMPLE, CHOOSE, NATIVE, MESSAGES}
    assert engine.name.isidentifier()
    assert engine.home in ("task", "replica", "gateway")
    if engine.home != "task":
        for member in ("gpus", "load", "check", "occupancy"):
            assert hasattr(type(engine), member)
    assert isinstance(engine.version, str)
    assert engine.version
    for verb in (SAMPLE, CHOOSE):
        assert inspect.iscoroutinefunction(getattr(engine, verb))


def test_planners_keep_their_protocol(planner: str) -> None:
    made = cast(Planner, make("planner", yaml("planner", planner)))
    assert isinstance(made.needs, frozenset)
    assert made.needs <= {SAMPLE, CHOOSE, JUDGE, OUTLINE, DEMONSTRATIONS, BRANCHING}
    assert inspect.iscoroutinefunction(made.solve)


def test_datasets_keep_their_protocol(dataset: str) -> None:
    made = cast(Dataset, make("dataset", given(yaml("dataset", dataset))))
    assert made.provides <= set(PROVIDED)
    asks: Mapping[str, str] = getattr(made, "asks", {})
    assert asks.keys() <= {TEXTS, PLANS}
    assert {*asks.values()} <= yaml("dataset", dataset).keys(), (
        "each question to a model must be turned on by a key of the data set"
    )
    assert made.outline in outlines(dataset), "the default outline of a data set must be one that it can have"


def test_robustness_settings_keep_their_protocol(robustness: str) -> None:
    for name, part in yaml("robustness", robustness).items():
        assert name == robustness, (
            "a robustness setting must have the name of its file, so that several can be combined"
        )
        made = cast(Robustness, make(f"robustness.{name}", part, "robustness"))
        assert made.needs <= set(PROVIDED)
        assert getattr(made, "asks", {}).keys() <= {JUDGE}
