"""LATS on trees computed by hand."""

from __future__ import annotations

import random
from math import log, sqrt
from typing import Any

import pytest

from grid.core.engine import ScoreAnswer, ToolCallAnswer
from grid.episode.tree import Node
from grid.planners.lats import LATS
from tests.support.places import place_of
from tests.support.search import Letters, Score, Script, Searched, drawn_game, searched

PROPOSED = {"": "aaab", "a": ["c", "c", "b", "?"], "b": ["a", "a", "c", "c1"]}
VALUES = {"a": 0.6, "a c": 0.3, "a b": 0.8, "b": 0.4, "b a": 0.9, "b c": 0.78, "b c1": 0.6}


def lats(script: Script, world: Letters | None = None, **keys: Any) -> Searched:
    """Four samples at a state, two calls a path."""
    return searched(LATS(**({"branching": 4, "max_calls": 2} | keys)), script, world=world)


def value(found: Searched, place: str) -> float:
    return found.nodes[place].value


def test_a_tree_by_hand() -> None:
    """λ = 0.5, w = 1, n = 4; ends below 0.5 failed.

    1. The root is the leaf. Of its samples 3/4 are a and 1/4 b. Eq. 2: V(a) = (0.6 + 0.75) / 2 = 0.675 and
       V(b) = (0.4 + 0.25) / 2 = 0.325, so that the simulation goes on from a: V(ac) = (0.3 + 0.5) / 2 = 0.4 and
       V(ab) = (0.8 + 0.25) / 2 = 0.525; what cannot be read is no child. ab is an end, r = 0.8. N = 1 and V = 0.8 for
       ab and a.
    2. b has no visits, so that its UCT is infinite. V(ba) = (0.9 + 0.5) / 2 = 0.7, V(bc) = (0.78 + 0.25) / 2 = 0.515,
       V(bc1) = (0.6 + 0.25) / 2 = 0.425; the end ba, r = 0.9. N = 1 and V = 0.9 for ba and b.
    3. UCT(a) = 0.8 + √(ln 2 / 1), UCT(b) = 0.9 + √(ln 2 / 1): b. Of bc and bc1, without visits, bc has the higher V:
       r = 0.78, V(b) = (0.9 + 0.78) / 2 = 0.84, N(b) = 2.
    4. UCT(a) = 0.8 + √(ln 3 / 1) = 1.848, UCT(b) = 0.84 + √(ln 3 / 2) = 1.581: a. There ac is left, 0.3 < 0.5: it
       failed, r = −1, V(a) = (0.8 − 1) / 2 = −0.1, N(a) = 2. It is reflected on.
    5. All of a was visited; b: bc1, r = 0.6, V(b) = (0.9 + 0.78 + 0.6) / 3 = 0.76, N(b) = 3. Nothing is left.
    """
    assert 0.8 + sqrt(log(3)) > 0.84 + sqrt(log(3) / 2)
    script = Script(proposed=PROPOSED, value=VALUES)
    found = lats(script)
    assert found.path == "b a"
    assert found.executed == ["a", "b", "a c", "a b", "b a", "b c", "b c1"]
    assert found.visits == {"a": 2, "b": 3, "a c": 1, "a b": 1, "b a": 1, "b c": 1, "b c1": 1}
    values = {"a": -0.1, "b": 0.76, "a c": -1, "a b": 0.8, "b a": 0.9, "b c": 0.78, "b c1": 0.6}
    assert {place: value(found, place) for place in values} == pytest.approx(values, abs=1e-12)
    assert found.pruned == {"a ?": "unreadable"}
    assert [asked for asked in script.asked if asked[0] == "reflect"] == [("reflect", "a c")]
    assert found.episode.resolved_checks == 0


@pytest.mark.parametrize(
    ("iterations", "reached"), [(1, {"b": 0.325}), (2, {"b": 0.9, "b c": 0.515}), (4, {"b": 0.84})]
)
def test_values_before_a_visit_are_eq_2_and_after_it_the_mean_of_rewards(
    iterations: int, reached: dict[str, float]
) -> None:
    """The same tree, earlier."""
    found = lats(Script(proposed=PROPOSED, value=VALUES), iterations=iterations)
    assert {place: value(found, place) for place in reached} == pytest.approx(reached, abs=1e-12)


@pytest.mark.parametrize(("mixing", "values"), [(1.0, {"a": 0.6, "b": 0.4}), (0.0, {"a": 0.75, "b": 0.25})])
def test_mixing_is_the_judges_share(mixing: float, values: dict[str, float]) -> None:
    """λ = 1: LM alone; λ = 0: SC alone. One iteration, before the backup reaches b: a holds r = 0.8 or −1."""
    found = lats(Script(proposed=PROPOSED, value=VALUES), iterations=1, mixing=mixing)
    assert value(found, "b") == pytest.approx(values["b"], abs=1e-12)
    ends = {1.0: "a b", 0.0: "a c"}  # LM prefers ab, SC ac
    assert found.nodes[ends[mixing]].visits == 1


def test_exploration_of_zero_takes_the_best_mean() -> None:
    """After the third iteration V(a) = 0.8 and V(b) = 0.84: b again, bc1 with r = 0.6. Then b is done."""
    found = lats(Script(proposed=PROPOSED, value=VALUES), iterations=4, exploration=0.0)
    assert found.visits == {"a": 1, "b": 3, "a b": 1, "b a": 1, "b c": 1, "b c1": 1}


def test_without_visits_by_value() -> None:
    """UCT(a) = 0.8 + √(ln 1 / 1) = 0.8 and UCT(b) = V(b) = 0.325, so that a comes again: ac fails, V(a) = −0.1."""
    found = lats(Script(proposed=PROPOSED, value=VALUES), iterations=2, unvisited="value")
    assert found.visits == {"a": 2, "a c": 1, "a b": 1}
    assert value(found, "a") == pytest.approx(-0.1, abs=1e-12)
    assert found.path == "a b"


def test_a_success_ends_the_search() -> None:
    """No visit is backed up: there is nothing left to choose by it."""
    found = lats(Script(proposed=PROPOSED, value=VALUES | {"a c": 1.0}))
    assert found.path == "a c"
    assert found.executed == ["a", "b", "a c", "a b"]
    assert found.visits == {}


def test_only_an_end_is_a_success() -> None:
    assert lats(Script(proposed=PROPOSED, value=VALUES | {"a": 1.0})).path == "b a"


def test_with_an_oracle_the_environment_decides() -> None:
    """ac and ab are asked about, and failed whatever the judge says; ba resolves the case."""
    script = Script(proposed=PROPOSED, value=VALUES | {"a b": 1.0})
    found = lats(script, Letters(resolving=frozenset({"b a"})), oracle_stop=True)
    assert found.path == "b a"
    assert found.episode.resolved_checks == 3
    assert {place: value(found, place) for place in ("a", "a b")} == {"a": -1.0, "a b": -1.0}
    assert ("reflect", "a b") in script.asked


def test_reflections_are_on_the_first_failures_and_all_later_prompts_show_them() -> None:
    """Nine ends of 0, ordered by visits: each is reflected on until there are three lessons."""
    script = Script(proposed={"*": "abc"}, value={"*": 0.0})
    found = lats(script, branching=3, repeats="state", max_calls=2)
    asked = [place for kind, place in script.asked if kind == "reflect"]
    assert asked == ["a a", "b a", "c a"]  # by equal values; a root's child without visits comes first
    assert len([node for node in found.nodes.values() if node.visits and search_ended(node)]) == 9
    lessons = {place_of(prompt): prompt.entries("lessons") for prompt in script.prompts if wants_action(prompt)}
    assert lessons[""] == lessons["a"] == ()
    first = "Attempt 1: a a led nowhere."
    assert lessons["b"] == ("Lessons from earlier attempts:", first)
    assert lessons["c"] == ("Lessons from earlier attempts:", first, "Attempt 2: b a led nowhere.")
    judged = {place_of(prompt): prompt.entries("lessons") for prompt in script.prompts if wants_score(prompt)}
    assert judged["a a"] == ()
    assert judged["c a"] == lessons["c"]


def search_ended(node: Node) -> bool:
    return node.depth == 2


def wants_action(prompt: Any) -> bool:
    return isinstance(prompt.answer, ToolCallAnswer)


def wants_score(prompt: Any) -> bool:
    return isinstance(prompt.answer, ScoreAnswer)


def test_no_reflections() -> None:
    script = Script(proposed={"*": "abc"}, value={"*": 0.0})
    lats(script, reflections=0)
    assert not [asked for asked in script.asked if asked[0] == "reflect"]


def test_a_path_that_cannot_go_on_has_failed() -> None:
    """At a only a is sampled again: r = −1 for a, whatever the judge says; b, without visits, is the next leaf."""
    found = lats(Script(proposed=PROPOSED | {"a": "a"}, value=VALUES))
    assert found.pruned == {"a a": "repeated"}
    assert (value(found, "a"), found.nodes["a"].visits) == (-1.0, 1)
    assert found.path == "b a"


@pytest.mark.parametrize("score", [0.0, 1.0, 0.5, "nothing that could be read"])
@pytest.mark.parametrize("proposed", ["abc", "?", "a", "aaaab"])
def test_it_ends_whatever_the_judge_says(score: float | str, proposed: str) -> None:
    """Of equals the first is returned. Where nothing can be read of the judge, at least one score must be."""
    values: dict[str, Score] = {"*": score} | ({"a": 0.4, "?": 0.4} if isinstance(score, str) else {})
    found = lats(Script(proposed={"*": proposed}, value=values), max_calls=3, repeats="state")
    assert found.path == ("a a a" if "a" in proposed else "? ? ?")


@pytest.mark.parametrize("seed", range(4))
def test_the_order_of_answers_changes_nothing(seed: int) -> None:
    proposed, values = drawn_game(seed, samples=4)

    def tree(delays: random.Random | None) -> list[tuple[Any, ...]]:
        found = lats(Script(proposed=proposed, value=values, delays=delays), max_calls=3, repeats="state")
        nodes = [(place, node.label, node.execution, node.visits, node.value) for place, node in found.nodes.items()]
        passed = [node for node in found.nodes.values() if node.parent and node.visits_below]
        assert all(node.visits == node.visits_below for node in passed)
        return [*nodes, (found.path,)]

    assert tree(None) == tree(random.Random(1)) == tree(random.Random(2))


@pytest.mark.parametrize(
    ("most", "executed", "visits"),
    [
        (1, ["a", "b"], {"a": 1}),
        (2, ["a", "b", "a c", "a b"], {"a": 1, "a b": 1}),
        (3, ["a", "b", "a c", "a b"], {"a": 1, "a b": 1, "b": 1}),
        (4, ["a", "b", "a c", "a b", "b a", "b c", "b c1"], {"a": 1, "a b": 1, "b": 1, "b a": 1}),
        (5, ["a", "b", "a c", "a b", "b a", "b c", "b c1"], {"a": 1, "a b": 1, "b": 2, "b a": 1, "b c": 1}),
        (6, ["a", "b", "a c", "a b", "b a", "b c", "b c1"],
         {"a": 2, "a b": 1, "b": 2, "b a": 1, "b c": 1, "a c": 1}),
    ],
)  # fmt: skip
def test_a_limit_of_visited_nodes_by_hand(most: int, executed: list[str], visits: dict[str, int]) -> None:
    """The tree above, cut: the order of visits is a, ab; b, ba; bc; ac; bc1. Siblings that are run are not visited."""
    script = Script(proposed=PROPOSED, value=VALUES)
    found = lats(script, max_visited=most)
    assert found.executed == executed
    assert found.visits == visits
    assert not [asked for asked in script.asked if asked[0] == "reflect"], "nothing comes behind it that could learn"


def test_what_a_limit_cuts_short_backs_up_the_value_of_its_last_node() -> None:
    """With one node a: V(a) = 0.675 by eq. 2. With three, the second path ends at b: V(b) = 0.325, N(b) = 1."""
    assert value(lats(Script(proposed=PROPOSED, value=VALUES), max_visited=1), "a") == pytest.approx(0.675)
    found = lats(Script(proposed=PROPOSED, value=VALUES), max_visited=3)
    assert value(found, "b") == pytest.approx(0.325)
    assert found.path == "a b", "the best complete path"


@pytest.mark.long
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("oracle_stop", [False, True])
def test_no_more_nodes_are_visited_than_the_limit_allows_and_what_is_done_is_what_would_be_without_it(
    seed: int, oracle_stop: bool
) -> None:
    proposed, values = drawn_game(seed, samples=4)
    keys: dict[str, Any] = {"max_calls": 3, "repeats": "state", "iterations": 1000, "oracle_stop": oracle_stop}
    whole = lats(Script(proposed=proposed, value=values), **keys)
    total = len(whole.visits)
    assert total > 3
    before = -1
    for most in range(1, total + 2):
        script = Script(proposed=proposed, value=values)
        found = lats(script, max_visited=most, **keys)
        assert len(found.visits) == min(most, total)
        assert set(found.visits) <= set(whole.visits)
        assert found.executed == whole.executed[: len(found.executed)]
        assert len(found.executed) >= before
        expanded = [node for node in found.nodes.values() if node.children]
        assert len(expanded) <= most, "the root and all visited nodes but the last"
        before = len(found.executed)
    assert found.executed == whole.executed


def test_a_success_ends_the_search_below_the_limit_too() -> None:
    found = lats(Script(proposed=PROPOSED, value=VALUES | {"a c": 1.0}), max_visited=1000)
    assert (found.path, found.executed) == ("a c", ["a", "b", "a c", "a b"])
