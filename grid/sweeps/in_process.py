"""A sweep's episodes as rows, by the sweep's own code in this process: without Ray and Parquet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from hydra import initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.types import HydraContext, RunMode
from hydra.utils import instantiate
from hydra_plugins.grid_sweeper import GridSweeper, register

from grid import CONF
from grid.cells.run import Stamp, run_chunk
from grid.settings.build import build
from grid.settings.check import Job, check_sweep
from grid.settings.plan import Plan
from grid.sweeps.jobs import resolved


def plan_of(arguments: Sequence[str]) -> Plan:
    """The sweep of a command line with `-m`, checked.

    Raises:
        GridError, or what Hydra raises: it cannot run.
    """
    register()
    with initialize_config_dir(str(CONF), version_base=None):
        loader = GlobalHydra.instance().config_loader()
        master = loader.load_configuration("config", list(arguments), RunMode.MULTIRUN)
        sweeper = cast(GridSweeper, instantiate(master.hydra.sweeper))
        sweeper.setup(hydra_context=HydraContext(loader, None), task_function=None, config=master)
        jobs = [Job(*resolved(one)) for one in sweeper.composed(list(arguments))]
    return check_sweep(jobs).plan


async def episodes(plan: Plan, columns: Sequence[str], name: str, seed: int | None = None) -> list[dict[str, Any]]:
    """Columns of every cell's row, setting by setting; `seed` in place of the plan's own."""
    rows = []
    for setting in plan.settings:
        seeded = setting if seed is None else replace(setting, seed=seed)
        built = build(seeded, plan.budget)
        plan.case_ids[seeded.id], plan.dataset_versions[seeded.id] = plan.case_ids[setting.id], built.version
        found = (await run_chunk(built, seeded, list(plan.cells_of(seeded)), Stamp(name, None))).take()
        rows += [{column: row[column] for column in columns} for row in found["episodes"]]
    return rows
