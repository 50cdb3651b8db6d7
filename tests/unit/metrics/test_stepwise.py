"""Tool match and action accuracy (egb_slate §6.1), against every way to act at two substeps."""

from __future__ import annotations

from itertools import product

import pytest

from grid.core.problem import Reference
from grid.core.types import NO_TOOL, Step, Substep, ToolCall, Trajectory
from grid.metrics import scores
from grid.metrics.stepwise import score

NEEDED = {"1": ToolCall("find", {}), "2": None}
ACTS = ("find", "other", NO_TOOL, "unreadable", "never came to it")


def step(place: str, act: str) -> Step:
    call = ToolCall(act, {}) if act in ("find", "other") else None
    return Step(0, Substep(place, "", ""), call, None, malformed=act == "unreadable")


@pytest.mark.parametrize("acts", [*product(ACTS, ACTS)], ids="-".join)
def test_an_action_is_right_where_it_calls_or_rightly_does_not(acts: tuple[str, str]) -> None:
    """What was not reached, or could not be read, is wrong where a call was needed and where none was."""
    steps = tuple(step(place, act) for place, act in zip(NEEDED, acts, strict=True) if act != ACTS[-1])
    found = score(Trajectory(steps, steps), Reference(NEEDED, ("1",)), False, {})
    assert found["tool_match_rate"] == float(acts[0] == "find"), "of the one substep that needs a tool"
    called, declined = acts[0] in ("find", "other"), acts[1] == NO_TOOL
    assert found["action_accuracy"] == (called + declined) / 2


def test_long_values_are_not_sought_in_what_was_seen() -> None:
    """Each stretch of words is compared as a value, which is left out for one of more than 80 characters."""
    for length, told in ((80, True), (81, False)):
        assert scores._stands_in("2026-01-05".rjust(length), "on 5 January 2026", "day") is told
