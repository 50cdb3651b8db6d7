"""`egb_tree` against brute force: which states branch, with which children and priors; and its ends."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grid.core.engine import ACTOR, JUDGE
from grid.core.types import Plan, Substep
from grid.core.util import derive_seed
from grid.episode.progress import Budget
from grid.planners.egb import EGBTree
from grid.planners.tooltree import ToolTree
from grid.planners.votes import entropy
from grid.settings.make import make
from tests.support.search import Letters, Script, Searched, searched

OPTIONS = ("a", "b", "c", "finish")
CALLS = 3
NEVER = 100.0
"""Nats that no distribution over so few options has."""
FEW = settings(max_examples=40, deadline=None)
SHARES = {"a": 0.5, "b": 0.3, "c": 0.15, "finish": 0.05}


class Drawn(dict[str, Any]):
    """A distribution for every place: flat at some, with nearly all on one option at others."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.seed = seed

    def get(self, place: str, default: Any = None) -> Mapping[str, float]:
        rng = random.Random(derive_seed(self.seed, "shares", place))
        weights = [rng.random() ** rng.choice([1, 12]) for _ in OPTIONS]
        return {word: weight / sum(weights) for word, weight in zip(OPTIONS, weights, strict=True)}


def planner(**keys: Any) -> EGBTree:
    """One that goes everywhere it may: nothing is pruned after a call, and nothing ends it early."""
    own: dict[str, Any] = {"max_calls": CALLS, "branching": 4, "post_pruning": False, "entropy_threshold": 0.5}
    return EGBTree(**(own | {"rollouts": 1000, "patience": 1000} | keys))


def grown(planner: EGBTree | ToolTree, seed: int, delays: random.Random | None = None, **more: Any) -> Searched:
    script = Script(shares=Drawn(seed), post={"*": 0.6}, delays=delays)
    return searched(planner, script, world=Letters(delays=delays), seed=seed, **more)


def by_force(seed: int, above: float, least: float, most: int, place: str = "") -> dict[str, float]:
    """Every place of the tree with its prior, from the distributions alone."""
    words = place.split()
    if len(words) == CALLS or "finish" in words:
        return {}
    shares = Drawn(seed).get(place)
    ranked = sorted(shares.items(), key=lambda one: -one[1])
    uncertain = -sum(share * math.log(share) for share in shares.values()) > above
    wanted, found = most if uncertain else 1, dict[str, float]()
    for number, (word, share) in enumerate(ranked):
        if not wanted or (number and share < least):
            break
        child = f"{place} {word}".strip()
        found[child] = share
        if word not in words:
            wanted -= 1
            found |= by_force(seed, above, least, most, child)
    return found


@FEW
@given(
    st.integers(0, 10_000),
    st.sampled_from([0.0, 0.3, 0.7, 1.1, NEVER]),
    st.sampled_from([0.0, 0.05, 0.3]),
    st.integers(1, 4),
)
def test_the_tree_is_that_of_brute_force(seed: int, above: float, least: float, most: int) -> None:
    found = grown(planner(entropy_threshold=above, threshold=least, branching=most), seed)
    expected = by_force(seed, above, least, most)
    assert {place: node.r_pre for place, node in found.nodes.items() if place} == pytest.approx(expected)
    assert all(node.share == node.r_pre for place, node in found.nodes.items() if place)
    repeated = {place for place in expected if len(set(place.split())) < len(place.split())}
    assert set(found.pruned) == repeated
    assert set(found.executed) == set(expected) - repeated, "all that may be run is run"
    for place, node in found.nodes.items():
        told = entropy(Drawn(seed).get(place).values()) if node.children else None
        assert node.entropy == (None if told is None else pytest.approx(told, abs=1e-12))


@pytest.mark.long
@FEW
@given(st.integers(0, 10_000))
def test_a_threshold_of_0_branches_everywhere(seed: int) -> None:
    """As ToolTree does with the policy's prior over all tools, where it prunes nothing."""
    everywhere = grown(planner(entropy_threshold=0.0, threshold=0.0), seed)
    other = ToolTree(
        prior="policy", candidates="tools", pre_threshold=0.0, post_pruning=False, branching=4, max_calls=CALLS,
        rollouts=1000, patience=1000, thought=0,
    )  # fmt: skip
    tooltree = grown(other, seed)
    assert set(everywhere.nodes) == set(tooltree.nodes)
    assert set(everywhere.executed) == set(tooltree.executed)
    assert everywhere.pruned == tooltree.pruned


@FEW
@given(st.integers(0, 10_000))
def test_a_threshold_without_end_is_one_greedy_path(seed: int) -> None:
    found = grown(planner(entropy_threshold=NEVER), seed)
    place = list[str]()
    while len(place) < CALLS and "finish" not in place:
        shares = Drawn(seed).get(" ".join(place))
        left = [word for word in shares if word not in place and shares[word] >= 0.01]
        if not left:
            break
        place.append(max(left, key=lambda word: shares[word]))
    assert found.path == " ".join(place)
    assert found.executed == [" ".join(place[: end + 1]) for end in range(len(place))]


def test_at_the_threshold_nothing_branches() -> None:
    told = entropy(SHARES.values())
    at, below = (
        searched(planner(entropy_threshold=above, rollouts=1), Script(shares={"": SHARES}, post={"*": 0.6}))
        for above in (told, math.nextafter(told, 0))
    )
    assert [place for place in at.nodes if place] == ["a"]
    assert [place for place in below.nodes if place] == ["a", "b", "c", "finish"]


def test_what_is_asked_for() -> None:
    """One scoring pass a state, a draft a child, a judgement a call that was run; nothing before a call."""
    known = Script(shares={"": SHARES, "*": {"finish": 1.0}}, post={"*": 0.6})
    found = searched(planner(branching=2, rollouts=2), known)
    assert known.asked == [("choose", ""), ("draft", "a"), ("draft", "b"), ("post", "a"), ("post", "b")]
    spent = {role: (usage.forward_passes, usage.llm_calls) for role, usage in found.episode.spent.items()}
    assert spent == {ACTOR: (1, 2), JUDGE: (0, 2)}


def test_the_more_probable_child_is_run_first() -> None:
    found = searched(planner(rollouts=3), Script(shares={"": SHARES}, post={"*": 0.6}))
    assert found.executed == ["a", "b", "c"]


def test_options_below_tau_are_no_children() -> None:
    found = searched(planner(threshold=0.1, rollouts=1), Script(shares={"": SHARES}, post={"*": 0.6}))
    assert [place for place in found.nodes if place] == ["a", "b", "c"]
    one = searched(planner(threshold=0.9, rollouts=1), Script(shares={"": SHARES}, post={"*": 0.6}))
    assert [place for place in one.nodes if place] == ["a"], "the most probable one always is"


def test_a_call_that_was_made_leaves_its_place_to_the_next() -> None:
    known = Script(shares={"": {"a": 1.0}, "a": {"a": 0.98, "b": 0.02}, "*": {"finish": 1.0}}, post={"*": 0.6})
    found = searched(planner(), known)
    assert found.path == "a b finish"
    assert found.pruned == {"a a": "repeated"}


def test_a_pruned_call_is_taken_back_where_there_is_no_other_way() -> None:
    """The only child is judged to be worth 0.1."""
    known = Script(shares={"": {"a": 1.0}, "*": {"finish": 1.0}}, post={"a": 0.1}, pre={"*": 0.9})
    assert searched(planner(post_pruning=True), known).path == "a finish"
    stopped = Script(shares={"": {"a": 1.0}, "*": {"finish": 1.0}}, post={"a": 0.1}, pre={"*": 0.9})
    assert searched(planner(post_pruning=True, dead_end="stop"), stopped).path == "a"


@pytest.mark.parametrize("kind", ["egb_tree", "tooltree"])
def test_who_may_ask_takes_pruned_calls_back_until_a_path_resolves(kind: str) -> None:
    """b is judged too low and pruned, but "b finish" resolves the case and "a finish" does not."""
    shares = {"": {"a": 0.6, "b": 0.4}, "*": {"finish": 1.0}}

    def found(**keys: Any) -> Searched:
        script = Script(shares=shares, pre={"*": 0.9}, post={"a": 0.8, "b": 0.2})
        own: dict[str, Any] = {"post_pruning": True, "threshold": 0.1} | keys
        tree: EGBTree | ToolTree = planner(**own)
        if kind == "tooltree":
            own = {"candidates": "tools", "dead_end": "reopen", "thought": 0, "max_calls": CALLS, "patience": 1000}
            tree = ToolTree(prior="policy", **own | keys)
        return searched(tree, script, world=Letters(resolving=frozenset({"b"})))

    assert (found().path, found().episode.resolved_checks) == ("a finish", 0)
    asked = found(oracle_stop=True)
    assert (asked.path, asked.episode.resolved_checks) == ("b finish", 2)


def test_under_an_outline() -> None:
    """To call nothing is an option like others, and takes no draft."""
    plan = Plan((Substep("1", "go a", ""), Substep("2", "rest", "")))
    known = Script(
        shares={"": {"a": 0.99, "b": 0.01}, "a": {"no_tool": 0.6, "b": 0.4}}, pre={"*": 0.7}, post={"*": 0.5}
    )
    found = searched(planner(threshold=0.02), known, plan=plan)
    assert {place for place in found.nodes if place} == {"a", "a none", "a b"}
    assert ("draft", "a none") not in known.asked
    assert found.path == "a none"


@FEW
@given(st.integers(0, 10_000), st.integers(0, 10_000), st.integers(1, 40))
def test_the_order_of_answers_changes_nothing(seed: int, delays: int, budget: int) -> None:
    """The same seed, the same rows."""

    def rows(found: Searched) -> list[tuple[Any, ...]]:
        return [
            (node.label, node.place, node.share, node.entropy, node.r_pre, node.r_post, node.visits, node.value,
             node.pruned, node.execution, node.spent)
            for node in found.episode.nodes
        ] + [(found.path, *(one.value for one in found.episode.improvements))]  # fmt: skip

    quiet = grown(planner(entropy_threshold=0.7), seed)
    assert rows(grown(planner(entropy_threshold=0.7), seed, random.Random(delays))) == rows(quiet)
    stopped = grown(planner(entropy_threshold=0.7), seed, budget=Budget(steps=budget))
    assert stopped.executed[:budget] == quiet.executed[: len(stopped.executed[:budget])]


@pytest.mark.parametrize(
    "keys", [{"entropy_threshold": -0.1}, {"entropy_threshold": math.inf}, {"entropy_threshold": math.nan},
             {"threshold": 1.5}, {"labels": "letters"}, {"prior": "judge"}, {"entropy_threshold": "0.5"}],
)  # fmt: skip
def test_values_that_cannot_be(keys: dict[str, Any]) -> None:
    with pytest.raises(Exception, match=next(iter(keys))):
        make("planner", {"_target_": "grid.planners.egb.EGBTree"} | keys)
