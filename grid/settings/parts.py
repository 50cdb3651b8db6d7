"""What a setting's config names besides engines, as objects, and what these parts ask models for.

Parts declare that themselves (`asks`): nothing is recognised by a key's name, so that a plugin's keys may have any.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from grid.core.errors import ConfigError
from grid.core.problem import PLANS, TEXTS, Dataset
from grid.core.roles import JUDGE
from grid.episode.episode import Planner
from grid.planners.refining import NOT_REFINED, Refining
from grid.robustness.base import Robustness
from grid.settings.make import make
from grid.settings.pooled import dataset_of, key_of
from grid.settings.setting import REFINE


@dataclass(frozen=True)
class Parts:
    """The objects of a setting that answer no prompts. No file of the dataset is read by making it."""

    planner: Planner
    dataset: Dataset
    robustness: Mapping[str, Robustness]
    refining: Refining

    @property
    def compares_texts(self) -> str | None:
        """The dataset's key by which an evaluator says which texts mean the same; None where nobody does."""
        return _asks(self.dataset).get(TEXTS)

    @property
    def judges_plans(self) -> str | None:
        """The dataset's key by which an evaluator says which plans are right; None where nobody does."""
        return _asks(self.dataset).get(PLANS)

    @property
    def tools_ask(self) -> str | None:
        """The key of the robustness setting whose tools ask the judge which names were meant; None without one."""
        keys = ((name, _asks(part).get(JUDGE)) for name, part in self.robustness.items())
        return next((f"{name}.{key}" for name, key in keys if key), None)

    @property
    def goes_by_solved(self) -> bool:
        """Whether the planner asks for solved cases of the dataset's other half."""
        return bool(getattr(self.planner, "goes_by_solved", False))

    @property
    def refines(self) -> bool:
        """Whether plans are refined."""
        return self.refining.mode != NOT_REFINED


def parts_of(config: Mapping[str, Any]) -> Parts:
    """The parts of a setting's config, of its own but for the dataset, whose cases are shared. Raises ConfigError."""
    refine = config.get(REFINE)
    if refine is not None and not isinstance(refine, Mapping):
        raise ConfigError(REFINE, refine, "one of the files of conf/refine")
    robustness = ((name, make(f"robustness.{name}", part, "robustness")) for name, part in config["robustness"].items())
    return Parts(
        planner=cast(Planner, make("planner", config["planner"])),
        dataset=dataset_of(key_of(config["dataset"])),
        robustness={name: cast(Robustness, part) for name, part in robustness},
        refining=Refining() if refine is None else cast(Refining, make(REFINE, refine)),
    )


def _asks(part: object) -> Mapping[str, str]:
    """What a part asks a model for, each with the key that has it do so; nothing where it declares nothing."""
    return getattr(part, "asks", None) or {}
