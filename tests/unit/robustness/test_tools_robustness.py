"""Forgiving and strict tools (planning_horizon §3.2, §4.4)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grid.core.errors import ConfigError
from grid.core.types import ToolCall
from grid.datasets.slate.dataset import Slate
from grid.robustness.base import Robustness
from grid.robustness.schema_matching import Lexical, MatchingWorld, Rule, ToolsForgiving, ToolsStrict, nearest
from grid.worlds.kopl.world import KoplWorld
from grid.worlds.schema import Vocabulary, mends
from tests.support.forgiving import INDEX, call, disturbed, results, undisturbed
from tests.support.kopl_world import kopl_world
from tests.support.walks import Walk, at_once


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
    expected = at_once(plain.identifiers(walk.state, asked))["key"]
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
def test_a_problem_without_a_schema_stays_as_it_is(setting: Robustness) -> None:
    data = Slate(limit=1)
    plain = data.problem(data.case_ids()[0])
    assert setting.disturb(plain, INDEX, seed=0) == plain
    assert not mends(plain.world)


@pytest.mark.parametrize("setting", [ToolsForgiving, ToolsStrict])
def test_embeddings_without_a_model_are_refused_before_the_sweep(setting: Any) -> None:
    with pytest.raises(ConfigError, match=r"robustness\.tools_\w+\.hub"):
        setting(similarity="embeddings")


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
