"""A question as a part of a case: the calls that solve it, their texts composed by rules, and what they find (B.1.3).

The paper's decompositions were written by a language model and are not released. Here a bridge question is two
searches: those of its words that its first paragraph tells about make the first, whose result is the title of the other
paragraph; put in their place it makes the second. A comparison asks of each of the two what decides the question, with
neither naming the other, and compares what was found.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from grid.core.types import RESULT
from grid.datasets.hotpotqa.records import BRIDGE, Context, Question
from grid.datasets.hotpotqa.spans import described
from grid.text.references import PATTERN, reference
from grid.text.short_answers import normalised
from grid.text.words import terms
from grid.worlds.search.extraction import bare
from grid.worlds.search.readers import Evidence
from grid.worlds.search.world import COMMONSENSE, SEARCH

Pieces: TypeAlias = tuple[str | int, ...]
"""A question's text; a number stands for the result of the part's call of this number, from 0."""
_EDGES = " ,;:.?!"
_NAMED = 0.5
"""The share of a title's words by which a paragraph names it: texts seldom have a title in full."""


@dataclass(frozen=True)
class PartStep:
    """One call: its tool, its question, and its result.

    `title`: of the paragraph that holds the result; empty where none is searched.
    """

    tool: str
    pieces: Pieces
    result: str
    title: str = ""

    def asked(self, numbers: Sequence[str]) -> str:
        """The question, with references to the part's calls before it, by their numbers in the plan."""
        return self._joined([reference(number, RESULT) for number in numbers])

    def found(self, results: Sequence[str]) -> str:
        """The question with the part's earlier results in it."""
        return self._joined(results)

    def _joined(self, results: Sequence[str]) -> str:
        texts = (piece if isinstance(piece, str) else results[piece] for piece in self.pieces)
        return " ".join("".join(texts).split())


@dataclass(frozen=True)
class Part:
    """A question that can be one of several: its reference's calls in their order; the last one's result answers it."""

    id: str
    question: str
    answer: str
    kind: str
    steps: tuple[PartStep, ...]

    @property
    def is_comparison(self) -> bool:
        """Whether its last call compares what the others found."""
        return self.steps[-1].tool == COMMONSENSE

    @cached_property
    def template(self) -> str:
        """Its words without the names of its paragraphs: questions of one template differ in these names alone."""
        names = sorted({bare(step.title) for step in self.steps} - {""}, key=len, reverse=True)
        return normalised(re.sub("|".join(map(_named, names)), " ", self.question, flags=re.IGNORECASE))

    def evidence(self) -> dict[str, Evidence]:
        """By question, with earlier results filled in, what each call finds."""
        results = [step.result for step in self.steps]
        return {step.found(results): Evidence(step.result, step.title) for step in self.steps}


def part_of(question: Question) -> Part:
    """A question with its reference; raises ValueError, with the reason, where its paragraphs give none."""
    supporting = question.supporting
    if len(supporting) != 2:
        raise ValueError(f"{len(supporting)} of its paragraphs hold supporting facts, where two must")
    steps = _bridge(question, *supporting) if question.kind == BRIDGE else _comparison(question, *supporting)
    if any(PATTERN.search(piece) for step in steps for piece in (*step.pieces, step.result) if isinstance(piece, str)):
        raise ValueError("its texts look like references to steps")
    return Part(question.id, question.text, question.answer, question.kind, steps)


def _bridge(question: Question, one: Context, other: Context) -> tuple[PartStep, ...]:
    """Find the pivot, then ask about it: the pivot is the title of the one paragraph that holds the answer."""
    held = [_stands_in(question.answer, f"{context.title} {context.text}") for context in (one, other)]
    if held[0] == held[1]:
        raise ValueError(f"its answer stands in {'both' if held[0] else 'neither'} of its supporting paragraphs")
    first, last = (other, one) if held[0] else (one, other)
    pivot = bare(last.title)
    if _stands_in(pivot, question.text):
        raise ValueError("it names its pivot itself, so that nothing has to be found first")
    words = terms(pivot)
    if sum(word in terms(first.text) for word in words) < _NAMED * len(words):
        raise ValueError("its first paragraph does not name its pivot")
    span = described(question.text, f"{first.title} {first.text}", f"{last.title} {last.text}")
    if span is None:
        raise ValueError("none of its words tells of its first paragraph alone")
    before, inside, behind = question.text[: span[0]], question.text[slice(*span)], question.text[span[1] :]
    return (
        PartStep(SEARCH, ("Who or what is meant here: ", inside.strip(_EDGES), "?"), pivot, first.title),
        PartStep(SEARCH, (before, 0, _behind(inside), behind), question.answer, last.title),
    )


def _comparison(question: Question, one: Context, other: Context) -> tuple[PartStep, ...]:
    """Ask of each what decides the question, then decide it. What is found are the sentences that it rests on."""
    text, places = question.text, dict[tuple[int, int], Context]()
    for context in (one, other):
        name = bare(context.title)
        match = re.search(_named(name), text, re.IGNORECASE)
        if match is None:
            raise ValueError(f"it does not name {name!r:.60}")
        places[match.span()] = context
    (first, first_end), *rest = sorted(places)
    if not rest or first_end > rest[0][0]:
        raise ValueError("it names the two by the same words")
    ((second, second_end),) = rest
    alike = f"{text[:first]}the one{text[first_end:second]}the other{text[second_end:]}"
    found = [(bare(places[place].title), places[place]) for place in sorted(places)]
    searches = (
        PartStep(SEARCH, (f"What about {name} decides this: {alike}",), _facts(context), context.title)
        for name, context in found
    )
    told = (f"Of {found[0][0]} this is known: ", 0, f" Of {found[1][0]} this is known: ", 1, f" By that: {text}")
    return (*searches, PartStep(COMMONSENSE, told, question.answer))


def _named(name: str) -> str:
    """A pattern: a name that stands by itself."""
    return rf"(?<!\w){re.escape(name)}(?!\w)"


def _facts(context: Context) -> str:
    return " ".join(context.sentences[number] for number in context.facts)


def _behind(span: str) -> str:
    """The punctuation that a span ends with, which stays where it is."""
    return span[len(span.rstrip(_EDGES)) :]


def _stands_in(text: str, whole: str) -> bool:
    """Whether a text stands in another, word by word, whatever the case, articles and punctuation."""
    return f" {normalised(text)} " in f" {normalised(whole)} "
