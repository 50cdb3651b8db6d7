"""Zero-shot and chain of thought against scripted answers: one chain that runs by itself, or one call a prompt."""

from __future__ import annotations

import pytest

from grid.core.engine import PlanAnswer, ToolCallAnswer
from grid.core.errors import ConfigError, ModelError
from grid.core.types import FINISH, to_json
from grid.engines.lexical.engine import Lexical
from grid.planners.zero_shot import ZeroShot
from tests.support.numbers_world import DONE, OUTLINE, Script, added, finish, number, plan, result, solved
from tests.support.planted import grid

THOUGHT = "Both numbers first, then their sum."


def test_a_chain_is_one_answer_run_without_the_model() -> None:
    engine = Script([plan(number("one"), number("two"), added(result(0), result(1)), finish(), number("five"))])
    found = solved(ZeroShot(), engine)
    assert (len(engine.prompts), found.trajectory.answer, found.resolved) == (1, "3", True)
    assert [step.chosen for step in found.trajectory.steps] == ["number", "number", "sum", FINISH]
    assert engine.prompts[0].entries("demonstrations") == ()
    assert [step.input_tokens for step in found.trajectory.steps] == [10, 0, 0, 0]


def test_a_chain_goes_on_where_a_call_fails_and_nobody_plans_anew() -> None:
    engine = Script([plan(number("one"), number("too"), number("two"), added(result(0), result(2)))])
    found = solved(ZeroShot(), engine)
    failed = [step.observation.failed for step in found.trajectory.steps if step.observation]
    assert failed == [False, True, False, False]
    assert (len(engine.prompts), found.trajectory.replans, found.resolved) == (1, 0, True)


def test_a_chain_has_an_entry_for_each_substep_of_an_outline() -> None:
    whole = plan(number("one"), number("two"), {"tool": "no_tool", "arguments": {}}, added(result(1), result(2)))
    engine = Script([plan(number("one")), whole])
    found = solved(ZeroShot(), engine, outline=OUTLINE)
    assert (found.resolved, len(engine.prompts)) == (True, 2)
    assert [message.unreadable.get(0) for message in found.episode.messages] == [
        "a plan of 1 entries, where 4 are wanted",
        None,
    ]


def test_no_chain_is_the_models_failure() -> None:
    with pytest.raises(ModelError, match=r"(in|after) 3 tries"):
        solved(ZeroShot(max_retries=2), Script(["no idea"]))


def test_chain_of_thought_reasons_in_front_of_the_chain() -> None:
    answer = to_json({"thought": f"{THOUGHT} \n", "plan": [number("one"), number("two"), added(result(0), result(1))]})
    engine = Script([answer])
    found = solved(ZeroShot(thought=1000), engine)
    assert isinstance(engine.prompts[0].answer, PlanAnswer)
    assert engine.prompts[0].answer.thought == 1000
    assert '{"thought": your step-by-step reasoning' in engine.prompts[0].entries("instruction")[-1]
    assert [step.thought for step in found.trajectory.steps] == [THOUGHT, None, None]
    assert found.resolved
    (cut,) = {step.thought for step in solved(ZeroShot(thought=4), engine).trajectory.steps} - {None}
    assert cut == "Both"
    assert {step.thought for step in solved(ZeroShot(), engine).trajectory.steps} == {None}, "not asked for"


@pytest.mark.parametrize("thought", [0, 300])
@pytest.mark.parametrize("seen", ["calls", "all"])
def test_a_step_sees_the_calls_before_it_and_their_results_only_where_it_is_told_to(seen: str, thought: int) -> None:
    calls = [{"thought": THOUGHT} | number("one"), number("two"), added(result(0), result(1))]
    engine = Script([*map(to_json, calls), DONE])
    found = solved(ZeroShot(mode="step", seen=seen, thought=thought), engine)  # type: ignore[arg-type]
    assert (len(engine.prompts), found.resolved) == (4, True)
    seen_last = engine.prompts[-1].entries("history")[1:]
    assert len(seen_last) == 3
    assert all(("returned" in line) is (seen == "all") for line in seen_last)
    assert (THOUGHT in seen_last[0]) is (thought > 0)
    for prompt in engine.prompts:
        assert isinstance(prompt.answer, ToolCallAnswer)
        assert (prompt.answer.thought, prompt.entries("demonstrations")) == (thought, ())


def test_the_lexical_engine_goes_on_from_calls_whose_results_it_does_not_see() -> None:
    found = solved(ZeroShot(mode="step", demonstrations=1), Lexical(), "What is two and five?")
    assert (found.trajectory.answer, [step.chosen for step in found.trajectory.steps]) == (
        "7",
        ["number", "number", "sum", FINISH],
    )


def test_both_modes_are_offered_the_same_tools() -> None:
    chain, step = Script([plan(number("one"))]), Script([to_json(number("one")), DONE])
    solved(ZeroShot(), chain)
    solved(ZeroShot(mode="step"), step)
    for kind in ("role", "tools", "task"):
        assert chain.prompts[0].entries(kind) == step.prompts[0].entries(kind)


def test_a_chain_sees_no_step() -> None:
    with pytest.raises(ConfigError, match=r"planner\.seen"):
        ZeroShot(seen="all")


@pytest.mark.parametrize("planner", ["zero_shot", "cot"])
def test_no_closed_form_is_claimed(planner: str) -> None:
    """They are not taken for full horizon, which stops at a failure and plans anew."""
    for mode in ("chain", "step"):
        rows = grid(planner, cases=2, planner_values={"mode": mode})
        assert {row["expected_success"] for row in rows["episodes"]} == {None}
