"""Failure classes: faults planted in right paths of every kind of data set are told as planted, and nothing else is."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from grid.core.problem import Problem
from grid.core.types import REJECT, ToolCall
from grid.text.references import PATTERN, found_in
from tests.support import traject_files
from tests.support.disturbed import problems
from tests.support.failing import UNREAD, Calls, Made, right_calls, told

DATASETS = ("slate", "kqa_synthetic", "gta_generated", "apb_synthetic", "traject_bench", "ultratool")
OTHER = "something else altogether"


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Callable[[str], list[Problem]]:
    """Some cases of a data set, whose reference resolves them."""

    @cache
    def of(dataset: str) -> list[Problem]:
        folder = tmp_path_factory.mktemp(dataset)
        path = None
        if dataset == "traject_bench":
            traject_files.write_files(folder)
            path = str(folder)
        elif dataset == "ultratool":
            path = request.getfixturevalue("released_ultratool")
        found = problems(dataset, path, 12)
        if dataset == "apb_synthetic":  # of the others no call, or the first alone, is right
            whole = ("holistic", "extraneous", "costs")
            found = [one for one in found if one.kind and one.kind.task_family in whole and not one.case.done]
        return found

    return of


Change = Callable[[list[tuple[str, ToolCall | None]], int, Problem, random.Random], Calls | None]
"""(calls, place of one, problem, random) to the changed calls; None where it cannot be changed so."""


def dropped(calls: list[tuple[str, ToolCall | None]], place: int, problem: Problem, rng: random.Random) -> Calls:
    if problem.reference.followed:
        return [*calls[:place], (calls[place][0], None), *calls[place + 1 :]]
    return numbered([call for at, (_, call) in enumerate(calls) if at != place], removed=place)


def numbered(calls: Sequence[ToolCall | None], removed: int) -> Calls:
    """Calls without an outline, with references behind a place that is gone moved; those to it lead nowhere."""

    def moved(match: Any) -> str:
        step = int(match[1])
        step = 99 if step == removed else step - (step > removed)
        return f"OUTPUT_FROM_STEP_{step}.{match[2]}"

    found = []
    for place, call in enumerate(calls):
        text = json.dumps(dict(call.arguments)) if call else "{}"
        found.append((str(place), ToolCall(call.tool, json.loads(PATTERN.sub(moved, text))) if call else None))
    return found


def with_call(calls: Calls, place: int, call: ToolCall | None) -> Calls:
    return [*calls[:place], (calls[place][0], call), *calls[place + 1 :]]


def another_tool(
    calls: list[tuple[str, ToolCall | None]], place: int, problem: Problem, rng: random.Random
) -> Calls | None:
    own = {call.tool for _, call in calls if call} | set(problem.same_function) | {REJECT}
    others = sorted(set(problem.library) - own)
    if not others:
        return None
    tool = problem.library[rng.choice(others)]
    return with_call(calls, place, ToolCall(tool.name, {one.name: OTHER for one in tool.parameters}))


def changed(
    calls: Calls, place: int, rng: random.Random, choose: Callable[[Any], bool], value: Callable[[Any], Any]
) -> Calls | None:
    call = calls[place][1]
    assert call is not None
    names = [name for name, own in call.arguments.items() if choose(own)]
    if not names:
        return None
    name = rng.choice(names)
    return with_call(calls, place, ToolCall(call.tool, dict(call.arguments) | {name: value(call.arguments[name])}))


def refers(value: Any) -> bool:
    return isinstance(value, str) and PATTERN.fullmatch(value) is not None


def plain(value: Any) -> bool:
    return isinstance(value, str) and not PATTERN.search(value) and "<" not in value


def another_value(calls: Calls, place: int, problem: Problem, rng: random.Random) -> Calls | None:
    return changed(calls, place, rng, plain, lambda value: OTHER)


def a_constant(calls: Calls, place: int, problem: Problem, rng: random.Random) -> Calls | None:
    return changed(calls, place, rng, refers, lambda value: OTHER)


def another_source(calls: Calls, place: int, problem: Problem, rng: random.Random) -> Calls | None:
    before = [name for name, call in calls[:place] if call]
    own = calls[place][1]
    used = {step for step, _ in found_in(own)} if own else set()
    others = [name for name in before if name not in used]
    if not others:
        return None
    return changed(calls, place, rng, refers, lambda value: f"OUTPUT_FROM_STEP_{rng.choice(others)}.nothing")


def without_an_argument(calls: Calls, place: int, problem: Problem, rng: random.Random) -> Calls | None:
    call = calls[place][1]
    assert call is not None
    names = [name for name, value in call.arguments.items() if plain(value)]
    if not names:
        return None
    gone = rng.choice(names)
    return with_call(
        calls, place, ToolCall(call.tool, {name: value for name, value in call.arguments.items() if name != gone})
    )


def another_form(calls: Calls, place: int, problem: Problem, rng: random.Random) -> Calls | None:
    """The same words the other way round."""
    return changed(calls, place, rng, two_words, lambda value: " ".join(reversed(value.split())))


def two_words(value: Any) -> bool:
    return plain(value) and value.replace(" ", "").isalpha() and len(set(value.split())) == 2


def unread(calls: Calls, place: int, problem: Problem, rng: random.Random) -> Calls:
    return with_call(calls, place, UNREAD)


PLANTED: dict[str, tuple[Change, str, str | None]] = {
    "dropped": (dropped, "missing_call", None),
    "another tool": (another_tool, "wrong_tool", None),
    "another value": (another_value, "wrong_argument", "value"),
    "a constant": (a_constant, "wrong_argument", "source"),
    "another source": (another_source, "wrong_argument", "source"),
    "without an argument": (without_an_argument, "wrong_argument", "format"),
    "another form": (another_form, "wrong_argument", "format"),
    "unread": (unread, "unreadable", None),
}
NOT_OF = {
    ("traject_bench", "a constant"), ("traject_bench", "another source"),  # no call takes a result of another
    ("kqa_synthetic", "another form"), ("gta_generated", "another form"), ("apb_synthetic", "another form"),
}  # fmt: skip


def planted(found: Sequence[Problem], change: Change, dataset: str) -> Iterator[tuple[str, int, Made]]:
    """(name, place, path) of every call of every case that can be changed so."""
    rng = random.Random(7)
    for number, problem in enumerate(found):
        right = right_calls(problem)
        for place, (_, call) in enumerate(right):
            if call is not None and (calls := change(right, place, problem, rng)) is not None:
                yield f"{number:03}-{place:03}", place, Made(problem, calls, dataset)


@pytest.mark.parametrize("dataset", DATASETS)
@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_told_as_planted(
    cases: Callable[[str], list[Problem]], tmp_path: Path, dataset: str, name: str
) -> None:
    if (dataset, name) in NOT_OF:
        pytest.skip("nothing of that kind in these cases")
    change, kind, detail = PLANTED[name]
    made = {cell: (place, one) for cell, place, one in planted(cases(dataset), change, dataset)}
    found = told(tmp_path, {cell: one for cell, (_, one) in made.items()})
    assert found, "no such fault costs a case"
    for cell, row in found.items():
        where = (dataset, cell, row)
        assert row["failure"] == kind, where
        assert detail is None or (row["failure_detail"] or "").startswith(detail), where
        if name != "dropped":  # behind it others have moved up
            assert row["failure_step"] == made[cell][0], where


@pytest.mark.parametrize("dataset", DATASETS)
def test_a_right_path_has_no_fault(cases: Callable[[str], list[Problem]], tmp_path: Path, dataset: str) -> None:
    made = {
        f"{number:03}": Made(problem, right_calls(problem), dataset, forced=True)
        for number, problem in enumerate(cases(dataset))
    }
    found = told(tmp_path, made)
    assert len(found) == len(made)
    assert {row["failure"] for row in found.values()} == {"unknown"}, found
    assert {tuple(row["failures"]) for row in found.values()} == {("unknown",)}


def test_calls_made_before_a_case_began_are_no_faults(tmp_path: Path) -> None:
    """Step-wise cases: of the reference only the calls that were asked for count."""
    found = [one for one in problems("apb_synthetic", None, 40) if one.case.done]
    made, places = {}, {}
    for number, problem in enumerate(found):
        right = right_calls(problem)
        assert len(right) == problem.case.decisions
        made[f"{number:03}"] = Made(problem, right, "apb_synthetic", forced=True)
        for place in range(len(right)):
            calls = another_tool(right, place, problem, random.Random(number))
            if calls is not None:
                cell = f"{number:03}-{place}"
                made[cell], places[cell] = Made(problem, calls, "apb_synthetic", forced=True), place
    rows = told(tmp_path, made)
    assert {row["failure"] for cell, row in rows.items() if cell not in places} == {"unknown"}
    wrong = {cell: (rows[cell]["failure"], rows[cell]["failure_step"]) for cell in places}
    assert wrong == {cell: ("wrong_tool", place) for cell, place in places.items()}


def test_a_call_too_many_is_the_class_only_where_nothing_else_is_wrong(
    cases: Callable[[str], list[Problem]], tmp_path: Path
) -> None:
    made = {}
    for number, problem in enumerate(cases("kqa_synthetic")):
        right = [call for _, call in right_calls(problem)]
        doubled = [(str(place), call) for place, call in enumerate([*right, right[0]])]
        made[f"{number:03}"] = Made(problem, doubled, "kqa_synthetic", forced=True)
    found = told(tmp_path, made)
    assert {row["failure"] for row in found.values()} == {"redundant_call"}
    assert all(row["failure_detail"].startswith("repeat: ") for row in found.values())


def test_a_tool_that_was_not_offered_is_no_retrieval(cases: Callable[[str], list[Problem]], tmp_path: Path) -> None:
    made = {}
    for number, problem in enumerate(cases("slate")):
        right = right_calls(problem)
        place = max(at for at, (_, call) in enumerate(right) if call)
        calls = another_tool(right, place, problem, random.Random(number))
        assert calls is not None
        wanted, other = right[place][1], calls[place][1]
        assert wanted is not None
        assert other is not None
        names = {call.tool for _, call in calls if call} - {wanted.tool}
        made[f"{number:03}"] = Made(problem, calls, "slate", offered=tuple(names))
        made[f"{number:03}+"] = Made(problem, calls, "slate", offered=(*names, wanted.tool))
    found = told(tmp_path, made)
    assert {row["failure"] for cell, row in found.items() if not cell.endswith("+")} == {"no_retrieval"}
    assert {row["failure"] for cell, row in found.items() if cell.endswith("+")} == {"wrong_tool"}


def test_the_order_of_calls_that_have_none_changes_nothing(
    cases: Callable[[str], list[Problem]], tmp_path: Path
) -> None:
    made = {}
    rng = random.Random(3)
    parallel = [problem for problem in cases("traject_bench") if not problem.reference.ordered]
    for number, problem in enumerate(parallel):
        right = right_calls(problem)
        calls = next(filter(None, (another_value(right, at, problem, rng) for at in range(len(right)))), None)
        for shuffle in range(4 if calls else 0):
            mixed = [call for _, call in calls or ()]
            random.Random(shuffle).shuffle(mixed)
            path = [(str(place), call) for place, call in enumerate(mixed)]
            made[f"{number:03}/{shuffle}"] = Made(problem, path, "traject_bench", forced=True)
    found = told(tmp_path, made)
    by_case: dict[str, set[tuple[str, str]]] = {}
    for cell, row in found.items():
        by_case.setdefault(cell[:3], set()).add((row["failure"], row["failure_detail"]))
    assert len(by_case) > 1
    assert all(len(told) == 1 for told in by_case.values()), by_case
    assert {kind for told in by_case.values() for kind, _ in told} == {"wrong_argument"}
