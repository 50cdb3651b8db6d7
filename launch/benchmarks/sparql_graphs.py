"""Generated graphs of Freebase's form, as large as wanted, and questions over them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import cycle, islice
from pathlib import Path

from grid.worlds.sparql.errors import SparqlError
from grid.worlds.sparql.expressions import (
    XSD,
    And,
    Arg,
    Class,
    Compare,
    Count,
    Entity,
    Expression,
    Join,
    TimeConstraint,
    Value,
)
from grid.worlds.sparql.graph import Node
from grid.worlds.sparql.lookups import NAME
from grid.worlds.sparql.queries import NS, TYPE
from grid.worlds.sparql.store import StoreGraph
from grid.worlds.sparql.tools import BACKWARD, FORWARD

_CLASSES = 300
_LINKS, _LINKED = 4, 5  # relations of a class, and how many facts of these an entity has
_PER_ENTITY = 2 + _LINKED + 3  # facts: name, class, links, values
_TRIES = 1_000
_SCHEMA = (NAME, TYPE)
_MOST = 1_000  # results of a step that is gone on from


def write(path: Path, triples: int, seed: int) -> int:
    """N-Triples of so many facts; returns how many entities they are about.

    A few classes have most entities, and a few entities most links; of each entity a name, a class, five links by the
    four relations of its class, a number, a date and a year since when.
    """
    rng = random.Random(seed)
    entities = max(triples // _PER_ENTITY, 1)
    with path.open("w", encoding="ascii", buffering=2**20) as file:
        file.writelines(islice(_lines(rng, entities), triples))
    return entities


def _lines(rng: random.Random, entities: int) -> Iterator[str]:
    draw = rng.random
    for number in range(entities + 1):
        of = int(_CLASSES * draw() ** 2)
        domain = f"d{of % 40}.c{of}"
        subject = f"<{NS}m.{number:07x}>"
        yield f'{subject} <{NS}{NAME}> "Thing {number:x} of kind {of}"@en .\n'
        yield f"{subject} <{NS}{TYPE}> <{NS}{domain}> .\n"
        for _ in range(_LINKED):
            other = int(entities * draw() ** 3)
            yield f"{subject} <{NS}{domain}.r{int(_LINKS * draw())}> <{NS}m.{other:07x}> .\n"
        day = f"{1900 + int(120 * draw())}-{1 + int(12 * draw()):02}-{1 + int(28 * draw()):02}"
        yield f'{subject} <{NS}{domain}.size> "{int(1000 * draw())}"^^<{XSD}integer> .\n'
        yield f'{subject} <{NS}{domain}.born> "{day}"^^<{XSD}date> .\n'
        yield f'{subject} <{NS}{domain}.from> "{1950 + int(70 * draw())}"^^<{XSD}gYear> .\n'


def programs(graph: StoreGraph, entities: int, count: int, seed: int) -> list[Expression]:
    """So many questions that have an answer, found on random ways through a graph; of each form as many."""
    rng = random.Random(seed)
    found: list[Expression] = []
    for form in islice(cycle(FORMS), count * _TRIES):
        if len(found) == count:
            break
        for _ in range(_TRIES):
            try:
                made = FORMS[form](_Way(graph, rng, entities))
            except (SparqlError, IndexError):  # the way has no such end, or too many
                continue
            if made is not None and graph.denotes(made):
                found.append(made)
                break
    return found


class _Way:
    """A random way through a graph from a random entity; IndexError where it cannot go on."""

    def __init__(self, graph: StoreGraph, rng: random.Random, entities: int) -> None:
        self.graph, self.rng = graph, rng
        self.start = f"m.{rng.randrange(entities):07x}"

    def joined(self, target: Expression, ids: Sequence[str]) -> Join:
        """What is connected with some entities by a relation that they have."""
        direction = self.rng.choice((FORWARD, BACKWARD))
        properties = self.graph.properties(ids)
        links = [r for r in self.graph.relations(ids, direction) if r not in (*_SCHEMA, *properties)]
        return Join(self.rng.choice(links), target, direction == BACKWARD)

    def set(self) -> Join:
        """What is connected with the start."""
        return self.joined(Entity(self.start), [self.start])

    def ids(self, expression: Expression) -> list[str]:
        """The entities that an expression denotes; IndexError where they are too many."""
        found = [node.id for node in self.graph.denotes(expression) if isinstance(node, Entity)]
        return found if len(found) <= _MOST else []

    def value(self, ids: Sequence[str], ending: str) -> tuple[str, Node]:
        """A relation with this ending of one of some entities, and its value."""
        one = self.rng.choice(ids)
        relation = self.rng.choice([r for r in self.graph.properties([one]) if r.endswith(ending)])
        return relation, self.graph.denotes(Join(relation, Entity(one), reverse=True))[0]


def _chain(way: _Way) -> Expression:
    first = way.set()
    return way.joined(first, way.ids(first))


def _classed(way: _Way) -> Expression:
    found = way.set()
    one = way.rng.choice(way.ids(found))
    return And(Class(way.graph.types([one])[one][0]), found)


def _two(way: _Way) -> Expression:
    found = way.set()
    one = way.rng.choice(way.ids(found))
    other = way.joined(Entity(one), [one])
    return And(found, Join(other.relation, Entity(way.rng.choice(way.ids(other))), not other.reverse))


def _extreme(way: _Way) -> Expression:
    found = _classed(way)
    relation, _ = way.value(way.ids(found), way.rng.choice((".size", ".born")))
    return Arg(way.rng.choice(("ARGMAX", "ARGMIN")), found, relation)


def _compared(way: _Way) -> Expression | None:
    found = way.set()
    relation, value = way.value(way.ids(found), ".size")
    if not isinstance(value, Value):
        return None
    return And(found, Compare(way.rng.choice(("le", "ge")), relation, value))


def _timed(way: _Way) -> Expression:
    found = way.set()
    relation, _ = way.value(way.ids(found), ".from")
    return TimeConstraint(found, relation, way.rng.choice(("NOW", "1990", "2010")))


FORMS: Mapping[str, Callable[[_Way], Expression | None]] = {
    "one relation": _Way.set,
    "two relations": _chain,
    "of a class": _classed,
    "two at once": _two,
    "COUNT": lambda way: Count(_classed(way)),
    "ARGMAX, ARGMIN": _extreme,
    "compared": _compared,
    "at a time": _timed,
}
"""By name how a question of a form is made; None where the way has none."""
