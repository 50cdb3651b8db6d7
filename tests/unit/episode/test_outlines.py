"""Outlines that are given, hidden, or drafted by the model itself: what is asked, followed, counted and refused."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import pytest

from grid.cells.run import Stamp, run_chunk
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
)
from grid.core.types import FINISH, GIVE_UP, Json, Plan, Usage, to_json
from grid.engines.places import plan_text
from grid.episode.outline import MAX_CHARACTERS, MAX_SUBSTEPS, draft
from grid.settings.build import build
from grid.settings.config import BudgetConfig
from grid.settings.setting import cells
from grid.text.answers import read_outline
from grid.text.objects import UnreadableError
from tests.support.configs import ENDS, setting_of, solvers
from tests.support.world import TOOLS, episode

BUDGET = BudgetConfig()


@dataclass
class Drafting:
    """Drafts the outlines in their turn, the last for ever, and takes the first tool with the same arguments always.

    It never finishes.
    """

    outlines: Sequence[str]
    arguments: Mapping[str, Json] = field(default_factory=dict)
    prompts: list[Prompt] = field(default_factory=list)
    sampled: int = 0
    provides: ClassVar[frozenset[str]] = frozenset({SAMPLE, CHOOSE})
    home: ClassVar[Home] = "task"
    name: ClassVar[str] = "test"
    sampler: ClassVar[None] = None
    version: str = "drafting"

    async def sample(self, prompt: Prompt, *, n: int, temperature: float, max_tokens: int, seed: int) -> Sampled:
        self.prompts.append(prompt)
        self.sampled += n
        usage = Usage(llm_calls=n, input_tokens=10 * n)
        if isinstance(prompt.answer, OutlineAnswer):
            assert (n, temperature) == (1, 0.0), "planners and trials follow the same outline"
            return Sampled((self.outlines[min(len(self.prompts), len(self.outlines)) - 1],), usage)
        if isinstance(prompt.answer, ScoreAnswer):
            return Sampled(('{"score": 5}',) * n, usage)
        tools = [tool for tool in getattr(prompt.answer, "tools", ()) if tool.name not in (FINISH, GIVE_UP)]
        if not tools:
            return Sampled(("Try again.",) * n, usage)
        call: dict[str, Json] = {"tool": tools[0].name, "arguments": dict(self.arguments)}
        if isinstance(prompt.answer, ChainAnswer | MessagesAnswer):
            count = prompt.answer.least if isinstance(prompt.answer, ChainAnswer) else prompt.answer.count
            return Sampled((plan_text(prompt.answer, [call] * count),) * n, usage)
        answer: Any = {"plan": [call] * prompt.answer.least} if isinstance(prompt.answer, PlanAnswer) else call
        return Sampled((to_json(answer),) * n, usage)

    async def choose(self, prompt: Prompt, *, seed: int) -> Choice:
        assert isinstance(prompt.answer, ChoiceAnswer)
        return Choice((1.0, *[0.0] * (len(prompt.answer.options) - 1)), Usage(forward_passes=1))


def outline(*lines: Json) -> str:
    return to_json({"outline": list(lines)})


def rows(engine: Any, planner: str, **values: Any) -> dict[str, list[dict[str, Any]]]:
    """A case of SLATE without an outline of its own."""
    setting = setting_of(dataset="slate", planner=planner, dataset_values={"outline": "drafted", "limit": 1} | values)
    built = replace(build(setting, BUDGET), engine=engine)
    chunk = list(cells(setting, "v", built.dataset.case_ids(), 1))
    return asyncio.run(run_chunk(built, setting, chunk, Stamp("test", None))).take()


UNUSABLE = {
    "nothing": ("", "no JSON object with a list"),
    "no object": ("I would first look.", "no JSON object with a list"),
    "empty": (outline(), "no JSON object with a list"),
    "blank": (outline(" ", "\n"), "no JSON object with a list"),
    "no texts": (outline("look", 3), "no JSON object with a list"),
    "a text": (to_json({"outline": "look, then book"}), "no JSON object with a list"),
    "51 steps": (outline(*["look"] * (MAX_SUBSTEPS + 1)), "51 substeps, 50 at most"),
    "10,000 steps": (outline(*["look"] * 10_000), "80,013 characters, 20,000 at most (budget.answer_characters)"),
    "10,000 steps, shortly": (outline(*["a"] * 3_000), "no JSON object with a list"),
    "a step without end": (outline("look", "x" * (MAX_CHARACTERS + 1)), "a substep of 501 characters, 500 at most"),
    "a million characters": (outline("x" * 1_000_000), "1,000,017 characters, 20,000 at most"),
    "half a surrogate pair": ('{"outline": ["look \\ud800"]}', "half a surrogate pair"),
    "braces": ("{" * 10_000, "too many braces that begin no object"),
}


@pytest.mark.long
@pytest.mark.parametrize("planner", ["react", "fh", "egb_logits"])
@pytest.mark.parametrize("text", UNUSABLE)
def test_an_outline_that_cannot_be_followed_is_the_models_failure(planner: str, text: str) -> None:
    engine = Drafting([UNUSABLE[text][0]])
    (row,) = rows(engine, planner)["episodes"]
    assert (row["status"], row["error_kind"], row["success"], row["n_steps"]) == ("failed", "model", False, 0)
    assert row["error_message"].startswith(
        f"the model had written no usable outline after 3 tries: {UNUSABLE[text][1]}"
    )
    assert (row["llm_calls"], row["input_tokens"]) == (3, 30), "what was tried is counted"
    asked = [bool(prompt.entries("retry")) for prompt in engine.prompts]
    assert asked == [False, True, True]


def test_the_next_try_may_do_better_and_why_the_first_could_not_be_used_is_kept() -> None:
    run = episode(Drafting([outline(), outline("find  it", "book\nit")]))
    asyncio.run(draft(run))
    assert [(s.id, s.text, s.goal, s.drafted) for s in run.case.plan.substeps] == [
        ("1", "find it", "", True),
        ("2", "book it", "", True),
    ]
    assert [list(message.unreadable) for message in run.messages] == [[0], []]
    assert [message.decision for message in run.messages] == ["outline/0", "outline/1"]


def test_what_is_asked_is_the_query_and_its_tools_and_nothing_of_the_cases_own_outline() -> None:
    engine = Drafting([outline("find it")])
    run = episode(engine)
    run.case = replace(run.case, plan=Plan(()))
    asyncio.run(draft(run))
    (prompt,) = engine.prompts
    assert prompt.entries("task") == (f"Query: {run.case.query}",)
    assert [line.partition("(")[0] for line in prompt.entries("tools")[1:]] == list(TOOLS)
    assert prompt.answer == OutlineAnswer(MAX_SUBSTEPS)


@pytest.mark.parametrize("planner", sorted({*solvers()} - ENDS))
def test_a_drafted_outline_is_followed_and_counted_and_nothing_is_held_against_it(planner: str) -> None:
    engine = Drafting([outline("find the order", "think", "book it again")])
    found = rows(engine, planner)
    (row,) = found["episodes"]
    assert (row["status"], row["success"], row["tool_match_rate"], row["action_accuracy"]) == ("ok", False, None, None)
    path = [step for step in found["steps"] if step["on_path"]]
    assert [(step["substep_id"], step["substep"]) for step in path] == [
        ("1", "find the order"),
        ("2", "think"),
        ("3", "book it again"),
    ]
    assert all(step["tool_required"] is step["reference_tool"] is step["tool_matches"] is None for step in path)
    assert (row["llm_calls"], row["input_tokens"]) == (engine.sampled, 10 * engine.sampled), "the draft too"
    outlines = [prompt for prompt in engine.prompts if isinstance(prompt.answer, OutlineAnswer)]
    assert len(outlines) == 1, "once a case, before the planner begins"


@pytest.mark.parametrize("planner", sorted({*solvers()} - ENDS))
def test_substeps_and_calls_that_refer_to_themselves_or_to_what_comes_later_end_nothing(planner: str) -> None:
    lines = [f"use OUTPUT_FROM_STEP_{step}.item" for step in (1, 3, 2, 99)]
    own: dict[str, Json] = {"item": "OUTPUT_FROM_STEP_1.item", "other": ["OUTPUT_FROM_STEP_4.x, OUTPUT_FROM_STEP_2.x"]}
    found = rows(Drafting([outline(*lines)], own), planner)
    (row,) = found["episodes"]
    assert (row["status"], row["success"]) == ("ok", False)
    first = next(step for step in found["steps"] if step["on_path"])
    if found["nodes"]:
        assert (first["arguments"], first["chosen_tool"]) == (None, None), "the tool has no such arguments"
    else:
        assert first["arguments"] == to_json(own), "what nothing answers stays as it was written"


def test_lists_behind_another_object_and_objects_of_other_kinds_are_told_apart() -> None:
    assert read_outline('{"thought": "x"} then ```{"outline": ["a", " b "]}```') == ["a", "b"]
    for other in ('{"plan": ["a"]}', '{"outline": {"1": "a"}}'):
        with pytest.raises(UnreadableError):
            read_outline(other)


def test_a_draft_out_of_budget_is_no_error_and_leaves_nothing_to_return() -> None:
    setting = setting_of(dataset="slate", dataset_values={"outline": "drafted", "limit": 1})
    built = replace(build(setting, BudgetConfig(llm_calls=2, steps=1)), engine=Drafting([""]))
    chunk = list(cells(setting, "v", built.dataset.case_ids(), 1))
    (row,) = asyncio.run(run_chunk(built, setting, chunk, Stamp("test", None))).take()["episodes"]
    assert (row["status"], row["budget_reached"], row["llm_calls"]) == ("ok", "llm_calls", 2)
    assert (row["success"], row["n_steps"]) == (False, 0)


def test_without_an_outline_a_path_ends_at_its_limit_or_when_it_finishes() -> None:
    (row,) = rows(Drafting([""]), "react", outline="hidden")["episodes"]
    assert (row["n_steps"], row["tool_calls"], row["success"]) == (30, 30, False)
