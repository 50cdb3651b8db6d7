"""The lexical engine's plans: the nearest demonstration's, with its slots filled from the question. No language model.

A value that stands in the demonstration's question is a slot: the words that the question has in its place, where both
are laid side by side word by word, take its place. All else of the plan stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import islice
from typing import cast

import numpy as np

from grid.core.engine import PlanAnswer, Prompt, ToolCallAnswer
from grid.core.types import RESULT, Json
from grid.engines.lexical import points
from grid.text.answers import read_call, read_plan
from grid.text.arguments import allowed
from grid.text.objects import UnreadableError
from grid.text.references import PATTERN, reference

Call = dict[str, Json]
_TOKEN = re.compile(r"\w+|[^\w\s]")
_STEP = re.compile(r"(\d{1,4})(?:\.\d+)* .*?-> (?:.*? )?(\{\"tool\".*\}) (returned|failed:) \{")
_UNSEEN = re.compile(r"(\d{1,4})(?:\.\d+)* .*?-> (?:.*? )?(\{\"tool\".*\})$")
_MOST_WORDS = 300  # of a question that are laid beside another's
_MADE_WEIGHT = 5.0  # of a step that was made and stands in a plan, beside BM25 scores


@dataclass(frozen=True)
class _Made:
    """A step of the history; one whose result is not shown counts as a success."""

    number: int
    call: Call
    succeeded: bool


def plans_left(prompt: Prompt, scores: Callable[[Sequence[str]], np.ndarray]) -> list[tuple[list[Call], float]]:
    """What is left of each demonstration's plan, with how well the plan fits; none whose next calls failed before.

    Args:
        prompt: with demonstrations and a query; the steps made so far in its history.
        scores: how near texts are to the query, shape (texts,).
    """
    solved = [pair for pair in map(_solved, prompt.entries("demonstrations")) if pair]
    made = [step for step in map(_made, prompt.entries("history")) if step]
    failed = [step.call for step in made if not step.succeeded]
    following = points.first_number(prompt) + points.steps_done(prompt)
    listed = _listed(prompt)
    plans = [_adapted(plan, text, points.query(prompt), listed) for text, plan in solved]
    left = [_left(plan, made, following) for plan in plans]
    near = scores([text for text, _ in solved])
    shared = np.array([len(plan) - len(calls) for plan, calls in zip(plans, left, strict=True)])
    fits = near + _MADE_WEIGHT * shared
    return [(calls, float(fit)) for calls, fit in zip(left, fits, strict=True) if not any(c in failed for c in calls)]


def last_result(prompt: Prompt) -> str | None:
    """What stands for the result of the last step that was made and did not fail; None without one.

    One that a finish was refused with is passed over.
    """
    made = [step for step in map(_made, prompt.entries("history")) if step]
    refused = [arguments_of(step.call).get("answer") for step in made if not step.succeeded]
    results = [reference(str(step.number), RESULT) for step in reversed(made) if step.succeeded]
    return next((found for found in results if found not in refused), None)


def _solved(entry: str) -> tuple[str, list[Call]] | None:
    """A demonstration's question, of one line or several, and its plan."""
    solved, found, behind = entry.partition("\nPlan: ")
    if not found:
        return None
    try:
        calls = read_plan(behind.partition("\n")[0])
    except UnreadableError:
        return None
    return solved.removeprefix("Query: "), [{"tool": call.tool, "arguments": call.arguments} for call in calls]


def _made(entry: str) -> _Made | None:
    seen = _STEP.match(entry)
    found = seen or _UNSEEN.match(entry)
    if not found:
        return None
    try:
        call = read_call(found[2])
    except UnreadableError:
        return None
    succeeded = seen is None or seen[3] == "returned"
    return _Made(int(found[1]), {"tool": call.tool, "arguments": call.arguments}, succeeded)


def _left(plan: Sequence[Call], made: Sequence[_Made], following: int) -> list[Call]:
    """The plan's calls that were not made yet, their references to the steps as they are numbered in the whole."""
    places: dict[int, int] = {}
    left: list[Call] = []
    for index, call in enumerate(plan):
        wanted = _renumbered(call, places)
        known = next((step.number for step in made if step.succeeded and step.call == wanted), None)
        places[index] = following + len(left) if known is None else known
        if known is None:
            left.append(wanted)
    return left


def _renumbered(call: Call, places: Mapping[int, int]) -> Call:
    return call | {"arguments": {name: _renumber(value, places) for name, value in arguments_of(call).items()}}


def _renumber(value: Json, places: Mapping[int, int]) -> Json:
    if not isinstance(value, str):
        return value
    known = {str(place): str(number) for place, number in places.items()}
    return PATTERN.sub(lambda found: reference(known.get(found[1], found[1]), found[2]), value)


def _adapted(plan: Sequence[Call], solved: str, question: str, listed: Mapping[str, frozenset[str]]) -> list[Call]:
    """The plan with the question's words in its slots; an argument with `listed` values has none but those."""
    slots = _Slots(solved, question)
    adapted = []
    for call in plan:
        filled = dict(arguments_of(call))
        for name, value in filled.items():
            found = slots.fill(value) if isinstance(value, str) else value
            if found in listed.get(f"{call['tool']}.{name}", (found,)):
                filled[name] = found
        adapted.append(call | {"arguments": filled})
    return adapted


def _listed(prompt: Prompt) -> dict[str, frozenset[str]]:
    """By `tool.argument` the values that it may have, where the answer's tools list all of them."""
    tools = prompt.answer.tools if isinstance(prompt.answer, ToolCallAnswer | PlanAnswer) else ()
    return {
        f"{tool.name}.{one.name}": frozenset(values)
        for tool in tools
        for one in tool.parameters
        if (values := allowed(tool, one))
    }


def arguments_of(call: Call) -> dict[str, Json]:
    """By name."""
    return cast(dict[str, Json], call["arguments"])


class _Slots:
    """Two questions side by side."""

    def __init__(self, solved: str, question: str) -> None:
        self._question = question
        self._there, self._here = (list(islice(_TOKEN.finditer(text), _MOST_WORDS)) for text in (solved, question))
        self._words = [token[0].lower() for token in self._there]
        here = [token[0].lower() for token in self._here]
        self._blocks = SequenceMatcher(None, self._words, here, autojunk=False).get_opcodes()

    def fill(self, value: str) -> str:
        """The question's words where the solved one has the value; the value where it has it nowhere."""
        wanted = [token.lower() for token in _TOKEN.findall(value)]
        if not wanted or PATTERN.fullmatch(value):
            return value
        for start in range(len(self._words) - len(wanted) + 1):
            if self._words[start : start + len(wanted)] == wanted:
                first, last = self._place(start, 0), self._place(start + len(wanted), 1)
                if first < last:
                    return self._question[self._here[first].start() : self._here[last - 1].end()]
        return value

    def _place(self, place: int, end: int) -> int:
        """Where a boundary between words lies in the question; `end` 1 for the boundary behind a value."""
        for kind, low, high, to_low, to_high in self._blocks:
            if low + end <= place < high + end:
                if kind == "equal":
                    return to_low + place - low
                inside = to_low + min(place - low, to_high - to_low)
                return to_high if end and place == high else inside
        return len(self._here)
