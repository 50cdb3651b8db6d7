"""What the text given to extract_entity stands for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from grid.worlds.handles import shown
from grid.worlds.sparql import literals
from grid.worlds.sparql.errors import SparqlError
from grid.worlds.sparql.expressions import ENTITY, NAME, XSD, Class, Entity, Value, atom
from grid.worlds.sparql.graph import KnowledgeGraph

MAX_CHARACTERS = 1_000
_LISTED = 10  # entities of one name
_CLASSES = 3  # of each


def resolve(graph: KnowledgeGraph, mentions: Mapping[str, str], text: str) -> Entity | Class | Value:
    """A mention of the case's, a number or date, an entity's id, its name, a class, or another literal, in that order.

    Raises:
        SparqlError: it is none of these; several entities have the name; a date that is none.
    """
    text = text.strip()
    if not text or len(text) > MAX_CHARACTERS:
        raise SparqlError(f"input_value: a text of 1 to {MAX_CHARACTERS:,} characters is expected")
    if text in mentions:
        return atom(mentions[text])
    literal = literals.read(text)
    if literal is not None and literal.datatype != f"{XSD}string":
        return literal
    if ENTITY.fullmatch(text):
        if graph.has(text):
            return Entity(text)
        raise SparqlError(f"there is no entity {shown(text)}")
    named = graph.named(text)
    if len(named) > 1:
        raise SparqlError(_several(graph, text, named))
    if named:
        return Entity(named[0]) if ENTITY.fullmatch(named[0]) else Class(named[0])
    if NAME.fullmatch(text):
        return Class(text)
    if literal is not None:
        return literal
    raise SparqlError(
        f"there is no entity of the name {shown(text)}; a name, an id, a class's identifier, a number, a date "
        "(YYYY-MM-DD) or a year (YYYY) is expected"
    )


def _several(graph: KnowledgeGraph, text: str, ids: Sequence[str]) -> str:
    """That a name has several entities, and what these are."""
    types = graph.types(ids[:_LISTED])
    found = [f"{one} ({', '.join(types[one][:_CLASSES])})" if one in types else one for one in ids[:_LISTED]]
    more = f", and {len(ids) - _LISTED:,} more" if len(ids) > _LISTED else ""
    return f"{len(ids):,} entities have the name {shown(text)}: {', '.join(found)}{more}; give the id of one"
