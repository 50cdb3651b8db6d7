"""What holds of every search with a backup, whatever is proposed, judged and answered, and in whatever order."""

from __future__ import annotations

import math
import random
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grid.core.util import derive_seed
from grid.episode.progress import Budget
from grid.episode.tree import Node
from grid.planners.mcts import MCTS
from grid.planners.tooltree import ToolTree
from tests.support.search import Letters, Script, Searched, searched

WORDS = ("a", "b", "c", "a1", "b1", "finish", "?")
KEYS = st.fixed_dictionaries(
    {
        "branching": st.integers(1, 5),
        "rollouts": st.integers(1, 25),
        "max_calls": st.integers(1, 5),
        "exploration": st.sampled_from([0.0, 0.5, 1.4]),
        "repeats": st.sampled_from(["path", "state"]),
    }
)
OF_TOOLTREE = st.fixed_dictionaries(
    {
        "annealing": st.sampled_from([0.5, 1.0]),
        "candidates": st.sampled_from(["sampled", "tools", "tools_alone"]),
        "prior": st.sampled_from(["judge", "policy"]),
        "unvisited": st.sampled_from(["first", "drawn", "prior"]),
        "state_visits": st.sampled_from(["below", "own"]),
        "empty_rollouts": st.sampled_from(["counted", "free"]),
        "result": st.sampled_from(["best", "greedy"]),
        "post_pruned": st.sampled_from(["kept", "left_out"]),
        "stop_by": st.sampled_from(["trajectory", "root"]),
        "rollout": st.sampled_from(["node", "end"]),
        "worth": st.sampled_from(["mean", "product", "last", "judge"]),
        "pre_pruning": st.booleans(),
        "post_pruning": st.booleans(),
        "pre_evaluation": st.booleans(),
        "post_evaluation": st.booleans(),
        "dead_end": st.sampled_from(["reopen", "stop"]),
        "patience": st.sampled_from([3, 10]),
    }
)
AS_WRITTEN: dict[str, Any] = {"rollout": "node", "dead_end": "stop", "state_visits": "below", "result": "best"}
"""With equation 1 as the paper has it, and no call but those that it selects."""
TOOLTREES = st.builds(lambda general, own: ToolTree(**general, **own), KEYS, OF_TOOLTREE)
MCTSES = st.builds(lambda general: MCTS(**general), KEYS)
FEW = settings(max_examples=40, deadline=None)


class Drawn(dict[str, Any]):
    """Something for every place, drawn from a seed."""

    def __init__(self, seed: int, kind: str) -> None:
        super().__init__()
        self.key = seed, kind

    def get(self, place: str, default: Any = None) -> Any:
        rng = random.Random(derive_seed(self.key[0], self.key[1], place))
        if self.key[1] == "proposed":
            return rng.choices(WORDS, k=5)
        if self.key[1] == "shares":
            shares = [rng.random() for _ in range(4)]
            return {word: share / sum(shares) for word, share in zip(("a", "b", "c", "finish"), shares, strict=True)}
        return rng.randrange(11) / 10


def drawn(seed: int, delays: random.Random | None = None) -> Script:
    kinds = ("proposed", "shares", "pre", "post", "value")
    known: dict[str, Any] = {kind: Drawn(seed, kind) for kind in kinds}
    return Script(**known, delays=delays)


def failing(seed: int) -> frozenset[str]:
    """About a third of the places of one and two calls."""
    words = ("a", "b", "c", "a1", "b1")
    places = [*words, *(f"{one} {two}" for one in words for two in words)]
    return frozenset(place for place in places if derive_seed(seed, "fails", place) % 3 == 0)


def grown(planner: Any, seed: int, delays: random.Random | None = None, budget: Budget | None = None) -> Searched:
    world = Letters(failing(seed), delays=delays)
    return searched(planner, drawn(seed, delays), world=world, budget=budget, seed=seed)


def rows(found: Searched) -> list[tuple[Any, ...]]:
    """All that is told of the nodes, and what was returned."""
    return [
        (
            node.label,
            node.place,
            node.r_pre,
            node.r_post,
            node.visits,
            node.value,
            node.pruned,
            node.execution,
            node.spent,
        )
        for node in found.episode.nodes
    ] + [(found.path, *(improvement.value for improvement in found.episode.improvements))]


def tree(found: Searched) -> list[Node]:
    return [node for node in found.episode.nodes if ".s" not in node.label]


@FEW
@given(TOOLTREES, st.integers(0, 10_000))
def test_q_is_the_mean_of_the_rewards_that_passed(planner: ToolTree, seed: int) -> None:
    passed: dict[str, list[float]] = {}
    found = grown(planner, seed)
    for node in tree(found):
        if node.execution is not None and node.visits:
            prior = node.r_pre if planner.pre_evaluation and node.r_pre is not None else 1.0
            reward = node.r_post if planner.post_evaluation and node.r_post is not None else prior
            for edge in node.edges():
                passed.setdefault(edge.label, []).append(reward)
    for node in tree(found)[1:]:
        rewards = passed.get(node.label, [])
        assert node.visits == len(rewards)
        assert node.value == pytest.approx(math.fsum(rewards) / max(len(rewards), 1), abs=1e-12)


@FEW
@given(st.one_of(TOOLTREES, MCTSES), st.integers(0, 10_000))
def test_visits(planner: Any, seed: int) -> None:
    """N(s) is the sum over its edges; an edge's are its own first and those below it, or, at an end, its own."""
    found = grown(planner, seed)
    for node in tree(found):
        assert node.visits_below == sum(child.visits for child in node.children)
        if node.parent is not None and node.visits_below:
            assert node.visits >= node.visits_below + 1
        if node.pruned:
            assert node.visits == (node.pruned == "post")
            assert not any(child.visits for child in node.children)
    if isinstance(planner, MCTS):
        assert found.episode.nodes[0].visits_below == planner.rollouts


@FEW
@given(st.one_of(TOOLTREES, MCTSES), st.integers(0, 10_000))
def test_a_call_is_run_once_from_a_state(planner: Any, seed: int) -> None:
    found = grown(planner, seed)
    assert max(Counter(found.world.executed).values(), default=1) == 1
    assert found.episode.tool_calls == len(found.world.executed)


@FEW
@given(st.one_of(TOOLTREES, MCTSES), st.integers(0, 10_000), st.integers(0, 10_000))
def test_the_order_of_answers_changes_nothing(planner: Any, seed: int, delays: int) -> None:
    """Whatever comes when: the same tree, and the same answer."""
    assert rows(grown(planner, seed)) == rows(grown(planner, seed, random.Random(delays)))


@FEW
@given(
    st.one_of(TOOLTREES, MCTSES), st.integers(0, 10_000), st.integers(0, 8), st.integers(0, 40), st.integers(0, 2000)
)
def test_budgets_are_not_exceeded_by_more_than_is_in_flight(
    planner: Any, seed: int, steps: int, llm_calls: int, tokens: int
) -> None:
    """In flight are a sampled batch, a draft for each option, or a judgement for each child."""
    budget = Budget(steps=steps, llm_calls=llm_calls, tokens=tokens)
    found = grown(planner, seed, random.Random(seed), budget)
    spent = found.script.prompts
    batch = max(planner.branching, 4)
    used = sum(usage.llm_calls + usage.forward_passes for usage in found.episode.spent.values())
    assert found.episode.tool_calls <= steps
    assert used <= llm_calls + batch - 1
    assert (
        sum(usage.input_tokens + usage.output_tokens for usage in found.episode.spent.values()) <= tokens + 13 * batch
    )
    assert len(spent) <= used


@FEW
@given(TOOLTREES.map(lambda one: replace(one, **AS_WRITTEN)), st.integers(0, 10_000))
def test_every_selection_is_of_the_highest_score(planner: ToolTree, seed: int) -> None:
    """The tree is grown again from its order of execution, with equation 1 as it is written in the paper."""
    planner = replace(planner, unvisited="first") if planner.unvisited == "drawn" else planner
    found = grown(planner, seed)
    made = tree(found)
    for node in sorted((node for node in made if node.execution is not None), key=lambda node: node.execution or 0):
        done = [one for one in made if one.execution is not None and one.execution < (node.execution or 0)]
        for depth, edge in enumerate(reversed([*node.edges()])):
            assert edge.parent is not None
            others = [one for one in edge.parent.children if one.pruned in (None, "post") and _may(planner, one, done)]
            scores = {one.label: _score(planner, one, others, done, depth) for one in others}
            assert scores[edge.label] == pytest.approx(max(scores.values()), abs=1e-12)


def _below(edge: Node, done: list[Node]) -> list[float]:
    """The rewards that had passed an edge."""
    return [_reward(one) for one in done if one is edge or one.label.startswith(edge.label + ".")]


def _reward(node: Node) -> float:
    return node.value if node.visits == 1 else next(r for r in (node.r_post, node.r_pre, 1.0) if r is not None)


def _may(planner: ToolTree, edge: Node, done: list[Node]) -> bool:
    """Whether there was a way on below an edge: it was not run, or something below was not, or was not expanded."""
    if edge not in done:
        return True
    if edge.pruned == "post" or edge.path is None or edge.path.finished or len(edge.path.steps) >= planner.max_calls:
        return False
    return not edge.children or any(one.pruned in (None, "post") and _may(planner, one, done) for one in edge.children)


def _score(planner: ToolTree, edge: Node, others: list[Node], done: list[Node], depth: int) -> float:
    assert edge.parent is not None
    passed = _below(edge, done)
    siblings = sum(len(_below(one, done)) for one in edge.parent.children)
    prior = edge.r_pre if planner.pre_evaluation and edge.r_pre is not None else 1.0
    strength = planner.exploration * planner.annealing**depth * prior
    if passed:
        return sum(passed) / len(passed) + strength * math.sqrt(math.log(siblings) / len(passed))
    if planner.unvisited == "first":
        return 1e9 + prior
    return prior + strength * math.sqrt(math.log(siblings + 1))
