"""The beginning of a problem whose tools forgive, or do not."""

from __future__ import annotations

from collections.abc import Mapping

from grid.core.problem import Problem, Reference
from grid.core.types import Case, Json, Plan, ToolSpec
from grid.retrievers.scored import BM25
from grid.robustness.base import Robustness
from grid.worlds.kopl.functions import TOOLS
from grid.worlds.kopl.world import KoplState, KoplWorld, parse
from grid.worlds.schema import SchemaWorld
from tests.support.kopl_world import SOURCE, attribute, entity, kopl_world, number, raw_base, relation
from tests.support.walks import Walk

INDEX = BM25().index(TOOLS)
QUESTION = "How long is the Rhine?"


def undisturbed(world: SchemaWorld | None = None) -> Problem:
    def none(case: Case, substep: object) -> tuple[ToolSpec, ...]:
        return ()

    case = Case("c", QUESTION, Plan(()))
    return Problem(case, Reference({}, ()), world or kopl_world("1233 kilometre"), none, TOOLS, {})


def disturbed(*settings: Robustness, world: SchemaWorld | None = None) -> Walk:
    """The beginning of that problem after the settings."""
    found = undisturbed(world)
    for setting in settings:
        found = setting.disturb(found, INDEX, seed=0)
    return Walk(found.world)


def texts() -> KoplWorld:
    """Two films and a festival: text values, qualifiers of facts, and keys that only one of them has."""
    raw = raw_base()
    shown = [{"type": "string", "value": "Silver Reel Festival"}]
    raw["entities"] |= {
        "f1": entity(
            "Quiet Harvest",
            "water",
            [
                attribute("original language", {"type": "string", "value": "Corvanian"}, **{"first shown": shown}),
                attribute("box office", number(7)),
            ],
            [relation("directed by", "f3", **{"place of work": [{"type": "string", "value": "Studio Nine"}]})],
        ),
        "f2": entity(
            "Loud Harvest", "water", [attribute("original language", {"type": "string", "value": "Thai"})], []
        ),
        "f3": entity("Ada Holm", "state", [], []),
    }
    return KoplWorld(parse(raw, SOURCE), ())


def call(walk: Walk, tool: str, **arguments: Json) -> Mapping[str, Json]:
    return walk.call(tool, **arguments).content


def results(walk: Walk) -> int:
    assert isinstance(walk.state, KoplState)
    return len(walk.state.results)
