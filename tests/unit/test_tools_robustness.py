"""Forgiving and strict tools (planning_horizon §3.2, §4.4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grid.datasets.base import Problem
from grid.datasets.slate.dataset import Slate
from grid.errors import ConfigError
from grid.metrics.stepwise import scored
from grid.retrievers.bm25 import BM25
from grid.robustness.base import Robustness
from grid.robustness.schema_matching import MatchingWorld, Rule
from grid.robustness.similarity import Lexical, nearest
from grid.robustness.tools_forgiving import ToolsForgiving
from grid.robustness.tools_strict import ToolsStrict
from grid.sweep.rows import step_rows
from grid.types import Case, Json, Observation, Plan, Reference, Step, Substep, ToolCall, ToolSpec, Trajectory
from grid.worlds.base import State
from grid.worlds.kopl.functions import TOOLS
from grid.worlds.kopl.reading import parse
from grid.worlds.kopl.world import KoplState, KoplWorld
from grid.worlds.schema import Vocabulary, mends
from tests.kopl_world import SOURCE, attribute, entity, kopl_world, number, raw_base, relation
from tests.walks import Walk

INDEX = BM25().index(TOOLS)
QUESTION = "How long is the Rhine?"


def undisturbed(world: KoplWorld | None = None) -> Problem:
    def none(case: Case, substep: object) -> tuple[ToolSpec, ...]:
        return ()

    case = Case("c", QUESTION, Plan(()))
    return Problem(case, Reference({}, ()), world or kopl_world("1233 kilometre"), none, TOOLS, {})


def disturbed(*settings: Robustness, world: KoplWorld | None = None) -> Walk:
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


def test_forgiving_tools_take_the_nearest_of_what_the_input_has() -> None:
    walk = disturbed(ToolsForgiving())
    assert call(walk, "Find", name="RHINE")["read_as"] == {"name": "Rhine"}
    found = call(walk, "QueryAttr", entities="$0", key="length of river")
    assert found == {"result": "$1", "value": "1233 kilometre", "read_as": {"key": "river length"}}
    assert results(walk) == 2
    assert walk.resolved
    assert isinstance(walk.world, MatchingWorld)
    assert walk.answer == "1233 kilometre"


def test_two_unknown_names_are_mended_one_after_the_other() -> None:
    walk = disturbed(ToolsForgiving())
    call(walk, "Find", name="Czechia")
    found = call(walk, "QueryAttrUnderCondition", entities="$0", key="populations", qkey="measured in", qvalue="2023")
    assert found["value"] == "10900000"
    assert found["read_as"] == {"key": "population count", "qkey": "measured"}


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
    expected = walk.world.identifiers(walk.state, ToolCall(tool, {"entities": "$0", **arguments}))
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


def test_what_the_schema_has_is_never_replaced_but_told() -> None:
    walk = disturbed(ToolsForgiving())
    call(walk, "Find", name="Como")
    before = walk.state
    content = call(walk, "QueryAttr", entities="$0", key="river length")
    assert content == {
        "error": "none of the given entities has the attribute 'river length'. "
        "Nearest attribute key to 'river length': 'surface area'."
    }
    assert walk.state == before


def test_nothing_is_replaced_where_a_name_elsewhere_is_clearly_nearer() -> None:
    walk = disturbed(ToolsForgiving(floor=0.1))
    call(walk, "Find", name="Como")
    assert "error" in call(walk, "QueryAttr", entities="$0", key="the river's length")


@given(st.text(max_size=30))
def test_find_is_never_mended_below_its_floor(name: str) -> None:
    walk = disturbed(ToolsForgiving())
    found = call(walk, "Find", name=name)
    scores = Lexical().scores(name, kopl_world().kb.vocabularies["entity"].names)
    if "read_as" in found:
        assert scores.max() >= 0.9 - 1e-6


@pytest.mark.parametrize("name", ["LeBron James", "Irondon", "Elba", "the Rhône"])
def test_names_that_only_look_alike_are_refused(name: str) -> None:
    assert "error" in call(disturbed(ToolsForgiving()), "Find", name=name)


@dataclass(frozen=True)
class Told:
    """Similarities that are given: the rule alone is looked at."""

    values: tuple[float, ...]

    def scores(self, text: str, names: tuple[str, ...]) -> np.ndarray:
        return np.array(self.values[: len(names)])


@given(st.lists(st.floats(-1, 1), min_size=5, max_size=5), st.floats(0, 1), st.floats(0, 1), st.sampled_from([0, 1, 2]))
def test_the_rule_agrees_with_its_words(values: list[float], floor: float, ratio: float, entity_number: int) -> None:
    """What is taken, from all candidates and all other names looked at one by one."""
    plain = kopl_world()
    world = MatchingWorld(plain, Told(tuple(values)), 10, Rule(floor, 0.9, ratio))
    walk = Walk(world)
    call(walk, "Find", name=["Rhine", "Como", "Czechia"][entity_number])
    asked = ToolCall("QueryAttr", {"entities": "$0", "key": "?"})
    expected = plain.identifiers(walk.state, asked)["key"]
    score = dict(zip(expected.vocabulary, values, strict=True))
    slack = 1e-6
    wanted = [
        name
        for name in expected.here
        if score[name] >= floor - slack
        and all(
            1 - score[name] <= ratio * (1 - score[other]) + slack and score[name] > score[other]
            for other in expected.here
            if other != name
        )
        and not any(
            1 - score[other] <= ratio * (1 - score[name]) + slack and score[other] > score[name]
            for other in expected.vocabulary
            if other not in expected.here
        )
    ]
    read: Any = walk.make(asked).content.get("read_as")
    assert ([] if read is None else [read["key"]]) == wanted


@pytest.mark.parametrize("setting", [ToolsForgiving(), ToolsStrict()])
def test_it_branches_where_the_world_does(setting: Robustness) -> None:
    class Live(KoplWorld):
        branches: ClassVar[bool] = False

    plain = undisturbed()
    assert isinstance(plain.world, KoplWorld)
    live = replace(plain, world=Live(plain.world.kb, plain.world.reference))
    assert setting.disturb(plain, INDEX, seed=0).world.branches
    assert not setting.disturb(live, INDEX, seed=0).world.branches


@pytest.mark.parametrize(
    ("setting", "many"), [(ToolsForgiving(), 2), (ToolsForgiving(candidates=1), 1), (ToolsStrict(), 1)]
)
def test_where_nothing_is_replaced_the_nearest_come_back(setting: Robustness, many: int) -> None:
    walk = disturbed(setting)
    call(walk, "Find", name="Czechia")
    before = walk.state
    content = call(walk, "QueryAttr", entities="$0", key="found breadth and length")
    told = ["'founded on'", "'population count'"][:many]
    assert content == {
        "error": "there is no attribute key 'found breadth and length'. "
        f"Nearest attribute key to 'found breadth and length': {', '.join(told)}."
    }
    assert walk.state == before
    assert results(walk) == 1


def test_strict_tools_fail_where_forgiving_ones_would_not() -> None:
    walk = disturbed(ToolsStrict())
    content = call(walk, "Find", name="RHINE")
    assert content == {"error": "there is no entity 'RHINE'. Nearest entity to 'RHINE': 'Rhine'."}
    assert results(walk) == 0
    assert call(walk, "Find", name="Rhine")["result"] == "$0"
    assert "'river length'." in str(call(walk, "QueryAttr", entities="$0", key="length of river")["error"])


def test_without_either_there_is_no_feedback() -> None:
    walk = disturbed()
    assert call(walk, "Find", name="RHINE") == {"error": "there is no entity 'RHINE'."}


@pytest.mark.parametrize("setting", [ToolsForgiving(), ToolsStrict()])
def test_failures_of_another_kind_are_told_as_they_are(setting: Robustness) -> None:
    walk = disturbed(setting)
    plain = disturbed()
    for tool, arguments in (
        ("Fly", {"name": "x"}),
        ("finish", {"answer": "$0"}),
        ("Count", {"entities": "$4"}),
        ("Find", {"name": 5}),
        ("Find", {}),
        ("Relate", {"entities": "$0", "relation": "x", "direction": "up"}),
    ):
        assert call(walk, tool, **arguments) == call(plain, tool, **arguments)


def test_a_call_that_fails_mended_too_is_told_as_it_was_made() -> None:
    walk = disturbed(ToolsForgiving())
    call(walk, "Find", name="Czechia")
    before = walk.state
    content = call(walk, "FilterNum", entities="$0", key="populations count", value="5", op="=")
    assert list(content) == ["error"]
    assert "no attribute key 'populations count'" in str(content["error"])
    assert walk.state == before


def test_the_first_of_the_two_settings_holds() -> None:
    walk = disturbed(ToolsForgiving(), ToolsStrict())
    assert call(walk, "Find", name="rhine")["read_as"] == {"name": "Rhine"}
    walk = disturbed(ToolsStrict(), ToolsForgiving())
    assert "error" in call(walk, "Find", name="rhine")


@pytest.mark.parametrize("setting", [ToolsForgiving(), ToolsStrict()])
def test_a_problem_without_a_schema_stays_as_it_is(
    setting: Robustness, fresh_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(fresh_cache))
    data = Slate(limit=1)
    plain = data.problem(data.case_ids()[0])
    assert setting.disturb(plain, INDEX, seed=0) is plain
    assert not mends(plain.world)


@pytest.mark.parametrize("setting", [ToolsForgiving, ToolsStrict])
def test_embeddings_without_a_model_are_refused_before_the_sweep(setting: Any) -> None:
    with pytest.raises(ConfigError, match=r"robustness\.tools_\w+\.hub"):
        setting(similarity="embeddings")


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
    assert (scores.replaced_arguments, scores.wrongly_replaced_arguments) == (3, 2)
    for other in (problem, ToolsStrict().disturb(problem, INDEX, seed=0)):
        none = scored(other, made, resolved=False)
        assert (none.replaced_arguments, none.wrongly_replaced_arguments) == (None, None)
    rows = step_rows("c", "a", made, reference, lambda step: (), forgiving=True)
    assert [row["replaced"] for row in rows] == [
        '{"key": ["given", "height"]}',
        None,
        '{"key": ["given", "mass"], "qkey": ["given", "height"]}',
    ]
    assert {row["replaced"] for row in step_rows("c", "a", made, reference, lambda step: ())} == {None}


@given(st.text(max_size=12), st.lists(st.text(max_size=12), max_size=15, unique=True), st.integers(1, 12))
def test_similarities_are_cosines_and_the_nearest_come_once(text: str, names: list[str], count: int) -> None:
    vocabulary = Vocabulary("thing", names)
    scores = Lexical().scores(text, vocabulary.names)
    assert scores.shape == (len(names),)
    assert ((scores >= 0) & (scores <= 1 + 1e-9)).all()
    found = nearest(scores, count)
    assert len(found) == min(count, len(names)) == len(set(found))


def test_nearest_is_found_by_parts_of_words() -> None:
    names = ("employee counts", "date of birth", "place of birth", "height", "number of seasons")
    for text, found in (
        ("HEIGHT", "height"),
        ("employees", "employee counts"),
        ("heigth", "height"),
        ("birthDate", "date of birth"),
        ("season_numbers", "number of seasons"),
    ):
        assert names[nearest(Lexical().scores(text, names), 1)[0]] == found
