"""The planner two_minds: what a third opinion costs, and when it is asked for."""

from __future__ import annotations

from grid.contracts.trying import row

PACKAGE = "mylab"


def test_two_that_agree_are_enough() -> None:
    """Without temperature all samples are equal, so that each decision takes two completions."""
    found = row(PACKAGE, planner="two_minds", dataset="library", model="lexical")
    assert found["llm_calls"] == 2 * found["n_steps"], found["error_message"]


def test_others_are_asked_where_they_differ() -> None:
    """The simulated policy is wrong now and then, so that some decisions take five."""
    found = [row(PACKAGE, case, planner="two_minds", dataset="slate", model="simulated") for case in range(10)]
    steps, calls = (sum(one[count] for one in found) for count in ("n_steps", "llm_calls"))
    assert 2 * steps < calls < 5 * steps
