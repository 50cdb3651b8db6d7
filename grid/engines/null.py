"""An engine that picks the first option at once and never gives up, to show the grid's own cost without a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import ClassVar

from pydantic.dataclasses import dataclass

from grid.core.engine import (
    CHOOSE,
    SAMPLE,
    ChainAnswer,
    Choice,
    ChoiceAnswer,
    Home,
    MessagesAnswer,
    OutlineAnswer,
    PlanAnswer,
    Prompt,
    Sampled,
    ScoreAnswer,
    ToolCallAnswer,
    VerdictAnswer,
    VoteAnswer,
)
from grid.core.types import ERRORS, FINISH, GIVE_UP, NO_TOOL, REJECT, UNKNOWN, Json, ToolSpec, Usage, to_json
from grid.core.util import STRICT, Once
from grid.engines.places import plan_text, takes_answer
from grid.text.references import take_results


@dataclass(frozen=True, config=STRICT)
class Null:
    """The engine `null`: it reads nothing and uses no tokens."""

    provides: ClassVar[frozenset[str]] = frozenset({SAMPLE, CHOOSE})
    home: ClassVar[Home] = "task"
    name: ClassVar[str] = "null"
    sampler: ClassVar[None] = None
    version: str = field(default="null-1", init=False)

    async def sample(self, prompt: Prompt, *, n: int, temperature: float, max_tokens: int, seed: int) -> Sampled:
        """The same answer `n` times; the answer depends on the kind of answer requested.

        The answer is a call of the first tool without arguments (in a plan: `least` such calls; among messages:
        `count`), an outline of one line, score 0, candidate 0, a verdict without errors, or an empty text.
        """
        answer, text = prompt.answer, ""
        if isinstance(answer, ToolCallAnswer):
            text = _call(answer.tools) if answer.tools else ""
        elif isinstance(answer, OutlineAnswer):
            text = to_json({"outline": ["do it"]})
        elif isinstance(answer, ScoreAnswer):
            text = to_json({"score": 0, "explanation": ""})
        elif isinstance(answer, VoteAnswer):
            text = to_json({"best": 0, "explanation": ""})
        elif isinstance(answer, VerdictAnswer):
            said = dict.fromkeys(ERRORS, False) | {"grade": 1.0} if answer.errors else {}
            text = to_json({"reasoning": "", **said, "is_correct": True})
        elif isinstance(answer, ChainAnswer | MessagesAnswer):
            text = _plan(answer)
        elif isinstance(answer, PlanAnswer) and answer.tools:
            text = to_json({"plan": _calls(answer.tools, answer.least)})
        return Sampled((text,) * n, Usage(llm_calls=n))

    async def choose(self, prompt: Prompt, *, seed: int) -> Choice:
        """Put all probability on option 0."""
        options = len(prompt.answer.options) if isinstance(prompt.answer, ChoiceAnswer) else 1
        return Choice((1.0, *[0.0] * (options - 1)), Usage(forward_passes=1))


_call: Once[tuple[ToolSpec, ...], str] = Once(lambda tools: to_json({"tool": _first(tools), "arguments": {}}))


def _plan(answer: ChainAnswer | MessagesAnswer) -> str:
    return plan_text(answer, _calls(answer.tools, answer.least if isinstance(answer, ChainAnswer) else answer.count))


def _calls(tools: Sequence[ToolSpec], count: int) -> list[dict[str, Json]]:
    """Calls of the first tool, `count` in all; if `finish` takes an answer, the last call is a `finish`."""
    call: dict[str, Json] = {"tool": _first(tools) if tools else NO_TOOL, "arguments": {}}
    last: dict[str, Json] = {"tool": FINISH, "arguments": {"answer": UNKNOWN}} if takes_answer(tools) else call
    return [*[call] * (count - 1), last]


def _first(tools: Sequence[ToolSpec]) -> str:
    """The first tool except `give_up` and `reject`; if tools take results, the first of these without arguments.

    If there is no such tool, the condition is dropped: first the one on arguments, then the one on the names.
    """
    offered = [tool for tool in tools if tool.name not in (GIVE_UP, REJECT)] or list(tools)
    if take_results(offered):
        offered = [tool for tool in offered if not tool.parameters] or offered
    return offered[0].name
