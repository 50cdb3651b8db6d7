"""Steps that are predicted in one answer, without any of them being run (agent_planning_benchmark C.2, C.3).

Where a case is diagnosed (`Case.diagnosed`) the calls stay as they are written, those too of tools that there are not:
the scorer says what is wrong with them. Elsewhere they are run, so that they have to be calls of the tools on offer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from grid.core.engine import ChainAnswer, MessagesAnswer, Section
from grid.core.types import FINISH, REJECT, Chain, ChainCall, ToolCall, ToolSpec, Trajectory, Usage
from grid.episode import prompts
from grid.episode.acting import Acting, Action, Decision, imagine, trajectory
from grid.episode.asking import in_form, read_action
from grid.episode.episode import Episode
from grid.episode.planning import Asking
from grid.episode.requests import Answers
from grid.episode.view import Path, View
from grid.text.answers import Predicted
from grid.text.calls import Call
from grid.text.objects import UnreadableError

MOST_THOUGHT = 2_000
"""Characters of a call's reason that stand in the table of steps."""
ROLE = (
    "You plan how a request is carried out by calling tools. Nothing is run while you plan: you do not see what the "
    "calls that you plan return.",
    "Required arguments (marked * in a list of tools) must be given, all others may be left out. "
    "OUTPUT_FROM_STEP_i.field stands for the value of that field in what step i returned.",
)
IN_WORDS = (
    "Write a value as it is where the request or an earlier result tells it. Where a planned call will return it, "
    "write OUTPUT_FROM_STEP_i.field, or say in words which step's result it is and what of it."
)
AS_REFERENCE = (
    "Write a value as it is where the request or an earlier result tells it. Where a planned call will return it, "
    "write OUTPUT_FROM_STEP_i.field and nothing else."
)
REFUSE = (
    "Where the request cannot be carried out with these tools and what is told, answer "
    '{"status": "REJECT", "reason": what stands in the way, or what has to be known first} instead.'
)


@dataclass(frozen=True)
class Form:
    """The form of an answer: its kind, how it is read (with the tools) and written.

    `ask` says what is to be planned, `form` how it is answered.
    """

    ask: tuple[str, ...]
    form: tuple[str, ...]
    answer: ChainAnswer | MessagesAnswer
    read: Callable[[str, dict[str, ToolSpec]], Predicted]
    written: Callable[[Predicted], str]


@dataclass(frozen=True)
class Plan:
    """What was predicted, as it was read and as actions; a refusal is a call of REJECT behind the others."""

    predicted: Predicted
    actions: tuple[Action, ...]


def tools_of(view: View) -> tuple[ToolSpec, ...]:
    """The tools to be planned with: a refusal has a form of its own, to finish is a call where it takes an answer."""
    kept = FINISH if view.answered and not view.guided else None
    return tuple(tool for tool in view.offer.cards if tool.name not in (REJECT, FINISH) or tool.name == kept)


def may_refuse(view: View) -> bool:
    """Whether the case lets a request be refused."""
    return REJECT in view.offer.candidates


def first_step(view: View) -> int:
    """The number of the first call that is predicted."""
    return int(view.substep.id) if view.substep.id.isdecimal() else 0


def asking(
    episode: Episode, view: View, acting: Acting, form: Form, keep: Callable[[Plan], Trajectory] | None = None
) -> Asking[Plan]:
    """How a prediction is asked for, static sections first. `keep` makes a draft what stands where a budget ends."""

    def read(asked: Answers) -> Plan | None:
        try:
            return plan_of(form, asked.read(), view, diagnosed=episode.case.diagnosed)
        except UnreadableError as error:
            asked.message.unreadable[0] = str(error)
            return None

    def kept(plan: Plan) -> None:
        if keep is not None:
            episode.improved(keep(plan))

    values = IN_WORDS if episode.case.diagnosed else AS_REFERENCE
    refuse = (REFUSE,) if form.answer.may_refuse else ()
    no_tool = (prompts.NO_TOOL_TEXT,) if isinstance(form.answer, ChainAnswer) and view.guided else ()
    tools = prompts.tools_section(form.answer.tools)
    prompt = prompts.prompt(
        form.answer,
        Section("role", ROLE),
        prompts.notes_section(episode),
        replace(tools, entries=(*tools.entries, *no_tool)),
        prompts.demonstrations_section(episode, acting.demonstrations),
        prompts.memory_section(episode),
        prompts.task_section(episode),
        prompts.history_section(view.history),
        Section("instruction", (*form.ask, *form.form, values, *refuse)),
    )
    key = ("predict", len(view.path.steps))
    return Asking(prompt, key, view.substep.id, acting, read, lambda plan: form.written(plan.predicted), form.ask, kept)


def plan_of(form: Form, text: str, view: View, diagnosed: bool) -> Plan:
    """The plan in an answer. Raises UnreadableError where it cannot be used."""
    tools = {tool.name: tool for tool in form.answer.tools}
    found = form.read(text, {} if diagnosed else tools)
    if found.refusal is not None and not form.answer.may_refuse:
        raise UnreadableError("a refusal, where the request is to be carried out")
    actions = [_action(call, found, tools, view, diagnosed) for call in found.calls]
    if found.refusal is not None:
        actions.append(Action(ToolCall(REJECT, {"reason": found.refusal})))
    return Plan(found, tuple(actions))


def _action(
    call: ChainCall | None, found: Predicted, tools: dict[str, ToolSpec], view: View, diagnosed: bool
) -> Action:
    """What a predicted call is run as, or shown as; without an outline no call is the end."""
    if call is None:
        if view.guided:
            return Action(None)
        said = found.said or None
        return Action(prompts.finishing(said) if view.answered else None, finished=True, answer=said)
    thought = " ".join(call.reason.split())[:MOST_THOUGHT] or None
    if diagnosed:
        return Action(ToolCall(call.name, call.arguments), thought=thought)
    action = read_action(Call(call.name, dict(call.arguments), thought), tools, view.guided, MOST_THOUGHT)
    if action.unreadable:
        raise UnreadableError(action.unreadable)
    return in_form(action, tools)


def as_predicted(episode: Episode, view: View, plan: Plan, usage: Usage, draft: Plan | None) -> Trajectory:
    """The trajectory of a prediction that is not run: its steps are rows without outcomes.

    Under an outline each step is a substep's; there are as many as the prediction has.
    """
    path = imagined(episode, view, plan, usage)
    episode.decisions.extend(path.steps[len(view.path.steps) :])
    found = trajectory(episode, path)
    return replace(found, chain=chain_of(plan, view), unrefined=None if draft is None else chain_of(draft, view))


def imagined(episode: Episode, view: View, plan: Plan, usage: Usage) -> Path:
    """The path behind a prediction, as if each of its calls were taken as a step; its cost stands with the first."""
    outline = episode.case.plan.substeps[len(view.path.steps) :]
    path = view.path
    for place, action in enumerate(plan.actions):
        if not outline:
            substep = replace(view.substep, id=str(first_step(view) + place))
        elif place < len(outline):
            substep = outline[place]
        else:
            break
        path, usage = imagine(replace(view, path=path, substep=substep), Decision(action, usage)), Usage()
    return path


def chain_of(plan: Plan, view: View) -> Chain:
    """A prediction as the chain that is scored; to finish with an answer is no call."""
    found = plan.predicted.chain(first_step(view))
    return replace(found, calls=tuple(call for call in found.calls if not (view.answered and call.name == FINISH)))
