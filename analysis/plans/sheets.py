"""All tables of plans, in the order of their paper."""

from __future__ import annotations

from pathlib import Path

from analysis.plans import cells as plans
from analysis.plans import efficiency, elsewhere, extraneous, refinement, stepwise, tasks
from analysis.plans.sheet import SECTION as SECTION
from analysis.render import Sheet

OF_PAPER = "published agent_planning_benchmark "
"""How the names of its published tables begin."""


def sheets(root: Path) -> list[Sheet]:
    """Tables 1, 2, 4, 5, 14 and 15 in form, and what disturbs plans on other data sets; each where its data are.

    Raises:
        StoreError: the folder cannot be read.
    """
    cells = plans.read(root)
    if cells.empty:
        return []
    own = cells[cells["task_family"].notna()]
    return [
        *tasks.sheets(root, own),
        *extraneous.sheets(root, own),
        *stepwise.sheets(root, own),
        *refinement.sheets(root, own),
        *efficiency.sheets(root, cells),
        *elsewhere.sheets(root),
    ]
