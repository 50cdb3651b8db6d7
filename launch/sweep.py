"""Run a grid of experiments: `python launch/sweep.py -m`, or one setting without `-m`.

Hydra composes the jobs; our launcher gets all of them at once, checks the whole sweep and runs its cells on Ray.
"""

from __future__ import annotations

import sys
import tempfile

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra_plugins.grid_launcher import register
from omegaconf import DictConfig, OmegaConf, open_dict

from launch.jobs import SweepEnded, run_jobs

register()


@hydra.main(version_base=None, config_path="../conf", config_name="config")  # type: ignore[untyped-decorator]
def main(config: DictConfig) -> None:
    """One setting: the same way as a sweep of one job."""
    whole = OmegaConf.create(config)
    with open_dict(whole):
        whole.hydra = HydraConfig.instance().cfg.hydra
    run_jobs([whole])


if __name__ == "__main__":
    try:
        with tempfile.TemporaryDirectory() as scratch:  # Hydra writes a file before anything is checked
            sys.argv.append(f"hydra.sweep.dir={scratch}")
            main()
    except SweepEnded:
        raise
    except SystemExit as ended:
        # Hydra ends with 1 for a config that it cannot compose; ours is 2 (design, 'The command line').
        sys.exit(2 if ended.code == 1 else ended.code)
