"""Strict and forgiving tools over a graph (planning_horizon §3.2, §4.4, B.1.2)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grid.core.types import Json, ToolCall
from grid.robustness.schema_matching import Lexical, MatchingWorld, Rule, ToolsForgiving, ToolsStrict
from grid.worlds.schema import Expected, Vocabulary
from grid.worlds.sparql.world import SparqlState
from tests.support.forgiving import call, disturbed
from tests.support.sparql_world import sparql_world
from tests.support.walks import Walk, at_once

RUNTIME = "film.film.runtime"


def ada(*settings: ToolsForgiving | ToolsStrict) -> Walk:
    """Ada as $0, her films as $1."""
    walk = disturbed(*settings, world=sparql_world("m.01"))
    call(walk, "extract_entity", input_value="Ms Holm")
    call(walk, "find_relation", relation="film.film.directed_by", direction="forward", target_ref="$0")
    return walk


def expected(walk: Walk, tool: str, **arguments: Json) -> dict[str, Expected]:
    return dict(at_once(sparql_world().identifiers(walk.state, ToolCall(tool, arguments))))


@pytest.mark.parametrize(
    ("tool", "arguments", "parameter", "here"),
    [
        (
            "find_relation",
            {"relation": "?", "direction": "backward", "target_ref": "$0"},
            "relation",
            ["film.director.film", "film.director.job", "type.object.name", "type.object.type"],
        ),
        ("find_relation", {"relation": "?", "direction": "forward", "target_ref": "$0"}, "relation",
         ["film.film.directed_by"]),
        ("order", {"mode": "ARGMAX", "input_ref": "$1", "property_relation": "?"}, "property_relation",
         ["film.film.initial_release_date", RUNTIME, "type.object.name"]),
        ("time_constraint", {"input_ref": "$2", "temporal_relation": "?", "temporal_literal": "NOW"},
         "temporal_relation", ["business.job.from"]),
        ("compare", {"operator": "<", "property_relation": "?", "literal_ref": "$3"}, "property_relation",
         ["business.job.from", "business.job.to", "film.film.initial_release_date", RUNTIME, "film.film.year",
          "film.film_genre.note", "type.object.name"]),
    ],
)  # fmt: skip
def test_candidates_are_what_the_given_entities_have(
    tool: str, arguments: dict[str, Json], parameter: str, here: Sequence[str]
) -> None:
    walk = ada()
    call(walk, "find_relation", relation="film.director.job", direction="backward", target_ref="$0")
    call(walk, "extract_entity", input_value="100")
    found = expected(walk, tool, **arguments)
    assert list(found) == [parameter]
    assert list(found[parameter].here) == here
    assert set(here) <= set(found[parameter].vocabulary)


def test_what_a_literal_is_joined_by_leads_to_literals() -> None:
    walk = disturbed(world=sparql_world())
    call(walk, "extract_entity", input_value="90")
    found = expected(walk, "find_relation", relation="?", direction="forward", target_ref="$0")["relation"]
    assert RUNTIME in found.here
    assert "film.film.genre" not in found.here


def test_names_classes_and_the_cases_own_mentions_are_expected_of_an_input() -> None:
    found = expected(ada(), "extract_entity", input_value="Ada Home")["input_value"]
    assert {"Ada Holm", "Twin", "film.film", "Ms Holm", "movies"} <= set(found.here)
    assert "Stille Ernte" not in found.vocabulary
    assert found.here is found.vocabulary.names
    for text in ("m.zz", "2001-02-30", "1990", "12^^calendar"):
        assert expected(ada(), "extract_entity", input_value=text) == {}, "what is wrong is no name"


@pytest.mark.parametrize(
    "arguments",
    [
        {"relation": "?", "direction": "sideways", "target_ref": "$0"},
        {"relation": "?", "direction": "forward", "target_ref": "$9"},
        {"relation": 7, "direction": "forward", "target_ref": "$0"},
        {"relation": "?"},
    ],
)
def test_nothing_is_expected_where_something_else_is_wrong(arguments: dict[str, Json]) -> None:
    assert expected(ada(), "find_relation", **arguments) == {}
    assert expected(ada(), "fly", **arguments) == {}


def test_strict_tools_take_nothing_inexact_and_tell_the_nearest() -> None:
    walk = ada(ToolsStrict())
    before = walk.state
    told = call(walk, "find_relation", relation="film.film.directors", direction="forward", target_ref="$0")
    assert told == {
        "error": "there is no relation 'film.film.directors'. "
        "Nearest relation to 'film.film.directors': 'film.film.directed_by'."
    }
    told = call(walk, "extract_entity", input_value="Ada Home")
    assert "Nearest entity or class to 'Ada Home': 'Ada Holm'." in str(told["error"])
    assert walk.state == before


def test_strict_tools_tell_ten_where_ten_are_asked_for() -> None:
    told = call(ada(ToolsStrict(candidates=10)), "compare", operator="<", property_relation="x.y", literal_ref="$0")
    assert "is not one literal" in str(told["error"])
    walk = ada(ToolsStrict(candidates=10))
    call(walk, "extract_entity", input_value="100")
    told = call(walk, "compare", operator="<", property_relation="film.runtime", literal_ref="$2")
    assert str(told["error"]).count("'film.") >= 4


def test_forgiving_tools_take_the_nearest_and_say_so() -> None:
    walk = ada(ToolsForgiving())
    told = call(walk, "order", mode="ARGMIN", input_ref="$1", property_relation="film.film.run_time")
    assert told["value"] == "1 result: m.01 (Quiet Harvest)"
    assert told["read_as"] == {"property_relation": RUNTIME}
    assert walk.resolved
    assert call(walk, "extract_entity", input_value="ADA HOLM")["read_as"] == {"input_value": "Ada Holm"}
    assert call(walk, "extract_entity", input_value="ms holm")["read_as"] == {"input_value": "Ms Holm"}
    assert "error" in call(walk, "extract_entity", input_value="Ada Winter"), "that is another"


def test_a_relation_that_the_graph_has_is_never_replaced() -> None:
    walk = ada(ToolsForgiving())
    before = walk.state
    told = call(walk, "find_relation", relation="film.film.genre", direction="forward", target_ref="$0")
    assert "nothing is connected" in str(told["error"])
    assert "Nearest relation to 'film.film.genre': 'film.film.directed_by'." in str(told["error"])
    assert walk.state == before


def test_an_ambiguous_name_is_left_to_the_planner() -> None:
    told = call(ada(ToolsForgiving()), "extract_entity", input_value="Twin")
    assert str(told["error"]).startswith("2 entities have the name 'Twin': m.03")
    assert "Nearest" not in str(told["error"])


def test_it_branches() -> None:
    world = ToolsForgiving().around(sparql_world(), "?")
    assert world.branches
    assert isinstance(world.start(), SparqlState)


@given(st.lists(st.text(max_size=3)), st.lists(st.text(max_size=3)), st.lists(st.text(max_size=3)))
def test_a_vocabulary_in_parts_is_one(first: list[str], second: list[str], third: list[str]) -> None:
    found = Vocabulary("x", first).with_names(second).with_names(third)
    whole = Vocabulary("x", [*first, *second, *third])
    assert found.names == whole.names == tuple(name for part in found.parts for name in part)
    assert all(found.place(name) == whole.place(name) and name in found for name in whole)
    assert len(found) == len(whole)


@given(st.sampled_from(["film", "runtime", "a director's film", "type"]), st.booleans())
def test_parts_do_not_change_what_is_nearest(text: str, everything: bool) -> None:
    names = ["film.film", "film.director.film", "runtime", "director", "a film", "type"]
    world = MatchingWorld(sparql_world(), Lexical(), 3, Rule(0.1, 0.1, 0.9))
    one = Vocabulary("x", names)
    parted = Vocabulary("x", names[:2]).with_names(names[2:])
    here = [tuple(names[1:4])] * 2 if not everything else [one.names, parted.names]
    assert world._near(text, Expected(one, here[0])) == world._near(text, Expected(parted, here[1]))
