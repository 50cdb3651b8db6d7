"""Least cost of typed programs by brute force: every call on every fact, nothing left out and nothing taken early."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from functools import lru_cache
from itertools import count, product

from grid.worlds.programs.model import Applied, Constant, Fact, Task, TypedTool


class TooLargeError(Exception):
    """More states than brute force goes through."""


@lru_cache(maxsize=100_000)
def depth(fact: Fact) -> int:
    """How many functions are applied to one another's output."""
    return 0 if isinstance(fact, Constant) else 1 + max(map(depth, fact.inputs), default=0)


def least(task: Task, most: int, deepest: int) -> int | None:
    """The least cost of a solution, facts nested deeper than `deepest` left aside; None without one."""
    watched = sorted({argument for one in task.constraints for argument in one.arguments})
    wanted = {goal.fact for goal in task.goals}
    calls = [(tool, list(_parameters(tool).items())) for tool in task.tools.values() if tool.parts]
    number = count()
    heap: list[tuple[int, int, frozenset[Fact], tuple[int, ...]]] = [
        (0, next(number), frozenset(), (0,) * len(watched))
    ]
    seen = set()
    while heap:
        cost, _, found, counts = heapq.heappop(heap)
        if (found, counts) in seen:
            continue
        seen.add((found, counts))
        if len(seen) > most:
            raise TooLargeError
        called = dict(zip(watched, counts, strict=True))
        required = [one.arguments[0] for one in task.constraints if one.kind == "require_function"]
        if wanted <= found and all(called[one] for one in required):
            return cost
        for tool, parameters in calls:
            after = _counted(task, tool, called)
            if after is None:
                continue
            for made in _made(task, tool, parameters, found):
                new = found | {fact for fact in made if depth(fact) <= deepest}
                state = (new, tuple(after[name] for name in watched))
                if state != (found, counts) and state not in seen:
                    heapq.heappush(heap, (cost + (tool.cost or 0), next(number), *state))
    return None


def _parameters(tool: TypedTool) -> dict[str, str]:
    if not tool.wiring:
        names = [parameter.name for parameter in tool.spec.parameters]
        return dict(zip(names, tool.parts[0].inputs, strict=True))
    return {
        str(source): part.inputs[place]
        for part, wires in zip(tool.parts, tool.wiring, strict=True)
        for place, (kind, source) in enumerate(wires)
        if kind == "parameter"
    }


def _made(
    task: Task, tool: TypedTool, parameters: list[tuple[str, str]], found: frozenset[Fact]
) -> Iterator[list[Applied]]:
    outputs = {part.name: part.output for one in task.tools.values() for part in one.parts}
    by_type: dict[str, list[Fact]] = {}
    for fact in [*task.constants, *found]:
        by_type.setdefault(fact.type if isinstance(fact, Constant) else outputs[fact.function], []).append(fact)
    for facts in product(*(by_type.get(type_, []) for _, type_ in parameters)):
        given = dict(zip([name for name, _ in parameters], facts, strict=True))
        made: list[Applied] = []
        wiring = tool.wiring or [[("parameter", name) for name, _ in parameters]]
        for part, wires in zip(tool.parts, wiring, strict=True):
            inputs = (given[str(at)] if kind == "parameter" else made[int(at)] for kind, at in wires)
            made.append(Applied(part.name, tuple(inputs)))
        yield made


def _counted(task: Task, tool: TypedTool, called: dict[str, int]) -> dict[str, int] | None:
    """How often everything was called after the call, at most 5 times; None where it breaks a constraint."""
    after = dict(called)
    for one in task.constraints:
        if one.kind == "forbid_tool" and one.arguments[0] == tool.spec.name:
            return None
    for part in tool.parts:
        for one in task.constraints:
            mine = one.arguments[-1 if one.kind == "before" else 0] == part.name
            if not mine:
                continue
            if one.kind == "forbid_function" or (one.kind == "at_most" and after[part.name] >= int(one.arguments[1])):
                return None
            if one.kind == "before" and not after[one.arguments[0]]:
                return None
        if part.name in after:
            after[part.name] = min(after[part.name] + 1, 5)
    return after
