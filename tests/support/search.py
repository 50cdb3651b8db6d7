"""A scripted game for hand-computed trees: what is proposed, drafted and judged at which place is written down.

Places are words, as "a b1" (`tests/support/places.py`).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice
from typing import Any, ClassVar, Literal

from grid.core.engine import (
    CHOOSE,
    JUDGE,
    SAMPLE,
    Choice,
    ChoiceAnswer,
    Home,
    Prompt,
    Sampled,
    ScoreAnswer,
    TextAnswer,
    ToolCallAnswer,
    VoteAnswer,
)
from grid.core.types import (
    MAX_SCORE,
    Case,
    Demonstration,
    Observation,
    Plan,
    ToolCall,
    ToolSpec,
    Trajectory,
    Usage,
    to_json,
)
from grid.core.world import State, own_state
from grid.episode.episode import Episode, Planner
from grid.episode.judging import Judging
from grid.episode.progress import Budget
from grid.episode.tree import Node
from tests.support.engines import asks_for_arguments
from tests.support.places import (
    Kind,
    behind,
    candidates_of,
    judged,
    letter,
    place_of,
    place_of_node,
    word_of,
    word_of_step,
    written,
)

Score = float | str
"""In [0, 1]; a text is what the judge answers instead of a score."""
_ASKED_AGAIN = 3


@dataclass
class Script:
    """The engine, as actor and as judge. What is not written down is asked of the place "*".

    Args:
        proposed: by place, the words that are sampled there, in turn; behind the last the first comes again.
        shares: by place, the distribution over the words' tools that `choose` tells.
        drafted: by place and tool ("a b"), the word that asking for the tool's arguments gives; otherwise the tool.
        pre, post, value: what the judge says, by place; for `pre` and `post` that behind the call. Several scores are
            given in turn.
        votes: the places that are voted for, in turn.
        delays: wait so long (turns of the event loop) before each answer.
    """

    proposed: Mapping[str, Sequence[str]] = field(default_factory=dict)
    shares: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    drafted: Mapping[str, str] = field(default_factory=dict)
    pre: Mapping[str, Score | Sequence[Score]] = field(default_factory=dict)
    post: Mapping[str, Score | Sequence[Score]] = field(default_factory=dict)
    value: Mapping[str, Score | Sequence[Score]] = field(default_factory=dict)
    votes: Sequence[str] = ()
    delays: random.Random | None = None
    asked: list[tuple[str, str]] = field(default_factory=list)
    prompts: list[Prompt] = field(default_factory=list)
    provides: ClassVar[frozenset[str]] = frozenset({SAMPLE, CHOOSE})
    home: ClassVar[Home] = "task"
    name: ClassVar[str] = "test"
    sampler: ClassVar[None] = None
    version: str = "scripted"
    _given: dict[tuple[str, str], int] = field(default_factory=dict)

    async def sample(self, prompt: Prompt, *, n: int, temperature: float, max_tokens: int, seed: int) -> Sampled:
        texts = self._texts(prompt, n)
        self.prompts.append(prompt)
        await wait(self.delays)
        return Sampled(tuple(texts), Usage(llm_calls=n, input_tokens=10 * n, output_tokens=3 * n))

    async def choose(self, prompt: Prompt, *, seed: int) -> Choice:
        assert isinstance(prompt.answer, ChoiceAnswer)
        self.prompts.append(prompt)
        if prompt.entries("proposal"):
            shares = in_digits(self._score(*judged(prompt)))
        else:
            self.asked.append(("choose", place_of(prompt)))
            told = _at(self.shares, place_of(prompt), {})
            names = [option.split("(")[0].split(":")[0] for option in prompt.answer.options]
            shares = tuple(told.get(name, 0.0) for name in names)
        await wait(self.delays)
        return Choice(shares, Usage(forward_passes=1, input_tokens=7))

    def _texts(self, prompt: Prompt, n: int) -> list[str]:
        if isinstance(prompt.answer, ScoreAnswer):
            scores = [self._score(*judged(prompt)) for _ in range(n)]
            return [score if isinstance(score, str) else _in_words(score) for score in scores]
        if isinstance(prompt.answer, VoteAnswer):
            return [_ballot(word, candidates_of(prompt)) for word in self._in_turn("vote", "", self.votes, n)]
        here = place_of(prompt)
        if isinstance(prompt.answer, TextAnswer):
            self.asked.append(("reflect", here))
            return [f"{here} led nowhere."] * n
        assert isinstance(prompt.answer, ToolCallAnswer)
        if asks_for_arguments(prompt.answer):
            tool = prompt.answer.tools[0].name
            self.asked.append(("draft", behind(here, tool)))
            return [written(self.drafted.get(behind(here, tool), tool))] * n
        words = _at(self.proposed, here, ())
        return [written(word) for word in self._in_turn("sample", here, words, n)]

    def _score(self, kind: Kind, place: str) -> Score:
        known = {"pre": self.pre, "post": self.post, "value": self.value}[kind]
        said = _at(known, place, 0.5)
        scores: Sequence[Score] = [said] if isinstance(said, int | float | str) else said
        given: Score = self._in_turn(kind, place, scores, 1)[0]
        return given

    def _in_turn(self, kind: str, place: str, things: Sequence[Any], n: int) -> list[Any]:
        self.asked += [(kind, place)] * n
        given = self._given.get((kind, place), 0)
        self._given[kind, place] = given + n
        return list(islice(cycle(things), given, given + n))


@dataclass
class Letters:
    """A world whose state is the calls made so far, and each call returns where it led; some fail, some resolve."""

    failing: frozenset[str] = frozenset()
    resolving: frozenset[str] = frozenset()
    delays: random.Random | None = None
    executed: list[str] = field(default_factory=list)
    branches: ClassVar[bool] = True

    def start(self) -> State:
        return ()

    async def apply(self, state: State, call: ToolCall) -> tuple[State, Observation]:
        after = (*own_state(state, tuple), word_of(call))
        place = " ".join(after)
        self.executed.append(place)
        await wait(self.delays)
        if place in self.failing or "*" in self.failing:
            return state, Observation({"error": f"nothing at {place}"}, failed=True)
        return after, Observation({"at": place})

    def resolved(self, state: State) -> bool:
        return " ".join(own_state(state, tuple)) in self.resolving

    def answer(self, state: State) -> str | None:
        return " ".join(own_state(state, tuple)) or None


@dataclass
class Leaving(Letters):
    """The user leaves at some places, and whoever calls a tool behind one of them fails the test."""

    leaving: frozenset[str] = frozenset()

    async def apply(self, state: State, call: ToolCall) -> tuple[State, Observation]:
        assert not self.over(state), "a call after the end"
        return await super().apply(state, call)

    def over(self, state: State) -> bool:
        return " ".join(own_state(state, tuple)) in self.leaving

    def ended(self, state: State, answer: str | None) -> State:
        return state


@dataclass(frozen=True)
class Searched:
    """A finished search: what was returned, and its tree by place."""

    trajectory: Trajectory
    episode: Episode
    script: Script
    world: Letters

    @property
    def path(self) -> str:
        """The place that was returned."""
        return " ".join(map(word_of_step, self.trajectory.steps))

    @property
    def nodes(self) -> dict[str, Node]:
        """The tree by place, in the order in which its nodes were made; without what was simulated beside it."""
        return {place_of_node(node): node for node in self.episode.nodes if ".s" not in node.label}

    @property
    def executed(self) -> list[str]:
        """The places in the order of execution."""
        done = {node.execution: place for place, node in self.nodes.items() if node.execution is not None}
        return [done[place] for place in sorted(done)]

    @property
    def pruned(self) -> dict[str, str]:
        """By place, why it was pruned."""
        return {place: node.pruned for place, node in self.nodes.items() if node.pruned}

    @property
    def visits(self) -> dict[str, int]:
        """N(s, a) by place, of those that were visited."""
        return {place: node.visits for place, node in self.nodes.items() if node.visits}


def drawn_game(seed: int, samples: int) -> tuple[dict[str, list[str]], dict[str, float]]:
    """What is proposed, and what the judge says of all steps so far, by place: drawn, three levels deep."""
    rng = random.Random(seed)
    places = ["", *"abc", *(f"{first} {second}" for first in "abc" for second in "abc")]
    proposed = {place: rng.choices("abc?", k=samples) for place in places}
    return proposed, {"*": 0.4} | {place: rng.randrange(10) / 10 for place in places}


def searched(
    planner: Planner,
    script: Script,
    *,
    tools: str = "abc",
    world: Letters | None = None,
    plan: Plan = Plan(()),  # noqa: B008 - immutable
    budget: Budget | None = None,
    seed: int = 1,
    form: Literal["text", "digits"] = "text",
    solved: Sequence[Demonstration] = (),
) -> Searched:
    """A planner's search in the game; the actor is the judge."""
    world = world or Letters(delays=script.delays)
    offered = [letter(name) for name in tools]
    run = episode(script, world, tools=offered, plan=plan, budget=budget, seed=seed, form=form, solved=solved)
    return Searched(asyncio.run(planner.solve(run)), run, script, world)


def episode(
    script: Any,
    world: Any,
    *,
    tools: Sequence[ToolSpec],
    plan: Plan = Plan(()),  # noqa: B008 - immutable
    budget: Budget | None = None,
    seed: int = 1,
    form: Literal["text", "digits"] = "text",
    solved: Sequence[Demonstration] = (),
) -> Episode:
    """An episode of the game."""
    offered = tuple(tools)
    return Episode(
        Case("game", "Go to the right place.", plan),
        world,
        script,
        lambda case, substep: offered,
        budget or Budget(),
        seed,
        query_tools=max(len(offered), 1),
        demonstrations=lambda count: tuple(solved[:count]),
        roles={JUDGE: script},
        judging=Judging(form=form, max_retries=_ASKED_AGAIN),
    )


def in_digits(score: Score) -> tuple[float, ...]:
    """A distribution over the scores whose expectation is this one; a text stands for none."""
    place = 0.0 if isinstance(score, str) else score * MAX_SCORE
    low = min(int(place), MAX_SCORE - 1)
    shares = [0.0] * (MAX_SCORE + 1)
    shares[low], shares[low + 1] = low + 1 - place, place - low
    return tuple(shares)


async def wait(delays: random.Random | None) -> None:
    """So many turns of the event loop: delays without a clock."""
    if delays is not None:
        for _ in range(delays.randrange(20)):
            await asyncio.sleep(0)


def _at(known: Mapping[str, Any], place: str, otherwise: Any) -> Any:
    return known.get(place, known.get("*", otherwise))


def _ballot(place: str, candidates: Sequence[str]) -> str:
    return to_json({"best": candidates.index(place), "explanation": "It is written so."})


def _in_words(score: float) -> str:
    return to_json({"score": f"{score * MAX_SCORE:.9g}/{MAX_SCORE}", "explanation": "It is written so."})
