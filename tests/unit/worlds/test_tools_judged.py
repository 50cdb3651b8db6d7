"""What forgiving tools may take (B.1.1), whom they ask, and how what they took is counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from grid.cells.rows import step_rows
from grid.core.problem import Reference
from grid.core.types import Json, Observation, Step, Substep, ToolCall, Trajectory
from grid.core.world import State
from grid.metrics.stepwise import scored
from grid.robustness.schema_matching import MatchingWorld, ToolsForgiving, ToolsStrict
from grid.worlds.kopl.world import KoplState, KoplWorld
from tests.support.forgiving import INDEX, QUESTION, call, disturbed, results, texts, undisturbed
from tests.support.walks import Walk, at_once


@pytest.mark.parametrize(
    ("tool", "arguments", "parameter", "here"),
    [
        ("FilterConcept", {"concept_name": "?"}, "concept_name", ["body of water"]),
        ("QueryAttr", {"key": "?"}, "key", ["original language", "box office"]),
        ("FilterNum", {"key": "?", "value": "7", "op": "="}, "key", ["box office"]),
        ("FilterStr", {"key": "?", "value": "x"}, "key", ["original language"]),
        ("SelectAmong", {"key": "?", "op": "smallest"}, "key", ["box office"]),
        ("FilterStr", {"key": "original language", "value": "?"}, "value", ["Corvanian"]),
        ("Relate", {"relation": "?", "direction": "forward"}, "relation", ["directed by"]),
        ("Relate", {"relation": "?", "direction": "backward"}, "relation", []),
        (
            "QueryAttrQualifier",
            {"key": "original language", "value": "Corvanian", "qkey": "?"},
            "qkey",
            ["first shown"],
        ),
        (
            "QueryAttrUnderCondition",
            {"key": "original language", "qkey": "first shown", "qvalue": "?"},
            "qvalue",
            ["Silver Reel Festival"],
        ),
    ],
)
def test_candidates_are_what_the_given_entities_have(
    tool: str, arguments: dict[str, Json], parameter: str, here: list[str]
) -> None:
    walk = disturbed(world=texts())
    call(walk, "Find", name="Quiet Harvest")
    assert isinstance(walk.world, KoplWorld)
    expected = at_once(walk.world.identifiers(walk.state, ToolCall(tool, {"entities": "$0", **arguments})))
    assert list(expected[parameter].here) == here
    assert set(here) <= set(expected[parameter].vocabulary)


def test_qualifiers_are_those_of_the_facts_that_entities_were_found_by() -> None:
    walk = disturbed(ToolsForgiving(), world=texts())
    call(walk, "Find", name="Quiet Harvest")
    call(walk, "Relate", entities="$0", relation="directed by", direction="forward")
    found = call(walk, "QFilterStr", entities="$1", qkey="places of work", qvalue="studio nine")
    assert found["read_as"] == {"qkey": "place of work", "qvalue": "Studio Nine"}
    told = call(walk, "QueryRelationQualifier", s_entities="$0", t_entities="$1", relation="directing", qkey="work")
    assert told["read_as"] == {"relation": "directed by", "qkey": "place of work"}


@pytest.mark.parametrize(("value", "read"), [("corvanian", "Corvanian"), ("Corvan", None), ("Thai", None)])
def test_text_values_are_mended_from_nine_tenths_and_never_where_the_base_has_them(
    value: str, read: str | None
) -> None:
    walk = disturbed(ToolsForgiving(), world=texts())
    call(walk, "Find", name="Quiet Harvest")
    before = walk.state
    found = call(walk, "FilterStr", entities="$0", key="original language", value=value)
    assert found.get("read_as") == ({"value": read} if read else None)
    assert (walk.state == before) == (read is None)
    if read is None:
        assert "Nearest value of original language" in str(found["error"])


@dataclass
class Judge:
    """Says the same every time, and keeps what it was asked."""

    says: str | None
    asked: list[tuple[str, str, list[str]]] = field(default_factory=list)

    async def choose(self, question: str, call: ToolCall, parameter: str, candidates: Sequence[str]) -> str | None:
        self.asked.append((question, parameter, list(candidates)))
        return self.says


def judged(judge: Judge, world: KoplWorld | None = None, **keys: Any) -> Walk:
    found = disturbed(ToolsForgiving(judge=True, **keys), world=world).world
    assert isinstance(found, MatchingWorld)
    return Walk(found.judged_by(judge))


def test_a_judge_chooses_among_the_candidates_above_the_floor() -> None:
    judge = Judge("population count")
    walk = judged(judge)
    call(walk, "Find", name="Czechia")
    found = call(walk, "QueryAttr", entities="$0", key="counted population of it")
    assert found["read_as"] == {"key": "population count"}
    assert judge.asked == [(QUESTION, "key", ["population count"])]
    assert "error" in call(walk, "Find", name="LeBron James")  # no candidate reaches the floor: nobody is asked
    assert len(judge.asked) == 1


def test_a_judge_that_prefers_none_replaces_nothing() -> None:
    walk = judged(Judge(None))
    assert "error" in call(walk, "Find", name="RHINE")
    assert results(walk) == 0


def test_text_values_are_not_the_judges() -> None:
    judge = Judge(None)
    walk = judged(judge, texts())
    call(walk, "Find", name="Quiet Harvest")
    found = call(walk, "FilterStr", entities="$0", key="original language", value="CORVANIAN")
    assert found["read_as"] == {"value": "Corvanian"}
    assert judge.asked == []


def path(*taken: dict[str, Json]) -> Trajectory:
    """Steps whose calls were read as said."""
    state: State = KoplState()
    steps = tuple(
        Step(
            branch=0,
            substep=Substep(str(place), "", ""),
            call=ToolCall("QueryAttr", {"entities": "$0", **dict.fromkeys(read, "given")}),
            observation=Observation({"result": "$1", **({"read_as": dict(read)} if read else {})}),
        )
        for place, read in enumerate(taken)
    )
    return Trajectory(steps, steps, state)


def test_replaced_arguments_and_wrong_ones_are_counted() -> None:
    reference = Reference({"0": ToolCall("FilterNum", {"entities": "$0", "key": "height"})}, ("0",), followed=False)
    problem = replace(undisturbed(), reference=reference)
    made = path({"key": "height"}, {}, {"key": "mass", "qkey": "height"})
    forgiving = ToolsForgiving().disturb(problem, INDEX, seed=0)
    scores = scored(forgiving, made, resolved=False)
    assert (scores["replaced_arguments"], scores["wrongly_replaced_arguments"]) == (3, 2)
    for other in (problem, ToolsStrict().disturb(problem, INDEX, seed=0)):
        none = scored(other, made, resolved=False)
        assert none.keys().isdisjoint({"replaced_arguments", "wrongly_replaced_arguments"})
    rows = step_rows("c", "a", made, reference, lambda step: (), forgiving=True)
    assert [row["replaced"] for row in rows] == [
        '{"key": ["given", "height"]}',
        None,
        '{"key": ["given", "mass"], "qkey": ["given", "height"]}',
    ]
    assert {row["replaced"] for row in step_rows("c", "a", made, reference, lambda step: ())} == {None}
