"""A* over plans (ToolChain*): trees calculated on paper, and what its costs say of solved plans."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from math import sqrt
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grid.core.engine import PlanAnswer, Prompt
from grid.core.types import Demonstration, Plan, Substep, ToolCall, to_json
from grid.core.untrusted import loads
from grid.episode.progress import Budget
from grid.planners.astar import AStar
from grid.planners.remembering import Memory, alike
from tests.support.places import place_of, written
from tests.support.search import Letters, Script, Searched, searched

OUTLINE = Plan(tuple(Substep(str(number), f"go {number}", "") for number in (1, 2, 3)))
PROPOSED: dict[str, Sequence[str]] = {
    "": "aabb",
    "a": ["a", "b", "c", "?"],
    "b": "ccca",
    "b c": ["a", "a", "none", "none"],
}
VALUES = {
    "a": -7 / 6, "b": -7 / 6, "a a": -19 / 12, "a b": -19 / 12, "a c": -19 / 12, "b c": -13 / 12, "b a": -19 / 12,
    "b c a": -5 / 4, "b c none": -5 / 4,
}  # fmt: skip


@dataclass
class Imagining(Script):
    """`imagined`: by place, the words of the plan that is imagined on from there; None: an answer that is no plan."""

    imagined: Mapping[str, Sequence[str] | None] = field(default_factory=dict)

    def _texts(self, prompt: Prompt, n: int) -> list[str]:
        if not isinstance(prompt.answer, PlanAnswer):
            return super()._texts(prompt, n)
        self.asked.append(("plan", place_of(prompt)))
        words = self.imagined[place_of(prompt)]
        return [to_json({"plan": [loads(written(word)) for word in words]}) if words is not None else "no"] * n


def solved_plan(tools: str) -> Demonstration:
    return Demonstration("?", {str(place): ToolCall(tool, {}) for place, tool in enumerate(tools)}, "")


def outlined(planner: AStar | None = None, **values: Any) -> Searched:
    """The search under the outline."""
    planner = planner or AStar(branching=4)
    return searched(planner, Script(PROPOSED, delays=values.pop("delays", None)), plan=OUTLINE, **values)


def test_with_solved_plans_costs_are_the_papers() -> None:
    """Four samples a node, α = β = 1/2; solved are "a b finish" and "a c b finish"; "d" stands in neither.

    h1 is the mean of the places: a (1/3 + 1/4)/2 = 7/24, b (2/3 + 3/4)/2 = 17/24, finish 1; no name is like "d", so
    that it is taken for the first, a.

    "a" (3 of 4): the plan "a" is in a solved one, g1 = 1, so that it costs 0. Imagined on: b, finish, one call, h2 =
    1/2; f = √(17/24 · 1/2) = √(17/48).
    "d" (1 of 4): g1 = 0, g2 = 1/4, cost √(3/4); no plan can be read, h2 = 0; f = √(3/4) + √(17/24).
    "a b" (2 of 4): g1 = 1, cost 0; imagined c, finish, h2 = 2/3; f = √(7/24 · 1/3) = √(7/72).
    "a d" (1 of 4): g1 = 1/2, cost √(1/2 · 3/4); imagined b, no end told, h2 = 2/3; f = √(3/8) + √(17/72).
    "a b d" (3 of 4): g1 = 2/3, cost √(1/3 · 1/4); imagined: finish, h2 = 1; f = √(1/12).
    "a b finish" (1 of 4): g1 = 1, h2 = 1; f = 0: complete and the least, it is run.
    """
    script = Imagining(
        {"": "aaad", "a": ["b", "b", "d", "?"], "a b": ["d", "d", "d", "finish"]},
        imagined={"a": ["b", "finish"], "d": None, "a b": ["c", "finish"], "a d": ["b"], "a b d": ["finish", "a"]},
    )
    found = searched(AStar(branching=4), script, tools="abcd", solved=[solved_plan("ab"), solved_plan("acb")])
    values = {
        "a": -sqrt(17 / 48),
        "d": -sqrt(3 / 4) - sqrt(17 / 24),
        "a b": -sqrt(7 / 72),
        "a d": -sqrt(3 / 8) - sqrt(17 / 72),
        "a b d": -sqrt(1 / 12),
        "a b finish": 0.0,
    }
    assert {place: found.nodes[place].value for place in values} == pytest.approx(values, abs=1e-12)
    assert found.pruned == {"a ?": "unreadable"}
    assert (found.path, found.executed) == ("a b finish", ["a", "a b", "a b finish"])
    assert found.world.executed == ["a", "a b"]
    assert [place for kind, place in script.asked if kind == "plan"] == ["a", "d", "a b", "a d", "a b d"]
    assert not any("returned" in prompt.text() for prompt in script.prompts if not prompt.entries("demonstrations"))
    assert {kind for kind, _ in script.asked} == {"sample", "plan"}, "no judge"


def test_of_equals_the_plan_that_was_proposed_most_often_is_taken() -> None:
    """All plans are as in a solved one and imagined to end at once: g1 = h2 = 1, each costs 0.

    "b" (3 of 4) is gone on from before "a" (1 of 4), which was made first. "b c" (1 of 4) has a mean share of 1/2, and
    is gone on from too.
    """
    script = Imagining(
        {"": "abbb", "a": ["finish"] * 4, "b": ["c", "?", "?", "?"], "b c": ["finish"] * 4},
        imagined={place: ["finish"] for place in ("a", "b", "b c")},
    )
    found = searched(AStar(branching=4), script, tools="abc", solved=[solved_plan("ac"), solved_plan("bc")])
    assert {node.value for place, node in found.nodes.items() if place and node.pruned is None} == {0.0}
    assert found.path == "b c finish"


@pytest.mark.parametrize("executes", ["end", "expanded"])
def test_under_an_outline_without_solved_plans_it_goes_back_to_what_costs_less(executes: Any) -> None:
    """Four samples a node, three substeps: each action costs 1 less its share, and h = 1 − depth/3.

    "a" and "b" (1/2 each): 1/2 + 2/3 = 7/6; the first made is taken.
    "a a", "a b", "a c" (1/4 each, a fourth cannot be read): 1/2 + 3/4 + 1/3 = 19/12, more than "b", which is next.
    "b c" (3/4): 1/2 + 1/4 + 1/3 = 13/12. "b a" (1/4): 19/12.
    "b c a" and "b c none" (1/2 each): 3/4 + 1/2 = 5/4, complete; the first made is run.
    """
    found = outlined(AStar(branching=4, executes=executes))
    assert {place: found.nodes[place].value for place in VALUES} == pytest.approx(VALUES, abs=1e-12)
    assert found.pruned == {"a ?": "unreadable"}
    expanded = [place for kind, place in found.script.asked if kind == "sample"][::4]
    assert expanded == ["", "a", "b", "b c"]
    assert found.path == "b c a"
    assert found.executed == [*(["a"] if executes == "expanded" else []), "b", "b c", "b c a"]
    told = [
        prompt for prompt in found.script.prompts if any(" returned " in line for line in prompt.entries("history"))
    ]
    assert len(told) == (3 if executes == "expanded" else 0), "what is planned is not run"
    assert found.episode.resolved_checks == 0


def test_with_oracle_stop_complete_plans_are_run_until_one_resolves_the_case() -> None:
    planner = AStar(branching=4, oracle_stop=True)
    found = outlined(planner, world=Letters(resolving=frozenset({"b c"})))
    assert (found.path, found.episode.resolved_checks) == ("b c none", 2)
    assert found.world.executed == ["b", "b c", "b c a"], "what they share is run once"


@pytest.mark.parametrize(
    ("planner", "budget", "path"),
    [
        (AStar(branching=4, expansions=2), Budget(), "b"),  # of those left the least
        (AStar(branching=4), Budget(llm_calls=8), "b"),
        (AStar(branching=4), Budget(llm_calls=3), ""),
        (AStar(branching=4), Budget(steps=2), "b c"),  # as far as it could be run
        (AStar(branching=4), Budget(steps=0), ""),
        (AStar(branching=4, executes="expanded"), Budget(steps=2), "a"),  # as near to its end, and before "b"
        (AStar(branching=4, expansions=4), Budget(), "b c a"),  # a complete one, though it is not taken any more
    ],
)
def test_what_a_budget_leaves_is_returned(planner: AStar, budget: Budget, path: str) -> None:
    assert outlined(planner, budget=budget).path == path


def test_failed_calls_of_the_plan_do_not_stop_it() -> None:
    found = outlined(world=Letters(failing=frozenset({"b"})))
    assert found.path == "b c a"
    assert found.world.executed == ["b", "c", "c a"]


def test_a_dead_end_is_the_answer_where_nothing_is_left() -> None:
    """Without an outline a path makes no call twice, and here nothing else is ever proposed."""
    script = Imagining({"*": "aaaa"}, imagined={"a": []})
    found = searched(AStar(branching=4), script)
    assert (found.path, found.pruned) == ("a", {"a a": "repeated"})


@pytest.mark.parametrize("seed", range(5))
def test_the_order_of_answers_makes_no_difference(seed: int) -> None:
    def tree(delays: random.Random | None) -> Any:
        script = Imagining(
            {"": "abcd", "*": ["a", "b", "c", "d", "finish", "finish"]},
            imagined={place: [*"ab"[: len(place) % 3], "finish"] for place in _places("abcd", 3)},
            delays=delays,
        )
        found = searched(AStar(branching=6, expansions=12, max_calls=3), script, tools="abcd")
        nodes = [(node.label, place, node.value, node.share) for place, node in found.nodes.items()]
        return nodes, found.path, found.executed

    assert tree(random.Random(seed)) == tree(None)


def _places(tools: str, most: int) -> list[str]:
    places = [""]
    for _ in range(most):
        places += [f"{place} {tool}".strip() for place in places for tool in tools]
    return places


def test_memory_says_where_tools_stand_and_how_like_plans_are() -> None:
    memory = Memory((("find", "filter", "find", "count"), ("find", "count")))
    assert memory.place("count") == 1
    assert memory.place("find") == ((1 / 4 + 3 / 4) / 2 + 1 / 2) / 2, "the mean of its places in each plan"
    assert memory.place("filters") == memory.place("filter") == 1 / 2, "the most like by name"
    assert memory.likeness(("find", "sort")) == 1 / 2
    assert memory.likeness(("filter", "count", "find", "sort", "sort")) == 1 / 2
    assert (memory.likeness(()), Memory(()).likeness(("find",)), Memory(()).place("find")) == (None, None, None)


@given(st.text("abc", min_size=1, max_size=7), st.text("abc", min_size=1, max_size=7))
def test_a_common_subsequence_is_the_longest(one: str, other: str) -> None:
    shared = {
        size
        for size in range(min(len(one), len(other)) + 1)
        if {*combinations(one, size)} & {*combinations(other, size)}
    }
    assert alike(one, other) == alike(other, one) == max(shared) / min(len(one), len(other))
