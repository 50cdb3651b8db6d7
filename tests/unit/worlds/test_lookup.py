"""The lookup simulator (egb_slate §3.4)."""

from __future__ import annotations

import pytest

from grid.core.types import Json, Observation, Parameter, ToolCall, ToolSpec
from grid.text.references import reference
from grid.worlds.lookup import LookupSimulator, SameFunction, build_entries, default_outcome
from tests.support.walks import Walk

CALLS = {
    "1.1": ToolCall("find_order", {"order": "#AB-17", "day": "2023-01-15", "total": 1299.0}),
    "1.2": ToolCall("book_courier", {"parcel": reference("1.1", "parcel"), "urgent": True}),
    "2.1": ToolCall("send_note", {"text": f"Parcel {reference('1.1', 'parcel')} is on its way", "mood": "kind"}),
}
OUTCOMES: dict[str, dict[str, Json]] = {
    "1.1": {"parcel": "P-9", "weight": 3},
    "1.2": {"booking": "B-4"},
    "2.1": {"sent": True},
}
SAME = {"locate_purchase": SameFunction("find_order", {"purchase": "order", "bought_on": "day", "paid": "total"})}
RIGHT: dict[str, Json] = {"order": "#AB-17", "day": "2023-01-15", "total": 1299.0}


def simulator(*resolution: str) -> Walk:
    entries = build_entries(CALLS, OUTCOMES, {"2.1": frozenset({"mood"})})
    return Walk(LookupSimulator(entries, frozenset(resolution or ("1.2", "2.1")), SAME))


@pytest.mark.parametrize(
    "arguments",
    [
        RIGHT,
        {"order": "ab-17", "day": "January 15, 2023", "total": "$1,299.00"},
        {"total": "1299", "day": "15 January", "order": " AB-17 "},
    ],
)
def test_any_form_of_the_arguments_gives_the_outcome(arguments: dict[str, Json]) -> None:
    walk = simulator()
    assert walk.make(ToolCall("find_order", arguments)) == Observation(OUTCOMES["1.1"])
    assert walk.state == frozenset({"1.1"})


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"order": "AB-17", "day": "2023-01-15"},
        {"order": "AB-18", "day": "2023-01-15", "total": 1299},
        {"order": "AB-17", "day": "2023-01-16", "total": 1299},
        {"order": "AB-17", "day": "2023-01-15", "total": None},
        RIGHT | {"extra": "something"},
        RIGHT | {"extra": False},
        RIGHT | {"extra": 0},
    ],
)
def test_wrong_arguments_give_the_default_outcome_whatever_they_are(arguments: dict[str, Json]) -> None:
    walk = simulator()
    assert walk.make(ToolCall("find_order", arguments)) == default_outcome("find_order")
    assert walk.state == frozenset()


def test_the_default_outcome_does_not_know_what_happened_before() -> None:
    walk = simulator()
    wrong = ToolCall("find_order", {"order": "none"})
    before = walk.make(wrong)
    walk.make(ToolCall("find_order", RIGHT))
    assert walk.make(wrong) == before
    assert walk.make(ToolCall("unknown_tool", RIGHT)) == default_outcome("unknown_tool")


@pytest.mark.parametrize("empty", [None, ""])
def test_an_empty_extra_argument_is_no_argument(empty: Json) -> None:
    walk = simulator()
    assert walk.make(ToolCall("find_order", RIGHT | {"extra": empty})) == Observation(OUTCOMES["1.1"])


def test_an_extra_argument_that_the_tool_declares_optional_does_no_harm() -> None:
    note = Parameter("note", "string", "", required=False)
    tools = {"find_order": ToolSpec("find_order", "", (note, Parameter("desk", "string", "")))}
    walk = Walk(LookupSimulator(build_entries(CALLS, OUTCOMES, tools=tools), frozenset({"1.1"}), SAME))
    assert walk.make(ToolCall("find_order", RIGHT | {"desk": "x"})).failed, "it is not optional"
    assert walk.make(ToolCall("find_order", RIGHT | {"other": "x"})).failed, "its tool has no such argument"
    assert walk.make(ToolCall("find_order", {"note": "x"})).failed, "the reference's own are still needed"
    assert walk.make(ToolCall("find_order", RIGHT | {"note": "x"})) == Observation(OUTCOMES["1.1"])
    assert walk.resolved


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        ({"to": "Rome"}, {"1"}),
        ({"to": "Rome", "day": "2025-05-01"}, {"2"}),
        ({"to": "Rome", "day": "2025-05-02"}, {"1"}),
        ({"to": "Rome", "day": "2025-05-01", "seat": "2A"}, {"2"}),
        ({"day": "2025-05-01"}, set()),
    ],
)
def test_of_several_calls_the_one_that_lacks_the_fewest_is_meant(arguments: dict[str, Json], meant: set[str]) -> None:
    calls = {"1": ToolCall("fly", {"to": "Rome"}), "2": ToolCall("fly", {"to": "Rome", "day": "2025-05-01"})}
    outcomes: dict[str, dict[str, Json]] = {"1": {"flight": "A"}, "2": {"flight": "B"}}
    tool = ToolSpec("fly", "", tuple(Parameter(name, "string", "", required=False) for name in ("to", "day", "seat")))
    entries = build_entries(calls, outcomes, tools={tool.name: tool})
    walk = Walk(LookupSimulator(entries, frozenset(calls)))
    found = walk.make(ToolCall("fly", arguments))
    assert walk.state == frozenset(meant)
    assert [found.content] == [outcomes[step] for step in meant] or (found.failed and not meant)


def test_a_functional_equivalent_gives_the_same_outcome_by_its_own_names() -> None:
    walk = simulator()
    same = ToolCall("locate_purchase", {"purchase": "AB-17", "bought_on": "15 January 2023", "paid": 1299})
    assert walk.make(same) == Observation(OUTCOMES["1.1"])
    assert walk.state == frozenset({"1.1"})


def test_a_functional_equivalent_answers_wrong_arguments_under_its_own_name() -> None:
    walk = simulator()
    wrong = ToolCall("locate_purchase", {"purchase": "AB-18", "bought_on": "15 January 2023", "paid": 1299})
    assert walk.make(wrong) == default_outcome("locate_purchase")


@pytest.mark.parametrize("mood", ["kind", "stern", None, 7, ["a"]])
def test_an_open_argument_is_not_compared(mood: Json) -> None:
    walk = simulator()
    note = ToolCall("send_note", {"text": "Parcel P-9 is on its way", "mood": mood})
    assert walk.make(note) == Observation(OUTCOMES["2.1"])
    assert walk.make(ToolCall("send_note", {"text": "Parcel P-9 is on its way"})) == Observation(OUTCOMES["2.1"])
    assert walk.make(ToolCall("send_note", {"text": "Hello", "mood": mood})) == default_outcome("send_note")


def test_resolved_only_when_the_whole_resolution_is_obtained() -> None:
    walk = simulator()
    steps = [
        (ToolCall("find_order", RIGHT), False),
        (ToolCall("book_courier", {"parcel": "P-9", "urgent": "yes"}), False),
        (ToolCall("book_courier", {"parcel": "P-9", "urgent": "yes"}), False),
        (ToolCall("send_note", {"text": "parcel p-9 is on its way."}), True),
        (ToolCall("send_note", {"text": "wrong"}), True),
    ]
    for call, resolved in steps:
        walk.make(call)
        assert walk.resolved == resolved, call


def test_the_path_does_not_matter() -> None:
    walk = simulator("1.2")
    walk.make(ToolCall("book_courier", {"parcel": "P-9", "urgent": True}))
    assert walk.resolved


def test_a_kept_state_is_gone_on_from() -> None:
    walk = simulator("1.1")
    walk.make(ToolCall("find_order", RIGHT))
    found, walk.state = walk.state, walk.world.start()
    assert not walk.resolved
    assert walk.make(ToolCall("find_order", {})).failed
    assert walk.world.resolved(found)
    assert walk.world.answer(found) is None, "it answers no question"


def test_only_the_default_outcome_has_failed() -> None:
    assert default_outcome("find_order").failed
    assert not simulator().make(ToolCall("find_order", RIGHT)).failed


def test_build_entries_makes_calls_concrete_and_merges_equal_ones() -> None:
    again = ToolCall("book_courier", {"parcel": "P-9", "urgent": True})
    entries = build_entries(CALLS | {"3.1": again}, OUTCOMES | {"3.1": OUTCOMES["1.2"]})
    assert {entry.substeps: entry.call for entry in entries} == {
        frozenset({"1.1"}): CALLS["1.1"],
        frozenset({"1.2", "3.1"}): again,
        frozenset({"2.1"}): ToolCall("send_note", {"text": "Parcel P-9 is on its way", "mood": "kind"}),
    }


def test_equal_calls_with_different_outcomes_are_refused() -> None:
    again = ToolCall("book_courier", {"parcel": "P-9", "urgent": True})
    with pytest.raises(ValueError, match=r"step (1\.2|3\.1) makes the same call .* another outcome"):
        build_entries(CALLS | {"3.1": again}, OUTCOMES | {"3.1": {"booking": "B-5"}})


def test_references_that_cannot_resolve_are_refused() -> None:
    with pytest.raises(ValueError, match=r"4\.1.*9\.9"):
        build_entries({"4.1": ToolCall("t", {"a": reference("9.9", "b")})}, {"4.1": {"c": 1}})


@pytest.mark.parametrize(
    "second",
    [{"b": 2, "a": "2023-01-15"}, {"a": "January 15, 2023", "b": 2}],
    ids=["other order", "other form"],
)
def test_calls_that_mean_the_same_are_merged(second: dict[str, Json]) -> None:
    calls = {"1.1": ToolCall("t", {"a": "2023-01-15", "b": 2}), "1.2": ToolCall("t", second)}
    walk = Walk(LookupSimulator(build_entries(calls, {"1.1": {"c": 1}, "1.2": {"c": 1}}), frozenset(calls)))
    for call in calls.values():
        walk.make(call)
    assert walk.resolved


def test_calls_that_differ_in_open_arguments_only_can_both_be_obtained() -> None:
    calls = {"1.1": ToolCall("t", {"a": "<first>"}), "1.2": ToolCall("t", {"a": "<second>"})}
    left_open = dict.fromkeys(calls, frozenset({"a"}))
    entries = build_entries(calls, {"1.1": {"c": 1}, "1.2": {"c": 1}}, left_open)
    walk = Walk(LookupSimulator(entries, frozenset(calls)))
    for call in calls.values():
        walk.make(call)
    assert walk.resolved


def test_the_tools_description_of_an_argument_decides_what_its_value_means() -> None:
    parameters = (Parameter("weight", "number", "Weight in kg"), Parameter("expiry", "string", "Expiry of the card"))
    tools = {"send": ToolSpec("send", "", parameters)}
    calls = {"1.1": ToolCall("send", {"weight": 9, "expiry": "09/28"})}
    entries = build_entries(calls, {"1.1": {"sent": True}}, tools=tools)
    walk = Walk(LookupSimulator(entries, frozenset(calls)))
    for weight, expiry in (("9 lb", "09/28"), ("9 kg", "September 28")):
        assert walk.make(ToolCall("send", {"weight": weight, "expiry": expiry})) == default_outcome("send")
    assert walk.make(ToolCall("send", {"weight": "9 kg", "expiry": "09/28"})) == Observation({"sent": True})
