"""A plan of all calls that are left, in one answer: how it is asked for, read and run (planning_horizon §2.2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from grid.engines.base import FunctionsAnswer, PlanAnswer, Prompt, Section
from grid.errors import ModelError
from grid.planners import prompts
from grid.planners.acting import Acting, Action, Decision, Path, View, decisions_left, next_point, perform
from grid.planners.again import again, rejected
from grid.planners.asking import ASK_WORDS, in_form, native_calls, read_action, refused, sections
from grid.planners.base import Answers, Episode
from grid.text.answers import NO_CALL, read_plan
from grid.text.calls import Call
from grid.text.objects import UnreadableError
from grid.types import FINISH, NO_TOOL, Usage

ASK_CALLS = "Plan all calls that are needed. The first is step {first}."
ASK_SUBSTEPS = (
    "Plan the substeps {first} to {last}: one entry for each, in their order. An entry whose substep calls no tool "
    f'has the tool "{NO_TOOL}".'
)
ASK_LAST = f'Plan the last substep, {{first}}: one entry. If it calls no tool, its tool is "{NO_TOOL}".'
ASK_ANSWER = "Plan all calls that are needed; the last one finishes with the answer. The first is step {first}."
ASK_REASONING = '"thought": which steps the request takes, thought through one by one, '
ASK_PLAN = 'Answer with one JSON object: {{{thought}"plan": [{{"tool": name, "arguments": {{name: value}}}}, ...]}}.'
ASK_AT_ONCE = "Make all of these calls at once, in this one answer and in their order."


def whole_view(episode: Episode, path: Path, max_calls: int) -> View | None:
    """The next point of a path, with the tools of the whole query; None at its end."""
    substep = next_point(episode, path, max_calls)
    if substep is None:
        return None
    options = episode.options(None, path.steps)
    return View(substep, path, options, whole_query=True, answered=episode.case.answered)


async def plan_ahead(
    episode: Episode, view: View, acting: Acting, notes: tuple[str, ...] = (), exact: bool = False
) -> tuple[list[Action], Usage]:
    """The actions of a plan from a point on; asked for again, up to the retries, where none can be read.

    Args:
        episode: the case.
        view: the point, with the tools of the whole query.
        acting: how it is asked for; a `thought` comes before the plan and stands with its first action.
        notes: lines in front of the request.
        exact: a plan with a call that is `refused` cannot be used either.

    Raises:
        ModelError: no plan after all retries.
    """
    spent, why, last, tries = Usage(), "", None, acting.max_retries + 1
    for tried in range(tries):
        asked = await episode.sample(
            again(plan_prompt(episode, view, acting, notes), last),
            *("plan", len(view.path.steps), tried),
            temperature=acting.temperature,
            max_tokens=acting.max_tokens,
        )
        spent += asked.usage
        if plan := read_plan_of(asked, episode, view, acting, exact):
            return plan, spent
        why, last = asked.message.unreadable[0], rejected(asked, tried + 1, tries)
    raise ModelError(f"step {view.substep.id}: no plan that can be used, after {tries} tries: {why}")


async def run_plan(
    episode: Episode, view: View, plan: list[Action], usage: Usage, acting: Acting, over: Callable[[Path], bool]
) -> Path:
    """Execute a plan without the model, up to its end or until it is `over`. Its cost stands with its first step.

    All steps were offered what the plan was made from.
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
    """The prompt for a plan; under an outline it has an entry for each substep that is left."""
    first, left, outline = (
        view.substep.id,
        decisions_left(episode, view.path, acting.max_calls),
        episode.case.plan.substeps,
    )
    free = ASK_ANSWER if view.answered else ASK_CALLS
    form = (ASK_SUBSTEPS if left > 1 else ASK_LAST) if outline else free
    ask = form.format(first=first, last=outline[-1].id if outline else "")
    wanted = ASK_PLAN.format(thought=ASK_REASONING if acting.thought else "")
    native = (*notes, ask, ASK_AT_ONCE, *((ASK_WORDS,) if acting.thought else ()))
    before = sections(episode, view, view.offer.section, acting)
    least = left if view.guided else 1
    # Cut to what is left, a plan that must finish would have no finish; it is run as far as it may be.
    most = acting.max_calls if view.answered else left
    answer = PlanAnswer(view.offer.cards, least, most, view.guided, acting.thought, native)
    return prompts.prompt(answer, *before, Section("instruction", (*notes, ask, wanted)))


def read_plan_of(
    asked: Answers, episode: Episode, view: View, acting: Acting, exact: bool = False
) -> list[Action] | None:
    """The actions of the plan in an answer; None, with the reason in the message, where it cannot be used."""
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
    """Raise UnreadableError where a call is refused. What was run has or has not a result: the world tells."""
    outline, done = episode.case.plan.substeps, len(view.path.steps)
    before = {step.substep.id: True for step in view.path.steps}
    for place, action in enumerate(plan, start=done):
        step = outline[place].id if outline else str(place)
        if action.call and (why := refused(action.call, view.offer.tools, before)):
            raise UnreadableError(f"step {step} of the plan, {action.call.tool}: {why}")
        before[step] = action.call is not None


def _calls(asked: Answers, view: View) -> list[Call]:
    """The calls of a plan; native ones are all calls of the answer. Raises UnreadableError."""
    wanted = asked.message.prompt.answer
    if not isinstance(wanted, FunctionsAnswer):
        return read_plan(asked.texts[0], view.offer.tools)
    calls: list[Call] = []
    for place, call in enumerate(native_calls(asked.texts[0], wanted.named, view.offer.tools).calls, start=1):
        if isinstance(call, UnreadableError):
            raise UnreadableError(f"call {place}: {call}")
        calls.append(call)
    if not calls:
        raise UnreadableError(NO_CALL)
    return calls
