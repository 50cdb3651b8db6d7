"""The interface of planners, and the episode in which a planner acts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol, cast

from grid.core.engine import ACTOR, JUDGE, Choice, Engine, Prompt, Role, Tools
from grid.core.errors import BudgetError, ContextError, ToolError, VerdictError
from grid.core.problem import Candidates, Demonstrations, Mode
from grid.core.types import FINISH, Case, Demonstration, Step, Substep, ToolCall, ToolSpec, Trajectory, Usage
from grid.core.world import Conversation, State, World, resolved_by
from grid.episode.options import QUERY, SOUGHT, Options, Retrieved, in_order
from grid.episode.progress import Before, Budget, Executed, Improvement, Plans
from grid.episode.requests import Answers, Message, Requests
from grid.text import references
from grid.worlds import layers

if TYPE_CHECKING:
    from grid.episode.judging import Scoring
    from grid.episode.tree import Node


class Episode:
    """A case that is being solved. The episode is the only object that a planner sees.

    `seed` (64 bits) is the cell's seed, from which every request derives its own seed (`Requests`). `remembered` are
    traces of other cases, which prompts show. `decisions` contains every step that was performed, so that an episode
    that ends early still shows how far the work got. `messages` contains all requests and answers, and `spent` each
    role's usage. `sources` records the models and servers that answered for the acting model. `improvements` contains
    each trajectory that was the best when it was found, and `nodes` the tree of a search. `unread_verdicts` counts the
    questions to which the judge gave no readable answer; `unjudged` shows whether such a question ended the work.
    `cancelled` is the part of `spent` for paths that were cancelled because an earlier path resolved the case; it is
    None if the planner never cancels paths.

    World, engines and dataset can be used only through the methods: no public attribute leads to the reference, or to
    the requests of the world itself. A planner starts after the steps in `before`; if the user sends several messages,
    the planner starts once in each `turn`.
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
        retrieved: Mode = "static",
        order_seed: int | None = None,
        demonstrations: Demonstrations = lambda count: (),
        solved: Demonstrations = lambda count: (),
        remembered: tuple[str, ...] = (),
        roles: Mapping[Role, Engine] = MappingProxyType({}),
        judging: Scoring | None = None,
        clock: Callable[[], float] | None = None,
        fit_tokens: bool = False,
    ) -> None:
        """`parts` are the substeps whose candidates form the tools of the whole query, at most `query_tools` tools.

        `retrieved`: the points of an episode at which tools are retrieved. `order_seed` is the seed for the order of
        options; None: options stay in the order of retrieval. `engine` is the acting model's engine, `roles` contains
        the engines of all other roles. `clock` returns the number of seconds used by the case. `fit_tokens`: if the
        context has fewer tokens left than an answer may have, the answer's limit is lowered.
        """
        self.case, self.budget, self.seed, self.remembered = case, budget, seed, remembered
        self.before, self.turn, self.plans = Before(case.done), 0, Plans()
        self.tool_calls = self.resolved_checks = 0
        self.unread_verdicts, self.unjudged = 0, False
        self.cancelled: Usage | None = None
        self.decisions: list[Step] = []
        self.improvements: list[Improvement] = []
        self.first_pass: Callable[[], Trajectory] | None = None
        self.budget_reached: str | None = None
        self.nodes: list[Node] = []
        began = time.monotonic()
        self.__clock = clock or (lambda: time.monotonic() - began)
        self.__world, self.__judging = world, judging
        self.__requests = Requests({ACTOR: engine, **roles}, seed, self._allow)
        self.__requests.answer_characters, self.__requests.fit_tokens = budget.answer_characters, fit_tokens
        self.messages: list[Message] = self.__requests.messages
        self.spent: dict[Role, Usage] = self.__requests.spent
        self.sources = self.__requests.sources[ACTOR]
        self.__retrieved, self.__order_seed = Retrieved(candidates, parts, query_tools, retrieved), order_seed
        self.__of_query: dict[tuple[str, int], tuple[ToolSpec, ...]] = {}
        self.__demonstrations, self.__solved = demonstrations, solved
        self.__begun = False
        self.__latest: State = None
        self.__of_turn: State = None
        self.__improved_before = 0
        self.__keys: set[tuple[object, ...]] = set()

    @property
    def usage(self) -> Usage:
        """The usage of the acting model."""
        return self.spent[ACTOR]

    @property
    def converses(self) -> Tools | None:
        """How a message history shows calls: as text (`prompt`) or `native`; None if histories are lines of text."""
        return self.__requests.converses

    @property
    def retrieved(self) -> Mode:
        """When tools are retrieved."""
        return self.__retrieved.mode

    def options(
        self, substep: Substep | None, steps: Sequence[Step] = (), most: int | None = None, thought: str = ""
    ) -> Options:
        """The options of a decision after `steps`, in the setting's order.

        At most `most` options are offered; if there are more, the worst tools are left out. The tools are retrieved for
        the substep or, without a substep, for the whole query. A `thought`, if there is one, is used in the retrieval.
        """
        sought = thought[:SOUGHT] or self.__retrieved.sought(steps)
        if substep is not None:
            tools, step = self.__retrieved.tools(self.case, substep, sought), substep.id
        else:
            key = sought, self.turn
            if key not in self.__of_query:
                later = frozenset().union(*(message.tools for message in self.case.messages[self.turn :]))
                found = self.__retrieved.tools(self.case, None, sought)
                self.__of_query[key] = tuple(tool for tool in found if tool.name not in later) if later else found
            tools, step = self.__of_query[key], QUERY
        return in_order(tools, self.__order_seed, self.case.id, step, most, sought)

    def broke_off(self, messages: Iterable[Message]) -> None:
        """Report the requests of cancelled paths, so that their cost is also counted separately."""
        self.cancelled = sum((message.usage for message in messages), self.cancelled or Usage())

    def demonstrations(self, count: int) -> tuple[Demonstration, ...]:
        """The `count` solved questions most similar to the case's question; empty if the dataset has none."""
        return tuple(self.__demonstrations(count))

    def solved(self, count: int) -> tuple[Demonstration, ...]:
        """From the dataset's other half, the `count` cases with queries most similar to the case's, and their calls.

        The result is empty if the dataset has demonstrations, or if the calls that resolve its cases are not known.
        """
        return tuple(self.__solved(count))

    async def sample(
        self,
        prompt: Prompt,
        *key: object,
        n: int = 1,
        temperature: float = 1.0,
        max_tokens: int = 512,
        role: Role = ACTOR,
    ) -> Answers:
        """`n` completions and their cost; `key` names the decision, and the request's seed is derived from it.

        Raises:
            BudgetError: the budget is used up.
            ContextError: the prompt is too long.
            EngineError: the engine does not answer. Other errors of the engine's `sample` are raised too.
            ValueError: an earlier request of the episode had the same key, and therefore the same seed.
        """
        with self.__keyed("sample", role, key) as named:
            return await self.__requests.sample(
                role, prompt, *named, n=n, temperature=temperature, max_tokens=max_tokens
            )

    async def choose(self, prompt: Prompt, *key: object, role: Role = ACTOR) -> Choice:
        """The exact distribution over the prompt's options; `key` names the decision.

        Raises like `sample`, and ModelError if no option has any probability.
        """
        with self.__keyed("choose", role, key) as named:
            return await self.__requests.choose(role, prompt, *named)

    async def judge(self, prompt: Prompt, *key: object, samples: int = 1, temperature: float = 0.0) -> float:
        """The judge's score in [0, 1] for the object shown in the prompt, by the criteria given in the prompt.

        The score is the mean of `samples` sampled scores; if the judge gives a distribution over scores, nothing is
        sampled.

        Raises:
            VerdictError: no answer had a score, even after all retries. If this error ends the planner's work, the best
                trajectory so far is the result, and it is not known whether this trajectory is a success.
            RuntimeError: the planner's `needs` do not include a JUDGE.
            BudgetError, ContextError, EngineError, ValueError: as for `sample`.
        """
        if self.__judging is None:
            raise RuntimeError("a planner that asks a judge has JUDGE in its `needs`")
        with self.__keyed("judge", JUDGE, key) as named, self.__counting():
            return await self.__judging.score(
                self.__requests, JUDGE, prompt, JUDGE, *named, samples=samples, temperature=temperature
            )

    async def vote(
        self, prompt: Prompt, candidates: Sequence[str], *key: object, samples: int, temperature: float
    ) -> list[float]:
        """Each candidate's share of the judge's votes. Raises like `judge`."""
        if self.__judging is None:
            raise RuntimeError("a planner that asks a judge has JUDGE in its `needs`")
        with self.__keyed("vote", JUDGE, key) as named, self.__counting():
            return await self.__judging.vote(
                self.__requests, JUDGE, prompt, candidates, JUDGE, *named, samples=samples, temperature=temperature
            )

    @contextmanager
    def __counting(self) -> Iterator[None]:
        """A context manager for a question to the judge; it counts the questions without a readable answer."""
        try:
            yield
        except VerdictError:
            self.unread_verdicts += 1
            raise

    def start(self) -> State:
        """The world's state before any call of this turn.

        Raises:
            ToolError: the world was already started and cannot start again.
        """
        if self.__begun and not self.__world.branches:
            raise ToolError(f"{type(self.__world).__name__} cannot begin again")
        self.__begun, self.__latest = True, self.__of_turn if self.turn else self.__world.start()
        return self.__latest

    def next_turn(self, found: Trajectory) -> None:
        """End a turn with the planner's trajectory; the next turn starts after it and after the user's next message."""
        steps = found.steps
        if len(steps) == len(self.before.steps) or not steps[-1].finished:
            steps = (*steps, Step(0, Substep(str(len(steps)), "", ""), None, None, finished=True))
        last, said = len(steps) - 1, self.case.messages[self.turn].text
        self.before = Before(steps, {**self.before.said, last: said}, {**self.before.answers, last: found.answer})
        self.__of_turn = cast(Conversation, self.__world).next_turn(found.end)
        self.turn, self.__begun, self.first_pass = self.turn + 1, False, None
        self.__improved_before = len(self.improvements)

    async def execute(self, state: State, call: ToolCall, steps: tuple[Step, ...]) -> Executed:
        """Fill references from the outputs of `steps`, and run the call from a state.

        If a case needs an answer, its finish is run like a call, but counts neither as a tool call nor as a step of the
        budget.

        Raises:
            BudgetError: the budget is used up.
            ToolError: an observation that is too long, a state without a hash, a call from an earlier state in a world
                that cannot branch, or the world broke.
        """
        tool_calls = int(call.tool != FINISH)
        self._within(steps=tool_calls)
        if state is not self.__latest and not self.__world.branches:
            raise ToolError(f"{type(self.__world).__name__} cannot go on from an earlier state")
        self.tool_calls += tool_calls
        concrete = references.resolve(call, references.outputs_of(steps)) if references.refers(call) else call
        after, observation = await self.__world.apply(state, concrete)
        try:
            hash(after)
        except TypeError as error:
            raise ToolError(f"{type(self.__world).__name__}: a state must be hashable ({error})") from None
        size, allowed = len(observation.text()), self.budget.observation_characters
        if size > allowed:
            raise ToolError(
                f"{concrete.tool} returned {size:,} characters; the limit is budget.observation_characters={allowed}"
            )
        self.__latest = after
        return Executed(after, concrete, observation)

    def over(self, state: State) -> bool:
        """Whether no further call is possible from a state, because someone other than the planner ended the work."""
        return layers.over(self.__world, state)

    def ended(self, state: State, answer: str | None) -> State:
        """The state after the planner itself ended the work; only for cases where the finish is not a call."""
        after = layers.ended(self.__world, state, answer)
        if state is self.__latest:
            self.__latest = after
        return after

    def improved(self, found: Trajectory, value: float | None = None, node: str | None = None) -> None:
        """Report a trajectory that is better than all earlier ones; it becomes the result if the episode is stopped."""
        spent = sum(self.spent.values(), Usage())
        self.improvements.append(Improvement(found, value, node, self.tool_calls, spent, self.__clock()))

    def best(self) -> Trajectory:
        """The best trajectory so far, or else the unfinished first pass, with all decisions taken so far.

        The best of the present turn counts. If the turn has neither, the best of the earlier turns is returned or, if
        there is none, a trajectory without steps.
        """
        of_turn = self.improvements[self.__improved_before :]
        if self.first_pass and not of_turn:
            found = self.first_pass()
        elif self.improvements:
            found = self.improvements[-1].trajectory
        else:
            found = Trajectory((), (), self.__latest if self.__begun else self.start())
        return self.own(replace(found, decisions=tuple(self.decisions)))

    def own(self, found: Trajectory) -> Trajectory:
        """A trajectory without the steps done before the case started."""
        given = set(map(id, self.case.done))
        if not given:
            return found
        steps, decisions = (
            tuple(step for step in all_of if id(step) not in given) for all_of in (found.steps, found.decisions)
        )
        return replace(found, steps=steps, decisions=decisions)

    def resolved(self, state: State, steps: Sequence[Step]) -> bool:
        """Whether a whole trajectory of `steps` resolves the case. Each check is counted (pass@k, egb_slate §6.1)."""
        self.resolved_checks += 1
        if self.case.messages:
            return cast(Conversation, self.__world).turn_resolved(state)
        return resolved_by(self.__world, steps, state)

    def answer(self, state: State) -> str | None:
        """The answer to the query found in the tools' results; None if the results contain no answer."""
        return self.__world.answer(state)

    @contextmanager
    def __keyed(self, verb: str, role: Role, key: tuple[object, ...]) -> Iterator[tuple[object, ...]]:
        """A context manager that yields a request's key, extended by the turn and reserved unless the request fails."""
        named = (*key, f"turn{self.turn}") if self.turn else key
        used = (verb, role, *map(str, named))
        if used in self.__keys:
            raise ValueError(
                f"episode.{verb}: the key {key!r} was used before in this episode, and the seed of a request derives "
                "from its key: add what distinguishes this request, such as view.substep.id (the step), the number of "
                "the try, or another branch (rollout(..., branch=1))"
            )
        self.__keys.add(used)
        try:
            yield named
        except BaseException:
            self.__keys.discard(used)
            raise

    def _allow(self, prompt: Prompt, calls: int) -> None:
        size, allowed = prompt.size(), self.budget.prompt_characters
        if size > allowed:
            raise ContextError(f"the prompt has {size:,} characters; the limit is budget.prompt_characters={allowed}")
        self._within(calls)

    def _within(self, calls: int = 0, steps: int = 0) -> None:
        """Raise BudgetError if these additional calls and steps would exceed the budget."""
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
        """The needs of the configured planner: the engine's verbs, a JUDGE, and features of the dataset."""
        ...

    async def solve(self, episode: Episode) -> Trajectory:
        """Work on the case and return the trajectory to be scored."""
        ...
