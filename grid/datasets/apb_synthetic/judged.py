"""What a judge is shown of a generated case, and what is true of a plan of it (agent_planning_benchmark §C)."""

from __future__ import annotations

from grid.core.chains import Chain, TaskKind, Verdict
from grid.core.types import Step, ToolCall
from grid.episode.plan_judging import JudgedTask
from grid.worlds.programs.model import Task
from grid.worlds.programs.scoring import diagnose


def judged_task(task: Task, kind: TaskKind, done: tuple[Step, ...]) -> JudgedTask:
    """The task in words; `done` are its first calls with what they returned."""
    behind = task.reference[len(done) :] if kind.task_family != "unsolvable" else ()
    return JudgedTask(
        task.query,
        kind,
        tuple(tool.spec for tool in task.tools.values()),
        tuple(ToolCall(name, dict(arguments)) for name, arguments in behind),
        done,
        tuple(name for name, tool in task.tools.items() if tool.extraneous),
        task.broken,
        task.replacement,
        {name: tool.cost for name, tool in task.tools.items() if tool.cost is not None},
    )


def truth(task: Task, kind: TaskKind, chain: Chain) -> Verdict:
    """What the symbolic scorer says of a plan."""
    found = diagnose(task, kind, chain)
    if kind.task_family in ("broken", "unsolvable"):
        return Verdict(found.correct)
    return Verdict(found.correct, found.errors, found.grade)
