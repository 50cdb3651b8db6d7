"""The Hydra sweeper of the grid. Hydra takes sweepers only from a package of this name."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import product
from typing import NoReturn

from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, RangeSweep
from hydra.core.plugins import Plugins
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig

from grid.errors import ConfigError
from launch.composing import Composer

MAX_SETTINGS = 20_000


class GridSweeper(Sweeper):  # type: ignore[misc]
    """Composes every point of the grid, writes nothing, and runs all of them as one sweep.

    Args:
        params: values of keys that the command line does not give, as on the command line.
    """

    def __init__(self, params: Mapping[str, str] | None = None) -> None:
        self._params = dict(params or {})

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Keep what composing the jobs needs."""
        self._loader = hydra_context.config_loader
        self._config = config

    def sweep(self, arguments: list[str]) -> NoReturn:
        """Ends the process with the sweep's exit status."""
        from launch.jobs import run_jobs  # after all else, as it imports more

        parser = OverridesParser.create(config_loader=self._loader)
        given = parser.parse_overrides([*(f"{key}={value}" for key, value in self._params.items()), *arguments])
        composer = Composer(self._loader, self._config)
        run_jobs(composer.compose(overrides) for overrides in settings(given))


def settings(given: Sequence[Override]) -> list[tuple[str, ...]]:
    """The overrides of every setting: the product of all values; the last override of a key counts.

    Raises:
        ConfigError: a key without values, or more settings than a sweep can have.
    """
    values = {override.get_key_element(): _values(override) for override in given}
    count = math.prod(map(len, values.values()))
    if count > MAX_SETTINGS:
        raise ConfigError("-m", f"{count:,} settings", f"at most {MAX_SETTINGS:,} settings in one sweep")
    return list(product(*([f"{key}={value}" for value in found] for key, found in values.items())))


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
        raise ConfigError(key, text, "range(start,stop,step) of finite numbers and a step that is not 0")
    if abs((sweep.stop - sweep.start) / sweep.step) > MAX_SETTINGS:
        raise ConfigError(key, text, f"at most {MAX_SETTINGS:,} settings in one sweep")


def register() -> None:
    """Make the sweeper known to Hydra as `hydra/sweeper: grid`."""
    Plugins.instance().register(GridSweeper)
    node = {"_target_": "hydra_plugins.grid_sweeper.GridSweeper", "params": None}
    ConfigStore.instance().store(group="hydra/sweeper", name="grid", node=node)
