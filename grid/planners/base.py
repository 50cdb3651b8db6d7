"""What a planner is, and the episode that it acts in."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from grid.datasets.base import Candidates, Demonstrations
from grid.engines.base import Choice, Engine, Prompt
from grid.errors import BudgetError, ContextError, ToolError
from grid.seeds import derive_seed
from grid.text import references
from grid.types import Case, Observation, Step, Substep, ToolCall, ToolSpec, Trajectory, Usage
from grid.worlds.base import Environment


@dataclass(frozen=True)
class Budget:
    """How much one episode may ask for before it is stopped."""

    llm_calls: int = 5000
    tool_calls: int = 1000
    prompt_characters: int = 1_000_000
    observation_characters: int = 100_000


@dataclass
class Episode:
    """One case being solved: the only thing a planner sees.

    `seed` (64 bits) is the cell's; every request derives its own from it and from the names of the decision, so
    that results do not depend on the order in which requests are answered. `decisions` keeps every step that was
    performed, so that an episode that breaks off still shows how far it got.
    """

    case: Case
    environment: Environment
    engine: Engine
    candidates_of: Candidates
    budget: Budget
    seed: int
    demonstrations: Demonstrations = lambda count: ()
    usage: Usage = field(default_factory=Usage)
    tool_calls: int = 0
    resolved_checks: int = 0
    decisions: list[Step] = field(default_factory=list)

    def candidates(self, substep: Substep) -> tuple[ToolSpec, ...]:
        """The tools offered for a substep, best first."""
        return self.candidates_of(self.case, substep)

    async def sample(
        self, prompt: Prompt, *key: object, n: int = 1, temperature: float = 1.0, max_tokens: int = 512
    ) -> tuple[tuple[str, ...], Usage]:
        """`n` completions and what they cost; `key` names the decision.

        Raises:
            BudgetError: too many calls.
            ContextError: too long a prompt.
        """
        self._allow(prompt, n)
        seed = derive_seed(self.seed, *key)
        sampled = await self.engine.sample(prompt, n=n, temperature=temperature, max_tokens=max_tokens, seed=seed)
        self.usage += sampled.usage
        return sampled.completions, sampled.usage

    async def choose(self, prompt: Prompt, *key: object) -> Choice:
        """The exact distribution over the prompt's numbered options; `key` names the decision. Raises as `sample`."""
        self._allow(prompt, 1)
        choice = await self.engine.choose(prompt, seed=derive_seed(self.seed, *key))
        self.usage += choice.usage
        return choice

    def execute(self, call: ToolCall, path: tuple[Step, ...]) -> tuple[ToolCall, Observation]:
        """Fill references from the outputs on `path`, run the call, return it as run with its observation.

        Raises:
            BudgetError: too many calls.
            ToolError: too long an observation.
        """
        if self.tool_calls >= self.budget.tool_calls:
            raise BudgetError(f"more than budget.tool_calls={self.budget.tool_calls} tool calls in one episode")
        self.tool_calls += 1
        concrete = references.resolve(call, references.outputs_of(path))
        observation = self.environment.execute(concrete)
        size, allowed = len(observation.text()), self.budget.observation_characters
        if size > allowed:
            raise ToolError(f"{concrete.tool} returned {size:,} characters, budget.observation_characters={allowed}")
        return concrete, observation

    def snapshot(self) -> Hashable:
        """Mark the environment's state."""
        return self.environment.snapshot()

    def restore(self, mark: Hashable) -> None:
        """Return the environment to a marked state; calls no tool."""
        self.environment.restore(mark)

    def resolved(self) -> bool:
        """After a whole trajectory: is the case resolved? Counted (pass@k, egb_slate §6.1)."""
        self.resolved_checks += 1
        return self.environment.resolved()

    def _allow(self, prompt: Prompt, calls: int) -> None:
        size, allowed = prompt.size(), self.budget.prompt_characters
        if size > allowed:
            raise ContextError(f"a prompt of {size:,} characters, budget.prompt_characters={allowed}")
        if self.usage.llm_calls + self.usage.forward_passes + calls > self.budget.llm_calls:
            raise BudgetError(f"more than budget.llm_calls={self.budget.llm_calls} model calls in one episode")


class Planner(Protocol):
    """A planning algorithm. `needs` names the engine's verbs that it uses, and what it needs of a dataset's cases."""

    needs: ClassVar[frozenset[str]]

    async def solve(self, episode: Episode) -> Trajectory:
        """Work through the case's plan and return the trajectory to be scored."""
        ...
