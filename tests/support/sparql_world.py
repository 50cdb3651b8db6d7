"""A graph of films small enough to know by heart, and worlds over it."""

from __future__ import annotations

from grid.core.types import ToolCall
from grid.worlds.sparql.graph import Limits, StoreGraph
from grid.worlds.sparql.programs import calls
from grid.worlds.sparql.queries import read
from grid.worlds.sparql.world import SparqlWorld
from tests.support.sparql_graphs import graph_of
from tests.support.sparql_reference import Text, Thing

NAMES = {
    "m.01": "Quiet Harvest",
    "m.02": "Loud Harvest",
    "m.03": "Twin",
    "m.04": "Twin",
    "m.0d": "Ada Holm",
    "m.0e": "Bo Lind",
    "m.0g": "Drama",
}
FACTS: frozenset[tuple[str, str, Thing]] = frozenset(
    [
        *((identity, "type.object.name", Text(name, language="en")) for identity, name in NAMES.items()),
        ("m.01", "type.object.name", Text("Stille Ernte", language="de")),
        *((f"m.0{number}", "type.object.type", "film.film") for number in range(1, 5)),
        ("m.04", "type.object.type", "tv.tv_program"),
        ("m.0d", "type.object.type", "film.director"),
        ("m.0e", "type.object.type", "film.director"),
        ("m.01", "film.film.directed_by", "m.0d"),
        ("m.02", "film.film.directed_by", "m.0d"),
        ("m.03", "film.film.directed_by", "m.0e"),
        ("m.0d", "film.director.film", "m.01"),
        ("m.0d", "film.director.film", "m.02"),
        ("m.0e", "film.director.film", "m.03"),
        ("m.01", "film.film.genre", "m.0g"),
        ("m.03", "film.film.genre", "m.0g"),
        ("m.01", "film.film.runtime", Text("90", "integer")),
        ("m.02", "film.film.runtime", Text("118.5", "float")),
        ("m.03", "film.film.runtime", Text("90.0", "float")),
        ("m.04", "film.film.runtime", Text("1990", "integer")),
        ("m.01", "film.film.initial_release_date", Text("2008-05-08", "date")),
        ("m.02", "film.film.initial_release_date", Text("2011-02-14", "date")),
        ("m.03", "film.film.year", Text("1990", "gYear")),
        ("m.0d", "film.director.job", "m.0h"),
        ("m.0d", "film.director.job", "m.0i"),
        ("m.0h", "business.job.from", Text("2001", "gYear")),
        ("m.0h", "business.job.to", Text("2005", "gYear")),
        ("m.0i", "business.job.from", Text("2006", "gYear")),
        ("m.0g", "film.film_genre.note", Text("x" * 150)),
    ]
)
GOLD = "(ARGMIN (AND film.film (JOIN film.film.directed_by m.0d)) film.film.runtime)"


def film_graph(limits: Limits | None = None) -> StoreGraph:
    """Four films, two directors, a genre, two jobs without a name."""
    return graph_of(FACTS, limits=limits)


def sparql_world(*reference: str, answered: bool = False, graph: StoreGraph | None = None) -> SparqlWorld:
    """A world over that graph; the question mentions Ada as `Ms Holm`, films as `movies`, and a date."""
    mentions = {"Ms Holm": "m.0d", "movies": "film.film"}
    mentions["spring 2008"] = "2008-05-08^^http://www.w3.org/2001/XMLSchema#date"
    names = {identity: NAMES[identity] for identity in reference if identity in NAMES}
    return SparqlWorld(graph or film_graph(), reference, names, mentions, answered)


def gold_calls(text: str = GOLD) -> dict[str, ToolCall]:
    """An expression's calls, entities asked for by their ids."""
    return calls(read(text), lambda identity: identity)
