"""All tables of plans, in the order of their paper."""

from __future__ import annotations

from pathlib import Path

from analysis.plans import cells as plans
from analysis.plans import efficiency, execution, extraneous, refinement, stepwise, tasks
from analysis.plans.sheet import SECTION as SECTION
from analysis.table import Table

OF_PAPER = "published agent_planning_benchmark "
"""How the names of its published tables begin."""


def sheets(root: Path) -> list[Table]:
    """Tables 1 to 5, 14 and 15 in form; each where its data are. `analysis.disturbances` has other data sets'.

    Raises:
        StoreError: the folder cannot be read.
    """
    executed, cells = execution.sheets(root), plans.read(root)
    if cells.empty:
        return executed
    own = cells[cells["task_family"].notna()]
    return [
        *tasks.sheets(root, own),
        *extraneous.sheets(root, own),
        *stepwise.sheets(root, own),
        *executed,
        *refinement.sheets(root, own),
        *efficiency.sheets(root, cells),
    ]
