"""Judges of plans: what they are shown, what their answers say, and what counts of them."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Mapping
from typing import Any

import jsonschema
import pytest

from grid.core.engine import Engine, Prompt, VerdictAnswer
from grid.core.types import (
    ERRORS,
    GRADES,
    REJECT,
    Chain,
    ChainCall,
    Observation,
    Parameter,
    Step,
    Substep,
    TaskKind,
    ToolCall,
    ToolSpec,
    Trajectory,
    Verdict,
)
from grid.engines.answer_schema import answer_schema
from grid.engines.http.chat import strict_schema
from grid.engines.lexical.engine import Lexical
from grid.engines.null import Null
from grid.engines.simulated.engine import Simulated, accuracy
from grid.episode import plan_judging
from grid.episode.judging import Judging
from grid.episode.plan_judging import (
    UNSOLVABLE,
    JudgedTask,
    behaviour_by_rule,
    by_rule,
    executed_examine,
    plan_examine,
    plan_prompt,
    unsolvable_prompt,
)
from grid.roles.evaluation import Evaluation
from grid.text.answers import read_verdict
from grid.text.objects import UnreadableError

FETCH = ToolSpec("fetch_rates", "Fetches exchange rates.", (Parameter("day", "string", "The day"),), ("rates",))
SUM = ToolSpec("sum_up", "Adds numbers up.", (Parameter("numbers", "array", "What is added"),), ("total",))
TRAP = ToolSpec("draw_chart", "Draws a chart.", (Parameter("data", "array", "What is drawn"),), ("chart",))
OTHER_RATES = ToolSpec("rates_service", "Gives exchange rates.", (Parameter("day", "string", "The day"),), ("rates",))
TOOLS = (FETCH, SUM, TRAP, OTHER_RATES)
RIGHT = (ToolCall("fetch_rates", {"day": "Monday"}), ToolCall("sum_up", {"numbers": "OUTPUT_FROM_STEP_0.rates"}))
QUERY = "Add up Monday's exchange rates."


def task(family: Any = "holistic", **changed: Any) -> JudgedTask:
    kind = {"task_family": family} | changed.pop("kind", {})
    known: dict[str, Any] = {"query": QUERY, "kind": TaskKind(**kind), "tools": TOOLS, "reference": RIGHT}
    return JudgedTask(**(known | changed))


def chain(*names: str, refusal: str | None = None) -> Chain:
    return Chain(tuple(ChainCall(name, {"day": "Monday"}) for name in names), refusal)


def predicted(found: Chain, answer: str | None = None, unrefined: Chain | None = None) -> Trajectory:
    return Trajectory((), (), answer=answer, chain=found, unrefined=unrefined)


def said(correct: object = True, grade: object = 1.0, **errors: object) -> str:
    named = dict.fromkeys(ERRORS, False) | errors
    return json.dumps({"reasoning": "so", **named, "grade": grade, "is_correct": correct})


class Fixed(Null):
    """Says the same whatever it is asked, and keeps the prompts."""

    def __init__(self, *texts: str) -> None:
        super().__init__()
        object.__setattr__(self, "texts", texts)
        object.__setattr__(self, "asked", [])

    async def sample(self, prompt: Prompt, **how: Any) -> Any:
        asked: list[Prompt] = vars(self)["asked"]
        asked.append(prompt)
        found = await super().sample(prompt, **how)
        texts: tuple[str, ...] = vars(self)["texts"]
        return type(found)((texts[min(len(asked), len(texts)) - 1],), found.usage)


def examined(
    engine: Engine, about: JudgedTask, found: Trajectory, scorer: Any = "judge", **how: Any
) -> Mapping[str, Any]:
    examine = plan_examine(about, scorer, **how)
    assert examine is not None

    async def run() -> Mapping[str, Any]:
        return await examine(found, Evaluation(engine, Judging(), 1))

    return asyncio.run(run())


def test_a_verdict_is_read_in_the_forms_that_models_write() -> None:
    plain = read_verdict(said(False, 0.4, E2=True, E5=True))
    assert plain == Verdict(False, frozenset({"E2", "E5"}), 0.4)
    named = {f"{name}_OF_SOME_KIND": "YES" if name == "E3" else "no" for name in ERRORS}
    assert read_verdict(f"Well:\n```json\n{json.dumps(named | {'score': '0.20', 'is_correct': 'NO'})}\n```") == Verdict(
        False, frozenset({"E3"}), 0.2
    )
    listed = {"is_correct": 0, "grade": 0, "error_list": ["E1", "e6: made up"], "reasoning": "x" * 9_000}
    found = read_verdict(json.dumps(listed))
    assert found == Verdict(False, frozenset({"E1", "E6"}), 0.0)
    assert len(found.reasoning) == 2_000
    assert read_verdict('{"is_correct": true}', errors=False) == Verdict(True)


@pytest.mark.parametrize(
    "text",
    [
        "The plan is correct.",
        '{"is_correct": true}',
        said(None),
        said("maybe"),
        said(2),
        said(True, 0.5),
        said(True, True),
        said(True, "NaN"),
        said(True, 1e300),
        said(True, [1.0]),
        said(True, 1.0, E1="perhaps"),
        said().replace('"E4": false, ', ""),
        said(True, 1.0, E1_GOAL=True),
        said() + said(False),
        json.dumps({"is_correct": False, "grade": 0, "error_list": ["E7"]}),
        json.dumps({"is_correct": False, "grade": 0, "error_list": [{"E1": True}]}),
        "{" * 30_000,
    ],
)
def test_what_is_no_verdict_is_refused(text: str) -> None:
    with pytest.raises(UnreadableError):
        read_verdict(text)


def test_the_strict_form_of_the_schema_admits_the_same() -> None:
    strict = strict_schema(answer_schema(VerdictAnswer()))
    assert strict is not None
    jsonschema.validate(json.loads(said(False, 0.4, E2=True)), strict)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(json.loads(said(True, 0.5)), strict)


def test_the_schema_admits_what_the_reader_reads() -> None:
    rng = random.Random(4)
    schema = answer_schema(VerdictAnswer())
    for _ in range(50):
        text = said(rng.random() < 0.5, rng.choice(GRADES), **{name: rng.random() < 0.5 for name in ERRORS})
        jsonschema.validate(json.loads(text), schema)
        read_verdict(text)
    jsonschema.validate({"reasoning": "", "is_correct": True}, answer_schema(VerdictAnswer(errors=False)))
    for wrong in (said(True, 0.5), said("YES"), said(E9=True)):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(json.loads(wrong), schema)


@pytest.mark.parametrize("correct", [True, False])
@pytest.mark.parametrize("errors", [(), ("E5",), ("E1", "E6")])
def test_an_error_counts_more_than_a_yes_and_a_no_more_than_no_error(correct: bool, errors: tuple[str, ...]) -> None:
    engine = Fixed(said(correct, 0.8, **dict.fromkeys(errors, True)))
    found = examined(engine, task(), predicted(chain("fetch_rates")))
    assert found["plan_correct"] == found["success"] == (correct and not errors)
    assert found["judge_contradicted"] == (correct == bool(errors))
    assert found["plan_errors"] == errors
    assert found["plan_grade"] == 0.8


def test_with_both_the_judge_has_columns_of_its_own() -> None:
    found = examined(Fixed(said(False, 0.2, E3=True)), task(), predicted(chain("sum_up")), "both")
    assert found == {
        "judged_correct": False, "judged_grade": 0.2, "judged_errors": ("E3",), "judge_contradicted": False,
        "exact_match": False,
    }  # fmt: skip
    assert plan_examine(task(), "symbolic") is None


def test_what_cannot_be_read_after_all_retries_is_none_and_no_failure() -> None:
    engine = Fixed("I like it.")
    found = examined(engine, task(), predicted(chain("sum_up")))
    assert found["success"] is found["plan_correct"] is found["plan_grade"] is found["plan_errors"] is None
    assert found["judge_contradicted"] is None
    assert len(vars(engine)["asked"]) == 4
    assert examined(Fixed("Hm.", said()), task(), predicted(chain("sum_up")))["success"] is True


def test_the_version_before_a_critique_is_judged_too() -> None:
    before = predicted(chain("fetch_rates", "sum_up"), unrefined=chain("sum_up"))
    found = examined(Fixed(said(), said(False, 0.4, E2=True)), task(), before)
    assert (found["plan_correct"], found["unrefined_correct"], found["unrefined_errors"]) == (True, False, ("E2",))
    assert found["exact_match"] is True


def test_prompts_say_nothing_of_who_wrote_the_plan() -> None:
    """A predicted chain with its summary and reasons, and the same calls made one by one, look alike."""
    calls = tuple(ChainCall(call.tool, dict(call.arguments), "because I am holistic") for call in RIGHT)
    holistic = Trajectory((), (), chain=Chain(calls, None, "My holistic strategy"))
    steps = tuple(
        Step(0, Substep(str(n), "", ""), call, Observation({}), written=call, thought="ReAct thought")
        for n, call in enumerate(RIGHT)
    )
    one, other = Fixed(said()), Fixed(said())
    examined(one, task(), holistic)
    examined(other, task(), Trajectory(steps, steps, answer="42"))
    first, second = (vars(engine)["asked"][0].text() for engine in (one, other))
    assert first == second
    for word in ("because I am", "strategy", "thought", "42", "apb", "Benchmark"):
        assert word not in first


def test_only_what_a_judge_may_know_is_shown() -> None:
    plan = chain("fetch_rates")
    about = task(extraneous=("draw_chart",), broken="sum_up", replacement="rates_service")
    shown, blind = (plan_prompt(about, plan, known).text() for known in (True, False))
    assert "A known solution:" in shown
    assert "A known solution:" not in blind
    assert "of no use for this request" in blind
    assert "of no use for this request" not in plan_prompt(task(), plan, False).text()
    assert "cheaper" not in blind
    assert "cheaper" in plan_prompt(task(costs={"sum_up": 3}), plan, False).text()
    rejecting = task(tools=(*TOOLS, ToolSpec(REJECT, "Ends the work.", ())))
    assert REJECT not in plan_prompt(rejecting, plan, True).text()
    for kind, role in UNSOLVABLE.items():
        prompt = unsolvable_prompt(task("unsolvable", kind={"unsolvable_kind": kind}), plan)
        assert prompt.sections[0] is role
        assert "A known solution:" not in prompt.text()


def test_step_wise_the_reference_has_as_many_steps_as_are_predicted() -> None:
    done = (Step(0, Substep("0", "", ""), RIGHT[0], Observation({"rates": [1, 2]}), written=RIGHT[0]),)
    about = task("stepwise", kind={"horizon_k": 1}, done=done, reference=(RIGHT[1], *RIGHT))
    text = plan_prompt(about, Chain((ChainCall("sum_up", {"numbers": [1, 2]}),), first=1), True).text()
    assert 'Step 0: {"tool": "fetch_rates", "arguments": {"day": "Monday"}} returned {"rates": [1, 2]}' in text
    assert text.count("A known solution:\nStep 1: ") == 1
    assert "Step 2" not in text
    assert 'Predicted steps:\nStep 1: {"tool": "sum_up"' in text


def test_a_broken_tool_is_judged_by_rule_but_for_other_tools() -> None:
    about = task("broken", broken="fetch_rates", replacement="rates_service")
    known = {
        ("fetch_rates", "rates_service"): "retry", ("rates_service",): "replace", ("no_such_tool",): "other",
        (): "other", ("sum_up", "fetch_rates"): None,
    }  # fmt: skip
    for names, behaviour in known.items():
        assert behaviour_by_rule(about, chain(*names)) == behaviour
    assert behaviour_by_rule(about, chain(refusal="it is broken")) == "refuse"
    for correct, behaviour in ((True, "alter"), (False, "other")):
        engine = Fixed(json.dumps({"reasoning": "", "is_correct": correct}))
        found = examined(engine, about, predicted(chain("sum_up")))
        assert (found["behaviour"], found["success"]) == (behaviour, correct)
    engine = Fixed("unreadable")
    assert examined(engine, about, predicted(chain("rates_service")))["success"] is True
    assert examined(engine, about, predicted(chain("fetch_rates")))["success"] is False
    assert not vars(engine)["asked"]


def test_without_a_judge_a_rule_tells_behaviour_and_success_behind_a_broken_tool() -> None:
    about = task("broken", broken="fetch_rates", replacement="rates_service")
    for name, behaviour, success in (("rates_service", "replace", True), ("fetch_rates", "retry", False)):
        own = by_rule(about, predicted(chain(name)))
        assert (own["behaviour"], own["success"]) == (behaviour, success)
    assert not {"behaviour", "success"} & set(by_rule(about, predicted(chain("sum_up")))), "a judge has to tell"


def test_an_unsolvable_request_is_judged_where_the_plan_may_be_a_refusal() -> None:
    about = task("unsolvable", kind={"unsolvable_kind": "missing_information"})
    yes = Fixed('{"reasoning": "", "is_correct": true}')
    assert examined(yes, about, predicted(chain("fetch_rates")))["success"] is False
    assert examined(yes, about, predicted(chain()))["success"] is False
    assert not vars(yes)["asked"]
    assert examined(yes, about, predicted(chain(refusal="Which day?")))["success"] is True
    assert examined(yes, about, predicted(chain(), answer="Which day do you mean?"))["success"] is True
    assert "Answer given: Which day do you mean?" in vars(yes)["asked"][-1].text()


@pytest.mark.parametrize("steps", [None, 2])
@pytest.mark.parametrize("grade", GRADES)
@pytest.mark.parametrize("errors", [(), ("E2",), ("E5",), ("E1", "E5")])
def test_a_call_of_an_extraneous_tool_is_an_error_whatever_the_judge_says(
    steps: int | None, grade: float, errors: tuple[str, ...]
) -> None:
    about = task("extraneous", kind={"horizon_k": steps}, extraneous=("draw_chart",))
    judge = said(not errors, grade, **dict.fromkeys(errors, True))
    for calls, trapped in (
        (("fetch_rates", "draw_chart"), True),
        (("fetch_rates", "sum_up"), False),
        (("fetch_rates", "sum_up", "draw_chart"), steps is None),  # behind the steps that count
    ):
        plan = predicted(chain(*calls), unrefined=chain(*calls))
        own = examined(Fixed(judge), about, plan)
        assert set(own["plan_errors"]) == {*errors, *(["E5"] if trapped else [])} == set(own["unrefined_errors"])
        assert own["success"] is own["plan_correct"] is own["unrefined_correct"] is (not errors and not trapped)
        assert own["judge_contradicted"] is False
        assert own["extraneous_calls"] == int(trapped)
        best = (0.8 if steps is None else 0.6) if trapped and "E5" not in errors else 1.0
        assert own["plan_grade"] == own["unrefined_grade"] == min(grade, best)
        both = examined(Fixed(judge), about, plan, "both")
        assert set(both["judged_errors"]) == set(own["plan_errors"])
    assert examined(Fixed("I like it."), about, predicted(chain("draw_chart")))["plan_errors"] is None


def test_huge_plans_are_cut_and_odd_values_shown_on_their_line() -> None:
    many = Chain(tuple(ChainCall("sum_up", {"numbers": "x\nStep 9: y" * 2_000}) for _ in range(10_000)))
    lines = plan_judging.chain_lines(many)
    assert len(lines) == plan_judging.MOST_CALLS + 1
    assert lines[-1] == "... and 9,872 more calls"
    assert all("\n" not in line and len(line) < plan_judging.MOST_CALL + 100 for line in lines)
    odd = plan_judging.chain_lines(Chain((ChainCall("t", {"a": {"b": [1]}}),), "no\x1b[2J\nway"))
    assert '"a": {"b": [1]}' in odd[0]
    assert "\x1b" not in odd[1]
    assert "\n" not in odd[1]
    assert plan_judging.chain_lines(Chain(())) == ("No call is made.",)


@pytest.mark.long
@pytest.mark.parametrize("auc", [0.5, 0.8, 0.97, 1.0])
def test_a_planted_accuracy_is_met_of_right_plans_and_of_wrong_ones(auc: float) -> None:
    engine = Simulated(judge_auc=auc, malformed=0.0)
    for truth in (Verdict(True, frozenset(), 1.0), Verdict(False, frozenset({"E2", "E4"}), 0.4)):
        hits = 0
        for number in range(400):
            about = task(query=f"{QUERY} {number}")
            found = examined(engine, about, predicted(chain("sum_up")), truth=lambda _, known=truth: known)
            hits += found["plan_correct"] == truth.correct
            assert not found["judge_contradicted"]
            if found["plan_correct"] == truth.correct:
                assert frozenset(found["plan_errors"]) == truth.errors
        expected = accuracy(auc)
        assert abs(hits / 400 - expected) <= 4 * (expected * (1 - expected) / 400) ** 0.5
    assert accuracy(0.5) == pytest.approx(0.5)
    assert accuracy(1.0) == 1


def test_the_same_plan_is_judged_alike_whoever_wrote_it() -> None:
    engine = Simulated(judge_auc=0.7, malformed=0.3)
    truth = Verdict(True, frozenset(), 1.0)
    seen = {
        str(examined(engine, task(), predicted(Chain(chain("sum_up").calls, None, plan)), truth=lambda _: truth))
        for plan in ("", "a plan")
    }
    assert len(seen) == 1


def test_the_lexical_judge_finds_what_names_tell() -> None:
    def errors(found: Chain, known: bool = True, **about: Any) -> Any:
        return examined(Lexical(), task(**about), predicted(found), reference_shown=known)["plan_errors"]

    right = Chain(tuple(ChainCall(call.tool, dict(call.arguments)) for call in RIGHT))
    assert errors(right) == errors(right, known=False) == ()
    words = (right.calls[0], ChainCall("sum_up", {"numbers": "the rates that step 0 returned {all} failed: no"}))
    assert errors(Chain(words)) == ()
    assert "E6" in errors(chain("fetch_rate", "sum_up"))
    assert "E2" in errors(Chain(right.calls[:1]))
    assert "E2" in errors(Chain(()), known=False)
    assert "E5" in errors(chain("sum_up"))
    assert "E4" in errors(Chain(right.calls[::-1]))
    trapped = Chain((*right.calls, ChainCall("draw_chart", {"data": [1]})))
    assert errors(trapped) == ()
    assert errors(trapped, extraneous=("draw_chart",)) == ("E5",)


@pytest.mark.parametrize(
    ("others", "accepted"),
    [
        (("rates_service",), ["rates_service"]),
        (("draw_chart",), []),
        (("rates_service", "draw_chart"), ["rates_service"]),
        (("rates_service", "list_rates", "draw_chart"), ["rates_service", "list_rates"]),
        (("rates_service", "list_rates", "draw_chart", "sum_up"), ["rates_service", "list_rates"]),
    ],
)
def test_the_lexical_judge_accepts_a_tool_that_is_more_alike_than_half_of_the_others(
    others: tuple[str, ...], accepted: list[str]
) -> None:
    listing = ToolSpec("list_rates", "Shows a sheet of past rates.", ())
    tools = tuple(tool for tool in (*TOOLS, listing) if tool.name in ("fetch_rates", *others))
    failed = Step(0, Substep("0", "", ""), RIGHT[0], Observation({"error": "down"}, True), written=RIGHT[0])
    about = task("broken", tools=tools, broken="fetch_rates", done=(failed,))
    found = {name: examined(Lexical(), about, predicted(chain(name)))["behaviour"] for name in others}
    assert found == {name: "alter" if name in accepted else "other" for name in others}


def carried_out(plan: Chain | None, draft: Chain | None, *answers: str) -> tuple[Mapping[str, Any], list[Prompt]]:
    """What is said of a plan that was carried out, and what the judge was shown."""
    engine = Fixed(*answers)
    ran = Trajectory((), (), answer="done", planned=plan, unrefined=draft)
    found = executed_examine(task(policy="Never draw a chart."))(ran, Evaluation(engine, Judging(), 0))

    async def wait() -> Mapping[str, Any]:
        return await found

    return asyncio.run(wait()), vars(engine)["asked"]


def test_of_a_plan_that_was_carried_out_plan_and_draft_are_judged_and_success_is_left_alone() -> None:
    found, asked = carried_out(chain("fetch_rates", "sum_up"), chain("sum_up"), said(), said(False, 0.4, E2=True))
    assert found == {
        "plan_correct": True, "plan_grade": 1.0, "plan_errors": (), "judge_contradicted": False,
        "unrefined_correct": False, "unrefined_grade": 0.4, "unrefined_errors": ("E2",),
    }  # fmt: skip
    assert len(asked) == 2
    assert all("Never draw a chart." in prompt.text() for prompt in asked)
    assert "fetch_rates" in asked[0].text()
    assert "done" not in asked[0].text(), "what came of the plan is not shown"


def test_a_draft_that_was_left_as_it_was_is_judged_once_and_no_plan_not_at_all() -> None:
    found, asked = carried_out(chain("sum_up"), chain("sum_up"), said(False, 0.4, E2=True), said())
    assert (found["plan_grade"], found["unrefined_grade"], len(asked)) == (0.4, 0.4, 1)
    found, asked = carried_out(chain("sum_up"), None, said())
    assert "unrefined_correct" not in found
    assert carried_out(None, None, said()) == ({}, [])


def test_a_verdict_that_cannot_be_read_leaves_the_columns_empty() -> None:
    found, _ = carried_out(chain("sum_up"), None, "no verdict")
    assert (found["plan_correct"], found["plan_grade"], found["judge_contradicted"]) == (None, None, None)
