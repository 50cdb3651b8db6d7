"""Who answers what in a setting: the acting model, a judge where the planner asks one, an evaluator for the dataset."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any, cast

from pydantic import ValidationError

from grid.datasets.base import EXAMINED, JUDGED, Dataset
from grid.engines.informed import Informed
from grid.engines.roles import ACTOR, ASKED, EVALUATOR, JUDGE, Role
from grid.errors import ConfigError
from grid.planners.base import Planner
from grid.planners.judging import Judging
from grid.planners.restoring import NOT_RESTORED, Restoring
from grid.sweep.cell import GROUPS
from grid.sweep.make import config_error, make

KEYS = tuple(item.name for item in dataclasses.fields(Judging))
"""The keys of a role that are no keys of its model."""
RESTORING = tuple(item.name for item in dataclasses.fields(Restoring))
"""Further ones of a judge."""


def models(config: Mapping[str, Any]) -> dict[Role, Mapping[str, Any]]:
    """The model of every role of a setting, as a config of the model group."""
    return {ACTOR: config["model"]} | {role: _model(role, config[role]) for role in ASKED if role in config}


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
    """How a role's model is called: the own label of one that is asked for scores also says how."""
    return labels["model"] if role == ACTOR else labels[role].partition("[")[0]


def judging(config: Mapping[str, Any]) -> dict[Role, Judging]:
    """How each role of a setting that scores is asked. Raises ConfigError."""
    return {role: _judging(role, config[role]) for role in ASKED if role in config}


def restoring(config: Mapping[str, Any]) -> Restoring:
    """Which of the judge's decisions are set right. Raises ConfigError."""
    return _restoring(config.get(JUDGE) or {})


def with_roles(config: Mapping[str, Any]) -> dict[str, Any]:
    """A setting's config with its judge and its evaluator, all values filled in, where it asks them.

    Where no model is named for the judge (`model@judge=NAME`), the acting model judges. An evaluator must be named:
    models that are compared shall not each examine themselves. Who is named as the judge examines finished
    trajectories too, where nobody is named as the evaluator. Raises ConfigError.
    """
    groups = {group: config[group] for group in GROUPS}
    found: dict[str, Any] = {}
    for role in ASKED:
        given = _given(role, config)
        how, model = _judging(role, given), _model(role, given)
        if role == EVALUATOR and not model and _examines(groups):
            model = _examiner(config)
        if not _asks(role, groups, model):
            continue
        if role == EVALUATOR and not model:
            allowed = "rules, or judge with model@evaluator=NAME, a file of conf/model (no model is it by default)"
            raise ConfigError("dataset.equivalence", JUDGED, allowed)
        found[role] = {key: getattr(how, key) for key in KEYS} | (model or config["model"])
        if role == JUDGE:
            found[role] |= dataclasses.asdict(_restoring(given))
    return groups | found


def is_named(role: Role, config: Mapping[str, Any]) -> bool:
    """Whether a job's config says who has a role, or how it is asked, other than by default. Raises ConfigError."""
    given = _given(role, config)
    restored = role == JUDGE and _restoring(given).restored != NOT_RESTORED
    return bool(_model(role, given)) or _judging(role, given) != Judging() or restored


def _asks(role: Role, groups: Mapping[str, Any], model: Mapping[str, Any]) -> bool:
    if role == JUDGE:
        return JUDGE in cast(Planner, make("planner", groups["planner"])).needs
    return _compares(groups) or (bool(model) and _examines(groups))


def _compares(groups: Mapping[str, Any]) -> bool:
    return bool(groups["dataset"].get("equivalence") == JUDGED)


def _examines(groups: Mapping[str, Any]) -> bool:
    """Whether the dataset has questions about finished trajectories."""
    return not _compares(groups) and EXAMINED in cast(Dataset, make("dataset", groups["dataset"])).provides


def _examiner(config: Mapping[str, Any]) -> dict[str, Any]:
    """The model that is named as the judge; none where it is told references, and so could not examine."""
    model = _model(JUDGE, _given(JUDGE, config))
    return {} if model and isinstance(make("model", model), Informed) else model


def _given(role: Role, config: Mapping[str, Any]) -> Mapping[str, Any]:
    given = config.get(role) or {}
    if not isinstance(given, Mapping):
        raise ConfigError(
            role, given, f"keys of its own; model@{role}=NAME, with a file of conf/model, names its model"
        )
    return given


def _model(role: Role, given: Mapping[str, Any]) -> dict[str, Any]:
    own = (*KEYS, *RESTORING) if role == JUDGE else KEYS
    return {key: value for key, value in given.items() if key not in own}


def _restoring(given: Mapping[str, Any]) -> Restoring:
    try:
        return Restoring(**{key: given[key] for key in RESTORING if key in given})
    except ValidationError as error:
        raise config_error(f"{JUDGE}.", error, RESTORING) from None


def _judging(role: Role, given: Mapping[str, Any]) -> Judging:
    try:
        return Judging(**{key: given[key] for key in KEYS if key in given})
    except ValidationError as error:
        raise config_error(f"{role}.", error, KEYS) from None
