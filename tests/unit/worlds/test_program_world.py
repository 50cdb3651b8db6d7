"""The world of typed programs: values stand for facts, calls that cannot be made say why."""

from __future__ import annotations

import asyncio
import pickle
import random
from collections.abc import Mapping
from dataclasses import replace

from grid.core.types import REJECT, Json, Observation, ToolCall
from grid.text import references
from grid.worlds.programs.model import Constraint, Task
from grid.worlds.programs.world import ProgramWorld, Progress
from tests.support.loops import each
from tests.support.programs import asking, begun, task
from tests.unit.worlds.test_program_scoring import SUNNY, WAYS, trip


def run(world: ProgramWorld, *calls: tuple[str, Mapping[str, Json]]) -> tuple[Progress, list[Observation]]:
    """The state behind calls, references of which are filled in, and what each returned."""
    state, outputs, seen = world.start(), {}, []
    begins = len(world.task.done)
    for place, done in enumerate(world.task.done):
        outputs[str(place)] = done.content
    for place, (name, arguments) in enumerate(calls):
        call = references.resolve(ToolCall(name, arguments), outputs)
        state, observation = asyncio.run(world.apply(state, call))
        outputs[str(begins + place)] = observation.content
        seen.append(observation)
    return state, seen


def referenced(one: Task) -> list[tuple[str, Mapping[str, Json]]]:
    return [(name, dict(arguments)) for name, arguments in one.reference[len(one.done) :]]


@each("seed", range(25))
def test_references_resolve_and_their_beginnings_do_not(seed: int) -> None:
    rng = random.Random(seed)
    one = asking(rng, task(rng), 2)
    one = begun(one, rng.randrange(len(one.reference))) if seed % 2 else one
    world = ProgramWorld(one)
    state, seen = run(world, *referenced(one))
    assert world.resolved(state)
    assert not any(observation.failed for observation in seen)
    assert not world.resolved(run(world, *referenced(one)[:-1])[0])
    assert pickle.loads(pickle.dumps(state)) == state  # noqa: S301 (our own)


def test_failed_calls_say_why_and_find_nothing() -> None:
    world = ProgramWorld(replace(trip(), broken="OtherRoute"))
    found, seen = run(
        world,
        ("Nothing", {}),
        ("FindRoute", {"city_0": "Ghent"}),
        ("FindRoute", {"city_0": "Ghent", "city_1": "3 May"}),
        ("FindRoute", {"city_0": "Ghent", "city_1": "Zurich"}),
        ("FindRoute", {**WAYS[1], "speed": "fast"}),
        ("OtherRoute", WAYS[1]),
    )
    assert all(observation.failed for observation in seen)
    assert [observation.content["error"] for observation in seen] == [
        "there is no tool Nothing",
        "city_1 is missing",
        'city_1: "3 May" is a day, not a city',
        'city_1: "Zurich" is no city that is known',
        "FindRoute has no argument speed",
        "OtherRoute is broken: it answers no calls",
    ]
    assert not found.found


def test_a_reject_ends_the_work_and_resolves_what_cannot_be_solved() -> None:
    world = ProgramWorld(trip(unsolvable="tool_removal"))
    assert world.resolved(run(world, (REJECT, {"reason": "no"}))[0])
    assert not world.resolved(run(world, SUNNY, (REJECT, {"reason": "no"}))[0])
    solvable = ProgramWorld(trip())
    state, seen = run(solvable, (REJECT, {"reason": "no"}), SUNNY)
    assert seen[1].failed
    assert not solvable.resolved(state)


def test_broken_constraints_and_orders_of_calls() -> None:
    first = Constraint("before", ("forecast", "route"), "the weather first")
    world = ProgramWorld(trip(constraints=(first,)))
    book = ("BookTrip", {"route": "OUTPUT_FROM_STEP_1.route_found", "weather": "OUTPUT_FROM_STEP_0.weather_found"})
    assert world.resolved(run(world, SUNNY, WAYS, book)[0])
    book = ("BookTrip", {"route": "OUTPUT_FROM_STEP_0.route_found", "weather": "OUTPUT_FROM_STEP_1.weather_found"})
    assert not world.resolved(run(world, WAYS, SUNNY, book)[0])
    free = ProgramWorld(trip())
    assert run(free, SUNNY, WAYS)[0] == run(free, WAYS, SUNNY)[0]
    assert hash(run(free, SUNNY)[0]) == hash(run(free, SUNNY)[0])
