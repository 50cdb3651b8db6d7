"""What a judge is asked in a search: a call before it is run, what it returned, and all that was done so far.

The criteria are those of tooltree B.7 and B.8 in our own words. The third prompt is that of planners which score states
(LATS, best-first, A*, tree of thoughts): one prompt for all of them, so that they differ in how they search alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from grid.core.engine import Prompt, ScoreAnswer, Section
from grid.core.types import NO_TOOL, Observation
from grid.episode import prompts
from grid.episode.acting import Action
from grid.episode.episode import Episode
from grid.episode.judging import outcome_section, proposal_section
from grid.episode.view import View

_WHO = "You judge the work of an agent that carries out a request by calling tools, one after another."
BEFORE = Section(
    "role",
    (
        _WHO,
        "A call is proposed. It has not been run: judge how promising it is as the very next step, and do not imagine "
        "what it would return. A coarse score will do.",
        "Score low what is of another domain than is needed; what leaves out something that the request or the tool's "
        "arguments demand; what repeats an earlier call without a new benefit; what guesses where another tool is more "
        "direct.",
    ),
)
AFTER = Section(
    "role",
    (
        _WHO,
        "A call was run. Judge what this one call has added to what was known before it, not the whole of the work. A "
        "coarse score will do.",
        "Ask whether what it returned serves the request or the present substep, whether it is plausible and free of "
        "errors and contradictions, whether it is to the point, and whether it keeps to what was demanded.",
    ),
)
SO_FAR = Section(
    "role",
    (
        _WHO,
        "Judge all steps so far together: how likely it is that they lead to the request being carried out, or, where "
        "they are complete, that it was carried out. A coarse score will do.",
    ),
)
BETTER = Section(
    "role",
    (
        _WHO,
        "Two steps were tried at the same point. Judge the one that stands last against the other: the middle of the "
        "scale is for two that are as good, the best score for one that brings the request much nearer to its end.",
    ),
)
BEST = Section(
    "role",
    (
        _WHO,
        "Several plans are shown, a step a line, as far as each was thought out; no step of any has been run. Look at "
        "each of them: whether its steps serve the request, in this order, and whether their arguments can be known.",
    ),
)
WHOLE = Section("proposal", ("All steps above are judged together.",))
PLANNED = Section("proposal", ("All steps above are judged together; none of them has been run.",))
NONE = Section("proposal", ("Call:", "none"))


def before(episode: Episode, view: View, action: Action) -> Prompt:
    """How promising is this action as the next one (B.7)?"""
    return _asked(BEFORE, episode, view.history, prompts.request_section(view.substep), _proposal(view, action))


def after(episode: Episode, view: View, action: Action, observation: Observation) -> Prompt:
    """What has this call added (B.8)? `view` is of the context before it."""
    shown = _proposal(view, action), outcome_section(observation)
    return _asked(AFTER, episode, view.history, prompts.request_section(view.substep), *shown)


def better(episode: Episode, view: View, other: str, action: Action, observation: Observation | None) -> Prompt:
    """How much better than another step at the same point, which a line tells of, is this one?"""
    outcome = (outcome_section(observation),) if observation else ()
    shown = Section("siblings", ("The other step:", other)), _proposal(view, action), *outcome
    return _asked(BETTER, episode, view.history, prompts.request_section(view.substep), *shown)


def so_far(episode: Episode, lines: Sequence[str], planned: bool = False, lessons: Sequence[str] = ()) -> Prompt:
    """How well do all steps so far go? `lines` tell them; `planned`: none was run. `lessons`: of earlier failures."""
    return _asked(SO_FAR, episode, lines, PLANNED if planned else WHOLE, lessons=lessons)


def best(episode: Episode) -> Prompt:
    """Which of the candidates is the best? None of their steps was run."""
    return prompts.prompt(ScoreAnswer(), BEST, prompts.notes_section(episode), prompts.task_section(episode))


def _asked(
    role: Section, episode: Episode, lines: Sequence[str], *shown: Section, lessons: Sequence[str] = ()
) -> Prompt:
    told = prompts.notes_section(episode), prompts.task_section(episode)
    learned, done = prompts.lessons_section(lessons), prompts.history_section(lines)
    return prompts.prompt(ScoreAnswer(), role, *told, learned, done, *shown)


def _proposal(view: View, action: Action) -> Section:
    if action.tool == NO_TOOL:
        return NONE
    call = action.call or prompts.finishing(action.answer)
    return proposal_section(view.offer.tools[call.tool], call)
