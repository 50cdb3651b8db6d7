"""What the planners that follow a given plan share: prompts, one decision, one pass over the substeps.

A *policy* takes one decision. A *rollout* applies a policy to consecutive substeps, executing what it decides
(egb_slate §4.1). Every planner of the family is a policy, or a few, and a way to go on after a rollout.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import NamedTuple

from grid.engines.base import ChoiceAnswer, Prompt, Section, ToolCallAnswer
from grid.planners.base import Episode
from grid.text.answers import read_call
from grid.types import NO_TOOL, OptionProbability, Step, Substep, ToolCall, ToolSpec, Usage

ROLE = (
    "You carry out a customer's request by following a plan, one substep after another. For the present substep, "
    "either call exactly one of the listed tools or decide that it takes no tool.",
    "Take argument values from the request or from earlier outputs. A value that an earlier substep i.j will have "
    "returned may be written OUTPUT_FROM_STEP_i.j.field. Leave out an argument whose value is not known.",
)
NO_TOOL_TEXT = (
    "no_tool: No tool required. Judge, decide, choose, consider, think, reason, reflect, weigh, compare, note, read, "
    "understand, separate, sort, summarise, explain, tell, answer, obtain or confirm something from what is known."
)
ASK_CALL = (
    'Answer with one JSON object: {"thought": why, in one sentence, "tool": name or "no_tool", '
    '"arguments": {name: value}}.'
)
ASK_INDEX = "Answer with the number of the option that this substep takes, and nothing else."
ASK_ARGUMENTS = 'Call this tool. Answer with one JSON object: {"tool": name, "arguments": {name: value}}.'


@dataclass(frozen=True)
class Action:
    """A decided action: a call, no tool (`call` None), or an answer that could not be read."""

    call: ToolCall | None
    malformed: bool = False

    @property
    def tool(self) -> str:
        """The tool's name, or NO_TOOL."""
        return self.call.tool if self.call else NO_TOOL


UNREADABLE = Action(None, malformed=True)


class Offer(NamedTuple):
    """Candidates by name, and the section of a prompt that lists them in order, 'no tool' last."""

    tools: dict[str, ToolSpec]
    names: tuple[str, ...]
    section: Section


@lru_cache(maxsize=4096)
def offer(candidates: tuple[ToolSpec, ...]) -> Offer:
    """Made once for the same candidates: most decisions of a sweep repeat those of another planner or trial."""
    options = (*map(tool_text, candidates), NO_TOOL_TEXT)
    tools = {tool.name: tool for tool in candidates}
    return Offer(tools, tuple(tool.name for tool in candidates), Section("tools", ("Tools:",), options))


@dataclass(frozen=True)
class View:
    """What one decision looks at: the substep, the path so far, the candidates, lessons of earlier attempts."""

    substep: Substep
    path: tuple[Step, ...]
    candidates: tuple[ToolSpec, ...]
    lessons: tuple[str, ...] = ()

    @cached_property
    def offer(self) -> Offer:
        """The candidates as a prompt lists them."""
        return offer(self.candidates)


@dataclass(frozen=True)
class Decision:
    """One decision: the action, the distribution it came from, and what it cost.

    `selected` is the tool that was decided for, also where its arguments could not be read.
    `calls` holds, per tool, the calls already sampled for it; the tools of `options` that are not in it get
    their arguments when they are needed.
    """

    action: Action
    usage: Usage
    selected: str | None = None
    options: tuple[OptionProbability, ...] = ()
    entropy: float | None = None
    unassigned: float | None = None
    error_bound: float | None = None
    calls: dict[str, list[Action]] = field(default_factory=dict)


Policy = Callable[[Episode, View, str], Awaitable[Decision]]
"""(episode, view, name of the pass) to a decision; the name and the substep key the decision's seed."""


@dataclass
class Rollout:
    """One pass: the path, and for each step of the path its decision and the state before it."""

    path: tuple[Step, ...] = ()
    views: list[View] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    marks: list[Hashable] = field(default_factory=list)


async def rollout(
    episode: Episode,
    policy: Policy,
    *,
    prefix: tuple[Step, ...] = (),
    branch: int = 0,
    max_candidates: int | None = None,
    lessons: tuple[str, ...] = (),
    see_history: bool = True,
) -> Rollout:
    """Decide and execute every substep after `prefix`, whose steps are taken over as they are."""
    done = Rollout(path=prefix)
    for substep in episode.case.plan.substeps[len(prefix) :]:
        candidates = episode.candidates(substep)
        if max_candidates is not None:
            candidates = candidates[: max_candidates - 1]
        view = View(substep, done.path if see_history else (), candidates, lessons)
        decision = await policy(episode, view, f"pass{branch}")
        done.marks.append(episode.snapshot())
        done.views.append(view)
        done.decisions.append(decision)
        done.path += (perform(episode, view, decision, done.path, branch),)
    return done


def perform(episode: Episode, view: View, decision: Decision, path: tuple[Step, ...], branch: int) -> Step:
    """Execute a decision's action and record the step."""
    call, observation = decision.action.call, None
    if call is not None:
        call, observation = episode.execute(call, path)
    step = Step(
        branch=branch,
        substep=view.substep,
        call=call,
        observation=observation,
        malformed=decision.action.malformed,
        entropy=decision.entropy,
        options=decision.options,
        unassigned=decision.unassigned,
        error_bound=decision.error_bound,
        candidates=view.offer.names,
        input_tokens=decision.usage.input_tokens,
        cached_input_tokens=decision.usage.cached_input_tokens,
        output_tokens=decision.usage.output_tokens,
    )
    episode.decisions.append(step)
    return step


async def sample_actions(
    episode: Episode, view: View, name: str, n: int, temperature: float
) -> tuple[list[Action], Usage]:
    """`n` complete actions (tool and arguments), sampled independently: π(a | H, C), egb_slate eq. 1."""
    prompt = action_prompt(episode, view)
    texts, usage = await episode.sample(prompt, name, view.substep.id, n=n, temperature=temperature)
    return [to_action(text, view.offer.tools, may_decline=True) for text in texts], usage


async def fill_arguments(
    episode: Episode, view: View, tool: str, name: str, temperature: float
) -> tuple[Action, Usage]:
    """The call of a tool that is already chosen; nothing is asked for NO_TOOL."""
    if tool == NO_TOOL:
        return Action(None), Usage()
    spec = view.offer.tools[tool]
    prompt = arguments_prompt(episode, view, spec)
    texts, usage = await episode.sample(prompt, name, view.substep.id, tool, temperature=temperature)
    return to_action(texts[0], {tool: spec}, may_decline=False), usage


async def single_pass(episode: Episode, view: View, name: str, temperature: float = 1.0) -> Decision:
    """One sampled action, as ReAct takes it."""
    actions, usage = await sample_actions(episode, view, name, 1, temperature)
    return Decision(actions[0], usage)


def to_action(text: str, offered: dict[str, ToolSpec], may_decline: bool) -> Action:
    """Read a completion; a tool that was not offered, or no JSON, makes the action unreadable."""
    answer = read_call(text)
    if answer is None:
        return UNREADABLE
    tool, arguments = answer
    if tool == NO_TOOL and may_decline:
        return Action(None)
    return Action(ToolCall(tool, arguments)) if tool in offered else UNREADABLE


def action_prompt(episode: Episode, view: View) -> Prompt:
    """The prompt for a whole action."""
    sections = _sections(episode, view, view.offer.section, ASK_CALL)
    return Prompt(sections, ToolCallAnswer(view.candidates, may_decline=True, thought=True))


def index_prompt(episode: Episode, view: View) -> Prompt:
    """The prompt for the index of one option: the candidates in order, 'no tool' last."""
    offered = view.offer.section
    return Prompt(_sections(episode, view, offered, ASK_INDEX), ChoiceAnswer(offered.options))


def arguments_prompt(episode: Episode, view: View, tool: ToolSpec) -> Prompt:
    """The prompt for the arguments of one tool."""
    return Prompt(
        _sections(episode, view, Section("tools", ("Tools:", tool_text(tool))), ASK_ARGUMENTS),
        ToolCallAnswer((tool,), may_decline=False),
    )


def task_section(episode: Episode) -> Section:
    """The request and the outline of the plan: the same for all decisions of a case."""
    outline = [f"{substep.id} {substep.text}" for substep in episode.case.plan.substeps]
    return Section("task", (f"Query: {episode.case.query}", "Plan:", *outline))


def history_section(path: Sequence[Step]) -> Section:
    """What has been done so far, one entry a step."""
    return Section("history", ("Done so far:", *(step_text(step) for step in path)) if path else ())


def step_text(step: Step) -> str:
    """One step as a line of the history."""
    if step.malformed:
        return f"{step.substep.id} {step.substep.text} -> the answer could not be read as a tool call"
    if step.call is None or step.observation is None:
        return f"{step.substep.id} {step.substep.text} -> no tool"
    return f"{step.substep.id} {step.substep.text} -> {step.call.text()} returned {step.observation.text()}"


@lru_cache(maxsize=65536)
def tool_text(tool: ToolSpec) -> str:
    """One tool on one line: name, arguments with types, description, and what the arguments are."""
    arguments = ", ".join(f"{parameter.name}: {parameter.type}" for parameter in tool.parameters)
    details = "; ".join(f"{p.name} = {p.description}" for p in tool.parameters if p.description)
    return f"{tool.name}({arguments}): {tool.description}" + (f" [{details}]" if details else "")


def _sections(episode: Episode, view: View, tools: Section, ask: str) -> tuple[Section, ...]:
    """Static sections first: role, task, lessons, history, then what this decision alone needs."""
    request = (
        f"Present step: {view.substep.goal}",
        f"Present substep: {view.substep.id} {view.substep.text}",
    )
    sections = (
        Section("role", ROLE),
        task_section(episode),
        Section("history", view.lessons),
        history_section(view.path),
        tools,
        Section("request", request),
        Section("instruction", (ask,)),
    )
    return tuple(section for section in sections if section.entries)
