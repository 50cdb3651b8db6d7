"""Holistic planning: the whole chain in one answer, before anything is run (agent_planning_benchmark §3.1, C.3)."""

from __future__ import annotations

from functools import partial
from typing import Annotated, ClassVar

from pydantic import Field
from pydantic.dataclasses import dataclass

from grid.core.engine import SAMPLE, ChainAnswer
from grid.core.types import FINISH, NO_TOOL, ToolSpec, Trajectory, Usage
from grid.core.util import STRICT
from grid.episode.acting import Acting, Action, begin, decisions_left, trajectory
from grid.episode.episode import Episode
from grid.episode.planning import Drafted, Refine, drafted, run_plan, whole_view
from grid.episode.view import Path, View
from grid.planners.predicting import Form, Plan, as_predicted, asking, chain_of, may_refuse, tools_of
from grid.text.answers import Predicted, chain_text, read_chain
from grid.text.objects import UnreadableError


@dataclass(frozen=True, config=STRICT)
class Holistic(Acting):
    """A plan with its tool chain, or a refusal where the case lets a request be refused.

    Where a case is diagnosed, the chain is scored as it is written: nothing is run, and tools and arguments that there
    are not stay in it. Elsewhere the chain is run without the model, to its end, as that of `zero_shot` is, and a plan
    with a tool that was not offered is asked for again. An answer that refuses and plans all the same counts as both.
    No solved questions are shown by default, as in the paper.
    """

    temperature: Annotated[float, Field(ge=0)] = 0.0
    max_retries: Annotated[int, Field(ge=0, le=100)] = 8
    demonstrations: Annotated[int, Field(ge=0, le=1000)] = 0
    max_tokens: Annotated[int, Field(ge=1)] = 2048
    needs: ClassVar[frozenset[str]] = frozenset({SAMPLE})

    @property
    def plans_ahead(self) -> bool:
        """Always."""
        return True

    @property
    def writes_plans(self) -> bool:
        """Always."""
        return True

    async def solve(self, episode: Episode) -> Trajectory:
        """Predict the chain. Raises ModelError where none can be read after the retries."""
        return await self.write(episode, None)

    async def write(self, episode: Episode, refine: Refine | None) -> Trajectory:
        """The same, the chain refined before it counts."""
        path = begin(episode)
        view = whole_view(episode, path, self.max_calls)
        if view is None:
            return trajectory(episode, path)
        plan, usage, draft = await plan_chain(episode, view, self, refine)
        if episode.case.diagnosed:
            return as_predicted(episode, view, plan, usage, draft)
        return trajectory(episode, await self.carried_out(episode, view, plan, usage))

    async def carried_out(self, episode: Episode, view: View, plan: Plan, usage: Usage) -> Path:
        """The path behind a plan, which is run as it stands, without the model."""
        # A plan without calls says that nothing has to be done; its summary is what is told.
        actions = [*plan.actions] or [Action(None, finished=True, answer=plan.predicted.plan or None)]
        if not view.guided and not actions[-1].finished:
            actions.append(Action(None, finished=True))  # who has no call left ends the work
        return await run_plan(episode, view, actions, usage, self)


# A whole plan with its tool chain, asked for in one answer (agent_planning_benchmark §3.1, C.3).


ASK_ALL = "Plan all calls that carry out the request, in the order in which they are made. The first is step {first}."
ASK_MOST = "Plan the next calls, in the order in which they are made, {most} at most. The first is step {first}."
ASK_ANSWER = "The last one finishes with the answer."
ASK_SUBSTEPS = (
    "Plan the substeps {first} to {last}: one entry for each, in their order. An entry whose substep calls no tool has "
    f'the name "{NO_TOOL}".'
)
FORM = (
    'Answer with one JSON object: {"plan": how you go about it, in a few sentences, "tool_chain": [{"name": the tool, '
    '"parameter_description": {argument: value}, "reason": why it is called here}, ...]}.'
)


async def plan_chain(episode: Episode, view: View, acting: Acting, refine: Refine | None) -> Drafted[Plan]:
    """The plan from a point on, nothing of it run; refined where the setting says so.

    Where a case is diagnosed a draft is the result of an episode that a budget ends. Elsewhere the plan of the first
    turn goes into every trajectory of the episode (`Trajectory.planned`, `unrefined`).

    Raises:
        ModelError: no plan that can be used, after all retries.
    """
    diagnosed = episode.case.diagnosed
    keep = partial(as_predicted, episode, view, usage=Usage(), draft=None) if diagnosed else None
    found = await drafted(episode, asking(episode, view, acting, _form(episode, view, acting), keep), refine)
    if not diagnosed and not episode.turn:
        episode.plans.planned = chain_of(found.plan, view)
        episode.plans.unrefined = None if found.draft is None else chain_of(found.draft, view)
    return found


def _form(episode: Episode, view: View, acting: Acting) -> Form:
    case, left = episode.case, decisions_left(episode, view.path, acting.max_calls)
    places = {"first": view.substep.id, "most": left, "last": case.plan.substeps[-1].id if view.guided else ""}
    ask = ASK_SUBSTEPS if view.guided else ASK_ALL if case.decisions is None else ASK_MOST
    answers = (ASK_ANSWER,) if view.answered and not view.guided else ()
    most = acting.max_calls if view.answered else left
    answer = ChainAnswer(
        tools_of(view), left if view.guided else 1, most, view.guided, may_refuse(view), case.diagnosed
    )
    read = partial(_read, episode=episode, view=view, left=left)
    return Form((ask.format(**places), *answers), (FORM,), answer, read, chain_text)


def _read(text: str, tools: dict[str, ToolSpec], episode: Episode, view: View, left: int) -> Predicted:
    """The chain in an answer, cut to the steps that a case asks for. Raises UnreadableError where it cannot be used."""
    found = read_chain(text, tools)
    if view.guided and found.refusal is None and len(found.calls) != left:
        raise UnreadableError(f"a tool_chain of {len(found.calls)} entries, where {left} are wanted")
    if not view.guided:
        found = found._replace(calls=tuple(call for call in found.calls if call))
    if episode.case.diagnosed:
        return found if episode.case.decisions is None else found._replace(calls=found.calls[:left])
    last = found.calls[-1] if found.calls else None
    if view.answered and not view.guided and found.refusal is None and (last is None or last.name != FINISH):
        raise UnreadableError(f"a plan whose last call is not {FINISH}, with the answer")
    return found
