"""The reference engine (package `kopl`), and whether a program's steps have its results."""

from __future__ import annotations

import contextlib
import copy
import io
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from grid.worlds.kopl.functions import check, function_of
from grid.worlds.kopl.queries import Answer, Result, Texts, Values
from grid.worlds.kopl.values import Attribute, EntitySet, Fact, KnowledgeBase, KoplError
from grid.worlds.kopl.world import parse

Program = list[dict[str, Any]]


def example_base() -> dict[str, Any]:
    """The reference package's own example."""
    pytest.importorskip("kopl", reason="the reference engine is a test dependency: .[dev]")
    with _quiet():
        from kopl.test.test_example import example_kb
    return copy.deepcopy(dict(example_kb))


def _quiet() -> contextlib.ExitStack:
    stack = contextlib.ExitStack()
    stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
    stack.enter_context(contextlib.redirect_stderr(io.StringIO()))
    return stack


class Reference:
    """The reference engine and ours over the same base."""

    def __init__(self, raw: dict[str, Any], remarks: int = 0) -> None:
        module = pytest.importorskip("kopl.kopl", reason="the reference engine is a test dependency: .[dev]")
        self.kb: KnowledgeBase = parse(raw, Path("kb.json"))
        assert len(self.kb.remarks) == remarks
        with _quiet():
            self.engine = module.KoPLEngine(copy.deepcopy(raw))

    def compare(self, program: Program) -> Counter[str]:
        """Run both step by step and assert equal results; counts the steps compared by function.

        Ends where the reference crashes, after asserting that ours fails there too. The one difference that is let
        pass is a choice that the reference leaves to hashing (see `_only_hashing`), counted as `tie`.
        """
        check(program)
        compared: Counter[str] = Counter()
        mine: list[Result] = []
        theirs: list[Any] = []
        for step in program:
            function, inputs, places = function_of(step), step["inputs"], step["dependencies"]
            compared[function.name] += 1
            try:
                wanted = getattr(self.engine, function.name)(*(theirs[i] for i in places), *inputs)
            except Exception:  # noqa: BLE001 - it crashes with whatever Python raises
                with pytest.raises(KoplError):
                    function.run(self.kb, *(mine[i] for i in places), *inputs)
                compared["crash"] += 1
                return compared
            found = function.run(self.kb, *(mine[i] for i in places), *inputs)
            if not self.equal(found, wanted):
                assert function.name in ("SelectBetween", "SelectAmong"), (program, wanted, found)
                assert self._only_hashing(step, [mine[i] for i in places], [theirs[i] for i in places], found, wanted)
                compared["tie"] += 1
                return compared
            mine.append(found)
            theirs.append(wanted)
        return compared

    def equal(self, found: Result, wanted: Any) -> bool:
        """Whether two results hold the same, as often, in whatever order."""
        if isinstance(found, Answer):
            return found.text == str(wanted)
        if isinstance(found, Texts):
            return Counter(found.texts) == Counter(wanted)
        if isinstance(found, Values):
            mine = Counter((v.text(), v.number, v.unit, v.moment) for v in found.values)
            return mine == Counter(_value(v) for v in wanted)
        return self._entities(found) == self._their_entities(*wanted)

    def _entities(self, found: EntitySet) -> Counter[Any]:
        ids = [self.kb.identities[entity] for entity in found.ids]
        return Counter(zip(ids, map(self._fact, found.facts), strict=True) if found.facts is not None else ids)

    def _fact(self, fact: Fact) -> Any:
        qualifiers = frozenset(
            (key, tuple((v.text(), v.number, v.unit, v.moment) for v in values))
            for key, values in fact.qualifiers.items()
        )
        if isinstance(fact, Attribute):
            return (fact.value.text(), fact.value.number, qualifiers)
        return (fact.predicate, fact.direction, self.kb.identities[fact.other], qualifiers)

    @staticmethod
    def _their_entities(ids: list[str], facts: list[dict[str, Any]] | None) -> Counter[Any]:
        return Counter(zip(ids, map(_their_fact, facts), strict=True) if facts is not None else ids)

    def _only_hashing(self, step: dict[str, Any], mine: list[Any], theirs: list[Any], found: Any, wanted: Any) -> bool:
        """Whether a selection differs only since the reference met the entities in its sets' order.

        Two things hang on that: which of two units is the common one where both are as frequent, and for SelectBetween
        which of several equal numbers is taken. Where both engines had their inputs in one order, nothing may differ.
        """
        key, op = step["inputs"]
        same_order = all(
            [self.kb.identities[i] for i in a.ids] == list(b[0]) for a, b in zip(mine, theirs, strict=True)
        )
        if step["function"] == "SelectBetween" and same_order:
            return False
        ids = [i for ids, _ in theirs for i in (set(ids) if step["function"] == "SelectAmong" else ids)]
        held = [
            (self.engine.kb.entities[i]["name"], a["value"])
            for i in ids
            for a in self.engine.kb.entities[i]["attributes"]
            if a["key"] == key and a["value"].type == "quantity"
        ]
        units = Counter(value.unit for _, value in held)
        allowed = set()
        for unit in (unit for unit, count in units.items() if count == max(units.values())):
            numbers = [(name, value.value) for name, value in held if value.unit == unit]
            best = (min if op in ("less", "smallest") else max)(number for _, number in numbers)
            names = frozenset(name for name, number in numbers if number == best)
            allowed |= {names} if step["function"] == "SelectAmong" else {frozenset({name}) for name in names}
        one = frozenset(found.texts) if isinstance(found, Texts) else frozenset({found.text})
        other = frozenset(wanted) if isinstance(wanted, list) else frozenset({wanted})
        return one in allowed and other in allowed


def _value(value: Any) -> tuple[str, float, str, tuple[int, ...]]:
    """A value of the reference as ours are compared."""
    number = value.value if value.type == "quantity" else 0.0
    moment: tuple[int, ...] = ()
    if value.type == "year":
        moment = (value.value,)
    elif value.type == "date":
        moment = (value.value.year, value.value.month, value.value.day)
    return (str(value), number, value.unit or "", moment)


def _their_fact(fact: dict[str, Any]) -> Any:
    qualifiers = frozenset((key, tuple(map(_value, values))) for key, values in fact["qualifiers"].items())
    if "value" in fact:
        return (str(fact["value"]), _value(fact["value"])[1], qualifiers)
    return (fact["relation"], fact["direction"], fact["object"], qualifiers)
