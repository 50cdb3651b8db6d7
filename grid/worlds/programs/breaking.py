"""Mutations that break what the query asks for: constraints (E3), and goals that nobody has (E1)."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import TypeAlias

from grid.worlds.programs.drafts import Draft, Output, Step, outputs
from grid.worlds.programs.model import Constraint

Made: TypeAlias = Iterator[tuple[str, str, Draft]]
"""The error, what was done, and the changed chain."""


def put(made: Draft, step: Step, rng: random.Random) -> None:
    """A call more anywhere, or in a step-wise answer the last one."""
    if made.horizon is None:
        made.steps.insert(rng.randint(0, len(made.steps)), step)
    else:
        made.steps[-1] = step


def call_forbidden_tool(made: Draft, rng: random.Random) -> Made:
    """The forbidden tool in the place of the one with its function."""
    forbidden = {one.arguments[0] for one in made.task.constraints if one.kind == "forbid_tool"}
    for step in rng.sample(made.steps, len(made.steps)):
        own = made.task.tools[step.tool]
        for name in sorted(forbidden & made.task.tools.keys()):
            tool = made.task.tools[name]
            if tool.parts == own.parts and len(tool.parts) == 1 and tool.spec.name != step.tool:
                renamed = zip(tool.spec.parameters, own.spec.parameters, strict=False)
                step.arguments = {
                    new.name: step.arguments[old.name] for new, old in renamed if old.name in step.arguments
                }
                _rename_fields(made, step, own.spec.returns, tool.spec.returns)
                step.tool = name
                yield "E3", "the forbidden tool is called", made


def _rename_fields(made: Draft, step: Step, old: tuple[str, ...], new: tuple[str, ...]) -> None:
    fields = dict(zip(old, new, strict=True))
    for user in made.steps:
        for name, one in user.arguments.items():
            if isinstance(one, Output) and one.of is step:
                user.arguments[name] = Output(step, fields[one.field])


def break_order(made: Draft, rng: random.Random) -> Made:
    """A call comes before the one that it has to come behind, though it does not use its result."""
    for rule in made.task.constraints:
        if rule.kind != "before":
            continue
        firsts = [place for place, step in enumerate(made.steps) if rule.arguments[0] in _functions(made, step)]
        if not firsts or any(rule.arguments[0] in _functions(made, step) for step in made.done):
            continue
        for place in range(firsts[0] + 1, len(made.steps)):
            step, passed = made.steps[place], made.steps[firsts[0] : place]
            if rule.arguments[1] in _functions(made, step) and not any(one.of in passed for one in outputs(step)):
                made.steps.remove(step)
                made.steps.insert(firsts[0], step)
                yield "E3", "the order asked for is not kept", made
                return


def call_forbidden(made: Draft, rng: random.Random) -> Made:
    """A call more, of a function that is forbidden."""
    forbidden = {one.arguments[0] for one in made.task.constraints if one.kind == "forbid_function"}
    for step in _further(made, rng):
        if forbidden & set(_functions(made, step)) and _serves(made, step):
            yield "E3", "a forbidden function is called", made


def other_goal(made: Draft, rng: random.Random) -> Made:
    """A call for a goal that nobody has."""
    for step in _further(made, rng):
        if not _serves(made, step):
            yield "E1", "a call for another goal", made


def _serves(made: Draft, step: Step) -> bool:
    serves = made.task.tools[step.tool].serves
    return not serves or not serves.isdisjoint(goal.tag for goal in made.task.goals)


def _further(made: Draft, rng: random.Random) -> Iterator[Step]:
    """The chain with a call of each tool that is of use elsewhere, one after another."""
    kept = list(made.steps)
    used = {function for step in [*kept, *made.done, *made.rest] for function in _functions(made, step)}
    for tool in rng.sample(list(made.task.tools.values()), len(made.task.tools)):
        if tool.extraneous or used & {part.name for part in tool.parts}:
            continue
        step = Step(tool.spec.name, {})
        made.steps = list(kept)
        put(made, step, rng)
        place = made.steps.index(step)
        for name, type_ in made.types(step).items():
            options = [one for its, one in made.there(place) if its == type_]
            if options:
                step.arguments[name] = rng.choice(options)
        if len(step.arguments) == len(made.types(step)):
            yield step
    made.steps = kept


def _functions(made: Draft, step: Step) -> list[str]:
    return [part.name for part in made.task.tools[step.tool].parts]


def broken(made: Draft, whole: bool) -> set[str]:
    """{"E3"} where the predicted calls break a constraint."""
    before = [function for step in made.done for function in _functions(made, step)]
    now = [function for step in made.steps for function in _functions(made, step)]
    tools = {step.tool for step in made.steps if not step.misnamed}
    return {"E3"} if any(_breaks(one, before, now, tools, whole) for one in made.task.constraints) else set()


def _breaks(rule: Constraint, before: list[str], now: list[str], tools: set[str], whole: bool) -> bool:
    first = rule.arguments[0]
    every = before + now
    if rule.kind == "forbid_tool":
        return first in tools
    if rule.kind == "forbid_function":
        return first in now
    if rule.kind == "require_function":
        return whole and first not in every
    if rule.kind == "at_most":
        return first in now and every.count(first) > int(rule.arguments[1])
    behind = every.index(first) if first in every else len(every)
    return any(
        function == rule.arguments[1] and place < behind for place, function in enumerate(every) if place >= len(before)
    )
