"""What the settings that change tools share: what is offered beside what, and whose terms a trajectory is in."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from types import MappingProxyType
from typing import Any

from grid.core.problem import Candidates, Evaluator, Measure, Problem, Reference
from grid.core.types import Case, Chain, Step, Substep, ToolCall, ToolSpec, Trajectory
from grid.core.util import derive_seed
from grid.text.references import needed
from grid.worlds.layers import Layer

Offer = Callable[[Case, Substep, tuple[ToolSpec, ...]], tuple[ToolSpec, ...]]
"""What becomes of a substep's candidates."""


def has_own_kind(problem: Problem) -> bool:
    """Whether it is a task of agent_planning_benchmark by itself, whose scorer knows its own tools alone."""
    return problem.kind is not None and not isinstance(problem.world, Layer)


def needed_calls(problem: Problem) -> dict[str, ToolCall]:
    """The reference's calls that the resolution takes and that the case still has to make, by step."""
    case, reference = problem.case, problem.reference
    wanted = reference.part(len(case.done), case.decisions).calls
    return {step: call for step, call in wanted.items() if call and step in needed(reference)}


def first_turn(reference: Reference, calls: Mapping[str, ToolCall]) -> dict[str, ToolCall]:
    """Of some calls those of the first turn that has any; all of them where an outline is followed."""
    found = dict[str, ToolCall]()
    for step, call in reference.calls.items():
        if step in calls:
            found[step] = calls[step]
        elif call is None and found and not reference.followed:
            break
    return found


def function_of(tool: str, problem: Problem) -> str:
    """The name that stands for all tools of its function."""
    return problem.same_function.get(tool, tool)


def offered_as(problem: Problem, offer: Offer) -> Candidates:
    """Candidates that are made of the problem's own; asked twice they are the same objects.

    What is retrieved is retrieved for the query as it was.
    """
    query = problem.case.query

    @cache
    def candidates(case: Case, substep: Substep) -> tuple[ToolSpec, ...]:
        stated = case if case.query == query else replace(case, query=query)
        return offer(case, substep, problem.candidates(stated, substep))

    return candidates


def beside(problem: Problem, new: Mapping[str, Sequence[ToolSpec]], seed: int) -> Problem:
    """The problem with further tools, each offered wherever the tool that it stands beside is.

    By lot it stands before or behind that one. Args: new: by the name of a tool what stands beside it.
    """
    specs = {spec.name: spec for group in new.values() for spec in group}

    def offer(case: Case, substep: Substep, offered: tuple[ToolSpec, ...]) -> tuple[ToolSpec, ...]:
        rng = random.Random(derive_seed(seed, "beside", case.id, substep.id))
        names, mixed = {tool.name for tool in offered}, list[ToolSpec]()
        for tool in offered:
            group = [spec for spec in new.get(tool.name, ()) if spec.name not in names]
            names |= {spec.name for spec in group}
            place = rng.randint(0, len(group))
            mixed += [*group[:place], tool, *group[place:]]
        return tuple(mixed)

    own = (spec.name for anchor in problem.own for spec in new.get(anchor, ()))
    return replace(
        problem,
        candidates=offered_as(problem, offer),
        library=MappingProxyType({**problem.library, **specs}),
        own=tuple(dict.fromkeys((*problem.own, *own))),
        query_tools=problem.query_tools + len(specs),  # so that none of the others is crowded out
        case=_told_later(problem.case, new),
    )


def _told_later(case: Case, new: Mapping[str, Sequence[ToolSpec]]) -> Case:
    """The case; what stands beside a tool that is on offer later is so too."""
    later = (
        replace(message, tools=message.tools | {one.name for tool in message.tools for one in new.get(tool, ())})
        for message in case.messages
    )
    return replace(case, messages=tuple(later))


def in_terms(problem: Problem, as_before: Callable[[Trajectory], Trajectory], own: Measure) -> Problem:
    """The problem whose metrics are those that it has, of a trajectory `as_before`, and some of its own."""
    examine = problem.examine

    def measure(trajectory: Trajectory) -> Mapping[str, Any]:
        return {**problem.measure(as_before(trajectory)), **own(trajectory)}

    async def examined(trajectory: Trajectory, evaluator: Evaluator) -> Mapping[str, Any]:
        return await examine(as_before(trajectory), evaluator) if examine else {}

    return replace(
        problem,
        measure=measure,
        examine=examined if examine else None,
        as_stated=lambda trajectory: problem.as_stated(as_before(trajectory)),
    )


def each_step(trajectory: Trajectory, change: Callable[[Step], Step]) -> Trajectory:
    """The trajectory with every step changed; a step of the path is the same object among the decisions."""
    known = {id(step): change(step) for step in (*trajectory.steps, *trajectory.decisions)}
    steps, decisions = (tuple(known[id(step)] for step in part) for part in (trajectory.steps, trajectory.decisions))
    return replace(trajectory, steps=steps, decisions=decisions)


def with_call(step: Step, change: Callable[[ToolCall], ToolCall]) -> Step:
    """The step with its call changed, as run and as written."""
    call, written = step.call and change(step.call), step.written and change(step.written)
    return step if (call, written) == (step.call, step.written) else replace(step, call=call, written=written)


def with_chain_calls(trajectory: Trajectory, change: Callable[[ToolCall], ToolCall]) -> Trajectory:
    """The trajectory with the calls changed of a chain that was predicted, where there is one."""

    def changed(chain: Chain | None) -> Chain | None:
        if chain is None:
            return None
        calls = ((one, change(ToolCall(one.name, one.arguments))) for one in chain.calls)
        return replace(chain, calls=tuple(replace(one, name=new.tool, arguments=new.arguments) for one, new in calls))

    return replace(
        trajectory,
        chain=changed(trajectory.chain),
        planned=changed(trajectory.planned),
        unrefined=changed(trajectory.unrefined),
    )
