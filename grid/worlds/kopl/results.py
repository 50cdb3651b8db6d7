"""What a call returns: entities, values, names or one text; and how results are told and compared with answers."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from grid.core.types import Json
from grid.worlds.kopl.base import KnowledgeBase
from grid.worlds.kopl.errors import KoplError
from grid.worlds.kopl.sets import EntitySet
from grid.worlds.kopl.values import Value, parse

SHOWN = 10
"""How many entities or values an observation names."""


@dataclass(frozen=True, eq=False)
class Values:
    """Values of attributes or qualifiers, in the order found."""

    values: Sequence[Value]


@dataclass(frozen=True, eq=False)
class Texts:
    """Names of entities or of relations, in the order found."""

    texts: Sequence[str]


@dataclass(frozen=True, eq=False)
class Answer:
    """One text: a name, a number, or `yes`, `no`, `not sure`."""

    text: str


Result: TypeAlias = EntitySet | Values | Texts | Answer


def is_empty(result: Result) -> bool:
    """Whether it holds nothing."""
    if isinstance(result, EntitySet):
        return not len(result)
    if isinstance(result, Values):
        return not result.values
    return isinstance(result, Texts) and not result.texts


def texts(result: Result) -> tuple[str, ...] | None:
    """The result as texts, as KQA Pro's answers have them; None of an entity set, which only QueryName turns to names.

    Equal texts come as often as they were found.
    """
    if isinstance(result, EntitySet):
        return None
    if isinstance(result, Values):
        return tuple(value.text() for value in result.values)
    return tuple(result.texts) if isinstance(result, Texts) else (result.text,)


def told(kb: KnowledgeBase, result: Result) -> Json:
    """The result for a reader: the value or values, or how many there are and the first ten."""
    if isinstance(result, Answer):
        return result.text
    if isinstance(result, EntitySet):
        return {"entities": len(result), "names": [kb.names[entity] for entity in result.ids[:SHOWN]]}
    found: Sequence[str] = (
        [value.text() for value in result.values[:SHOWN]] if isinstance(result, Values) else list(result.texts[:SHOWN])
    )
    count = len(result.values) if isinstance(result, Values) else len(result.texts)
    if count == 1:
        return found[0]
    return list(found) if count <= SHOWN else {"values": count, "first": list(found)}


def same_answer(found: Collection[str], wanted: Collection[str]) -> bool:
    """Whether two answers have the same values, whatever their order and however often each comes.

    Numbers with the same unit, dates and years are compared as values: `206.0 centimetre` is `206 centimetre` and
    `2003/6/26` is `2003-06-26`; a date is not its year. Numbers may differ by one part in 10^9.
    """
    return _covers(found, wanted) and _covers(wanted, found)


def _covers(some: Collection[str], others: Collection[str]) -> bool:
    exact = set(others)
    return all(text in exact or any(_same(text, other) for other in exact) for text in set(some))


def _same(left: str, right: str) -> bool:
    for kind in ("quantity", "date"):
        try:
            a, b = parse(kind, left), parse(kind, right)
        except KoplError:
            continue
        return a.unit == b.unit and a.moment == b.moment and math.isclose(a.number, b.number, rel_tol=1e-9)
    return False
