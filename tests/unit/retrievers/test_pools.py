"""Pools: what each holds of a case, that the right tools are always in it, and what cannot be pooled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from grid.core.errors import ConfigError
from grid.core.problem import Problem, Reference
from grid.core.types import Case, Parameter, Plan, Substep, ToolCall, ToolSpec
from grid.pools.case import CaseTools
from grid.pools.domain import Domain
from grid.pools.grown import OWN, Grown
from grid.pools.whole import Pool, Whole, used
from grid.retrievers.scored import BM25
from grid.settings import parts
from grid.settings.check import invalid_reason
from grid.settings.parts import Pooled
from tests.support.configs import setting_of

DOMAINS = ("Travel", "Food", "Sport")


def spec(domain: str, number: int) -> ToolSpec:
    name = f"{domain.lower()}_{number}"
    return ToolSpec(name, f"Does number {number} of {domain}.", (Parameter("x", "string", ""),), (), domain)


LIBRARY = {tool.name: tool for domain in DOMAINS for tool in (spec(domain, number) for number in range(20))}


class Cases:
    """Case k calls two tools of its domain and one of the next; its record names two tools more."""

    version = "cases-1"
    tools: Mapping[str, ToolSpec] = LIBRARY

    def problem(self, case_id: str) -> Problem:
        number = int(case_id)
        domain, other = DOMAINS[number % 3], DOMAINS[(number + 1) % 3]
        right = [f"{domain.lower()}_{number}", f"{domain.lower()}_{number + 1}", f"{other.lower()}_{number}"]
        calls = {str(place): ToolCall(tool, {}) for place, tool in enumerate(right)}
        plan = Plan(tuple(Substep(place, LIBRARY[call.tool].description, "") for place, call in calls.items()))
        own = (*right, f"{domain.lower()}_19", f"{other.lower()}_18")
        case, reference = Case(case_id, "Do it.", plan), Reference(calls, ("2",))
        world: Any = None
        return Problem(case, reference, world, lambda case, substep: (), LIBRARY, {}, domain=domain, own=own)


def pooled(pool: Pool) -> Pooled:
    data: Any = Cases()
    stock = pool.stock(LIBRARY)
    return Pooled(data, pool, stock, BM25(top_k=7, query_top_k=9).index(stock))


POOLS = (Whole(), CaseTools(), Domain(), Grown(distractors=0), Grown(distractors=10), Grown(distractors=300))


@pytest.mark.parametrize("case_id", ["0", "4", "11"])
@pytest.mark.parametrize("pool", POOLS)
def test_the_right_tools_are_in_every_pool_and_only_its_tools_are_offered(pool: Pool, case_id: str) -> None:
    problem, index = pooled(pool).problem(case_id)
    assert used(problem).keys() <= problem.library.keys()
    for substep in problem.case.plan.substeps:
        offered = [tool.name for tool in problem.candidates(problem.case, substep)]
        assert set(offered) <= problem.library.keys()
        assert len(offered) == (len(problem.library) if len(problem.library) <= pool.in_context else
                                min(7, len(problem.library)))  # fmt: skip
    assert {tool.name for tool in index.nearest("number 3 of Food")} == problem.library.keys()


def test_each_pool_holds_what_it_says() -> None:
    plain: Any = Cases().problem("4")
    found = {type(pool).__name__: set(pooled(pool).problem("4")[0].library) for pool in POOLS[:3]}
    assert found["Whole"] == set(LIBRARY)
    assert found["CaseTools"] == set(plain.own)
    assert found["Domain"] == {name for name in LIBRARY if name.startswith("food_")} | set(plain.own)


def test_a_grown_pools_own_tools_are_the_right_ones_the_records_and_the_nearest() -> None:
    problem = pooled(Grown(distractors=0)).problem("4")[0]
    assert len(problem.library) == OWN
    assert set(problem.own) <= problem.library.keys()


def test_distractors_are_of_no_domain_of_the_case() -> None:
    own = pooled(Grown(distractors=0)).problem("4")[0].library
    grown = pooled(Grown(distractors=300)).problem("4")[0].library
    assert len(grown) == OWN + 300
    assert {LIBRARY[name].category for name in grown.keys() & LIBRARY.keys() if name not in own} == {"Travel"}


def test_a_pools_tools_stand_in_the_librarys_order_among_themselves() -> None:
    """Words weigh in every pool as they do in the whole library."""
    substep = Substep("9", "what is the number 7 of Sport", "")
    whole = pooled(Whole()).problem("2")[1].nearest(substep.text)
    for pool in (CaseTools(), Domain()):
        problem, index = pooled(pool).problem("2")
        assert index.nearest(substep.text) == [tool for tool in whole if tool.name in problem.library]


def test_a_dataset_that_names_no_own_tools_or_domain_is_left_out_with_both_files() -> None:
    for pool, what in (("case", "candidate tools for each case"), ("domain", "a domain with tools for each case")):
        reason = invalid_reason(setting_of({"limit": 2}, dataset="slate", pool=pool)) or ""
        assert reason.startswith(f"conf/pool/{pool}.yaml needs {what}")
        assert "but conf/dataset/slate.yaml has none for case " in reason
    assert invalid_reason(setting_of({"limit": 2}, dataset="slate", pool="grown")) is None


def test_a_domain_without_tools_does_not_fit() -> None:
    problem = Cases().problem("1")
    assert Domain().fits(problem)
    assert not Domain().fits(replace(problem, domain="Weather"))
    assert not Domain().fits(replace(problem, domain=""))


def test_a_library_of_no_tools_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "dataset_of", lambda key: SimpleNamespace(tools={}))
    with pytest.raises(ConfigError, match="a library of 0 tools"):
        parts.pooled("{}", '{"_target_": "grid.pools.whole.Whole"}', '{"_target_": "grid.retrievers.scored.BM25"}')
