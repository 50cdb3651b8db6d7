"""An outline that the model itself drafts before the planner starts: `dataset.outline=drafted`.

The outline is sampled at temperature 0, so all planners and trials of a model follow the same outline if the engine
gives the same answer each time. The outline's cost counts for the episode.
"""

from __future__ import annotations

from dataclasses import replace

from grid.core.engine import OutlineAnswer, Section
from grid.core.errors import ModelError
from grid.core.types import Plan, Substep
from grid.episode import prompts
from grid.episode.episode import Episode
from grid.episode.requests import again, rejected
from grid.text.answers import read_outline
from grid.text.objects import UnreadableError

MAX_SUBSTEPS = 50
MAX_CHARACTERS = 500
_TRIES = 3
_EACH = (
    "in order, each as one short sentence that states its purpose. A substep is one tool call, or one thing "
    "that needs no tool."
)
_ASK = f"Before doing anything, outline the work: the substeps that carry out the request, {_EACH}"
_LEFT = f"Outline the remaining work: the substeps that complete the request, {_EACH}"
_FORM = 'Answer with one JSON object: {"outline": [text, ...]}.'
_DEMONSTRATIONS = 10
_MAX_TOKENS = 1024


async def draft(episode: Episode) -> None:
    """Let the model write an outline for the episode's case; if steps were already taken, it covers the remaining work.

    Raises:
        ModelError: none of three answers was a usable outline: each was unreadable or empty, had more than fifty
            substeps, or had an overlong substep.
        BudgetError, ContextError, EngineError: as for `Episode.sample`.
    """
    done = episode.case.done
    prompt = prompts.prompt(
        OutlineAnswer(MAX_SUBSTEPS),
        prompts.ROLE,
        prompts.notes_section(episode),
        prompts.tools_section(episode.options(None).tools),
        prompts.demonstrations_section(episode, _DEMONSTRATIONS),
        prompts.memory_section(episode),
        prompts.task_section(episode),
        prompts.history_section([prompts.step_text(step) for step in done]),
        Section("instruction", (_LEFT if done else _ASK, _FORM)),
    )
    why, last = "", None
    for tried in range(_TRIES):
        asked = await episode.sample(again(prompt, last), "outline", tried, temperature=0.0, max_tokens=_MAX_TOKENS)
        try:
            lines = _followed(read_outline(asked.read()))
        except UnreadableError as error:
            asked.message.unreadable[0] = why = str(error)
            last = rejected(asked, tried + 1, _TRIES)
            continue
        # A path includes the steps that were already taken, so the outline must include them too.
        begun = tuple(replace(step.substep, text=f"{step.chosen} (done)", drafted=True) for step in done)
        substeps = tuple(Substep(str(i), line, "", drafted=True) for i, line in enumerate(lines, start=len(done) or 1))
        episode.case = replace(episode.case, plan=Plan((*begun, *substeps)))
        return
    raise ModelError(f"the model had written no usable outline after {_TRIES} tries: {why}")


def _followed(lines: list[str]) -> list[str]:
    """The outline in an answer; raises UnreadableError if the outline cannot be followed."""
    if len(lines) > MAX_SUBSTEPS:
        raise UnreadableError(f"{len(lines)} substeps, {MAX_SUBSTEPS} at most")
    longest = max(map(len, lines))
    if longest > MAX_CHARACTERS:
        raise UnreadableError(f"a substep of {longest:,} characters, {MAX_CHARACTERS} at most")
    return lines
