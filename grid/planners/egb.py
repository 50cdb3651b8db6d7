"""Entropy-Guided Branching (egb_slate §5, algorithms 1 to 3).

One implementation of the branching (algorithm 1), two of the entropy: over sampled actions (algorithm 2) and
over the exact distribution of the option's index (algorithm 3).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Annotated, ClassVar

from pydantic import Field
from pydantic.dataclasses import dataclass

from grid.datasets.base import OUTLINE
from grid.engines.base import CHOOSE, SAMPLE
from grid.planners.base import Episode
from grid.planners.stepwise import (
    Decision,
    Rollout,
    View,
    fill_arguments,
    index_prompt,
    perform,
    rollout,
    sample_actions,
    single_pass,
)
from grid.planners.votes import entropy, vote
from grid.strict import STRICT
from grid.types import NO_TOOL, OptionProbability, Step, Trajectory, Usage


@dataclass(frozen=True, config=STRICT)
class EntropyGuidedBranching(ABC):
    """Algorithm 1.

    `trajectories` is the budget b of §6.2, the first pass included; `branch_limit` and `step_branch_limit` are the
    pseudocode's B and B_s; `max_candidates` counts 'no tool'.
    """

    trajectories: Annotated[int, Field(ge=1)] = 5
    branch_limit: Annotated[int, Field(ge=0)] = 50
    step_branch_limit: Annotated[int, Field(ge=0)] = 5
    max_candidates: Annotated[int, Field(ge=2)] = 100
    temperature: Annotated[float, Field(ge=0)] = 1.0

    @abstractmethod
    async def compute_entropy(self, episode: Episode, view: View, name: str) -> Decision:
        """Algorithm 2 or 3: the action, its entropy in nats, and the distribution to branch on."""

    @abstractmethod
    async def select_tool(self, episode: Episode, view: View, name: str) -> Decision:
        """Line 29: single-pass selection for the steps after a branching point."""

    async def solve(self, episode: Episode) -> Trajectory:
        """Lines 1 to 38 of algorithm 1."""
        first = await rollout(episode, self.compute_entropy, max_candidates=self.max_candidates)  # lines 2-10
        decisions: tuple[Step, ...] = first.path
        if self.trajectories == 1 or episode.resolved():  # line 11
            return Trajectory(first.path, decisions)
        end, tried = episode.snapshot(), 0
        for index, tool in self._branches(first):  # lines 15-22
            if tried >= min(self.branch_limit, self.trajectories - 1):  # line 23
                break
            tried += 1
            path = await self._branch(episode, first, index, tool, tried)
            decisions += path[index:]
            if episode.resolved():  # line 32
                return Trajectory(path, decisions, branches=tried)
        episode.restore(end)
        return Trajectory(first.path, decisions, branches=tried)  # line 38

    def _branches(self, first: Rollout) -> list[tuple[int, str]]:
        """(step index, alternative tool), in the order of trial.

        Steps by entropy descending, ties in plan order; at each the alternatives by probability descending, at most
        B_s of them.
        """
        steps = [index for index, decision in enumerate(first.decisions) if decision.entropy is not None]
        steps.sort(key=lambda index: -(first.decisions[index].entropy or 0.0))
        found = []
        for index in steps:
            decision = first.decisions[index]
            alternatives = [option for option in decision.options if option.tool != decision.selected]
            alternatives.sort(key=lambda option: -option.probability)
            found += [(index, option.tool) for option in alternatives[: self.step_branch_limit]]
        return found

    async def _branch(self, episode: Episode, first: Rollout, index: int, tool: str, branch: int) -> tuple[Step, ...]:
        """Lines 26 to 31: the prefix as it was, the alternative in its place, the rest selected anew."""
        episode.restore(first.marks[index])
        view, decided = first.views[index], first.decisions[index]
        prefix, name = first.path[:index], f"pass{branch}"
        if tool in decided.calls:
            forced = Decision(decided.calls[tool][0], usage=Usage())
        else:
            forced = Decision(*await fill_arguments(episode, view, tool, name, self.temperature))
        prefix += (perform(episode, view, forced, prefix, branch),)
        rest = await rollout(
            episode, self.select_tool, prefix=prefix, branch=branch, max_candidates=self.max_candidates
        )
        return rest.path


@dataclass(frozen=True, config=STRICT)
class EGBSampling(EntropyGuidedBranching):
    """Algorithm 2: entropy of the votes of `samples` (m) sampled actions; alternatives use the sampled calls."""

    samples: Annotated[int, Field(ge=1, le=1000)] = 10
    needs: ClassVar[frozenset[str]] = frozenset({SAMPLE, OUTLINE})

    async def compute_entropy(self, episode: Episode, view: View, name: str) -> Decision:
        """Majority vote of m actions."""
        return vote(*await sample_actions(episode, view, name, self.samples, self.temperature))

    async def select_tool(self, episode: Episode, view: View, name: str) -> Decision:
        """One sampled action."""
        return await single_pass(episode, view, name, self.temperature)


@dataclass(frozen=True, config=STRICT)
class EGBLogits(EntropyGuidedBranching):
    """Algorithm 3: entropy of the exact distribution over the options' indices.

    Alternatives of probability `threshold` (τ) and more are branched on, their arguments generated when they are.
    """

    threshold: Annotated[float, Field(ge=0, le=1)] = 0.01
    needs: ClassVar[frozenset[str]] = frozenset({SAMPLE, CHOOSE, OUTLINE})

    async def compute_entropy(self, episode: Episode, view: View, name: str) -> Decision:
        """The most probable option, its arguments, and the options above the threshold (lines 24 to 31)."""
        choice = await episode.choose(index_prompt(episode, view), name, view.substep.id)
        tools = [*(tool.name for tool in view.candidates), NO_TOOL]
        probabilities = choice.probabilities
        best = max(range(len(tools)), key=lambda k: (probabilities[k], -k))
        action, usage = await fill_arguments(episode, view, tools[best], name, self.temperature)
        kept = [OptionProbability(t, p) for t, p in zip(tools, probabilities, strict=True) if p >= self.threshold]
        kept.sort(key=lambda option: -option.probability)
        return Decision(
            action,
            choice.usage + usage,
            tools[best],
            tuple(kept),
            entropy(probabilities),
            choice.unassigned,
            choice.error_bound,
        )

    async def select_tool(self, episode: Episode, view: View, name: str) -> Decision:
        """The same, without regard to the entropy."""
        return await self.compute_entropy(episode, view, name)
