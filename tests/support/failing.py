"""Cells whose paths are written by a test: run in their problem's own world, scored, and stored as any sweep's are."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from analysis.tables import failed
from grid import store
from grid.cells.rows import case_row, step_rows
from grid.core.problem import Problem
from grid.core.types import Json, Step, Substep, ToolCall, Trajectory, to_json
from grid.metrics.stepwise import scored
from grid.text.references import resolve
from tests.unit.store.test_store import episode

Calls = Sequence[tuple[str, ToolCall | None]]
UNREAD = ToolCall("", {})
"""Stands for an answer that could not be read."""


@dataclass(frozen=True)
class Made:
    """A path as a test writes it: by its decision's id a call, or none; `offered` are the tools of every decision."""

    problem: Problem
    calls: Calls
    dataset: str
    offered: tuple[str, ...] = ()
    forced: bool = False

    def rows(self, cell_id: str) -> tuple[dict[str, list[dict[str, Any]]], bool]:
        """Its rows, and whether the case was resolved; `forced`: they say that it was not in any case."""
        problem = self.problem
        steps, end = asyncio.run(walked(problem, self.calls))
        steps = [replace(step, candidates=self.offered) for step in steps]
        trajectory = Trajectory(tuple(steps), tuple(steps), end)
        scores = scored(problem, trajectory, problem.world.resolved(end))
        specs = [problem.library[name] for name in self.offered]
        case = case_row(problem)
        row = episode(
            cell_id,
            success=bool(scores["success"]) and not self.forced,
            dataset=self.dataset,
            model="m",
            planner="p",
            robustness="none",
            config=to_json({"planner": {"max_calls": 30}}),
            case_id=problem.case.id,
            case_digest=case["digest"],
            horizon_k=problem.kind.horizon_k if problem.kind else None,
            plan_errors=scores.get("plan_errors"),
            retrieval_rate=scores.get("retrieval_rate") if self.offered else None,
        )
        taken = step_rows(cell_id, "first", trajectory, problem.reference, lambda step: specs)
        return {"episodes": [row], "steps": taken, "cases": [case]}, bool(scores["success"])


async def walked(problem: Problem, calls: Calls) -> tuple[list[Step], Any]:
    """The steps of a path in its problem's own world, and the state behind them."""
    state, outputs, steps = problem.world.start(), dict[str, Mapping[str, Json]](), list[Step]()
    for place, (name, call) in enumerate(calls):
        substep = Substep(name, name, "")
        if call is None or call is UNREAD:
            steps.append(Step(0, substep, None, None, malformed=call is UNREAD, input_tokens=1))
            continue
        concrete = resolve(call, outputs)
        state, observation = await problem.world.apply(state, concrete)
        outputs[name] = observation.content if not observation.failed else {}
        steps.append(Step(0, substep, concrete, observation, written=call, input_tokens=1 + place))
    return steps, state


def told(root: Path, made: Mapping[str, Made]) -> dict[str, dict[str, Any]]:
    """What the rules say of each that did not resolve its case; written as one chunk, since every file is synced."""
    chunk: dict[str, list[dict[str, Any]]] = {"episodes": [], "steps": [], "cases": []}
    for name, one in made.items():
        rows, _ = one.rows(name)
        for table, found in rows.items():
            chunk[table] += found
    store.write(root, chunk)
    return {row["cell_id"]: row for row in failed.classes(root).to_pylist()}


def right_calls(problem: Problem) -> list[tuple[str, ToolCall | None]]:
    """The reference's calls as a planner makes them: by the outline's ids, or numbered from the calls already made."""
    begun = len(problem.case.done)
    calls = list(problem.reference.part(begun, problem.case.decisions).calls.items())
    if problem.reference.followed:
        return calls
    return [(str(place), call) for place, (_, call) in enumerate(calls, start=begun)]
