"""Retrieval between thought and action: ReAct's dynamic mode as TRAJECT-Bench's authors run it (traject_bench §4.4).

The paper says that retrieval occurs before each thought and action. Their script first asks for a thought on the tools
that the last one found (the query, for the first), retrieves by the new thought alone, and then asks for thought and
action on the tools found: two answers a decision.
"""

from __future__ import annotations

from dataclasses import replace

from grid.core.engine import Section, ThoughtAnswer
from grid.core.types import Usage
from grid.episode import prompts
from grid.episode.acting import Acting, Decision
from grid.episode.asking import sections, single_pass
from grid.episode.episode import Episode
from grid.episode.view import View
from grid.text.objects import UnreadableError

ASK = (
    "Say in a sentence or two what has to be done next, and what a tool for it does; or that nothing is left to be "
    "done. Call nothing yet: tools are sought by your words, and take the place of those that are listed above."
)


async def thought_first(episode: Episode, view: View, name: str, acting: Acting) -> Decision:
    """A decision among the tools that a thought finds, both thoughts with it; of those at hand where there is none."""
    thought, spent = await _thought(episode, view, name, acting)
    if thought:
        substep = None if view.whole_query else view.substep
        found = episode.options(substep, view.path.steps, thought=thought)
        view = replace(view, options=found, thought=thought)
    decision = await single_pass(episode, view, name, acting)
    thoughts = " ".join(filter(None, (thought, decision.action.thought))) or None
    action = replace(decision.action, thought=thoughts)
    return replace(decision, action=action, usage=decision.usage + spent, view=view)


async def _thought(episode: Episode, view: View, name: str, acting: Acting) -> tuple[str, Usage]:
    """At most so many characters as a thought may have, on one line; empty where none could be read."""
    before = sections(episode, view, view.offer.section, acting)
    ask = Section("instruction", (ASK,))
    asked = await episode.sample(
        prompts.prompt(ThoughtAnswer(), *before, prompts.request_section(view.substep), ask),
        *(name, view.substep.id, "thought"),
        temperature=acting.temperature,
        max_tokens=acting.max_tokens,
    )
    try:
        words = asked.read()
    except UnreadableError as error:
        asked.message.unreadable[0] = str(error)
        return "", asked.usage
    return " ".join(words.rpartition("</think>")[2].split())[: acting.thought], asked.usage
