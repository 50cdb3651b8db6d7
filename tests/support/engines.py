"""Engines for tests of planners: they answer from a script, count what they are asked, and claim no result."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from grid.core.engine import CHOOSE, SAMPLE, Choice, ChoiceAnswer, Home, Prompt, Sampled, TextAnswer, ToolCallAnswer
from grid.core.types import NO_TOOL, Json, Usage, to_json

Distribution = Mapping[str, float]


def substep_of(prompt: Prompt) -> str:
    """The number of the decision point that a prompt is about."""
    request = prompt.entries("request")
    if not request:
        return str(max(len(prompt.entries("history")) - 1, 0))
    return request[-1].split(": ", 1)[1].split(" ", 1)[0]


def asks_for_arguments(answer: ToolCallAnswer) -> bool:
    """Whether the tool is chosen already: a decision has another option at least."""
    return len(answer.tools) == 1 and not answer.may_decline


@dataclass
class Scripted:
    """Per substep a distribution over tools and each tool's arguments; everything asked is recorded.

    Samples follow the distribution in fixed proportion: of n samples, round(p * n) name the tool, in its order.
    """

    tools: Mapping[str, Distribution]
    arguments: Callable[[str, str], dict[str, Json]] = lambda substep, tool: {}
    asked: list[tuple[str, str, int]] = field(default_factory=list)
    prompts: list[Prompt] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    provides: ClassVar[frozenset[str]] = frozenset({SAMPLE, CHOOSE})
    home: ClassVar[Home] = "task"
    name: ClassVar[str] = "test"
    sampler: ClassVar[None] = None
    version: str = "scripted"

    async def sample(self, prompt: Prompt, *, n: int, temperature: float, max_tokens: int, seed: int) -> Sampled:
        self.prompts.append(prompt)
        if isinstance(prompt.answer, TextAnswer):
            self.asked.append(("text", "", n))
            return self._answer(("think again",) * n, n)
        assert isinstance(prompt.answer, ToolCallAnswer)
        substep = substep_of(prompt)
        if asks_for_arguments(prompt.answer):
            tool = prompt.answer.tools[0].name
            self.asked.append(("arguments", substep, n))
            return self._answer((self._call(substep, tool),) * n, n)
        self.asked.append(("sample", substep, n))
        named = [tool for tool, p in self.tools[substep].items() for _ in range(round(p * n))]
        named = (named or [max(self.tools[substep], key=lambda tool: self.tools[substep][tool])])[:n]
        named += [named[0]] * (n - len(named))
        return self._answer(tuple(self._call(substep, tool) for tool in named), n)

    async def choose(self, prompt: Prompt, *, seed: int) -> Choice:
        self.prompts.append(prompt)
        assert isinstance(prompt.answer, ChoiceAnswer)
        substep = substep_of(prompt)
        self.asked.append(("choose", substep, 1))
        names = [option.split("(")[0].split(":")[0] for option in prompt.answer.options]
        usage = Usage(forward_passes=2, input_tokens=7)
        self.usage += usage
        return Choice(tuple(self.tools[substep].get(name, 0.0) for name in names), usage)

    def _call(self, substep: str, tool: str) -> str:
        arguments = {} if tool == NO_TOOL else self.arguments(substep, tool)
        return to_json({"tool": tool, "arguments": arguments})

    def _answer(self, texts: tuple[str, ...], n: int) -> Sampled:
        usage = Usage(llm_calls=n, input_tokens=10 * n, output_tokens=3 * n)
        self.usage += usage
        return Sampled(texts, usage)


@dataclass(frozen=True)
class UniformRandom:
    """Every option is as likely as every other."""

    provides: ClassVar[frozenset[str]] = frozenset({SAMPLE, CHOOSE})
    home: ClassVar[Home] = "task"
    name: ClassVar[str] = "test"
    sampler: ClassVar[None] = None
    version: str = "random"

    async def sample(self, prompt: Prompt, *, n: int, temperature: float, max_tokens: int, seed: int) -> Sampled:
        assert isinstance(prompt.answer, ToolCallAnswer)
        names = [tool.name for tool in prompt.answer.tools] + [NO_TOOL] * prompt.answer.may_decline
        rng = random.Random(seed)
        texts = tuple(to_json({"tool": rng.choice(names), "arguments": {}}) for _ in range(n))
        return Sampled(texts, Usage(llm_calls=n))

    async def choose(self, prompt: Prompt, *, seed: int) -> Choice:
        assert isinstance(prompt.answer, ChoiceAnswer)
        count = len(prompt.answer.options)
        return Choice((1 / count,) * count, Usage(forward_passes=1))


@dataclass(frozen=True)
class AtPlace:
    """Always takes the option at one place, whatever it is; asked for a call's arguments, it has none."""

    place: int
    provides: ClassVar[frozenset[str]] = frozenset({SAMPLE, CHOOSE})
    home: ClassVar[Home] = "task"
    name: ClassVar[str] = "test"
    sampler: ClassVar[None] = None
    version: str = "at place"

    async def sample(self, prompt: Prompt, *, n: int, temperature: float, max_tokens: int, seed: int) -> Sampled:
        assert isinstance(prompt.answer, ToolCallAnswer)
        assert asks_for_arguments(prompt.answer)
        return Sampled((to_json({"tool": prompt.answer.tools[0].name, "arguments": {}}),) * n, Usage(llm_calls=n))

    async def choose(self, prompt: Prompt, *, seed: int) -> Choice:
        assert isinstance(prompt.answer, ChoiceAnswer)
        shares = [0.0] * len(prompt.answer.options)
        shares[self.place] = 1.0
        return Choice(tuple(shares), Usage(forward_passes=1))


@dataclass(frozen=True)
class RawText:
    """Answers every request with the same text."""

    text: str
    provides: ClassVar[frozenset[str]] = frozenset({SAMPLE})
    home: ClassVar[Home] = "task"
    name: ClassVar[str] = "test"
    sampler: ClassVar[None] = None
    version: str = "raw"

    async def sample(self, prompt: Prompt, *, n: int, temperature: float, max_tokens: int, seed: int) -> Sampled:
        return Sampled((self.text,) * n, Usage(llm_calls=n))

    async def choose(self, prompt: Prompt, *, seed: int) -> Choice:
        raise AssertionError("no planner that only samples may ask for a choice")
