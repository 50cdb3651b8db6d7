"""Which names a function's call expects: those that the entities it is given have (planning_horizon B.1.1)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import chain

from grid.worlds.kopl.base import KnowledgeBase
from grid.worlds.kopl.queries import between
from grid.worlds.kopl.results import Result
from grid.worlds.kopl.sets import DIRECTIONS, Attribute, EntitySet, Fact
from grid.worlds.schema import Expected, Vocabulary

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
