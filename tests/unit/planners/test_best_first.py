"""Best-first search on trees computed by hand."""

from __future__ import annotations

import random
from typing import Any

import pytest

from grid.core.types import Step, Substep
from grid.episode.prompts import step_text
from grid.planners.best_first import BestFirst
from tests.support.search import Letters, Score, Script, Searched, drawn_game, searched

PROPOSED = {"": "aabbc", "a": "bbbcc", "a b": ["c", "finish"], "a c": ["b", "b", "finish"]}
VALUES = {"a": 0.5, "a b": 0.2, "a c": 0.6, "a c b": 0.4, "a c finish": 0.9, "b": 0.7}


def best_first(script: Script, world: Letters | None = None, **keys: Any) -> Searched:
    """Of five samples the two most frequent, three calls a path, four states a search."""
    small = {"samples": 5, "branching": 2, "max_calls": 3, "expansions": 4}
    return searched(BestFirst(**(small | keys)), script, world=world)


def sampled(script: Script) -> list[str]:
    return [place for kind, place in dict.fromkeys(script.asked) if kind == "sample"]


def test_a_tree_by_hand() -> None:
    """Algorithm 1 with b = 2, c = 4, θ = 1. A state's priority is the value of the one before it; the root's is 0.

    The root: of 5 samples a and b have 2/5 and c 1/5, so that c is left out. The frontier holds a (0) and b (0).
    1. a: v = 0.5, the best so far. Behind it b has 3/5, c 2/5: ab (0.5), ac (0.5), b (0).
    2. ab, which was sampled more often than ac: v = 0.2. Behind it come abc and abf (f: finish), of priority 0.2.
    3. ac (0.5): v = 0.6, the best. acb, with 4/5 of the samples, and acf: priority 0.6.
    4. acb: v = 0.4. Four states were taken: commit to ac, the best. b was never run, though it is worth 0.7.
    The second search, from ac, knows what was sampled there.
    1. acb: v = 0.4, known. It is an end, the best so far.
    2. acf: v = 0.9, the best. The frontier is empty: commit to acf, which is an end.
    """
    script = Script(proposed=PROPOSED, value=VALUES)
    found = best_first(script)
    assert found.path == "a c finish"
    assert found.executed == ["a", "a b", "a c", "a c b", "a c finish"]
    assert found.world.executed == ["a", "a b", "a c", "a c b"]
    assert found.pruned == {"c": "top_k"}
    assert sampled(script) == ["", "a", "a b", "a c"]
    assert {place: found.nodes[place].value for place in found.executed} == {
        place: VALUES[place] for place in found.executed
    }
    assert found.episode.resolved_checks == 0


def test_a_state_of_the_threshold_is_committed_to_at_once() -> None:
    """θ = 0.5: a is, before b is taken; ac is, before what is behind ab; acf is. Of a judge of ones every state is."""
    found = best_first(Script(proposed=PROPOSED, value=VALUES), threshold=0.5, expansions=100)
    assert found.executed == ["a", "a b", "a c", "a c b", "a c finish"]
    script = Script(proposed=PROPOSED | {"*": "c"}, value=VALUES)
    assert "b" in best_first(script, expansions=100).executed
    assert best_first(Script(proposed=PROPOSED, value={"*": 1.0})).executed == ["a", "a b", "a b c"]


def test_depth_is_how_far_a_search_looks_ahead() -> None:
    """d = 1: each search values the two states behind its start: a 0.5 and b 0.7, then ba 0.1 and bc 0.3, then ends."""
    values = VALUES | {"b a": 0.1, "b c": 0.3, "b c a": 0.2, "b c finish": 0.1}
    proposed = PROPOSED | {"b": "aaacc", "b c": ["a", "finish"]}
    found = best_first(Script(proposed=proposed, value=values), depth=1)
    assert found.executed == ["a", "b", "b a", "b c", "b c a", "b c finish"]
    assert found.path == "b c a"


def test_the_best_end_is_returned_even_if_another_state_was_committed_to() -> None:
    """b ends at once, worth 0.3; a, worth 0.5, is committed to, and its ends are worth 0.1."""
    found = best_first(
        Script(proposed={"": ["a", "finish"], "a": ["finish"]}, value={"a": 0.5, "finish": 0.3, "a finish": 0.1})
    )
    assert found.executed == ["a", "a finish", "finish"]
    assert found.path == "finish"


def test_with_an_oracle_the_first_end_that_resolves_ends_it() -> None:
    """acb is asked about, once in two searches: no, whatever the judge says. acf is the same state as ac: yes."""
    script = Script(proposed=PROPOSED, value=VALUES | {"a c b": 1.0})
    found = best_first(script, Letters(resolving=frozenset({"a c"})), oracle_stop=True)
    assert found.path == "a c finish"
    assert found.episode.resolved_checks == 2


def test_an_oracle_that_always_says_no_ends_it_too() -> None:
    """acb and acf in two searches; the second has nothing to commit to, and b was dropped with the first's frontier."""
    found = best_first(Script(proposed=PROPOSED, value=VALUES), oracle_stop=True)
    assert (found.path, found.episode.resolved_checks) == ("a c finish", 2)


def test_a_search_without_a_state_to_commit_to_is_the_last() -> None:
    """At a the path's only call is proposed again."""
    found = best_first(Script(proposed={"*": "a"}, value=VALUES))
    assert (found.path, found.pruned) == ("a", {"a a": "repeated"})


@pytest.mark.parametrize("score", [0.0, 1.0, 0.5, "nothing that could be read"])
@pytest.mark.parametrize("proposed", ["abc", "?", "a", "aaaab"])
def test_it_ends_whatever_the_judge_says(score: float | str, proposed: str) -> None:
    """Of equals the one that was sampled more often stands, then the first."""
    values: dict[str, Score] = {"*": score} | ({"a": 0.4, "?": 0.4} if isinstance(score, str) else {})
    found = best_first(Script(proposed={"*": proposed}, value=values), repeats="state")
    assert found.path == ("a a a" if "a" in proposed else "? ? ?")


@pytest.mark.parametrize("seed", range(4))
def test_the_order_of_answers_changes_nothing(seed: int) -> None:
    proposed, values = drawn_game(seed, samples=5)

    def tree(delays: random.Random | None) -> list[tuple[Any, ...]]:
        found = best_first(Script(proposed=proposed, value=values, delays=delays), repeats="state")
        nodes = [(place, node.label, node.execution, node.value) for place, node in found.nodes.items()]
        return [*nodes, (found.path,)]

    assert tree(None) == tree(random.Random(1)) == tree(random.Random(2))


def test_who_judges_an_end_sees_that_it_is_one_and_reads_its_answer() -> None:
    script = Script(proposed={"": ["finish"]})
    best_first(script)
    (lines,) = [prompt.entries("history") for prompt in script.prompts if prompt.entries("history")]
    assert lines == ("Done so far:", '0 -> {"tool": "finish", "arguments": {}}')
    step = Step(0, Substep("3", "", ""), None, None, finished=True, thought="That is all.")
    told = '{"tool": "finish", "arguments": {"answer": "Paris"}}'
    assert step_text(step, answer="Paris") == f"3 -> Thought: That is all. {told}"
