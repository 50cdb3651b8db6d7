"""An engine that is told the references of the cases, and answers every kind of prompt by them. Only for tests."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

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
    TextAnswer,
    ToolCallAnswer,
    VoteAnswer,
)
from grid.core.problem import Dataset, Reference
from grid.core.types import FINISH, NO_TOOL, ToolCall, ToolSpec, Usage, to_json
from grid.engines.places import name_of, plan_text, takes_answer
from grid.text.references import PATTERN, answering, reference
from tests.support.engines import substep_of

NOTHING = {"tool": NO_TOOL, "arguments": {}}


@dataclass(frozen=True)
class Oracle:
    """Takes what the reference of the prompt's query says next.

    Given an outline, its own calls and 'no tool'; without one the calls in their order, then `finish`, with the results
    that resolve the case where an answer is asked for; the outline that it drafts has a substep for each call.
    """

    references: Mapping[str, Reference]
    tools: Mapping[str, ToolSpec]
    asked: list[str] = field(default_factory=list)
    provides: ClassVar[frozenset[str]] = frozenset({SAMPLE, CHOOSE})
    home: ClassVar[Home] = "task"
    name: ClassVar[str] = "test"
    sampler: ClassVar[None] = None
    version: str = "oracle"

    async def sample(self, prompt: Prompt, *, n: int, temperature: float, max_tokens: int, seed: int) -> Sampled:
        self.asked.append(type(prompt.answer).__name__)
        assert not isinstance(prompt.answer, TextAnswer | ChoiceAnswer | ScoreAnswer | VoteAnswer), (
            "no lesson, no judge"
        )
        if isinstance(prompt.answer, ChainAnswer | MessagesAnswer):
            left = self._plan(prompt)[max(len(prompt.entries("history")) - 1, 0) :]
            most = prompt.answer.count if isinstance(prompt.answer, MessagesAnswer) else prompt.answer.most
            return Sampled((plan_text(prompt.answer, left[:most]),) * n, Usage(llm_calls=n))
        if isinstance(prompt.answer, OutlineAnswer):
            calls = self._calls(prompt)
            told: Any = {
                "outline": [f"{call.tool}: {self.tools[call.tool].description}"[:400] for call in calls] or ["None."]
            }
        elif isinstance(prompt.answer, PlanAnswer):
            plan = self._plan(prompt)
            told = {"plan": plan[-prompt.answer.least :] if prompt.answer.may_decline else plan}
        else:
            assert isinstance(prompt.answer, ToolCallAnswer), "no functions"
            told = ({"thought": "As told."} if prompt.answer.thought else {}) | self._next(prompt)
        return Sampled((to_json(told),) * n, Usage(llm_calls=n))

    async def choose(self, prompt: Prompt, *, seed: int) -> Choice:
        self.asked.append(type(prompt.answer).__name__)
        assert isinstance(prompt.answer, ChoiceAnswer)
        names = [name_of(option) for option in prompt.answer.options]
        tool = self._next(prompt)["tool"]
        return Choice(tuple(float(name == tool) for name in names), Usage(forward_passes=1))

    def _next(self, prompt: Prompt) -> dict[str, Any]:
        """The action at the prompt's decision point."""
        outline = prompt.entries("task")[2:]
        plan = self._plan(prompt)
        if not outline:
            return plan[int(substep_of(prompt))]
        return plan[[line.split(" ")[0] for line in outline].index(substep_of(prompt))]

    def _plan(self, prompt: Prompt) -> list[dict[str, Any]]:
        """The actions of the whole case."""
        known, calls = self._reference(prompt), self._calls(prompt)
        outline = [line.split(" ")[0] for line in prompt.entries("task")[2:]]
        if outline and not calls:
            return [NOTHING] * len(outline)
        if outline and outline == list(known.calls):
            return [_written(call, {}) if call else NOTHING for call in known.calls.values()]
        numbers = outline or [str(place) for place in range(len(calls))]
        places = dict(zip((step for step, call in known.calls.items() if call), numbers, strict=True))
        finished: dict[str, Any] = {"tool": FINISH, "arguments": {}}
        if takes_answer(getattr(prompt.answer, "tools", ())):
            finished["arguments"] = {"answer": answering([places[step] for step in known.resolution])}
        elif known.told and known.answer:
            finished["arguments"] = {"answer": known.answer}
        return [*(_written(call, places) for call in calls), *([] if outline else [finished])]

    def _calls(self, prompt: Prompt) -> list[ToolCall]:
        return [call for call in self._reference(prompt).calls.values() if call]

    def _reference(self, prompt: Prompt) -> Reference:
        return self.references[prompt.entries("task")[0].removeprefix("Query: ")]


class Judge(Oracle):
    """Scores the call that the reference says next as 10, every other one as 0."""

    async def sample(self, prompt: Prompt, *, n: int, temperature: float, max_tokens: int, seed: int) -> Sampled:
        assert isinstance(prompt.answer, ScoreAnswer)
        wanted = self._next(prompt)
        told = "none" if wanted["tool"] == NO_TOOL else ToolCall(wanted["tool"], wanted["arguments"]).text()
        shown = prompt.entries("proposal")[-1]
        ends = wanted["tool"] == FINISH and shown.startswith(f'{{"tool": "{FINISH}"')  # with whatever answer
        right = ends or told == shown
        return Sampled((to_json({"score": 10 * right, "explanation": "As told."}),) * n, Usage(llm_calls=n))


def oracle_of(dataset: Dataset, case_ids: Sequence[str]) -> Oracle:
    """An engine that knows these cases."""
    problems = [dataset.problem(case_id) for case_id in case_ids]
    references = {problem.case.query: problem.reference for problem in problems}
    assert len(references) == len(problems), "a query tells which case it is"
    return Oracle(references, dataset.tools)


def judge_of(dataset: Dataset, case_ids: Sequence[str]) -> Judge:
    """A judge that knows these cases."""
    known = oracle_of(dataset, case_ids)
    return Judge(known.references, known.tools)


def _written(call: ToolCall, places: Mapping[str, str]) -> dict[str, Any]:
    """The call with its references to the steps as they are numbered here."""
    text = PATTERN.sub(lambda found: reference(places.get(found[1], found[1]), found[2]), to_json(dict(call.arguments)))
    return {"tool": call.tool, "arguments": json.loads(text)}
