"""What a sweep will cost, from its first cases: for dry runs."""

from __future__ import annotations

import asyncio
from itertools import islice

from grid.runner.build import build
from grid.runner.cell import Setting
from grid.runner.plan import Plan
from grid.runner.run import Stamp, run_chunk

CASES = 2


def tokens_per_cell(plan: Plan, setting: Setting) -> float | None:
    """Mean input and output tokens of the setting's first cells, run here and not kept.

    None where the engine does not run in this process for next to nothing, or where a cell failed.
    """
    built = build(setting, plan.budget)
    if any(engine.home != "task" for engine in built.engines.values()):
        return None
    cells = list(islice(plan.cells_of(setting), CASES))
    result = asyncio.run(run_chunk(built, setting, cells, Stamp(plan.name, plan.git_commit)))
    if result.failed or not cells:
        return None
    return (result.usage.input_tokens + result.usage.output_tokens) / len(cells)
