"""A whole plan first, then its execution decision by decision (agent_planning_benchmark §5.1, table 3)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from pydantic.dataclasses import dataclass

from grid.core.types import Usage
from grid.core.untrusted import shown
from grid.core.util import STRICT
from grid.episode import prompts
from grid.episode.acting import Acting, Decision, rollout
from grid.episode.asking import single_pass
from grid.episode.episode import Episode
from grid.episode.view import Path, View
from grid.planners.holistic import Holistic
from grid.planners.predicting import Plan, imagined


@dataclass(frozen=True, config=STRICT)
class PlanFirst(Holistic):
    """The plan that `holistic` writes, then one sampled call a decision, the plan in the prompt of each.

    With the keys of conf/planner/direct.yaml the decisions are asked for as `direct` asks for them: all that differs
    is the plan. None of its calls is run because it stands there: also a refusal is carried out by a decision, and may
    be departed from. Where the user says more than one thing, each turn has a plan of its own. A case that is diagnosed
    ends with the plan, as for `holistic`.
    """

    async def carried_out(self, episode: Episode, view: View, plan: Plan, usage: Usage) -> Path:
        """The path of the decisions that are taken with the plan in view."""
        policy = partial(_by_plan, acting=self, plan=plan_lines(episode, view, plan), first=view.substep.id, cost=usage)
        return (await rollout(episode, policy, self, view.path)).path


def plan_lines(episode: Episode, view: View, plan: Plan) -> tuple[str, ...]:
    """A plan as prompts show it: its summary, and a line a step as a history has it."""
    summary = shown(" ".join(plan.predicted.plan.split()))
    steps = imagined(episode, view, plan, Usage()).lines[len(view.path.lines) :] or (prompts.PLAN_EMPTY,)
    return (*([f"{prompts.PLAN_SUMMARY}{summary}"] if summary else []), *steps)


async def _by_plan(
    episode: Episode, view: View, name: str, *, acting: Acting, plan: tuple[str, ...], first: str, cost: Usage
) -> Decision:
    """A decision with the plan in its prompt; what the plan cost stands with the `first`."""
    decision = await single_pass(episode, replace(view, plan=plan), name, acting)
    return replace(decision, usage=decision.usage + cost) if view.substep.id == first else decision
