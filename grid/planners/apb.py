"""Holistic, plan-first and step-wise planning (agent_planning_benchmark §3.1, §5.1, C.2, C.3).

All three planners predict steps in one answer, before any step is run. If a case is diagnosed (`Case.diagnosed`), the
calls are kept as written, even calls to tools that do not exist, because the scorer reports their mistakes. Otherwise
the calls are run, so they must be calls to offered tools.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass as plain_dataclass
from dataclasses import replace
from functools import partial
from typing import Annotated, ClassVar, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from grid.core.engine import SAMPLE, ChainAnswer, MessagesAnswer, Section
from grid.core.types import FINISH, REJECT, Chain, ChainCall, ToolCall, ToolSpec, Trajectory, Usage
from grid.core.types import NO_TOOL as NO_CALL_NAME
from grid.core.untrusted import shown
from grid.core.util import STRICT
from grid.episode import prompts
from grid.episode.acting import (
    Acting,
    Action,
    Decision,
    Path,
    View,
    begin,
    decisions_left,
    imagine,
    rollout,
    trajectory,
)
from grid.episode.asking import in_form, read_action, single_pass
from grid.episode.conversation import past
from grid.episode.episode import Episode
from grid.episode.planning import Asking, Drafted, Refine, drafted, run_plan, whole_view
from grid.episode.requests import Answers
from grid.text.answers import Predicted, chain_text, messages_text, read_chain, read_messages
from grid.text.calls import Call
from grid.text.objects import UnreadableError

MOST_THOUGHT = 2_000
"""Maximum length, in characters, of a call's reason in the table of steps."""
ROLE = (
    "You plan how to carry out a request by calling tools. Nothing is run while you plan: you do not see the "
    "results of the calls that you plan.",
    "Give every required argument (marked * in the list of tools); the others may be left out. "
    "OUTPUT_FROM_STEP_i.field stands for the value of that field in the result of step i.",
)
IN_WORDS = (
    "If the request or an earlier result gives a value, write the value itself. If a planned call will return "
    "it, write OUTPUT_FROM_STEP_i.field, or say in words which part of which step's result it is."
)
AS_REFERENCE = (
    "If the request or an earlier result gives a value, write the value itself. If a planned call will return "
    "it, write OUTPUT_FROM_STEP_i.field and nothing else."
)
REFUSE = (
    'If the request cannot be carried out with these tools and the information given, answer {"status": '
    '"REJECT", "reason": what stands in the way, or what must be known first} instead.'
)


@plain_dataclass(frozen=True)
class Form:
    """The form of an answer: its kind, a function that parses it (given the tools), and a function that writes it.

    `ask` is the instruction that says what to plan; `form` is the instruction that says how to write the answer.
    """

    ask: tuple[str, ...]
    form: tuple[str, ...]
    answer: ChainAnswer | MessagesAnswer
    read: Callable[[str, dict[str, ToolSpec]], Predicted]
    written: Callable[[Predicted], str]


@plain_dataclass(frozen=True)
class Plan:
    """A prediction, both as parsed and as actions; a refusal becomes a call to REJECT after all other calls."""

    predicted: Predicted
    actions: tuple[Action, ...]


def tools_of(view: View) -> tuple[ToolSpec, ...]:
    """Tools for planning: all except REJECT, which has its own form, and FINISH, unless it has to give the answer."""
    kept = FINISH if view.answered and not view.guided else None
    return tuple(tool for tool in view.offer.cards if tool.name not in (REJECT, FINISH) or tool.name == kept)


def may_refuse(view: View) -> bool:
    """Whether the case allows a refusal of its request."""
    return REJECT in view.offer.candidates


def first_step(view: View) -> int:
    """The number of the first predicted call: its substep's id, or 0 if the id is not a number."""
    return int(view.substep.id) if view.substep.id.isdecimal() else 0


def asking(
    episode: Episode, view: View, acting: Acting, form: Form, keep: Callable[[Plan], Trajectory] | None = None
) -> Asking[Plan]:
    """The request for a prediction; its static sections come first.

    `keep` turns a draft into the trajectory that becomes the result if a budget runs out.
    """

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
        past(episode, view),
        Section("instruction", (*form.ask, *form.form, values, *refuse)),
    )
    key = ("predict", len(view.path.steps))
    return Asking(prompt, key, view.substep.id, acting, read, lambda plan: form.written(plan.predicted), form.ask, kept)


def plan_of(form: Form, text: str, view: View, diagnosed: bool) -> Plan:
    """The plan in an answer. Raises UnreadableError if the plan cannot be used."""
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
    """The action for a predicted call; without an outline, an entry without a call ends the work."""
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
    """The trajectory of a prediction that is not run: its steps have no outcomes.

    With an outline, the steps are assigned to the outline's substeps in order; the trajectory ends with the prediction.
    """
    path = imagined(episode, view, plan, usage)
    episode.decisions.extend(path.steps[len(view.path.steps) :])
    found = trajectory(episode, path)
    return replace(found, chain=chain_of(plan, view), unrefined=None if draft is None else chain_of(draft, view))


def imagined(episode: Episode, view: View, plan: Plan, usage: Usage) -> Path:
    """The path that has each predicted call as a step; the prediction's cost is booked on the first step."""
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
    """The chain that is scored for a prediction; a finish that gives an answer is left out."""
    found = plan.predicted.chain(first_step(view))
    return replace(found, calls=tuple(call for call in found.calls if not (view.answered and call.name == FINISH)))


# Holistic planning: the whole chain in one answer, before anything is run (agent_planning_benchmark §3.1, C.3).


@dataclass(frozen=True, config=STRICT)
class Holistic(Acting):
    """A plan with its tool chain, or a refusal if the case allows one.

    If a case is diagnosed, the chain is scored as written: nothing is run, and tools and arguments that do not exist
    are kept. Otherwise the chain is run to its end without the model, like the chain in `zero_shot`; if a plan uses a
    tool that was not offered, the model is asked again. An answer that both refuses and plans counts as both. By
    default prompts show no solved questions, as in the paper.
    """

    temperature: Annotated[float, Field(ge=0)] = 0.0
    max_retries: Annotated[int, Field(ge=0, le=100)] = 8
    demonstrations: Annotated[int, Field(ge=0, le=1000)] = 0
    max_tokens: Annotated[int, Field(ge=1)] = 2048
    needs: ClassVar[frozenset[str]] = frozenset({SAMPLE})

    @property
    def plans_ahead(self) -> bool:
        """Always."""
        return True

    @property
    def writes_plans(self) -> bool:
        """Always."""
        return True

    async def solve(self, episode: Episode) -> Trajectory:
        """Predict the chain. Raises ModelError if no chain can be read after the retries."""
        return await self.write(episode, None)

    async def write(self, episode: Episode, refine: Refine | None) -> Trajectory:
        """Like `solve`, but the chain is refined before it is used."""
        path = begin(episode)
        view = whole_view(episode, path, self.max_calls)
        if view is None:
            return trajectory(episode, path)
        plan, usage, draft = await plan_chain(episode, view, self, refine)
        if episode.case.diagnosed:
            return as_predicted(episode, view, plan, usage, draft)
        return trajectory(episode, await self.carried_out(episode, view, plan, usage))

    async def carried_out(self, episode: Episode, view: View, plan: Plan, usage: Usage) -> Path:
        """The path after the plan has been run unchanged, without the model."""
        # A plan without calls means that nothing has to be done; its summary is the answer.
        actions = [*plan.actions] or [Action(None, finished=True, answer=plan.predicted.plan or None)]
        if not view.guided and not actions[-1].finished:
            actions.append(Action(None, finished=True))  # a plan without further calls ends the work
        return await run_plan(episode, view, actions, usage, self)


# A whole plan with its tool chain, asked for in one answer (agent_planning_benchmark §3.1, C.3).


ASK_ALL = "Plan all calls that carry out the request, in order. The first is step {first}."
ASK_MOST = "Plan the next calls, in order, {most} at most. The first is step {first}."
ASK_ANSWER = "The last one finishes with the answer."
ASK_ENTRIES = (
    "Plan the substeps {first} to {last}: one entry for each, in order. If a substep calls no tool, its entry "
    f'has the name "{NO_CALL_NAME}".'
)
FORM = (
    'Answer with one JSON object: {"plan": your approach, in a few sentences, "tool_chain": [{"name": the tool, '
    '"parameter_description": {argument: value}, "reason": why it is called here}, ...]}.'
)


async def plan_chain(episode: Episode, view: View, acting: Acting, refine: Refine | None) -> Drafted[Plan]:
    """A plan that starts at a decision point, refined if the setting says so; none of its calls is run.

    If a case is diagnosed and a budget ends the episode, the draft is the episode's result. If a case is not diagnosed,
    every trajectory of the episode records the first turn's plan (`Trajectory.planned`, `unrefined`).

    Raises:
        ModelError: the model gave no usable plan, even after all retries.
        BudgetError, ContextError: as for `Episode.sample`.
    """
    diagnosed = episode.case.diagnosed
    keep = partial(as_predicted, episode, view, usage=Usage(), draft=None) if diagnosed else None
    found = await drafted(episode, asking(episode, view, acting, _form(episode, view, acting), keep), refine)
    if not diagnosed and not episode.turn:
        episode.plans.planned = chain_of(found.plan, view)
        episode.plans.unrefined = None if found.draft is None else chain_of(found.draft, view)
    return found


def _form(episode: Episode, view: View, acting: Acting) -> Form:
    case, left = episode.case, decisions_left(episode, view.path, acting.max_calls)
    places = {"first": view.substep.id, "most": left, "last": case.plan.substeps[-1].id if view.guided else ""}
    ask = ASK_ENTRIES if view.guided else ASK_ALL if case.decisions is None else ASK_MOST
    answers = (ASK_ANSWER,) if view.answered and not view.guided else ()
    most = acting.max_calls if view.answered else left
    answer = ChainAnswer(
        tools_of(view), left if view.guided else 1, most, view.guided, may_refuse(view), case.diagnosed
    )
    read = partial(_read_plan, episode=episode, view=view, left=left)
    return Form((ask.format(**places), *answers), (FORM,), answer, read, chain_text)


def _read_plan(text: str, tools: dict[str, ToolSpec], episode: Episode, view: View, left: int) -> Predicted:
    """The chain in an answer; if the case is diagnosed, the chain is cut to the number of steps that the case asks for.

    Without an outline, entries without a call are left out.

    Raises UnreadableError if the chain is unusable.
    """
    found = read_chain(text, tools)
    if view.guided and found.refusal is None and len(found.calls) != left:
        raise UnreadableError(f"a tool_chain of {len(found.calls)} entries, where {left} are wanted")
    if not view.guided:
        found = found._replace(calls=tuple(call for call in found.calls if call))
    if episode.case.diagnosed:
        return found if episode.case.decisions is None else found._replace(calls=found.calls[:left])
    last = found.calls[-1] if found.calls else None
    if view.answered and not view.guided and found.refusal is None and (last is None or last.name != FINISH):
        raise UnreadableError(f"a plan whose last call is not {FINISH}, with the answer")
    return found


# First a whole plan, then its execution, one decision at a time (agent_planning_benchmark §5.1, table 3).


@dataclass(frozen=True, config=STRICT)
class PlanFirst(Holistic):
    """First the plan that `holistic` would write, then one sampled call for each decision, with the plan in the prompt.

    With the keys of conf/planner/direct.yaml, the decision prompts differ from the prompts of `direct` only by the
    plan. No call is run merely because it is in the plan: a decision has to make the call. Decisions may depart from
    the plan, and even from a planned refusal. If the user speaks more than once, each turn has its own plan. The
    episode of a diagnosed case ends once the plan is written, as in `holistic`.
    """

    async def carried_out(self, episode: Episode, view: View, plan: Plan, usage: Usage) -> Path:
        """The path after decisions whose prompts show the plan."""
        policy = partial(_by_plan, acting=self, plan=plan_lines(episode, view, plan), first=view.substep.id, cost=usage)
        return (await rollout(episode, policy, self, view.path)).path


def plan_lines(episode: Episode, view: View, plan: Plan) -> tuple[str, ...]:
    """A plan as prompts show it: its summary, and a line for each step, as in a history."""
    summary = shown(" ".join(plan.predicted.plan.split()))
    steps = imagined(episode, view, plan, Usage()).lines[len(view.path.lines) :] or (prompts.PLAN_EMPTY,)
    return (*([f"{prompts.PLAN_SUMMARY}{summary}"] if summary else []), *steps)


async def _by_plan(
    episode: Episode, view: View, name: str, *, acting: Acting, plan: tuple[str, ...], first: str, cost: Usage
) -> Decision:
    """A decision with the plan in its prompt; the plan's cost is booked on the decision at step `first`."""
    decision = await single_pass(episode, replace(view, plan=plan), name, acting)
    return replace(decision, usage=decision.usage + cost) if view.substep.id == first else decision


# Step-wise planning: the next k steps, given the steps so far (agent_planning_benchmark §3.1, C.2).


MESSAGE = (
    '{"role": "assistant", "thought": why, "tool_calls": [{"type": "function", "function": {"name": the tool, '
    '"arguments": {argument: value}}}]}'
)
ASK_ONE = "Predict the next step, step {first}: the one call to make now."
ASK_SEVERAL = (
    "Predict the next {count} steps, starting with step {first}: {count} calls in a row, planned without seeing "
    "the results of the earlier ones."
)
ASK_SUBSTEP = "Predict substep {first}: its call, or none."
ASK_SUBSTEPS = "Predict the substeps {first} to {last}: for each, its call or none, in order."
FORM_ONE = f"Answer with one JSON object: {MESSAGE}. It has one call."
FORM_SEVERAL = (
    f"Answer with a JSON array of exactly {{count}} objects, each of this form: {MESSAGE}. Each has one call."
)
NO_CALL = 'If nothing is left to call, "tool_calls" is an empty list, and the thought states the outcome.'
NO_MORE = 'After the call that finishes, "tool_calls" is an empty list.'
NO_TOOL = 'For a substep that calls no tool, "tool_calls" is an empty list.'


@dataclass(frozen=True, config=STRICT)
class Stepwise(Acting):
    """The next k steps in one answer, or a refusal if the case allows one.

    If a case asks for a fixed number of steps (`Case.decisions`) and is diagnosed, one prediction is made and nothing
    is run. Otherwise the k steps are run, the next k steps are predicted from their results, and so on until the end.

    Args:
        k: the number of steps in a prediction; None: the number that the case asks for, or one if the case sets no
            number.
    """

    temperature: Annotated[float, Field(ge=0)] = 0.0
    max_retries: Annotated[int, Field(ge=0, le=100)] = 8
    demonstrations: Annotated[int, Field(ge=0, le=1000)] = 0
    max_tokens: Annotated[int, Field(ge=1)] = 1024
    k: Literal[1, 2, 3] | None = None
    needs: ClassVar[frozenset[str]] = frozenset({SAMPLE})

    @property
    def writes_plans(self) -> bool:
        """Always true, even if a plan has only one step."""
        return True

    async def solve(self, episode: Episode) -> Trajectory:
        """Predict the next steps. Raises ModelError if no steps can be read after the retries."""
        return await self.write(episode, None)

    async def write(self, episode: Episode, refine: Refine | None) -> Trajectory:
        """Like `solve`, but every prediction is refined before it is used.

        The trajectory's `unrefined` is the draft, if there is only one draft.
        """
        path, drafts = begin(episode), list[Chain]()
        while (view := whole_view(episode, path, self.max_calls)) is not None:
            if episode.case.diagnosed and episode.case.decisions is not None:
                keep = partial(as_predicted, episode, view, usage=Usage(), draft=None)
                plan, usage, draft = await self._predict(episode, view, refine, keep)
                return as_predicted(episode, view, plan, usage, draft)
            plan, usage, draft = await self._predict(episode, view, refine)
            if draft is not None:
                drafts.append(chain_of(draft, view))
            path = await run_plan(episode, view, [*plan.actions], usage, self)
            if plan.predicted.refusal is not None:
                break
        return replace(trajectory(episode, path), unrefined=drafts[0] if len(drafts) == 1 else None)

    async def _predict(
        self, episode: Episode, view: View, refine: Refine | None, keep: Callable[[Plan], Trajectory] | None = None
    ) -> Drafted[Plan]:
        return await drafted(episode, asking(episode, view, self, self._form(episode, view), keep), refine)

    def _form(self, episode: Episode, view: View) -> Form:
        case, left = episode.case, decisions_left(episode, view.path, self.max_calls)
        count = min(self.k or case.decisions or 1, left)
        outline = [substep.id for substep in case.plan.substeps][len(view.path.steps) :]
        places = {"first": view.substep.id, "count": count, "last": outline[count - 1] if outline else ""}
        several = count > 1
        ask = (ASK_SUBSTEPS if several else ASK_SUBSTEP) if outline else ASK_SEVERAL if several else ASK_ONE
        form = FORM_SEVERAL.replace("{count}", str(count)) if several else FORM_ONE
        answer = MessagesAnswer(tools_of(view), count, may_refuse(view), case.diagnosed)
        ends = NO_TOOL if outline else NO_MORE if view.answered else NO_CALL
        read = partial(_read_steps, count=count, guided=bool(outline))
        return Form((ask.format(**places),), (form, ends), answer, read, messages_text)


def _read_steps(text: str, tools: dict[str, ToolSpec], count: int, guided: bool) -> Predicted:
    """The steps in an answer. Without an outline, a last message without a call ends the work."""
    found = read_messages(text, count, tools)
    if guided or found.refusal is not None or not any(found.calls):
        return found
    calls = tuple(call for call in found.calls if call)
    return found._replace(calls=(*calls, None) if found.calls[-1] is None else calls)
