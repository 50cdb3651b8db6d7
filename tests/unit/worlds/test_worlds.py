"""What every world keeps to: its states can be kept, sent, compared and gone on from, also side by side."""

from __future__ import annotations

import asyncio
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grid.core.types import Observation, ToolCall
from grid.core.world import State, World
from grid.robustness.schema_matching import Lexical, MatchingWorld, ToolsForgiving
from grid.text.references import reference
from grid.worlds.kopl.functions import FUNCTIONS
from grid.worlds.kopl.world import KoplState, KoplWorld, parse
from grid.worlds.lookup import LookupSimulator, build_entries
from launch.benchmarks.kopl import Programs, random_base
from tests.support.kopl_world import SOURCE, kopl_world
from tests.support.walks import Walk, at_once


def lookup() -> LookupSimulator:
    calls = {"1": ToolCall("find", {"order": "A-1"}), "2": ToolCall("book", {"item": reference("1", "item")})}
    return LookupSimulator(build_entries(calls, {"1": {"item": "I-7"}, "2": {"booking": "B-9"}}), frozenset({"2"}))


LOOKUPS = [
    ToolCall(tool, arguments)
    for tool, arguments in (
        ("find", {"order": "A-1"}),
        ("find", {"order": "a-1"}),
        ("find", {"order": "A-2"}),
        ("book", {"item": "I-7"}),
        ("book", {"item": "I-8"}),
        ("fly", {}),
    )
]
KOPL: list[tuple[str, dict[str, Any]]] = [
    ("FindAll", {}),
    *(("Find", {"name": name}) for name in ("Elbe", "ELBE", "Danube")),
    *(("FilterConcept", {"entities": handle, "concept_name": "river"}) for handle in ("$0", "$1")),
    *(("Relate", {"entities": handle, "relation": "flows through", "direction": "forward"}) for handle in ("$0", "$1")),
    *(("QueryAttr", {"entities": handle, "key": "river length"}) for handle in ("$0", "$1", "$2")),
    *(("QueryName", {"entities": handle}) for handle in ("$0", "$2")),
    *(("VerifyNum", {"s_value": handle, "t_value": "1100 kilometre", "op": "<"}) for handle in ("$1", "$2", "$3")),
    ("Count", {"entities": ["$0"]}),
]
KOPL_CALLS = [ToolCall(tool, arguments) for tool, arguments in KOPL]
WORLDS: dict[str, tuple[World, Sequence[ToolCall]]] = {
    "lookup": (lookup(), LOOKUPS),
    "kopl": (kopl_world("1094 kilometre"), KOPL_CALLS),
    "forgiving": (ToolsForgiving().around(kopl_world("1094 kilometre"), ""), KOPL_CALLS),
    "strict": (MatchingWorld(kopl_world("1094 kilometre"), Lexical(), 1), KOPL_CALLS),
}
PLACES = st.lists(st.integers(0, len(KOPL_CALLS) - 1), max_size=6)
every_world = pytest.mark.parametrize("name", WORLDS)


def at(world: World, calls: Sequence[ToolCall], places: Sequence[int]) -> Walk:
    """The end of a path; `places` may run over the calls' end."""
    walk = Walk(world)
    for place in places:
        walk.make(calls[place % len(calls)])
    return walk


def told(world: World, state: State, calls: Sequence[ToolCall]) -> list[object]:
    """All that a state says, and what each call from it gives."""
    return [world.resolved(state), world.answer(state), *(at_once(world.apply(state, call)) for call in calls)]


@pytest.mark.long
@every_world
@given(places=PLACES)
def test_equal_paths_give_equal_states_and_those_behave_alike(name: str, places: list[int]) -> None:
    world, calls = WORLDS[name]
    turned = [ToolCall(call.tool, dict(reversed(list(call.arguments.items())))) for call in calls]
    one, other = at(world, calls, places).state, at(world, turned, places).state
    assert one == other
    assert hash(one) == hash(other)
    assert told(world, one, calls) == told(world, other, calls)


@every_world
@given(places=PLACES)
def test_a_state_that_was_sent_is_the_same_and_behaves_so(name: str, places: list[int]) -> None:
    world, calls = WORLDS[name]
    state = at(world, calls, places).state
    sent = pickle.loads(pickle.dumps(state))  # noqa: S301
    assert (sent, hash(sent)) == (state, hash(state))
    assert told(world, sent, calls) == told(world, state, calls)


@pytest.mark.long
@every_world
@given(places=PLACES, order=st.permutations(range(len(KOPL_CALLS))))
def test_calls_from_a_kept_state_do_not_know_of_one_another(name: str, places: list[int], order: list[int]) -> None:
    world, calls = WORLDS[name]
    state = at(world, calls, places).state
    kept = pickle.loads(pickle.dumps(state))  # noqa: S301
    ordered = [calls[place] for place in order if place < len(calls)]

    async def side_by_side() -> list[tuple[State, Observation]]:
        return list(await asyncio.gather(*(world.apply(state, call) for call in ordered)))

    first = {call.text(): at_once(world.apply(state, call)) for call in calls}
    again = {call.text(): at_once(world.apply(state, call)) for call in ordered}
    with asyncio.Runner() as runner:
        beside = dict(zip((call.text() for call in ordered), runner.run(side_by_side()), strict=True))
    assert first == again == beside
    assert state == kept, "it is as it was"
    assert told(world, state, calls) == told(world, kept, calls)


@every_world
@given(places=PLACES)
def test_a_call_that_failed_leaves_the_state_as_it_was(name: str, places: list[int]) -> None:
    world, calls = WORLDS[name]
    state = at(world, calls, places).state
    for call in calls:
        after, observation = at_once(world.apply(state, call))
        assert after == state or not observation.failed


@every_world
def test_some_paths_resolve_the_case_and_start_does_not(name: str) -> None:
    world, calls = WORLDS[name]
    assert world.branches
    walk = Walk(world)
    assert not walk.resolved
    for call in calls if name == "lookup" else (KOPL_CALLS[1], KOPL_CALLS[8]):
        walk.make(call)
    assert walk.resolved
    assert Walk(world).state == world.start() != walk.state


@every_world
def test_a_state_of_another_world_is_refused(name: str) -> None:
    world, calls = WORLDS[name]
    alien = kopl_world().start() if name == "lookup" else lookup().start()
    for use in (world.resolved, lambda state: at_once(world.apply(state, calls[0]))):
        with pytest.raises(TypeError, match=r"a state of this world is a (KoplState|frozenset), not"):
            use(alien)


def test_paths_of_other_calls_are_other_states() -> None:
    walks = {name: Walk(kopl_world()) for name in ("elbe", "rhine", "twice")}
    for name, entity in (("elbe", "Elbe"), ("rhine", "Rhine"), ("twice", "Elbe"), ("twice", "Elbe")):
        assert not walks[name].call("Find", name=entity).failed
    assert len({walk.state for walk in walks.values()}) == 3


def test_a_mended_call_leads_where_the_exact_one_does() -> None:
    world, calls = WORLDS["forgiving"]
    exact, mended = (at(world, calls, [place]) for place in (1, 2))
    assert exact.state == mended.state != world.start()


def programs() -> Iterator[tuple[KoplWorld, list[ToolCall]]]:
    """A path for each of KoPL's functions, which it ends with."""
    kb = parse(random_base(11, 60), SOURCE)
    made = Programs(kb, 11, wild=0)
    for name in FUNCTIONS:
        path = []
        for step in made.program(name, 6):
            function = FUNCTIONS[step["function"]]
            given = {name: f"${i}" for name, i in zip(function.results, step["dependencies"], strict=True)}
            path.append(ToolCall(function.name, given | dict(zip(function.texts, step["inputs"], strict=True))))
        yield KoplWorld(kb, ("x",)), path


def test_results_of_every_kind_can_be_sent() -> None:
    """Sent after each call, a path goes on as it would have here."""
    kinds = set()
    for world, path in programs():
        here, there = Walk(world), Walk(world)
        for call in path:
            there.state = pickle.loads(pickle.dumps(there.state))  # noqa: S301
            observation = here.make(call)
            assert not observation.failed
            assert there.make(call) == observation
        assert (there.state, there.answer) == (here.state, here.answer)
        assert isinstance(here.state, KoplState)
        kinds |= {type(result).__name__ for result in here.state.results}
    assert kinds == {"EntitySet", "Values", "Texts", "Answer"}


def test_a_states_hash_does_not_travel() -> None:
    """Texts hash differently in a process of another PYTHONHASHSEED: a hash from here would find nothing there."""
    walk = Walk(kopl_world())
    walk.call("Find", name="Elbe")
    hash(walk.state)
    code = (
        "import pickle, sys\n"
        "from tests.support.kopl_world import kopl_world\n"
        "from tests.support.walks import Walk\n"
        "walk = Walk(kopl_world())\n"
        "walk.call('Find', name='Elbe')\n"
        "assert pickle.load(sys.stdin.buffer) in {walk.state}\n"
    )
    other = os.environ | {"PYTHONHASHSEED": "7", "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", code], input=pickle.dumps(walk.state), env=other, check=True)
