"""Who answers the questions of a world that searches: rules, a model, or the reference itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from grid.core.types import Json, to_json
from grid.worlds.search.corpus import Paragraph
from grid.worlds.search.extraction import extracted
from grid.worlds.search.reasoning import concluded
from grid.worlds.simulated import Response, Simulator

NOT_FOUND = "No paragraph that was found answers this question. Ask another, or take another tool"
NOT_TOLD = "This cannot be told from the question. Ask another, or take another tool"
_UNREADABLE = "The answer could not be read"
_SHOWN = 4_000
"""Characters of a paragraph that a model is shown."""
_LONGEST = 2_000
"""Characters of an answer; the rest is cut."""


class Found(NamedTuple):
    """What came of a question: its answer, or (None) why there is none, as an unfinished sentence."""

    answer: str | None
    why: str = ""


class Reader(Protocol):
    """Whoever answers questions. The same question has the same answer, whoever asks."""

    async def search(self, question: str, paragraphs: Sequence[Paragraph]) -> Found:
        """The answer to a question by the paragraphs that were found for it, the nearest first."""
        ...

    async def reason(self, question: str) -> Found:
        """The answer to a question by the question alone."""
        ...


@dataclass(frozen=True)
class ByRules:
    """Rules on words, names, numbers and dates: no language model, and nobody tells them an answer."""

    async def search(self, question: str, paragraphs: Sequence[Paragraph]) -> Found:
        """What `extracted` finds."""
        answer = extracted(question, paragraphs)
        return Found(answer, "" if answer else NOT_FOUND)

    async def reason(self, question: str) -> Found:
        """What `concluded` finds."""
        answer = concluded(question)
        return Found(answer, "" if answer else NOT_TOLD)


@dataclass(frozen=True)
class ByModel:
    """A model in the role `simulator`. It sees the question and the paragraphs, and nothing of the case."""

    simulator: Simulator

    async def search(self, question: str, paragraphs: Sequence[Paragraph]) -> Found:
        """Nothing is asked where nothing was found."""
        if not paragraphs:
            return Found(None, NOT_FOUND)
        return _read(await self.simulator.read(question, [one.shown[:_SHOWN] for one in paragraphs]), NOT_FOUND)

    async def reason(self, question: str) -> Found:
        """As it reasons."""
        return _read(await self.simulator.read(question, None), NOT_TOLD)


class Evidence(NamedTuple):
    """What the reference says of one of its calls: the answer, and the title of the paragraph that holds it.

    Without a title it needs none.
    """

    answer: str
    title: str = ""


@dataclass(frozen=True)
class ByReference:
    """The reference itself: for engines that are told it, and for the oracle. No language model ever meets it.

    Its own questions have the answers that it has for them, where a search found the paragraph that holds them. All
    others have none.
    """

    evidence: Mapping[str, Evidence] = field(repr=False)

    async def search(self, question: str, paragraphs: Sequence[Paragraph]) -> Found:
        """The reference's answer, where its paragraph is among those that were found."""
        known = self.evidence.get(question)
        if known is None or not known.title or all(one.title != known.title for one in paragraphs):
            return Found(None, NOT_FOUND)
        return Found(known.answer)

    async def reason(self, question: str) -> Found:
        """The reference's answer."""
        known = self.evidence.get(question)
        return Found(None, NOT_TOLD) if known is None or known.title else Found(known.answer)


def _read(played: Response | None, otherwise: str) -> Found:
    """A model's response as an answer."""
    if played is None:
        return Found(None, _UNREADABLE)
    answer = "" if played.error else _text(played.response)
    if answer:
        return Found(answer)
    why = " ".join(played.error.split()).rstrip(".")[:_LONGEST]
    return Found(None, why or otherwise)


def _text(value: Json) -> str:
    """A response as a text on one line; empty where it says nothing."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        value = ", ".join(map(str, value))
    return " ".join((value if isinstance(value, str) else to_json(value)).split())[:_LONGEST]
