"""Multi-part questions about a corpus, with the tools `search` and `commonsense` (planning_horizon §4.1, B.1.3)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

from grid.core.types import FINISH, RESULT, Observation, Parameter, ToolCall, ToolSpec
from grid.core.world import State, own_state
from grid.text.answers import exact_match, parts_of
from grid.text.references import PATTERN, numbered
from grid.worlds.readers import ByModel, ByReference, ByRules, Corpus, Evidence, Found, Reader
from grid.worlds.schema import ERROR
from grid.worlds.simulated import Simulator

SEARCH, COMMONSENSE = "search", "commonsense"
QUESTION, ANSWER = "question", "answer"
TOOLS: Mapping[str, ToolSpec] = {
    tool.name: tool
    for tool in (
        ToolSpec(
            SEARCH,
            "Searches paragraphs of an encyclopedia for a question about one fact, and answers it in a few words from "
            "what it finds. Fails where what it finds does not hold the answer.",
            (Parameter(QUESTION, "string", "one whole question that a single paragraph answers"),),
            (RESULT,),
            "questions",
        ),
        ToolSpec(
            COMMONSENSE,
            "Answers a question in a few words by logic and common sense, without a search: compares, chooses or "
            "concludes from what the question says.",
            (Parameter(QUESTION, "string", "one whole question, with all facts that it takes"),),
            (RESULT,),
            "questions",
        ),
    )
}
_LONGEST = 20_000
"""The maximum length of a question, in characters."""


class RefusedError(Exception):
    """A call cannot be carried out. The message gives the reason, as a sentence without the full stop."""


@dataclass(frozen=True)
class AskedState:
    """The questions answered so far, each with its result, and the final answer (None until it is given)."""

    results: tuple[tuple[str, str], ...] = ()
    answer: str | None = None


@dataclass(frozen=True)
class QuestionWorld:
    """A case's tools over a corpus; the world's state is the questions and answers so far.

    A successful call returns {"result": the answer}. A call without an answer fails: it returns {"error": why} and
    leaves no result. If `answered` is true, `finish(answer)` gives the case's answer, with a numbered line for each
    part (read by `parts_of`). After `finish`, no more questions can be asked. If `answered` is false, an outline
    decides when the work ends. The case's answer then consists of the results that no later question uses, in order.

    Attributes:
        corpus: the paragraphs that are searched.
        wanted: the right answers to the parts, in order; never empty.
        evidence: the reference's answers to its own calls, used only by `by_reference`.
        paragraphs: the maximum number of paragraphs that a search uses.
        answered: whether `finish` gives the case's answer; if not, an outline ends the work.
        reader: the reader that answers the questions.
    """

    corpus: Corpus
    wanted: tuple[str, ...]
    evidence: Mapping[str, Evidence] = field(repr=False)
    paragraphs: int = 10
    answered: bool = True
    reader: Reader = field(default_factory=ByRules)
    branches: ClassVar[bool] = True

    def played_by(self, simulator: Simulator) -> QuestionWorld:
        """The same tools, with a model that answers the questions."""
        return replace(self, reader=ByModel(simulator))

    def by_reference(self) -> QuestionWorld:
        """The same tools, with answers taken from the reference."""
        return replace(self, reader=ByReference(self.evidence))

    def reading(self, paragraphs: int) -> QuestionWorld:
        """The same tools, except that a search uses at most `paragraphs` paragraphs."""
        return replace(self, paragraphs=paragraphs)

    def start(self) -> AskedState:
        """The state in which no question has been asked."""
        return AskedState()

    async def apply(self, state: State, call: ToolCall) -> tuple[AskedState, Observation]:
        """Answer one question, or take `finish`'s answer; the observation's `error` describes any fault of the call."""
        before = own_state(state, AskedState)
        try:
            if before.answer is not None:
                raise RefusedError("The question is answered already")
            if self.answered and call.tool == FINISH:
                answer = _final(call)
                return replace(before, answer=answer), Observation({ANSWER: answer})
            question = _question(call)
            found = await self._found(call.tool, question)
            if found.answer is None:
                raise RefusedError(found.why)
        except RefusedError as error:
            return before, Observation({ERROR: f"{error}."}, failed=True)
        after = AskedState((*before.results, (question, found.answer)))
        return after, Observation({RESULT: found.answer})

    def answer(self, state: State) -> str | None:
        """The answer that `finish` gave or, if an outline ends the work, the results that no later question uses.

        Several results are numbered lines. None if there is no answer or no result yet.
        """
        asked = own_state(state, AskedState)
        if self.answered:
            return asked.answer
        last = [answer for place, (_, answer) in enumerate(asked.results) if not _taken_up(asked, place)]
        return (numbered(last) if len(last) > 1 else last[0]) if last else None

    def resolved(self, state: State) -> bool:
        """Whether the answers to all parts are right and in order, judged by HotpotQA's exact match."""
        given = parts_of(self.answer(state), len(self.wanted))
        return all(exact_match(one, right) for one, right in zip(given, self.wanted, strict=True))

    async def _found(self, tool: str, question: str) -> Found:
        if tool == SEARCH:
            return await self.reader.search(question, self.corpus.nearest(question, self.paragraphs))
        return await self.reader.reason(question)


def _question(call: ToolCall) -> str:
    """A call's question on one line; raises RefusedError if the call is not valid."""
    if call.tool not in TOOLS:
        raise RefusedError(f"There is no tool {call.tool!r:.80}")
    question = call.arguments.get(QUESTION)
    if call.arguments.keys() != {QUESTION} or not isinstance(question, str) or not question.strip():
        raise RefusedError(f"{call.tool} takes a text as its {QUESTION}, and nothing else")
    if len(question) > _LONGEST:
        raise RefusedError(f"The {QUESTION} has {len(question):,} characters, {_LONGEST:,} at most are allowed")
    _check_references(question, QUESTION)
    return " ".join(question.split())


def _final(call: ToolCall) -> str:
    """The answer in a call of `finish`; raises RefusedError if the call gives no answer."""
    answer = call.arguments.get(ANSWER)
    if not isinstance(answer, str) or not answer.strip():
        raise RefusedError(f"{FINISH} needs an {ANSWER}: results of earlier steps, or words")
    _check_references(answer, ANSWER)
    return answer.strip()


def _check_references(text: str, name: str) -> None:
    left = PATTERN.search(text)
    if left:
        raise RefusedError(f"{name}: {left[0]!r:.80} is no result of an earlier step")


def _taken_up(asked: AskedState, place: int) -> bool:
    """Whether any later question contains the result of the question at position `place`."""
    held = re.compile(rf"(?<!\w){re.escape(asked.results[place][1])}(?!\w)")
    return any(held.search(question) for question, _ in asked.results[place + 1 :])
