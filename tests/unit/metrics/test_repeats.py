"""Repeated calls in both definitions; the one in a row against the paper's official code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from grid.core.types import Json, Observation, Step, Substep, ToolCall
from grid.metrics import stepwise
from tests.support.planning_horizon_code import official

SCRIPT = "notebooks/posthoc_results.py"
FAILED = Observation({"error": "no"}, failed=True)


def step(tool: str | None, written: dict[str, Json] | None = None, run: dict[str, Json] | None = None) -> Step:
    """A decision; without a tool an answer that could not be read."""
    if tool is None:
        return Step(0, Substep("0", "", ""), None, None, malformed=True)
    raw = ToolCall(tool, written or {})
    return Step(0, Substep("0", "", ""), ToolCall(tool, run if run is not None else dict(raw.arguments)), FAILED, raw)


A, B = step("find", {"name": "a"}), step("find", {"name": "b"})


@pytest.mark.parametrize(
    ("steps", "two", "row"),
    [
        ([], False, False),
        ([A], False, False),
        ([A, A], True, True),
        ([A, B, A], True, False),  # any two: the paper's text; not in a row
        ([A, step(None), A], True, True),  # an answer that could not be read is no call, and stands between none
        ([step("find", {"x": 1, "y": 2}), step("find", {"y": 2, "x": 1})], True, True),  # the order of names is nothing
        ([A, step("relate", {"name": "a"})], False, False),
        ([step("find", {"name": "1"}), step("find", {"name": 1})], False, False),
        # Other references to the same result: alike as they were run, not as they were written.
        ([step("f", {"x": "OUTPUT_FROM_STEP_0.r"}, {"x": "$0"}), step("f", {"x": "OUTPUT_FROM_STEP_1.r"}, {"x": "$0"})],
         True, False),
        # One reference whose result has changed: alike as they were written, not as they were run.
        ([step("f", {"x": "it"}, {"x": "$0"}), step("f", {"x": "it"}, {"x": "$1"})], False, True),
    ],
)  # fmt: skip
def test_both_definitions(steps: Sequence[Step], two: bool, row: bool) -> None:
    assert (stepwise.any_two(steps), stepwise.in_a_row(steps)) == (two, row)


@pytest.fixture(scope="module")
def theirs() -> Callable[[list[dict[str, Any]]], int]:
    return official(SCRIPT).count_repetitive_calls  # type: ignore[no-any-return]


def as_theirs(one: Step) -> dict[str, Any]:
    call = one.written
    return {"data": {"action": {"name": call.tool, "arguments": dict(call.arguments)}} if call else {}}


def test_in_a_row_is_what_the_papers_code_counts(theirs: Callable[[list[dict[str, Any]]], int]) -> None:
    rng = np.random.default_rng(0)
    pool = [A, B, step(None), step("finish", {"answer": "$1"}), step("find", {"name": ["a", {"b": None}]})]
    answers = set()
    for _ in range(300):
        steps = [pool[place] for place in rng.integers(0, len(pool), rng.integers(0, 7))]
        counted = theirs([as_theirs(one) for one in steps]) > 0
        assert stepwise.in_a_row(steps) == counted
        answers.add(counted)
    assert answers == {True, False}
