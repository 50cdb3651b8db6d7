"""ToolTree (tooltree §3): a tree calculated by hand, its readings and its switches."""

from __future__ import annotations

import math
from typing import Any

import pytest

from grid.core.types import Plan, Substep
from grid.episode.progress import Budget
from grid.episode.tree import Node
from grid.planners.tooltree import ToolTree
from tests.support.search import Letters, Script, Searched, searched

PRE = {
    "a": 0.9, "b": 0.6, "c": 0.2, "finish": 0.1,
    "a b": 0.8, "a c": 0.5, "a finish": 0.7,
    "b a": 0.3, "b c": 0.95, "b finish": 0.29,
    "b c a": 0.6, "b c finish": 0.8, "a b finish": 0.9,
    "*": 0.0,
}  # fmt: skip
POST = {"a": 0.5, "b": 0.7, "a b": 0.3, "b c": 0.9, "b a": 0.1}


def planner(**keys: Any) -> ToolTree:
    """Every tool is a candidate, two are kept."""
    own: dict[str, Any] = {"candidates": "tools", "branching": 2, "max_calls": 3, "thought": 0}
    return ToolTree(**(own | keys))


def script(**more: Any) -> Script:
    return Script(pre=PRE, post=POST, **more)


def by_hand(rollouts: int = 7, **keys: Any) -> Searched:
    return searched(planner(rollouts=rollouts, **keys), script(), world=Letters(frozenset({"b a"})))


def worth(found: Searched) -> list[float | None]:
    return [improvement.value for improvement in found.episode.improvements]


def test_a_tree_calculated_by_hand() -> None:
    """Tools a, b, c and finish; λ = 1.4, τ_pre = 0.3, τ_post = 0.4, K = 2, three calls at most.

    1. Expanding the root keeps a (0.9) and b (0.6); c and finish are below τ_pre. a first: r = 0.5. Q(a) = 0.5.
    2. b was never visited: r = 0.7. Q(b) = 0.7.
    3. N = 2. a: 0.5 + 1.26 √ln 2 = 1.549; b: 0.7 + 0.84 √ln 2 = 1.399. At a: b (0.8) and finish (0.7) are kept, c (0.5)
       is third, a is repeated. "a b": r = 0.3 < τ_post, pruned. Q(a) = 0.4.
    4. N = 3. a: 0.4 + 1.26 √(ln 3 / 2) = 1.334; b: 0.7 + 0.84 √ln 3 = 1.580. At b: c (0.95) and a (0.3, as τ_pre) are
       kept. "b c": r = 0.9. Q(b) = 0.8.
    5. N = 4. a: 0.4 + 1.26 √(ln 4 / 2) = 1.449; b: 0.8 + 0.84 √(ln 4 / 2) = 1.499. "b a" fails: r = 0.1, pruned.
       Q(b) = 1.7 / 3.
    6. N = 5. a: 0.4 + 1.26 √(ln 5 / 2) = 1.530; b: 0.567 + 0.84 √(ln 5 / 3) = 1.182. "a finish": its score before it,
       0.7. Q(a) = 1.5 / 3. Finished, worth (0.5 + 0.7) / 2 = 0.6; nothing is left below a.
    7. b alone is left, and below it c: a (0.6) and finish (0.8) are kept. "b c finish": 0.8. Q(b c) = 1.7 / 2,
       Q(b) = 2.5 / 4. Finished, worth (0.7 + 0.9 + 0.8) / 3 = 0.8, which is returned.

    What is not finished is worth the sum of its rewards over three calls.
    """
    found = by_hand()
    assert found.executed == ["a", "b", "a b", "b c", "b a", "a finish", "b c finish"]
    assert found.world.executed == ["a", "b", "a b", "b c", "b a"]
    assert found.visits == {"a": 3, "b": 4, "a b": 1, "a finish": 1, "b a": 1, "b c": 2, "b c finish": 1}
    known = {"a": 0.5, "b": 0.625, "a b": 0.3, "a finish": 0.7, "b a": 0.1, "b c": 0.85, "b c finish": 0.8}
    assert {place: found.nodes[place].value for place in known} == pytest.approx(known, abs=1e-12)
    assert found.pruned == {
        "c": "pre", "finish": "pre",
        "a a": "repeated", "a b": "post", "a c": "top_k",
        "b a": "post", "b b": "repeated", "b finish": "pre",
        "b c b": "repeated", "b c c": "repeated",
    }  # fmt: skip
    assert found.path == "b c finish"
    assert found.episode.nodes[0].visits_below == 7
    assert worth(found) == pytest.approx([0.5 / 3, 0.7 / 3, 0.8 / 3, 1.6 / 3, 0.6, 0.8], abs=1e-12)


@pytest.mark.parametrize("rollouts", range(1, 8))
def test_a_shorter_search_is_the_beginning_of_a_longer_one(rollouts: int) -> None:
    assert by_hand(rollouts).executed == by_hand().executed[:rollouts]


def test_drafts_are_made_once_and_kept_with_the_child() -> None:
    found = by_hand()
    drafts = [place for kind, place in found.script.asked if kind == "draft"]
    assert sorted(drafts) == sorted(found.nodes.keys() - {""})


def test_equation_1() -> None:
    """To 1e-12, for an edge that was visited, and for one that was not."""
    found = by_hand(1)
    edge = Node("0.0", 1, found.nodes[""], None, r_pre=0.37, value=0.41, visits=3)
    new = Node("0.1", 2, found.nodes[""], None, r_pre=0.37)

    def told(edge: Node, **keys: Any) -> float:
        return planner(**keys)._preference(SearchOf(found), 1.4, 11, edge)[0]  # type: ignore[arg-type]

    assert told(edge) == pytest.approx(0.41 + 1.4 * 0.37 * math.sqrt(math.log(11) / 3), abs=1e-12)
    assert told(edge, pre_evaluation=False) == pytest.approx(0.41 + 1.4 * math.sqrt(math.log(11) / 3), abs=1e-12)
    assert told(new) == math.inf
    assert told(new, unvisited="prior") == pytest.approx(0.37 + 1.4 * 0.37 * math.sqrt(math.log(12)), abs=1e-12)


class SearchOf:
    """What equation 1 needs of a search: whose episode it is."""

    def __init__(self, found: Searched) -> None:
        self.episode = found.episode


def test_an_edge_without_visits_may_count_as_one_visit() -> None:
    """a: 0.5 + 1.26 √ln 1 = 0.5 and b, as if visited once: 0.2 + 0.28 √ln 2 = 0.433. So a is gone on from first."""
    known = Script(pre={"a": 0.9, "b": 0.2, "a c": 0.9, "*": 0.0}, post={"*": 0.5})
    keys: dict[str, Any] = {"rollouts": 2, "pre_threshold": 0.1}
    assert searched(planner(unvisited="prior", **keys), known).executed == ["a", "a c"]
    assert searched(planner(unvisited="first", **keys), known).executed == ["a", "b"]


def test_annealing_takes_the_prior_back_with_depth() -> None:
    """At "a" (depth 1), b and c visited once, for 0.5 and 0.6, of r_pre 1 and 0.8: N = 2, √ln 2 = 0.833.

    λ = 1.4: b 0.5 + 1.4 · 0.833 = 1.666, c 0.6 + 1.12 · 0.833 = 1.532. A tenth of λ: b 0.617, c 0.693.
    """
    pre = {"a": 1.0, "a b": 1.0, "a c": 0.8, "a b c": 1.0, "a c b": 1.0, "*": 0.0}
    known = Script(pre=pre, post={"a": 1.0, "a b": 0.5, "a c": 0.6, "*": 0.5})
    assert searched(planner(rollouts=4), known).executed == ["a", "a b", "a c", "a b c"]
    assert searched(planner(rollouts=4, annealing=0.1), known).executed == ["a", "a b", "a c", "a c b"]


def test_a_rollout_may_go_on_to_the_end() -> None:
    """1: a, "a b", which is pruned. 2: b, "b c", "b c finish". Each call's score is backed up."""
    found = by_hand(2, rollout="end")
    assert found.executed == ["a", "a b", "b", "b c", "b c finish"]
    assert found.visits == {"a": 2, "a b": 1, "b": 3, "b c": 2, "b c finish": 1}
    assert found.nodes["b"].value == pytest.approx((0.7 + 0.9 + 0.8) / 3, abs=1e-12)


@pytest.mark.parametrize(
    ("keys", "value", "path"),
    [
        ({}, 0.8, "b c finish"),
        ({"worth": "product"}, 0.7 * 0.9 * 0.8, "b c finish"),
        ({"worth": "last"}, 0.8, "b c finish"),
        ({"worth": "judge"}, 0.95, "a finish"),
    ],
)
def test_what_a_finished_trajectory_is_worth(keys: dict[str, Any], value: float, path: str) -> None:
    known = script(value={"a finish": 0.95, "b c finish": 0.2})
    found = searched(planner(rollouts=7, **keys), known, world=Letters(frozenset({"b a"})))
    assert found.path == path
    assert worth(found)[-1] == pytest.approx(value, abs=1e-12)


@pytest.mark.parametrize(
    ("keys", "nodes", "kept"),
    [
        ({}, 5, {"a", "b"}),
        ({"pre_pruning": False}, 5, {"a", "b", "c", "finish"}),
        ({"pre_evaluation": False}, 3, {"a", "b"}),
        ({"pre_evaluation": False, "pre_pruning": False}, 5, {"a", "b", "c", "finish"}),
    ],
)
def test_switches_before_a_call(keys: dict[str, Any], nodes: int, kept: set[str]) -> None:
    found = by_hand(1, **keys)
    assert {place for place, node in found.nodes.items() if place and not node.pruned} == kept
    assert len(found.nodes) == nodes
    asked = {kind for kind, _ in found.script.asked}
    assert ("pre" in asked) == keys.get("pre_evaluation", True)


def test_switches_after_a_call() -> None:
    """Without pruning "a b" may be gone on from; without evaluation the rewards are r_pre, and nobody is asked."""
    unpruned = by_hand(3, post_pruning=False)
    assert "a b" not in unpruned.pruned
    assert unpruned.nodes["a b"].value == pytest.approx(0.3, abs=1e-12)
    blind = by_hand(4, post_evaluation=False)
    assert {kind for kind, _ in blind.script.asked} == {"draft", "pre"}
    assert "post" not in blind.pruned.values()
    assert blind.nodes["b"].value == pytest.approx(0.6, abs=1e-12)
    assert blind.nodes["a"].value == pytest.approx((0.9 + 0.8 + 0.7) / 3, abs=1e-12)


def test_nothing_is_judged_without_both_evaluations() -> None:
    """The first path that the policy proposes is as good as any other."""
    known = Script(proposed={"": ["b", "a"], "*": ["finish"]})
    found = searched(ToolTree(candidates="sampled", pre_evaluation=False, post_evaluation=False), known)
    assert {kind for kind, _ in known.asked} == {"sample"}
    assert found.path in ("b finish", "a finish")


def test_the_policys_own_prior() -> None:
    """0.6, 0.3, 0.06 and 0.04 are 1, 0.5, 0.1 and 0.067 of the best. One request, and a draft for the two kept."""
    known = Script(shares={"": {"a": 0.06, "b": 0.6, "c": 0.3, "finish": 0.04}}, post={"*": 0.8})
    found = searched(planner(prior="policy", branching=3, rollouts=2), known)
    assert known.asked == [("choose", ""), ("draft", "b"), ("draft", "c"), ("post", "b"), ("post", "c")]
    assert found.executed == ["b", "c"]
    assert [found.nodes[place].r_pre for place in ("b", "c")] == pytest.approx([1.0, 0.5], abs=1e-12)
    known = Script(shares={"": {"a": 0.06, "b": 0.6, "c": 0.3, "finish": 0.04}}, post={"*": 0.8})
    searched(planner(prior="policy", pre_pruning=False, rollouts=1), known)
    assert [kind for kind, _ in known.asked].count("draft") == 4


def test_the_policys_prior_of_sampled_actions() -> None:
    known = Script(proposed={"": ["a", "b", "b1"]}, shares={"": {"a": 0.1, "b": 0.9}}, post={"*": 0.8})
    found = searched(planner(prior="policy", candidates="sampled", branching=3, rollouts=2), known)
    assert sorted(found.executed) == ["b", "b1"]
    assert found.pruned == {"a": "pre"}


def test_ties_go_to_more_visits_then_to_a_jitter() -> None:
    """Without exploration all is worth 0.5: two calls by the jitter, then always the one that has more visits."""
    pre, post = {"finish": 0.0, "a finish": 0.0, "b finish": 0.0, "*": 0.5}, {"*": 0.5}
    firsts = set()
    for seed in range(8):
        found = searched(planner(exploration=0.0, rollouts=5), Script(pre=pre, post=post), tools="ab", seed=seed)
        again = searched(planner(exploration=0.0, rollouts=5), Script(pre=pre, post=post), tools="ab", seed=seed)
        assert found.executed == again.executed
        firsts.add(found.executed[0])
        third = found.executed[2].split()[0]
        assert all(place.split()[0] == third for place in found.executed[2:4])
    assert firsts == {"a", "b"}


def test_it_stops_when_the_best_trajectory_has_not_risen() -> None:
    """finish is worth 0.9 after the first rollout; two more do not better it by 0.001."""
    known = Script(pre={"finish": 0.9, "*": 0.8}, post={"*": 0.8})
    assert len(searched(planner(patience=2, rollouts=60, branching=4), known, tools="abc").executed) == 3
    assert len(searched(planner(patience=9, rollouts=60, branching=4), known, tools="abc").executed) == 10


def test_without_a_finished_trajectory_it_goes_on() -> None:
    known = Script(pre={"finish": 0.0, "*": 0.8}, post={"*": 0.8})
    assert len(searched(planner(patience=1, rollouts=9, max_calls=30), known, tools="abcdefgh").executed) == 9


def test_a_dead_end_is_left_by_the_best_pruned_edge() -> None:
    """All is below τ: b (0.2) is taken back, and its r = 0.3 prunes it; it is taken back (0.3), and so on to an end."""
    known = {"pre": {"b": 0.2, "b finish": 0.25, "*": 0.1}, "post": {"b": 0.3}}
    found = searched(planner(dead_end="reopen"), Script(pre=known["pre"], post=known["post"]))
    assert (found.executed, found.path) == (["b", "b finish"], "b finish")
    stopped = searched(planner(), Script(pre=known["pre"], post=known["post"]))
    assert (stopped.executed, stopped.path) == ([], "")


def test_the_result_may_be_the_greedy_descent_by_q() -> None:
    """After six rollouts Q(b) = 0.567 is above Q(a) = 0.5, and below b 0.9 above what is pruned; a's is finished."""
    assert by_hand(6).path == "a finish"
    assert by_hand(6, result="greedy").path == "b c"
    assert by_hand(6, result="greedy").executed == by_hand(6).executed


def test_a_greedy_descent_that_ends_before_a_call_runs_it() -> None:
    """a is pruned, and b, with Q = 0, is what is left: it is run for the result, and not judged."""
    known = Script(pre=PRE, post={"a": 0.1})
    found = searched(planner(rollouts=1, result="greedy", post_pruned="left_out"), known)
    assert (found.path, found.executed, found.visits) == ("b", ["a", "b"], {"a": 1})
    assert [place for kind, place in known.asked if kind == "post"] == ["a"]


@pytest.mark.parametrize("result", ["best", "greedy"])
def test_what_was_pruned_after_its_call_may_be_left_out_of_the_result(result: str) -> None:
    """All calls of the first state are below τ_post."""
    known = Script(pre=PRE, post={"*": 0.1})
    assert searched(planner(result=result, post_pruned="kept"), known).path in ("a", "b")
    assert searched(planner(result=result, post_pruned="left_out"), known).path == ""


def test_the_best_q_of_the_early_stop_may_be_the_roots() -> None:
    """It is 0.8 from the first rollout on, and no trajectory is finished."""
    known = Script(pre={"finish": 0.0, "*": 0.8}, post={"*": 0.8})
    keys: dict[str, Any] = {"patience": 2, "rollouts": 9, "max_calls": 30}
    assert len(searched(planner(stop_by="root", **keys), known, tools="abcdefgh").executed) == 3
    assert len(searched(planner(**keys), known, tools="abcdefgh").executed) == 9


def test_a_rollout_that_runs_nothing_may_cost_nothing() -> None:
    """a and b are run, then nothing can follow a; with a fourth descent b is gone on from."""
    known = Script(pre={"a": 0.9, "b": 0.8, "b a": 0.9, "*": 0.0}, post={"*": 0.8})
    assert searched(planner(rollouts=3), known, tools="ab").executed == ["a", "b"]
    assert searched(planner(rollouts=3, empty_rollouts="free"), known, tools="ab").executed == ["a", "b", "b a"]


def test_n_of_a_state_may_count_the_visit_that_led_to_it() -> None:
    """At a, λ = 1: b 0.5 + √ln N, c 0.6 + 0.9 √ln N; for N = 2 it is 1.333 and 1.349, for N = 3 1.548 and 1.543."""
    pre = {"a": 1.0, "a b": 1.0, "a c": 0.9, "a b c": 1.0, "a c b": 1.0, "*": 0.0}
    known = Script(pre=pre, post={"a": 1.0, "a b": 0.5, "a c": 0.6, "*": 0.5})
    keys: dict[str, Any] = {"rollouts": 4, "exploration": 1.0}
    assert searched(planner(**keys), known).executed == ["a", "a b", "a c", "a c b"]
    assert searched(planner(state_visits="own", **keys), known).executed == ["a", "a b", "a c", "a b c"]


def test_what_was_not_visited_may_be_drawn() -> None:
    """The first is the highest r_pre's; of the others, at a later visit, any."""
    known = Script(pre={"a": 0.9, "b": 0.8, "c": 0.7, "*": 0.0}, post={"*": 0.5})
    keys: dict[str, Any] = {"rollouts": 2, "branching": 3}
    found = [searched(planner(unvisited="drawn", **keys), known, seed=seed).executed for seed in range(8)]
    assert {first for first, _ in found} == {"a"}
    assert {second for _, second in found} == {"b", "c"}
    assert {tuple(searched(planner(**keys), known, seed=seed).executed) for seed in range(8)} == {("a", "b")}


def test_to_finish_may_be_no_candidate() -> None:
    """Every path then goes on to its last call."""
    known = Script(pre={"*": 0.9}, post={"*": 0.9})
    found = searched(planner(candidates="tools_alone", branching=4), known)
    assert not any("finish" in place for place in found.nodes)
    assert len(found.path.split()) == 3


def test_under_an_outline() -> None:
    """To call nothing is an action; it is judged, as it returns nothing, by what it promised."""
    plan = Plan((Substep("1", "go a", ""), Substep("2", "rest", "")))
    known = Script(pre={"a": 0.9, "a none": 0.7, "*": 0.1}, post={"a": 0.8})
    found = searched(planner(), known, plan=plan)
    assert found.path == "a none"
    assert worth(found) == pytest.approx([0.4, 0.75], abs=1e-12)
    assert {place.split()[-1] for place in found.nodes if place} == {"a", "b", "c", "none"}


def test_the_oracle_stops_it_where_it_may() -> None:
    world = Letters(resolving=frozenset({"a"}))
    found = searched(planner(oracle_stop=True), script(), world=world)
    assert found.path == "a finish"
    assert found.episode.resolved_checks == 1
    assert searched(planner(), script(), world=Letters()).episode.resolved_checks == 0


def test_a_used_up_budget_returns_the_best_so_far() -> None:
    found = searched(planner(), script(), budget=Budget(steps=4))
    assert (found.path, found.episode.tool_calls, found.episode.budget_reached) == ("b c", 4, "steps")
