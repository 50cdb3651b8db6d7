"""Full horizon with lazy replanning (planning_horizon §2.2, eqs. 2 and 3): plan, run, plan anew where a call fails."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field
from pydantic.dataclasses import dataclass

from grid.engines.base import SAMPLE, PlanAnswer, Prompt, Section
from grid.errors import ModelError
from grid.planners import prompts
from grid.planners.acting import Acting, Action, Decision, Path, View, begin, next_point, perform, trajectory
from grid.planners.asking import INVALID, sections, to_action
from grid.planners.base import Answers, Episode
from grid.strict import STRICT
from grid.text.answers import read_plan
from grid.text.objects import UnreadableError
from grid.types import NO_TOOL, Trajectory, Usage

ASK_CALLS = "Plan all calls that are needed. The first is step {first}."
ASK_SUBSTEPS = (
    "Plan the substeps {first} to {last}: one entry for each, in their order. An entry whose substep calls no tool "
    f'has the tool "{NO_TOOL}".'
)
ASK_LAST = f'Plan the last substep, {{first}}: one entry. If it calls no tool, its tool is "{NO_TOOL}".'
ASK_AGAIN = "The last step failed. What was done stays as it is, with its results; plan the rest anew."
ASK_PLAN = 'Answer with one JSON object: {"plan": [{"tool": name, "arguments": {name: value}}, ...]}.'


@dataclass(frozen=True, config=STRICT)
class FullHorizon(Acting):
    """a_1 ... a_T from π(q); after a failed call at t, a_t+1 ... from π(q, a_1, o_1, ..., a_t, o_t) (B.2).

    A new plan is appended to what was executed: no call that succeeded is made again. Given an outline a plan has one
    entry for each substep that is left.
    """

    temperature: Annotated[float, Field(ge=0)] = 0.0
    max_retries: Annotated[int, Field(ge=0, le=100)] = 8
    max_tokens: Annotated[int, Field(ge=1)] = 2048
    max_replans: Annotated[int, Field(ge=0)] = 8
    needs: ClassVar[frozenset[str]] = frozenset({SAMPLE})

    async def solve(self, episode: Episode) -> Trajectory:
        """Plan, run without the model, replan on failure. Raises ModelError where no plan can be read."""
        path, replans = begin(episode), 0
        while (view := self._view(episode, path)) is not None:
            if path.steps and replans == self.max_replans:
                break
            replans += bool(path.steps)
            path = await self._run(episode, view, *await self._plan(episode, view))
            if not _failed(path):
                break
        return trajectory(episode, path, replans=replans)

    async def _run(self, episode: Episode, view: View, plan: list[Action], usage: Usage) -> Path:
        """Execute a plan up to its end or its first failure; what it cost stands with its first step."""
        path = view.path
        for action in plan:
            at = self._view(episode, path)
            if at is None:
                break
            path, usage = await perform(episode, at, Decision(action, usage)), Usage()
            if _failed(path):
                break
        return path

    async def _plan(self, episode: Episode, view: View) -> tuple[list[Action], Usage]:
        spent = Usage()
        for tried in range(self.max_retries + 1):
            asked = await episode.sample(
                self._prompt(episode, view, again=tried > 0),
                *("plan", len(view.path.steps), tried),
                temperature=self.temperature,
                max_tokens=self.max_tokens,
            )
            spent += asked.usage
            plan = self._read(asked, view, self._left(episode, view))
            if plan:
                return plan, spent
        raise ModelError(f"step {view.substep.id}: no plan that can be used, after {self.max_retries + 1} tries")

    def _read(self, asked: Answers, view: View, left: int) -> list[Action] | None:
        """The plan's actions; None, with the reason in the message, where it cannot be used."""
        try:
            calls = read_plan(asked.texts[0], view.offer.tools)
            if view.guided and len(calls) != left:
                raise UnreadableError(f"a plan of {len(calls)} entries, where {left} are wanted")
            plan = [to_action(c.tool, c.arguments, view.offer.tools, view.guided) for c in calls]
            if why := next((action.unreadable for action in plan if action.unreadable), None):
                raise UnreadableError(why)
        except UnreadableError as error:
            asked.message.unreadable[0] = str(error)
            return None
        return plan

    def _view(self, episode: Episode, path: Path) -> View | None:
        substep = next_point(episode, path, self.max_calls)
        return View(substep, path, episode.options(None), whole_query=True) if substep else None

    def _left(self, episode: Episode, view: View) -> int:
        """Decisions that are left: an outline's substeps, or as many calls as are allowed."""
        return (len(episode.case.plan.substeps) or self.max_calls) - len(view.path.steps)

    def _prompt(self, episode: Episode, view: View, again: bool) -> Prompt:
        first, left, outline = view.substep.id, self._left(episode, view), episode.case.plan.substeps
        form = (ASK_SUBSTEPS if left > 1 else ASK_LAST) if outline else ASK_CALLS
        ask = form.format(first=first, last=outline[-1].id if outline else "")
        failed = (ASK_AGAIN,) if view.path.steps else ()
        lines = (*failed, ask, ASK_PLAN, *((INVALID,) if again else ()))
        before = sections(episode, view, view.offer.section, self)
        answer = PlanAnswer(view.offer.cards, left if view.guided else 1, left, may_decline=view.guided)
        return prompts.prompt(answer, *before, Section("instruction", lines))


def _failed(path: Path) -> bool:
    """Whether the last call returned nothing valid (§4.1)."""
    observation = path.steps[-1].observation if path.steps else None
    return observation is not None and observation.failed
