"""What a planner is, and the episode that it acts in."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, Protocol

from grid.datasets.base import Candidates, Demonstrations
from grid.engines.base import Choice, Engine, Prompt
from grid.engines.roles import ACTOR, JUDGE, Role
from grid.errors import BudgetError, ContextError, ToolError
from grid.planners.options import QUERY, Options, Retrieved, in_order
from grid.planners.requests import Answers, Message, Requests
from grid.text import references
from grid.types import Case, Demonstration, Observation, Step, Substep, ToolCall, ToolSpec, Trajectory, Usage
from grid.worlds.base import State, World

if TYPE_CHECKING:
    from grid.planners.judging import Scoring
    from grid.planners.search.tree import Node

__all__ = ["ACTOR", "JUDGE", "Answers", "Budget", "Episode", "Executed", "Improvement", "Message", "Planner", "Role"]


@dataclass(frozen=True)
class Budget:
    """How much one episode may use before it is stopped, and what is best so far is its result.

    `steps` are executed calls, `llm_calls` completions and scoring passes, `tokens` those in and out, all of every
    role that a planner asks; `seconds` are of the case's own time; None: without limit. They are looked at before each
    request and each call, so that what is used goes beyond them by what is in flight at most: of tokens and seconds, by
    the requests that were sent side by side.
    """

    llm_calls: int = 5000
    steps: int = 1000
    tokens: int | None = None
    seconds: float | None = None
    prompt_characters: int = 1_000_000
    observation_characters: int = 100_000


class Improvement(NamedTuple):
    """A trajectory that was better than all before, and what had been used when it was found.

    `value` is what the planner takes it to be worth, None where it has no measure; `node` its place in a search tree.
    """

    trajectory: Trajectory
    value: float | None
    node: str | None
    tool_calls: int
    usage: Usage
    seconds: float


class Executed(NamedTuple):
    """The state after a call, the call with its references filled in, and what it returned; None without a call."""

    state: State
    call: ToolCall | None
    observation: Observation | None


class Episode:
    """One case being solved: the only thing a planner sees.

    `seed` (64 bits) is the cell's; every request derives its own from it (`Requests`). `decisions` keeps every step
    that was performed, so that an episode that breaks off still shows how far it got; `messages` all that was asked and
    answered, `spent` what each role did, `improvements` the trajectories that were the best so far, `nodes` a search's
    tree. World, engines and dataset are behind the verbs: nothing public leads to the reference, and nothing to what
    the world itself asks.
    """

    def __init__(
        self,
        case: Case,
        world: World,
        engine: Engine,
        candidates: Candidates,
        budget: Budget,
        seed: int,
        *,
        parts: tuple[Substep, ...] = (),
        query_tools: int = 50,
        dynamic: bool = False,
        order_seed: int | None = None,
        demonstrations: Demonstrations = lambda count: (),
        roles: Mapping[Role, Engine] = MappingProxyType({}),
        judging: Scoring | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        """`parts` are the substeps whose candidates make the tools of the whole query, `query_tools` at most.

        `dynamic`: anew for every decision. `order_seed` draws the order of the options; None: as retrieved.
        `engine` acts, `roles` are the engines of the other roles. `clock` tells the seconds that the case has used.
        """
        self.case, self.budget, self.seed = case, budget, seed
        self.tool_calls = self.resolved_checks = 0
        self.decisions: list[Step] = []
        self.improvements: list[Improvement] = []
        self.first_pass: Callable[[], Trajectory] | None = None
        self.budget_reached: str | None = None
        self.nodes: list[Node] = []
        began = time.monotonic()
        self.__clock = clock or (lambda: time.monotonic() - began)
        self.__world, self.__judging = world, judging
        self.__requests = Requests({ACTOR: engine, **roles}, seed, self._allow)
        self.messages: list[Message] = self.__requests.messages
        self.spent: dict[Role, Usage] = self.__requests.spent
        self.__retrieved, self.__order_seed = Retrieved(candidates, parts, query_tools, dynamic), order_seed
        self.__of_query: dict[str, tuple[ToolSpec, ...]] = {}
        self.__demonstrations = demonstrations
        self.__begun = False
        self.__latest: State = None

    @property
    def usage(self) -> Usage:
        """What the acting model has spent."""
        return self.spent[ACTOR]

    def options(self, substep: Substep | None, steps: Sequence[Step] = (), most: int | None = None) -> Options:
        """What a decision behind `steps` may take, `most` options at most (the best tools), in the setting's order.

        The tools are the substep's; None: those of the whole query.
        """
        sought = self.__retrieved.sought(steps)
        if substep is not None:
            tools, step = self.__retrieved.tools(self.case, substep, sought), substep.id
        else:
            if sought not in self.__of_query:
                self.__of_query[sought] = self.__retrieved.tools(self.case, None, sought)
            tools, step = self.__of_query[sought], QUERY
        return in_order(tools, self.__order_seed, self.case.id, step, most, sought)

    def demonstrations(self, count: int) -> tuple[Demonstration, ...]:
        """The `count` solved questions nearest to the case's; none where the dataset has none."""
        return tuple(self.__demonstrations(count))

    async def sample(
        self,
        prompt: Prompt,
        *key: object,
        n: int = 1,
        temperature: float = 1.0,
        max_tokens: int = 512,
        role: Role = ACTOR,
    ) -> Answers:
        """`n` completions and what they cost; `key` names the decision.

        Raises:
            BudgetError: the budget is used up.
            ContextError: too long a prompt.
        """
        return await self.__requests.sample(role, prompt, *key, n=n, temperature=temperature, max_tokens=max_tokens)

    async def choose(self, prompt: Prompt, *key: object, role: Role = ACTOR) -> Choice:
        """The exact distribution over the prompt's numbered options; `key` names the decision. Raises as `sample`."""
        return await self.__requests.choose(role, prompt, *key)

    async def judge(self, prompt: Prompt, *key: object, samples: int = 1, temperature: float = 0.0) -> float:
        """The judge's score in [0, 1] of what the prompt's sections show, by the criteria that they give.

        The mean of so many sampled ones; a distribution over the scores has no need of samples.

        Raises:
            ModelError: answers without a score, after all retries.
            RuntimeError: the planner's `needs` do not name a JUDGE.
        """
        if self.__judging is None:
            raise RuntimeError("a planner that asks a judge has JUDGE in its `needs`")
        return await self.__judging.score(
            self.__requests, JUDGE, prompt, JUDGE, *key, samples=samples, temperature=temperature
        )

    async def vote(
        self, prompt: Prompt, candidates: Sequence[str], *key: object, samples: int, temperature: float
    ) -> list[float]:
        """The share of the judge's votes that each candidate gets. Raises as `judge`."""
        if self.__judging is None:
            raise RuntimeError("a planner that asks a judge has JUDGE in its `needs`")
        return await self.__judging.vote(
            self.__requests, JUDGE, prompt, candidates, JUDGE, *key, samples=samples, temperature=temperature
        )

    def start(self) -> State:
        """The world before any call.

        Raises:
            ToolError: it was begun already and cannot begin again.
        """
        if self.__begun and not self.__world.branches:
            raise ToolError(f"{type(self.__world).__name__} cannot begin again")
        self.__begun, self.__latest = True, self.__world.start()
        return self.__latest

    async def execute(self, state: State, call: ToolCall, steps: tuple[Step, ...]) -> Executed:
        """Fill references from the outputs of `steps`, and run the call from a state.

        Raises:
            BudgetError: the budget is used up.
            ToolError: too long an observation, a state that cannot be hashed, or a second call from a state of a world
                that cannot branch.
        """
        self._within(steps=1)
        if state is not self.__latest and not self.__world.branches:
            raise ToolError(f"{type(self.__world).__name__} cannot go on from an earlier state")
        self.tool_calls += 1
        concrete = references.resolve(call, references.outputs_of(steps)) if references.refers(call) else call
        after, observation = await self.__world.apply(state, concrete)
        try:
            hash(after)
        except TypeError as error:
            raise ToolError(f"{type(self.__world).__name__}: a state must be hashable ({error})") from None
        size, allowed = len(observation.text()), self.budget.observation_characters
        if size > allowed:
            raise ToolError(f"{concrete.tool} returned {size:,} characters, budget.observation_characters={allowed}")
        self.__latest = after
        return Executed(after, concrete, observation)

    def improved(self, found: Trajectory, value: float | None = None, node: str | None = None) -> None:
        """Say that a trajectory is better than all before: it is the result where the episode is stopped."""
        spent = sum(self.spent.values(), Usage())
        self.improvements.append(Improvement(found, value, node, self.tool_calls, spent, self.__clock()))

    def best(self) -> Trajectory:
        """The best trajectory so far, without any the first pass as far as it went; all decisions that were taken."""
        if self.improvements:
            found = self.improvements[-1].trajectory
        elif self.first_pass:
            found = self.first_pass()
        else:
            found = Trajectory((), (), self.__latest if self.__begun else self.start())
        return replace(found, decisions=tuple(self.decisions))

    def resolved(self, state: State) -> bool:
        """After a whole trajectory: is the case resolved? Counted (pass@k, egb_slate §6.1)."""
        self.resolved_checks += 1
        return self.__world.resolved(state)

    def answer(self, state: State) -> str | None:
        """What the tools' results say in answer to the query; None where they say nothing."""
        return self.__world.answer(state)

    def _allow(self, prompt: Prompt, calls: int) -> None:
        size, allowed = prompt.size(), self.budget.prompt_characters
        if size > allowed:
            raise ContextError(f"a prompt of {size:,} characters, budget.prompt_characters={allowed}")
        self._within(calls)

    def _within(self, calls: int = 0, steps: int = 0) -> None:
        """Raise BudgetError where so much more is too much."""
        budget = self.budget
        tokens = 1
        for spent in self.spent.values():
            calls += spent.llm_calls + spent.forward_passes
            tokens += spent.input_tokens + spent.output_tokens
        seconds = self.__clock() if budget.seconds is not None else 0.0
        for key, more, most in (
            ("steps", self.tool_calls + steps, budget.steps),
            ("llm_calls", calls, budget.llm_calls),
            ("tokens", tokens, budget.tokens),
            ("seconds", seconds, budget.seconds),
        ):
            if most is not None and more > most:
                self.budget_reached = key
                raise BudgetError(key, most)


class Planner(Protocol):
    """A planning algorithm."""

    @property
    def needs(self) -> frozenset[str]:
        """The engine's verbs that it uses as it is configured, a JUDGE, and what it needs of a dataset."""
        ...

    async def solve(self, episode: Episode) -> Trajectory:
        """Work on the case and return the trajectory to be scored."""
        ...
