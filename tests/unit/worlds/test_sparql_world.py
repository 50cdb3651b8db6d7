"""The seven atomic query tools: what calls return, when they have failed, and what resolves a case."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grid.core.types import RESULT, Json
from grid.text.references import outputs_of
from grid.worlds.schema import SchemaWorld
from grid.worlds.sparql.graph import Limits
from grid.worlds.sparql.queries import And, Count
from grid.worlds.sparql.tools import DIRECTIONS, MODES, OPERATORS, TOOLS
from grid.worlds.sparql.world import SparqlState, SparqlWorld
from tests.support.sparql_graphs import graph_of
from tests.support.sparql_walks import ADA, FILMS, RUNTIME, ada, error, value
from tests.support.sparql_world import film_graph, sparql_world
from tests.support.walks import Walk


def test_a_question_from_its_first_call_to_its_answer() -> None:
    walk = Walk(sparql_world("m.01"))
    assert isinstance(walk.world, SchemaWorld)
    assert (walk.answer or "none yet") == "none yet"
    assert value(walk, "extract_entity", **ADA) == "1 result: m.0d (Ada Holm)"
    assert value(walk, "find_relation", **FILMS) == "2 results: m.01 (Quiet Harvest), m.02 (Loud Harvest)"
    assert (walk.answer, walk.resolved) == ("m.01; m.02", False)
    assert value(walk, "order", mode="ARGMIN", input_ref="$1", property_relation=RUNTIME) == (
        "1 result: m.01 (Quiet Harvest)"
    )
    assert (walk.answer, walk.resolved) == ("m.01", True)
    assert value(walk, "count", input_ref="$1") == "1 result: 2"
    assert not walk.resolved, "the latest result counts"


def test_every_tool_says_what_it_found() -> None:
    walk = ada()
    assert value(walk, "extract_entity", input_value="movies") == (
        "4 results: m.01 (Quiet Harvest), m.02 (Loud Harvest), m.03 (Twin), m.04 (Twin)"
    )
    assert (
        value(walk, "merge", input_ref1="$1", input_ref2="$2") == "2 results: m.01 (Quiet Harvest), m.02 (Loud Harvest)"
    )
    jobs = {"relation": "film.director.job", "direction": "backward", "target_ref": "$0"}
    assert value(walk, "find_relation", **jobs) == "2 results: m.0h, m.0i", "they have no names"
    since = {"input_ref": "$4", "temporal_relation": "business.job.from"}
    assert value(walk, "time_constraint", **since, temporal_literal="2003") == "1 result: m.0h"
    assert value(walk, "time_constraint", **since, temporal_literal="NOW") == "1 result: m.0i"
    assert value(walk, "extract_entity", input_value="100") == "1 result: 100"
    compared = value(walk, "compare", operator="<", property_relation=RUNTIME, literal_ref="$7")
    assert compared == "2 results: m.01 (Quiet Harvest), m.03 (Twin)"
    assert value(walk, "extract_entity", input_value="spring 2008") == "1 result: 2008-05-08", "as the dataset links it"
    dated = {"relation": "film.film.initial_release_date", "direction": "forward", "target_ref": "$9"}
    assert value(walk, "find_relation", **dated) == "1 result: m.01 (Quiet Harvest)"
    value(walk, "find_relation", relation="film.film.genre", direction="backward", target_ref="$1")
    note = value(walk, "find_relation", relation="film.film_genre.note", direction="backward", target_ref="$11")
    assert note == f"1 result: {'x' * 97}...", "what is long is cut"


def test_of_many_results_ten_are_named() -> None:
    facts = {(f"m.{number:02}", "type.object.type", "c.d0") for number in range(1200)}
    walk = Walk(SparqlWorld(graph_of(frozenset(facts)), ("x",)))
    told = value(walk, "extract_entity", input_value="c.d0")
    assert told == "1,200 results, the first 10: m.00, m.01, m.02, m.03, m.04, m.05, m.06, m.07, m.08, m.09"
    assert walk.answer is not None
    assert walk.answer.endswith("; ... (1,200 in all)"), "a table holds no endless text"


def test_four_digits_are_a_year_and_a_number() -> None:
    walk = Walk(sparql_world())
    value(walk, "extract_entity", input_value="1990")
    year = {"direction": "forward", "target_ref": "$0"}
    assert value(walk, "find_relation", relation="film.film.year", **year) == "1 result: m.03 (Twin)"
    assert value(walk, "find_relation", relation=RUNTIME, **year) == "1 result: m.04 (Twin)"
    least = {"operator": ">=", "literal_ref": "$0"}
    assert value(walk, "compare", property_relation="film.film.year", **least) == "1 result: m.03 (Twin)"
    assert value(walk, "compare", property_relation=RUNTIME, **least) == "1 result: m.04 (Twin)"


def test_a_value_that_was_found_can_be_compared_with() -> None:
    walk = Walk(sparql_world())
    value(walk, "extract_entity", input_value="m.01")
    length = {"relation": RUNTIME, "direction": "backward", "target_ref": "$0"}
    assert value(walk, "find_relation", **length) == "1 result: 90"
    longer = value(walk, "compare", operator=">", property_relation=RUNTIME, literal_ref="$1")
    assert longer == "2 results: m.02 (Loud Harvest), m.04 (Twin)"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "Twin",
            "2 entities have the name 'Twin': m.03 (film.film), m.04 (film.film, tv.tv_program); give the id of one",
        ),
        ("twin", "there is no entity of the name 'twin'"),
        ("m.zz", "there is no entity 'm.zz'."),
        ("tv.none", "there is no entity or class 'tv.none'."),
        ("", "a text of 1 to 1,000 characters"),
        ("x" * 1001, "a text of 1 to 1,000 characters"),
        ("2001-02-30", "'2001-02-30' is not a day of the Gregorian calendar"),
        ("1900-02-29", "not a day of the Gregorian calendar"),
        ("30 Nisan 5784", "a date (YYYY-MM-DD) or a year (YYYY) is expected"),
        ("12^^calendar", "'calendar' is no datatype; there are string, integer"),
        ('x" . ?s ?p ?o . "', "there is no entity of the name"),
        ("film.film> . ?s ?p <x", "there is no entity of the name"),
        ("\ud800", "cannot be asked for"),
    ],
)
def test_what_stands_for_nothing_is_refused(text: str, message: str) -> None:
    assert message in error(Walk(sparql_world()), "extract_entity", input_value=text)


@pytest.mark.parametrize(
    ("tool", "arguments", "message"),
    [
        ("fly", {}, "there is no tool 'fly'."),
        ("count", {}, "the call of count lacks input_ref; its parameters are input_ref."),
        ("count", {"input_ref": "$0", "x": "1"}, "the call of count has no parameter 'x'"),
        ("count", {"input_ref": "$2"}, "input_ref: '$2' is no result of an earlier step."),
        ("count", {"input_ref": "m.01"}, "input_ref: 'm.01' is no result of an earlier step."),
        ("count", {"input_ref": 1}, "input_ref: a text is expected, not int."),
        ("find_relation", FILMS | {"direction": "sideways"}, "direction: 'sideways' is none of forward, backward."),
        ("find_relation", FILMS | {"relation": "film.film.plot"}, "there is no relation 'film.film.plot'."),
        ("find_relation", FILMS | {"relation": "directed by"}, "relation: 'directed by' is no relation's identifier."),
        ("find_relation", FILMS | {"relation": "a.b> ?y . ?x <c"}, "is no relation's identifier."),
        ("find_relation", FILMS | {"direction": "backward"}, "nothing is connected with the target by 'film.film.di"),
        ("merge", {"input_ref1": "$0", "input_ref2": "$1"}, "the two sets have nothing in common."),
        ("order", {"mode": "max", "input_ref": "$1", "property_relation": RUNTIME}, "mode: 'max' is none of ARGMAX"),
        (
            "order",
            {"mode": "ARGMAX", "input_ref": "$1", "property_relation": "film.film.year"},
            "no member of the set has a value of 'film.film.year'.",
        ),
        (
            "compare",
            {"operator": "=", "property_relation": RUNTIME, "literal_ref": "$1"},
            "operator: '=' is none of <,",
        ),
        ("compare", {"operator": "<", "property_relation": RUNTIME, "literal_ref": "$1"}, "is not one literal."),
        ("compare", {"operator": "<", "property_relation": RUNTIME, "literal_ref": "$0"}, "is not one literal."),
        (
            "time_constraint",
            {"input_ref": "$1", "temporal_relation": "business.job.from", "temporal_literal": "199"},
            "temporal_literal: '199' is neither a year of four digits nor NOW.",
        ),
        (
            "time_constraint",
            {"input_ref": "$1", "temporal_relation": "x } #", "temporal_literal": "1990"},
            "temporal_relation: 'x } #' is no relation's identifier.",
        ),
    ],
)
def test_what_does_not_fit_is_said(tool: str, arguments: dict[str, Json], message: str) -> None:
    assert message in error(ada(), tool, **arguments)


def test_a_limit_that_is_passed_is_a_failed_call() -> None:
    walk = Walk(sparql_world(graph=film_graph(Limits(rows=3))))
    assert error(walk, "extract_entity", input_value="movies") == "there are more than 3 results."
    walk = Walk(sparql_world(graph=film_graph(Limits(seconds=0))))
    assert error(walk, "extract_entity", input_value="movies") == "it takes more than 0 seconds."


def test_results_merged_with_themselves_do_not_grow_without_end() -> None:
    walk = Walk(sparql_world())
    value(walk, "extract_entity", input_value="movies")
    for number in range(6):
        value(walk, "merge", input_ref1=f"${number}", input_ref2=f"${number}")
    assert "more than 200 parts" in error(walk, "merge", input_ref1="$6", input_ref2="$6")


def test_worlds_share_their_graph() -> None:
    graph = film_graph()
    worlds = [sparql_world("m.01", graph=graph), sparql_world("m.02", graph=graph)]
    assert all(world.graph is graph for world in worlds)
    assert graph.vocabularies is graph.vocabularies, "found once"


def test_the_seven_tools_are_as_published() -> None:
    assert [*TOOLS] == ["extract_entity", "find_relation", "merge", "order", "compare", "time_constraint", "count"]
    assert {p.name: p.values for tool in TOOLS.values() for p in tool.parameters if p.values} == {
        "direction": DIRECTIONS,
        "mode": MODES,
        "operator": OPERATORS,
    }
    assert all(RESULT in tool.returns for tool in TOOLS.values())
    assert outputs_of(()) == {}


TEXT = st.text(max_size=20) | st.sampled_from(
    ["$0", "$1", "NOW", "1990", "forward", "ARGMAX", "<", "m.01", "film.film"]
)


@given(st.sampled_from([*TOOLS]), st.data())
def test_no_argument_breaks_it(tool: str, data: st.DataObject) -> None:
    walk = ada()
    arguments = {p.name: data.draw(TEXT | st.sampled_from(p.values or ("$1",))) for p in TOOLS[tool].parameters}
    observation = walk.call(tool, **arguments)
    assert observation.failed == ("error" in observation.content)


def test_counting_and_merging_are_what_they_are_called() -> None:
    walk = ada()
    value(walk, "count", input_ref="$1")
    value(walk, "merge", input_ref1="$1", input_ref2="$1")
    assert isinstance(walk.state, SparqlState)
    assert [type(result.expression) for result in walk.state.results[-2:]] == [Count, And]
