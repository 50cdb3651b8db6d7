"""Failure classes: the rules, one by one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from analysis.tables.failure_cells import NOTHING, Cell, Reference, Taken, Wanted, asked_for, same_content
from analysis.tables.failure_rules import faults, primary


def wanted(*calls: tuple[str, dict[str, Any]], followed: bool = False) -> Reference:
    return Reference(
        [Wanted(place, str(place), tool, json.dumps(own)) for place, (tool, own) in enumerate(calls)], followed
    )


def taken(place: int, tool: str | None, failed: bool | None = False, **arguments: Any) -> Taken:
    text = json.dumps({"tool": tool, "arguments": arguments})
    return Taken(place, str(place), tool, text, json.dumps(arguments), "{}", failed)


def test_what_follows_from_an_earlier_fault_is_a_cascade() -> None:
    reference = wanted(("find", {"name": "a"}), ("use", {"it": "OUTPUT_FROM_STEP_0.result", "how": "well"}))
    path = [taken(0, "find", True, name="b"), taken(1, "use", True, it="made up", how="well")]
    assert [fault.kind for fault in faults(Cell(reference, path))] == ["wrong_argument", "cascade"]
    path[1] = taken(1, "use", True, it="made up", how="badly")  # which has nothing to do with it
    assert [fault.kind for fault in faults(Cell(reference, path))] == ["wrong_argument", "wrong_argument"]
    assert [fault.kind for fault in faults(Cell(reference, path[:1]))] == ["wrong_argument", "cascade"]


@pytest.mark.parametrize(
    ("ending", "kind", "detail"),
    [
        ({"error_kind": "timeout", "status": "failed"}, "budget", "timeout"),
        ({"error_kind": "context", "status": "failed"}, "budget", "context"),
        ({"budget_reached": "tokens"}, "budget", "tokens"),
        ({"cut": True}, "budget", "max_calls"),
        ({"searched": True}, "budget", "search"),
        ({"error_kind": "model", "status": "failed", "error_message": "no plan"}, "unreadable", "no plan"),
        ({"refused": True}, "gave_up", "refused"),
        ({"error_kind": "infrastructure", "status": "failed"}, "error", "infrastructure"),
        ({"error_kind": "code", "status": "failed"}, "error", "code"),
        ({"error_kind": "tool", "status": "failed"}, "error", "tool"),
    ],
)
def test_how_a_path_ended(ending: dict[str, Any], kind: str, detail: str) -> None:
    cell = Cell(wanted(("find", {"name": "a"}), ("use", {"how": "well"})), [taken(0, "find", name="a")], **ending)
    assert [(fault.kind, fault.detail) for fault in faults(cell)] == [(kind, detail)]


def test_nobody_who_called_nothing_missed_one_call_after_the_other() -> None:
    reference = wanted(("find", {"name": "a"}), ("use", {"how": "well"}))
    for path in ([], [taken(0, "finish")], [taken(0, "give_up")], [taken(0, "reject")]):
        assert [fault.kind for fault in faults(Cell(reference, path))] == ["gave_up"]


def test_without_a_reference_only_the_end_is_told() -> None:
    nothing = Reference([], followed=False)
    assert faults(Cell(nothing, [taken(0, "find", True)]))[0].kind == "unknown"
    assert faults(Cell(nothing, [], budget_reached="steps"))[0].kind == "budget"
    assert faults(Cell(nothing, [Taken(0, "0", None)]))[0].kind == "unreadable"
    mixed = [taken(0, "find"), Taken(1, "1", None), taken(2, "find"), taken(3, "find")]
    assert faults(Cell(nothing, mixed))[0].kind == "unknown"


@pytest.mark.parametrize(
    ("told", "kind", "detail"),
    [
        ({"behaviour": "retry"}, "wrong_tool", "calls the broken tool again"),
        ({"behaviour": "refuse"}, "gave_up", "refused"),
        ({"behaviour": "other"}, "unknown", "does not call the replacement"),
        ({"behaviour": "other", "budget_reached": "steps"}, "budget", "steps"),
        ({"plan_errors": ["E2"]}, "missing_call", "a wanted fact (E2)"),
    ],
)
def test_what_the_scorer_told_needs_no_reference(told: dict[str, Any], kind: str, detail: str) -> None:
    found = faults(Cell(NOTHING, [taken(0, "find")], **told))
    assert [(fault.kind, fault.detail) for fault in found] == [(kind, detail)]


@pytest.mark.parametrize(
    ("horizon", "first", "part"), [(2, "3", "34"), (9, "3", "3456"), (None, "3", "0123456"), (2, None, "0123456"),
                                   (2, "7", "0123456")]
)  # fmt: skip
def test_a_prediction_begins_at_its_first_decision(horizon: int | None, first: str | None, part: str) -> None:
    ids = list("0123456")
    assert ids[asked_for(ids, horizon, first)] == list(part)


def test_calls_of_one_answer_need_not_stand_at_their_substeps() -> None:
    reference = Reference(
        [Wanted(0, "1", None, None), Wanted(1, "2", "log_in", '{"name": "a"}'), Wanted(2, "3", "look", '{"at": "b"}')],
        followed=True,
    )
    path = [
        Taken(0, "1", "log_in", '{"tool": "log_in", "arguments": {"name": "a"}}', '{"name": "a"}', "{}", False),
        Taken(1, "2", "peek", '{"tool": "peek", "arguments": {"at": "b"}}', '{"at": "b"}', "{}", True, asked=False),
        Taken(2, "3", "no_tool", asked=False),
    ]
    found = faults(Cell(reference, path, looked_up=True, at_once=True))
    assert [(fault.kind, fault.step) for fault in found] == [("wrong_tool", 1)]
    asked = faults(Cell(reference, path, looked_up=True))  # the model was told the substep each time
    assert [(fault.kind, fault.step) for fault in asked if not fault.harmless] == [("missing_call", 2)]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("May 5, 2024", "5 May 2024"),
        (["a", "b"], "a and b"),
        ({"city": "Rome"}, "rome"),
        (7, "07"),
        ("2024-05-01", [2024, 5, 1]),
    ],
)
def test_the_same_content_in_another_form(one: Any, other: Any) -> None:
    assert same_content(one, other)
    assert same_content(other, one)
    assert not same_content(one, "Naples")


def test_nothing_has_no_content() -> None:
    assert not same_content("", "")


def test_the_class_is_the_first_fault_that_cost_something() -> None:
    reference = wanted(("find", {"name": "a"}))
    found = faults(Cell(reference, [taken(0, "look", True), taken(1, "find", True, name="b")]))
    assert [fault.kind for fault in found] == ["redundant_call", "wrong_argument"]
    assert primary(found).kind == "wrong_argument"
