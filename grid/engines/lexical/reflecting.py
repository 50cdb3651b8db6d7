"""What the lexical engine says in words: a thought, a lesson, a critique of a draft. None understands anything."""

from __future__ import annotations

from grid.core.engine import Prompt, ThoughtAnswer
from grid.engines.lexical import points
from grid.text.chains import Predicted, read_draft
from grid.text.words import stems


def said(prompt: Prompt) -> str:
    """A thought where one is wanted, a critique where the prompt shows a draft, else a lesson."""
    if isinstance(prompt.answer, ThoughtAnswer):
        return thought(prompt)
    return critique(prompt) if prompt.entries("draft") else lesson(prompt)


def thought(prompt: Prompt) -> str:
    """The clause of the query, or the substep, that comes next."""
    if points.is_done(prompt):
        return "Nothing is left to be done."
    return points.pointed(prompt).entries("request")[-1].partition(": ")[2].partition(" ")[2]


def lesson(prompt: Prompt) -> str:
    """A reflection without understanding: the step whose call shares fewest words with its substep."""
    calls = [entry for entry in prompt.entries("history") if " returned " in entry]
    if not calls:
        return "No tool was called; look again at which substeps take one."

    def overlap(entry: str) -> float:
        said, _, done = entry.partition(" -> ")
        words = set(stems(said))
        return len(words & set(stems(done.partition(" returned ")[0]))) / max(len(words), 1)

    said = min(calls, key=overlap).partition(" -> ")[0]
    return f"The call at substep {said!r} fits its words least; another tool may be meant there."


def critique(prompt: Prompt) -> str:
    """Which planned call shares fewest words with the request."""
    draft: Predicted = read_draft(prompt.entries("draft")[-1])
    request, calls = set(stems(points.query(prompt))), [call for call in draft.calls if call]
    if not calls:
        return "The draft calls no tool; look again at what the request takes."

    def overlap(text: str) -> float:
        words = set(stems(text))
        return len(words & request) / max(len(words), 1)

    texts = [" ".join([call.name, *map(str, call.arguments.values())]) for call in calls]
    least = min(texts, key=overlap)
    return f"The call {least[:200]!r} shares fewest words with the request; another tool may be meant there."
