"""The final answer: one completion after all calls, with their results in its prompt (tooltree, figure 2).

If a benchmark scores the final answer, planners that answer before any call has run, or that end without an answer,
would otherwise be scored for this behaviour and not for their calls.
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

ASK = "No more calls can be made. Answer the query from the results of the calls."
_DECISION = "answer"
_MAX_TOKENS = 1024


async def answered_after(episode: Episode, found: Trajectory, planner: Any) -> Trajectory:
    """The trajectory; if it has no answer, or one written before its calls, it gets an answer written after its calls.

    The steps do not change: the cost of the answer counts for the episode, but for no step. If the reply cannot be
    read, the trajectory has no answer. A trajectory at whose end someone else ended the work (`Episode.over`) stays
    unchanged.

    Args:
        episode: the case.
        found: the planner's trajectory; a plan that was not run stays unchanged, since it has no results to answer
            from.
        planner: the planner; the answer is sampled at the planner's `temperature`, if it has one.

    Raises:
        BudgetError: the budget is used up.
        ContextError, EngineError: as for `Episode.sample`.
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
    """The finish, with the answer in it. The model is asked once; if its reply cannot be read, there is no answer."""
    form = ASK_CALL.format(thought="", decline="")
    answer = ToolCallAnswer((prompts.TELL_TOOL,), may_decline=False, native=(ASK,))
    card = Section("tools", ("Tools:", prompts.tool_text(prompts.TELL_TOOL)))
    before = (prompts.notes_section(episode), prompts.task_section(episode), past(episode, view))
    prompt = prompts.prompt(answer, prompts.ROLE, *before, card, Section("instruction", (ASK, form)))
    asked = await episode.sample(prompt, _DECISION, view.substep.id, temperature=temperature, max_tokens=_MAX_TOKENS)
    (actions,) = read_answers(asked, {FINISH: prompts.TELL_TOOL}, may_decline=False)
    return actions[0]
