"""Settings, cells, their ids and their seeds."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from json.encoder import encode_basestring
from typing import Any

from grid.metrics.stepwise import SCORING
from grid.types import to_json

GROUPS = ("model", "planner", "dataset", "robustness", "retriever")
NO_INFLUENCE = ("dataset.path", "dataset.limit", "dataset.max_substeps", "model.serving")
"""Where the data lie, which cases are run and how requests are batched cannot change a case's result."""

_DIGITS = 16


@dataclass(frozen=True)
class Setting:
    """One point of model x planner x dataset x robustness: the resolved config of its groups, and their labels.

    `labels` are for people (`egb_logits`, `extraneous[k=4]`); `config`, `seed` and `budget` (what an episode may ask
    for) make the id.
    """

    config: Mapping[str, Any]
    labels: Mapping[str, str]
    seed: int
    budget: Mapping[str, int] = field(default_factory=dict)

    @cached_property
    def id(self) -> str:
        """Sixteen hexadecimal digits of all that can change a result of this setting."""
        return _digest({"config": influential(self.config), "seed": self.seed, "budget": dict(self.budget)})

    @cached_property
    def text(self) -> str:
        """The config and the seed as JSON, as every row has them."""
        return to_json({**self.config, "seed": self.seed})


@dataclass(frozen=True, slots=True)
class Cell:
    """One setting x case x trial: the unit that runs, fails, resumes and is one row."""

    case_id: str
    trial: int
    cell_id: str
    disturbance_id: str

    @property
    def seed(self) -> int:
        """Drives the engine."""
        return int(self.cell_id, 16) >> 1

    @property
    def disturbance_seed(self) -> int:
        """Drives the robustness settings, alike for all planners and models."""
        return int(_digest([self.disturbance_id, self.case_id, self.trial]), 16) >> 1


def influential(config: Mapping[str, Any]) -> dict[str, Any]:
    """The groups' configs without the keys that cannot change a result; robustness settings in their order."""
    found: dict[str, Any] = {
        group: {key: value for key, value in config[group].items() if f"{group}.{key}" not in NO_INFLUENCE}
        for group in GROUPS
    }
    return found | {"robustness": list(found["robustness"].items())}


def cells(setting: Setting, dataset_version: str, case_ids: Sequence[str], trials: int) -> Iterator[Cell]:
    """The setting's cells, trial by trial, lazily."""
    whole = {"setting": setting.id, "dataset_version": dataset_version, "scoring": SCORING}
    shared = {
        "config": {group: influential(setting.config)[group] for group in ("dataset", "robustness")},
        "seed": setting.seed,
        "dataset_version": dataset_version,
    }
    head, shared_head = _digest(whole), _digest(shared)
    for trial in range(trials):
        for case_id in case_ids:
            # As `_digest([head, case_id, trial])`, several times as fast: there may be millions.
            text = f'["{head}", {encode_basestring(case_id)}, {trial}]'
            yield Cell(case_id, trial, hashlib.sha256(text.encode()).hexdigest()[:_DIGITS], shared_head)


def _digest(value: object) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]
