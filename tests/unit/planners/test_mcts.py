"""Plain UCT: a tree calculated by hand."""

from __future__ import annotations

import pytest

from grid.episode.progress import Budget
from grid.planners.mcts import MCTS
from tests.support.search import Letters, Script, searched

PROPOSED = {"": ["a", "b"], "a": ["c", "b", "c"], "b": ["a", "a", "c"]}
VALUE = {"a c": 0.4, "b a": 0.6, "a b": 0.9, "b c": 0.2}


def test_a_tree_calculated_by_hand() -> None:
    """Two actions a state, two calls a path, c = 1.4. What is simulated is in brackets.

    1. a [c]: 0.4. Q(a) = 0.4.
    2. b [a]: 0.6. Q(b) = 0.6.
    3. N = 2: the bonus is 1.4 √ln 2 = 1.166 for both, so b. Its actions are a and c. "b a", which was run: 0.6.
    4. N = 3. a: 0.4 + 1.4 √ln 3 = 1.867; b: 0.6 + 1.4 √(ln 3 / 2) = 1.638. Actions b and c. "a b": 0.9. Q(a) = 0.65.
    5. N = 4: the bonus is 1.4 √(ln 4 / 2) for both, so a. "a c": 0.4. Q(a) = 1.7 / 3.
    6. N = 5. a: 0.567 + 1.4 √(ln 5 / 3) = 1.592; b: 0.6 + 1.4 √(ln 5 / 2) = 1.856. "b c": 0.2. Q(b) = 1.4 / 3.
    7. N = 6. a: 0.567 + 1.4 √(ln 6 / 3) = 1.649; b: 0.467 + 1.4 √(ln 6 / 3) = 1.549. At a: "a b" is worth 0.9 and
       "a c" 0.4, both visited once. "a b" once more, at no cost: 0.9. Q(a) = 2.6 / 4, Q(a b) = 0.9.
    """
    known = Script(proposed=PROPOSED, value=VALUE)
    found = searched(MCTS(branching=2, max_calls=2, rollouts=7), known)
    assert found.visits == {"a": 4, "b": 3, "b a": 1, "b c": 1, "a b": 2, "a c": 1}
    values = {"a": 0.65, "b": 1.4 / 3, "b a": 0.6, "b c": 0.2, "a b": 0.9, "a c": 0.4}
    assert {place: found.nodes[place].value for place in values} == pytest.approx(values, abs=1e-12)
    assert found.executed == ["a", "b", "b a", "a b", "a c", "b c"]
    assert found.world.executed == ["a", "a c", "b", "b a", "a b", "b c"]
    assert found.path == "a b"
    assert [one.value for one in found.episode.improvements] == pytest.approx([0.4, 0.6, 0.9])
    assert found.trajectory.branches == 3  # further complete paths, each once
    judged = [place for kind, place in known.asked if kind == "value"]
    assert judged == ["a c", "b a", "a b", "b c"]


def test_what_was_simulated_may_be_the_answer() -> None:
    found = searched(MCTS(branching=2, max_calls=2, rollouts=2), Script(proposed=PROPOSED, value=VALUE))
    assert found.path == "b a"
    assert [node.label for node in found.episode.nodes] == ["0", "0.0", "0.1", "0.0.s", "0.1.s"]
    assert "b a" not in found.nodes


def test_a_simulation_ends_with_a_repeated_call() -> None:
    found = searched(MCTS(rollouts=1), Script(proposed={"*": ["a"]}))
    assert found.path == "a"
    assert found.episode.nodes[-1].pruned == "repeated"


def test_a_step_that_cannot_be_read_is_left_undone() -> None:
    found = searched(MCTS(rollouts=1, branching=1, max_calls=3), Script(proposed={"": ["a"], "*": ["?"]}))
    assert found.path == "a ? ?"


def test_the_oracle_stops_it_where_it_may() -> None:
    world = Letters(resolving=frozenset({"b a"}))
    found = searched(
        MCTS(branching=2, max_calls=2, oracle_stop=True), Script(proposed=PROPOSED, value=VALUE), world=world
    )
    assert (found.path, found.episode.resolved_checks) == ("b a", 2)


def test_a_used_up_budget_returns_the_best_so_far() -> None:
    known = Script(proposed=PROPOSED, value=VALUE)
    found = searched(MCTS(branching=2, max_calls=2), known, budget=Budget(steps=3))
    assert (found.path, found.episode.tool_calls, found.episode.budget_reached) == ("a c", 3, "steps")
