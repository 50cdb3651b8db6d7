"""An answer after the work: one completion behind all calls, with what they returned (tooltree, figure 2).

Where a benchmark scores what is told at the end, planners that wrote their answer before any call had run, or that end
without one, would be scored for that and nothing else.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from grid.core.engine import Section, ToolCallAnswer
from grid.core.types import FINISH, Substep, Trajectory
from grid.episode import prompts
from grid.episode.acting import Action, Path, View, filled
from grid.episode.asking import ASK_CALL, read_answers
from grid.episode.conversation import past
from grid.episode.episode import Episode

ASK = "No further call is made. Answer the query from what the calls returned."
_DECISION = "answer"
_MAX_TOKENS = 1024


async def answered_after(episode: Episode, found: Trajectory, planner: Any) -> Trajectory:
    """A trajectory with an answer that was told behind its calls, where it has none or one from before them.

    Its steps stay as they are: what the answer took is the episode's.

    Args:
        episode: the case.
        found: what the planner stands by; a plan that was not run has nothing to be answered from.
        planner: who is asked in the way in which it decides (temperature), where it tells it.

    Raises:
        BudgetError: the budget is used up.
    """
    ahead = bool(getattr(planner, "answers_ahead", False))
    if found.chain is not None or (found.answer and not ahead) or episode.over(found.end):
        return found
    steps = found.steps[:-1] if found.steps and found.steps[-1].finished else found.steps
    lines = tuple(prompts.step_text(step) for step in steps)
    view = View(Substep(str(len(steps)), "", ""), Path(steps, found.end, lines), episode.options(None, steps))
    temperature = getattr(planner, "temperature", None)
    told = await _told(episode, view, 0.0 if temperature is None else temperature)
    return replace(found, answer=filled(told.answer, steps), told_after=told.answer is not None)


async def _told(episode: Episode, view: View, temperature: float) -> Action:
    """The finish with its answer, asked for once; without one where it cannot be read."""
    form = ASK_CALL.format(thought="", decline="")
    answer = ToolCallAnswer((prompts.TELL_TOOL,), may_decline=False, native=(ASK,))
    card = Section("tools", ("Tools:", prompts.tool_text(prompts.TELL_TOOL)))
    before = (prompts.notes_section(episode), prompts.task_section(episode), past(episode, view))
    prompt = prompts.prompt(answer, prompts.ROLE, *before, card, Section("instruction", (ASK, form)))
    asked = await episode.sample(prompt, _DECISION, view.substep.id, temperature=temperature, max_tokens=_MAX_TOKENS)
    (actions,) = read_answers(asked, {FINISH: prompts.TELL_TOOL}, may_decline=False)
    return actions[0]
