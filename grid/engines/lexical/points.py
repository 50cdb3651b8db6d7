"""Where the lexical engine stands: the outline's substeps or, without one, the clauses of the query in their order."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache

from grid.core.engine import Prompt, Section
from grid.core.types import USER
from grid.text.arguments import RESULT_REFERENCE
from grid.text.words import stems

_CLAUSE = re.compile(r"(?<=[.!?;])\s+|\n+|,? (?:and )?then |, and (?=[a-z])")
_MOST = 20
_TRY = re.compile(r"This is try (\d{1,3}) of ")
_RESULT = re.compile(RESULT_REFERENCE)


def outline(prompt: Prompt) -> tuple[str, ...]:
    """The outline's lines, each with its number; empty without one."""
    return prompt.entries("task")[2:]


@lru_cache(maxsize=4096)
def clauses(query: str) -> tuple[str, ...]:
    """A query's parts, each of which may want a call; at least one."""
    parts = [part.strip(" .,;") for part in _CLAUSE.split(query)]
    return tuple(part for part in parts if len(stems(part)) > 1)[:_MOST] or (query,)


def query(prompt: Prompt) -> str:
    """What the user said last: a later message, or the query itself."""
    return _last_said(prompt)[1]


def steps_done(prompt: Prompt) -> int:
    """Steps that the history shows since the user's last message."""
    return max(len(prompt.entries("history")) - 1, 0) - _last_said(prompt)[0]


def _last_said(prompt: Prompt) -> tuple[int, str]:
    """The number of steps before the user's last message, and the message."""
    for place, line in reversed([*enumerate(prompt.entries("history"))]):
        _, said, message = line.partition(f"\n{USER}")
        if said:
            return place, message
    return 0, prompt.entries("task")[0].removeprefix("Query: ")


def rejected_before(prompt: Prompt) -> int:
    """How many answers to this prompt could not be used so far: a retry names its try."""
    found = next((_TRY.match(entry) for entry in prompt.entries("retry")), None)
    return int(found[1]) - 1 if found else 0


def results(prompt: Prompt) -> tuple[str, ...]:
    """References to the results that the history shows, the latest first."""
    shown = (entry.partition(" returned {") for entry in reversed(prompt.entries("history")))
    whole = (_RESULT.search(behind) for _, returned, behind in shown if returned)
    return tuple(dict.fromkeys(found[0] for found in whole if found))


def first_number(prompt: Prompt) -> int:
    """The number of a path's first step: those of drafted outlines begin at 1."""
    return 1 if outline(prompt) else 0


def is_done(prompt: Prompt) -> bool:
    """Whether every clause of the query has had its step, where no outline says what comes next."""
    return not outline(prompt) and steps_done(prompt) >= len(clauses(query(prompt)))


def at(prompt: Prompt, place: int) -> Prompt:
    """The prompt as if it asked for the step at a place of the outline or of the query's clauses."""
    lines = outline(prompt) or tuple(f"{number} {text}" for number, text in enumerate(clauses(query(prompt))))
    request = Section("request", (f"Present substep: {lines[min(place, len(lines) - 1)]}",))
    others = tuple(section for section in prompt.sections if section.kind != "request")
    return replace(prompt, sections=(*others, request))


def id_of(prompt: Prompt) -> str:
    """The number of the present substep."""
    return prompt.entries("request")[-1].partition(": ")[2].partition(" ")[0]


def pointed(prompt: Prompt) -> Prompt:
    """The prompt with a present substep, whether it names one or not."""
    return prompt if prompt.entries("request") else at(prompt, steps_done(prompt))
