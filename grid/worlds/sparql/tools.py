"""The seven atomic query tools (planning_horizon table 8), with their parameters and descriptions for planners."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from grid.core.types import RESULT, Parameter, ToolSpec, to_json
from grid.text.references import reference
from grid.worlds.sparql.queries import NOW, TYPE, Value, iri, literal

EXTRACT, FIND, MERGE, ORDER = "extract_entity", "find_relation", "merge", "order"
COMPARE, TIME, COUNT = "compare", "time_constraint", "count"
FORWARD, BACKWARD = "forward", "backward"
DIRECTIONS = (FORWARD, BACKWARD)
MODES = ("ARGMAX", "ARGMIN")
OPERATORS = ("<", "<=", ">", ">=")
_SET = "An earlier result: a set of entities."
_FIRST, _SECOND = reference("0", RESULT), reference("1", RESULT)


def _tool(name: str, description: str, example: Mapping[str, str], *parameters: Parameter) -> ToolSpec:
    shown = f"{description} Example: {to_json(dict(example))}"
    return ToolSpec(name, shown, parameters, (RESULT, "value"), "knowledge base")


_ALL = (
    _tool(
        EXTRACT,
        "Resolve an entity's name, a class or a literal to what it stands for; a class stands for all its members.",
        {"input_value": "Marie Curie"},
        Parameter("input_value", "string", "The entity's name, the class's identifier, a number, or a date."),
    ),
    _tool(
        FIND,
        "Find what is connected with the target by a relation. forward: what has the relation to the target; "
        "backward: what the target has the relation to.",
        {"relation": "people.person.children", "direction": BACKWARD, "target_ref": _FIRST},
        Parameter("relation", "string", "The relation's identifier."),
        Parameter("direction", "string", "One of forward, backward.", values=DIRECTIONS),
        Parameter("target_ref", RESULT, "An earlier result: entities or a literal."),
    ),
    _tool(
        MERGE,
        "Take what is in both sets.",
        {"input_ref1": _FIRST, "input_ref2": _SECOND},
        Parameter("input_ref1", RESULT, "An earlier result: the first set."),
        Parameter("input_ref2", RESULT, "An earlier result: the second set."),
    ),
    _tool(
        ORDER,
        "Keep the entities with the greatest (ARGMAX) or the least (ARGMIN) value of a property.",
        {"mode": "ARGMAX", "input_ref": _FIRST, "property_relation": "people.person.height_meters"},
        Parameter("mode", "string", "One of ARGMAX, ARGMIN.", values=MODES),
        Parameter("input_ref", RESULT, _SET),
        Parameter("property_relation", "string", "The relation whose values are numbers or dates."),
    ),
    _tool(
        COMPARE,
        "Find the entities whose value of a property compares so with a literal.",
        {"operator": "<=", "property_relation": "people.person.height_meters", "literal_ref": _FIRST},
        Parameter("operator", "string", "One of <, <=, >, >=.", values=OPERATORS),
        Parameter("property_relation", "string", "The relation whose values are numbers or dates."),
        Parameter("literal_ref", RESULT, "An earlier result: a literal."),
    ),
    _tool(
        TIME,
        "Keep the entities that hold at a time: begun by then, and not over.",
        {"input_ref": _FIRST, "temporal_relation": "people.marriage.from", "temporal_literal": "1906"},
        Parameter("input_ref", RESULT, _SET),
        Parameter("temporal_relation", "string", "The relation that says since when, ending in from or from_date."),
        Parameter("temporal_literal", "string", f"A year of four digits, or {NOW}."),
    ),
    _tool(
        COUNT,
        "Say how many members a set has.",
        {"input_ref": _FIRST},
        Parameter("input_ref", RESULT, "An earlier result: a set."),
    ),
)
TOOLS: Mapping[str, ToolSpec] = {tool.name: tool for tool in _ALL}


# SPARQL queries about a graph's entities and its schema: names, classes and relations.


NAME = "type.object.name"
_ENGLISH = '(LANG(?n) = "" || LANGMATCHES(LANG(?n), "en"))'
_VALUES = ("type.int", "type.float", "type.datetime", "type.boolean", "type.text", "type.rawstring", "type.enumeration")


def names(ids: Iterable[str]) -> str:
    """The query for the names `?n` of entities `?x`. The names have no language or are English."""
    return f"SELECT ?x ?n WHERE {{ {_among('?x', ids)} ?x {iri(NAME)} ?n . FILTER({_ENGLISH}) }}"


def named(text: str) -> str:
    """The query for the entities `?x` that have a given name, without a language or with the language `en`."""
    plain = literal(Value(text)).rpartition("^^")[0]
    return f"SELECT DISTINCT ?x WHERE {{ VALUES ?n {{ {plain} {plain}@en }} ?x {iri(NAME)} ?n . }}"


def types(ids: Iterable[str]) -> str:
    """The query for the classes `?c` of entities `?x`."""
    return f"SELECT ?x ?c WHERE {{ {_among('?x', ids)} ?x {iri(TYPE)} ?c . }}"


def known(identity: str) -> str:
    """The query that returns a row if the graph has a fact with an entity or a class as its subject or its object."""
    return f"SELECT ?p WHERE {{ {{ {iri(identity)} ?p ?o }} UNION {{ ?s ?p {iri(identity)} }} }} LIMIT 1"


def leading_to(ids: Iterable[str], most: int) -> str:
    """The query for the relations `?r` that lead to entities; at most `most` facts are read."""
    return _relations(f"{_among('?x', ids)} ?s ?r ?x .", most)


def leading_from(ids: Iterable[str], most: int, *, literals: bool = False) -> str:
    """The query for the relations `?r` that lead from entities (only to literals, if `literals` is set).

    At most `most` facts are read.
    """
    only = " FILTER(isLiteral(?o))" if literals else ""
    return _relations(f"{_among('?x', ids)} ?x ?r ?o .{only}", most)


def used_relations() -> str:
    """The query for all relations `?r` that occur in a fact."""
    return "SELECT DISTINCT ?r WHERE { ?s ?r ?o . }"


def literals_of(relation: str, most: int) -> str:
    """The query for a literal to which a relation leads. Only the first `most` facts of the relation are read."""
    some = f"{{ SELECT ?o WHERE {{ ?s {iri(relation)} ?o . }} LIMIT {most} }}"
    return f"SELECT ?o WHERE {{ {some} FILTER(isLiteral(?o)) }} LIMIT 1"


def used_classes() -> str:
    """The query for all classes `?c` that have a member."""
    return f"SELECT DISTINCT ?c WHERE {{ ?x {iri(TYPE)} ?c . }}"


def used_names(most: int) -> str:
    """The query for at most `most` names `?n` that have no language or are English."""
    return f"SELECT DISTINCT ?n WHERE {{ ?x {iri(NAME)} ?n . FILTER({_ENGLISH}) }} LIMIT {most}"


def declared_relations(*, literals: bool = False) -> str:
    """The query for the relations `?r` that Freebase's own schema declares.

    If `literals` is set, the query finds only relations to literals.
    """
    only = f" {_among('?t', _VALUES)} ?r {iri('type.property.expected_type')} ?t ." if literals else ""
    return f"SELECT DISTINCT ?r WHERE {{ ?r {iri(TYPE)} {iri('type.property')} .{only} }}"


def declared_classes() -> str:
    """The query for the classes `?c` that Freebase's own schema declares."""
    return f"SELECT DISTINCT ?c WHERE {{ ?c {iri(TYPE)} {iri('type.type')} . }}"


def _among(variable: str, ids: Iterable[str]) -> str:
    return f"VALUES {variable} {{ {' '.join(map(iri, ids))} }}"


def _relations(pattern: str, most: int) -> str:
    return f"SELECT DISTINCT ?r WHERE {{ {{ SELECT ?r WHERE {{ {pattern} }} LIMIT {most} }} }}"
