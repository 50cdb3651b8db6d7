"""ReAct (Yao et al. 2023b, as used in egb_slate §6.1), and Baseline-LLM, which decides without history."""

from __future__ import annotations

from functools import partial
from typing import Annotated, ClassVar

from pydantic import Field
from pydantic.dataclasses import dataclass

from grid.core.engine import SAMPLE
from grid.core.strict import STRICT
from grid.core.types import Trajectory
from grid.episode.acting import Acting, begin, rollout, trajectory
from grid.episode.asking import single_pass
from grid.episode.episode import Episode
from grid.episode.prompts import Seen
from grid.planners.thinking import thought_first


@dataclass(frozen=True, config=STRICT)
class ReAct(Acting):
    """One sampled thought and action a decision, on all that was thought, called and observed before.

    With `retriever.mode=thought` the thought comes first, by itself, and the action is decided among the tools that it
    finds (`thinking`).
    """

    thought: Annotated[int, Field(ge=0, le=10_000)] = 400
    needs: ClassVar[frozenset[str]] = frozenset({SAMPLE})

    @property
    def thinks_first(self) -> bool:
        """Whether tools can be retrieved between its thought and its action."""
        return self.thought > 0

    async def solve(self, episode: Episode) -> Trajectory:
        """One pass."""
        policy = thought_first if episode.retrieved == "thought" else single_pass
        done = await rollout(episode, partial(policy, acting=self), self, begin(episode))
        return trajectory(episode, done.path)


@dataclass(frozen=True, config=STRICT)
class BaselineLLM(Acting):
    """One sampled action a decision, without thought and without execution history (egb_slate §6.1).

    Given an outline each substep is decided by itself. Without one it sees its own calls, or it could not know how
    far it is, but nothing that they returned.
    """

    needs: ClassVar[frozenset[str]] = frozenset({SAMPLE})

    async def solve(self, episode: Episode) -> Trajectory:
        """One pass, blind to what was observed."""
        seen: Seen = "none" if episode.case.plan.substeps else "calls"
        done = await rollout(episode, partial(single_pass, acting=self), self, begin(episode), seen=seen)
        return trajectory(episode, done.path)
