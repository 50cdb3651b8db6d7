"""Cases of several questions: drawn as the paper's script draws them, and joined into one plan."""

from __future__ import annotations

import sys
from collections import Counter
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grid.core.types import Json
from grid.datasets.hotpotqa.parts import (
    BRIDGE,
    COMPARISON,
    Constants,
    Part,
    PartStep,
    Sample,
    always,
    bounds,
    draw,
    guessed,
    part_of,
    question,
)
from grid.text import references
from tests.support.hotpotqa import bridge, comparison, quiz, records
from tests.support.planning_horizon_code import official

PARTS = [part_of(question(one)) for one in records()]


def bare(number: int, kind: str) -> Part:
    """A part that is only drawn."""
    return Part(
        f"{kind}{number}", f"{kind} {number}?", "yes", kind, (PartStep("search", (f"{kind}{number}",), "yes", "t"),)
    )


def pool(bridges: int, comparisons: int) -> list[Part]:
    return [*(bare(n, BRIDGE) for n in range(bridges)), *(bare(n, COMPARISON) for n in range(comparisons))]


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The authors' script, without what it reads files and asks models with."""
    for name, members in {
        "planning": (),
        "planning.services": (),
        "planning.services.openai": ("OpenAIClient",),
        "data": (),
        "data.multiobj_hotpotqa": (),
        "data.multiobj_hotpotqa.scripts": (),
        "data.multiobj_hotpotqa.scripts.utils": ("load_json", "load_jsonl"),
    }.items():
        module = ModuleType(name)
        for member in members:
            setattr(module, member, None)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return official("data/multiobj_hotpotqa/scripts/preprocess_multiobj_hotpotqa.py")


@pytest.mark.parametrize("objectives", [1, 2, 3, 4, 5])
def test_the_draws_are_those_of_the_authors_script(script: ModuleType, objectives: int) -> None:
    parts, seed = pool(2000, 1400), 42 + objectives
    own: list[dict[str, Any]] = [{"id": part.id, "metadata": {"type": part.kind}} for part in parts]
    bridges, comparisons = ([one for one in own if one["metadata"]["type"] == kind] for kind in (BRIDGE, COMPARISON))
    if objectives == 1:
        theirs = [[one] for one in script.sample_k1(bridges, comparisons, 200, seed)]
    else:
        theirs = script.sample_multi_objective(bridges, comparisons, objectives, 200, seed)
    found = draw(parts, objectives, 200, seed)
    assert [[part.id for part in sample] for sample in found] == [[one["id"] for one in sample] for sample in theirs]
    texts = [{"question": part.question, "golden_answers": ["a"], "id": part.id} for part in found[0]]
    metadata = {"type": BRIDGE, "level": "hard", "supporting_facts": {"title": [], "sent_id": []}, "context": {}}
    joined = script.combine_questions([text | {"metadata": metadata} for text in texts], objectives)
    assert Sample("", found[0]).query == joined["question"]


@given(st.integers(0, 9), st.integers(0, 9), st.integers(1, 6), st.integers(1, 40), st.integers(0, 2**32))
def test_a_question_is_never_twice_in_a_case_and_no_case_twice(
    bridges: int, comparisons: int, objectives: int, count: int, seed: int
) -> None:
    parts = pool(bridges, comparisons)
    found = draw(parts, objectives, count, seed)
    ids = [tuple(part.id for part in sample) for sample in found]
    assert len(ids) == len(set(ids)) <= count
    assert all(len(set(one)) == len(one) == objectives for one in ids)
    assert draw(parts, objectives, count, seed) == found
    limits = bounds(parts, objectives)
    assert (limits is None) == (objectives > len(parts))
    if limits is None:
        assert not found
    else:
        shares = [sum(part.kind == BRIDGE for part in sample) for sample in found]
        assert all(limits[0] <= share <= limits[1] for share in shares)
        assert limits[0] <= limits[1] <= min(objectives, bridges)


def test_the_number_of_bridge_questions_is_uniform() -> None:
    found = draw(pool(300, 300), 4, 3000, 46)
    shares = Counter(sum(part.kind == BRIDGE for part in sample) for sample in found)
    assert all(520 < shares[number] < 680 for number in range(5)), "600 each, to within four standard deviations"
    single = Counter(part.kind for (part,) in draw(pool(300, 300), 1, 100, 43))
    assert single == {BRIDGE: 50, COMPARISON: 50}


@given(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9), st.integers(0, 2**32))
def test_an_odd_number_of_single_questions_is_the_even_number_and_any_other(
    bridges: int, comparisons: int, half: int, seed: int
) -> None:
    parts = pool(bridges, comparisons)
    even, odd = (draw(parts, 1, count, seed) for count in (2 * half, 2 * half + 1))
    assert len(even) == min(half, bridges) + min(half, comparisons)
    assert odd[: len(even)] == even
    assert len(odd) == len({part.id for (part,) in odd}) == min(len(even) + 1, len(parts))


def replayed(sample: Sample) -> dict[str, str]:
    """The questions of a plan with the results filled in, by what they find."""
    outputs: dict[str, dict[str, Json]] = {}
    asked = {}
    evidence = sample.evidence()
    for step, call in sample.calls().items():
        text = str(references.resolve(call, outputs).arguments["question"])
        outputs[step] = {"result": evidence[text].answer}
        asked[step] = evidence[text].answer
    return asked


@given(st.lists(st.sampled_from(PARTS), min_size=1, max_size=5, unique_by=lambda part: part.id))
def test_the_plan_is_the_parts_plans_one_behind_the_other(parts: list[Part]) -> None:
    sample = Sample("case", tuple(parts))
    calls = sample.calls()
    assert list(calls) == [str(number) for number in range(len(calls))]
    found = replayed(sample)
    assert [found[step] for step in sample.resolution()] == [part.answer for part in parts]
    assert references.depth(calls) == 2, "as deep as one question, and wider"
    assert len(calls) == len({call.text() for call in calls.values()}) <= sum(len(part.steps) for part in parts)
    assert references.final_steps(calls) == sorted(set(sample.resolution()), key=int)
    assert sample.query.split("\n")[-1].endswith(parts[-1].question)
    assert sample.is_consistent


def test_what_two_parts_ask_alike_is_asked_once() -> None:
    same = comparison(1) | {"question": comparison(1)["question"].replace(quiz(1), quiz(0))}
    sample = Sample("case", tuple(part_of(question(one)) for one in (comparison(0), same)))
    calls = sample.calls()
    assert len(calls) == 5
    assert [call.tool for call in calls.values()] == ["search", "search", "commonsense", "search", "commonsense"]
    assert "Of Bela Corvin this is known: OUTPUT_FROM_STEP_1.result" in str(calls["4"].arguments["question"])
    assert sample.resolution() == ("2", "4")


def test_parts_that_find_another_thing_by_the_same_question_are_not_drawn_together() -> None:
    one, other = bare(0, BRIDGE), Part("other", "?", "no", BRIDGE, (PartStep("search", ("bridge0",), "no", "t"),))
    assert not Sample("", (one, other)).is_consistent
    assert draw([one, other], 2, 10, 0) == []


def test_constant_answers_and_guesses() -> None:
    yes = Part("y", "Are both?", "yes", COMPARISON, (PartStep("commonsense", ("Are both?",), "yes"),))
    year, which = part_of(question(bridge(0))), part_of(question(comparison(0)))
    constants = Constants([yes, yes, year, year, year])
    assert constants.overall == "1901"
    assert constants.right(Sample("", (yes,))) == {"constant_success": False, "constant_by_function_success": True}
    assert constants.right(Sample("", (year, yes))) == {"constant_success": False, "constant_by_function_success": True}
    assert constants.right(Sample("", (year, which))) == dict.fromkeys(
        ("constant_success", "constant_by_function_success"), False
    )
    assert Constants([]).right(Sample("", (yes,))) == {}
    assert always("Yes.", Sample("", (yes, yes)))
    assert not always("yes", Sample("", (yes, year)))
    assert guessed(Sample("", (yes, which))) == 0.25, "one of two, and yes or no"
    assert guessed(Sample("", (yes, year))) == 0
