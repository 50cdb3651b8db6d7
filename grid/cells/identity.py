"""The columns of a cell's row that tell what it is; they are known before it runs."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from grid.cells.rows import storable
from grid.core.chains import TaskKind
from grid.core.problem import Problem
from grid.core.roles import ASKED
from grid.core.types import to_json
from grid.planners.refining import NOT_REFINED
from grid.planners.remembering import NOT_REMEMBERED
from grid.settings.build import Built
from grid.settings.setting import GROUPS, MEMORY, REFINE, Cell, Setting

_KIND = tuple(item.name for item in fields(TaskKind))


def identity(setting: Setting, built: Built) -> dict[str, Any]:
    """What all rows of a setting have: its id, labels and versions; null for a role that is none of the setting's."""
    return storable(
        {
            "setting_id": setting.id,
            **{group: setting.labels[group] for group in GROUPS},
            REFINE: setting.labels.get(REFINE, NOT_REFINED),
            MEMORY: setting.labels.get(MEMORY, NOT_REMEMBERED),
            **{role: setting.labels.get(role) for role in ASKED},
            "engine": built.engine.name,
            "engine_version": built.engine.version,
            "sampler": built.engine.sampler,
            "dataset_version": built.version,
            "config": setting.text,
            "code": setting.code_id,
            "code_parts": to_json(dict(setting.code)),
        }
    )


def cell_columns(cell: Cell, built: Built, attempt_id: str) -> dict[str, Any]:
    """Which cell a row is of, and which try made it."""
    return {
        "cell_id": cell.cell_id,
        "cell_key": cell.cell_key,
        "attempt_id": attempt_id,
        "case_id": cell.case_id,
        "cluster": built.dataset.cluster(cell.case_id),
        "trial": cell.trial,
        "seed": cell.seed,
    }


def kind_columns(problem: Problem | None) -> dict[str, Any]:
    """Which task of agent_planning_benchmark a case is; nothing where it is none."""
    kind = problem.kind if problem else None
    return {} if kind is None else {name: getattr(kind, name) for name in _KIND}
