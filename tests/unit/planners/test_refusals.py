"""A request declined in words: one rule, whoever plans and whoever scores (agent_planning_benchmark C.4, C.6)."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from grid.core.types import REFUSE, Chain, ChainCall
from grid.datasets.apb_synthetic.dataset import ApbSynthetic
from grid.episode.judging import Judging
from grid.planners.apb import Holistic, Stepwise
from grid.roles.evaluation import Evaluation
from grid.text.answers import MISSING_INFORMATION, declines, may_pass, passes
from tests.support.plans import Says, plan_episode
from tests.unit.episode.test_plan_judging import Fixed

DECLINING = [
    "This cannot be carried out: there is no tool that reads images.",
    "I can\N{RIGHT SINGLE QUOTATION MARK}t see any attachment.",
    "I am unable to proceed without the photo.",
    "The image is missing.",
    "No screenshot was found, and it has not been provided.",
    "None of the available tools can decrypt the markers.",
    "I don't have access to what was said in the meeting.",
    "It is not possible to verify the licence with these tools.",
    "The request is rejected: the mandated server is offline.",
    "I must decline.\nIt would break the rule.",
]
GOING_ON = [
    "First I look the order up, and then I book it again.",
    "The work is done.",
    "There is no need to call anything: the total is 42.",
    "I assume that the usual hotel is meant.",
    "",
    "   ",
]
ASKING = ["Which hotel do you mean?", "Please tell me the code.", "Please let me know which of the two is meant."]


@pytest.mark.parametrize("words", DECLINING)
def test_words_that_say_that_it_cannot_be_done_decline_and_with_a_call_they_do_not(words: str) -> None:
    assert declines(Chain((), plan=words))
    assert declines(Chain((), plan=words.upper()))
    for kind in (MISSING_INFORMATION, "tool_removal", None):
        assert passes(Chain((), plan=words), kind)
        assert not passes(Chain((ChainCall("find", {}),), plan=words), kind)
    assert not declines(Chain((ChainCall("find", {}),), plan=words))


@pytest.mark.parametrize("words", [*GOING_ON, *ASKING])
def test_other_words_do_not_decline_and_a_question_is_right_where_information_is_missing(words: str) -> None:
    assert not declines(Chain((), plan=words))
    assert not passes(Chain((), plan=words), "tool_removal")
    assert passes(Chain((), plan=words), MISSING_INFORMATION) is (words in ASKING)
    assert passes(Chain((), refusal=words), "tool_removal"), "the status says it"


def test_a_judge_is_asked_of_what_says_something_and_at_most_reports_the_end() -> None:
    report, two = (ChainCall("Finish", {}),), (ChainCall("find", {}), ChainCall("Finish", {}))
    assert may_pass(Chain((), plan="Well."))
    assert may_pass(Chain(report, plan="It cannot be done."))
    assert may_pass(Chain(report, refusal=""))
    assert not may_pass(Chain((), plan=" \n"))
    assert not may_pass(Chain(report))
    assert not may_pass(Chain(two, refusal="no", plan="It cannot be done."))


def test_every_plan_that_passes_by_rule_is_put_to_a_judge() -> None:
    for words in (*DECLINING, *GOING_ON, *ASKING):
        for chain in (Chain((), plan=words), Chain((), refusal=words), Chain((ChainCall("find", {}),), plan=words)):
            for kind in (MISSING_INFORMATION, "tool_removal"):
                assert may_pass(chain) or not passes(chain, kind)


def test_words_of_any_length_are_read_at_once() -> None:
    for words in ("no " * 200_000, "please a b " * 100_000, "not be " * 100_000, "?" * 500_000):
        assert not declines(Chain((), plan=words))


def holistic(words: str) -> str:
    return json.dumps({"plan": words, "tool_chain": []})


def stepwise(words: str) -> str:
    return json.dumps({"role": "assistant", "thought": words, "tool_calls": []})


def passed(data: ApbSynthetic, words: str) -> dict[str, list[str]]:
    """By planner, the kinds of the unsolvable cases that are passed with these words and no call."""
    found: dict[str, list[str]] = {}
    for planner, form, decisions in ((Holistic(), holistic, None), (Stepwise(), stepwise, 1)):
        own = found.setdefault(type(planner).__name__, [])
        for case_id in data.case_ids():
            problem = data.problem(case_id)
            said = asyncio.run(planner.solve(plan_episode(Says([form(words)]), decisions=decisions)))
            scores: Any = problem.measure(said)
            if problem.examine:
                scores = asyncio.run(_examined(problem.examine, said))
            own += [str(problem.kind and problem.kind.unsolvable_kind)] * bool(scores["success"])
    return found


async def _examined(examine: Any, said: Any) -> Any:
    yes = Fixed('{"reasoning": "", "is_correct": true}')
    found = await examine(said, Evaluation(yes, Judging(), 1))
    assert vars(yes)["asked"]
    return found


@pytest.mark.parametrize("scorer", ["symbolic", "judge"])
def test_the_same_words_come_to_the_same_from_either_planner(scorer: Any) -> None:
    data = ApbSynthetic(families=["unsolvable"], limit=8, scorer=scorer)
    kinds = [str(kind and kind.unsolvable_kind) for kind in (data.problem(name).kind for name in data.case_ids())]
    assert MISSING_INFORMATION in kinds
    assert passed(data, DECLINING[0]) == {"Holistic": kinds, "Stepwise": kinds}
    if scorer == "symbolic":
        asked = [kind for kind in kinds if kind == MISSING_INFORMATION]
        assert passed(data, ASKING[0]) == {"Holistic": asked, "Stepwise": asked}
        assert passed(data, GOING_ON[0]) == {"Holistic": [], "Stepwise": []}


def test_behind_a_broken_tool_words_are_a_refusal_too() -> None:
    data = ApbSynthetic(families=["broken"], limit=1)
    (problem,) = (data.problem(name) for name in data.case_ids())
    said = asyncio.run(Stepwise().solve(plan_episode(Says([stepwise(DECLINING[2])]), decisions=1)))
    assert problem.measure(said)["behaviour"] == REFUSE
