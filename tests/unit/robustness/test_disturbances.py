"""What planners and the simulated policy do with broken tools, unsolvable cases and costs, and how it is told."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pandas as pd
import pytest

from analysis.tables.disturbances import disturbances
from grid.cells.run import Stamp, run_chunk
from grid.core.problem import BRANCHING, OUTLINE
from grid.core.types import (
    ALTER,
    FINISH,
    OTHER,
    REFUSE,
    REJECT,
    REPLACE,
    RETRY,
    Observation,
    Parameter,
    Step,
    Substep,
    ToolCall,
    ToolSpec,
    Trajectory,
)
from grid.datasets.slate.dataset import Slate
from grid.robustness.broken_tool import behaviour_of
from grid.robustness.costs import Composite, least_cost
from grid.robustness.offering import double, words
from grid.settings.build import build
from grid.settings.check import invalid_reason
from grid.settings.config import BudgetConfig
from grid.settings.setting import cells
from tests.support.configs import setting_of, yaml

SURE = {"tool_skill": 1.0, "argument_skill": 1.0, "malformed": 0.0}
"""A policy that never errs by itself."""


def rows(
    robustness: str,
    planner: str = "react",
    dataset: str = "slate",
    limit: int = 6,
    outline: str = "hidden",
    retriever: Mapping[str, Any] = MappingProxyType({}),
    **more: Any,
) -> list[dict[str, Any]]:
    """The episodes of a setting with the simulated policy."""
    model = {name: value for name, value in more.items() if name in yaml("model", "simulated")}
    setting = setting_of(
        model="simulated",
        planner=planner,
        dataset=dataset,
        robustness=robustness,
        dataset_values={"limit": limit, "outline": outline},
        model_values=SURE | model,
    )
    setting.config["retriever"].update(retriever)
    own = setting.config["robustness"].get(robustness, {})
    own |= {name: value for name, value in more.items() if name not in model}
    assert invalid_reason(setting) is None
    built = build(setting, BudgetConfig())
    chunk = list(cells(setting, built.dataset.version, built.dataset.case_ids(), 1))
    found: list[dict[str, Any]] = asyncio.run(run_chunk(built, setting, chunk, Stamp("test", None))).take()["episodes"]
    assert {row["error_message"] for row in found} == {None}
    return found


def solved(found: list[dict[str, Any]]) -> set[str]:
    return {row["case_id"] for row in found if row["success"]}


@pytest.mark.long
@pytest.mark.parametrize("planner", ["react", "fh", "retry"])
@pytest.mark.parametrize("dataset", ["slate", "kqa_synthetic"])
def test_a_policy_that_minds_failures_replaces_the_tool_and_resolves_the_case(dataset: str, planner: str) -> None:
    """Where the tools that it needs are among its candidates."""
    found, undisturbed = (rows(name, planner, dataset, recovery=1.0) for name in ("broken_tool", "none"))
    assert solved(found) == solved(undisturbed)
    assert solved(found)
    assert {row["behaviour"] for row in found if row["success"]} == {REPLACE}
    assert not solved(rows("broken_tool", planner, dataset, recovery=0.0))


@pytest.mark.long
@pytest.mark.parametrize("planner", ["mcts", "dfsdt"])
def test_searches_can_recover_too(planner: str) -> None:
    before = len(solved(rows("none", planner, "kqa_synthetic")))
    assert len(solved(rows("broken_tool", planner, "kqa_synthetic", recovery=1.0))) > before / 2
    assert not solved(rows("broken_tool", planner, "kqa_synthetic", recovery=0.0))


@pytest.mark.long
def test_recovery_is_the_share_of_cases_and_the_same_for_all_planners() -> None:
    found = {planner: rows("broken_tool", planner, "kqa_synthetic", 80, recovery=0.6) for planner in ("react", "fh")}
    assert solved(found["react"]) == solved(found["fh"])
    assert 0.45 < len(solved(found["react"])) / 80 < 0.75


def test_under_an_outline_the_failing_call_takes_its_substep() -> None:
    assert not any(row["success"] for row in rows("broken_tool", outline="given", recovery=1.0))
    again: dict[str, Any] = {"planner": "reflexion", "outline": "given", "recovery": 1.0, "insight": 1.0}
    assert solved(rows("broken_tool", **again)) == solved(rows("none", **again)) != set()


def test_a_plan_that_is_run_without_looking_cannot_recover() -> None:
    found = rows("broken_tool", "zero_shot", recovery=1.0)
    assert not any(row["success"] for row in found)
    assert {row["behaviour"] for row in found} <= {OTHER, REFUSE, None}
    assert any(row["behaviour"] == OTHER for row in found)


def test_costs_leave_a_sure_policy_right_and_cost_it_more_than_the_least() -> None:
    whole: dict[str, Any] = {"retriever": {"query_top_k": 200}}  # composites take places among the 50
    found = rows("costs", **whole)
    assert solved(found) == solved(rows("none", **whole)) != set()
    assert all(row["plan_cost"] >= row["least_cost"] > 0 for row in found if row["success"])
    assert sum(row["plan_cost"] for row in found) > sum(row["least_cost"] for row in found)


@pytest.mark.long
@pytest.mark.parametrize("dataset", ["slate", "kqa_synthetic"])
@pytest.mark.parametrize("outline", ["given", "hidden"])
def test_who_refuses_everything_is_right_where_a_case_cannot_be_solved_and_nowhere_else(
    dataset: str, outline: str
) -> None:
    outline = outline if dataset == "slate" else "hidden"
    found = rows("unsolvable", "refuser", dataset, 30, outline, share=0.5)
    assert {row["unsolvable_kind"] for row in found} == {None, "tool_removal"}
    assert all(row["success"] == (row["unsolvable_kind"] is not None) and row["refused"] for row in found)
    assert all(row["llm_calls"] == row["tool_calls"] - 1 == 0 for row in found)
    assert not any(row["success"] for row in rows("none", "refuser", dataset, 30, outline))


def test_the_others_stay_as_solvable_as_they_were() -> None:
    found = rows("unsolvable", share=0.5, limit=30, overrefusal=0.0, refusal=1.0)
    solvable = [row for row in found if row["unsolvable_kind"] is None]
    assert 5 < len(solvable) < 25
    assert solved(solvable) == solved(rows("none", limit=30)) & {row["case_id"] for row in solvable} != set()
    assert not any(row["refused"] for row in solvable)
    gone = [row for row in found if row["unsolvable_kind"]]
    assert all(row["success"] and row["refused"] for row in gone)
    assert all(row["exact_match"] is row["tool_recall"] is None and row["solvable"] is False for row in gone)


def test_a_dataset_without_references_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Slate, "provides", frozenset({BRANCHING, OUTLINE}))
    for name in ("broken_tool", "unsolvable", "costs"):
        why = invalid_reason(setting_of(model="lexical", dataset="slate", robustness=name))
        assert why == f"conf/robustness/{name}.yaml needs references, which conf/dataset/slate.yaml does not have"
    assert invalid_reason(setting_of(model="lexical", dataset="slate", robustness="extraneous")) is None


def step(tool: str | None, failed: bool = False, **values: Any) -> Step:
    call = None if tool is None else ToolCall(tool, {})
    return Step(0, Substep("0", values.pop("text", ""), ""), call, Observation({}, failed) if call else None, **values)


@pytest.mark.parametrize(
    ("behind", "resolved", "expected"),
    [
        ([step("new"), step("old")], True, REPLACE),
        ([step("old", True), step("new")], True, RETRY),
        ([step(REJECT)], False, REFUSE),
        ([step(None, finished=True)], False, REFUSE),
        ([step(FINISH)], False, REFUSE),
        ([step(None, finished=True)], True, OTHER),
        ([step(None, text="the next substep")], False, OTHER),
        ([step(None, malformed=True)], False, OTHER),
        ([step("twin")], False, ALTER),
        ([step("x")], False, OTHER),
        ([step("x")], True, ALTER),
        ([step("x"), step("new")], True, OTHER),
        ([], False, OTHER),
    ],
)
def test_what_is_done_behind_a_failure_is_told_by_rule(behind: list[Step], resolved: bool, expected: str) -> None:
    path = (step("other"), step("old", True), *behind)
    found = behaviour_of(Trajectory(path, path), "old", "new", {"old", "twin"}, resolved)
    assert found == expected
    assert behaviour_of(Trajectory(path[:1], path[:1]), "old", "new", {"old"}, resolved) is None


@pytest.mark.long
def test_a_double_shares_no_word_with_its_tool_and_takes_its_calls() -> None:
    tools = Slate().tools
    for seed, tool in itertools.product(range(2), tools.values()):
        one = double(tool, tools, seed)
        assert one.spec.name not in tools
        assert not set(words(one.spec.name)) & set(words(tool.name))
        assert tool.name not in one.spec.description
        assert len({parameter.name for parameter in one.spec.parameters}) == len(tool.parameters)
        call = ToolCall(tool.name, {parameter.name: parameter.name for parameter in tool.parameters})
        assert one.original(one.substitute.call(call)) == call
        assert one.spec == double(tool, tools, seed).spec


def test_a_double_does_not_take_the_other_tools_argument_names() -> None:
    tool = ToolSpec("get_movie", "Gets a movie.", (Parameter("movie_id", "string", ""),))
    one = double(tool, (), 0)
    assert one.strange(ToolCall(one.spec.name, {"movie_id": "7"})) == "movie_id"
    assert one.strange(one.substitute.call(ToolCall("get_movie", {"movie_id": "7"}))) is None
    told = one.told(Observation({"error": "get_movie: movie_id is no number"}, failed=True))
    assert "movie_id" not in told.text()
    assert "get_movie" not in told.text()


def test_least_cost_is_that_of_the_best_partition() -> None:
    """Against all sets of composites that do no step twice."""
    import random

    rng = random.Random(0)
    for _ in range(300):
        steps = [str(place) for place in range(rng.randint(1, 7))]
        each = {step: rng.randint(1, 5) for step in steps}
        groups = [tuple(steps[a : a + n]) for n in (2, 3) for a in range(len(steps) - n + 1)]
        made = [
            Composite(ToolSpec(f"c{n}", "", ()), (), (group,), rng.randint(1, 9), True)
            for n, group in enumerate(rng.sample(groups, min(len(groups), 6)))
        ]
        best = sum(each.values())
        for size in range(1, len(made) + 1):
            for chosen in itertools.combinations(made, size):
                done = [step for one in chosen for step in one.groups[0]]
                if len(done) == len(set(done)):
                    cost = sum(one.cost for one in chosen) + sum(each[s] for s in steps if s not in done)
                    best = min(best, cost)
        assert least_cost(each, made) == best


def test_the_table_finds_what_is_planted() -> None:
    frame = pd.DataFrame(
        [
            {"robustness": robustness, "planner": "react", "cluster": str(case), "case_id": str(case)}
            | {"success": float(case % 10 < (8 if robustness == "none" else 3)), "disturbed": robustness != "none"}
            | {"behaviour": (REPLACE if case % 2 else OTHER) if robustness == "broken_tool" else None, "refused": None}
            | {"plan_cost": 6.0 + case % 3, "least_cost": 5.0 if robustness == "costs" else None}
            for robustness in ("none", "broken_tool", "costs")
            for case in range(100)
        ]
    ).set_index("cluster", drop=False, append=True)
    found = disturbances(frame.reset_index(drop=True).assign(model="m", dataset="d")).rows.set_index("robustness")
    broken, costs = found.loc["broken_tool"], found.loc["costs"]
    assert (broken["success"], broken["undisturbed"], broken["difference"]) == pytest.approx((0.3, 0.8, -0.5))
    assert broken["low"] < -0.5 < broken["high"] < 0
    assert (broken[REPLACE], broken[OTHER], broken["called"]) == (0.5, 0.5, 100)
    assert costs["cost"] == pytest.approx(7 / 5, abs=0.05)
    assert costs["cost_low"] > 1
    assert "none" not in found.index
