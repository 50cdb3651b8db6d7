"""ReAct (Yao et al. 2023b, as used in egb_slate §6.1), and Baseline-LLM, which is the same without history."""

from __future__ import annotations

from functools import partial
from typing import Annotated, ClassVar

from pydantic import Field
from pydantic.dataclasses import dataclass

from grid.datasets.base import OUTLINE
from grid.engines.base import SAMPLE
from grid.planners.base import Episode
from grid.planners.stepwise import rollout, single_pass
from grid.strict import STRICT
from grid.types import Trajectory


@dataclass(frozen=True, config=STRICT)
class ReAct:
    """One sampled thought and action a substep, on all that was observed before."""

    temperature: Annotated[float, Field(ge=0)] = 1.0
    needs: ClassVar[frozenset[str]] = frozenset({SAMPLE, OUTLINE})

    async def solve(self, episode: Episode) -> Trajectory:
        """Work through the plan once."""
        done = await rollout(episode, partial(single_pass, temperature=self.temperature))
        return Trajectory(done.path, done.path)


@dataclass(frozen=True, config=STRICT)
class BaselineLLM:
    """One sampled action a substep without execution history (egb_slate §6.1): a plan carried out open-loop."""

    temperature: Annotated[float, Field(ge=0)] = 1.0
    needs: ClassVar[frozenset[str]] = frozenset({SAMPLE, OUTLINE})

    async def solve(self, episode: Episode) -> Trajectory:
        """Work through the plan once, each decision blind to what was done and observed."""
        done = await rollout(episode, partial(single_pass, temperature=self.temperature), see_history=False)
        return Trajectory(done.path, done.path)
