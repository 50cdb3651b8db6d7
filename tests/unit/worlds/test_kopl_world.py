"""KoPL's functions as tools: what calls return, when they have failed, and what resolves a case."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from grid.core.types import Json
from grid.worlds.kopl.functions import FUNCTIONS, TOOLS, check, run
from grid.worlds.kopl.queries import is_empty, same_answer, texts
from grid.worlds.kopl.values import ProgramError
from grid.worlds.kopl.world import KoplWorld, parse
from grid.worlds.schema import SchemaWorld
from launch.benchmarks.kopl import Programs, random_base
from tests.support.kopl_world import SOURCE, kopl_world, raw_base
from tests.support.walks import Walk


def start(*reference: str) -> Walk:
    return Walk(kopl_world(*reference))


def call(walk: Walk, tool: str, **arguments: Json) -> Mapping[str, Json]:
    return walk.call(tool, **arguments).content


def error(walk: Walk, tool: str, **arguments: Json) -> str:
    """The error of a call that must fail and leave the state as it was."""
    before = walk.state
    observation = walk.call(tool, **arguments)
    assert observation.failed
    assert list(observation.content) == ["error"]
    assert walk.state is before
    return str(observation.content["error"])


def test_there_are_27_tools_with_named_parameters() -> None:
    world = kopl_world("x")
    assert len(world.tools) == len(TOOLS) == 27
    assert isinstance(world, SchemaWorld)
    for tool in world.tools:
        said, _, example = tool.description.partition(" Example: ")
        assert said.endswith(".")
        names = [parameter.name for parameter in tool.parameters]
        assert [*json.loads(example or "{}")] == names, "an example has every argument"
        assert {parameter.type for parameter in tool.parameters} <= {"result", "string"}
        assert all(parameter.description for parameter in tool.parameters)
    assert [p.name for p in TOOLS["QueryRelationQualifier"].parameters] == [
        "s_entities",
        "t_entities",
        "relation",
        "qkey",
    ]
    assert TOOLS["SelectAmong"].parameters[-1].description == "One of smallest, largest."


def test_a_question_from_its_first_call_to_its_answer() -> None:
    walk = start("Rhine")
    assert call(walk, "FindAll") == {
        "result": "$0",
        "value": {
            "entities": 8,
            "names": ["body of water", "river", "lake", "country", "Elbe", "Rhine", "Como", "Czechia"],
        },
    }
    assert walk.answer is None, "a set of entities is no answer"
    assert call(walk, "FilterConcept", entities="$0", concept_name="river")["result"] == "$1"
    assert not walk.resolved
    assert call(walk, "SelectAmong", entities="$1", key="river length", op="largest") == {
        "result": "$2",
        "value": "Rhine",
    }
    assert walk.resolved
    assert walk.answer == "Rhine"
    call(walk, "Count", entities="$1")
    assert (walk.resolved, walk.answer) == (False, "2"), "the latest result counts"


def test_facts_are_carried_to_qualifier_filters() -> None:
    walk = start("Czechia")
    call(walk, "Find", name="Elbe")
    call(walk, "Relate", entities="$0", relation="flows through", direction="forward")
    assert call(walk, "QFilterYear", entities="$1", qkey="start", qvalue="1993", op="=")["value"] == {
        "entities": 1,
        "names": ["Czechia"],
    }
    assert "carry no facts" in error(walk, "QFilterYear", entities="$0", qkey="start", qvalue="1993", op="=")
    call(walk, "QueryName", entities="$2")
    assert walk.resolved


def test_what_returns_nothing_has_failed_and_says_why() -> None:
    walk = start("x")
    call(walk, "FindAll")
    call(walk, "Find", name="Como")
    assert error(walk, "Find", name="Danube") == "there is no entity 'Danube'."
    assert error(walk, "FilterConcept", entities="$1", concept_name="river") == (
        "none of the given entities is a 'river'."
    )
    assert error(walk, "FilterConcept", entities="$1", concept_name="pond") == "there is no concept 'pond'."
    assert error(walk, "QueryAttr", entities="$1", key="length") == "there is no attribute key 'length'."
    assert error(walk, "QueryAttr", entities="$1", key="river length") == (
        "none of the given entities has the attribute 'river length'."
    )
    assert error(walk, "FilterNum", entities="$0", key="river length", value="9 metre", op="<") == (
        "none of the given entities has 'river length' '<' '9 metre'."
    )
    assert error(walk, "FilterNum", entities="$0", key="river length", value="long", op="<") == (
        "'long' is not a number, with its unit behind it."
    )
    assert "none of =, !=, <, >" in error(walk, "FilterNum", entities="$0", key="river length", value="9", op="<=")
    assert error(walk, "Relate", entities="$1", relation="flows through", direction="forward") == (
        "none of the given entities has the relation 'flows through' ('forward')."
    )
    assert error(walk, "SelectAmong", entities="$0", key="founded on", op="largest") == (
        "none of the given entities has a number as 'founded on'."
    )
    assert error(walk, "QueryRelation", s_entities="$1", t_entities="$0") == (
        "no relation leads from the first entities to the second."
    )
    assert "{x}" in error(walk, "FilterStr", entities="$0", key="river length", value="{x}")


@pytest.mark.parametrize(
    ("tool", "arguments", "message"),
    [
        ("Fly", {}, "there is no tool 'Fly'."),
        ("Find", {}, "the call of Find lacks name; its parameters are name."),
        ("Find", {"name": "Elbe", "age": "3"}, "the call of Find has no parameter 'age'; its parameters are name."),
        ("FindAll", {"name": "Elbe"}, "the call of FindAll has no parameter 'name'; its parameters are none."),
        ("Find", {"name": 7}, "name: a text is expected, not int."),
        ("Find", {"name": None}, "name: a text is expected, not NoneType."),
        ("Find", {"name": ["Elbe"]}, "name: a text is expected, not list."),
        ("Count", {"entities": "$1"}, "entities: '$1' is no result of an earlier step."),
        ("Count", {"entities": "$99"}, "entities: '$99' is no result of an earlier step."),
        ("Count", {"entities": "$-1"}, "entities: '$-1' is no result of an earlier step."),
        ("Count", {"entities": "$00"}, "entities: '$00' is no result of an earlier step."),
        ("Count", {"entities": "$" + "9" * 5000}, "is no result of an earlier step"),
        ("Count", {"entities": "Elbe"}, "entities: 'Elbe' is no result of an earlier step."),
        ("Count", {"entities": {"$0": 1}}, "entities: a text is expected, not dict."),
        (
            "VerifyNum",
            {"s_value": "$0", "t_value": "1", "op": "="},
            "s_value: that step's result is a set of entities, not values of",
        ),
    ],
)
def test_calls_that_do_not_fit_fail(tool: str, arguments: dict[str, Any], message: str) -> None:
    walk = start("x")
    assert error(walk, "Count", entities="$0") == "entities: '$0' is no result of an earlier step."
    call(walk, "FindAll")
    found = error(walk, tool, **arguments)
    assert message in found
    assert len(found) < 300


def test_going_on_from_a_kept_state_counts_results_from_there() -> None:
    walk = start("river")
    call(walk, "FindAll")
    kept = walk.state
    call(walk, "Find", name="Elbe")
    later, walk.state = walk.state, kept
    assert call(walk, "Find", name="Rhine")["result"] == "$1"
    assert walk.state != later
    walk.state = later
    assert call(walk, "QueryName", entities="$1")["value"] == "Elbe"


def test_long_results_are_told_by_their_first_ten() -> None:
    raw = raw_base()
    raw["entities"] |= {f"x{i}": raw["entities"]["e3"] | {"name": f"pond {i}"} for i in range(30)}
    walk = Walk(KoplWorld(parse(raw, SOURCE), ("34",)))
    call(walk, "FindAll")
    call(walk, "FilterConcept", entities="$0", concept_name="lake")
    assert call(walk, "QueryName", entities="$1")["value"] == {
        "values": 31,
        "first": ["Como", *(f"pond {i}" for i in range(9))],
    }
    assert call(walk, "QueryAttr", entities="$1", key="surface area")["value"] == {
        "values": 31,
        "first": ["146 square kilometre"] * 10,
    }
    assert walk.answer == "146 square kilometre"


@pytest.mark.parametrize(
    ("found", "wanted", "same"),
    [
        (["206 centimetre"], ["206.0 centimetre"], True),
        (["206 centimetre"], ["206 metre"], False),
        (["206 centimetre"], ["206"], False),
        (["2003-06-26"], ["2003/6/26"], True),
        (["2003-06-26"], ["2003"], False),
        (["2003-06-26"], ["99999999999-06-26"], False),
        (["2003"], ["2003.0"], True),
        (["0.30000000000000004"], ["0.3"], True),
        (["a", "b", "a"], ["b", "a"], True),
        (["a"], ["a", "b"], False),
        (["a", "b"], ["a"], False),
        (["Elbe"], ["elbe"], False),
        (["yes"], ["yes"], True),
        ([], [], True),
        ([], ["no"], False),
    ],
)
def test_answers_are_compared_as_values(found: list[str], wanted: list[str], same: bool) -> None:
    assert same_answer(found, wanted) is same
    assert same_answer(wanted, found) is same


STEP = {"function": "FindAll", "inputs": [], "dependencies": []}


@pytest.mark.parametrize(
    ("program", "step", "message"),
    [
        ([], None, "at least one step"),
        ("FindAll", None, "a list"),
        ([STEP, 7], 1, "a step must be an object, not int"),
        ([{"function": "Fly", "inputs": [], "dependencies": []}], 0, "'Fly' is not one of the 27 functions"),
        ([{"inputs": [], "dependencies": []}], 0, "'None' is not one of the 27 functions"),
        ([STEP | {"function": "Find"}], 0, "Find takes 1 inputs (name), not 0"),
        ([STEP | {"inputs": ["x"]}], 0, "FindAll takes 0 inputs (none), not 1"),
        ([STEP | {"inputs": [3]}], 0, "`inputs` must be a list of texts"),
        ([STEP | {"inputs": None}], 0, "`inputs` must be a list of texts"),
        ([STEP, STEP | {"function": "Count"}], 1, "Count takes 1 results (entities), not 0"),
        (
            [STEP, STEP | {"function": "Count", "dependencies": ["0"]}],
            1,
            "`dependencies` must be a list of step numbers",
        ),
        (
            [STEP, STEP | {"function": "Count", "dependencies": [True]}],
            1,
            "`dependencies` must be a list of step numbers",
        ),
        ([STEP, STEP | {"function": "Count", "dependencies": [1]}], 1, "the step depends on itself"),
        ([STEP, STEP | {"function": "Count", "dependencies": [2]}, STEP], 1, "step 2, which is not an earlier step"),
        ([STEP, STEP | {"function": "Count", "dependencies": [99]}], 1, "step 99, which is not an earlier step"),
        ([STEP, STEP | {"function": "Count", "dependencies": [-1]}], 1, "step -1, which is not an earlier step"),
        (
            [STEP, STEP | {"function": "Count", "dependencies": [0]}, STEP | {"function": "What", "dependencies": [1]}],
            2,
            "entities of QueryName takes entities, but step 1 (Count) returns answer",
        ),
    ],
)
def test_programs_that_cannot_run(program: Any, step: int | None, message: str) -> None:
    with pytest.raises(ProgramError) as caught:
        check(program)
    assert caught.value.step == step
    assert message in caught.value.message


def test_calls_do_what_programs_do() -> None:
    kb = parse(random_base(7, 100), SOURCE)
    programs = Programs(kb, 7, wild=0)
    ran = set()
    for number in range(270):
        program = programs.program(list(FUNCTIONS)[number % 27], 4 + number % 8)
        results = run(kb, program)
        walk = Walk(KoplWorld(kb, texts(results[-1]) or ("nothing",)))
        for place, step in enumerate(program):
            function = FUNCTIONS[step["function"]]
            given = {name: f"${i}" for name, i in zip(function.results, step["dependencies"], strict=True)}
            words = dict(zip(function.texts, step["inputs"], strict=True))
            observation = walk.call(function.name, **given, **words)
            assert not observation.failed, (program, observation)
            assert observation.content["result"] == f"${place}"
            assert not is_empty(results[place])
        assert walk.resolved is (texts(results[-1]) is not None)
        ran.add(program[-1]["function"])
    assert ran == set(FUNCTIONS)
