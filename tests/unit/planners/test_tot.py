"""Tree of thoughts on a scripted game, against levels computed by hand."""

from __future__ import annotations

import random
from typing import Any

import pytest

from grid.core.engine import JUDGE, Prompt, VoteAnswer
from grid.core.errors import ModelError
from grid.core.types import GIVE_UP, Plan, Substep
from grid.episode.progress import Budget
from grid.planners.search import PLANNED
from grid.planners.tot import TreeOfThoughts
from tests.support.search import Letters, Script, Searched, searched

PROPOSED = {
    "": ["a", "b"],
    "a": ["finish", "b"],
    "b": ["c", "c1"],
    "b c1": ["finish", "a"],
}
VALUES: dict[str, float | list[float | str]] = {
    "a": [0.2, 0.4, 0.6],
    "b": 0.9,
    "b c": 0.3,
    "b c1": 0.7,
    "a finish": 0.7,
    "a b": 0.1,
    "b c1 finish": 0.6,
    "b c1 a": 0.2,
}
SMALL: dict[str, Any] = {"branching": 2, "beam": 2, "max_calls": 3, "thought": 0}
LEVELS = [
    ["b"] * 3 + ["a"] * 2,
    ["b c1", "a finish", "b c", "a finish", "b c1"],
    ["a finish"] * 3 + ["b c1 finish"] * 2,
]
OUTLINE = Plan((Substep("1", "go", ""), Substep("2", "go on", "")))


def script(**more: Any) -> Script:
    return Script(PROPOSED, value=VALUES, votes=[place for level in LEVELS for place in level], **more)


def found(world: Letters | None = None, budget: Budget | None = None, **values: Any) -> Searched:
    return searched(TreeOfThoughts(**SMALL | values), script(), world=world, budget=budget)


def test_levels_computed_by_hand() -> None:
    """k = 2, b = 2, three judgements of a chain.

    1. "a": (0.2 + 0.4 + 0.6) / 3 = 0.4, "b": 0.9. Kept: "b", "a".
    2. "b c" 0.3, "b c1" 0.7, "a finish" 0.7, "a b" 0.1. Kept: "b c1", "a finish", equals in their order.
    3. "b c1 finish" 0.6, "b c1 a" 0.2, and "a finish" as it is. Kept: "a finish", "b c1 finish". Both have ended.
    "a finish" is run. 2 + 4 + 2 chains were judged three times each; the one that had ended was not judged again.
    """
    done = found()
    assert (done.path, done.executed, done.world.executed) == ("a finish", ["a", "a finish"], ["a"])
    assert list(done.nodes) == ["", "a", "b", "b c", "b c1", "a finish", "a b", "b c1 finish", "b c1 a"]
    for place, value in {**VALUES, "a": 0.4}.items():
        assert done.nodes[place].value == pytest.approx(value, abs=1e-12)
    assert done.episode.spent[JUDGE].llm_calls == 8 * 3
    assert [improved.value for improved in done.episode.improvements] == [pytest.approx(0.7, abs=1e-12)]
    assert done.episode.resolved_checks == 0


def test_votes_computed_by_hand() -> None:
    """The same chains, by five votes a level.

    1. "b" 3/5, "a" 2/5. 2. "b c1" 2/5, "a finish" 2/5, "b c" 1/5. 3. "a finish" 3/5, "b c1 finish" 2/5.
    """
    done = found(evaluation="vote")
    assert (done.path, done.executed) == ("a finish", ["a", "a finish"])
    shares = {"b": 0.6, "a": 0.4, "b c1": 0.4, "b c": 0.2, "a b": 0.0, "a finish": 0.6, "b c1 finish": 0.4}
    assert {place: done.nodes[place].value for place in shares} == shares
    assert done.episode.spent[JUDGE].llm_calls == 3 * 5


def test_an_exact_judge_is_asked_once() -> None:
    done = searched(TreeOfThoughts(**SMALL), Script(PROPOSED, value=VALUES | {"a": 0.4}), form="digits")
    assert done.path == "a finish"
    assert done.nodes["a"].value == pytest.approx(0.4, abs=1e-12)
    assert done.episode.spent[JUDGE].forward_passes == 8


def test_a_judgement_without_a_score_is_asked_for_again_and_none_counts_as_the_lowest() -> None:
    """ "a": 0.2 and 0.6, then 0.4 for the one that could not be read. "b": of four times three answers none has any."""
    values: dict[str, float | str | list[float | str]] = {"a": [0.2, "no idea", 0.6, 0.4], "b": "no idea"}
    done = searched(TreeOfThoughts(**SMALL | {"max_calls": 1}), Script(PROPOSED, value=values))
    assert (done.path, done.nodes["b"].value) == ("a", 0.0)
    assert done.nodes["a"].value == pytest.approx(0.4, abs=1e-12)
    assert done.episode.spent[JUDGE].llm_calls == 4 + 12


def test_a_judge_that_never_scores_is_an_error() -> None:
    for evaluation in ("value", "vote"):
        with pytest.raises(ModelError):
            searched(
                TreeOfThoughts(**SMALL | {"evaluation": evaluation, "max_calls": 1}),
                Mute(PROPOSED, value={"*": "no idea"}),
            )


class Mute(Script):
    """Votes for nobody."""

    def _texts(self, prompt: Prompt, n: int) -> list[str]:
        return ["nobody"] * n if isinstance(prompt.answer, VoteAnswer) else super()._texts(prompt, n)


def test_no_thought_and_no_judgement_sees_what_a_call_returns() -> None:
    for evaluation in ("value", "vote"):
        done = found(evaluation=evaluation)
        assert not any(" returned " in prompt.text() for prompt in done.script.prompts)
    assert any(prompt.entries("proposal") == PLANNED.entries for prompt in found().script.prompts)


@pytest.mark.parametrize("evaluation", ["value", "vote"])
def test_thoughts_and_judgements_are_sampled_at_one_temperature(evaluation: str) -> None:
    assert {message.temperature for message in found(evaluation=evaluation).episode.messages} == {0.7}


def test_a_failed_call_does_not_end_the_chain() -> None:
    values = VALUES | {"b c1 finish": 0.9}
    world = Letters(failing=frozenset({"b"}))
    done = searched(TreeOfThoughts(**SMALL), Script(PROPOSED, value=values), world=world)
    assert done.path == "b c1 finish"
    assert [step.observation.failed for step in done.trajectory.steps if step.observation] == [True, False]


def test_with_an_oracle_the_chains_kept_are_run_until_one_resolves() -> None:
    done = found(Letters(resolving=frozenset({"b c1"})), oracle_stop=True)
    assert (done.path, done.episode.resolved_checks) == ("b c1 finish", 2)
    assert done.executed == ["a", "a finish", "b", "b c1", "b c1 finish"]
    assert found(oracle_stop=True).path == "a finish", "none resolves: the best stands"


@pytest.mark.parametrize(
    ("budget", "path"),
    [
        (Budget(llm_calls=1), ""),  # of two samples
        (Budget(llm_calls=9), "b"),  # a level is 2 + 2 x 3
        (Budget(steps=0), ""),
        (Budget(steps=1), "a finish"),
    ],
)
def test_a_used_up_budget_leaves_the_best_so_far(budget: Budget, path: str) -> None:
    assert found(budget=budget).path == path


def test_what_is_run_of_a_chain_is_the_result_where_the_steps_do_not_suffice() -> None:
    values = VALUES | {"b c1 finish": 0.9}
    done = searched(TreeOfThoughts(**SMALL), Script(PROPOSED, value=values), budget=Budget(steps=1))
    assert (done.path, done.episode.budget_reached) == ("b", "steps")


@pytest.mark.parametrize("evaluation", ["value", "vote"])
def test_the_order_of_answers_changes_nothing(evaluation: str) -> None:
    planner = TreeOfThoughts(**SMALL | {"evaluation": evaluation})
    runs = [searched(planner, script(delays=random.Random(seed) if seed else None)) for seed in range(4)]
    assert len({(run.path, tuple((place, node.value) for place, node in run.nodes.items())) for run in runs}) == 1


@pytest.mark.parametrize("said", [1.0, 0.0])
@pytest.mark.parametrize("word", [GIVE_UP, "?", "a", "finish"])
def test_whatever_is_always_answered_it_ends(word: str, said: float) -> None:
    done = searched(TreeOfThoughts(**SMALL), Script({"*": [word]}, value={"*": said}))
    assert done.path == {GIVE_UP: "? ? ?", "?": "? ? ?", "a": "a", "finish": "finish"}[word]


def test_an_outline_is_filled_to_its_end() -> None:
    done = searched(TreeOfThoughts(**SMALL), script(), plan=OUTLINE)
    assert (done.path, done.executed) == ("b c1", ["b", "b c1"])
