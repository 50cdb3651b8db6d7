"""Single-step and full horizon (planning_horizon §2.1, §2.2, eqs. 1 to 3), and the keys that they share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, ClassVar

from pydantic import Field
from pydantic.dataclasses import dataclass

from grid.core.engine import SAMPLE
from grid.core.errors import ModelError
from grid.core.types import Chain, Json, Trajectory, to_json
from grid.core.util import STRICT
from grid.episode.acting import Acting, Action, Decision, Path, View, begin, rollout, trajectory
from grid.episode.asking import single_pass
from grid.episode.episode import Episode
from grid.episode.planning import Refine, chain_written, plan_ahead, run_plan, whole_view, written_action


@dataclass(frozen=True, config=STRICT)
class Horizon(Acting):
    """The limits under which horizons are compared (planning_horizon §4.1, B.2), the same for all of them.

    A path continues after a failed call, up to `max_failed_calls` times in all; the next failed call ends the path. A
    refused finish is a failed call. The path also ends after `max_calls` calls, including the finish.
    """

    temperature: Annotated[float, Field(ge=0)] = 0.0
    max_retries: Annotated[int, Field(ge=0, le=100)] = 8
    max_tokens: Annotated[int, Field(ge=1)] = 2048
    max_failed_calls: Annotated[int, Field(ge=0, le=10_000)] = 8
    needs: ClassVar[frozenset[str]] = frozenset({SAMPLE})

    def given_up(self, episode: Episode, path: Path) -> bool:
        """Whether more than `max_failed_calls` calls have failed since the user last spoke."""
        steps = path.steps[len(episode.before.steps) :]
        return sum(step.observation is not None and step.observation.failed for step in steps) > self.max_failed_calls


def failed(path: Path) -> bool:
    """Whether the last step's call returned nothing valid (§4.1); False if there is no step, or it has no outcome."""
    observation = path.steps[-1].observation if path.steps else None
    return observation is not None and observation.failed


# Single-step horizon (planning_horizon §2.1, eq. 1): one call at a time, given all observations.


@dataclass(frozen=True, config=STRICT)
class SingleStepHorizon(Horizon):
    """a_t from π(q, a_1, o_1, ..., a_t-1, o_t-1), until the model finishes or a limit of `Horizon` is reached (B.2).

    Every decision is offered the tools for the whole query, as in `fh`.
    """

    async def solve(self, episode: Episode) -> Trajectory:
        """Call tools one by one. Raises ModelError if no answer can be read after the retries."""
        over = partial(self.given_up, episode)
        done = await rollout(episode, self._next, self, begin(episode), whole_query=True, over=over)
        return trajectory(episode, done.path)

    async def _next(self, episode: Episode, view: View, name: str) -> Decision:
        decision = await single_pass(episode, view, name, self, several=False, exact=True)
        if decision.action.unreadable:
            raise ModelError(
                f"step {view.substep.id}: {decision.action.unreadable}, after {self.max_retries + 1} tries"
            )
        return decision


# Full horizon with lazy replanning (planning_horizon §2.2, eqs. 2 and 3): plan, run, and replan if a call fails.


FAILED = "Step {step} failed."
REST = "The rest of the plan was not run: {rest}"
GO_ON = (
    "If step {step} was expected to return nothing, and this is right for the request, plan the rest as it "
    "stands. Otherwise plan steps that solve the problem."
)
ASK_AGAIN = "The steps that were done stay as they are, with their results: do not plan them again."


@dataclass(frozen=True, config=STRICT)
class FullHorizon(Horizon):
    """a_1 ... a_T from π(q); after a failed call at t, a_t+1 ... from π(q, a_1, o_1, ..., a_t, o_t) (B.2).

    A new plan is appended to the executed calls: no call that succeeded is repeated. The prompt for a new plan shows
    the rest of the previous plan, which the model may keep. With an outline, a plan has one entry for each remaining
    substep.
    """

    @property
    def plans_ahead(self) -> bool:
        """Always."""
        return True

    @property
    def writes_plans(self) -> bool:
        """Always."""
        return True

    async def solve(self, episode: Episode) -> Trajectory:
        """Plan, run without the model, replan on failure. Raises ModelError if no plan can be read."""
        return await self.write(episode, None)

    async def write(self, episode: Episode, refine: Refine | None) -> Trajectory:
        """Like `solve`, but every plan is refined, including plans after a failure; `unrefined` is the first draft."""
        path, replans = begin(episode), -1
        notes: tuple[str, ...] = ()
        unrefined: Chain | None = None
        while not self.given_up(episode, path) and (view := whole_view(episode, path, self.max_calls)) is not None:
            replans, done = replans + 1, len(path.steps)
            plan, usage, draft = await plan_ahead(episode, view, self, notes, exact=True, refine=refine)
            unrefined = unrefined or chain_written(draft, view)
            path = await run_plan(episode, view, plan, usage, self, failed)
            if not failed(path):
                break
            notes = replanning(path.steps[-1].substep.id, plan[len(path.steps) - done :])
        return replace(trajectory(episode, path, replans=max(replans, 0)), unrefined=unrefined)


def replanning(step: str, rest: Sequence[Action]) -> tuple[str, ...]:
    """The notes after a failed step: they show the rest of the plan, which was not run and which the model may keep.

    References in the rest of the plan stay valid: the failed call also counts as a step, so later steps keep their
    numbers.
    """
    told = FAILED.format(step=step)
    if not rest:
        return told, ASK_AGAIN
    calls: list[Json] = [written_action(action) for action in rest]
    return f"{told} {REST.format(rest=to_json(calls))}", GO_ON.format(step=step), ASK_AGAIN
