"""References to earlier outputs, their order, and the depth of a plan."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grid.core.types import Json, Observation, Step, Substep, ToolCall
from grid.text.references import depth, final_steps, found_in, order, outputs_of, reference, resolve

OUTPUTS: dict[str, dict[str, Json]] = {
    "1.1": {"id": "X-1", "count": 3, "items": ["a", "b"], "none": None},
    "1.10": {"id": "X-10"},
    "2": {"done": True},
    "3": {"result": {"year": 1851, "of": {"id": 7}}, "place": "here"},
}


def filled(value: Json) -> Json:
    return resolve(ToolCall("t", {"a": value}), OUTPUTS).arguments["a"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("OUTPUT_FROM_STEP_1.1.id", "X-1"),
        ("OUTPUT_FROM_STEP_1.10.id", "X-10"),
        ("OUTPUT_FROM_STEP_1.1.count", 3),
        ("OUTPUT_FROM_STEP_1.1.items", ["a", "b"]),
        ("OUTPUT_FROM_STEP_1.1.none", None),
        ("OUTPUT_FROM_STEP_2.done", True),
        ("take OUTPUT_FROM_STEP_1.1.id, OUTPUT_FROM_STEP_1.1.count times.", "take X-1, 3 times."),
        (["OUTPUT_FROM_STEP_1.1.id", 5, {"deep": ["OUTPUT_FROM_STEP_1.1.count"]}], ["X-1", 5, {"deep": [3]}]),
        ("OUTPUT_FROM_STEP_9.9.id", "OUTPUT_FROM_STEP_9.9.id"),
        ("OUTPUT_FROM_STEP_1.1.unknown", "OUTPUT_FROM_STEP_1.1.unknown"),
        ("a OUTPUT_FROM_STEP_9.9.id b OUTPUT_FROM_STEP_1.1.id", "a OUTPUT_FROM_STEP_9.9.id b X-1"),
        ("OUTPUT_FROM_STEP_", "OUTPUT_FROM_STEP_"),
        ("OUTPUT_FROM_STEP_3.year", 1851),
        ("OUTPUT_FROM_STEP_3.result.year", 1851),
        ("OUTPUT_FROM_STEP_3.result.of", {"id": 7}),
        ("in OUTPUT_FROM_STEP_3.result.year, OUTPUT_FROM_STEP_3.place.txt", "in 1851, here.txt"),
        ("OUTPUT_FROM_STEP_3.result.pdf", '{"year": 1851, "of": {"id": 7}}.pdf'),
        ("OUTPUT_FROM_STEP_1.1.id.count", "X-1.count"),
        ("OUTPUT_FROM_STEP_9.result.year", "OUTPUT_FROM_STEP_9.result.year"),
        (7, 7),
        (None, None),
    ],
)
def test_resolve(value: Json, expected: Json) -> None:
    assert filled(value) == expected


def test_resolve_leaves_the_call_it_is_given_alone() -> None:
    inner: list[Json] = ["OUTPUT_FROM_STEP_1.1.id"]
    call = ToolCall("t", {"a": inner})
    assert resolve(call, OUTPUTS) == ToolCall("t", {"a": ["X-1"]})
    assert inner == ["OUTPUT_FROM_STEP_1.1.id"]


def test_an_output_that_looks_like_a_reference_is_not_resolved_again() -> None:
    outputs: dict[str, dict[str, Json]] = {"1.1": {"id": "OUTPUT_FROM_STEP_1.2.id"}, "1.2": {"id": "X"}}
    assert resolve(ToolCall("t", {"a": reference("1.1", "id")}), outputs).arguments == {"a": "OUTPUT_FROM_STEP_1.2.id"}


def test_found_in_looks_into_nested_values() -> None:
    call = ToolCall("t", {"a": reference("1.1", "x"), "b": [{"c": f"{reference('2.3', 'y')}!"}], "d": 5, "e": None})
    assert sorted(found_in(call)) == [("1.1", "x"), ("2.3", "y")]


def test_outputs_of_takes_only_steps_that_called_a_tool() -> None:
    first = Step(0, Substep("1.1", "s", "g"), ToolCall("t", {}), Observation({"id": 1}))
    second = Step(0, Substep("1.2", "s", "g"), None, None)
    assert outputs_of([first, second]) == {"1.1": {"id": 1}}


@st.composite
def graphs(draw: st.DrawFn) -> dict[str, set[str]]:
    """Step id to the steps that it needs, without circles; ids in any order."""
    size = draw(st.integers(0, 9))
    names = draw(st.permutations([f"{1 + index // 3}.{1 + index % 3}" for index in range(size)]))
    needs = {name: draw(st.sets(st.sampled_from(names[:at]))) if at else set() for at, name in enumerate(names)}
    return {name: needs[name] for name in draw(st.permutations(names))}


def calls_of(needs: Mapping[str, set[str]]) -> dict[str, ToolCall]:
    return {
        step: ToolCall("t", {f"a{i}": reference(producer, "out") for i, producer in enumerate(sorted(producers))})
        for step, producers in needs.items()
    }


def longest(needs: Mapping[str, set[str]], step: str) -> int:
    """The longest chain that ends at a step, by trying every one."""
    return 1 + max((longest(needs, producer) for producer in needs[step]), default=0)


@pytest.mark.long
@given(graphs())
def test_order_has_every_step_once_and_producers_first(needs: dict[str, set[str]]) -> None:
    found = order(calls_of(needs))
    assert sorted(found) == sorted(needs)
    for at, step in enumerate(found):
        assert needs[step] <= set(found[:at])


@given(graphs())
def test_depth_is_the_longest_chain(needs: dict[str, set[str]]) -> None:
    assert depth(calls_of(needs)) == max((longest(needs, step) for step in needs), default=0)


@pytest.mark.long
@given(graphs())
def test_final_steps_are_those_that_nothing_needs(needs: dict[str, set[str]]) -> None:
    used = set().union(*needs.values())
    assert final_steps(calls_of(needs)) == [step for step in needs if step not in used]


@pytest.mark.parametrize("ask", [order, depth])
def test_a_missing_step_is_named(ask: Callable[[dict[str, ToolCall]], object]) -> None:
    with pytest.raises(ValueError, match=r"step 1\.2 .*step 7\.7"):
        ask(calls_of({"1.1": set(), "1.2": {"1.1", "7.7"}}))


@pytest.mark.parametrize("ask", [order, depth])
def test_a_circle_is_named(ask: Callable[[dict[str, ToolCall]], object]) -> None:
    with pytest.raises(ValueError, match=r"circle among steps 1\.2, 2\.1$"):
        ask(calls_of({"1.1": set(), "1.2": {"2.1"}, "2.1": {"1.2", "1.1"}}))


def test_a_step_that_needs_itself_is_a_circle() -> None:
    with pytest.raises(ValueError, match=r"circle among steps 1\.1$"):
        order(calls_of({"1.1": {"1.1"}}))


def in_rounds(calls: dict[str, ToolCall]) -> list[str]:
    """The order by its definition: in each round all steps whose producers are done, as they stand."""
    needs = {step: [producer for producer, _ in found_in(call)] for step, call in calls.items()}
    done: list[str] = []
    while len(done) < len(calls):
        done += [step for step in calls if step not in done and all(p in done for p in needs[step])]
    return done


@settings(max_examples=50)
@given(st.lists(st.sets(st.integers(0, 11)), max_size=12), st.randoms())
def test_the_order_is_that_of_rounds(needs: list[set[int]], rng: random.Random) -> None:
    places = list(range(len(needs)))
    rng.shuffle(places)
    calls = {
        str(place): ToolCall("t", {"a": [f"OUTPUT_FROM_STEP_{p}.x" for p in needs[place] if p < place]})
        for place in places
    }
    assert order(calls) == in_rounds(calls)


def test_a_long_chain_written_backwards_has_an_order() -> None:
    """5,000 rounds over 5,000 steps, each searched among the done ones, would not come to their end."""
    steps = [str(number) for number in range(5_000, 0, -1)]
    calls = {step: ToolCall("t", {"a": f"OUTPUT_FROM_STEP_{int(step) - 1}.x"}) for step in steps}
    calls["0"] = ToolCall("t", {})
    assert order(calls) == ["0", *reversed(steps)]
    assert depth(calls) == 5_001
