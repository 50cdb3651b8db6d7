"""The sections of planners' prompts. Their texts say nothing about any particular benchmark.

Static sections come first, so that prompts share prefixes. Therefore the tools for the whole query come before the
query, and the tools for a single substep come after the history.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Literal, NamedTuple

from grid.core.engine import Answer, Prompt, Section
from grid.core.types import (
    BETWEEN,
    FINISH,
    GIVE_UP,
    NO_TOOL,
    RESULT,
    USER,
    Demonstration,
    Observation,
    Parameter,
    Step,
    Substep,
    ToolCall,
    ToolSpec,
    Trajectory,
    to_json,
)
from grid.core.util import Once
from grid.episode.episode import Episode, Planner
from grid.episode.options import Options
from grid.text.references import answering, reference

Seen = Literal["all", "calls", "none"]
"""The part of earlier steps that prompts show: calls and observations, calls only, or nothing."""

ROLE = Section(
    "role",
    (
        "You carry out a request by calling tools.",
        "Take the values of arguments from the request or from the results of earlier steps. "
        "OUTPUT_FROM_STEP_i.field stands for the value of that field in the result of step i. Give every "
        "required argument (marked * in the list of tools); the others may be left out.",
    ),
)
EMPTY = Section("instruction", ())
NOTES = "Notes on the things that the tools deal with:"
POLICY = "The policy that you must follow in everything you do:"
DEMONSTRATIONS = "Similar requests, each with all of its calls. The first call is step 0."
MEMORY = (
    "Your work on earlier requests: every step with its result, and whether the request was carried out. The "
    "values belong to those requests, and the tools offered now may be different."
)
PLAN = "A plan of the work, written before anything was run:"
PLAN_SUMMARY = "Summary: "
PLAN_EMPTY = "(no call)"
PLAN_USE = (
    "Follow the plan as long as the results support it. Depart from it if they do not, or if the plan is wrong. "
    "OUTPUT_FROM_STEP_i always stands for the step i that was really taken, even if the plan has a different "
    "step i."
)
SIBLINGS = "These actions were already tried at this point. Each is shown with its outcome:"
DIFFER = "Consider them, then choose an action that differs from all of them: another tool, or other values."
THOUGHT = "Your thought about the next step, which was used to retrieve the tools above:"
NO_TOOL_TEXT = f"{NO_TOOL}: Call no tool at this substep."
FINISH_TOOL = ToolSpec(
    FINISH,
    "Ends the work. The result of the last call is the outcome. If the request is a question, give its answer.",
    (Parameter("answer", "string", "the answer to the request", required=False),),
)
ANSWER_TOOL = ToolSpec(
    FINISH,
    "Ends the work with the answer to the question.",
    (
        Parameter(
            "answer",
            "string",
            "the answer: OUTPUT_FROM_STEP_i.result of the earlier step whose result is the answer; or the "
            f'answer in words, with several values separated by "{BETWEEN}"',
        ),
    ),
)
"""The tool that replaces FINISH_TOOL if finishing answers the question."""
TELL_TOOL = ToolSpec(
    FINISH,
    "Ends the work with the answer to the query.",
    (Parameter("answer", "string", "the answer in words, with everything that was asked for"),),
)
"""The tool that replaces FINISH_TOOL if the work is done and only the answer is still missing."""
GIVE_UP_TOOL = ToolSpec(
    GIVE_UP, "Abandons this attempt if it does not lead to the goal. An earlier decision is then made again.", ()
)
_HANDLE = re.compile(r"\$\d+")
_TOOLS = Section("tools", ("Tools:",))


class Offer(NamedTuple):
    """The options of a decision; all fields are in the order in which options are shown.

    `options` are the names of all options; they include `no_tool` for a substep of an outline, else `finish`. Like
    other tools, `finish` is in `tools` and `cards`, but it is not a candidate. If `give_up` is offered, it too is in
    `tools` and `cards` and is not a candidate; it comes directly after `finish` or `no_tool`. `section` lists the
    options.
    """

    tools: dict[str, ToolSpec]
    cards: tuple[ToolSpec, ...]
    candidates: tuple[str, ...]
    options: tuple[str, ...]
    section: Section


def offer(options: Options, may_finish: bool, may_give_up: bool = False, answered: bool = False) -> Offer:
    """The offer for a decision among options; `answered`: finishing requires an answer."""
    return _offer(options, may_finish, may_give_up, answered)


def _offered(options: Options, may_finish: bool, may_give_up: bool, answered: bool) -> Offer:
    before, behind = options.tools[: options.place], options.tools[options.place :]
    finishes = [ANSWER_TOOL if answered else FINISH_TOOL] if may_finish else []
    between = (*finishes, *([GIVE_UP_TOOL] if may_give_up else []))
    cards = (*before, *between, *behind) if between else options.tools
    texts, names = [*map(tool_text, cards)], [tool.name for tool in cards]
    if not may_finish:
        texts.insert(options.place, NO_TOOL_TEXT)
        names.insert(options.place, NO_TOOL)
    candidates = tuple(tool.name for tool in options.tools)
    section = Section(_TOOLS.kind, _TOOLS.entries, tuple(texts))
    return Offer({tool.name: tool for tool in cards}, cards, candidates, tuple(names), section)


def tools_section(tools: Sequence[ToolSpec]) -> Section:
    """The available tools, without numbers, for prompts that do not ask the model to choose a tool."""
    return Section(_TOOLS.kind, (*_TOOLS.entries, *map(tool_text, tools)))


@lru_cache(maxsize=65536)
def tool_text(tool: ToolSpec) -> str:
    """A tool on one line: its name, arguments with types, output fields, and descriptions of tool and arguments."""
    arguments = ", ".join(f"{p.name}{'*' if p.required else ''}: {p.type}" for p in tool.parameters)
    returns = f" -> {', '.join(tool.returns)}" if tool.returns else ""
    details = "; ".join(f"{p.name} = {p.description}" for p in tool.parameters if p.description)
    return f"{tool.name}({arguments}){returns}: {tool.description}" + (f" [{details}]" if details else "")


_offer: Once[Options, Offer] = Once(_offered)


def notes_section(episode: Episode) -> Section:
    """The case's policy, and its notes on the objects that the tools work with; empty if the case has neither."""
    case = episode.case
    entries = (*((POLICY, case.policy) if case.policy else ()), *((NOTES, *case.notes) if case.notes else ()))
    return Section("notes", entries) if entries else EMPTY


def task_section(episode: Episode) -> Section:
    """The request, and the outline if the case has one. The section is the same for all decisions of a case."""
    return _task(episode.case.query, episode.case.plan.lines)


@lru_cache(maxsize=256)
def _task(query: str, outline: tuple[str, ...]) -> Section:
    return Section("task", (f"Query: {query}", *(("Outline:", *outline) if outline else ())))


def plan_section(lines: Sequence[str]) -> Section:
    """A plan that was written before anything was run, the same for all decisions after it; empty without a plan."""
    return Section("plan", (PLAN, *lines, PLAN_USE)) if lines else EMPTY


def thought_section(thought: str) -> Section:
    """The thought on this decision, written before the tools were retrieved; empty if there is none."""
    return Section("thought", (THOUGHT, thought)) if thought else EMPTY


def history_section(lines: Sequence[str]) -> Section:
    """The steps done so far, one entry per step; empty if there are none."""
    return Section("history", ("Done so far:", *lines)) if lines else EMPTY


def lessons_section(lessons: Sequence[str]) -> Section:
    """The lessons from earlier attempts; empty if there are none."""
    return Section("lessons", ("Lessons from earlier attempts:", *lessons)) if lessons else EMPTY


def siblings_section(lines: Sequence[str]) -> Section:
    """Earlier actions at the same point that failed or are not yet followed; the model must choose something else."""
    return Section("siblings", (SIBLINGS, *lines, DIFFER)) if lines else EMPTY


def demonstrations_section(episode: Episode, count: int) -> Section:
    """Up to `count` solved questions, the most similar first; empty if there are none.

    If the case needs an answer, their plans end with a finish.
    """
    solved = episode.demonstrations(count)
    return _demonstrated(solved, episode.case.answered) if solved else EMPTY


def memory_section(episode: Episode) -> Section:
    """The planner's work on other cases, those most similar to this case first; empty if nothing is remembered."""
    return Section("memory", (MEMORY, *episode.remembered)) if episode.remembered else EMPTY


def step_text(step: Step, observed: bool = True, most: int | None = None, answer: str | None = None) -> str:
    """One step as a line of the history: its call as written and, if `observed`, the result of the call.

    `most`: the maximum number of characters shown of the result; None: no limit. `answer` is the answer with which the
    step ended the path; it is shown in prompts that judge a whole path, reflect on it, or come in a later turn.
    """
    place = f"{step.substep.id} {step.substep.text}".strip()
    if step.malformed:
        return f"{place} -> the answer could not be read as a tool call"
    thought = f"Thought: {step.thought} " if step.thought else ""
    if step.finished and step.written is None:
        return f"{place} -> {thought}{finishing(answer).text()}"
    if step.written is None:
        return f"{place} -> {thought}no tool"
    called = f"{place} -> {thought}{step.written.text()}"
    if not observed or step.observation is None:
        return called
    return f"{called} {'failed:' if step.observation.failed else 'returned'} {told_of(step, step.observation, most)}"


def told_of(step: Step, observation: Observation, most: int | None = None) -> str:
    """The outcome as JSON, cut to `most` characters; the world's own name for a result is replaced by a reference."""
    shown = observation.text()
    if has_handle(observation):
        shown = to_json({**observation.content, RESULT: reference(step.substep.id, RESULT)})
    return shown if most is None or len(shown) <= most else f"{shown[:most]}..."


def with_message(line: str, message: str | None) -> str:
    """A step's line, followed by the user's message, if there is one."""
    return line if message is None else f"{line}\n{USER}{message}"


def finishing(answer: str | None) -> ToolCall:
    """The finish of a path, as a call."""
    return ToolCall(FINISH, {"answer": answer} if answer else {})


def request_section(substep: Substep) -> Section:
    """The substep for which a decision is made; empty if there is no outline."""
    return _requested(substep) if substep.text else EMPTY


def _request(substep: Substep) -> Section:
    lines = (f"Present step: {substep.goal}",) if substep.goal else ()
    return Section("request", (*lines, f"Present substep: {substep.id} {substep.text}"))


_requested: Once[Substep, Section] = Once(_request)


def prompt(answer: Answer, *sections: Section) -> Prompt:
    """A prompt that consists of the sections that are not empty."""
    return Prompt(tuple([section for section in sections if section.entries]), answer)


def has_handle(observation: Observation) -> bool:
    """Whether `result` is only the world's own name for the result (`$1`), with the value in another field.

    If there is no other field, `result` is not such a name: `$500` may be the answer to a question.
    """
    handle = observation.content.get(RESULT)
    return len(observation.content) > 1 and isinstance(handle, str) and _HANDLE.fullmatch(handle) is not None


def _demonstration_text(solved: Demonstration, answered: bool) -> str:
    """A solved question: its text, plan and answer. If `answered`, the plan ends with a finish giving the answer."""
    end = [finishing(answering(solved.resolution or [*solved.calls][-1:]))] if answered and solved.calls else []
    plan = [{"tool": call.tool, "arguments": dict(call.arguments)} for call in (*solved.calls.values(), *end)]
    return f"Query: {solved.question}\nPlan: {to_json({'plan': plan})}\nAnswer: {solved.answer}"


def _demonstrations(solved: tuple[Demonstration, ...], answered: bool) -> Section:
    return Section("demonstrations", (DEMONSTRATIONS, *(_demonstration_text(one, answered) for one in solved)))


_demonstrated: Once[tuple[Demonstration, ...], Section] = Once(_demonstrations)


# A case with several user messages: the planner solves each turn, starting from everything done in earlier turns.
#
# A turn ends where the planner's trajectory ends. The user's next message is shown only after a turn has ended, so a
# search looks ahead to the end of a turn and never beyond it.


async def all_turns(planner: Planner, episode: Episode) -> Trajectory:
    """The trajectory over all turns, with the decisions, branches and replans of all turns."""
    found = await planner.solve(episode)
    for _ in episode.case.messages:
        episode.next_turn(found)
        found = _behind(found, await planner.solve(episode), episode)
    return found


def _behind(before: Trajectory, found: Trajectory, episode: Episode) -> Trajectory:
    known = set(map(id, episode.before.steps))
    fresh = (step for step in found.decisions if id(step) not in known)
    branched = [steps for steps in (before.branched_steps, found.branched_steps) if steps is not None]
    return replace(
        found,
        decisions=(*before.decisions, *fresh),
        branches=before.branches + found.branches,
        branched_steps=sum(branched) if branched else None,
        replans=before.replans + found.replans,
    )
