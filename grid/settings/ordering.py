"""The key `options`: in which order the options of every decision stand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Literal

from pydantic import ValidationError
from pydantic.dataclasses import dataclass

from grid.core.errors import ConfigError
from grid.core.strict import STRICT
from grid.settings.make import config_error
from grid.settings.setting import OPTIONS


@dataclass(frozen=True, config=STRICT)
class Ordering:
    """`shuffled`: drawn per case and step, the same for all planners, models and trials.

    `ranked`: as retrieved, the best first, and `no_tool` or `finish` last.
    """

    order: Literal["shuffled", "ranked"] = "shuffled"

    def seed(self, of_sweep: int) -> int | None:
        """What an order is drawn from; None for none."""
        return of_sweep if self.order == "shuffled" else None


def ordering(config: Mapping[str, Any]) -> Ordering:
    """A setting's, its default where nothing is said; raises ConfigError."""
    given = config.get(OPTIONS, {})
    if not isinstance(given, Mapping):
        raise ConfigError(OPTIONS, given, "keys of its own: options.order=shuffled or ranked")
    try:
        return Ordering(**{str(key): value for key, value in given.items()})
    except ValidationError as error:
        raise config_error(f"{OPTIONS}.", error, ["order"]) from None


def with_ordering(config: Mapping[str, Any], groups: dict[str, Any]) -> dict[str, Any]:
    """The groups of a setting's config with this key, its default filled in; raises ConfigError."""
    return groups | {OPTIONS: asdict(ordering(config))}
