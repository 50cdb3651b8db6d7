"""The columns of a cell's row that tell what it is; they are known before it runs."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from grid.chains import TaskKind
from grid.datasets.base import Problem
from grid.engines.roles import ASKED
from grid.planners.refining import NOT_REFINED
from grid.planners.remembering import NOT_REMEMBERED
from grid.runner.build import Built
from grid.runner.cell import GROUPS, MEMORY, REFINE, Cell, Setting
from grid.types import to_json


def identity(setting: Setting, built: Built, cell: Cell, attempt_id: str) -> dict[str, Any]:
    """Ids, labels and versions; null for a role that is none of the setting's."""
    return {
        "cell_id": cell.cell_id,
        "cell_key": cell.cell_key,
        "setting_id": setting.id,
        "attempt_id": attempt_id,
        **{group: setting.labels[group] for group in GROUPS},
        REFINE: setting.labels.get(REFINE, NOT_REFINED),
        MEMORY: setting.labels.get(MEMORY, NOT_REMEMBERED),
        **{role: setting.labels.get(role) for role in ASKED},
        "engine": built.engine.name,
        "engine_version": built.engine.version,
        "sampler": built.engine.sampler,
        "dataset_version": built.version,
        "case_id": cell.case_id,
        "cluster": built.dataset.cluster(cell.case_id),
        "trial": cell.trial,
        "seed": cell.seed,
        "config": setting.text,
        "code": setting.code_id,
        "code_parts": to_json(dict(setting.code)),
    }


def kind_columns(problem: Problem | None) -> dict[str, Any]:
    """Which task of agent_planning_benchmark a case is; all null where it is none."""
    kind = problem.kind if problem else None
    return {item.name: getattr(kind, item.name, None) for item in fields(TaskKind)}
