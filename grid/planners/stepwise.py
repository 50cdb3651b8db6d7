"""Step-wise planning: the next k steps, on what was done so far (agent_planning_benchmark §3.1, C.2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Annotated, ClassVar, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from grid.core.engine import SAMPLE, MessagesAnswer
from grid.core.types import Chain, ToolSpec, Trajectory, Usage
from grid.core.util import STRICT
from grid.episode.acting import Acting, begin, decisions_left, trajectory
from grid.episode.episode import Episode
from grid.episode.planning import Drafted, Refine, drafted, run_plan, whole_view
from grid.episode.view import View
from grid.planners.predicting import Form, Plan, as_predicted, asking, chain_of, may_refuse, tools_of
from grid.text.answers import Predicted, messages_text, read_messages

MESSAGE = (
    '{"role": "assistant", "thought": why, "tool_calls": [{"type": "function", "function": {"name": the tool, '
    '"arguments": {argument: value}}}]}'
)
ASK_ONE = "Predict the next step, which is step {first}: the one call to be made now."
ASK_SEVERAL = (
    "Predict the next {count} steps, from step {first} on: {count} calls in a row, planned without seeing what those "
    "before them return."
)
ASK_SUBSTEP = "Predict the substep {first}: its call, or none."
ASK_SUBSTEPS = "Predict the substeps {first} to {last}: for each its call, or none, in their order."
FORM_ONE = f"Answer with one JSON object: {MESSAGE}. It has one call."
FORM_SEVERAL = (
    f"Answer with a JSON array of exactly {{count}} objects, each of this form: {MESSAGE}. Each has one call."
)
NO_CALL = 'Where nothing is left to be called, "tool_calls" is an empty list, and the thought tells the outcome.'
NO_MORE = 'Behind the call that finishes "tool_calls" is an empty list.'
NO_TOOL = 'For a substep that calls no tool, "tool_calls" is an empty list.'


@dataclass(frozen=True, config=STRICT)
class Stepwise(Acting):
    """The next k steps in one answer, or a refusal where the case lets a request be refused.

    Where a case asks for so many steps and no more (`Case.decisions`) and is diagnosed, one prediction is made, and
    nothing is run. Elsewhere the steps are run, and the next k predicted on what they returned, up to the end.

    Args:
        k: steps of a prediction; None: as many as the case asks for, one where it does not say.
    """

    temperature: Annotated[float, Field(ge=0)] = 0.0
    max_retries: Annotated[int, Field(ge=0, le=100)] = 8
    demonstrations: Annotated[int, Field(ge=0, le=1000)] = 0
    max_tokens: Annotated[int, Field(ge=1)] = 1024
    k: Literal[1, 2, 3] | None = None
    needs: ClassVar[frozenset[str]] = frozenset({SAMPLE})

    @property
    def writes_plans(self) -> bool:
        """Always, be it of one step."""
        return True

    async def solve(self, episode: Episode) -> Trajectory:
        """Predict the next steps. Raises ModelError where none can be read after the retries."""
        return await self.write(episode, None)

    async def write(self, episode: Episode, refine: Refine | None) -> Trajectory:
        """The same, every prediction refined before it counts; `unrefined` is the draft where there is but one."""
        path, drafts = begin(episode), list[Chain]()
        while (view := whole_view(episode, path, self.max_calls)) is not None:
            if episode.case.diagnosed and episode.case.decisions is not None:
                keep = partial(as_predicted, episode, view, usage=Usage(), draft=None)
                plan, usage, draft = await self._predict(episode, view, refine, keep)
                return as_predicted(episode, view, plan, usage, draft)
            plan, usage, draft = await self._predict(episode, view, refine)
            if draft is not None:
                drafts.append(chain_of(draft, view))
            path = await run_plan(episode, view, [*plan.actions], usage, self)
            if plan.predicted.refusal is not None:
                break
        return replace(trajectory(episode, path), unrefined=drafts[0] if len(drafts) == 1 else None)

    async def _predict(
        self, episode: Episode, view: View, refine: Refine | None, keep: Callable[[Plan], Trajectory] | None = None
    ) -> Drafted[Plan]:
        return await drafted(episode, asking(episode, view, self, self._form(episode, view), keep), refine)

    def _form(self, episode: Episode, view: View) -> Form:
        case, left = episode.case, decisions_left(episode, view.path, self.max_calls)
        count = min(self.k or case.decisions or 1, left)
        outline = [substep.id for substep in case.plan.substeps][len(view.path.steps) :]
        places = {"first": view.substep.id, "count": count, "last": outline[count - 1] if outline else ""}
        several = count > 1
        ask = (ASK_SUBSTEPS if several else ASK_SUBSTEP) if outline else ASK_SEVERAL if several else ASK_ONE
        form = FORM_SEVERAL.replace("{count}", str(count)) if several else FORM_ONE
        answer = MessagesAnswer(tools_of(view), count, may_refuse(view), case.diagnosed)
        ends = NO_TOOL if outline else NO_MORE if view.answered else NO_CALL
        read = partial(_read, count=count, guided=bool(outline))
        return Form((ask.format(**places),), (form, ends), answer, read, messages_text)


def _read(text: str, tools: dict[str, ToolSpec], count: int, guided: bool) -> Predicted:
    """The steps in an answer. Without an outline a message without a call is the end where no call follows it."""
    found = read_messages(text, count, tools)
    if guided or found.refusal is not None or not any(found.calls):
        return found
    calls = tuple(call for call in found.calls if call)
    return found._replace(calls=(*calls, None) if found.calls[-1] is None else calls)
