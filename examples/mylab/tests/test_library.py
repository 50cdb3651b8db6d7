"""The dataset library: its own calls resolve every question, and nothing else does."""

from __future__ import annotations

from grid.contracts.trying import problems, reference_resolves

PACKAGE = "mylab"


def test_every_question_is_resolved_by_its_own_calls() -> None:
    """And by none of the calls before the last."""
    found = problems(PACKAGE, dataset="library")
    assert len(found) == 18
    for problem in found:
        assert reference_resolves(problem), problem.case.id
        assert not problem.world.resolved(problem.world.start()), problem.case.id
