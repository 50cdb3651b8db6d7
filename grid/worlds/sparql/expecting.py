"""Which names a call expects: the relations that the entities it is given have (planning_horizon B.1.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from grid.worlds.schema import Expected, Vocabulary
from grid.worlds.sparql import tools
from grid.worlds.sparql.expressions import ENTITY
from grid.worlds.sparql.graph import KnowledgeGraph
from grid.worlds.sparql.literals import read
from grid.worlds.sparql.queries import ending
from grid.worlds.sparql.results import Result


def expected(
    graph: KnowledgeGraph, mentions: Mapping[str, str], tool: str, words: Mapping[str, str], given: Mapping[str, Result]
) -> dict[str, Expected]:
    """By parameter what a call expects; raises SparqlError where the graph cannot say."""
    if tool == tools.EXTRACT:
        return _input(graph, mentions, words["input_value"])
    ids = next((result.ids for result in given.values()), ())
    match tool:
        case tools.FIND if words["direction"] in tools.DIRECTIONS:
            here = graph.relations(ids, words["direction"]) if ids else graph.vocabularies["property"].names
            return _of(graph, "relation", here)
        case tools.ORDER:
            return _of(graph, "property_relation", graph.properties(ids))
        case tools.COMPARE:
            return _of(graph, "property_relation", graph.vocabularies["property"].names)
        case tools.TIME:
            dated = [name for name in graph.properties(ids) if ending(name) is not None]
            return _of(graph, "temporal_relation", dated)
    return {}


def _input(graph: KnowledgeGraph, mentions: Mapping[str, str], text: str) -> dict[str, Expected]:
    """Names of entities, classes and the case's mentions; nothing where a literal or an id is wrong in itself."""
    if ENTITY.fullmatch(text) or read(text) is not None:
        return {}
    vocabulary = graph.vocabularies["input"].with_names(mentions)
    return {"input_value": Expected(vocabulary, vocabulary.names, "name")}


def _of(graph: KnowledgeGraph, parameter: str, here: Sequence[str]) -> dict[str, Expected]:
    vocabulary = graph.vocabularies["relation"]
    if not all(name in vocabulary for name in here):  # a graph that does not say which relations it has
        vocabulary = Vocabulary(vocabulary.noun, here)
    return {parameter: Expected(vocabulary, here)}
