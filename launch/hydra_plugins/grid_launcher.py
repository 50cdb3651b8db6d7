"""The Hydra launcher of the grid. Hydra takes launchers only from a package of this name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from hydra.core.config_store import ConfigStore
from hydra.core.plugins import Plugins
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, open_dict

from launch.jobs import run_jobs


class GridLauncher(Launcher):  # type: ignore[misc]
    """Receives every job of the multirun at once and runs them as one sweep."""

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Keep what composing the jobs needs."""
        self._loader = hydra_context.config_loader
        self._config = config

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> NoReturn:
        """Compose all jobs, then run them; ends the process with the sweep's exit status."""
        configs = []
        for index, overrides in enumerate(job_overrides, initial_job_idx):
            config = self._loader.load_sweep_config(self._config, list(overrides))
            with open_dict(config):
                config.hydra.job.id, config.hydra.job.num = str(index), index
            configs.append(config)
        run_jobs(configs)


def register() -> None:
    """Make the launcher known to Hydra as `hydra/launcher: grid`."""
    Plugins.instance().register(GridLauncher)
    node = {"_target_": "hydra_plugins.grid_launcher.GridLauncher"}
    ConfigStore.instance().store(group="hydra/launcher", name="grid", node=node)
