"""Ask for one answer that plans all remaining calls, parse the plan, and run it (planning_horizon §2.2)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, NamedTuple, Protocol, TypeVar

from grid.core.engine import FunctionsAnswer, PlanAnswer, Prompt, Section
from grid.core.errors import ModelError
from grid.core.types import FINISH, NO_TOOL, REJECT, Chain, ChainCall, Json, ToolCall, Trajectory, Usage, to_json
from grid.episode import prompts
from grid.episode.acting import Acting, Action, Decision, Path, View, decisions_left, next_point, perform, refused
from grid.episode.asking import ASK_WITHOUT, ASK_WORDS, in_form, native_calls, read_action, sections
from grid.episode.episode import Episode, Planner
from grid.episode.requests import Answers, again, rejected
from grid.text.answers import NO_CALL, read_plan
from grid.text.calls import Call
from grid.text.objects import UnreadableError

ASK_CALLS = "Plan all calls that are needed. The first is step {first}."
ASK_SUBSTEPS = (
    "Plan the substeps {first} to {last}: one entry for each, in order. If a substep calls no tool, its entry "
    f'has the tool "{NO_TOOL}".'
)
ASK_LAST = f'Plan the last substep, {{first}}: one entry. If it calls no tool, its tool is "{NO_TOOL}".'
ASK_ANSWER = "Plan all calls that are needed; the last one finishes with the answer. The first is step {first}."
ASK_REASONING = '"thought": your step-by-step reasoning about the calls that the request needs, '
ASK_PLAN = 'Answer with one JSON object: {{{thought}"plan": [{{"tool": name, "arguments": {{name: value}}}}, ...]}}.'
ASK_AT_ONCE = "Make all of these calls in this one answer, in order."


def whole_view(episode: Episode, path: Path, max_calls: int) -> View | None:
    """The view at the next point of a path, with the tools of the whole query; None at the path's end."""
    substep = next_point(episode, path, max_calls)
    if substep is None:
        return None
    options = episode.options(None, path.steps)
    return View(substep, path, options, whole_query=True, answered=episode.case.answered)


async def plan_ahead(
    episode: Episode,
    view: View,
    acting: Acting,
    notes: tuple[str, ...] = (),
    exact: bool = False,
    refine: Refine | None = None,
) -> Drafted[list[Action]]:
    """A plan's actions, starting at a point; an unreadable plan is requested again, as often as the retries allow.

    Args:
        episode: the case.
        view: the point, with the tools of the whole query.
        acting: the settings of the request; a `thought` comes before the plan and belongs to the plan's first action.
        notes: lines before the request.
        exact: whether a plan with a `refused` call counts as unreadable.
        refine: a function that changes the draft before the plan is used.

    Raises:
        ModelError: the model gave no usable plan, even after all retries.
        BudgetError, ContextError: as for `Episode.sample`.
    """

    def read(asked: Answers) -> list[Action] | None:
        return read_plan_of(asked, episode, view, acting, exact)

    prompt, key = plan_prompt(episode, view, acting, notes), ("plan", len(view.path.steps))
    asked = prompt.entries("instruction")[:-1]  # the last line describes the form of the answer
    return await drafted(episode, Asking(prompt, key, view.substep.id, acting, read, written, asked), refine)


def written(plan: Sequence[Action]) -> str:
    """A plan, written in the form of an answer."""
    return to_json({"plan": [written_action(action) for action in plan]})


def written_action(action: Action) -> dict[str, Json]:
    """An action as an entry of a plan."""
    call = action.call or (prompts.finishing(action.answer) if action.finished else ToolCall(NO_TOOL, {}))
    return {"tool": call.tool, "arguments": dict(call.arguments)}


def chain_written(plan: Sequence[Action] | None, view: View) -> Chain | None:
    """A plan that starts at a point, as a chain of calls; None if there is no plan. A call to REJECT ends the chain."""
    if plan is None:
        return None
    calls, refusal, words = list[ChainCall](), None, ""
    for action in plan:
        if action.call and action.call.tool == REJECT:
            refusal = str(action.call.arguments.get("reason", ""))
            break
        if action.call and not action.finished:
            calls.append(ChainCall(action.call.tool, action.call.arguments, action.thought or ""))
        words = action.answer or words
    first = view.substep.id
    return Chain(tuple(calls), refusal, words, int(first) if first.isdecimal() else 0)


def _never(path: Path) -> bool:
    return False


async def run_plan(
    episode: Episode,
    view: View,
    plan: list[Action],
    usage: Usage,
    acting: Acting,
    over: Callable[[Path], bool] = _never,
) -> Path:
    """Execute a plan without the model until the plan ends, the path ends or `over` returns true; returns the path.

    The first step carries the plan's cost. All steps have the options that were offered for the plan.
    """
    path = view.path
    for action in plan:
        at = whole_view(episode, path, acting.max_calls)
        if at is None:
            break
        path, usage = await perform(episode, replace(at, options=view.options), Decision(action, usage)), Usage()
        if over(path):
            break
    return path


def plan_prompt(episode: Episode, view: View, acting: Acting, notes: tuple[str, ...] = ()) -> Prompt:
    """The prompt for a plan; with an outline, the plan has one entry for each remaining substep."""
    first, left, outline = (
        view.substep.id,
        decisions_left(episode, view.path, acting.max_calls),
        episode.case.plan.substeps,
    )
    free = ASK_ANSWER if view.answered else ASK_CALLS
    form = (ASK_SUBSTEPS if left > 1 else ASK_LAST) if outline else free
    ask = form.format(first=first, last=outline[-1].id if outline else "")
    wanted = ASK_PLAN.format(thought=ASK_REASONING if acting.thought else "")
    alone = () if view.guided else (ASK_WITHOUT,)
    native = (*notes, ask, ASK_AT_ONCE, *alone, *((ASK_WORDS,) if acting.thought else ()))
    before = sections(episode, view, view.offer.section, acting)
    least = left if view.guided else 1
    # A plan that must end with a finish may have more calls than may still be run, so that the finish fits into the
    # plan; only as many calls as allowed are run.
    most = acting.max_calls if view.answered else left
    answer = PlanAnswer(view.offer.cards, least, most, view.guided, acting.thought, native)
    return prompts.prompt(answer, *before, Section("instruction", (*notes, ask, wanted)))


def read_plan_of(
    asked: Answers, episode: Episode, view: View, acting: Acting, exact: bool = False
) -> list[Action] | None:
    """The actions of the plan in an answer; None if the plan cannot be used (the message records the reason)."""
    left, offered = decisions_left(episode, view.path, acting.max_calls), view.offer.tools
    try:
        calls = _calls(asked, view)
        if view.guided and len(calls) != left:
            raise UnreadableError(f"a plan of {len(calls)} entries, where {left} are wanted")
        plan = [read_action(call, offered, view.guided, acting.thought) for call in calls]
        if why := next((action.unreadable for action in plan if action.unreadable), None):
            raise UnreadableError(why)
        if view.answered and not plan[-1].finished:
            raise UnreadableError(
                f"a plan whose last call is {plan[-1].tool}, where it must be {FINISH}, with the answer"
            )
        plan = [in_form(action, offered) for action in plan]
        if exact:
            _check(plan, episode, view)
    except UnreadableError as error:
        asked.message.unreadable[0] = str(error)
        return None
    return plan


def _check(plan: list[Action], episode: Episode, view: View) -> None:
    """Raise UnreadableError if a call is `refused`. Steps that have been run are assumed to have results."""
    outline, done = episode.case.plan.substeps, len(view.path.steps)
    before = {step.substep.id: True for step in view.path.steps}
    for place, action in enumerate(plan, start=done):
        step = outline[place].id if outline else str(place)
        if action.call and (why := refused(action.call, view.offer.tools, before)):
            raise UnreadableError(f"step {step} of the plan, {action.call.tool}: {why}")
        before[step] = action.call is not None


def _calls(asked: Answers, view: View) -> list[Call]:
    """The calls of a plan.

    With native calls, the plan consists of all calls in the answer; without an outline, text without a call ends the
    work.

    Raises UnreadableError if no plan can be read.
    """
    wanted = asked.message.prompt.answer
    if not isinstance(wanted, FunctionsAnswer):
        return read_plan(asked.read(), view.offer.tools)
    if asked.cut:  # before or after the calls that were read
        raise UnreadableError("no end: the limit on tokens cut it off")
    calls: list[Call] = []
    found = native_calls(asked.read(), wanted.named, view.offer.tools)
    if found.words and not found.calls and FINISH in view.offer.tools and not view.guided:
        return [Call(FINISH, {"answer": found.words})]
    for place, call in enumerate(found.calls, start=1):
        if isinstance(call, UnreadableError):
            raise UnreadableError(f"call {place}: {call}")
        calls.append(call)
    if not calls:
        raise UnreadableError(NO_CALL)
    return calls


# Plans written as answers: a plan is requested until it can be read, and is then refined if the setting says so.


T = TypeVar("T")
P = TypeVar("P")
_DIGITS = 12  # of a digest


class Read(NamedTuple, Generic[P]):
    """A parsed plan (or None and the reason `why`, if no answer could be used), and the model's usage."""

    plan: P | None
    usage: Usage
    why: str = ""


@dataclass(frozen=True)
class Asking(Generic[T]):
    """How a plan is requested and parsed.

    `key` names the request; `where` names the point in error messages. `read` turns an answer into a plan, or returns
    None and records the reason in the message. `written` writes a plan in the form of an answer. `asked` are the
    prompt's lines about the wanted plan, without the line about the form of the answer. `drafted` is called with a plan
    before it is refined.
    """

    prompt: Prompt
    key: tuple[object, ...]
    where: str
    acting: Acting
    read: Callable[[Answers], T | None]
    written: Callable[[T], str]
    asked: tuple[str, ...] = ()
    drafted: Callable[[T], None] = lambda plan: None

    async def ask(self, episode: Episode, prompt: Prompt, *key: object) -> Read[T]:
        """The plan in an answer to a prompt; an unreadable plan is requested again, as often as the retries allow."""
        spent, why, last, tries = Usage(), "", None, self.acting.max_retries + 1
        for tried in range(tries):
            asked = await episode.sample(
                again(prompt, last),
                *(*key, tried),
                temperature=self.acting.temperature,
                max_tokens=self.acting.max_tokens,
            )
            spent += asked.usage
            plan = self.read(asked)
            if plan is not None:
                return Read(plan, spent)
            why, last = asked.message.unreadable[0], rejected(asked, tried + 1, tries)
        return Read(None, spent, why)


class Refine(Protocol):
    """A function that refines a draft before the plan is used."""

    async def __call__(self, episode: Episode, asking: Asking[T], draft: T) -> Read[T]:
        """The plan that replaces the draft (or the draft itself), and the acting model's usage for the refinement."""
        ...


class Drafted(NamedTuple, Generic[P]):
    """The final plan, its cost, and the draft before a critique; `draft` is None if the plan was not refined."""

    plan: P
    usage: Usage
    draft: P | None


class WritesPlans(Planner, Protocol):
    """A planner that writes down a plan (several calls, or only the next one) before it runs any of it."""

    async def write(self, episode: Episode, refine: Refine | None) -> Trajectory:
        """Solve the case with plans refined by `refine`; if `refine` is None, the drafts are used unchanged."""
        ...


async def drafted(episode: Episode, asking: Asking[T], refine: Refine | None) -> Drafted[T]:
    """A plan, refined if the setting says so; the digest of the episode's first draft is recorded.

    Raises:
        ModelError: the model gave no usable plan, even after all retries.
        BudgetError, ContextError: as for `Episode.sample`.
    """
    found = await asking.ask(episode, asking.prompt, *asking.key)
    if found.plan is None:
        tries = asking.acting.max_retries + 1
        raise ModelError(f"step {asking.where}: the model had written no usable plan after {tries} tries: {found.why}")
    if episode.plans.draft is None:
        text = asking.written(found.plan).encode("utf-8", "replace")
        episode.plans.draft = hashlib.sha256(text).hexdigest()[:_DIGITS]
    if refine is None:
        return Drafted(found.plan, found.usage, None)
    asking.drafted(found.plan)
    better = await refine(episode, asking, found.plan)
    plan = found.plan if better.plan is None else better.plan
    return Drafted(plan, found.usage + better.usage, found.plan)


# The chain of calls that a trajectory made or predicted (agent_planning_benchmark §3.1).


def chain_of(trajectory: Trajectory) -> Chain:
    """The chain that a planner predicted, or else the calls that it made, as written, with unresolved references.

    A call to REJECT ends the chain and makes it a refusal; the calls before REJECT are kept. A finish does not count as
    a call. If the chain contains no text, the final answer is used as its text.
    """
    if trajectory.chain is not None:
        return trajectory.chain if trajectory.chain.plan else replace(trajectory.chain, plan=trajectory.answer or "")
    calls: list[ChainCall] = []
    first = trajectory.steps[0].substep.id if trajectory.steps else "0"
    refusal = None
    for step in trajectory.steps:
        written = step.written
        if written is not None and written.tool == REJECT:
            refusal = _reason(written)
            break
        if written is not None and written.tool != FINISH:
            calls.append(ChainCall(written.tool, dict(written.arguments), step.thought or ""))
    return Chain(tuple(calls), refusal, trajectory.answer or "", int(first) if first.isdecimal() else 0)


def _reason(call: ToolCall) -> str:
    return str(call.arguments.get("reason", ""))
