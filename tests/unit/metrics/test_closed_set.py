"""Tool, Arg, Plan and Exec F1 of closed tool sets, on trajectories counted by hand."""

from __future__ import annotations

import random

import pytest

from grid.core.problem import Reference
from grid.core.types import Json, Observation, Step, Substep, ToolCall, Trajectory
from grid.metrics.closed_set import closed_set_scores
from grid.text.references import reference, resolve

CALLS: dict[str, ToolCall | None] = {
    "0": ToolCall("OCR", {"image": "image/menu.jpg"}),
    "1": ToolCall("OCR", {"image": "image/bill.jpg"}),
    "2": ToolCall("Calculator", {"expression": reference("0", "text")}),
    "3": ToolCall("DrawBox", {"image": "image/menu.jpg", "bbox": "(1, 2, 3, 4)", "annotation": reference("2", "text")}),
}
OUTCOMES: dict[str, dict[str, Json]] = {
    "0": {"text": "3 * 12"},
    "1": {"text": "40"},
    "2": {"text": "36"},
    "3": {"image": "image/drawn.jpg"},
}
GOLD = Reference(CALLS, ("3",), followed=False)
CONCRETE = {place: resolve(call, OUTCOMES) for place, call in CALLS.items() if call}
PERFECT = {"tool_f1": 1, "argument_f1": 1, "plan_f1": 1, "execution_f1": 1}


def step(place: str, tool: str, arguments: dict[str, Json], outcome: dict[str, Json] | None = None) -> Step:
    written = ToolCall(tool, arguments)
    observation = Observation(outcome or {"status": "no_result"}, failed=outcome is None)
    return Step(0, Substep(place, "", ""), resolve(written, OUTCOMES), observation, written)


def gold_steps(*, literal: bool = False) -> list[Step]:
    calls = CONCRETE if literal else CALLS
    return [step(place, call.tool, dict(call.arguments), OUTCOMES[place]) for place, call in calls.items() if call]


def scores(*steps: Step, done: tuple[Step, ...] = ()) -> dict[str, float | None]:
    return closed_set_scores(Trajectory(steps, steps), GOLD, CONCRETE, OUTCOMES, done)


@pytest.mark.parametrize("literal", [False, True])
def test_the_references_calls_score_one_whether_results_are_referred_to_or_repeated(literal: bool) -> None:
    assert scores(*gold_steps(literal=literal)) == PERFECT


def test_doing_nothing_scores_zero() -> None:
    assert scores() == dict.fromkeys(PERFECT, 0)


def test_one_call_of_four() -> None:
    assert scores(step("0", "OCR", {"image": "image/bill.jpg"}, OUTCOMES["1"])) == pytest.approx(
        {"tool_f1": 2 / 5, "argument_f1": 2 / 7, "plan_f1": 2 / 7, "execution_f1": 2 / 5}
    )  # the reference has 4 calls, 6 arguments and 2 links


def test_a_call_made_again_costs_precision() -> None:
    first, *rest = gold_steps()
    assert scores(first, *rest, first)["tool_f1"] == pytest.approx(8 / 9)
    assert scores(first, *rest, first)["argument_f1"] == pytest.approx(12 / 13)
    assert scores(first, *rest, first)["execution_f1"] == pytest.approx(8 / 9)


def test_links_go_by_what_is_used_and_not_by_the_order_of_independent_calls() -> None:
    one, two, *rest = gold_steps(literal=True)
    assert scores(two, one, *rest) == PERFECT
    wrong = step("2", "Calculator", {"expression": "40"}, {"text": "40"})  # the other text of the same tool
    assert scores(one, two, wrong)["plan_f1"] == pytest.approx(2 * 4 / (4 + 6))
    unlinked = step("2", "Calculator", {"expression": "3 * 12 * 1"}, OUTCOMES["2"])
    assert scores(one, two, unlinked, rest[1])["plan_f1"] == pytest.approx(10 / 11)
    assert scores(one, two, unlinked, rest[1])["execution_f1"] == 1


def test_a_call_that_failed_is_no_executed_one() -> None:
    *most, last = gold_steps()
    failed = step("3", "DrawBox", dict(last.written.arguments) if last.written else {})
    assert scores(*most, failed) == pytest.approx(PERFECT | {"execution_f1": 6 / 8})


def test_a_reference_is_read_by_the_tool_whose_result_it_names() -> None:
    """A result that nobody knows can be compared as it is written only; the numbers of steps are the trajectory's."""
    renumbered = [
        step("4", "OCR", {"image": "image/menu.jpg"}, {"text": "?"}),
        step("7", "Calculator", {"expression": reference("4", "text")}),
    ]
    found = closed_set_scores(Trajectory(tuple(renumbered), ()), GOLD)
    assert found["argument_f1"] == pytest.approx(2 * 2 / (2 + 6))
    assert found["plan_f1"] == pytest.approx(2 * 3 / (3 + 6))
    assert found["execution_f1"] is None


def test_behind_a_gold_prefix_only_what_is_left_counts_and_links_reach_back() -> None:
    gold = gold_steps()
    assert scores(gold[3], done=tuple(gold[:3])) == PERFECT
    assert scores(gold[2], done=tuple(gold[:3])) == dict.fromkeys(PERFECT, 0)
    one = closed_set_scores(Trajectory((gold[1],), ()), GOLD, CONCRETE, OUTCOMES, gold[:1], decisions=1)
    assert one == PERFECT, "step by step the next call alone is wanted"
    assert scores(gold[3], done=tuple(gold)) == dict.fromkeys(PERFECT, None)


def test_values_count_whatever_their_form_and_empty_ones_not() -> None:
    most = gold_steps()[:-1]
    other: dict[str, Json] = {"image": "IMAGE/menu.jpg ", "bbox": "(1, 2, 3, 4)", "annotation": "36", "color": ""}
    assert scores(*most, step("3", "DrawBox", other, OUTCOMES["3"])) == PERFECT
    one_off = other | {"annotation": 36, "bbox": "(1, 2, 3, 5)"}
    assert scores(*most, step("3", "DrawBox", one_off, OUTCOMES["3"]))["argument_f1"] == pytest.approx(10 / 12)
    more = other | {"color": "red"}
    assert scores(*most, step("3", "DrawBox", more, OUTCOMES["3"]))["argument_f1"] == pytest.approx(12 / 13)


def test_scores_are_shares_and_symmetric_in_what_is_predicted_and_gold() -> None:
    """F1 is the same with the two exchanged; drawn from the gold calls with some left out, made twice or changed."""
    draw = random.Random(0)
    for _ in range(200):
        steps = draw.choices(gold_steps(literal=True), k=draw.randint(1, 6))
        here = [step(str(at), s.call.tool, dict(s.call.arguments), OUTCOMES[s.substep.id]) for at, s in enumerate(steps)
                if s.call]  # fmt: skip
        found = scores(*here)
        calls: dict[str, ToolCall | None] = {one.substep.id: one.call for one in here}
        returned = {one.substep.id: one.observation.content for one in here if one.observation}
        turned = closed_set_scores(
            Trajectory(tuple(gold_steps(literal=True)), ()), Reference(calls, ()), outcomes=returned
        )
        assert found == pytest.approx(turned)
        assert all(value is not None and 0 <= value <= 1 for value in found.values())


def test_plan_f1_may_count_whole_calls() -> None:
    """Of three calls one is whole: another argument or another value makes another call, another order does not."""
    drawn = CONCRETE["3"].arguments
    turned = ToolCall("DrawBox", {name: drawn[name] for name in reversed(list(drawn))})
    steps = (
        Step(0, Substep("0", "", ""), turned, None),
        step("1", "OCR", {"image": "image/menu.png"}),
        step("2", "Calculator", {"expression": "3 * 12", "digits": 1}),
    )
    found = closed_set_scores(Trajectory(steps, steps), GOLD, CONCRETE, OUTCOMES, plan_f1="calls")
    assert found["plan_f1"] == pytest.approx(2 / (3 + 4))
    assert found["tool_f1"] == pytest.approx(2 * 3 / (3 + 4)), "all else is as before"


def test_whole_calls_are_counted_as_often_as_they_are_made() -> None:
    one = CONCRETE["0"]
    steps = tuple(Step(0, Substep(str(place), "", ""), one, None) for place in range(3))
    gold = Reference({"0": one, "1": one}, ("1",), followed=False)
    found = closed_set_scores(Trajectory(steps, steps), gold, plan_f1="calls")
    assert found["plan_f1"] == pytest.approx(2 * 2 / (3 + 2))
