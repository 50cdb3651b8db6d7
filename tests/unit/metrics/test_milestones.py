"""Milestones against every way to meet them, and as lines of a file name them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic.dataclasses import dataclass

from grid.core.problem import Milestone, Reference
from grid.core.types import FINISH, Json, Observation, Step, Substep, ToolCall, Trajectory
from grid.core.util import STRICT
from grid.core.world import State
from grid.datasets.functions import FunctionTasks
from grid.metrics.milestones import holds, measured, ordered, reached
from grid.metrics.stepwise import scored
from grid.worlds.functions import Function

NAMES = ("a", "b", "c", "d")


def step(tool: str, arguments: dict[str, Json] | None = None, failed: bool = False, **result: Json) -> Step:
    return Step(0, Substep("1", "", ""), ToolCall(tool, arguments or {}), Observation(result, failed=failed))


def path(*steps: Step, end: State = None) -> Trajectory:
    return Trajectory(steps, steps, end)


@st.composite
def graphs(draw: st.DrawFn) -> tuple[Milestone, ...]:
    """Milestones that wait for some of those before them, in any order."""
    found = [
        Milestone(name, draw(st.sampled_from(("x", "y"))), after=tuple(draw(st.sets(st.sampled_from(NAMES[:place])))))
        if place
        else Milestone(name, draw(st.sampled_from(("x", "y"))))
        for place, name in enumerate(NAMES)
    ]
    return tuple(draw(st.permutations(found)))


def most(milestones: Sequence[Milestone], tools: Sequence[str]) -> int:
    """The most that any assignment of steps to milestones meets, of all there are."""
    found = 0
    for places in product([None, *range(len(tools))], repeat=len(milestones)):
        at = {one.name: place for one, place in zip(milestones, places, strict=True) if place is not None}
        right = all(
            tools[at[one.name]] == one.tool and all(other in at and at[other] < at[one.name] for other in one.after)
            for one in milestones
            if one.name in at
        )
        found = max(found, len(at)) if right else found
    return found


@given(graphs(), st.lists(st.sampled_from(("x", "y", "z")), max_size=4))
def test_no_assignment_reaches_more(milestones: tuple[Milestone, ...], tools: list[str]) -> None:
    found = reached(milestones, path(*map(step, tools)))
    assert len(found) == most(milestones, tools)
    assert all(found[other] < found[one.name] for one in milestones if one.name in found for other in one.after)


def test_a_call_counts_by_what_it_gives_and_returns() -> None:
    paid = Milestone("paid", "pay", {"amount": 12}, {"order": {"state": "paid"}})
    right = step("pay", {"amount": "12.0", "note": "x"}, order={"state": "Paid", "id": 3})
    for wrong in (
        replace(right, observation=Observation({"order": {"state": "paid"}}, failed=True)),
        step("pay", {"amount": 13}, order={"state": "paid"}),
        step("pay", {}, order={"state": "paid"}),
        step("pay", {"amount": 12}, order={"state": "open"}),
        step("pay", {"amount": 12}, order="paid"),
        step("refund", {"amount": 12}, order={"state": "paid"}),
        replace(right, call=None),
        replace(right, observation=None),
    ):
        assert not reached([paid], path(wrong)), wrong
    assert reached([paid], path(step("look"), right, right)) == {"paid": 1}


def test_the_last_state_is_looked_at_where_one_is_named() -> None:
    full = Milestone("full", state=lambda state: state == 3, after=("begun",))
    begun = Milestone("begun", "x")
    assert reached([full, begun], path(step("x"), end=3)) == {"begun": 0, "full": 1}
    assert reached([full, begun], path(step("x"), end=2)) == {"begun": 0}
    assert reached([full, begun], path(end=3)) == {}, "it comes after another"


def test_what_is_forbidden_is_counted_and_success_is_as_it_was() -> None:
    reference = Reference(
        {}, (), milestones=(Milestone("a", "x"), Milestone("b", "y")), forbidden=(Milestone("no", "drop"),)
    )
    trajectory = path(step("x"), step("drop"), step("drop", failed=True), step("drop"), step(FINISH))
    assert measured(reference, trajectory) == {"milestones": 0.5, "forbidden_calls": 2}
    assert measured(Reference({}, ()), trajectory) == {}
    assert measured(Reference({}, (), forbidden=reference.forbidden), path()) == {"forbidden_calls": 0}


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ([Milestone("a", "x"), Milestone("a", "y")], "the same name"),
        ([Milestone("a", "x", after=("b",))], "comes after 'b'"),
        ([Milestone("a", "x", after=("b",)), Milestone("b", "x", after=("a",))], "wait for one another: a, b"),
        ([Milestone("a", "x", after=("a",))], "wait for one another: a"),
        ([Milestone("a")], "needs either a tool or a state"),
        ([Milestone("a", "x", state=bool)], "not both"),
    ],
)
def test_what_cannot_be_reached_is_refused(wrong: list[Milestone], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        ordered(wrong)


LEAVES = st.none() | st.booleans() | st.integers() | st.text()
VALUES = st.recursive(LEAVES, lambda one: st.lists(one) | st.dictionaries(st.text(), one), max_leaves=8)


@given(VALUES)
def test_all_that_is_wanted_is_in_itself(value: Json) -> None:
    assert holds(value, value)


# As lines of a file name them.


def fetch(name: str) -> dict[str, Any]:
    """Fetches somebody's file."""
    return {"file": name, "size": len(name)}


def send(file: str, to: str = "all") -> str:
    """Sends a file."""
    return f"{file} to {to}"


@dataclass(config=STRICT)
class Office(FunctionTasks):
    """Files that are sent."""

    def functions(self) -> Sequence[Function]:
        return fetch, send


def office(folder: Path, **more: Any) -> Office:
    calls = [
        {"tool": "fetch", "arguments": {"name": "Ada"}},
        {"tool": "send", "arguments": {"file": "OUTPUT_FROM_STEP_0.result"}},
    ]
    calls[1]["arguments"] = {"file": "Ada", "to": "Bo"}
    file = folder / "office.jsonl"
    file.write_text(json.dumps({"question": "Send Ada's file to Bo.", "calls": calls, **more}), encoding="utf-8")
    return Office(path=str(file))


def made(data: Office, *calls: ToolCall) -> dict[str, Any]:
    """The scores of a path of calls."""
    (case_id,) = data.case_ids()
    problem = data.problem(case_id)

    async def walked() -> Trajectory:
        state, steps = problem.world.start(), []
        for call in calls:
            state, seen = await problem.world.apply(state, call)
            steps.append(Step(0, Substep("1", "", ""), call, seen, written=call))
        return Trajectory(tuple(steps), tuple(steps), state)

    trajectory = asyncio.run(walked())
    return scored(problem, trajectory, problem.world.resolved(trajectory.end))


def test_a_line_names_them(tmp_path: Path) -> None:
    data = office(
        tmp_path,
        milestones=[
            {"tool": "fetch", "result": {"result": {"file": "Ada"}}, "name": "has it"},
            {"tool": "send", "arguments": {"to": "Bo"}},
        ],
        in_order=True,
        forbidden=[{"tool": "send", "arguments": {"to": "all"}}],
    )
    fetched, sent = ToolCall("fetch", {"name": "Ada"}), ToolCall("send", {"file": "Ada", "to": "Bo"})
    oracle, backwards = made(data, fetched, sent), made(data, sent, fetched)
    assert (oracle["success"], oracle["milestones"], oracle["forbidden_calls"]) == (True, 1.0, 0)
    assert (backwards["success"], backwards["milestones"]) == (True, 0.5), "in its order; success is another matter"
    spread = made(data, fetched, ToolCall("send", {"file": "Ada", "to": "all"}), sent)
    assert (spread["success"], spread["milestones"], spread["forbidden_calls"]) == (True, 1.0, 1)
    assert "milestones" not in made(office(tmp_path), sent)


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"milestones": [{"tool": "fetsh"}]}, "'fetsh', which is not a tool (did you mean fetch?)"),
        ({"milestones": [{"tool": "fetch", "after": ["x"]}]}, "comes after 'x', which is not a milestone"),
        ({"milestones": [{"tool": "fetch", "name": "1"}, {"tool": "send"}]}, "the same name"),
        ({"forbidden": [{"tool": "fetch", "after": ["x"]}]}, "forbidden at any time"),
        ({"milestones": [{"tool": "fetch", "state": 3}]}, "milestones.0.state: there is no key 'state'"),
        ({"milestones": [{"arguments": {}}]}, "milestones.0.tool: Field required"),
        ({"milestones": {"tool": "fetch"}}, "milestones: Input should be a valid list"),
        ({"milestones": [{"tool": "fetch"}] * 101}, "at most 100"),
        ({"in_order": 1}, "in_order: Input should be a valid boolean"),
    ],
)
def test_a_line_that_cannot_be_kept_is_skipped_with_its_reason(tmp_path: Path, more: dict[str, Any], why: str) -> None:
    data = office(tmp_path, **more)
    assert not data.case_ids()
    (skipped,) = data.skipped
    assert why in skipped.reason
