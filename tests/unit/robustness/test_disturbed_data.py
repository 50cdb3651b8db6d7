"""Broken tools, unsolvable cases and costs on every data set of conf/dataset; new files are picked up by themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from grid.core.problem import Problem
from grid.core.types import REJECT, Substep, ToolCall
from grid.metrics.stepwise import scored
from grid.robustness.offering import function_of, has_own_kind, needed_calls
from grid.worlds.layers import Layer
from tests.support.configs import FOLDERS, names, yaml
from tests.support.disturbed import SETTINGS, covers, disturb, play, problems, with_composites, with_substitutes

DATASETS = [name for name in names("dataset") if yaml("dataset", name).get("path") != "???" or name in FOLDERS]


@pytest.fixture(params=DATASETS, scope="module")
def cases(request: pytest.FixtureRequest) -> list[Problem]:
    """A few cases of a data set that the settings change."""
    name = request.param
    path = request.getfixturevalue(FOLDERS[name]) if name in FOLDERS else None
    return [problem for problem in problems(name, path) if not has_own_kind(problem)]


def points(problem: Problem) -> tuple[Substep, ...]:
    """What candidates are asked for: the plan's substeps, or the whole query."""
    return problem.case.plan.substeps or (Substep("0", problem.case.query, ""),)


def offered(problem: Problem) -> list[tuple[str, ...]]:
    return [tuple(tool.name for tool in problem.candidates(problem.case, point)) for point in points(problem)]


@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_is_pure_and_seeded(cases: list[Problem], name: str) -> None:
    drawn = set()
    for problem in cases:
        before = offered(problem), dict(problem.library), problem.case, problem.reference
        once, again = disturb(problem, name), disturb(problem, name)
        assert offered(once) == offered(again)
        assert (dict(once.library), once.case, once.reference) == (dict(again.library), again.case, again.reference)
        assert (offered(problem), dict(problem.library), problem.case, problem.reference) == before
        for seed in range(8):
            library = disturb(problem, name, seed=seed).library
            drawn.add((problem.case.id, tuple((tool.name, tool.description) for tool in library.values())))
    assert not cases or len(drawn) > len(cases) or not any(map(needed_calls, cases)) or name == "unsolvable"


def test_the_replacement_does_what_the_broken_tool_did(cases: list[Problem]) -> None:
    for problem in cases:
        broken = disturb(problem, "broken_tool")
        if not needed_calls(problem):
            assert broken is problem
            continue
        (tool, instead), *more = broken.reference.substitutes.items()
        assert not more
        assert play(broken, with_substitutes(broken)).resolved == play(problem).resolved
        assert not play(broken).resolved or not play(problem).resolved or problem.world.resolved(problem.world.start())
        assert function_of(instead.tool, broken) == function_of(tool, problem)
        for now, before in zip(offered(broken), offered(problem), strict=True):
            assert [one for one in now if one != instead.tool] == list(before)
            assert (instead.tool in now) == (tool in before)


def test_the_replacement_counts_as_the_broken_tool(cases: list[Problem]) -> None:
    for problem in cases:
        broken = disturb(problem, "broken_tool")
        plain, replaced = play(problem), play(broken, with_substitutes(broken))
        one = scored(problem, plain.trajectory, plain.resolved)
        other = scored(broken, replaced.trajectory, replaced.resolved)
        assert known(other) == known(one)


def test_without_the_tools_of_a_function_only_a_refusal_is_right(cases: list[Problem]) -> None:
    reject = ToolCall(REJECT, {"reason": "no tool"})
    for problem in cases:
        gone, kept = disturb(problem, "unsolvable", share=1.0), disturb(problem, "unsolvable", share=0.0)
        assert isinstance(gone.world, Layer)
        assert (gone.case, dict.fromkeys(kept.library)) == (kept.case, dict.fromkeys([*problem.library, REJECT]))
        assert problem.case.query in gone.case.query
        assert all(REJECT in names for names in (*offered(gone), *offered(kept)))
        refusing = {"0": reject}
        if not needed_calls(problem):
            assert gone.library.keys() == kept.library.keys()
            continue
        assert play(gone, refusing).resolved
        assert gone.kind is not None
        assert (gone.kind.task_family, gone.kind.unsolvable_kind) == ("unsolvable", "tool_removal")
        assert gone.reference.unsolvable
        removed = kept.library.keys() - gone.library.keys()
        assert {function_of(name, problem) for name in removed} == {function_of(next(iter(removed)), problem)}
        assert removed & {call.tool for call in needed_calls(problem).values()}
        assert not removed & {name for names in offered(gone) for name in names}
        assert not play(gone).resolved
        assert not play(gone, {"0": next(iter(needed_calls(problem).values())), "1": reject}).resolved
        assert kept.kind is None
        assert not play(kept, refusing).resolved
        assert play(kept).resolved == play(problem).resolved


def told_cost(problem: Problem, tool: str) -> int:
    """What a tool's description says that it costs."""
    return int(problem.library[tool].description.rpartition("Cost: ")[2].rstrip("."))


def test_composites_reach_the_least_cost_which_is_that_of_brute_force(cases: list[Problem]) -> None:
    """Overlapping covers are tried too: they never pay."""
    for problem in cases:
        priced, needed = disturb(problem, "costs"), needed_calls(problem)
        if len(needed) > 12:
            continue
        functions = {name: function_of(name, problem) for name in problem.library}
        each = {
            step: min(told_cost(priced, name) for name, one in functions.items() if one == functions[call.tool])
            for step, call in needed.items()
        }
        found = []
        for chosen in covers(priced, list(needed)):
            done = {step for _, group in chosen for step in group}
            cost = sum(one.cost for one, _ in chosen) + sum(each[step] for step in needed if step not in done)
            found.append((cost, len(chosen), chosen))
            assert all(len(group) < len(needed) for _, group in chosen)
        cost, _, best = min(found, key=lambda item: item[:2])
        assert priced.measure(play(priced, {}).trajectory)["least_cost"] == cost
        steps = [step for _, group in best for step in group]
        assert len(steps) == len(set(steps))
        if any(told_cost(priced, call.tool) > each[step] for step, call in needed.items()):
            continue  # another tool of the function costs less
        calls = {step: call for step, call in problem.reference.calls.items() if step in needed or call is None}
        cheapest = play(priced, with_composites(calls, best))
        assert priced.measure(cheapest.trajectory)["plan_cost"] == cost
        assert cheapest.resolved == play(problem, calls).resolved


@pytest.mark.long
def test_everything_composes_and_has_its_cost(cases: list[Problem]) -> None:
    for problem in cases:
        found = disturb(problem, "extraneous", "broken_tool", "unsolvable", "costs")
        for point in points(found):
            for tool in found.candidates(found.case, point):
                assert ("Cost: " in tool.description) == (tool.name != REJECT)
        plain = disturb(problem, "broken_tool", "costs")
        assert play(plain, with_substitutes(plain)).resolved == play(problem).resolved


def known(scores: Mapping[str, Any]) -> dict[str, Any]:
    """What there is of a case's scores: a data set may say None of what does not apply."""
    return {name: value for name, value in scores.items() if value is not None}
