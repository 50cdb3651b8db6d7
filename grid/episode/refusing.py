"""Which calls are asked for again instead of being run (planning_horizon B.2)."""

from __future__ import annotations

from collections.abc import Mapping

from grid.core.types import RESULT, Step, ToolCall, ToolSpec
from grid.episode.acting import Action
from grid.episode.view import View
from grid.text.arguments import misfit, misplaced, take_results
from grid.text.references import reference


def checked(action: Action, view: View) -> Action:
    """The action at a point; unreadable, with the reason, where its call is `refused`."""
    if action.call is None:
        return action
    why = refused(action.call, view.offer.tools, {step.substep.id: _has_result(step) for step in view.path.steps})
    return Action(None, unreadable=why) if why else action


def results(view: View) -> tuple[str, ...] | None:
    """References to the results that a call at a point may take; None where no tool takes any.

    Of a call that was only imagined nobody knows.
    """
    if not take_results(view.offer.cards):
        return None
    made = (step for step in view.path.steps if step.written and (step.observation is None or _has_result(step)))
    return tuple(reference(step.substep.id, RESULT) for step in made)


def _has_result(step: Step) -> bool:
    return step.observation is not None and not step.observation.failed


def refused(call: ToolCall, offered: Mapping[str, ToolSpec], before: Mapping[str, bool]) -> str | None:
    """Why a call is not run but asked for again (planning_horizon B.2); None where it is run.

    It does not fit its tool, or refers to what is not there: `before` has the steps before it, and whether they may
    have a result. That holds where tools take results. Elsewhere the benchmarks' own calls lack arguments or have some
    that their tools do not, and the world says what is wrong with a call.
    """
    if not take_results(offered.values()):
        return None
    return misfit(call, offered[call.tool], exact=True) or misplaced(call, before)
