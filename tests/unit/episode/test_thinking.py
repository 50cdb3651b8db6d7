"""Retrieval between thought and action (traject_bench §4.4, as its authors' script does it)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pytest

from grid.cells.run import Stamp, run_chunk
from grid.core.engine import SAMPLE, Choice, Home, Prompt, Sampled, ThoughtAnswer, ToolCallAnswer
from grid.core.types import FINISH, Case, Observation, Parameter, Plan, Substep, ToolCall, ToolSpec, Usage, to_json
from grid.episode.episode import Episode
from grid.episode.options import SOUGHT
from grid.episode.progress import Budget
from grid.planners.react import ReAct
from grid.retrievers.scored import BM25
from grid.settings.build import build
from grid.settings.check import invalid_reason
from grid.settings.config import BudgetConfig
from grid.settings.setting import cells
from tests.support.configs import setting_of, solvers

TOOLS = {
    name: ToolSpec(name, text, (Parameter("x", "string", "", required=False),))
    for name, text in {
        "hotel": "Reserves a room for a trip.",
        "flight": "Calls off a flight.",
        "weather": "Tells the weather of a city.",
        "files": "Packs documents.",
    }.items()
}
CASE = Case("c", "Reserve a room for my trip.", Plan(()))


class Echo:
    """Every call returns its tool's name."""

    branches = True

    def start(self) -> tuple[str, ...]:
        return ()

    async def apply(self, state: Any, call: ToolCall) -> tuple[Any, Observation]:
        return (*state, call.tool), Observation({"said": f"{call.tool} flight flight"})

    def resolved(self, state: Any) -> bool:
        return False

    def answer(self, state: Any) -> str | None:
        return None


@dataclass
class Thinking:
    """Thinks what it is told to, one thought a decision, and calls the first tool; finishes behind the last thought."""

    thoughts: tuple[str, ...]
    prompts: list[Prompt] = field(default_factory=list)
    provides: ClassVar[frozenset[str]] = frozenset({SAMPLE})
    home: ClassVar[Home] = "task"
    name: ClassVar[str] = "test"
    sampler: ClassVar[None] = None
    version: str = "thinking"

    async def sample(self, prompt: Prompt, *, n: int, temperature: float, max_tokens: int, seed: int) -> Sampled:
        self.prompts.append(prompt)
        place = max(len(prompt.entries("history")) - 1, 0)
        if isinstance(prompt.answer, ThoughtAnswer):
            return self._told(self.thoughts[place] if place < len(self.thoughts) else "Nothing is left.")
        assert isinstance(prompt.answer, ToolCallAnswer)
        offered = [tool.name for tool in prompt.answer.tools if tool.name != FINISH]
        tool = offered[0] if place < len(self.thoughts) else FINISH
        return self._told(to_json({"thought": "so be it", "tool": tool, "arguments": {}}))

    def _told(self, text: str) -> Sampled:
        return Sampled((text,), Usage(llm_calls=1, input_tokens=10, output_tokens=3))

    async def choose(self, prompt: Prompt, *, seed: int) -> Choice:
        raise NotImplementedError


def solved(*thoughts: str, query_top_k: int = 1, **keys: Any) -> tuple[Any, Thinking, Episode]:
    engine, index = Thinking(thoughts), BM25(query_top_k=query_top_k, mode="thought").index(TOOLS)
    mode = index.mode
    run = Episode(CASE, Echo(), engine, index.retrieve, Budget(), 1, query_tools=query_top_k, retrieved=mode)
    return asyncio.run(ReAct(**keys).solve(run)), engine, run


def listed(prompt: Prompt) -> list[str]:
    cards = next(section.options for section in prompt.sections if section.kind == "tools")
    return [card.partition("(")[0] for card in cards if not card.startswith(FINISH)]


def test_each_action_has_the_tools_of_its_own_thought_alone() -> None:
    thoughts = ("Pack the documents.", "Tell the weather of the city.", "Call off the flight.")
    found, engine, _ = solved(*thoughts)
    assert [step.chosen for step in found.steps] == ["files", "weather", "flight", FINISH]
    shown = [listed(prompt) for prompt in engine.prompts]
    assert shown[0] == ["hotel"], "the first thought is on the tools that the query finds"
    assert shown[1::2][:3] == [["files"], ["weather"], ["flight"]]
    assert shown[2::2][:3] == [["files"], ["weather"], ["flight"]], "later ones on those of the thought before"
    index = BM25(query_top_k=1).index(TOOLS)
    for thought, step in zip(thoughts, found.steps, strict=False):
        assert step.sought == thought
        bare = index.retrieve(Case("other", "", Plan(())), Substep("0", thought, ""))
        assert step.candidates == (bare[0].name,), "neither the query nor what was observed has a part in it"


def test_a_decision_takes_two_answers_and_keeps_both_thoughts() -> None:
    found, engine, run = solved("Pack the documents.", "Call off the flight.")
    assert [isinstance(prompt.answer, ThoughtAnswer) for prompt in engine.prompts] == [True, False] * 3
    assert found.steps[0].thought == "Pack the documents. so be it"
    assert engine.prompts[1].entries("thought")[-1] == "Pack the documents."
    assert "Pack the documents. so be it" in engine.prompts[2].entries("history")[-1]
    assert not engine.prompts[2].entries("thought"), "a thought is of one decision"
    assert run.usage == Usage(llm_calls=6, input_tokens=60, output_tokens=18)
    assert sum(step.input_tokens or 0 for step in found.steps) == 60, "steps have what their thoughts cost"


def test_eight_turns_are_eight_decisions() -> None:
    found, engine, _ = solved(*["Pack the documents."] * 20, max_calls=8)
    assert (len(found.steps), len(engine.prompts), found.answer) == (8, 16, None)


@pytest.mark.parametrize("thought", ["", "<think>all of this is only thought</think>", "x" * 30_000])
def test_without_a_thought_that_can_be_read_the_tools_stay(thought: str) -> None:
    found, engine, _ = solved(thought)
    assert listed(engine.prompts[1]) == ["hotel"]
    assert (found.steps[0].sought, found.steps[0].thought) == ("", "so be it")


def test_a_thought_is_as_long_as_a_thought_may_be_and_is_sought_by_its_beginning() -> None:
    found, engine, _ = solved("Pack documents. " + "very " * 1000, thought=900)
    assert len(engine.prompts[1].entries("thought")[-1]) == 900
    assert len(found.steps[0].sought) == SOUGHT


def test_planners_without_a_thought_before_the_action_are_refused() -> None:
    for planner in solvers():
        setting = setting_of({"outline": "hidden"}, dataset="slate", planner=planner)
        setting.config["retriever"]["mode"] = "thought"
        reason = invalid_reason(setting)
        assert (reason is not None and "retriever.mode=thought" in reason) is (planner != "react")


@pytest.mark.long
@pytest.mark.parametrize("outline", ["hidden", "given"])
@pytest.mark.parametrize("model", ["simulated", "lexical"])
def test_cases_run_to_their_end_and_offer_what_their_rows_say(model: str, outline: str) -> None:
    setting = setting_of({"limit": 3, "outline": outline}, dataset="slate", model=model)
    setting.config["retriever"].update(mode="thought", top_k=3, query_top_k=3)
    built = build(setting, BudgetConfig())
    chunk = list(cells(setting, built.version, built.dataset.case_ids(), 1))
    rows = asyncio.run(run_chunk(built, setting, chunk, Stamp("test", None))).take()
    assert [row["status"] for row in rows["episodes"]] == ["ok"] * 3
    assert all(row["n_options"] == 4 for row in rows["steps"])
    ranked = [row["reference_rank"] for row in rows["steps"] if row["tool_matches"]]
    assert all(rank in (0, 1, 2) for rank in ranked if rank is not None)
