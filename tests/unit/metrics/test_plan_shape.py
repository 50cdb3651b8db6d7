"""Depth and breadth, in calls and in edges, against every path of random plans and against the paper's code."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from grid.core.problem import Reference
from grid.core.types import ToolCall
from grid.datasets.kqa.dataset import KqaSynthetic
from grid.metrics.scores import plan_shape
from grid.text import references
from tests.support.planning_horizon_code import official

METRICS = "src/planning/task_characterization/metrics_utils.py"


def plan(parents: Sequence[Sequence[int]]) -> Reference:
    """A plan whose step i uses the results of the steps `parents[i]`."""
    calls: dict[str, ToolCall | None] = {
        str(step): ToolCall("tool", {str(place): references.reference(str(p), "x") for place, p in enumerate(needs)})
        for step, needs in enumerate(parents)
    }
    return Reference(calls, (str(len(parents) - 1),))


def drawn(rng: np.random.Generator, steps: int) -> list[list[int]]:
    return [[p for p in range(step) if rng.random() < 0.35] for step in range(steps)]


def longest(parents: Sequence[Sequence[int]]) -> int:
    """Dependencies in the longest path, of all sequences of steps there are."""
    return max(
        len(path) - 1
        for size in range(1, len(parents) + 1)
        for path in itertools.combinations(range(len(parents)), size)
        if all(one in parents[other] for one, other in itertools.pairwise(path))
    )


def test_random_plans_have_the_longest_of_all_paths() -> None:
    rng = np.random.default_rng(0)
    for _ in range(60):
        parents = drawn(rng, int(rng.integers(1, 8)))
        found, edges, nodes = plan_shape(plan(parents)), longest(parents), len(parents)
        assert (found["depth"], found["depth_edges"], found["plan_nodes"]) == (edges + 1, edges, nodes)
        assert found["breadth"] == nodes / (edges + 1)
        assert found["breadth_edges"] == (nodes / edges if edges else None)


def test_steps_without_a_call_and_plans_without_steps_have_no_part_in_it() -> None:
    calls = {**plan([[], [0]]).calls, "thought": None}
    assert plan_shape(Reference(calls, ("1",))) == plan_shape(plan([[], [0]]))
    empty = plan_shape(Reference({}, ()))
    assert (empty["depth"], empty["depth_edges"]) == (0, None)
    assert (empty["breadth"], empty["breadth_edges"], empty["last_step"]) == (None, None, None)


@pytest.fixture(scope="module")
def theirs() -> Callable[[list[dict[str, Any]]], dict[str, Any]]:
    return official(METRICS).compute_dag_complexity  # type: ignore[no-any-return]


def nodes(reference: Reference) -> list[dict[str, Any]]:
    """A plan as the paper's code takes it."""
    calls = {step: call for step, call in reference.calls.items() if call}
    places = {step: place for place, step in enumerate(calls)}
    return [{"parents": [places[step] for step, _ in references.found_in(call)]} for call in calls.values()]


def test_the_papers_code_agrees_but_for_paths_that_it_cuts_short(
    theirs: Callable[[list[dict[str, Any]]], dict[str, Any]],
) -> None:
    """It never goes on from a step twice: what lies behind one that a longer path reaches later keeps its depth."""
    cut = [[], [], [1], [2], [0, 3], [4]]
    assert (theirs(nodes(plan(cut)))["max_depth"], longest(cut)) == (3, 4)
    data, others = KqaSynthetic(), 0
    for reference in (data.problem(case).reference for case in data.case_ids()):
        ours, other = plan_shape(reference), theirs(nodes(reference))
        assert ours["plan_nodes"] == other["num_nodes"]
        if ours["depth_edges"] != other["max_depth"]:
            assert other["max_depth"] < ours["depth_edges"] == longest([one["parents"] for one in nodes(reference)])
            others += 1
    assert 0 < others < 0.2 * len(data.case_ids()), "42 of 500, and 38 of the harder questions of November 2026"
