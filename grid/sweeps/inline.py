"""A sweep in this process, one cell after another, without Ray: `cluster=inline`, for debugging a planner.

Text that the planner prints appears on the screen, and `breakpoint()` pauses the sweep. Rows are the same as on a
cluster. A case has no time limit, because a debugger may stop it for hours. This module stands apart from `jobs`
because `jobs` is imported before a command line has been checked, and importing this module takes seconds.
"""

from __future__ import annotations

import asyncio
import sys
import time
import uuid
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from threading import Thread
from typing import Any, cast

from hydra import initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.types import HydraContext, RunMode
from hydra.utils import instantiate
from hydra_plugins.grid_sweeper import GridSweeper, register
from rich.console import Console

from analysis.screen import print_screen
from grid import CONF, store
from grid.cells.printed import logged
from grid.cells.rows import TABLES, ChunkResult, Room, attempt_row
from grid.cells.run import Stamp, run_cell, run_chunk
from grid.cluster.fleet import probes_of
from grid.core.engine import ACTOR
from grid.core.errors import ConfigError
from grid.engines.hosted import HostedEngine, Probed
from grid.settings.build import Built, build
from grid.settings.check import Checked, Job, check_sweep
from grid.settings.config import ClusterConfig, SweepConfig
from grid.settings.extras import expect_installed
from grid.settings.plan import Plan
from grid.settings.roles import by_pool
from grid.settings.setting import Setting
from grid.sweeps.jobs import resolved
from grid.sweeps.session import announce, complete, record, sampled, say


def run_inline(checked: Checked, report: bool = True) -> bool:
    """Run a sweep in this process; the arguments and the result are the same as for `session.run_checked`.

    Raises:
        ConfigError: a key is given that only a cluster supports, such as `budget.money`; a package is not installed; or
            most cells would run again only because code has changed, and `accept_code` is not given.
        EngineError: a server does not answer.
        StoreError: another sweep has locked the folder, or the folder cannot be read or written to.
    """
    console, plan = Console(highlight=False, emoji=False, force_jupyter=False), checked.plan
    _expect_no_cluster_needed(plan)
    expect_installed(plan.settings)
    with store.locked(plan.root):
        for line in store.put_aside(plan.root):
            say(console, line)
        done = plan.finished()
        pending = sum(plan.missing(done).values())
        plan.expect_choice(announce(checked, console, plan.total() - pending))
        if pending:
            record(plan, checked.skipped_by_reason(), [*checked.cut, *checked.priced], here=True)
            with logged(sys.stderr):
                _to_its_end(partial(_run, plan, done, console))
        if report:
            print_screen(plan.root, console)
        return complete(checked, console, sum(plan.missing(plan.finished("none")).values()), warn=not report)


def _expect_no_cluster_needed(plan: Plan) -> None:
    """Raise ConfigError if a key has a value that only a cluster supports.

    By default, cells that fail here do not run again, and unknown cells end nothing, so only other values are refused.
    """
    most_unknown, retries = SweepConfig.model_fields["most_unknown"], ClusterConfig.model_fields["retries"]
    given = {
        "budget.money": "money" in plan.dollars,
        "fail_fast": plan.fail_fast is not None,
        "most_unknown": plan.most_unknown not in (None, most_unknown.default),
        "tracing": plan.tracing != "none",
        "cluster.retries": plan.cluster.retries not in (0, retries.default),
    }
    for key in (key for key, needed in given.items() if needed):
        raise ConfigError("cluster", "inline", f"must be local or address if {key} is given")


def _to_its_end(run: Any) -> None:
    """Run a coroutine function, in a separate thread if an event loop already runs here, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        asyncio.run(run())
        return
    raised: list[BaseException] = []

    def there() -> None:
        try:
            asyncio.run(run())
        except BaseException as error:  # noqa: BLE001 - it is raised again here
            raised.append(error)

    thread = Thread(target=there, name="inline")
    thread.start()
    thread.join()
    if raised:
        raise raised[0]


async def _run(plan: Plan, done: store.CellIds, console: Console) -> None:
    stamp, engines = Stamp(plan.name, plan.git_commit, store.newest(plan.root)), dict[str, Any]()
    probes, started, ran = probes_of(plan.settings), time.monotonic(), 0
    room = Room(plan.root, plan.keep, plan.transcripts_bytes)
    for setting in plan.settings:
        key = "cell_key" if plan.accept_code else "cell_id"
        cells = [cell for cell in plan.cells_of(setting) if not done.holds([getattr(cell, key)])[0]]
        if not cells:
            continue
        built = await _loaded(build(setting, plan.budget), setting, engines, probes)
        attempt, result, began = uuid.uuid4().hex, ChunkResult(), time.monotonic()
        try:
            for cell in cells:
                where = f"{setting.labels['planner']} on {setting.labels['dataset']}, {setting.labels['robustness']}"
                say(console, f"{where}: case {cell.case_id}, trial {cell.trial}")
                outcome = await run_cell(built, setting, cell, stamp, attempt, keep=room.keep)
                result.add(outcome)
                written = store.write(plan.root, result.take_all())
                room.took(1, sum(written.get(table, 0) for table in TABLES))
                row, ran = outcome[0], ran + 1
                say(console, f"  {row['status']}, success: {row['success']}, {row['error_message'] or 'no error'}")
        finally:
            if result.cells:
                seconds = time.monotonic() - began
                tried = attempt_row(attempt, setting.id, built.prices, result, seconds, stamp.now())
                store.write(plan.root, {"attempts": [tried]})
    say(console, f"ran {ran:,} cells in {time.monotonic() - started:.1f} s, in this process")
    if room.since:
        say(console, sampled(*room.since))


async def _loaded(built: Built, setting: Setting, engines: dict[str, Any], probes: dict[str, Any]) -> Built:
    """The setting, with engines that are ready in this process. Each model has one engine for the whole sweep."""
    own = built.engines
    for key, roles in by_pool(setting.config).items():
        if own[roles[0]].home == "task":
            continue
        if key not in engines:
            engines[key] = engine = cast(HostedEngine, own[roles[0]])
            await engine.load()
            if isinstance(engine, Probed):
                await engine.probe(probes.get(key, ()))
        own |= dict.fromkeys(roles, engines[key])
    return replace(built, engine=own.pop(ACTOR), roles=own)


# A sweep's episodes as rows, made by the sweep's own code in this process, without Ray or Parquet.


def plan_of(arguments: Sequence[str]) -> Plan:
    """The checked plan of a command line with `-m`.

    Raises:
        GridError, or an error of Hydra: the sweep could not run.
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
    """Run a plan's cells in this process; returns some columns of their rows. `seed` replaces the plan's seed.

    The plan's `case_ids` and `dataset_versions` get entries for the settings with this seed.
    """
    rows = []
    for setting in plan.settings:
        seeded = setting if seed is None else replace(setting, seed=seed)
        built = build(seeded, plan.budget)
        plan.case_ids[seeded.id], plan.dataset_versions[seeded.id] = plan.case_ids[setting.id], built.version
        found = (await run_chunk(built, seeded, list(plan.cells_of(seeded)), Stamp(name, None))).take()
        rows += [{column: row[column] for column in columns} for row in found["episodes"]]
    return rows
