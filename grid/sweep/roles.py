"""Who answers what in a setting: the acting model, and a judge where the planner asks one."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any, cast

from pydantic import ValidationError

from grid.errors import ConfigError
from grid.planners.base import ACTOR, JUDGE, Planner, Role
from grid.planners.judging import Judging
from grid.sweep.cell import GROUPS
from grid.sweep.make import config_error, make

KEYS = tuple(item.name for item in dataclasses.fields(Judging))
"""The judge's keys that are no keys of its model."""


def models(config: Mapping[str, Any]) -> dict[Role, Mapping[str, Any]]:
    """The model of every role of a setting, as a config of the model group."""
    found: dict[Role, Mapping[str, Any]] = {ACTOR: config["model"]}
    if JUDGE in config:
        found[JUDGE] = {key: value for key, value in config[JUDGE].items() if key not in KEYS}
    return found


def by_pool(config: Mapping[str, Any]) -> dict[str, list[Role]]:
    """The roles of a setting that share a model, by its key."""
    found: dict[str, list[Role]] = {}
    for role, model in models(config).items():
        found.setdefault(model_key(model), []).append(role)
    return found


def model_key(model: Mapping[str, Any]) -> str:
    """Equal for models that share a pool of replicas."""
    return json.dumps(model, sort_keys=True)


def label_of(role: Role, labels: Mapping[str, str]) -> str:
    """How a role's model is called: a judge's own label also says how it is asked."""
    return labels["model"] if role == ACTOR else labels[role].partition("[")[0]


def judging(config: Mapping[str, Any]) -> Judging | None:
    """How a setting's judge is asked; None where it has none. Raises ConfigError."""
    if JUDGE not in config:
        return None
    try:
        return Judging(**{key: config[JUDGE][key] for key in KEYS if key in config[JUDGE]})
    except ValidationError as error:
        raise config_error("judge.", error, KEYS) from None


def with_judge(config: Mapping[str, Any]) -> dict[str, Any]:
    """A setting's config with its judge, all values filled in, where its planner asks one.

    Where no model is named for it (`model@judge=NAME`), the acting model judges. Raises ConfigError.
    """
    given, groups = config.get(JUDGE) or {}, {group: config[group] for group in GROUPS}
    if not isinstance(given, Mapping):
        raise ConfigError(JUDGE, given, "keys of its own; model@judge=NAME, with a file of conf/model, names its model")
    how = judging({JUDGE: given})
    if JUDGE not in cast(Planner, make("planner", config["planner"])).needs:
        return groups
    model = {key: value for key, value in given.items() if key not in KEYS}
    return groups | {JUDGE: {key: getattr(how, key) for key in KEYS} | (model or config["model"])}
