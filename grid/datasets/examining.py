"""What an evaluator is shown of a finished trajectory, for every benchmark that asks about one."""

from __future__ import annotations

from grid.core.engine import Section
from grid.core.types import Trajectory
from grid.episode.prompts import history_section, step_text

OBSERVED = 2_000
"""Characters of each outcome that are shown."""
WHOLE = Section("proposal", ("All steps above are judged together.",))
"""Ends a prompt that asks for a score of a whole trajectory."""


def told(trajectory: Trajectory) -> tuple[str, ...]:
    """A line a step, each with its call and what it returned, and the answer at the end."""
    lines = [step_text(step, most=OBSERVED) for step in trajectory.steps if not step.finished]
    return (*lines, f"Final answer: {trajectory.answer}" if trajectory.answer else "No final answer was given.")


def query_section(query: str) -> Section:
    """What was asked for."""
    return Section("task", (f"Query: {query}",))


def done_section(trajectory: Trajectory) -> Section:
    """What was done about it."""
    return history_section(told(trajectory))
