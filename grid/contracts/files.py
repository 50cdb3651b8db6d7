"""The files of conf/ and of the plugins that are allowed, and settings made of them."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

from omegaconf import OmegaConf

from grid import CONF
from grid.core.problem import BRANCHING, DRAFTED, GIVEN, OUTLINE, Dataset
from grid.core.roles import ASKED
from grid.episode.episode import Planner
from grid.plugins import allowed
from grid.settings.fitting import invalid_reason
from grid.settings.make import make
from grid.settings.parts import parts_of
from grid.settings.roles import with_roles
from grid.settings.setting import Setting

LEFT_OPEN: dict[str, dict[str, Any]] = {}
"""By dataset what its file leaves open besides its path, such as a program: whoever runs the contracts says it."""


def names(group: str, conf: Path = CONF) -> list[str]:
    """The YAML files of a group."""
    return sorted(path.stem for path in (conf / group).glob("*.yaml"))


def file_of(group: str, name: str) -> Path:
    """Where a file lies: in conf/, or in a plugin's."""
    folders = [CONF, *(plugin.conf for plugin in allowed().values())]
    return next(path for path in (conf / group / f"{name}.yaml" for conf in folders) if path.is_file())


def yaml(group: str, name: str) -> dict[str, Any]:
    """A file's own values, missing ones as '???'."""
    return copy.deepcopy(_read(file_of(group, name))) | (LEFT_OPEN.get(name, {}) if group == "dataset" else {})


@cache
def _read(path: Path) -> dict[str, Any]:
    return cast(dict[str, Any], OmegaConf.to_container(OmegaConf.load(path), resolve=True))


def outlines(dataset: str) -> list[str]:
    """The values of `dataset.outline` that a dataset's file can have."""
    made = _absent(dataset)
    if "outline" not in yaml("dataset", dataset):
        return [made.outline]
    return [GIVEN, "hidden", DRAFTED] if OUTLINE in made.provides else ["hidden", DRAFTED]


def goes_together(dataset: str, planner: str) -> bool:
    """Whether a planner that goes on from a state more than once meets worlds that can."""
    needs = cast(Planner, make("planner", yaml("planner", planner))).needs
    return BRANCHING not in needs or BRANCHING in _absent(dataset).provides


@cache
def fits(**labels: str) -> bool:
    """Whether two files go together, whatever the others are."""
    named: Any = {"dataset": "null_cases"} | labels
    absent = {"path": "/absent"} if lacks_path(named["dataset"]) else {}
    return invalid_reason(setting_of(absent, **named)) is None


def lacks_path(dataset: str) -> bool:
    """Whether a dataset's file leaves to a user where the data are."""
    return yaml("dataset", dataset).get("path") == "???"


@cache
def _absent(dataset: str) -> Dataset:
    """A dataset whose files are not there."""
    values = {name: "/absent" if value == "???" else value for name, value in yaml("dataset", dataset).items()}
    return cast(Dataset, make("dataset", values))


def setting_of(
    dataset_values: Mapping[str, Any] = MappingProxyType({}),
    planner_values: Mapping[str, Any] = MappingProxyType({}),
    model_values: Mapping[str, Any] = MappingProxyType({}),
    **labels: str,
) -> Setting:
    """A setting of files, some values of dataset, planner and model changed."""
    labels = {"model": "lexical", "planner": "react", "robustness": "none", "retriever": "bm25", "pool": "all"} | labels
    config = {group: yaml("model" if group in ASKED else group, name) for group, name in labels.items()}
    config["dataset"] |= dataset_values
    config["planner"] |= planner_values
    config["model"] |= model_values
    if parts_of(config).judges_plans:
        config["evaluator"], labels["evaluator"] = yaml("model", "lexical"), "lexical"
    return Setting(with_roles(config), labels, seed=0)
