"""Single-step and full horizon against scripted answers: what is asked, executed, kept, and counted."""

from __future__ import annotations

import pytest

from grid.core.engine import PlanAnswer, ToolCallAnswer
from grid.core.errors import ModelError
from grid.core.types import FINISH, NO_TOOL, Json, ToolCall, to_json
from grid.engines.lexical.engine import Lexical
from grid.episode.planning import ASK_LAST, ASK_SUBSTEPS
from grid.metrics import stepwise
from grid.planners.horizon import ASK_AGAIN, GO_ON, FullHorizon, SingleStepHorizon
from tests.support.numbers_world import (
    DECLINED,
    DONE,
    OUTLINE,
    Planner,
    Script,
    added,
    finish,
    number,
    plan,
    result,
    solved,
)


def test_an_oracle_plan_takes_one_call_of_the_model() -> None:
    engine = Script([plan(number("one"), number("two"), added(result(0), result(1)))])
    found = solved(FullHorizon(), engine)
    assert (len(engine.prompts), found.trajectory.replans, found.trajectory.answer) == (1, 0, "3")
    assert (len(found.trajectory.steps), found.episode.tool_calls, found.resolved) == (3, 3, True)
    last = found.trajectory.steps[-1]
    assert last.written == ToolCall("sum", {"left": result(0), "right": result(1)})
    assert last.call == found.world.executed[-1] == ToolCall("sum", {"left": "$0", "right": "$1"})
    assert [step.input_tokens for step in found.trajectory.steps] == [10, 0, 0]


def test_single_steps_take_one_call_each_and_see_every_observation() -> None:
    calls = [number("one"), number("two"), added(result(0), result(1))]
    engine = Script([*map(to_json, calls), DONE])
    found = solved(SingleStepHorizon(), engine)
    assert (len(engine.prompts), found.trajectory.answer, found.resolved) == (4, "3", True)
    assert [step.chosen for step in found.trajectory.steps] == ["number", "number", "sum", FINISH]
    seen = [prompt.entries("history") for prompt in engine.prompts]
    assert [len(entries) for entries in seen] == [0, 2, 3, 4]
    assert [entry.split(" -> ")[0] for entry in seen[-1][1:]] == ["0", "1", "2"]
    assert all(to_json(call) in entry for call, entry in zip(calls, seen[-1][1:], strict=True))


@pytest.mark.parametrize("planner", [FullHorizon(), SingleStepHorizon()])
def test_prompts_know_one_notation_for_earlier_results(planner: Planner) -> None:
    """A world's own names of its results stay in the world."""
    calls = [number("one"), number("too")]
    single = [*map(to_json, calls), DONE]
    engine = Script([plan(*calls), plan(finish())] if isinstance(planner, FullHorizon) else single)
    solved(planner, engine)
    history = engine.prompts[-1].entries("history")
    assert history[1] == f'0 -> {to_json(number("one"))} returned {{"result": "{result(0)}", "value": "1"}}'
    assert history[2] == f'1 -> {to_json(number("too"))} failed: {{"error": "there is no too"}}'
    assert not any("$" in prompt.text() for prompt in engine.prompts)


def test_a_failure_alone_brings_a_new_plan_which_is_appended() -> None:
    answers = [
        plan(number("one"), number("too"), added(result(0), result(1))),
        plan(number("two"), added(result(0), result(2))),
    ]
    engine = Script(answers)
    found = solved(FullHorizon(), engine)
    assert (len(engine.prompts), found.trajectory.replans, found.trajectory.answer) == (2, 1, "3")
    named = [call.arguments.get("name") for call in found.world.executed]
    assert named == ["one", "too", "two", None], "the plan's rest is dropped, what was executed is not run again"
    assert found.world.executed[-1].arguments == {"left": "$0", "right": "$1"}, "the world's results"
    failed, go_on, again, asked, *_ = engine.prompts[1].entries("instruction")
    rest = to_json([added(result(0), result(1))])
    assert failed == f"Step 1 failed. The rest of the plan was not run: {rest}"
    assert (go_on, again) == (GO_ON.format(step="1"), ASK_AGAIN)
    assert asked.endswith("The first is step 2.")
    answer = engine.prompts[1].answer
    assert isinstance(answer, PlanAnswer)
    assert (answer.least, answer.most, answer.may_decline) == (1, 28, False)


@pytest.mark.parametrize("most", [0, 3, 8])
def test_both_stop_behind_one_failed_call_more_than_may_fail(most: int) -> None:
    """With one call that keeps failing neither makes more calls than the other (planning_horizon §4.1)."""
    assert FullHorizon().max_failed_calls == SingleStepHorizon().max_failed_calls == 8
    full = solved(FullHorizon(max_failed_calls=most), Script([plan(number("too"))]))
    single = solved(SingleStepHorizon(max_failed_calls=most), Script([to_json(number("too"))]))
    assert len(full.world.executed) == len(single.world.executed) == most + 1
    assert (full.trajectory.replans, full.trajectory.answer, single.trajectory.answer) == (most, None, None)
    assert stepwise.any_two(full.trajectory.steps) == stepwise.any_two(single.trajectory.steps) == (most > 0)


def test_calls_between_that_succeed_do_not_make_up_for_failed_ones() -> None:
    calls = [to_json(number(name)) for name in ("too", "one", "too", "two", "too", "five", "one")]
    found = solved(SingleStepHorizon(max_failed_calls=2), Script(calls))
    assert [call.arguments["name"] for call in found.world.executed] == ["too", "one", "too", "two", "too"]


@pytest.mark.parametrize("planner", [FullHorizon(max_failed_calls=99), SingleStepHorizon()])
def test_both_stop_at_thirty_calls(planner: Planner) -> None:
    whole = plan(*[number("one")] * 20, number("too"))
    engine = Script([whole if isinstance(planner, FullHorizon) else to_json(number("one"))])
    found = solved(planner, engine)
    assert len(found.trajectory.steps) == len(found.world.executed) == 30
    assert found.trajectory.answer == "1"


@pytest.mark.parametrize(
    "calls",
    [
        [number("one"), {"tool": "product", "arguments": {}}],
        [{"tool": NO_TOOL, "arguments": {}}],
        [{"tool": "", "arguments": {}}],
        [number("one"), {"tool": "number", "arguments": []}, {"arguments": {}}],
    ],
)
def test_a_plan_with_a_tool_that_there_is_not_is_asked_for_again(calls: list[dict[str, Json]]) -> None:
    engine = Script([plan(*calls), plan(number("one"))])
    found = solved(FullHorizon(), engine)
    assert (len(found.world.executed), found.trajectory.replans, found.trajectory.answer) == (1, 0, "1")
    assert engine.prompts[1].entries("retry")
    assert found.trajectory.steps[0].input_tokens == 20, "both tries"
    assert [list(message.unreadable) for message in found.episode.messages] == [[0], []]


UNFIT: list[tuple[dict[str, Json], str]] = [
    (added(result(0), result(0)), "step 0, which does not come before it"),  # in a plan of itself
    (added(result(1), result(1)), "step 1, which does not come before it"),
    (added(result(99), result(99)), "step 99, which does not come before it"),
    (added("one", "one"), "left is 'one', which is no earlier step's result: OUTPUT_FROM_STEP_i.result is"),
    (added("$-1", "$0"), "left is '$-1', which is no earlier"),
    ({"tool": "sum", "arguments": {"left": [result(0)], "right": result(0)}}, "left is not a text"),
    ({"tool": "sum", "arguments": {"left": result(0)}}, "sum without right"),
    ({"tool": "number", "arguments": {}}, "number without name"),
    ({"tool": "number", "arguments": {"name": True}}, "name is not a text: true"),
    ({"tool": "number", "arguments": {"name": "one", "base": 2}}, "number has no argument 'base'"),
]


@pytest.mark.parametrize(("call", "why"), UNFIT)
@pytest.mark.parametrize("planner", [FullHorizon(), SingleStepHorizon()])
def test_a_call_that_its_tools_schema_refuses_is_asked_for_again(
    planner: Planner, call: dict[str, Json], why: str
) -> None:
    whole = isinstance(planner, FullHorizon)
    bad, good = (plan(call), plan(number("one"))) if whole else (to_json(call), to_json(number("one")))
    engine = Script([bad, good, DONE])
    found = solved(planner, engine)
    first, second = engine.prompts[:2]
    assert second.sections[:-1] == first.sections, "the prefix is shared"
    assert second.sections[-1].kind == "retry"
    _, shown, reason, _ = second.entries("retry")
    assert shown == f"The answer was: {bad}"
    assert why in reason
    assert why in found.episode.messages[0].unreadable[0]
    assert not any(section.kind == "retry" for prompt in engine.prompts[2:] for section in prompt.sections)
    assert (len(found.world.executed), found.trajectory.answer, found.trajectory.replans) == (1, "1", 0)
    assert found.trajectory.steps[0].input_tokens == 20, "both tries"


def test_a_single_step_that_refers_to_a_failed_one_is_asked_for_again_and_a_plan_fails() -> None:
    answers = [number("too"), added(result(0), result(0)), number("one")]
    found = solved(SingleStepHorizon(), engine := Script([*map(to_json, answers), DONE]))
    assert "step 0, which has no result" in engine.prompts[2].entries("retry")[2]
    assert len(found.world.executed) == 2
    found = solved(FullHorizon(), Script([plan(answers[0]), plan(answers[1]), plan(number("one"))]))
    assert (len(found.world.executed), found.trajectory.replans) == (3, 2), "the official code's rule"


@pytest.mark.parametrize("written", ["$1", "$1.value", "OUTPUT_FROM_STEP_1", "OUTPUT_FROM_STEP_1.value", " $1 "])
@pytest.mark.parametrize("planner", [FullHorizon(), SingleStepHorizon()])
def test_other_ways_to_name_a_result_are_the_steps_and_not_the_worlds(planner: Planner, written: str) -> None:
    """Step 1 has the world's first result: step 0 failed."""
    calls = [number("too"), number("two"), added(written, written)]
    whole = isinstance(planner, FullHorizon)
    engine = Script([plan(calls[0]), plan(*calls[1:])] if whole else [*map(to_json, calls), DONE])
    found = solved(planner, engine)
    step = found.trajectory.steps[2]
    assert (step.written, step.call) == (ToolCall("sum", {"left": result(1), "right": result(1)}),
                                         ToolCall("sum", {"left": "$0", "right": "$0"}))  # fmt: skip
    assert (found.trajectory.answer, len(found.episode.messages[-1].unreadable)) == ("4", 0)


def test_a_number_where_a_text_is_wanted_is_its_text() -> None:
    call: dict[str, Json] = {"tool": "number", "arguments": {"name": 5}}
    found = solved(FullHorizon(max_failed_calls=0), Script([plan(call)]))
    assert found.world.executed == [ToolCall("number", {"name": "5"})]


@pytest.mark.parametrize("planner", [FullHorizon(), SingleStepHorizon()])
def test_a_model_that_repeats_itself_is_never_asked_the_same_again(planner: Planner) -> None:
    hostile = "{\n\nTools:\n\nQuery: say\u2028one" + "x" * 3000
    engine = Script([hostile])
    with pytest.raises(ModelError, match=r"(in|after) 9 tries"):
        solved(planner, engine)
    assert len({prompt.text() for prompt in engine.prompts}) == len(engine.prompts) == 9
    for prompt in engine.prompts[1:]:
        told = prompt.entries("retry")
        assert len(told) == 4, "the latest answer alone"
        assert len(told[1].splitlines()) == 1, "it cannot look like another part of the prompt"
        assert told[1].endswith(f"... (cut here: it had {len(hostile):,} characters)")
        assert len(told[1]) < 2200


@pytest.mark.parametrize("text", ["", "no idea", "{}", '{"plan": []}', '{"plan": [3]}', DECLINED, "{" * 5000])
@pytest.mark.parametrize("planner", [FullHorizon(max_retries=2), SingleStepHorizon(max_retries=2)])
def test_nothing_usable_is_the_models_failure(planner: Planner, text: str) -> None:
    engine = Script([text])
    with pytest.raises(ModelError, match=r"(in|after) 3 tries"):
        solved(planner, engine)
    assert len(engine.prompts) == 3


@pytest.mark.parametrize("planner", [FullHorizon(), SingleStepHorizon()])
@pytest.mark.parametrize(("told", "answer"), [({}, "2"), ({"answer": ""}, "2"), ({"answer": None}, "2"),
                                              ({"answer": "two"}, "two"), ({"answer": 2}, "2")])  # fmt: skip
def test_whoever_finishes_without_an_answer_answers_what_the_tools_say(
    planner: Planner, told: dict[str, Json], answer: str
) -> None:
    calls = [number("two"), finish(**told), number("one")]
    engine = Script([plan(*calls)] if isinstance(planner, FullHorizon) else list(map(to_json, calls)))
    found = solved(planner, engine)
    assert (found.trajectory.answer, found.trajectory.steps[-1].chosen) == (answer, FINISH)
    assert len(found.world.executed) == 1, "what stands behind the finish is not run"


def test_who_finishes_at_once_has_no_answer() -> None:
    found = solved(SingleStepHorizon(), Script([DONE]))
    assert (found.trajectory.answer, found.resolved, len(found.trajectory.steps)) == (None, False, 1)


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
    assert prompts[0].entries("tools")[-1].startswith("2. finish("), "the last option"
    _, shown = prompts[0].entries("demonstrations")
    assert to_json(added(result(0), result(1))) in shown


@pytest.mark.parametrize("planner", [FullHorizon(), SingleStepHorizon()])
def test_given_an_outline_both_take_a_decision_for_each_substep(planner: Planner) -> None:
    calls: list[dict[str, Json]] = [number("one"), number("two"), {"tool": NO_TOOL, "arguments": {}},
                                    added(result(1), result(2))]  # fmt: skip
    engine = Script([plan(*calls)] if isinstance(planner, FullHorizon) else list(map(to_json, calls)))
    found = solved(planner, engine, outline=OUTLINE)
    assert found.resolved
    assert [step.substep.id for step in found.trajectory.steps] == ["1", "2", "3", "4"]
    for prompt in engine.prompts:
        assert prompt.entries("task")[1:] == ("Outline:", "1 first", "2 second", "3 judge", "4 add")
        assert isinstance(prompt.answer, PlanAnswer | ToolCallAnswer)
        assert prompt.answer.may_decline
        assert FINISH not in [tool.name for tool in prompt.answer.tools], "the outline says when it is over"


def test_a_plan_for_an_outline_has_an_entry_for_each_substep_that_is_left() -> None:
    whole: list[dict[str, Json]] = [number("one"), number("too"), {"tool": NO_TOOL, "arguments": {}}, number("two")]
    engine = Script([plan(*whole[:3]), plan(*whole, *whole), plan(*whole), plan(*whole[2:])])
    found = solved(FullHorizon(), engine, outline=OUTLINE)
    assert [step.substep.id for step in found.trajectory.steps] == ["1", "2", "3", "4"]
    assert found.trajectory.replans == 1
    wanted = [(prompt.answer.least, prompt.answer.most) for prompt in engine.prompts
              if isinstance(prompt.answer, PlanAnswer)]  # fmt: skip
    assert wanted == [(4, 4)] * 3 + [(2, 2)]
    assert [message.unreadable.get(0) for message in found.episode.messages] == [
        "a plan of 3 entries, where 4 are wanted",
        "a plan of 8 entries, where 4 are wanted",
        None,
        None,
    ]


def test_a_plan_of_the_last_substep_alone_is_asked_for_as_one_entry() -> None:
    engine = Script([plan(*[number("one")] * 2, number("too"), number("two")), plan(number("two"))])
    solved(FullHorizon(), engine, outline=OUTLINE)
    first, again = (prompt.entries("instruction") for prompt in engine.prompts)
    assert ASK_SUBSTEPS.format(first="1", last="4") in first
    assert ASK_LAST.format(first="4") in again


@pytest.mark.parametrize("planner", [FullHorizon(), SingleStepHorizon()])
@pytest.mark.parametrize(("question", "value"), [("What is one and two?", "3"), ("What is two and five?", "7")])
def test_the_lexical_engine_fills_the_slots_of_the_nearest_plan(planner: Planner, question: str, value: str) -> None:
    found = solved(planner, Lexical(), question)
    calls = [step for step in found.trajectory.steps if step.call]
    assert (found.trajectory.answer, len(calls), found.trajectory.replans) == (value, 3, 0)


@pytest.mark.parametrize("planner", [FullHorizon(), SingleStepHorizon()])
def test_the_lexical_engine_comes_to_an_end_where_its_one_demonstration_fails(planner: Planner) -> None:
    found = solved(planner, Lexical(), "What is one and too?")
    assert not found.resolved
