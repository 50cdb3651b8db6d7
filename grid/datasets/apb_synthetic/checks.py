"""What has to hold of every case, proved case by case."""

from __future__ import annotations

from collections.abc import Iterator

from grid.core.chains import ALTER, REPLACE, Chain, ChainCall
from grid.datasets.apb_synthetic.build import Built
from grid.datasets.apb_synthetic.costs import COMPOSITES, TRAPS
from grid.datasets.apb_synthetic.found import found
from grid.worlds.programs import search
from grid.worlds.programs.model import Function, Task
from grid.worlds.programs.scoring import diagnose
from grid.worlds.programs.values import distinct


def broken_rules(built: Built) -> Iterator[str]:
    """A line for each rule that a case breaks."""
    task, kind = built.task, built.kind
    name = built.recipe.id
    if not distinct([*built.solvable.constants, *built.solvable.needed], functions(built.solvable)):
        yield f"{name}: two facts have one value"
    why = search.derivable(task)
    if kind.task_family == "unsolvable":
        if why is None:
            yield f"{name}: unsolvable, and calls solve it"
        if search.derivable(built.solvable) is not None:
            yield f"{name}: the case that it was made from cannot be solved"
        verdict = diagnose(task, kind, Chain((), "it cannot be done"))
        if not verdict.refused:
            yield f"{name}: a refusal is not taken for one"
        return
    if why is not None:
        yield f"{name}: it cannot be solved: {why}"
    if not set(task.wanted) <= {fact for outcome in found(task) for fact in outcome.values()}:
        yield f"{name}: the reference does not find all that is wanted"
    verdict = diagnose(task, kind, predicted(task))
    right = verdict.behaviour in (REPLACE, ALTER) if kind.task_family == "broken" else verdict.correct
    if not right:
        yield f"{name}: its reference is judged {sorted(verdict.errors) or verdict.behaviour}: {verdict.reasons}"
    refused = diagnose(task, kind, Chain((), "it cannot be done"))
    if refused.correct or refused.behaviour in (REPLACE, ALTER):
        yield f"{name}: a refusal passes"
    called = {tool for tool, _ in task.reference}
    for tool in task.tools.values():
        if tool.extraneous and tool.spec.name in called:
            yield f"{name}: its reference calls {tool.spec.name}, which is of no use"
    if kind.task_family == "costs":
        yield from (f"{name}: {text}" for text in _costs(built))


def predicted(task: Task) -> Chain:
    """What a right prediction is: the reference behind the calls made, so much of it as is asked for."""
    first = len(task.done)
    calls = task.reference[first : None if task.horizon is None else first + task.horizon]
    return Chain(tuple(ChainCall(name, arguments) for name, arguments in calls), first=first)


def functions(task: Task) -> dict[str, Function]:
    """The functions of a task's tools by name."""
    return {part.name: part for tool in task.tools.values() for part in tool.parts}


def _costs(built: Built) -> Iterator[str]:
    task = built.task
    plain = {tool.parts[0].name: tool.cost or 0 for tool in task.tools.values()
             if len(tool.parts) == 1 and tool.stands_for is None}  # fmt: skip
    joined = [tool for tool in task.tools.values() if len(tool.parts) > 1]
    cheap = [tool for tool in joined if (tool.cost or 0) < sum(plain[part.name] for part in tool.parts)]
    traps = len(task.tools) - len(cheap) - len(plain)
    if not COMPOSITES[0] <= len(cheap) <= COMPOSITES[1]:
        yield f"{len(cheap)} composites, {COMPOSITES[0]} to {COMPOSITES[1]} are wanted"
    if not TRAPS[0] <= traps <= TRAPS[1] + 1:  # one more where the query forbids a tool by name
        yield f"{traps} traps, {TRAPS[0]} to {TRAPS[1]} are wanted"
    if any(not 1 <= cost <= 5 for cost in plain.values()):
        yield "a base cost is not from 1 to 5"
    spent = sum(task.tools[name].cost or 0 for name, _ in task.reference)
    least = search.least_cost(task)
    if least is None or least > spent:
        yield f"least cost {least}, its reference costs {spent}"
    if any(len(tool.parts) >= len(task.needed) for tool in task.tools.values()):
        yield "one call solves it"
