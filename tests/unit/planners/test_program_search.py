"""Whether typed programs can be solved, and at what cost: against brute force, and by hand."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from grid.core.types import ToolSpec
from grid.worlds.programs.model import Applied, Constant, Constraint, Function, Goal, Task, TypedTool
from grid.worlds.programs.search import derivable, least_cost, plan_cost
from grid.worlds.programs.world import tools_by_name
from tests.support.loops import each
from tests.support.program_search import TooLargeError, depth, least
from tests.support.programs import Shape, asking, begun, composite, restricted, task, tool

CITY = Constant("city", "Ghent")
FORECAST = Function("forecast", ("city",), "weather", "{d8}")
ADVICE = Function("advice", ("weather", "city"), "text", "{d8}")
GHENT = Applied("forecast", (CITY,))
WANTED = Applied("advice", (GHENT, CITY))


def of(*tools: TypedTool, constraints: tuple[Constraint, ...] = ()) -> Task:
    return Task("?", (Goal(WANTED, "t", "advice"),), (CITY,), tools_by_name(tools), (), constraints)


def rule(kind: str, *arguments: str) -> Constraint:
    return Constraint(kind, arguments, f"rule {kind}")  # type: ignore[arg-type]


@pytest.mark.long
def test_least_costs_are_those_of_brute_force() -> None:
    compared = unsolvable = 0
    for seed in range(100_000):
        rng = random.Random(seed)
        shape = Shape(types=4, functions=rng.randint(2, 4), constants=rng.randint(1, 2), steps=rng.randint(1, 4),
                      costs=True, composites=rng.randint(0, 3), extraneous=1, others=rng.randint(0, 1))  # fmt: skip
        one = task(rng, shape)
        if rng.random() < 0.6:
            one = restricted(rng, one, rng.randint(1, 2))
        deepest = max(depth(goal.fact) for goal in one.goals)
        try:
            cost = least(one, 100, min(3, deepest) + 1 if one.constraints else deepest)
        except TooLargeError:
            continue
        assert least_cost(one) == cost, seed
        assert (derivable(one) is None) == (cost is not None), seed
        compared, unsolvable = compared + 1, unsolvable + (cost is None)
        if compared == 500:
            break
    assert unsolvable > 50


def test_a_cheaper_way_round_a_dear_tool_and_a_composite() -> None:
    dear, cheap = tool("forecast_tool", FORECAST, 5), tool("weather_tool", FORECAST, 2)
    advise = tool("advice_tool", ADVICE, 3)
    assert least_cost(of(dear, advise)) == 8
    assert least_cost(of(dear, cheap, advise)) == 5
    both = composite("both", dear, advise, 0, 4)
    assert least_cost(of(dear, cheap, advise, both)) == 4
    assert plan_cost(of(dear, cheap, advise), ["weather_tool", "advice_tool", "nothing"]) == 5


@pytest.mark.parametrize(
    ("constraints", "reason"),
    [
        ((rule("forbid_function", "forecast"),), "rule forbid_function"),
        ((rule("before", "advice", "forecast"),), "rule before"),
        ((rule("at_most", "forecast", "0"),), "rule at_most"),
        ((rule("forbid_tool", "advice_tool"),), "rule forbid_tool"),
        ((rule("require_function", "pay"), rule("forbid_tool", "shiny")), "rule require_function"),
    ],
)
def test_contradictions_are_proved_and_named(constraints: tuple[Constraint, ...], reason: str) -> None:
    tools = tool("forecast_tool", FORECAST), tool("advice_tool", ADVICE)
    assert derivable(of(*tools)) is None
    assert derivable(of(*tools, constraints=constraints)) == f"no calls satisfy all constraints: {reason}"


def test_what_is_missing_is_named() -> None:
    forecast, advise = tool("forecast_tool", FORECAST), tool("advice_tool", ADVICE)
    assert derivable(of(advise)) == "no working tool finds the result of forecast"
    assert derivable(replace(of(forecast, advise), constants=())) == "city is not told, and no tool finds it"
    assert derivable(replace(of(forecast, advise), broken="forecast_tool")) is not None
    again = replace(tool("weather_tool", FORECAST), stands_for="forecast_tool")
    assert derivable(replace(of(forecast, again, advise), broken="forecast_tool")) is None


def test_many_parallel_steps_with_composites_take_no_long_search() -> None:
    found = task(random.Random(5), Shape(types=8, functions=10, steps=30, costs=True, composites=6))
    assert least_cost(found) is not None


@each("seed", range(40))
def test_solvable_tasks_stay_solvable_behind_their_reference(seed: int) -> None:
    rng = random.Random(seed)
    one = asking(rng, task(rng), rng.randint(1, 3))
    assert derivable(one) is None
    assert derivable(begun(one, len(one.reference) // 2)) is None


def test_tasks_that_are_not_built_as_they_should_be_are_refused() -> None:
    forecast = tool("forecast_tool", FORECAST)
    with pytest.raises(ValueError, match="two tools of the task have the name 'forecast_tool'"):
        tools_by_name([forecast, forecast])
    with pytest.raises(ValueError, match="listed under the name 'other'"):
        derivable(replace(of(forecast), tools={"other": forecast}))
    with pytest.raises(ValueError, match="the task has no goals"):
        derivable(replace(of(forecast), goals=()))
    with pytest.raises(ValueError, match="which is reserved"):
        derivable(of(replace(forecast, spec=ToolSpec("reject", "", forecast.spec.parameters, ("x",)))))
    with pytest.raises(ValueError, match="unknown kind of constraint"):
        derivable(of(forecast, constraints=(rule("never", "x"),)))
    with pytest.raises(ValueError, match="whole number of 0 or more; forecast_tool has -1"):
        least_cost(of(replace(forecast, cost=-1)))
