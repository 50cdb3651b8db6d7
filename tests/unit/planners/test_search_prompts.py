"""How engines answer what searches alone ask: whether to give up, which candidate is best, what a plan is worth."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from grid.core.engine import ChoiceAnswer, Prompt, Section, ToolCallAnswer, VoteAnswer
from grid.core.problem import Reference
from grid.core.types import FINISH, GIVE_UP, NO_TOOL, ToolCall, to_json
from grid.engines.lexical.engine import Lexical
from grid.engines.null import Null
from grid.engines.places import Places
from grid.engines.simulated.engine import Simulated
from grid.episode import prompts
from grid.episode.options import Options
from grid.planners.search import PLANNED
from grid.text.answers import read_call, read_vote
from grid.text.objects import UnreadableError
from tests.support.world import TOOLS

REFERENCE = Reference(
    {"0": ToolCall("find", {"order": "A-1"}), "1": ToolCall("book", {"quote": "Q-3"})}, ("1",), followed=False
)
TASK = Section("task", ("Query: Find order A-1 and book it.",))
RIGHT, WRONG = '0 -> {"tool": "find", "arguments": {"order": "A-1"}}', '0 -> {"tool": "other", "arguments": {"x": "?"}}'
NEXT, NOT_NEXT = (
    '1 -> {"tool": "book", "arguments": {"quote": "Q-3"}}',
    '1 -> {"tool": "book", "arguments": {"quote": "unknown"}}',
)
OFFER = prompts.offer(Options(tuple(TOOLS.values()), 2), may_finish=True, may_give_up=True)
CANDIDATES = tuple(f"2 steps:\n{RIGHT}\n{second}" for second in (NOT_NEXT, NEXT, NOT_NEXT))


def deciding(lines: Sequence[str], siblings: Sequence[str] = ()) -> Prompt:
    """The next call, where giving up is an option."""
    sections = prompts.history_section(lines), OFFER.section, prompts.siblings_section(siblings)
    return prompts.prompt(ToolCallAnswer(OFFER.cards, may_decline=False), TASK, *sections)


def given_up(auc: float, lines: Sequence[str], siblings: Sequence[str] = (), n: int = 2000) -> float:
    """The share of samples that give up."""
    engine = Simulated(judge_auc=auc, malformed=0.0).told(REFERENCE, TOOLS, 7)
    prompt = deciding(lines, siblings)
    sampled = asyncio.run(engine.sample(prompt, n=n, temperature=1.0, max_tokens=99, seed=3))
    return sum(read_call(text, OFFER.tools).tool == GIVE_UP for text in sampled.completions) / n


def test_the_simulated_policy_gives_up_as_well_as_it_judges() -> None:
    """Scores below 3 are those under the third of ten thresholds, d/2 - 1.25: Φ(-1.25) = 0.106 where d is 0."""
    bad, good = [f"{RIGHT} returned {{}}", f"{NOT_NEXT} returned {{}}"], [f"{RIGHT} returned {{}}"]
    assert (given_up(1.0, bad), given_up(1.0, good)) == (1.0, 0.0)
    assert (given_up(0.5, bad), given_up(0.5, good)) == pytest.approx((0.1056, 0.1056), abs=0.025)
    assert given_up(0.5, [f"{RIGHT} returned {{}}"]) == given_up(0.5, bad), "the draw is of the request"
    assert given_up(0.5, ()) == 0.0, "nothing was done that could be hopeless"


def test_siblings_do_not_confuse_whoever_reads_the_history() -> None:
    prompt = deciding([RIGHT], [WRONG, NOT_NEXT])
    place = Places(REFERENCE).at(prompt)
    assert (place.number, place.right, place.blind) == ("1", "book", True)
    assert Places(REFERENCE).failed(prompt) is None
    assert not Places(REFERENCE).at(deciding([f'{RIGHT} returned {{"item": 1}}'])).blind


@pytest.mark.parametrize("done", range(4))
def test_a_case_without_any_right_call_has_decisions_left_after_any_step(done: int) -> None:
    lines = [f'{step} -> {{"tool": "other", "arguments": {{}}}} failed: {{}}' for step in range(done)]
    left = Places(Reference({}, (), followed=False, unsolvable=True)).left(deciding(lines), 2)
    numbers = [(place.number, place.right) for place in left]
    assert numbers == [(str(step), FINISH if step else NO_TOOL) for step in range(done, done + 3)]


def voted(engine: object, candidates: tuple[str, ...], n: int, exact: bool = False) -> list[float]:
    """The shares of `n` votes, or what is told of them."""
    sections = (TASK, Section("candidates", ("Candidates:",), candidates))
    if exact:
        return [*asyncio.run(engine.choose(Prompt(sections, ChoiceAnswer(candidates)), seed=1)).probabilities]  # type: ignore[attr-defined]
    prompt = Prompt(sections, VoteAnswer(len(candidates)))
    sampled = asyncio.run(engine.sample(prompt, n=n, temperature=0.7, max_tokens=99, seed=1))  # type: ignore[attr-defined]
    votes = [read_vote(text, len(candidates)) for text in sampled.completions]
    return [votes.count(place) / n for place in range(len(candidates))]


def test_the_simulated_judge_votes_as_well_as_it_judges() -> None:
    """With an AUC of 1 the one right candidate always wins; with 0.5 each of three wins a third."""
    sure = Simulated(judge_auc=1.0, malformed=0.0).told(REFERENCE, TOOLS, 7)
    assert voted(sure, CANDIDATES, 50) == voted(sure, CANDIDATES, 1, exact=True) == [0, 1, 0]
    blind = Simulated(judge_auc=0.5, malformed=0.0).told(REFERENCE, TOOLS, 7)
    assert voted(blind, CANDIDATES, 3000) == pytest.approx([1 / 3] * 3, abs=0.04)


def test_a_vote_between_two_is_right_as_often_as_the_auc_says() -> None:
    engine = Simulated(judge_auc=0.8, malformed=0.0).told(REFERENCE, TOOLS, 7)
    assert voted(engine, CANDIDATES[:2], 4000)[1] == pytest.approx(0.8, abs=0.03)


def test_every_cheap_engine_votes() -> None:
    candidates = ("0 -> more rabbits", "0 -> find the order A-1 and book", "0 -> nothing")
    shares = voted(Lexical(), candidates, 200)
    assert shares[1] == max(shares) > 0.5
    assert max(voted(Lexical(), candidates, 1, exact=True)) > 0.5
    assert voted(Null(), candidates, 3) == [1, 0, 0]


def test_the_planned_steps_are_judged_as_planned() -> None:
    engine = Simulated(judge_auc=1.0, malformed=0.0).told(REFERENCE, TOOLS, 7)
    for lines, score in (([RIGHT, NEXT], 10), ([RIGHT, NOT_NEXT], 0)):
        shown = (TASK, prompts.history_section(lines), PLANNED)
        choice = asyncio.run(engine.choose(Prompt(shown, ChoiceAnswer(tuple(map(str, range(11))))), seed=0))
        assert choice.probabilities[score] == 1


@pytest.mark.parametrize(("text", "best"), [('{"best": 2}', 2), ('I think {"best": "1", "explanation": "so"}', 1)])
def test_a_vote_is_read(text: str, best: int) -> None:
    assert read_vote(text, 3) == best


@pytest.mark.parametrize("best", [3, -1, True, 1.5, "two", None, [1], "²"])
def test_a_vote_for_nobody_is_unreadable(best: object) -> None:
    with pytest.raises(UnreadableError):
        read_vote(to_json({"best": best}), 3)
