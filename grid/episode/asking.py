"""Ask for decisions and read the answers: whole actions, indices of options, and arguments of chosen tools."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Literal

from grid.core.engine import ChoiceAnswer, FunctionsAnswer, Prompt, Section, ToolCallAnswer
from grid.core.types import BETWEEN, FINISH, NO_TOOL, Json, ToolCall, ToolSpec, Usage, to_json
from grid.engines.functions import Named
from grid.episode import prompts
from grid.episode.acting import Acting, Action, Decision, View, checked, results
from grid.episode.conversation import ordered, past
from grid.episode.episode import Episode
from grid.episode.requests import Answers, Rejected, again, rejected
from grid.text.answers import NO_CALL, read_call
from grid.text.calls import Call
from grid.text.native import Native, read_native
from grid.text.objects import UnreadableError
from grid.text.references import misfit, normalised

OptionLabels = Literal["numbers", "names"]
"""Whether the model chooses an option by its number or by its name."""

ASK_SUBSTEP = "Call one of the tools for the present substep, or no tool."
ASK_NEXT = "Give the next call, or finish."
ASK_CALL = (
    'Answer with one JSON object: {{{thought}"action": {{"tool": name{decline}, "arguments": {{name: value}}}}}}.'
)
ASK_THOUGHT = '"thought": why, in one or two sentences, '
ASK_SEVERAL = "Give the next call, or finish. If you give several calls in one answer, they are run in order."
ASK_WITHOUT = "An answer without a call ends the work."
ASK_WORDS = "Begin with one or two sentences that say why, then make the call in the same answer."
ASK_THIS = "Call this tool."
ASK_SUBSTEP_INDEX = "Answer with the number of the option that fits the present substep, and nothing else."
ASK_NEXT_INDEX = "Answer with the number of the option that should come next, and nothing else."
ASK_ARGUMENTS = f'{ASK_THIS} Answer with one JSON object: {{"action": {{"tool": name, "arguments": {{name: value}}}}}}.'


async def single_pass(
    episode: Episode, view: View, name: str, acting: Acting, *, several: bool = True, exact: bool = False
) -> Decision:
    """One sampled action, as in ReAct; if it cannot be read, it is sampled again, as often as the retries allow.

    Without an outline, a model with native tool calls may make `several` calls in one answer; the decision then
    includes the calls after the first. If `several` is false, only the first call counts. With `exact`, an answer with
    a `refused` call counts as unreadable. If no answer can be used, the decision has the actions of the last one, of
    which at least one is unreadable.
    """
    spent, several, last = Usage(), several and not view.guided, None
    for tried in range(1, acting.max_retries + 2):
        asked = await _sample(episode, view, name, 1, acting, last, several)
        actions = read_answers(asked, view.offer.tools, view.guided, acting.thought, several=several)[0]
        if exact:
            actions = [checked(action, view) for action in actions]
        spent = asked.usage if last is None else spent + asked.usage
        why = next((action.unreadable for action in actions if action.unreadable is not None), None)
        if why is None:
            break
        asked.message.unreadable[0] = why
        last = rejected(asked, tried, acting.max_retries + 1)
    return Decision(actions[0], spent, behind=tuple(actions[1:]))


async def sample_actions(episode: Episode, view: View, name: str, n: int, acting: Acting) -> tuple[list[Action], Usage]:
    """`n` complete actions (tool and arguments), sampled independently: π(a | H, C), egb_slate eq. 1.

    If an answer has several native calls, only the first counts.
    """
    asked = await _sample(episode, view, name, n, acting, None, several=False)
    answers = read_answers(asked, view.offer.tools, view.guided, acting.thought)
    return [actions[0] for actions in answers], asked.usage


async def _sample(
    episode: Episode, view: View, name: str, n: int, acting: Acting, last: Rejected | None, several: bool
) -> Answers:
    return await episode.sample(
        again(action_prompt(episode, view, acting, several), last),
        *(name, view.substep.id, *((f"try{last.tried}",) if last else ())),
        n=n,
        temperature=acting.temperature,
        max_tokens=acting.max_tokens,
    )


async def fill_arguments(episode: Episode, view: View, tool: str, name: str, acting: Acting) -> tuple[Action, Usage]:
    """The call of a tool that is already chosen; for NO_TOOL no request is made."""
    if tool == NO_TOOL:
        return Action(None), Usage()
    asked = await _ask_arguments(episode, view, tool, name, acting, None)
    return read_answers(asked, view.offer.tools, may_decline=False, only=tool)[0][0], asked.usage


async def draft_arguments(episode: Episode, view: View, tool: str, name: str, acting: Acting) -> tuple[Action, Usage]:
    """The call of a chosen tool.

    A call that is unreadable, or does not fit the tool's schema, is sampled again, as often as the retries allow; then
    the last one is returned nevertheless. For NO_TOOL no request is made.
    """
    if tool == NO_TOOL:
        return Action(None), Usage()
    spent, last = Usage(), None
    for tried in range(1, acting.max_retries + 2):
        asked = await _ask_arguments(episode, view, tool, name, acting, last)
        action = read_answers(asked, view.offer.tools, may_decline=False, only=tool)[0][0]
        spent += asked.usage
        why = misfit(action.call, view.offer.tools[tool]) if action.call else action.unreadable
        if why is None:
            break
        asked.message.unreadable[0] = why
        last = rejected(asked, tried, acting.max_retries + 1)
    return action, spent


async def _ask_arguments(
    episode: Episode, view: View, tool: str, name: str, acting: Acting, last: Rejected | None
) -> Answers:
    return await episode.sample(
        again(arguments_prompt(episode, view, view.offer.tools[tool], acting), last),
        *(name, view.substep.id, tool, *((f"try{last.tried}",) if last else ())),
        temperature=acting.temperature,
        max_tokens=acting.max_tokens,
    )


def read_answers(
    asked: Answers,
    offered: Mapping[str, ToolSpec],
    may_decline: bool,
    thought: int = 0,
    only: str | None = None,
    several: bool = False,
) -> list[list[Action]]:
    """The actions in each completion: the first one or, if `several` native calls are used, all of them.

    If one of these actions is unusable, the reason is recorded in `asked.message`; calls that are not used do not make
    a completion unreadable. `only`: the one offered tool that the prompt asks for.
    """
    tools = offered if only is None else {only: offered[only]}
    most = None if several else 1
    answers = [_read_answer(asked, place, tools, may_decline, thought)[:most] for place in range(len(asked.texts))]
    for place, actions in enumerate(answers):
        if reasons := [action.unreadable for action in actions if action.unreadable is not None]:
            asked.message.unreadable[place] = reasons[0]
    for place, reasoning in asked.reasoning.items():
        answers[place][0] = replace(answers[place][0], reasoning=reasoning)
    return [[in_form(action, offered) for action in actions] for actions in answers]


def in_form(action: Action, offered: Mapping[str, ToolSpec]) -> Action:
    """The action, with its call's arguments converted to the form that the prompt asks for."""
    call = action.call
    if call is None:
        return action
    arguments = normalised(call.arguments, offered[call.tool], offered.values())
    return action if arguments == call.arguments else replace(action, call=ToolCall(call.tool, arguments))


def _read_answer(
    asked: Answers, place: int, offered: Mapping[str, ToolSpec], may_decline: bool, thought: int
) -> list[Action]:
    wanted = asked.message.prompt.answer
    try:
        text = asked.read(place)
        if not isinstance(wanted, FunctionsAnswer):
            return [read_action(read_call(text, offered), offered, may_decline, thought)]
        found = native_calls(text, wanted.named, offered)
    except UnreadableError as error:
        return [Action(None, unreadable=str(error))]
    if not found.calls:
        return [_without_call(found.words, offered, may_decline)]
    return [
        Action(None, unreadable=str(call))
        if isinstance(call, UnreadableError)
        else read_action(call, offered, may_decline, thought)
        for call in found.calls
    ]


def native_calls(text: str, named: Named, offered: Mapping[str, ToolSpec]) -> Native:
    """The calls in an answer, with tool names instead of function names; text before the first call is its thought.

    A model may also call a function by the tool's name, since histories show that name. Raises UnreadableError.
    """
    own = dict(named)
    tools = dict(offered) | {name: offered[tool] for name, tool in named if tool in offered}
    words, calls = read_native(text, tools)
    renamed = [replace(call, tool=own.get(call.tool, call.tool)) if isinstance(call, Call) else call for call in calls]
    if renamed and isinstance(first := renamed[0], Call):
        renamed[0] = replace(first, thought=words or first.thought)
    return Native(words, tuple(renamed))


def _without_call(words: str, offered: Mapping[str, ToolSpec], may_decline: bool) -> Action:
    """The action for text without a call, as is usual with native calls.

    At a substep, the action has no call. Otherwise the action finishes with the text as the answer or, if finishing is
    not offered, is unreadable. Without any words, the action is unreadable.
    """
    if words and may_decline:
        return Action(None)
    if words and FINISH in offered:
        return to_action(FINISH, {"answer": words}, offered, may_decline)
    return Action(None, unreadable=NO_CALL)


def read_action(call: Call, offered: Mapping[str, ToolSpec], may_decline: bool, thought: int) -> Action:
    """The action for a call that a model wrote, with its thought cut to `thought` characters."""
    action = to_action(call.tool, call.arguments, offered, may_decline)
    if not (call.thought and thought):
        return action
    return replace(action, thought=" ".join(call.thought.split())[:thought] or None)


def to_action(tool: str, arguments: dict[str, Json], offered: Mapping[str, ToolSpec], may_decline: bool) -> Action:
    """The action for a tool's name and arguments; unreadable if the tool was not offered."""
    if tool == NO_TOOL and may_decline:
        return Action(None)
    if tool not in offered:
        return Action(None, unreadable=f"the tool {tool!r:.80} was not offered")
    if offered[tool] in (prompts.FINISH_TOOL, prompts.TELL_TOOL):
        return Action(None, finished=True, answer=_text(arguments.get("answer")))
    if offered[tool] is prompts.ANSWER_TOOL:
        return Action(prompts.finishing(_values(arguments.get("answer"))), finished=True)
    if offered[tool] is prompts.GIVE_UP_TOOL:
        return Action(None, given_up=True)
    return Action(ToolCall(tool, arguments))


def _text(answer: Json) -> str | None:
    """An answer as text; None if there is no answer."""
    if answer is None or answer == "":
        return None
    return answer if isinstance(answer, str) else to_json(answer)


def _values(answer: Json) -> str | None:
    """An answer as text, or None if there is none; the values of a list are separated in the same way as in worlds."""
    if isinstance(answer, list):
        return BETWEEN.join(filter(None, map(_text, answer))) or None
    return _text(answer)


def action_prompt(episode: Episode, view: View, acting: Acting, several: bool = False) -> Prompt:
    """The prompt for a whole action, or for `several` native calls at once."""
    guided = view.guided
    instruction, native = _instruction(guided, acting.thought > 0, several)
    answer = ToolCallAnswer(view.offer.cards, guided, acting.thought, native, results(view))
    before = sections(episode, view, view.offer.section, acting)
    return prompts.prompt(answer, *ordered(before, prompts.request_section(view.substep), instruction))


@cache
def _instruction(guided: bool, thought: bool, several: bool) -> tuple[Section, tuple[str, ...]]:
    """Two instructions: one for tools listed in the prompt's text, one for tools passed as functions."""
    form = ASK_CALL.format(thought=ASK_THOUGHT if thought else "", decline=f' or "{NO_TOOL}"' if guided else "")
    what = ASK_SUBSTEP if guided else ASK_NEXT
    asked = (what,) if guided else (ASK_SEVERAL if several else what, ASK_WITHOUT)
    return Section("instruction", (what, form)), (*asked, *((ASK_WORDS,) if thought else ()))


def choice_prompt(episode: Episode, view: View, acting: Acting, labels: OptionLabels = "numbers") -> Prompt:
    """The prompt for choosing one option by its index or by its name; options are in the order of the offer."""
    return (name_prompt if labels == "names" else index_prompt)(episode, view, acting)


def name_prompt(episode: Episode, view: View, acting: Acting) -> Prompt:
    """The prompt for a whole action without a thought; only the action's tool name is used."""
    asked = action_prompt(episode, view, replace(acting, thought=0))
    return replace(asked, answer=ChoiceAnswer(view.offer.section.options, view.offer.options))


def index_prompt(episode: Episode, view: View, acting: Acting) -> Prompt:
    """The prompt for choosing one option by its index; options are in the order of the offer."""
    offered = view.offer.section
    ask = Section("instruction", (ASK_SUBSTEP_INDEX if view.guided else ASK_NEXT_INDEX,))
    before = sections(episode, view, offered, acting)
    return prompts.prompt(ChoiceAnswer(offered.options), *before, prompts.request_section(view.substep), ask)


def arguments_prompt(episode: Episode, view: View, tool: ToolSpec, acting: Acting) -> Prompt:
    """The prompt for the arguments of one tool."""
    card = Section("tools", ("Tools:", prompts.tool_text(tool)))
    ask = Section("instruction", (ASK_ARGUMENTS,))
    answer = ToolCallAnswer((tool,), may_decline=False, native=(ASK_THIS,), results=results(view) or None)
    before = sections(episode, replace(view, whole_query=False), card, acting)
    return prompts.prompt(answer, *before, prompts.request_section(view.substep), ask)


def sections(episode: Episode, view: View, tools: Section, acting: Acting) -> tuple[Section, ...]:
    """The sections in the order of the prompt, static sections first.

    The order is: role, notes, demonstrations, memory, task, plan, lessons, history, tools, siblings, thought. Tools for
    a whole query come after the notes.
    """
    before, behind = ((tools,), ()) if view.whole_query else ((), (tools,))
    return (
        prompts.ROLE,
        prompts.notes_section(episode),
        *before,
        prompts.demonstrations_section(episode, acting.demonstrations),
        prompts.memory_section(episode),
        prompts.task_section(episode),
        prompts.plan_section(view.plan),
        prompts.lessons_section(view.lessons),
        past(episode, view),
        *behind,
        prompts.siblings_section(view.siblings),
        prompts.thought_section(view.thought),
    )
