"""DFSDT on a scripted game, against trees computed by hand."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import pytest

from grid.core.engine import JUDGE, ToolCallAnswer
from grid.core.types import GIVE_UP, NO_TOOL, Plan, Substep
from grid.episode.progress import Budget
from grid.planners.dfsdt import DFSDT
from tests.support.search import Letters, Script, Searched, searched

TREE = {
    "": ["a", "b"],
    "a": ["c", "b"],
    "a c": [GIVE_UP],
    "a b": ["b1", "b2"],
    "b": ["finish"],
}
SHALLOW: dict[str, Any] = {"max_calls": 3, "thought": 0}
OUTLINE = Plan((Substep("1", "go", ""), Substep("2", "go on", "")))


def found(script: Script | None = None, world: Letters | None = None, **values: Any) -> Searched:
    return searched(DFSDT(**SHALLOW | values), script or Script(TREE), world=world)


def test_a_tree_computed_by_hand() -> None:
    """Width 2, depth 3.

    1. "a" is entered, then "a c", which gives up: two levels back, so not another child of "a c" but of "a".
    2. "a b": its children "a b b1" and "a b b2" are cut off at depth 3, each one level back. "a b" has no more
       children, "a" neither.
    3. "b", and "b finish" ends the search. 8 requests.
    Values: depth / (3 + 1), and 1 at the end. Better than all before: "a" 1/4, "a c" 2/4 ("a b" is not), "a b b1" 3/4,
    which is complete, "b finish" 1.
    """
    done = found()
    assert done.path == "b finish"
    assert done.executed == ["a", "a c", "a b", "a b b1", "a b b2", "b", "b finish"]
    assert done.pruned == {"a c give_up": "given_up"}
    assert len(done.episode.messages) == 8
    assert [improved.value for improved in done.episode.improvements] == [0.25, 0.5, 0.75, 1.0]
    assert done.episode.resolved_checks == 0


@pytest.mark.parametrize(
    ("requests", "path"), [(0, ""), (1, "a"), (4, "a c"), (5, "a b b1"), (7, "a b b1"), (8, "b finish")]
)
def test_the_longest_path_is_the_result_where_requests_run_out(requests: int, path: str) -> None:
    done = found(requests=requests)
    assert done.path == path
    assert len(done.episode.messages) == requests
    assert done.episode.budget_reached is None


def test_a_further_child_is_shown_those_before_it_and_what_became_of_them() -> None:
    asked = [prompt for prompt in found().script.prompts if isinstance(prompt.answer, ToolCallAnswer)]
    assert [len(prompt.entries("siblings")) for prompt in asked] == [0, 0, 0, 3, 0, 3, 3, 0]
    assert ' -> {"tool": "c", "arguments": {}} returned {"at": "a c"}' in asked[3].entries("siblings")[1]
    assert ' -> {"tool": "a", "arguments": {}} returned {"at": "a"}' in asked[6].entries("siblings")[1]


def test_what_a_sibling_was_is_told_also_where_it_was_not_run() -> None:
    script = Script({"": ["a"], "a": ["a", GIVE_UP], "*": ["finish"]})
    done = found(script, order="compared", branching=3)
    told = [prompt.entries("siblings")[1:-1] for prompt in done.script.prompts if prompt.entries("siblings")]
    assert ('{"tool": "a", "arguments": {}}: not run, because it was made before',) in told
    assert any(lines[1:] == ("give_up: the attempt would have been abandoned",) for lines in told)


def test_children_are_compared_in_pairs() -> None:
    """Width 2, depth 3. Of each pair either is scored against the other: the higher gets a point, else half each.

    1. "a" (0.2) and "b" (0.8) are run and compared: "b" has 1 point and is entered first.
    2. "b c" and "b finish" (0.5 each): half a point each, "b c" was first.
    3. "b c a" and giving up: the one that can be run is first, without a comparison. It is cut off at depth 3. Then
       giving up goes back two levels, to "b", whose next child ends the search.
    """
    script = Script(
        {"": ["a", "b"], "b": ["c", "finish"], "b c": [GIVE_UP, "a"]},
        post={"a": 0.2, "b": 0.8, "b c": 0.5},
        pre={"b finish": 0.5},
    )
    done = found(script, order="compared")
    assert done.path == "b finish"
    assert done.executed == ["a", "b", "b c", "b finish", "b c a"]
    assert {place: node.value for place, node in done.nodes.items() if node.value} == {
        "b": 1,
        "b c": 0.5,
        "b finish": 0.5,
    }
    assert len(done.episode.messages) == 6 + 4


@dataclass
class Recursive:
    """The released code's recursion over a random tree: what a child gives back counts levels, each takes one away."""

    rng: random.Random
    oracle_stop: bool
    tree: dict[str, list[str]] = field(default_factory=dict)
    executed: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.width, self.deepest = self.rng.randint(1, 3), self.rng.randint(1, 4)
        self.levels_back("", 0)

    def levels_back(self, place: str, depth: int) -> int:
        words = [f"{name}{depth}" for name in "abc"] + [GIVE_UP, "finish"]
        self.tree[place] = self.rng.sample(words, self.width)
        for word in self.tree[place]:
            back = 2 if word in (GIVE_UP, "finish") else 1
            if word != GIVE_UP:
                self.executed.append(f"{place} {word}".strip())
            if word == "finish" and not self.oracle_stop:
                return 100
            if back == 1 and depth + 1 < self.deepest:
                back = self.levels_back(self.executed[-1], depth + 1)
            if back > 1:
                return back - 1
        return 1


@pytest.mark.parametrize("oracle_stop", [False, True])
def test_random_trees_are_entered_in_the_order_of_the_released_recursion(oracle_stop: bool) -> None:
    for seed in range(150):
        told = Recursive(random.Random(seed), oracle_stop)
        done = found(Script(told.tree), branching=told.width, max_calls=told.deepest, oracle_stop=oracle_stop)
        assert done.executed == told.executed


def test_a_judge_is_needed_for_comparisons_only() -> None:
    assert JUDGE not in DFSDT().needs
    assert JUDGE in DFSDT(order="compared").needs
    assert not [message for message in found().episode.messages if message.role == JUDGE]


def test_comparisons_never_exceed_the_requests() -> None:
    done = found(Script({"*": ["a", "b", "c"]}), order="compared", branching=3, requests=8)
    assert len(done.episode.messages) == 3, "six comparisons are too many"
    assert done.path == ""


def test_with_an_oracle_an_end_that_does_not_resolve_backs_up_two_levels_as_well() -> None:
    """ "a finish" does not resolve: "a" has no further child, and "b" is entered. "b finish" does."""
    proposed = {"": ["a", "b"], "a": ["finish", "c"], "b": ["finish"]}
    done = found(Script(proposed), Letters(resolving=frozenset({"b"})), oracle_stop=True)
    assert (done.path, done.executed) == ("b finish", ["a", "a finish", "b", "b finish"])
    assert done.episode.resolved_checks == 2
    never = found(Script(proposed), oracle_stop=True)
    assert (never.path, never.episode.resolved_checks) == ("a finish", 2)


@pytest.mark.parametrize("order", ["sampled", "compared"])
@pytest.mark.parametrize("word", [GIVE_UP, "?", "a", "none"])
def test_whatever_is_always_answered_it_ends(word: str, order: str) -> None:
    done = found(Script({"*": [word]}), order=order)
    assert len(done.episode.messages) <= 200
    assert done.path == {GIVE_UP: "", "?": "? ? ?", "a": "a", "none": "? ? ?"}[word]


def test_giving_up_is_an_option_under_an_outline_and_without_one() -> None:
    """The outline's end is the path's: "a" leads to giving up, "b" to the end."""
    script = Script({"": ["a", "b"], "a": [GIVE_UP], "b": ["none"]})
    done = searched(DFSDT(thought=0), script, plan=OUTLINE)
    assert (done.path, done.executed) == ("b none", ["a", "b", "b none"])
    for run, other in ((done, NO_TOOL), (found(), "finish")):
        for prompt in run.script.prompts:
            names = [line.partition(". ")[2].split("(")[0].split(":")[0] for line in prompt.entries("tools")[1:]]
            assert names.index(GIVE_UP) == names.index(other) + 1
    assert all(GIVE_UP not in step.candidates for step in done.trajectory.decisions)


def test_outcomes_are_cut_in_its_prompts_alone() -> None:
    script = Script({"": ["a"], "a": ["b"], "a b": ["finish"]})
    done = found(script, most_observed=6)
    lines = [line for prompt in done.script.prompts for line in prompt.entries("history")[1:]]
    assert {line.partition(" returned ")[2] for line in lines} == {'{"at":...'}
    observation = done.trajectory.steps[0].observation
    assert observation is not None
    assert observation.text() == '{"at": "a"}'


@pytest.mark.parametrize("order", ["sampled", "compared"])
def test_the_order_of_answers_changes_nothing(order: str) -> None:
    post = {"a": 0.2, "b": 0.8, "a c": 0.4}
    runs = [
        found(Script(TREE, post=post, delays=random.Random(seed) if seed else None), order=order) for seed in range(4)
    ]
    trees = {tuple((node.label, node.execution, node.value) for node in run.episode.nodes) for run in runs}
    assert (len(trees), len({run.path for run in runs})) == (1, 1)


@pytest.mark.parametrize(
    ("budget", "path"), [(Budget(steps=0), ""), (Budget(steps=2), "a c"), (Budget(llm_calls=5), "a b b1")]
)
def test_a_used_up_budget_leaves_the_best_so_far(budget: Budget, path: str) -> None:
    done = searched(DFSDT(**SHALLOW), Script(TREE), budget=budget)
    assert done.path == path
    assert done.episode.budget_reached in ("steps", "llm_calls")
