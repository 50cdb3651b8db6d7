"""Walks through the world of films, whose calls must succeed or fail."""

from __future__ import annotations

from grid.core.types import Json, Observation, ToolCall
from grid.text.references import resolve
from grid.worlds.sparql.world import SparqlState, SparqlWorld
from tests.support.sparql_world import sparql_world
from tests.support.walks import Walk

ADA = {"input_value": "Ms Holm"}
FILMS = {"relation": "film.film.directed_by", "direction": "forward", "target_ref": "$0"}
RUNTIME = "film.film.runtime"


def value(walk: Walk, tool: str, **arguments: Json) -> Json:
    """What a call that must succeed returns, its handle the next."""
    assert isinstance(walk.state, SparqlState)
    number = len(walk.state.results)
    observation = walk.call(tool, **arguments)
    assert not observation.failed, observation.content
    assert observation.content["result"] == f"${number}"
    return observation.content["value"]


def error(walk: Walk, tool: str, **arguments: Json) -> str:
    """The error of a call that must fail and leave the state as it was."""
    before = walk.state
    observation = walk.call(tool, **arguments)
    assert observation.failed
    assert list(observation.content) == ["error"]
    assert walk.state is before
    return str(observation.content["error"])


def ada(*reference: str, answered: bool = False) -> Walk:
    """Ada as $0, her two films as $1."""
    found = Walk(sparql_world(*reference, answered=answered))
    value(found, "extract_entity", **ADA)
    value(found, "find_relation", **FILMS)
    return found


def run(world: SparqlWorld, made: dict[str, ToolCall]) -> tuple[Walk, dict[str, Observation]]:
    """Calls one after another, each with the handles of those before; up to the first that fails."""
    found, outputs = Walk(world), dict[str, Observation]()
    for step, call in made.items():
        outputs[step] = found.make(resolve(call, {one: dict(told.content) for one, told in outputs.items()}))
        if outputs[step].failed:
            break
    return found, outputs
