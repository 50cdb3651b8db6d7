"""KoPL's functions as the tools of one case (planning_horizon §4.1, B.1.1), and `kb.json` as a knowledge base."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from grid.core.errors import DataError
from grid.core.types import BETWEEN, FINISH, RESULT, Observation, Skipped, ToolCall, ToolSpec
from grid.core.untrusted import loads_storable
from grid.core.world import State, own_state
from grid.worlds.handles import ANSWER, CallError, answer_of, handle, shown, texts_of
from grid.worlds.handles import place as place_of
from grid.worlds.kopl.functions import FUNCTIONS, TOOLS, Function, Sort, sort_of
from grid.worlds.kopl.queries import Result, between, is_empty, same_answer, texts, told
from grid.worlds.kopl.values import (
    DIRECTIONS,
    Attribute,
    EntitySet,
    Fact,
    KeyIndex,
    KnowledgeBase,
    KoplError,
    Qualifiers,
    Relation,
    RelationIndex,
    Value,
    from_json,
)
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
    """The successful calls so far, their results, and the answer.

    A call is the function's name, followed by the arguments in the function's order. Results follow from the calls, so
    two states with equal calls and answers are equal. `answer` has the values of the given answer; it is None until an
    answer is given.
    """

    calls: tuple[tuple[str, ...], ...] = ()
    answer: tuple[str, ...] | None = None
    results: tuple[Result, ...] = field(default=(), compare=False, repr=False)


_START = KoplState()


@dataclass(frozen=True)
class KoplWorld:
    """A case's tools over a knowledge base; the world's state is the results so far.

    A successful call returns {"result": "$n", "value": ...}. Results are numbered from 0, and `$n` refers to result n
    in later calls; `value` is the result as `told` shows it. A call fails if the tool or an identifier is unknown, the
    result is empty, or the arguments do not fit. A failed call returns {"error": why} and leaves no result.

    If `answered` is true, the call `finish(answer)` gives the case's answer: one or more texts or `$n`, separated by a
    semicolon and a space. A call of `finish` fails if its answer is missing, names a result that does not exist, or is
    an entity set (the rule of planning_horizon's official code). After a successful `finish`, every call fails. If
    `answered` is false, the latest result is the answer.

    Attributes:
        kb: the knowledge base, which is never changed.
        reference: the values of the case's answer according to the dataset.
        answered: whether `finish` gives the answer; if not, the latest result is the answer.
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
        """The state without results."""
        return _START

    async def apply(self, state: State, call: ToolCall) -> tuple[KoplState, Observation]:
        """Run one call; any fault of the call is described in the observation's `error`."""
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
        """The names that a call needs: identifiers of the schema, names of entities, and texts of facts.

        The candidates are the names that belong to the entities given to the call; for names of entities, they are all
        names. The result is empty if the tool is unknown or the call's arguments do not fit.
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
        """The answer as a text, with its values separated by `; `; None until an answer is given.

        If `answered` is false, the answer is the latest result, or None if there is none or it is an entity set.
        """
        found = self._found(state)
        return None if found is None else BETWEEN.join(dict.fromkeys(found))

    def resolved(self, state: State) -> bool:
        """Whether the answer has the values of the reference's answer, compared as a set (see `same_answer`)."""
        found = self._found(state)
        if found is None:
            return False
        return same_answer(found, self.reference) or (
            self.answered and same_answer((BETWEEN.join(found),), self.reference)  # a value may contain the separator
        )

    def _found(self, state: State) -> tuple[str, ...] | None:
        return own_state(state, KoplState).answer if self.answered else _latest(state)

    def _run(self, results: Sequence[Result], call: ToolCall) -> tuple[Sequence[str], Result]:
        """The arguments in the function's order, and the function's result; raises CallError if there is no result."""
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
    """The earlier result that a parameter's value names; raises CallError if there is none or its sort is wrong."""
    result = results[place_of(name, given, len(results))]
    if sort_of(result) != function.sort(name):
        raise KoplError(f"{name}: that step's result is {_TOLD[sort_of(result)]}, not {_TOLD[function.sort(name)]}")
    return result


def _latest(state: State) -> tuple[str, ...] | None:
    """The latest result's texts; None if there is no result, or if the latest result is an entity set."""
    results = own_state(state, KoplState).results
    return texts(results[-1]) if results else None


def _values(result: Result) -> tuple[str, ...]:
    """A result's texts; raises KoplError for an entity set."""
    found = texts(result)
    if found is None:
        raise KoplError(f"{ANSWER}: a set of entities is no answer; finish with what one of these returns: {_SCALARS}")
    return found


# The names that a function's call expects, taken from the entities given to the call (planning_horizon B.1.1).


_BY_ENDING = {"Num": "quantity", "Year": "time", "Date": "time", "Str": "string"}
_SELECTING = ("SelectBetween", "SelectAmong")
_TEXT = "string"


class Expecting:
    """The names that one call expects. `results` has the earlier results given to the call, `words` its text arguments.

    If the given entities have no names of the expected kind, there are no candidates.
    """

    def __init__(
        self, kb: KnowledgeBase, function: str, results: Mapping[str, Result], words: Mapping[str, str]
    ) -> None:
        self._kb, self._function, self._words = kb, function, words
        self._sets = [result for result in results.values() if isinstance(result, EntitySet)]

    def expected(self) -> dict[str, Expected]:
        """The expected names for each parameter that expects any, in the function's order."""
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
            return None  # the fault is in the direction
        found = self._kb.relations.items()
        return self._of(
            "relation", (name for (name, way), own in found if way == direction and self._meets(own.by_entity.keys()))
        )

    def _key(self) -> Expected:
        """The attribute keys; if the function compares values, only keys that have values of a comparable kind."""
        kind = "quantity" if self._function in _SELECTING else self._kind()
        found = (key for key, own in self._kb.attributes.items() if self._meets(own.by_entity.keys()))
        return self._of(
            "attribute", (key for key in found if kind is None or any(f.value.kind == kind for f in self._facts(key)))
        )

    def _value(self) -> Expected | None:
        """The texts under the key.

        None if there are no such texts, or if the function compares numbers or dates, because these are not looked up.
        """
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
        """The facts whose qualifiers the call uses; None if the given entities have no facts."""
        if "relation" in self._words:
            named = between(self._kb, *self._sets)
            return [fact for fact in named if fact.predicate == self._words["relation"]]
        if "key" not in self._words:
            return self._sets[0].facts
        value = self._words.get("value")
        return [fact for fact in self._facts(self._words["key"]) if value is None or fact.value.text() == value]

    def _kind(self) -> str | None:
        """The kind of values that the filter compares; None if the function accepts any kind."""
        return next((kind for ending, kind in _BY_ENDING.items() if self._function.endswith(f"Filter{ending}")), None)

    def _facts(self, key: str) -> Sequence[Attribute]:
        index = self._kb.attributes.get(key)
        return [fact for own in self._sets for fact in index.facts_of(own)] if index else ()

    def _meets(self, others: Set[int]) -> bool:
        """Whether any of the given entities is among `others`."""
        return any(own.is_everything or not own.members.isdisjoint(others) for own in self._sets)

    def _of(self, kind: str, here: Iterable[str]) -> Expected:
        return Expected(self._kb.vocabularies[kind], list(dict.fromkeys(here)))


# Converts KQA Pro's `kb.json` to a knowledge base; every fact that cannot be used is named and counted.


_OPPOSITE = {"forward": "backward", "backward": "forward"}
_NO_QUALIFIERS: Qualifiers = {}
_TYPE = {"string": "string", "quantity": "quantity", "time": "date"}


def read(path: Path) -> KnowledgeBase:
    """The knowledge base in a file; raises DataError if the file is not JSON or its structure is not as expected."""
    try:
        raw = loads_storable(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise DataError(path, None, f"broken JSON: {error}") from None
    except OSError as error:
        raise DataError(path, None, f"cannot be read: {error.strerror}") from None
    return parse(raw, path)


def parse(raw: object, source: Path) -> KnowledgeBase:
    """The knowledge base in a JSON value. The value is not changed; errors name `source`.

    A fact or link that KoPL could not use (a dangling id, a quantity without a unit, a date before year 1, a wrong
    type) is left out and named in `remarks`. A cycle among concepts is also named in `remarks`, but it is kept; each
    concept in the cycle is then below all the others, as in KoPL. A year without a month and a day may be below 1.

    Raises:
        DataError: the value is not {"concepts": {id: concept}, "entities": {id: entity}} with a name and the required
            lists for each, there is no entity, or an id is both a concept's and an entity's.
    """
    return _Reader(raw, source).knowledge_base()


class _Reader:
    """The data gathered from one file."""

    def __init__(self, raw: object, source: Path) -> None:
        self._source = source
        top = self._object(raw, "a knowledge base")
        concepts = self._object(top.get("concepts"), "concepts")
        entities = self._object(top.get("entities"), "entities")
        twice = sorted(concepts.keys() & entities.keys())
        if twice:
            raise self._error(f"{twice[0]!r} is both a concept and an entity")
        if not entities:
            raise self._error("the knowledge base has no entity")
        self._records = {
            identity: self._object(record, f"{identity!r}") for identity, record in {**concepts, **entities}.items()
        }
        self._concepts = concepts.keys()
        self._number = {identity: number for number, identity in enumerate(self._records)}
        self._remarks: list[Skipped] = []
        self._attributes: dict[str, KeyIndex] = {}
        self._facts: list[list[Relation]] = [[] for _ in self._records]
        self._kinds: dict[str, str] = {}
        self._qualifier_keys: dict[str, None] = {}
        self._values: dict[Value, Value] = {}  # equal values are stored once

    def knowledge_base(self) -> KnowledgeBase:
        names = [self._name(identity, record) for identity, record in self._records.items()]
        parents = [self._parents(identity) for identity in self._records]
        for identity in self._records:
            if identity not in self._concepts:
                self._read_attributes(identity)
                self._read_relations(identity)
        for index in self._attributes.values():
            index.finish()
        relations, pairs = self._relation_indexes()
        return KnowledgeBase(
            names=names,
            identities=list(self._records),
            by_name=_grouped(enumerate(names)),
            members=self._members(names, parents),
            attributes=self._attributes,
            relations=relations,
            pairs=pairs,
            kinds=self._kinds,
            concepts=names[: len(self._concepts)],
            qualifiers=list(self._qualifier_keys),
            remarks=tuple(self._remarks),
        )

    def _name(self, identity: str, record: Mapping[str, Any]) -> str:
        name = record.get("name")
        if not isinstance(name, str):
            raise self._error(f"{identity!r} must have a name that is a text")
        return name

    def _parents(self, identity: str) -> list[int]:
        """The classes of an entity, or the superclasses of a concept; released files have both under `instanceOf`."""
        found = []
        for other in self._list(identity, "subclassOf", "instanceOf"):
            number = self._number.get(other) if isinstance(other, str) else None
            if number is None:
                self._remark(identity, f"the class {other!r:.60} is not an id of this knowledge base; left out")
            else:
                found.append(number)
        return found

    def _members(self, names: list[str], parents: list[list[int]]) -> dict[str, EntitySet]:
        for circle in cycles(parents):
            members = ", ".join(names[number] for number in circle)
            self._remarks.append(
                Skipped(f"concepts {members}", "these concepts are below one another; kept, as in KoPL")
            )
        above = ancestors(parents)
        return _grouped((number, names[one]) for number, found in enumerate(above) for one in found)

    def _read_attributes(self, identity: str) -> None:
        for place, raw in enumerate(self._list(identity, "attributes")):
            try:
                fields = _fields(raw)
                key = _text(fields, "key")
                value, qualifiers = self._value(fields.get("value")), self._qualifiers(fields)
            except ValueError as error:
                self._remark(identity, f"attribute {place}: {error}; left out")
                continue
            self._kinds[key] = _TYPE[value.kind]
            self._learn(qualifiers)
            if key not in self._attributes:
                self._attributes[key] = KeyIndex()
            self._attributes[key].add(self._number[identity], Attribute(value, qualifiers))

    def _read_relations(self, identity: str) -> None:
        for place, raw in enumerate(self._list(identity, "relations")):
            try:
                fields = _fields(raw)
                predicate = _text(fields, "predicate" if "predicate" in fields else "relation")
                direction, other = _text(fields, "direction"), _text(fields, "object")
                if direction not in DIRECTIONS:
                    raise ValueError(f"the direction {direction!r:.40} is not one of {', '.join(DIRECTIONS)}")
                if other not in self._number:
                    raise ValueError(f"the object {other!r:.60} is not an id of this knowledge base")
                qualifiers = self._qualifiers(fields)
            except ValueError as error:
                self._remark(identity, f"relation {place}: {error}; left out")
                continue
            self._learn(qualifiers)
            fact = Relation(predicate, direction, self._number[other], qualifiers)
            self._facts[self._number[identity]].append(fact)
            if other in self._concepts:  # KoPL adds the reverse relation, so that it can be followed from a concept
                back = Relation(predicate, _OPPOSITE[direction], self._number[identity], qualifiers)
                self._facts[self._number[other]].append(back)

    def _value(self, raw: object) -> Value:
        value = from_json(raw)
        return self._values.setdefault(value, value)

    def _qualifiers(self, fields: Mapping[str, Any]) -> Qualifiers:
        raw = fields.get("qualifiers")
        if not isinstance(raw, Mapping) or not all(isinstance(values, list) for values in raw.values()):
            raise ValueError("`qualifiers` must be an object of lists")
        if not raw:
            return _NO_QUALIFIERS
        return {key: tuple(self._value(value) for value in values) for key, values in raw.items()}

    def _learn(self, qualifiers: Qualifiers) -> None:
        """Record the qualifier keys and their kinds. The kind of a key is the kind of its last value, as in KoPL."""
        for key, values in qualifiers.items():
            self._qualifier_keys[key] = None
            for value in values:
                self._kinds[key] = _TYPE[value.kind]

    def _relation_indexes(
        self,
    ) -> tuple[dict[tuple[str, str], RelationIndex], dict[int, dict[int, list[Relation]]]]:
        by_predicate: dict[tuple[str, str], dict[int, list[Relation]]] = defaultdict(dict)
        pairs: dict[int, dict[int, list[Relation]]] = defaultdict(dict)
        for number, facts in enumerate(self._facts):
            for fact in _without_repeats(facts) if number < len(self._concepts) else facts:
                by_predicate[fact.predicate, fact.direction].setdefault(number, []).append(fact)
                if fact.direction == "forward":
                    pairs[number].setdefault(fact.other, []).append(fact)
        return {way: RelationIndex(found) for way, found in by_predicate.items()}, dict(pairs)

    def _list(self, identity: str, *names: str) -> list[Any]:
        found = next((self._records[identity][name] for name in names if name in self._records[identity]), None)
        if not isinstance(found, list):
            raise self._error(f"{identity!r} must have the list {' or '.join(names)}")
        return found

    def _object(self, raw: object, what: str) -> Mapping[str, Any]:
        if not isinstance(raw, Mapping):
            raise self._error(f"{what}: an object is expected, not {type(raw).__name__}")
        return raw

    def _error(self, message: str) -> DataError:
        return DataError(self._source, None, message)

    def _remark(self, identity: str, reason: str) -> None:
        self._remarks.append(Skipped(identity, reason))


def _grouped(numbered: Iterator[tuple[int, str]] | enumerate[str]) -> dict[str, EntitySet]:
    """For each name, the entities that have it, as ascending numbers without repetition."""
    found: dict[str, dict[int, None]] = defaultdict(dict)
    for number, name in numbered:
        found[name][number] = None
    return {name: EntitySet(tuple(numbers), sorted_once=True) for name, numbers in found.items()}


def _without_repeats(facts: list[Relation]) -> list[Relation]:
    """A concept's relations without repetition."""
    seen = {(f.predicate, f.direction, f.other, frozenset(f.qualifiers.items())): f for f in reversed(facts)}
    kept = {id(fact) for fact in seen.values()}
    return [fact for fact in facts if id(fact) in kept]


def _fields(raw: object) -> Mapping[str, Any]:
    if not isinstance(raw, Mapping):
        raise ValueError(f"an object is expected, not {type(raw).__name__}")
    return raw


def _text(fields: Mapping[str, Any], name: str) -> str:
    found = fields.get(name)
    if not isinstance(found, str):
        raise ValueError(f"`{name}` must be a text, not {type(found).__name__}")
    return found


# Finds the nodes above each concept and entity, also among nodes that form a cycle.


def ancestors(parents: Sequence[Sequence[int]]) -> list[list[int]]:
    """All nodes above each node, in ascending order; `parents` has each node's direct parents.

    A node listed as its own parent is not above itself, unless a longer path also leads back to it (as in KoPL's
    get_all_concepts).
    """
    known: dict[int, frozenset[int]] = {}

    def reached(start: int) -> frozenset[int]:
        if start not in known:
            found, pending = {start}, [start]
            while pending:
                for parent in parents[pending.pop()]:
                    if parent not in found:
                        found.add(parent)
                        pending.append(parent)
            known[start] = frozenset(found)
        return known[start]

    direct = [{parent for parent in found if parent != node} for node, found in enumerate(parents)]
    return [sorted(frozenset().union(*map(reached, found))) for found in direct]


def cycles(parents: Sequence[Sequence[int]]) -> list[list[int]]:
    """The groups of nodes that are all above one another. A node that is its own parent is also a group."""
    edges = [(node, parent) for node, found in enumerate(parents) for parent in found]
    if not edges:
        return []
    ends = np.array(edges)
    graph = coo_array((np.ones(len(edges)), (ends[:, 0], ends[:, 1])), shape=(len(parents), len(parents)))
    count, labels = connected_components(graph, directed=True, connection="strong")
    loops = {node for node, parent in edges if node == parent}
    sizes = np.bincount(labels, minlength=count)
    groups: dict[int, list[int]] = {}
    for node in np.flatnonzero((sizes[labels] > 1) | np.isin(np.arange(len(parents)), list(loops))):
        groups.setdefault(int(labels[node]), []).append(int(node))
    return list(groups.values())
