"""Single-step and full horizon against scripted answers: what is asked, executed, kept, and counted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pytest

from grid.engines.base import SAMPLE, Home, PlanAnswer, Prompt, Sampled
from grid.engines.lexical.engine import Lexical
from grid.errors import ModelError
from grid.metrics.stepwise import repeats_a_call
from grid.planners.base import Budget, Episode
from grid.planners.fh import FullHorizon
from grid.planners.horizon import INVALID
from grid.planners.sh import SingleStepHorizon
from grid.text.references import reference
from grid.types import (
    Case,
    Demonstration,
    Json,
    Observation,
    Parameter,
    Plan,
    ToolCall,
    ToolSpec,
    Trajectory,
    Usage,
    to_json,
)

TOOLS = (
    ToolSpec("number", "a number by its name", (Parameter("name", "string", "its name"),)),
    ToolSpec("sum", "of two numbers", (Parameter("left", "result", ""), Parameter("right", "result", ""))),
)
NUMBERS = {"one": 1, "two": 2, "five": 5}


@dataclass
class Numbers:
    """Handles are `$n` of the n-th result; an unknown name fails."""

    results: list[int] = field(default_factory=list)
    executed: list[ToolCall] = field(default_factory=list)

    def execute(self, call: ToolCall) -> Observation:
        self.executed.append(call)
        arguments = [str(value) for value in call.arguments.values()]
        if call.tool == "sum":
            value: int | None = sum(self.results[int(handle[1:])] for handle in arguments)
        else:
            value = NUMBERS.get(arguments[0])
        if value is None:
            return Observation({"error": f"there is no {arguments[0]}"})
        self.results.append(value)
        return Observation({"result": f"${len(self.results) - 1}", "value": str(value)})

    def snapshot(self) -> Hashable:
        return tuple(self.results)

    def restore(self, mark: Hashable) -> None:
        raise AssertionError("nobody branches here")

    def resolved(self) -> bool:
        return self.results[-1:] == [3]


@dataclass
class Script:
    """Answers in their turn; the last for ever."""

    answers: Sequence[str]
    prompts: list[Prompt] = field(default_factory=list)
    provides: ClassVar[frozenset[str]] = frozenset({SAMPLE})
    home: ClassVar[Home] = "task"
    sampler: ClassVar[None] = None
    name: ClassVar[str] = "test"
    version: str = "script"

    async def sample(self, prompt: Prompt, *, n: int, temperature: float, max_tokens: int, seed: int) -> Sampled:
        self.prompts.append(prompt)
        return Sampled((self.answers[min(len(self.prompts), len(self.answers)) - 1],), Usage(n, 0, 10, 0, 3))

    async def choose(self, prompt: Prompt, *, seed: int) -> Any:
        raise AssertionError("no choices here")


def number(name: str) -> dict[str, Json]:
    return {"tool": "number", "arguments": {"name": name}}


def added(left: str, right: str) -> dict[str, Json]:
    return {"tool": "sum", "arguments": {"left": left, "right": right}}


def plan(*calls: dict[str, Json]) -> str:
    return to_json({"plan": list(calls)})


DONE = to_json({"tool": "no_tool", "arguments": {}})
SOLVED = Demonstration(
    "What is one and five?",
    {
        "0": ToolCall("number", {"name": "one"}),
        "1": ToolCall("number", {"name": "five"}),
        "2": ToolCall("sum", {"left": reference("0", "result"), "right": reference("1", "result")}),
    },
    "6",
)


def solved(
    planner: FullHorizon | SingleStepHorizon, engine: Any, question: str = "What is one and two?"
) -> tuple[Trajectory, Numbers, Episode]:
    world = Numbers()
    candidates: Callable[..., Any] = lambda case, substep: TOOLS  # noqa: E731
    case = Case("q", question, Plan(()))
    episode = Episode(case, world, engine, candidates, Budget(), 7, demonstrations=lambda count: [SOLVED][:count])
    return asyncio.run(planner.solve(episode)), world, episode


def test_an_oracle_plan_takes_one_call_of_the_model() -> None:
    engine = Script([plan(number("one"), number("two"), added("$0", "$1"))])
    found, world, episode = solved(FullHorizon(), engine)
    assert (len(engine.prompts), found.replans, found.answer) == (1, 0, "3")
    assert (len(found.steps), episode.tool_calls, world.resolved()) == (3, 3, True)
    assert world.executed[-1] == ToolCall("sum", {"left": "$0", "right": "$1"})
    assert [step.input_tokens for step in found.steps] == [10, 0, 0]


def test_single_steps_take_one_call_each_and_see_every_observation() -> None:
    calls = [number("one"), number("two"), added("$0", "$1")]
    engine = Script([*map(to_json, calls), DONE])
    found, world, _ = solved(SingleStepHorizon(), engine)
    assert (len(engine.prompts), found.answer, world.resolved()) == (4, "3", True)
    seen = [prompt.entries("history") for prompt in engine.prompts]
    assert [len(entries) for entries in seen] == [0, 2, 3, 4]
    assert [entry.split(" = ")[0] for entry in seen[-1][1:]] == ["$0", "$1", "$2"]
    assert seen[-1][1].endswith('returned {"value": "1"}')
    assert all(to_json(call) in entry for call, entry in zip(calls, seen[-1][1:], strict=True))


def test_a_failure_alone_brings_a_new_plan_which_is_appended() -> None:
    answers = [
        plan(number("one"), number("too"), added("$0", "$1")),
        plan(number("two"), added("$0", "$2")),
    ]
    engine = Script(answers)
    found, world, _ = solved(FullHorizon(), engine)
    assert (len(engine.prompts), found.replans, found.answer) == (2, 1, "3")
    named = [call.arguments.get("name") for call in world.executed]
    assert named == ["one", "too", "two", None], "the plan's rest is dropped, what was executed is not run again"
    assert world.executed[-1].arguments == {"left": "$0", "right": "$1"}, "the results, numbered by themselves"
    history = engine.prompts[1].entries("history")
    assert history[2] == '$1 = {"tool": "number", "arguments": {"name": "too"}} failed: {"error": "there is no too"}'
    assert "step $2" in engine.prompts[1].entries("instruction")[0]
    answer = engine.prompts[1].answer
    assert isinstance(answer, PlanAnswer)
    assert (answer.first, answer.most) == (2, 28)


def test_replans_are_counted_and_end() -> None:
    found, world, _ = solved(FullHorizon(max_replans=3), Script([plan(number("too"))]))
    assert (found.replans, len(world.executed), found.answer) == (3, 4, None)
    assert repeats_a_call(found.steps)


@pytest.mark.parametrize("planner", [FullHorizon(max_replans=99), SingleStepHorizon()])
def test_both_stop_at_thirty_calls(planner: FullHorizon | SingleStepHorizon) -> None:
    whole = plan(*[number("one")] * 20, number("too"))
    engine = Script([whole if isinstance(planner, FullHorizon) else to_json(number("one"))])
    found, world, _ = solved(planner, engine)
    assert len(found.steps) == len(world.executed) == 30
    assert found.answer == "1"


@pytest.mark.parametrize(
    "calls",
    [
        [added("$0", "$0")],  # of itself
        [added("$1", "$1"), number("one")],  # of a later step
        [number("one"), added("$0", "$99")],
        [number("one"), added("$0", "one")],
        [number("one"), added("$0", "$-1")],
        [{"tool": "product", "arguments": {}}],
        [{"tool": "number", "arguments": {}}],
        [{"tool": "number", "arguments": {"name": "one", "more": "x"}}],
        [{"tool": "sum", "arguments": {"left": 3, "right": ["$0"]}}],
    ],
)
def test_a_plan_that_cannot_be_run_is_asked_for_again(calls: list[dict[str, Json]]) -> None:
    engine = Script([plan(*calls), plan(number("one"))])
    found, world, _ = solved(FullHorizon(), engine)
    assert (len(world.executed), found.replans, found.answer) == (1, 0, "1")
    assert INVALID in engine.prompts[1].entries("instruction")
    assert found.steps[0].input_tokens == 20, "both tries"


@pytest.mark.parametrize("text", ["", "no idea", "{}", '{"plan": []}', '{"plan": [3]}', DONE, "{" * 5000])
@pytest.mark.parametrize("planner", [FullHorizon(max_retries=2), SingleStepHorizon(max_retries=2)])
def test_nothing_usable_is_the_models_failure(planner: FullHorizon | SingleStepHorizon, text: str) -> None:
    engine = Script([text])
    with pytest.raises(ModelError, match="after 3 tries"):
        solved(planner, engine)
    assert len(engine.prompts) == 3


def test_a_result_of_a_failed_step_cannot_be_used() -> None:
    engine = Script([plan(number("too")), plan(number("one"), added("$0", "$1")), plan(number("two"))])
    found, _, _ = solved(FullHorizon(), engine)
    assert (len(engine.prompts), found.answer) == (3, "2")


def test_both_get_the_same_tools_and_demonstrations() -> None:
    prompts = []
    for planner, answers in (
        (FullHorizon(), [plan(number("one"))]),
        (SingleStepHorizon(), [to_json(number("one")), DONE]),
    ):
        engine = Script(answers)
        solved(planner, engine)
        prompts.append(engine.prompts[0])
    for kind in ("role", "tools", "demonstrations", "task"):
        assert prompts[0].entries(kind) == prompts[1].entries(kind)
    (shown,) = prompts[0].entries("demonstrations")
    assert '{"tool": "sum", "arguments": {"left": "$0", "right": "$1"}}' in shown


@pytest.mark.parametrize("planner", [FullHorizon(), SingleStepHorizon()])
@pytest.mark.parametrize(("question", "value"), [("What is one and two?", "3"), ("What is two and five?", "7")])
def test_the_lexical_engine_fills_the_slots_of_the_nearest_plan(
    planner: FullHorizon | SingleStepHorizon, question: str, value: str
) -> None:
    found, _, _ = solved(planner, Lexical(), question)
    assert (found.answer, len(found.steps), found.replans) == (value, 3, 0)


@pytest.mark.parametrize("planner", [FullHorizon(), SingleStepHorizon(max_retries=1)])
def test_the_lexical_engine_has_no_second_idea_where_there_is_one_demonstration(
    planner: FullHorizon | SingleStepHorizon,
) -> None:
    if isinstance(planner, FullHorizon):
        with pytest.raises(ModelError):
            solved(planner, Lexical(), "What is one and too?")
    else:
        found, world, _ = solved(planner, Lexical(), "What is one and too?")
        assert (found.answer, world.resolved()) == ("1", False)
