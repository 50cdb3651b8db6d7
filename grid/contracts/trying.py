"""Functions with which a plugin's own tests can try a file on a case."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from grid import plugins
from grid.cells.run import Stamp, run_chunk
from grid.contracts.subject import setting_of
from grid.core.problem import Problem
from grid.core.types import Json
from grid.settings.build import Built, build
from grid.settings.config import BudgetConfig
from grid.settings.setting import Setting, cells
from grid.text import references
from grid.worlds.layers import close, settle

_BUDGET = BudgetConfig()


def row(package: str, case: int = 0, **files: str) -> dict[str, Any]:
    """Run a dataset's case and return its row in `episodes`.

    `package` is the plugin, which becomes the only allowed one (besides installed ones) if it is not allowed yet.
    `case` is the case's position; `files` gives the names of files by group, as in planner="mine".

    Raises:
        ConfigError: the plugin, or a value in a file, cannot be used.
    """
    setting, built = _built(package, files)
    case_id = built.dataset.case_ids()[case]
    chunk = list(cells(setting, built.version, [case_id], 1))
    rows = asyncio.run(run_chunk(built, setting, chunk, Stamp("trying", None))).take()
    found: dict[str, Any] = rows["episodes"][0]
    return found


def problem(package: str, case: int = 0, seed: int = 0, **files: str) -> Problem:
    """The problem of a case, disturbed by the named robustness setting with `seed`; arguments otherwise as in `row`."""
    _, built = _built(package, files)
    return built.problem(built.dataset.case_ids()[case], seed)


def problems(package: str, **files: str) -> list[Problem]:
    """The problems of all cases of a dataset, disturbed with the seed 0; arguments as in `row`."""
    _, built = _built(package, files)
    return [built.problem(case_id, 0) for case_id in built.dataset.case_ids()]


def reference_resolves(problem: Problem) -> bool:
    """Whether the calls of a case's reference, made in order, resolve the case.

    As after a cell, the world then examines its last state, and ends what it has running, such as a server.

    Raises:
        ToolError: the world breaks.
    """
    return asyncio.run(_follow(problem))


async def _follow(problem: Problem) -> bool:
    world = problem.world
    state, outcomes = world.start(), dict[str, Mapping[str, Json]]()
    try:
        for step, call in problem.reference.calls.items():
            if call:
                state, observation = await world.apply(state, references.resolve(call, outcomes))
                outcomes[step] = observation.content
        await settle(world, state)
        return world.resolved(state)
    finally:
        await close(world)


def _built(package: str, files: dict[str, str]) -> tuple[Setting, Built]:
    if package not in plugins.allowed():
        plugins.allow([package])
    labels: Any = {"dataset": "null_cases"} | files
    setting = setting_of(**labels)
    return setting, build(setting, _BUDGET)
