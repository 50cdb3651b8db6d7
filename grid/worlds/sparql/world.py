"""The atomic query tools over a graph as the tools of one case (planning_horizon §4.1, appendix B.1.2)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, TypeVar

from grid.core.types import FINISH, RESULT, Observation, ToolCall, ToolSpec
from grid.core.world import State, own_state
from grid.worlds.handles import ANSWER, CallError, answer_of, handle, place, shown, texts_of
from grid.worlds.schema import ERROR, Expected
from grid.worlds.sparql import expecting
from grid.worlds.sparql.building import RELATIONS, expressions, nothing
from grid.worlds.sparql.errors import SparqlError
from grid.worlds.sparql.expressions import Expression
from grid.worlds.sparql.graph import KnowledgeGraph
from grid.worlds.sparql.resolving import resolve
from grid.worlds.sparql.results import Result, answer_text, answers, parts_of, told
from grid.worlds.sparql.tools import EXTRACT, TOOLS

T = TypeVar("T")


@dataclass(frozen=True)
class SparqlState:
    """The successful calls so far, each as its tool and its arguments in the tool's order, and their results.

    A result follows from the calls before it, so that states are equal where the calls are. `answer` has the values of
    the answer that was given; None before.
    """

    calls: tuple[tuple[str, ...], ...] = ()
    answer: tuple[str, ...] | None = None
    results: tuple[Result, ...] = field(default=(), compare=False, repr=False)


_START = SparqlState()


@dataclass(frozen=True)
class SparqlWorld:
    """A case's seven tools over a graph, whose state is the results so far.

    A successful call gives {"result": "$n", "value": ...}: n counts results from 0, and `$n` stands for that result in
    later calls; `value` says how many there are and names the first ten. What a call denotes follows from the whole
    expression that the calls behind its results make up, as published. A call that denotes nothing, or whose arguments
    do not fit, has failed: {"error": why}, and leaves no result.

    `answered`: the case is answered by `finish(answer)`, a `$n` or words, its values parted by `; `; behind one that
    has not failed the answer stays. Otherwise the latest result is the answer. Entities are answered by their ids; the
    name of one of the reference's stands for it.

    Attributes:
        graph: the graph, which is never changed and may be shared.
        reference: the ids and values of the case's answer.
        names: of the entities among these.
        mentions: what the dataset links texts of the question to: an id, a class, or a literal with its datatype.
        answered: which of the two rules holds.
    """

    graph: KnowledgeGraph
    reference: tuple[str, ...]
    names: Mapping[str, str] = field(default_factory=dict, hash=False)
    mentions: Mapping[str, str] = field(default_factory=dict, hash=False)
    answered: bool = False
    branches: ClassVar[bool] = True

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        """The seven tools."""
        return tuple(TOOLS.values())

    def start(self) -> SparqlState:
        """No results."""
        return _START

    async def apply(self, state: State, call: ToolCall) -> tuple[SparqlState, Observation]:
        """Run one call; whatever is wrong with it is the observation's `error`."""
        before = own_state(state, SparqlState)
        results = before.results
        try:
            if before.answer is not None:
                raise SparqlError("the question is answered already")
            if self.answered and call.tool == FINISH:
                given = answer_of(call, len(results), lambda number: results[number].texts)
                return replace(before, answer=given), Observation({ANSWER: answer_text(given)})
            made, result, value = await self._asked(lambda: self._run(results, call))
        except CallError as error:
            return before, Observation({ERROR: f"{error}."}, failed=True)
        after = SparqlState((*before.calls, made), None, (*results, result))
        return after, Observation({RESULT: handle(len(results)), "value": value})

    async def identifiers(self, state: State, call: ToolCall) -> Mapping[str, Expected]:
        """What a call takes of the graph's schema and of its entities' names.

        Candidates are the relations that the entities have which the call is given.
        """
        results = own_state(state, SparqlState).results
        try:
            words, given = _arguments(call, results)
            return await self._asked(lambda: expecting.expected(self.graph, self.mentions, call.tool, words, given))
        except CallError:
            return {}

    def answer(self, state: State) -> str | None:
        """The answer as a text, its values parted by `; `; None before one is given."""
        found = self._found(state)
        return None if found is None else answer_text(found)

    def resolved(self, state: State) -> bool:
        """Whether the answer has the values of the reference's, compared as a set (see `answers`)."""
        found = self._found(state)
        return found is not None and answers(found, self.reference, self.names)

    def _found(self, state: State) -> tuple[str, ...] | None:
        now = own_state(state, SparqlState)
        if self.answered:
            return now.answer
        return now.results[-1].texts if now.results else None

    async def _asked(self, question: Callable[[], T]) -> T:
        """What a question to the graph has for an answer; others go on while a network is waited for."""
        return await asyncio.to_thread(question) if self.graph.waits else question()

    def _run(self, results: Sequence[Result], call: ToolCall) -> tuple[tuple[str, ...], Result, str]:
        """The call as a state keeps it, what it returns, and how that is told; raises CallError."""
        words, given = _arguments(call, results)
        if call.tool == EXTRACT:
            found: list[Expression] = [resolve(self.graph, self.mentions, words["input_value"])]
        else:
            found = expressions(call.tool, words, given)
        parts = parts_of(*given.values())
        for expression in found:
            nodes = self.graph.denotes(expression)
            if nodes:
                made = (call.tool, *(str(call.arguments[p.name]) for p in TOOLS[call.tool].parameters))
                return made, Result(expression, nodes, parts), told(self.graph, nodes)
        raise SparqlError(self._unknown(words) or nothing(call.tool, words))

    def _unknown(self, words: Mapping[str, str]) -> str | None:
        """That a call names a relation that the graph lacks; None where it does not, or the graph cannot tell."""
        for name in filter(words.__contains__, RELATIONS):
            known = self.graph.vocabularies["relation"]
            if known and words[name] not in known:
                return f"there is no relation {shown(words[name])}"
        return None


def _arguments(call: ToolCall, results: Sequence[Result]) -> tuple[dict[str, str], dict[str, Result]]:
    """The arguments that are words, and the earlier results that the others stand for; raises CallError."""
    tool = TOOLS.get(call.tool)
    if tool is None:
        raise SparqlError(f"there is no tool {shown(call.tool)}")
    texts = texts_of(call, [parameter.name for parameter in tool.parameters])
    given = {
        parameter.name: results[place(parameter.name, texts[parameter.name], len(results))]
        for parameter in tool.parameters
        if parameter.type == RESULT
    }
    return {name: text for name, text in texts.items() if name not in given}, given
