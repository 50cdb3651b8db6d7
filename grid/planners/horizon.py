"""What the planners of planning_horizon share: prompts, reading calls with `$i`, executing them, limits (B.2).

Steps are numbered as they are executed, failed ones included; in later arguments `$i` is the result of step i. A call
has failed where its observation holds an `error` (§4.1: it returned nothing valid).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import Field
from pydantic.dataclasses import dataclass as strict_dataclass

from grid.engines.base import JsonAnswer, Prompt, Section
from grid.errors import ModelError
from grid.planners.base import Episode
from grid.strict import STRICT
from grid.text import references
from grid.types import (
    RESULT,
    Demonstration,
    Json,
    Parameter,
    Step,
    Substep,
    ToolCall,
    ToolSpec,
    Trajectory,
    Usage,
    to_json,
)
from grid.worlds.schema import failed

ROLE = (
    "You answer a question by calling tools over a source of data. The value of the last call is the answer.",
    "An argument of type result takes the result of an earlier step: write $i for that of step i, counted from $0. "
    "Write every other argument as the data have it.",
)
INVALID = "Your last answer was not in the format asked for. Read the instructions again and answer anew."
_REFERENCE = re.compile(r"\$(\d{1,4})")


@strict_dataclass(frozen=True, config=STRICT)
class Limits:
    """What both planners allow (planning_horizon B.2).

    Args:
        temperature: of every request.
        max_calls: tool calls of an episode.
        max_retries: further requests after an answer that cannot be used.
        demonstrations: solved training questions in the prompt.
        max_tokens: of one answer.
    """

    temperature: Annotated[float, Field(ge=0)] = 0.0
    max_calls: Annotated[int, Field(ge=1)] = 30
    max_retries: Annotated[int, Field(ge=0)] = 8
    demonstrations: Annotated[int, Field(ge=0)] = 10
    max_tokens: Annotated[int, Field(ge=1)] = 2048


@dataclass
class Walk:
    """The steps executed so far, each with what its decision cost."""

    episode: Episode
    tools: tuple[ToolSpec, ...]
    steps: list[Step] = field(default_factory=list)
    written: list[ToolCall] = field(default_factory=list)
    """The steps' calls as the model wrote them, with `$i`."""

    def take(self, call: ToolCall, usage: Usage = Usage()) -> bool:  # noqa: B008 - immutable
        """Execute a call; whether it returned something valid."""
        number = str(len(self.steps))
        concrete, observation = self.episode.execute(_referring(call, self._named(call.tool)), tuple(self.steps))
        step = Step(
            branch=0,
            substep=Substep(number, self.episode.case.query, ""),
            call=concrete,
            observation=observation,
            candidates=tuple(tool.name for tool in self.tools),
            input_tokens=usage.input_tokens,
            cached_input_tokens=usage.cached_input_tokens,
            output_tokens=usage.output_tokens,
        )
        self.written.append(call)
        self.steps.append(step)
        self.episode.decisions.append(step)
        return succeeded(step)

    def usable(self, calls: Sequence[tuple[str, dict[str, Json]]]) -> list[ToolCall] | None:
        """The calls, where each is one of a tool's with all its arguments, and `$i` are steps that have results."""
        results = {number for number, step in enumerate(self.steps) if succeeded(step)}
        for number, (tool, arguments) in enumerate(calls, start=len(self.steps)):
            parameters = self._named(tool)
            if parameters is None or parameters.keys() != arguments.keys():
                return None
            for name, value in arguments.items():
                if parameters[name].type == RESULT and _number(value) not in results:
                    return None
            results.add(number)
        return [ToolCall(tool, arguments) for tool, arguments in calls]

    def trajectory(self, replans: int = 0) -> Trajectory:
        """The steps; the answer is the value of the last that succeeded."""
        values = [step.observation.content.get("value") for step in self.steps if step.observation and succeeded(step)]
        answer = values[-1] if values else None
        text = answer if isinstance(answer, str) or answer is None else to_json(answer)
        return Trajectory(tuple(self.steps), tuple(self.steps), replans=replans, answer=text)

    def prompt(self, limits: Limits, ask: str, answer: JsonAnswer, invalid: bool) -> Prompt:
        """Static sections first: what both planners and all questions share, then the question, then its steps."""
        solved = self.episode.demonstrations(limits.demonstrations)
        history = ("Steps so far:", *map(step_text, self.steps, self.written)) if self.steps else ()
        sections = (
            Section("role", ROLE),
            Section("tools", ("Tools:", *map(tool_json, self.tools))),
            Section("demonstrations", tuple(map(demonstration_text, solved))),
            Section("task", (f"Question: {self.episode.case.query}",)),
            Section("history", history),
            Section("instruction", (ask, INVALID) if invalid else (ask,)),
        )
        return Prompt(tuple(section for section in sections if section.entries), answer)

    async def ask(self, limits: Limits, ask: str, answer: JsonAnswer, tried: int) -> tuple[str, Usage]:
        """One answer; `tried` counts those of this step that could not be used. Raises ModelError past the retries."""
        if tried > limits.max_retries:
            raise ModelError(f"no usable answer at step {len(self.steps)} after {tried} tries")
        prompt = self.prompt(limits, ask, answer, invalid=tried > 0)
        key = ("plan", len(self.steps), tried)
        texts, usage = await self.episode.sample(
            prompt, *key, temperature=limits.temperature, max_tokens=limits.max_tokens
        )
        return texts[0], usage

    def _named(self, tool: str) -> dict[str, Parameter] | None:
        spec = next((spec for spec in self.tools if spec.name == tool), None)
        return {parameter.name: parameter for parameter in spec.parameters} if spec else None


def walk(episode: Episode) -> Walk:
    """A walk that has not begun, with the tools that the question is offered."""
    return Walk(episode, episode.candidates(Substep("0", episode.case.query, "")))


def succeeded(step: Step) -> bool:
    """Whether a call returned something valid (§4.1)."""
    return step.observation is not None and not failed(step.observation)


def step_text(step: Step, written: ToolCall) -> str:
    """One step as a line of the history: its call as it was written, and what a reader needs of its observation."""
    seen = (
        {name: value for name, value in step.observation.content.items() if name != RESULT} if step.observation else {}
    )
    return f"${step.substep.id} = {written.text()} {'returned' if succeeded(step) else 'failed:'} {to_json(seen)}"


def tool_json(tool: ToolSpec) -> str:
    """A tool's definition as JSON, as the paper gives them (B.2)."""
    parameters = {parameter.name: f"{parameter.type}: {parameter.description}" for parameter in tool.parameters}
    return to_json({"name": tool.name, "description": tool.description, "parameters": parameters})


def demonstration_text(solved: Demonstration) -> str:
    """A solved question: its text, its plan with `$i`, its answer; one a line."""
    places = {step: f"${place}" for place, step in enumerate(solved.calls)}
    plan = [
        {"tool": call.tool, "arguments": {name: _shown(value, places) for name, value in call.arguments.items()}}
        for call in solved.calls.values()
    ]
    return f"Question: {solved.question}\nPlan: {to_json({'plan': plan})}\nAnswer: {solved.answer}"


def _shown(value: Json, places: Mapping[str, str]) -> Json:
    found = references.PATTERN.fullmatch(value) if isinstance(value, str) else None
    return places[found[1]] if found else value


def _referring(call: ToolCall, parameters: Mapping[str, Parameter] | None) -> ToolCall:
    """The call with `$i` as the reference that an episode fills in."""
    named = parameters or {}
    return ToolCall(
        call.tool,
        {
            name: references.reference(str(_number(value)), RESULT) if named[name].type == RESULT else value
            for name, value in call.arguments.items()
        },
    )


def _number(value: Json) -> int | None:
    found = _REFERENCE.fullmatch(value) if isinstance(value, str) else None
    return int(found[1]) if found else None
