"""What answers a question over a graph, and that steps add up to the whole expression."""

from __future__ import annotations

import pickle
import random

import pytest

from grid.core.types import FINISH, Json
from grid.worlds.sparql.programs import calls
from grid.worlds.sparql.queries import Entity, Value
from grid.worlds.sparql.queries import walk as walked
from grid.worlds.sparql.world import SparqlState, SparqlWorld
from tests.support.sparql_graphs import graph_of, random_expression, random_facts
from tests.support.sparql_walks import ada, error, run, value
from tests.support.sparql_world import GOLD, gold_calls, sparql_world


def test_the_answer_is_what_finishing_says() -> None:
    walk = ada("m.01", "m.02", answered=True)
    assert (walk.answer, walk.resolved) == (None, False)
    assert "is no result of an earlier step" in error(walk, FINISH, answer="$7")
    assert "needs an answer" in error(walk, FINISH, answer=" ; ")
    observation = walk.call(FINISH, answer="$1")
    assert observation.content == {"answer": "m.01; m.02"}
    assert (walk.answer, walk.resolved) == ("m.01; m.02", True)
    assert error(walk, "count", input_ref="$1") == "the question is answered already."


@pytest.mark.parametrize(
    ("reference", "answer", "right"),
    [
        (("m.01", "m.02"), "m.02; m.01", True),
        (("m.01", "m.02"), "Quiet Harvest; Loud Harvest", True),
        (("m.01", "m.02"), ["Quiet Harvest", "m.02", "m.02"], True),
        (("m.01", "m.02"), "m.01", False),
        (("m.01", "m.02"), "m.01; m.02; m.03", False),
        (("m.01", "m.02"), "quiet harvest; m.02", False),
        (("m.03", "m.04"), "Twin", True),
        (("m.03",), "Twin", True),
        (("m.03",), "m.04", False),
        (("m.01",), "$0", False),
        (("m.0d",), "$0", True),
        (("90",), "90.0", True),
        (("90",), "90.5", False),
        (("90",), "$2", True),
        (("2008-05-08",), "2008-05-08", True),
        (("2008-05-08",), "2008", False),
    ],
)
def test_ids_names_and_values_answer(reference: tuple[str, ...], answer: Json, right: bool) -> None:
    walk = ada(*reference, answered=True)
    value(walk, "extract_entity", input_value="90.0")
    walk.call(FINISH, answer=answer)
    assert walk.resolved == right


def test_gold_calls_give_what_the_whole_expression_denotes() -> None:
    walk, outputs = run(sparql_world("m.01"), gold_calls())
    assert len(outputs) == 5, GOLD
    assert walk.resolved


@pytest.mark.parametrize("seed", range(15))
def test_step_by_step_denotes_what_the_whole_expression_does(seed: int) -> None:
    """Where no step fails the last result is what the whole denotes."""
    rng = random.Random(seed)
    graph = graph_of(random_facts(rng))
    ended = 0
    for _ in range(10):
        whole = random_expression(rng, rng.randint(1, 3))
        walk, outputs = run(SparqlWorld(graph, ()), calls(whole, lambda identity: identity))
        last = [*outputs.values()][-1]
        if last.failed:
            parts = [part for part in walked(whole) if not isinstance(part, Value)]
            assert any(
                (isinstance(part, Entity) and not graph.has(part.id)) or not graph.denotes(part) for part in parts
            )
            continue
        assert isinstance(walk.state, SparqlState)
        result = walk.state.results[-1]
        assert [type(part) for part in walked(result.expression)] == [type(part) for part in walked(whole)]
        assert result.nodes == graph.denotes(whole)
        assert result.parts == len(outputs)
        ended += 1
    assert ended


def test_states_are_equal_where_the_calls_are_and_travel() -> None:
    one, other = ada(), ada()
    assert one.state == other.state
    assert hash(one.state) == hash(other.state)
    assert one.state is not other.state
    again = pickle.loads(pickle.dumps(one.state))  # noqa: S301 - our own
    assert again == one.state
    assert again.results == one.state.results  # type: ignore[attr-defined]
    value(other, "count", input_ref="$1")
    assert one.state != other.state
