"""Extraneous tools around substeps that are not the reference's."""

from __future__ import annotations

from dataclasses import replace

import pytest

from grid.core.problem import Problem, Reference
from grid.core.types import Case, Plan, Substep, ToolCall, ToolSpec
from grid.retrievers.scored import BM25
from grid.robustness.extraneous import Extraneous
from grid.worlds.lookup import LookupSimulator

TOOLS = {
    name: ToolSpec(name, text, ())
    for name, text in {
        "book_train": "Books a seat on a train.",
        "pay_parking": "Pays for a parking space in town.",
        **{f"train_{n}": f"Changes a booked seat on a train, form {n}." for n in range(4)},
        **{f"parking_{n}": f"Finds a parking space in town, form {n}." for n in range(4)},
    }.items()
}
STEP = Substep("1.1", "go there", "travel")


def added(substep: Substep, plan: tuple[Substep, ...] = (STEP,)) -> set[str]:
    """The kinds of the tools that are added to a substep whose first candidate is about parking, by what they do."""

    def offered(case: Case, substep: Substep) -> tuple[ToolSpec, ...]:
        return (TOOLS["pay_parking"],)

    case = Case("c", "Get me there.", Plan(plan))
    reference = Reference({STEP.id: ToolCall("book_train", {})}, (STEP.id,))
    problem = Problem(case, reference, LookupSimulator((), frozenset()), offered, TOOLS, {})
    disturbed = Extraneous(k=4).disturb(problem, BM25().index(TOOLS), seed=0)
    names = [tool.name for tool in disturbed.candidates(case, substep)]
    assert len(names) == 5
    return {name.partition("_")[0] for name in names if name != "pay_parking"}


def test_a_substep_of_the_reference_is_surrounded_by_its_tools_neighbours() -> None:
    assert added(STEP) == {"train"}


@pytest.mark.parametrize("substep", [replace(STEP, drafted=True), Substep("7", "go there", "travel")])
def test_no_other_substep_tells_the_references_tool(substep: Substep) -> None:
    """The model's own substep may have the number of one of the reference's."""
    assert added(substep) == {"parking"}


def test_without_a_plan_no_substep_is_the_references() -> None:
    """KQA's reference numbers its steps, and so do planners theirs."""
    assert added(Substep(STEP.id, "Get me there.", ""), plan=()) == {"parking"}
