"""Asking again: the next try is shown the answer that could not be used, and told why (planning_horizon B.2)."""

from __future__ import annotations

from typing import NamedTuple

from grid.core.engine import Prompt, Section
from grid.core.untrusted import shown
from grid.episode.requests import Answers

MOST_SHOWN = 2000
"""Characters of a rejected answer that the next prompt shows."""
_MOST_REASON = 500
_ANEW = "Read the instructions above again and answer anew, in the format asked for, without this fault."


class Rejected(NamedTuple):
    """An answer that could not be used, why, and how many tries there were so far, of how many."""

    text: str
    why: str
    tried: int
    tries: int


def rejected(asked: Answers, tried: int, tries: int) -> Rejected:
    """The last of some answers that could not be used, as their message has it."""
    place = max(asked.message.unreadable)
    return Rejected(asked.texts[place], asked.message.unreadable[place], tried, tries)


def again(prompt: Prompt, last: Rejected | None) -> Prompt:
    """The prompt of the next try: the last answer and its fault stand behind all else, so that the prefix is shared.

    The answer is untrusted: it is cut, and stands on one line, so that it cannot look like another part of the prompt.
    With the number of the try no two prompts are the same, though a model without temperature may repeat itself.
    """
    if last is None:
        return prompt
    answer, length = shown(last.text[:MOST_SHOWN]), len(last.text)
    if length > MOST_SHOWN:
        answer += f" ... (cut here: it had {length:,} characters)"
    told = (
        f"This is try {last.tried + 1} of {last.tries}. Your last answer could not be used.",
        f"The answer was: {answer or '(empty)'}",
        f"What is wrong with it: {shown(last.why[:_MOST_REASON])}.",
        _ANEW,
    )
    return Prompt((*prompt.sections, Section("retry", told)), prompt.answer)
