"""The way in which all planners take one decision and move on to the next.

A *decision point* is a substep of the outline or, without an outline, "the next call, or finish with this answer". A
*policy* takes the decision at a point. A *rollout* applies a policy to one point after another and executes the
decisions (egb_slate §4.1). A *path* is immutable: a planner may continue from any path that it has kept, even from
several paths in parallel.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated

from pydantic import Field
from pydantic.dataclasses import dataclass as strict_dataclass

from grid.core.types import (
    FINISH,
    GIVE_UP,
    NO_TOOL,
    RESULT,
    OptionProbability,
    Step,
    Substep,
    ToolCall,
    ToolSpec,
    Trajectory,
    Usage,
    to_json,
)
from grid.core.util import STRICT, kept
from grid.core.world import State
from grid.episode import prompts
from grid.episode.episode import Episode
from grid.episode.options import Options
from grid.episode.progress import Executed
from grid.episode.prompts import Offer, Seen
from grid.text import references
from grid.text.references import misfit, misplaced, reference, take_results

# The path so far, and the view of one decision.


@dataclass(frozen=True)
class Path:
    """The steps done so far, and the world's state after them; a `finished` path may have an `answer`.

    `lines` are the steps as lines of a history. `said` contains the user's messages, keyed by the index of the step
    before each message.
    """

    steps: tuple[Step, ...]
    state: State
    lines: tuple[str, ...] = ()
    finished: bool = False
    answer: str | None = None
    said: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True)
class View:
    """The basis of one decision: the point, the path so far and its visible part, the options, and earlier lessons.

    `whole_query`: the tools are offered for the whole query and are the same at every point. `siblings`: lines about
    earlier actions at this point. `may_give_up`: giving up is an option too. `most_observed`: the maximum number of
    characters shown of each outcome. `answered`: finishing requires an answer. `plan`: the lines of a plan that was
    written before anything was run. `thought`: the thought on this decision, written before the tools were retrieved.
    """

    substep: Substep
    path: Path
    options: Options
    whole_query: bool = False
    seen: Seen = "all"
    lessons: tuple[str, ...] = ()
    siblings: tuple[str, ...] = ()
    may_give_up: bool = False
    most_observed: int | None = None
    answered: bool = False
    plan: tuple[str, ...] = ()
    thought: str = ""

    @kept
    def guided(self) -> bool:
        """Whether an outline determines the next substep."""
        return bool(self.substep.text)

    @property
    def history(self) -> tuple[str, ...]:
        """The visible part of the path, one line per step."""
        if self.seen == "all" and self.most_observed is None:
            return self.path.lines
        if self.seen == "none":
            return ()
        lines = (prompts.step_text(step, self.seen == "all", self.most_observed) for step in self.path.steps)
        return tuple(prompts.with_message(line, self.path.said.get(place)) for place, line in enumerate(lines))

    @kept
    def offer(self) -> Offer:
        """The options as a prompt lists them."""
        return prompts.offer(self.options, not self.guided, self.may_give_up, self.answered)


# Calls that are not run but requested again (planning_horizon B.2).


def checked(action: Action, view: View) -> Action:
    """The action or, if its call is `refused`, an unreadable action with the reason for the refusal."""
    if action.call is None:
        return action
    why = refused(action.call, view.offer.tools, {step.substep.id: _has_result(step) for step in view.path.steps})
    return Action(None, unreadable=why) if why else action


def results(view: View) -> tuple[str, ...] | None:
    """References to the results that a call at a point may use; None if no tool accepts results.

    Imagined calls are included, because it is unknown whether they would have a result.
    """
    if not take_results(view.offer.cards):
        return None
    made = (step for step in view.path.steps if step.written and (step.observation is None or _has_result(step)))
    return tuple(reference(step.substep.id, RESULT) for step in made)


def _has_result(step: Step) -> bool:
    return step.observation is not None and not step.observation.failed


def refused(call: ToolCall, offered: Mapping[str, ToolSpec], before: Mapping[str, bool]) -> str | None:
    """The reason why a call is not run but requested again (planning_horizon B.2); None if the call is run.

    A call is refused if it does not fit its tool or refers to a result that does not exist. `before` maps each earlier
    step to whether it may have a result. Calls are refused only if some tool accepts results. In benchmarks without
    such tools, even reference calls may lack arguments or have undeclared arguments, and the world reports errors in a
    call.
    """
    if not take_results(offered.values()):
        return None
    return misfit(call, offered[call.tool], exact=True) or misplaced(call, before)


# How every planner takes a decision and moves on to the next.


@strict_dataclass(frozen=True, config=STRICT)
class Acting:
    """The keys for decisions, which all planners have.

    Args:
        temperature: the temperature of every sampled answer.
        thought: the maximum number of characters of the thought before a sampled call; 0 for no thought.
        max_calls: the maximum number of decisions on a path without an outline.
        max_retries: the maximum number of further requests after an answer that cannot be read.
        demonstrations: the number of solved questions in the prompt, if the dataset has solved questions.
        max_tokens: the maximum number of tokens in one answer.
        fit_tokens: lower `max_tokens` to the model's own limit and to the space left in its context after the prompt,
            and print a line about these limits. Without `fit_tokens`, a model with a lower limit than `max_tokens` is
            refused if the planner `plans_ahead`, and otherwise only leads to a warning that answers are cut off; a
            prompt that leaves less space counts as too long.
    """

    temperature: Annotated[float, Field(ge=0)] = 1.0
    thought: Annotated[int, Field(ge=0, le=10_000)] = 0
    max_calls: Annotated[int, Field(ge=1, le=10_000)] = 30
    max_retries: Annotated[int, Field(ge=0, le=100)] = 0
    demonstrations: Annotated[int, Field(ge=0, le=1000)] = 10
    max_tokens: Annotated[int, Field(ge=1)] = 512
    fit_tokens: bool = False

    @property
    def plans_ahead(self) -> bool:
        """Whether one answer contains all remaining calls, so that a token limit may cut off the plan."""
        return False

    @property
    def answers_ahead(self) -> bool:
        """Whether the planner writes its final answer before it sees the results of its calls."""
        return self.plans_ahead


@dataclass(frozen=True)
class Action:
    """The action decided on: a call, or no call (None) if the substep needs no tool or the path is `finished`.

    If finishing answers the question (`Case.answered`), the finish is a `call` to be run. `given_up`: the path leads
    nowhere, so a rollout ends before this step and a search drops the action. `unreadable` is the reason why an answer
    could not be used. `reasoning`: as in Step.
    """

    call: ToolCall | None
    finished: bool = False
    answer: str | None = None
    thought: str | None = None
    unreadable: str | None = None
    given_up: bool = False
    reasoning: tuple[str, str] | None = None

    def __post_init__(self) -> None:
        """Raise ValueError if the action gives up but also calls or finishes."""
        if self.given_up and (self.call or self.finished):
            raise ValueError(
                f"Action(given_up=True, call={self.call}, finished={self.finished}): an action that gives up has no "
                "call and does not finish: Action(None, given_up=True)"
            )

    @property
    def tool(self) -> str:
        """The tool's name, NO_TOOL, FINISH or GIVE_UP."""
        if self.call:
            return self.call.tool
        return FINISH if self.finished else GIVE_UP if self.given_up else NO_TOOL


@dataclass(frozen=True)
class Decision:
    """One decision: the action, the distribution from which the action came, and the decision's cost.

    `selected` is the tool that was chosen, even if its arguments could not be read. `calls` contains the calls that
    were already sampled, by tool; for the other tools in `options`, arguments are sampled when needed. `behind`:
    further actions from the same answer, to be executed after this action. `view`: the view of the decision, if its
    tools were retrieved only during the decision. `with_last`: as in Step.
    """

    action: Action
    usage: Usage
    selected: str | None = None
    options: tuple[OptionProbability, ...] = ()
    entropy: float | None = None
    unassigned: float | None = None
    error_bound: float | None = None
    calls: dict[str, list[Action]] = field(default_factory=dict)
    behind: tuple[Action, ...] = ()
    view: View | None = None
    with_last: bool = False


Execute = Callable[[State, ToolCall, tuple[Step, ...]], Awaitable[Executed]]
"""Like `Episode.execute`."""
Policy = Callable[[Episode, View, str], Awaitable[Decision]]
"""A function of (episode, view, name of the pass) that takes a decision; name and substep determine the seed."""


@dataclass
class Rollout:
    """One pass: the path, its decisions, and the view on which each decision was based."""

    path: Path
    views: list[View] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)


def begin(episode: Episode) -> Path:
    """The path from which a planner starts: empty except for the steps done earlier."""
    before = episode.before
    lines = (
        prompts.with_message(prompts.step_text(step, answer=before.answers.get(place)), before.said.get(place))
        for place, step in enumerate(before.steps)
    )
    return Path(before.steps, episode.start(), tuple(lines), said=before.said)


def decisions_left(episode: Episode, path: Path, max_calls: int) -> int:
    """The number of decisions left on a path: the outline's remaining substeps, or the calls still allowed.

    The number is never higher than what `Case.decisions` leaves; it may be 0 or negative.
    """
    done, outline, most = len(path.steps), episode.case.plan.substeps, episode.case.decisions
    left = len(outline) - done if outline else max_calls - done + len(episode.before.steps)
    return left if most is None else min(left, most - done + len(episode.before.steps))


def next_point(episode: Episode, path: Path, max_calls: int) -> Substep | None:
    """The next decision point of a path; None at its end."""
    done, outline = len(path.steps), episode.case.plan.substeps
    if decisions_left(episode, path, max_calls) <= 0:
        return None
    if outline:
        return outline[done]
    return None if path.finished else Substep(str(done), "", "")


async def rollout(
    episode: Episode,
    policy: Policy,
    acting: Acting,
    path: Path,
    *,
    branch: int = 0,
    max_candidates: int | None = None,
    whole_query: bool = False,
    lessons: tuple[str, ...] = (),
    seen: Seen = "all",
    over: Callable[[Path], bool] | None = None,
) -> Rollout:
    """Decide and execute at every point from `path` on, until the path ends or `over` returns true.

    If an action gives up, the path ends without a step for this action. Without an outline, the tools for the whole
    query are offered. Each action in an answer becomes a separate step; the cost of the whole answer is booked on the
    first of these steps. The path reached by branch 0 is reported to the episode (`Episode.improved`). Raises the
    errors of `policy` and `perform`.
    """
    done, substep = Rollout(path), next_point(episode, path, acting.max_calls)
    while substep is not None and not (over and over(done.path)):
        whole = whole_query or not substep.text
        options = episode.options(None if whole else substep, done.path.steps, max_candidates)
        view = View(substep, done.path, options, whole, seen, lessons, answered=episode.case.answered)
        decision = await policy(episode, view, f"pass{branch}")
        view = decision.view or view
        for taken in (decision, *(Decision(action, Usage(), with_last=True) for action in decision.behind)):
            if taken.action.given_up:
                substep = None
                break
            if taken is not decision:
                if substep is None or (over and over(done.path)):
                    break
                view = replace(view, substep=substep, path=done.path)
            done.views.append(view)
            done.decisions.append(taken)
            done.path = await perform(episode, view, taken, branch)
            substep = next_point(episode, done.path, acting.max_calls)
    if not branch:
        episode.improved(trajectory(episode, done.path))
    return done


async def perform(
    episode: Episode, view: View, decision: Decision, branch: int = 0, execute: Execute | None = None
) -> Path:
    """Execute a decision's action from the view's path; return the path with the new step.

    `execute` replaces `Episode.execute`. A finish that the world refuses is a failed call, and the path continues. The
    step is added to `Episode.decisions`; with `branch` 0, the path is kept as the first pass. Raises like `execute`.
    """
    path, call = view.path, decision.action.call
    executed = Executed(path.state, None, None)
    if call is not None:
        executed = await (execute or episode.execute)(path.state, call, path.steps)
    step = _step(view, decision, executed, branch)
    episode.decisions.append(step)
    line = prompts.step_text(step, answer=decision.action.answer)
    state, answer = executed.state, decision.action.answer
    if step.finished and call is not None:
        answer = episode.answer(state)
    elif step.finished:
        answer = filled(answer, path.steps)
        state = episode.ended(state, answer)
    reached = _behind(view, state, step, line, answer)
    if episode.over(state):
        reached = replace(reached, finished=True)
    if not branch:
        episode.first_pass = partial(trajectory, episode, reached)
    return reached


def filled(answer: str | None, steps: tuple[Step, ...]) -> str | None:
    """The final answer with its references filled in; a step's `result` stands for the step's whole output."""
    told = ToolCall(FINISH, {"answer": answer})
    if answer is None or not references.refers(told):
        return answer
    whole = {step.substep.id: step.observation.text() for step in steps if step.observation}
    outputs = {name: {RESULT: whole[name], **fields} for name, fields in references.outputs_of(steps).items()}
    found = references.resolve(told, outputs).arguments["answer"]
    return found if isinstance(found, str) else to_json(found)


def imagine(view: View, decision: Decision) -> Path:
    """The view's path with one more decision that is not executed, so the world's state stays the same."""
    state = view.path.state
    step = _step(view, decision, Executed(state, decision.action.call, None), 0)
    answer = decision.action.answer
    return _behind(view, state, step, prompts.step_text(step, observed=False, answer=answer), answer)


def _behind(view: View, state: State, step: Step, line: str, answer: str | None) -> Path:
    path = view.path
    return Path((*path.steps, step), state, (*path.lines, line), step.finished, answer, path.said)


def _step(view: View, decision: Decision, executed: Executed, branch: int) -> Step:
    action, observation, spent = decision.action, executed.observation, decision.usage.known()
    finished = action.finished and not (observation and observation.failed)
    return Step(
        branch=branch,
        substep=view.substep,
        call=None if finished else executed.call,
        observation=observation,
        written=action.call,
        thought=action.thought,
        malformed=action.unreadable is not None,
        finished=finished,
        entropy=decision.entropy,
        options=decision.options,
        unassigned=decision.unassigned,
        error_bound=decision.error_bound,
        candidates=view.offer.candidates,
        whole_query=view.whole_query,
        sought=view.options.sought,
        input_tokens=spent["input_tokens"],
        cached_input_tokens=spent["cached_input_tokens"],
        output_tokens=spent["output_tokens"],
        reasoning=action.reasoning,
        with_last=decision.with_last,
    )


def trajectory(
    episode: Episode,
    path: Path,
    decisions: tuple[Step, ...] | None = None,
    branches: int = 0,
    branched_steps: int | None = None,
    replans: int = 0,
) -> Trajectory:
    """The path as a planner's trajectory. If the path has no answer, the answer is read from the tools' results."""
    answer = path.answer if path.answer is not None else episode.answer(path.state)
    taken = path.steps if decisions is None else decisions
    return Trajectory(
        path.steps,
        taken,
        path.state,
        branches,
        branched_steps,
        replans,
        answer,
        planned=episode.plans.planned,
        unrefined=episode.plans.unrefined,
    )
