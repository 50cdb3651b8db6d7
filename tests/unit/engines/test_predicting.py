"""Holistic and step-wise planners: what they ask, keep and run, and that their prompts tell nothing."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import jsonschema
import pytest

from grid.core.engine import ChainAnswer, MessagesAnswer
from grid.core.errors import ModelError
from grid.core.types import FINISH, REJECT, ChainCall
from grid.engines.answer_schema import answer_schema
from grid.engines.http.chat import strict_schema
from grid.engines.lexical.engine import Lexical
from grid.engines.null import Null
from grid.episode.episode import Planner
from grid.planners.apb import ASK_ENTRIES, ASK_MOST, Holistic, Stepwise
from grid.text.answers import read_chain, read_messages
from tests.support.plans import CALLS, Says, plan_episode, simulated
from tests.support.world import TOOLS, episode

PLANNERS: list[Planner] = [Holistic(), Stepwise(), Stepwise(k=2), Stepwise(k=3)]
REFUSAL = '{"status": "REJECT", "reason": "there is no such order"}'


def chain(*calls: tuple[str, dict[str, Any]]) -> str:
    return json.dumps({"plan": "p", "tool_chain": [{"name": n, "parameter_description": a} for n, a in calls]})


def test_a_diagnosed_plan_is_predicted_and_nothing_is_run() -> None:
    run = plan_episode(simulated())
    found = asyncio.run(Holistic().solve(run))
    assert found.chain is not None
    assert [(call.name, call.arguments) for call in found.chain.calls] == [
        (call.tool, call.arguments) for call in CALLS.values()
    ]
    assert [step.written for step in found.steps] == list(CALLS.values())
    assert all(step.observation is None for step in found.steps)
    assert (run.tool_calls, run.usage.llm_calls, len(run.decisions)) == (0, 1, 3)
    assert (found.steps[0].output_tokens or 0) > 0 == found.steps[1].output_tokens


def test_what_there_is_not_stays_in_a_plan_that_is_diagnosed_and_is_asked_for_again_where_it_is_run() -> None:
    wrong = chain(("find_order", {"id": {"nested": 1}}), ("book", {"quote": "the quote of step 0"}))
    found = asyncio.run(Holistic().solve(plan_episode(Says([wrong]))))
    assert found.chain is not None
    assert [call.name for call in found.chain.calls] == ["find_order", "book"]
    assert found.chain.calls[0].arguments == {"id": {"nested": 1}}
    engine = Says([wrong, chain(("find", {"order": "A-1"}))])
    run = plan_episode(engine, diagnosed=False)
    ran = asyncio.run(Holistic().solve(run))
    assert [(step.observation is not None, step.finished) for step in ran.steps] == [(True, False), (False, True)]
    assert "was not offered" in engine.prompts[1].text()
    assert run.tool_calls == 1


def test_a_plan_runs_to_the_end_where_it_is_no_diagnosis() -> None:
    run = plan_episode(simulated(), diagnosed=False, may_refuse=False)
    found = asyncio.run(Holistic().solve(run))
    assert (run.usage.llm_calls, run.tool_calls) == (1, 3)
    assert found.steps[-2].observation is not None
    assert found.steps[-1].finished
    assert found.steps[-2].observation.content == {"booking": "B-9"}


@pytest.mark.parametrize(("k", "answers"), [(None, 4), (1, 4), (2, 2), (3, 2)])
def test_steps_are_run_k_at_a_time_where_the_case_asks_for_all_of_them(k: Any, answers: int) -> None:
    run = plan_episode(simulated(), diagnosed=False, may_refuse=False)
    found = asyncio.run(Stepwise(k=k).solve(run))
    assert (run.usage.llm_calls, run.tool_calls) == (answers, 3)
    assert found.steps[-1].finished


@pytest.mark.parametrize(("k", "decisions", "count"), [(None, 1, 1), (None, 2, 2), (1, 2, 1), (3, 1, 1), (2, 2, 2)])
def test_a_case_of_so_many_decisions_gets_one_prediction_of_its_next_steps(k: Any, decisions: int, count: int) -> None:
    run = plan_episode(simulated(), done=1, decisions=decisions)
    found = run.own(asyncio.run(Stepwise(k=k).solve(run)))
    assert found.chain is not None
    assert found.chain.first == 1
    assert [call.name for call in found.chain.calls] == ["quote", "book"][:count]
    assert [step.substep.id for step in found.steps] == ["1", "2"][:count]
    assert (run.usage.llm_calls, run.tool_calls) == (1, 0)


def test_a_step_that_calls_nothing_is_the_end_and_a_thought_between_is_none() -> None:
    call = {"type": "function", "function": {"name": "find", "arguments": {"order": "A-1"}}}
    steps = [{"role": "assistant", "thought": "hm", "tool_calls": []}, {"role": "assistant", "tool_calls": [call]}]
    found = asyncio.run(Stepwise(k=2).solve(plan_episode(Says([json.dumps(steps)]), decisions=2)))
    assert found.chain is not None
    assert [one.name for one in found.chain.calls] == ["find"]
    ended = asyncio.run(Stepwise(k=2).solve(plan_episode(Says([json.dumps(steps[::-1])]), decisions=2)))
    assert ended.steps[-1].finished
    assert ended.answer == "hm"


def test_a_chain_is_cut_to_the_steps_that_a_case_asks_for() -> None:
    long = chain(*((name, {}) for name in ("find", "quote", "book")))
    found = asyncio.run(Holistic().solve(plan_episode(Says([long]), decisions=2)))
    assert found.chain is not None
    assert [call.name for call in found.chain.calls] == ["find", "quote"]


def test_a_chain_is_asked_for_as_far_as_it_is_wanted() -> None:
    """So many calls of a case that asks for so many; each substep where there is an outline."""
    free, guided = (Says([chain(*[("find", {"order": "A-1"})] * 4)]) for _ in range(2))
    asyncio.run(Holistic().solve(plan_episode(free, done=1, decisions=2)))
    asyncio.run(Holistic().solve(episode(guided)))
    asked = [engine.prompts[0].entries("instruction") for engine in (free, guided)]
    assert ASK_MOST.format(first="1", most=2) in asked[0]
    assert ASK_ENTRIES.format(first="1.1", last="2.2") in asked[1]


@pytest.mark.parametrize("planner", PLANNERS)
def test_a_refusal_is_a_result_where_the_case_lets_it_be_refused(planner: Planner) -> None:
    decisions = None if isinstance(planner, Holistic) else 3
    found = asyncio.run(planner.solve(plan_episode(Says([REFUSAL]), decisions=decisions)))
    assert found.chain is not None
    assert (found.chain.calls, found.chain.refusal) == ((), "there is no such order")
    assert [step.chosen for step in found.steps] == [REJECT]
    with pytest.raises(ModelError, match="a refusal, where the request is to be carried out"):
        asyncio.run(planner.solve(plan_episode(Says([REFUSAL]), may_refuse=False, diagnosed=False)))


def test_a_refusal_with_a_chain_is_both() -> None:
    both = json.dumps({"status": "REJECT", "reason": "no", **json.loads(chain(("find", {"order": "A-1"})))})
    found = asyncio.run(Holistic().solve(plan_episode(Says([both]))))
    assert found.chain is not None
    assert (found.chain.calls, found.chain.refusal) == ((ChainCall("find", {"order": "A-1"}),), "no")
    assert [step.chosen for step in found.steps] == ["find", REJECT]


@pytest.mark.parametrize("planner", PLANNERS)
def test_what_is_no_plan_is_shown_and_asked_for_again_and_at_last_the_models_failure(planner: Planner) -> None:
    engine = Says(["First find the order, and then book it."])
    with pytest.raises(ModelError, match="the model had written no usable plan after 9 tries"):
        asyncio.run(planner.solve(plan_episode(engine, decisions=3)))
    assert len({prompt.text() for prompt in engine.prompts}) == 9
    assert "First find the order" in engine.prompts[1].text()


@pytest.mark.parametrize("planner", PLANNERS)
@pytest.mark.parametrize("diagnosed", [True, False])
def test_prompts_tell_nothing_and_are_the_same_whether_a_case_can_be_solved(planner: Planner, diagnosed: bool) -> None:
    asked = []
    for unsolvable in (False, True):
        engine = simulated(unsolvable, refusal=0.0)
        run = plan_episode(engine, done=1, decisions=2, diagnosed=diagnosed)
        asyncio.run(planner.solve(run))
        asked.append(run.messages[0].prompt.text())
    assert asked[0] == asked[1]
    for word in ("solvable", "unsolvable", "extraneous", "broken", "replacement", "distractor", "assume", REJECT + "("):
        assert word not in asked[0]
    assert f"{FINISH}(" not in asked[0]
    assert "REJECT" in asked[0]


def test_static_sections_come_first_so_that_steps_share_a_prefix() -> None:
    run = plan_episode(simulated(), diagnosed=False, may_refuse=False)
    asyncio.run(Stepwise(k=1).solve(run))
    texts = [message.prompt.text() for message in run.messages]
    shared = texts[0].index("Predict the next step")
    assert all(text.startswith(texts[0][:shared]) for text in texts)


TOOL_CARDS = tuple(TOOLS.values())
ANSWERS: list[ChainAnswer | MessagesAnswer] = [
    ChainAnswer(TOOL_CARDS, 1, 5),
    ChainAnswer(TOOL_CARDS, 1, 5, may_refuse=True, free=True),
    ChainAnswer(TOOL_CARDS, 2, 2, may_decline=True),
    MessagesAnswer(TOOL_CARDS, 1),
    MessagesAnswer(TOOL_CARDS, 2, may_refuse=True, free=True),
    MessagesAnswer(TOOL_CARDS, 3),
]


@pytest.mark.parametrize("answer", ANSWERS)
def test_what_the_engines_answer_fits_the_schema_and_is_read(answer: ChainAnswer | MessagesAnswer) -> None:
    schema = answer_schema(answer)
    jsonschema.Draft202012Validator.check_schema(schema)
    planner = Holistic() if isinstance(answer, ChainAnswer) else Stepwise(k=3 if answer.count == 3 else 2)
    run = plan_episode(simulated(), decisions=3)
    asyncio.run(planner.solve(run))
    prompt = run.messages[0].prompt
    prompt = type(prompt)(prompt.sections, answer)
    for engine in (simulated(), Lexical(), Null()):
        (text,) = asyncio.run(engine.sample(prompt, n=1, temperature=0.0, max_tokens=100, seed=0)).completions
        if answer.free or not isinstance(engine, Lexical | Null):  # who leave out what they do not find
            jsonschema.validate(json.loads(text), schema)
        found = read_chain(text) if isinstance(answer, ChainAnswer) else read_messages(text, answer.count)
        assert found.calls


def test_a_schema_knows_the_tools_unless_the_plan_is_free_and_a_refusal_where_there_is_one() -> None:
    unknown = json.loads(chain(("nosuch", {"x": [1]})))
    unknown["tool_chain"][0]["reason"] = ""
    closed, free = answer_schema(ANSWERS[0]), answer_schema(ANSWERS[1])
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(unknown, closed)
    jsonschema.validate(unknown, free)
    jsonschema.validate(json.loads(REFUSAL), free)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(json.loads(REFUSAL), closed)
    assert strict_schema(free) is None, "its root is no single object"
    assert strict_schema(closed) is not None
