"""Zero-shot and chain-of-thought (Wei et al. 2022), as in the comparisons of tooltree (§4.2, B.1, B.3)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Annotated, ClassVar, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from grid.core.engine import SAMPLE
from grid.core.errors import ConfigError
from grid.core.types import Trajectory
from grid.core.util import STRICT
from grid.episode.acting import Acting, begin, rollout, trajectory
from grid.episode.asking import single_pass
from grid.episode.episode import Episode
from grid.episode.planning import Refine, chain_written, plan_ahead, run_plan, whole_view


@dataclass(frozen=True, config=STRICT)
class ZeroShot(Acting):
    """The model gets the task and the tools; unless `seen` is `all`, it does not see the results of its calls (B.3).

    `mode: chain` (B.1, end-to-end): one answer contains the whole chain, which is run to its end without the model. If
    a call fails, the chain continues, since later calls that do not use the failed call's result can still be right.
    `mode: step` (B.1, step-by-step): each prompt asks for one call. If `thought` is above 0, the planner is chain of
    thought: reasoning comes before the chain, or before each call. In both modes, no solved questions are shown by
    default, and the tools for the whole query are offered.

    The paper leaves open which parts of earlier steps a prompt shows. `seen: calls`: the calls and thoughts, but not
    the results; with results, chain of thought would be the same as ReAct, although B.3 says that ReAct differs from
    chain of thought by acting. `seen: all`: calls, thoughts and results, as in the step-by-step mode of the benchmark
    GTA.
    """

    temperature: Annotated[float, Field(ge=0)] = 0.0
    max_retries: Annotated[int, Field(ge=0, le=100)] = 8
    demonstrations: Annotated[int, Field(ge=0, le=1000)] = 0
    max_tokens: Annotated[int, Field(ge=1)] = 2048
    mode: Literal["chain", "step"] = "chain"
    seen: Literal["calls", "all"] = "calls"
    needs: ClassVar[frozenset[str]] = frozenset({SAMPLE})

    def __post_init__(self) -> None:
        if self.mode == "chain" and self.seen != "calls":
            raise ConfigError(
                "planner.seen", self.seen, "calls, because planner.mode is chain, which has no earlier steps"
            )

    @property
    def plans_ahead(self) -> bool:
        """Whether one answer contains the whole chain."""
        return self.mode == "chain"

    @property
    def answers_ahead(self) -> bool:
        """Whether one answer contains the whole chain, or prompts do not show the results of calls."""
        return self.mode == "chain" or self.seen == "calls"

    @property
    def writes_plans(self) -> bool:
        """Whether one answer contains the whole chain."""
        return self.mode == "chain"

    async def solve(self, episode: Episode) -> Trajectory:
        """Make one chain. In mode `chain`, raises ModelError if no plan can be read after the retries."""
        return await self.write(episode, None)

    async def write(self, episode: Episode, refine: Refine | None) -> Trajectory:
        """Like `solve`, but the chain is refined before it is run."""
        path, unrefined = begin(episode), None
        if self.mode == "step":
            policy = partial(single_pass, acting=self)
            path = (await rollout(episode, policy, self, path, whole_query=True, seen=self.seen)).path
        elif view := whole_view(episode, path, self.max_calls):
            plan, usage, draft = await plan_ahead(episode, view, self, refine=refine)
            unrefined = chain_written(draft, view)
            path = await run_plan(episode, view, plan, usage, self)
        return replace(trajectory(episode, path), unrefined=unrefined)
