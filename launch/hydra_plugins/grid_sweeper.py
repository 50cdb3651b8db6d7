"""The Hydra sweeper of the grid. Hydra only finds sweepers in a package with this name."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import NoReturn

from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, RangeSweep
from hydra.core.plugins import Plugins
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig

from grid.core.errors import ConfigError
from grid.sweeps.composing import Composed, Composer, opened

MAX_SETTINGS = 20_000


class GridSweeper(Sweeper):  # type: ignore[misc]
    """Composes every point of the grid, writes nothing, and runs all points as one sweep.

    Args:
        params: values for keys that the command line does not give, written as on the command line.
        together: lists of points, by name. A point gives each of its keys one value, and a setting takes all values of
            one point from every list. If the command line gives values for a key of a list, only the points with these
            values are used.
    """

    def __init__(
        self,
        params: Mapping[str, str] | None = None,
        together: Mapping[str, Sequence[Mapping[str, object]]] | None = None,
    ) -> None:
        self._params = dict(params or {})
        self._together = dict(together or {})

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Keep the objects that are needed to compose settings."""
        self._loader = hydra_context.config_loader
        self._config = config

    def sweep(self, arguments: list[str]) -> NoReturn:
        """Run the sweep; ends the process with the sweep's exit status."""
        from grid.sweeps.jobs import run_jobs  # imported late, because it imports much more

        run_jobs(self.composed(arguments))

    def composed(self, arguments: Sequence[str]) -> Iterator[Composed]:
        """Every setting of the grid that the command line's arguments describe; each is composed when it is taken.

        Raises:
            ConfigError: as `settings` does. Hydra's errors are raised too, also while settings are taken.
        """
        parser = OverridesParser.create(config_loader=self._loader)
        params = [opened(f"{key}={value}") for key, value in self._params.items()]
        given = parser.parse_overrides([*params, *arguments])
        together = [
            [
                parser.parse_overrides([opened(f"{key}={_written(value)}") for key, value in point.items()])
                for point in points
            ]
            for points in self._together.values()
        ]
        composer = Composer(self._loader, self._config)
        return (composer.compose(overrides) for overrides in settings(given, together))


def settings(given: Sequence[Override], together: Sequence[Sequence[Sequence[Override]]] = ()) -> list[tuple[str, ...]]:
    """The overrides of every setting: the product of all keys' values and of all lists of points.

    If a key is given several times, the last override counts. If values are given for a key of a list, points with
    other values are left out.

    Raises:
        ConfigError: a key has no values, or values that cannot be listed; a list has no points; no point has the given
            values; or there are too many settings for a sweep.
    """
    values = {override.get_key_element(): _values(override) for override in given}
    lists = [_chosen([_values_of(point) for point in points], values) for points in together]
    taken = {key for points in lists for point in points for key in point}
    parts = [[{key: value} for value in found] for key, found in values.items() if key not in taken] + lists
    count = math.prod(map(len, parts))
    if count > MAX_SETTINGS:
        raise ConfigError("-m", f"{count:,} settings", f"at most {MAX_SETTINGS:,} settings in one sweep")
    return [tuple(f"{key}={value}" for point in points for key, value in point.items()) for points in product(*parts)]


def _values_of(point: Sequence[Override]) -> dict[str, str]:
    return {one.get_key_element(): one.get_value_element_as_str() for one in point}


def _chosen(points: Sequence[dict[str, str]], values: Mapping[str, Sequence[str]]) -> list[dict[str, str]]:
    """The points whose keys have the given values; a key without given values may have any value."""
    if not points:
        raise ConfigError("hydra.sweeper.together", [], "lists with at least one point each")
    keys = {key for point in points for key in point}
    asked = {key: found for key, found in values.items() if key in keys}
    chosen = [point for point in points if all(point.get(key) in found for key, found in asked.items())]
    if not chosen:
        key, found = next(iter(asked.items()))
        allowed = "; ".join(" ".join(f"{name}={value}" for name, value in point.items()) for point in points)
        raise ConfigError(
            key, ",".join(found), f"must match, together with the other given values, one of these points: {allowed}"
        )
    return chosen


def _written(value: object) -> str:
    """A config value, written as on the command line."""
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _values(override: Override) -> list[str]:
    if not override.is_sweep_override():
        return [override.get_value_element_as_str()]
    text = override.get_value_string()
    if not override.is_discrete_sweep():
        raise ConfigError(override.key_or_group, text, "values that can be listed: a,b  range(...)  choice(...)")
    sweep = override.value()
    if isinstance(sweep, RangeSweep):
        _check_range(override.key_or_group, text, sweep)
    found = list(override.sweep_string_iterator())
    if not found:
        raise ConfigError(override.key_or_group, text, "at least one value")
    return found


def _check_range(key: str, text: str, sweep: RangeSweep) -> None:
    numbers = (sweep.start, sweep.stop, sweep.step)
    if not all(number is not None and math.isfinite(number) for number in numbers) or not sweep.step:
        raise ConfigError(key, text, "range(start,stop,step) with finite numbers and a step that is not 0")
    if abs((sweep.stop - sweep.start) / sweep.step) > MAX_SETTINGS:
        raise ConfigError(key, text, f"at most {MAX_SETTINGS:,} settings in one sweep")


def register() -> None:
    """Make the sweeper known to Hydra as `hydra/sweeper: grid`."""
    Plugins.instance().register(GridSweeper)
    node = {"_target_": "hydra_plugins.grid_sweeper.GridSweeper", "params": None, "together": None}
    ConfigStore.instance().store(group="hydra/sweeper", name="grid", node=node)
