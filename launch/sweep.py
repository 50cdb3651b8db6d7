"""Run a grid of experiments: `python launch/sweep.py -m`, or one setting without `-m`.

Hydra composes the settings; our sweeper gets all of them at once, checks the whole sweep and runs its cells on Ray.
"""

from __future__ import annotations

import os
import sys
from typing import cast

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra_plugins.grid_sweeper import register
from omegaconf import DictConfig, OmegaConf

from grid import CONF, plugins
from grid.core.surroundings import usable
from grid.sweeps import arguments
from grid.sweeps.arguments import refusal
from grid.sweeps.composing import Composed, prepared
from grid.sweeps.jobs import CANNOT_RUN, SweepEnded, run_jobs

_FULL_ERROR = "HYDRA_FULL_ERROR"


@usable()
def main() -> int:
    """Compose, check and run the sweep of the command line; returns the exit status.

    With HYDRA_FULL_ERROR=1, an error is raised instead of printed.
    """
    given, wanted = sys.argv[1:], os.environ.get(_FULL_ERROR)
    register()
    program = "python launch/sweep.py" if sys.argv[0].endswith(".py") else "agent-grid sweep"
    arguments.GIVEN.set(arguments.line(program, given))
    try:
        given = arguments.with_pilot(arguments.flags_first(arguments.completed(given)))
        arguments.check(given)
        sys.argv[1:] = prepared(arguments.beside_sweeps(given))
        if {"--help", "-h"} & set(given):
            print(arguments.text([CONF, *(plugin.conf for plugin in plugins.allowed().values())]))
            return 0
        os.environ[_FULL_ERROR] = "1"  # Hydra raises its errors, instead of printing them and ending the process
        composed = _compose()
        if composed:
            run_jobs(composed)
    except SweepEnded as ended:
        return ended.status
    except Exception as error:  # any error of a sweep that cannot be composed
        if wanted == "1":
            raise
        print(f"error: {refusal(error, given)}", file=sys.stderr)
        return CANNOT_RUN
    finally:
        os.environ.pop(_FULL_ERROR, None)
        if wanted is not None:
            os.environ[_FULL_ERROR] = wanted
    return 0


def _compose() -> list[Composed]:
    """The single setting of a command line without `-m`; empty for flags such as `--cfg`.

    With `-m` our sweeper runs all settings.
    """
    found: list[Composed] = []

    @hydra.main(version_base=None, config_path=str(CONF), config_name="config")  # type: ignore[untyped-decorator]
    def one_setting(config: DictConfig) -> None:  # Hydra would print extra lines for errors raised in here
        of = HydraConfig.instance().cfg.hydra
        overrides = cast(list[str], OmegaConf.to_container(of.overrides.task))
        found.append(Composed(config, dict(of.runtime.choices), overrides))

    one_setting()
    return found


if __name__ == "__main__":
    sys.exit(main())
