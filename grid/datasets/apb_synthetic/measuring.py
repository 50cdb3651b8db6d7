"""Scores of a chain by the symbolic scorer (agent_planning_benchmark §3.3, §4.2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any

from grid.core.chains import TaskKind
from grid.core.types import Trajectory
from grid.episode.chains import chain_of
from grid.worlds.programs import search
from grid.worlds.programs.model import Task
from grid.worlds.programs.scoring import diagnose


def least_cost_of(task: Task) -> Callable[[], int | None]:
    """The least cost that solves a task, searched for when it is first asked for."""
    return cache(partial(search.least_cost, task))


def measure(
    task: Task, kind: TaskKind, least_cost: Callable[[], int | None], trajectory: Trajectory
) -> Mapping[str, Any]:
    """The fields of `Scores` that speak of plans, `success` among them; `unrefined_*` where there was a critique."""
    chain = chain_of(trajectory)
    found = diagnose(task, kind, chain)
    scores: dict[str, Any] = {
        "success": found.correct,
        "plan_correct": found.correct,
        "plan_grade": found.grade,
        "plan_errors": tuple(sorted(found.errors)),
        "behaviour": found.behaviour,
        "refused": found.refused,
        "extraneous_calls": found.extraneous_calls,
        "unresolved_arguments": found.unresolved_arguments,
    }
    if kind.task_family == "costs":
        scores |= {"plan_cost": found.cost, "least_cost": least_cost()}
    if trajectory.unrefined is not None:
        before = diagnose(task, kind, trajectory.unrefined)
        scores |= {
            "unrefined_correct": before.correct,
            "unrefined_grade": before.grade,
            "unrefined_errors": tuple(sorted(before.errors)),
        }
    return scores
