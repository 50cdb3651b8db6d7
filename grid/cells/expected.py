"""The expected success of an engine with a given skill in a single pass, computed from the case and the planner."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from grid.core.engine import SIMULATOR
from grid.core.problem import DRAFTED, Problem
from grid.core.types import FINISH, REJECT, UNKNOWN, Case, Json, ToolCall
from grid.core.util import can
from grid.core.world import World
from grid.engines.hosted import Informed, SinglePass, Stage
from grid.episode.episode import Planner
from grid.episode.options import Retrieved
from grid.planners.horizon import FullHorizon, SingleStepHorizon
from grid.planners.react import BaselineLLM, ReAct
from grid.robustness.schema_matching import MatchingWorld
from grid.settings.build import Built
from grid.text.calls import listed, misspelt
from grid.text.references import answering, found_in, needed, resolve
from grid.worlds.layers import RetrievingWorld, ended


async def expected_success(built: Built, problem: Problem, case: Case) -> float | None:
    """The probability of success in closed form; None if there is no closed form.

    There is a closed form only if the engine's skill is given by its config, the planner decides every step once, no
    outline is drafted, there is no memory, tools are retrieved once, the case has a single turn and cannot be refused,
    and the tools can be tried, behave as in the dataset and use no model.
    """
    if not can(type(built.engine), Informed) or built.dataset.outline == DRAFTED or built.compares_texts:
        return None
    if built.memory:  # a step's success depends on the traces
        return None
    if SIMULATOR in built.roles:  # it is unknown how a model answers a call
        return None
    if not problem.world.branches:  # the world's tools cannot be tried
        return None
    if problem.retrieved != "static":  # the tools that a step is offered depend on earlier steps
        return None
    if case.messages or case.decisions is not None:  # a single pass is not the whole case
        return None
    if case.diagnosed or problem.reference.unsolvable or REJECT in problem.library:  # the case may be refused
        return None
    form = _form(built.planner, guided=bool(case.plan.substeps))
    if form is None or not _as_stated(problem.world, built.dataset.problem(case.id).world):
        return None
    if isinstance(problem.world, RetrievingWorld) and not await _resolved_with(problem, "", None):
        return 0.0  # searches do not find the paragraphs that the reference needs
    whole = isinstance(built.planner, FullHorizon | SingleStepHorizon) or not form.outlined
    retrieved = Retrieved.of(problem)
    stages = await _stages(problem, case, retrieved, whole)
    spare = sum(not stage.needed for stage in stages)
    if isinstance(built.planner, SingleStepHorizon) and spare > built.planner.max_failed_calls:
        return None  # a pass may end before its last step although all needed steps are right
    return cast(Informed, built.engine).expected(form._replace(stages=stages))


def _as_stated(world: World, stated: World) -> bool:
    """Whether the tools behave as in the dataset, except perhaps for names that the dataset does not have."""
    return type(world.inner if isinstance(world, MatchingWorld) else world) is type(stated)


def _form(planner: Planner, guided: bool) -> SinglePass | None:
    """The `SinglePass` of a planner, with `stages` still empty; None if the planner makes no single pass."""
    if not isinstance(planner, BaselineLLM | ReAct | SingleStepHorizon | FullHorizon):
        return None
    return SinglePass(
        stages=(),
        answers=planner.max_retries + 1,  # every try has its own prompt, so also its own draw at temperature 0
        fatal=isinstance(planner, SingleStepHorizon),
        blind=isinstance(planner, BaselineLLM),
        replans=planner.max_failed_calls if isinstance(planner, FullHorizon) else None,
        outlined=guided,
    )


async def _stages(problem: Problem, case: Case, retrieved: Retrieved, whole_query: bool) -> tuple[Stage, ...]:
    """The case's steps in order; without an outline, only the steps that call a tool."""
    reference, substeps = problem.reference, {step.id: step for step in case.plan.substeps}
    steps = [step for step, call in reference.calls.items() if call or substeps]
    resolving, places, stages = needed(reference), {step: place for place, step in enumerate(steps)}, list[Stage]()
    for step in steps:
        call = reference.calls[step]
        if call is None:
            stages.append(Stage(needed=False, calls=False))
            continue
        offered = retrieved.tools(case, None if whole_query else substeps[step])
        found = any(tool.name == call.tool for tool in offered)
        stages.append(
            Stage(
                needed=step in resolving,
                calls=True,
                offered=found,
                arguments=await _can_be_wrong(problem, step, call),
                forgiven=await _forgiven(problem, step, call),
                uses=tuple(sorted({places[producer] for producer, _ in found_in(call)})),
                others=len(offered) + 1 - found if substeps else 0,
            )
        )
    return tuple(stages)


async def _can_be_wrong(problem: Problem, step: str, call: ToolCall) -> bool:
    """Whether wrong arguments make the call fail or leave the case unresolved. Some calls accept any values."""
    if not call.arguments:
        return False
    wrong = ToolCall(call.tool, dict.fromkeys(call.arguments, UNKNOWN))
    _, observation = await problem.world.apply(problem.world.start(), wrong)
    return observation.failed or not await _resolved_with(problem, step, wrong)


async def _forgiven(problem: Problem, step: str, call: ToolCall) -> bool:
    """Whether the case would be resolved if the call had a misspelt name, which only forgiving tools accept."""
    if not isinstance(problem.world, MatchingWorld) or not problem.world.mends:
        return False
    near = misspelt(call, listed(problem.library.get(call.tool)))
    return near is not None and await _resolved_with(problem, step, near)


async def _resolved_with(problem: Problem, place: str, wrong: ToolCall | None) -> bool:
    """Whether the reference's calls would resolve the case if `wrong` (unless None) replaced the call at `place`."""
    state, outputs = problem.world.start(), dict[str, Mapping[str, Json]]()
    for step, call in problem.reference.calls.items():
        if call:
            made = resolve(wrong if wrong and step == place else call, outputs)
            state, observation = await problem.world.apply(state, made)
            outputs[step] = observation.content
    if problem.case.answered:
        finish = ToolCall(FINISH, {"answer": answering(problem.reference.resolution)})
        state, _ = await problem.world.apply(state, resolve(finish, outputs))
    else:
        state = ended(problem.world, state, problem.reference.answer)
    return problem.world.resolved(state)
