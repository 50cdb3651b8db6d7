"""KoPL's functions as the tools of one case (planning_horizon §4.1, appendix B.1.1)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import ClassVar

from grid.core.types import BETWEEN, FINISH, RESULT, Observation, ToolCall, ToolSpec
from grid.core.world import State, own_state
from grid.worlds.handles import ANSWER, CallError, answer_of, handle, place, shown, texts_of
from grid.worlds.kopl.base import KnowledgeBase
from grid.worlds.kopl.functions import FUNCTIONS, TOOLS, Function, Sort, sort_of
from grid.worlds.kopl.queries import Result, between, is_empty, same_answer, texts, told
from grid.worlds.kopl.sets import DIRECTIONS, Attribute, EntitySet, Fact
from grid.worlds.kopl.values import KoplError
from grid.worlds.schema import ERROR, Expected, Vocabulary

_TOLD: dict[Sort, str] = {
    "entities": "a set of entities",
    "values": "values of an attribute or qualifier",
    "texts": "names",
    "answer": "a single text",
}
_SCALARS = ", ".join(name for name, function in FUNCTIONS.items() if function.returns != "entities")


@dataclass(frozen=True)
class KoplState:
    """The successful calls so far, each as its function and its arguments in the function's order, and their results.

    A result follows from the calls before it, so that states are equal where the calls are. `answer` has the values of
    the answer that was given; None before.
    """

    calls: tuple[tuple[str, ...], ...] = ()
    answer: tuple[str, ...] | None = None
    results: tuple[Result, ...] = field(default=(), compare=False, repr=False)


_START = KoplState()


@dataclass(frozen=True)
class KoplWorld:
    """A case's tools over a knowledge base, whose state is the results so far.

    A successful call gives {"result": "$n", "value": ...}: n counts results from 0, and `$n` stands for that result in
    later calls; `value` is its text, or how many there are and the first ten. A call that returns nothing valid (an
    unknown identifier, an empty set, arguments that do not fit) has failed: {"error": why}, and leaves no result.

    `answered`: the case is answered by `finish(answer)`, a `$n` or words, its values parted by `; `. An entity set is
    no answer: that finish has failed, as has one without an answer (the rule of planning_horizon's official code).
    Behind a finish that has not failed the answer stays. Otherwise the latest result is the answer.

    Attributes:
        kb: the knowledge base, which is never changed.
        reference: the values of the case's answer, as the dataset states them.
        answered: which of the two rules holds.
    """

    kb: KnowledgeBase
    reference: tuple[str, ...]
    answered: bool = False
    branches: ClassVar[bool] = True

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        """The 27 functions."""
        return tuple(TOOLS.values())

    def start(self) -> KoplState:
        """No results."""
        return _START

    async def apply(self, state: State, call: ToolCall) -> tuple[KoplState, Observation]:
        """Run one call; whatever is wrong with it is the observation's `error`."""
        before = own_state(state, KoplState)
        try:
            if before.answer is not None:
                raise KoplError("the question is answered already")
            if self.answered and call.tool == FINISH:
                given = answer_of(call, len(before.results), lambda number: _values(before.results[number]))
                return replace(before, answer=given), Observation({ANSWER: BETWEEN.join(given)})
            arguments, result = self._run(before.results, call)
        except CallError as error:
            return before, Observation({ERROR: f"{error}."}, failed=True)
        after = KoplState((*before.calls, (call.tool, *arguments)), None, (*before.results, result))
        return after, Observation({RESULT: handle(len(before.results)), "value": told(self.kb, result)})

    async def identifiers(self, state: State, call: ToolCall) -> Mapping[str, Expected]:
        """What a function's call takes of the schema, of entities' names and of the texts of facts.

        Candidates are what the entities that the call is given have.
        """
        function, results = FUNCTIONS.get(call.tool), own_state(state, KoplState).results
        if function is None:
            return {}
        try:
            arguments = texts_of(call, (*function.results, *function.texts))
            given = {name: _given(function, name, arguments[name], results) for name in function.results}
        except CallError:
            return {}
        return Expecting(self.kb, function.name, given, {name: arguments[name] for name in function.texts}).expected()

    def answer(self, state: State) -> str | None:
        """The answer as a text, its values parted by `; `; None before one is given.

        Where finishing is not what answers, it is the latest result, and None where that is an entity set.
        """
        found = self._found(state)
        return None if found is None else BETWEEN.join(dict.fromkeys(found))

    def resolved(self, state: State) -> bool:
        """Whether the answer has the values of the reference's, compared as a set (see `same_answer`)."""
        found = self._found(state)
        if found is None:
            return False
        return same_answer(found, self.reference) or (
            self.answered and same_answer((BETWEEN.join(found),), self.reference)  # a value may hold what parts them
        )

    def _found(self, state: State) -> tuple[str, ...] | None:
        return own_state(state, KoplState).answer if self.answered else _latest(state)

    def _run(self, results: Sequence[Result], call: ToolCall) -> tuple[Sequence[str], Result]:
        """The arguments in the function's order, and what it returns; raises CallError."""
        function = FUNCTIONS.get(call.tool)
        if function is None:
            raise KoplError(f"there is no tool {shown(call.tool)}")
        arguments = texts_of(call, (*function.results, *function.texts))
        given = [_given(function, name, arguments[name], results) for name in function.results]
        words = {name: arguments[name] for name in function.texts}
        for name, kind in function.vocabularies.items():
            vocabulary = self.kb.vocabularies[kind]
            if words[name] not in vocabulary:
                raise KoplError(f"there is no {vocabulary.noun} {shown(words[name])}")
        result = function.run(self.kb, *given, *words.values())
        if is_empty(result):
            raise KoplError(function.nothing.format_map({name: shown(text) for name, text in words.items()}))
        return tuple(arguments.values()), result


def _given(function: Function, name: str, given: str, results: Sequence[Result]) -> Result:
    """The earlier result that a parameter is given; raises CallError where there is none, or one of another sort."""
    result = results[place(name, given, len(results))]
    if sort_of(result) != function.sort(name):
        raise KoplError(f"{name}: that step's result is {_TOLD[sort_of(result)]}, not {_TOLD[function.sort(name)]}")
    return result


def _latest(state: State) -> tuple[str, ...] | None:
    """The latest result's texts; None without one or where it is an entity set."""
    results = own_state(state, KoplState).results
    return texts(results[-1]) if results else None


def _values(result: Result) -> tuple[str, ...]:
    """A result's texts; raises KoplError of an entity set."""
    found = texts(result)
    if found is None:
        raise KoplError(f"{ANSWER}: a set of entities is no answer; finish with what one of these returns: {_SCALARS}")
    return found


# Which names a function's call expects: those that the entities it is given have (planning_horizon B.1.1).


_BY_ENDING = {"Num": "quantity", "Year": "time", "Date": "time", "Str": "string"}
_SELECTING = ("SelectBetween", "SelectAmong")
_TEXT = "string"


class Expecting:
    """What one call expects; `results` are the earlier results that it is given, `words` its text arguments.

    Entities without a name of the kind have none to offer: then nothing is expected that could be matched.
    """

    def __init__(
        self, kb: KnowledgeBase, function: str, results: Mapping[str, Result], words: Mapping[str, str]
    ) -> None:
        self._kb, self._function, self._words = kb, function, words
        self._sets = [result for result in results.values() if isinstance(result, EntitySet)]

    def expected(self) -> dict[str, Expected]:
        """By parameter, in the function's order."""
        ways = {
            "name": self._name,
            "concept_name": self._concept,
            "relation": self._relation,
            "key": self._key,
            "value": self._value,
            "qkey": self._qualifier,
            "qvalue": self._qualifier_value,
        }
        found = {name: ways[name]() for name in self._words if name in ways}
        return {name: expected for name, expected in found.items() if expected is not None}

    def _name(self) -> Expected:
        vocabulary = self._kb.vocabularies["entity"]
        return Expected(vocabulary, vocabulary.names, "name")

    def _concept(self) -> Expected:
        members = self._kb.members
        return self._of("concept", (name for name, own in members.items() if self._meets(own.members)))

    def _relation(self) -> Expected | None:
        direction = self._words.get("direction")
        if direction is None:
            return self._of("relation", (fact.predicate for fact in between(self._kb, *self._sets)))
        if direction not in DIRECTIONS:
            return None  # that is what is wrong
        found = self._kb.relations.items()
        return self._of(
            "relation", (name for (name, way), own in found if way == direction and self._meets(own.by_entity.keys()))
        )

    def _key(self) -> Expected:
        """Attribute keys whose values are of the kind that the function compares, where it does."""
        kind = "quantity" if self._function in _SELECTING else self._kind()
        found = (key for key, own in self._kb.attributes.items() if self._meets(own.by_entity.keys()))
        return self._of(
            "attribute", (key for key in found if kind is None or any(f.value.kind == kind for f in self._facts(key)))
        )

    def _value(self) -> Expected | None:
        """Texts under the key; None for numbers and dates, which are compared and not named."""
        key = self._words["key"]
        index = self._kb.attributes.get(key)
        if self._kind() not in (None, _TEXT) or index is None or not index.texts:
            return None
        vocabulary = Vocabulary(f"value of {key}", index.texts)
        here = (fact.value.string for fact in self._facts(key) if fact.value.kind == _TEXT)
        return Expected(vocabulary, list(dict.fromkeys(here)), "text")

    def _qualifier(self) -> Expected | None:
        facts = self._qualified()
        if facts is None:
            return None
        kind = self._kind()
        return self._of(
            "qualifier",
            (
                key
                for fact in facts
                for key, values in fact.qualifiers.items()
                if kind is None or any(value.kind == kind for value in values)
            ),
        )

    def _qualifier_value(self) -> Expected | None:
        facts, key = self._qualified(), self._words["qkey"]
        texts = self._kb.qualifier_texts.get(key)
        if facts is None or texts is None or self._kind() not in (None, _TEXT):
            return None
        values = chain.from_iterable(fact.qualifiers.get(key, ()) for fact in facts)
        here = dict.fromkeys(value.string for value in values if value.kind == _TEXT)
        return Expected(texts, list(here), "text")

    def _qualified(self) -> Iterable[Fact] | None:
        """The facts whose qualifiers the call is about; None where the given entities carry none."""
        if "relation" in self._words:
            named = between(self._kb, *self._sets)
            return [fact for fact in named if fact.predicate == self._words["relation"]]
        if "key" not in self._words:
            return self._sets[0].facts
        value = self._words.get("value")
        return [fact for fact in self._facts(self._words["key"]) if value is None or fact.value.text() == value]

    def _kind(self) -> str | None:
        """The kind of values that a filter compares; None for functions that take any."""
        return next((kind for ending, kind in _BY_ENDING.items() if self._function.endswith(f"Filter{ending}")), None)

    def _facts(self, key: str) -> Sequence[Attribute]:
        index = self._kb.attributes.get(key)
        return [fact for own in self._sets for fact in index.facts_of(own)] if index else ()

    def _meets(self, others: Set[int]) -> bool:
        """Whether one of the given entities is among others."""
        return any(own.is_everything or not own.members.isdisjoint(others) for own in self._sets)

    def _of(self, kind: str, here: Iterable[str]) -> Expected:
        return Expected(self._kb.vocabularies[kind], list(dict.fromkeys(here)))
