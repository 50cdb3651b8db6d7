"""Generated planning tasks: margins, determinism, values, stock, disturbances."""

from __future__ import annotations

import asyncio
import itertools
import random
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest

from grid.core.errors import DataError
from grid.core.types import REJECT, Chain, ChainCall, Family, Step, Substep, Trajectory
from grid.datasets.apb_synthetic import dataset as module
from grid.datasets.apb_synthetic.build import Built, build
from grid.datasets.apb_synthetic.dataset import (
    CATEGORIES,
    HOLISTIC,
    ApbSynthetic,
    Bases,
    done_steps,
    draw,
    reference,
    shares,
    steps_of,
)
from grid.datasets.apb_synthetic.stats import LEAST_GOAL_FAMILIES, broken_rules, margins, predicted, problems
from grid.datasets.apb_synthetic.stock import CASES, STOCK, UNSOLVABLE, Recipe, categories, found, read, slots, write
from grid.text.references import outputs_of, resolve
from grid.worlds.programs import search
from grid.worlds.programs.model import Function, fill, possibilities, value
from grid.worlds.programs.world import ProgramWorld


@pytest.fixture(scope="module")
def recipes() -> list[Recipe]:
    return draw(0)


@pytest.fixture(scope="module")
def some(recipes: list[Recipe]) -> list[Built]:
    """A few cases of each task family, and of each kind of unsolvable ones."""
    return [build(recipe) for recipe in recipes[::37]]


@pytest.fixture
def generated(recipes: list[Recipe], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(recipes, tmp_path / CASES)
    monkeypatch.setattr(module, "generated", lambda seed: tmp_path)


@pytest.mark.long
def test_margins_are_the_papers(recipes: list[Recipe]) -> None:
    found = margins([build(recipe) for recipe in recipes])
    assert not [one for one in found if not one.holds]
    assert next(one.ours for one in found if one.name == "goal families") >= LEAST_GOAL_FAMILIES
    assert next(one.ours for one in found if one.name == "different queries of holistic cases") == HOLISTIC


@pytest.mark.long
def test_a_seed_is_its_cases_and_another_has_others(recipes: list[Recipe]) -> None:
    assert draw(0) == recipes
    assert build(recipes[5]) == build(recipes[5])
    other = Bases("holistic", 1).drawn(60)
    assert not {build(one).task.query for one in recipes[:HOLISTIC]} & {build(one).task.query for one in other}


def test_recipes_are_written_and_read(recipes: list[Recipe], tmp_path: Path) -> None:
    write(recipes[:40], tmp_path / CASES)
    assert read(tmp_path / CASES) == recipes[:40]


def test_a_broken_recipe_is_refused_with_its_line_key_and_value(tmp_path: Path) -> None:
    (tmp_path / CASES).write_text('{"id": "a", "base": "a", "task_family": "odd", "category": "c", "family": "f"}\n')
    with pytest.raises(DataError, match=r"cases\.jsonl:1: task_family='odd'"):
        read(tmp_path / CASES)


@pytest.mark.long
def test_every_rule_holds_of_a_sample(some: list[Built]) -> None:
    assert {built.kind.task_family for built in some} == {*module.FAMILIES, "stages"}
    assert [line for built in some for line in broken_rules(built)] == []


def test_a_check_finds_what_is_wrong(some: list[Built]) -> None:
    built = next(one for one in some if one.kind.task_family == "holistic")
    cut = replace(built.task, reference=built.task.reference[:-1])
    assert any("does not find all" in line for line in broken_rules(replace(built, task=cut, solvable=cut)))
    bare = replace(built.task, tools=dict(list(built.task.tools.items())[:1]))
    assert any("cannot be solved" in line for line in broken_rules(replace(built, task=bare)) if "does not" not in line)


def test_the_stock_keeps_its_rules() -> None:
    assert problems(categories()) == []
    assert set(categories()) == set(CATEGORIES)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("items: [2, 4]", "items: [two, 4]", r"families\.sunniest_city\.items\.0='two'"),
        ("kind: at_most", "kind: sometimes", r"rules\.0\.kind='sometimes'"),
        ("category: Travel", "categorie: Travel", r"category"),
    ],
)
def test_malformed_stock_is_refused_with_key_and_value(tmp_path: Path, old: str, new: str, message: str) -> None:
    for name in ("common.yaml", "travel.yaml"):
        shutil.copy(STOCK / name, tmp_path / name)
    text = (tmp_path / "travel.yaml").read_text(encoding="utf-8")
    (tmp_path / "travel.yaml").write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(DataError, match=message):
        categories(tmp_path)


def test_a_rule_of_the_stock_that_is_broken_is_named() -> None:
    travel = categories()["Travel & Itinerary Planning"]
    family = travel.families["rail_weekend"]
    changes: list[tuple[dict[str, Any], str]] = [
        ({"steps": {**family.steps, "start": "find_station(day)"}}, "takes ['city'], not ['date']"),
        ({"steps": {**family.steps, "idle": "geocode_city(home)"}}, "idle is neither used nor wanted"),
        ({"ask": ["Take me to {goal}.", *family.ask[1:]]}, "does not tell home"),
        ({"ask": [family.ask[0] + " {more}", *family.ask[1:]]}, "a slot 'more'"),
    ]
    for change, words in changes:
        changed = family.model_copy(update=change)
        other = travel.model_copy(
            update={"category": f"changed {words}", "families": {**travel.families, "rail_weekend": changed}}
        )
        assert any(words in line for line in problems({"x": other}))


def test_a_template_that_has_no_such_slot_is_refused() -> None:
    with pytest.raises(ValueError, match="braces can only hold"):
        fill("{q:3}", random.Random(0))
    with pytest.raises(ValueError, match="there is no input 2"):
        fill("{2}", random.Random(0), ["a"])
    assert possibilities("{n:1-9}{w:a|b}{x1}") == 9 * 2 * 16
    for template in ("{m:1-1}", "{m:0-1}", "{n:3-5}"):
        assert possibilities(template) == len({fill(template, random.Random(seed)) for seed in range(2_000)})


def test_a_value_depends_on_function_and_inputs_alone() -> None:
    function = Function("f", ("a",), "b", "{x8}")
    assert value(function, ["one"]) == value(function, ["one"])
    assert len({value(function, [str(number)]) for number in range(500)}) == 500
    assert value(Function("g", ("a",), "b", "{x8}"), ["one"]) != value(function, ["one"])


def test_shares_sum_up_and_are_proportional() -> None:
    assert sum(shares(106, CATEGORIES).values()) == 106
    assert shares(sum(CATEGORIES.values()), CATEGORIES) == dict(CATEGORIES)


def test_steps_and_stages_are_of_the_same_trajectories(recipes: list[Recipe]) -> None:
    """Table 14's k = 1 is table 15's middle, and early and late are that trajectory cut elsewhere (§5.2)."""
    by_base: dict[str, dict[tuple[int | None, str | None], Recipe]] = {}
    for recipe in recipes:
        if recipe.task_family in ("stepwise", "stages"):
            by_base.setdefault(recipe.base, {})[recipe.k, recipe.stage] = recipe
            assert (recipe.task_family == "stages") == (recipe.stage != "middle")
    assert len(by_base) == 300
    middle = [(1, "middle"), (2, "middle"), (3, "middle")]
    for own in by_base.values():
        assert set(own) == {*middle, (1, "early"), (1, "late")}
        assert len({own[key].place for key in middle}) == 1, "steps are predicted from one place"
        places = [own[1, stage].place or 0 for stage in ("early", "middle", "late")]
        assert 1 <= places[0] < places[1] < places[2]
        steps = steps_of(own[1, "middle"])
        assert places[1] + 3 <= steps > places[2]
        for third, place in enumerate(places):  # of where a call can stand, to the next whole call
            assert abs((place - 1) - (steps - 1) * (third + 0.5) / 3) < (steps - 1) / 6 + 1
    for own in [*by_base.values()][::37]:
        built = [build(one) for one in own.values()]
        assert len({(one.task.query, tuple(map(str, one.task.reference))) for one in built}) == 1
        assert {len(one.task.tools) for one in built} == {len(built[0].task.tools)}


def test_extraneous_tools_are_put_into_whole_plans_and_single_steps(recipes: list[Recipe]) -> None:
    made = [recipe for recipe in recipes if recipe.task_family == "extraneous"]
    assert Counter(recipe.k for recipe in made) == {None: 750, 1: 750}
    plain = {recipe.id: recipe for recipe in recipes}
    for recipe in made:
        base = plain[recipe.id.removeprefix("extraneous-").rpartition("-")[0]]
        kept = {"id", "task_family", "n_extraneous"}
        assert base.model_dump(exclude=kept) == recipe.model_dump(exclude=kept)


def test_stepwise_cases_stand_where_their_stage_says(recipes: list[Recipe]) -> None:
    chosen = [recipe for recipe in recipes if recipe.task_family in ("stepwise", "stages")]
    assert len(chosen) == 1500
    for recipe in chosen[::29]:
        built = build(recipe)
        assert len(built.task.done) == recipe.place
        assert recipe.k is not None
        assert len(built.task.done) + recipe.k <= len(built.task.reference)


def test_extraneous_cases_of_one_base_differ_in_useless_tools_alone(recipes: list[Recipe]) -> None:
    chosen = [recipe for recipe in recipes if recipe.task_family == "extraneous"][:5]
    tasks = [build(recipe).task for recipe in chosen]
    added = [{name for name, tool in task.tools.items() if tool.extraneous} for task in tasks]
    assert [len(names) for names in added] == [2, 4, 6, 8, 10]
    assert all(fewer < more for fewer, more in itertools.pairwise(added))
    assert len({task.query for task in tasks}) == 1


def test_unsolvable_cases_of_one_base_are_of_all_kinds_and_say_no_private_value(recipes: list[Recipe]) -> None:
    chosen = [recipe for recipe in recipes if recipe.task_family == "unsolvable"]
    assert Counter(one.unsolvable for one in chosen) == dict.fromkeys(UNSOLVABLE, 100)
    for recipe in chosen[1::40]:
        built = build(recipe)
        assert recipe.unsolvable == "missing_information"
        hidden = set(built.solvable.constants) - set(built.task.constants)
        assert hidden
        assert all(one.value not in built.task.query for one in hidden)
    for recipe in chosen[3::40]:
        built = build(recipe)
        assert "attach" in built.task.query.lower()
        assert "Files:" not in built.task.query
        assert "Files:" in built.solvable.query


def test_a_replacement_shares_neither_name_nor_parameters() -> None:
    for category in categories().values():
        for name, (other, takes, _) in category.instead.items():
            old = {slot.name for slot in slots(category.functions[name][0])}
            assert other not in category.functions
            assert other != name
            assert len(old & {slot.name for slot in slots(takes)}) < max(len(old), 1) or not old


@pytest.mark.long
@pytest.mark.usefixtures("generated")
def test_problems_offer_reject_and_are_measured() -> None:
    for family in get_args(Family):
        dataset = ApbSynthetic(families=[family], limit=3)
        for name in dataset.case_ids():
            problem, built = dataset.problem(name), dataset.built(name)
            offered = [tool.name for tool in problem.candidates(problem.case, None)]  # type: ignore[arg-type]
            assert offered.count(REJECT) == 1
            assert len(offered) == len(built.task.tools) + 1
            right = predicted(built.task) if family != "unsolvable" else Chain((), "it cannot be done")
            scores = problem.measure(Trajectory((), (), chain=right, unrefined=Chain((ChainCall("no_such", {}),))))
            assert scores["success"] is True
            assert scores["unrefined_correct"] is False
            assert problem.reference.unsolvable is (family == "unsolvable")
            if family == "costs":
                assert scores["least_cost"] <= scores["plan_cost"]


@pytest.mark.long
@pytest.mark.usefixtures("generated")
def test_the_filters_choose() -> None:
    assert len(ApbSynthetic().case_ids()) == 4315
    assert len(ApbSynthetic(families=["stepwise"], horizon=2).case_ids()) == 300
    assert len(ApbSynthetic(families=["extraneous"], n_extraneous=4).case_ids()) == 300
    assert len(ApbSynthetic(families=["extraneous"], horizon=1, n_extraneous=10).case_ids()) == 150
    assert ApbSynthetic(families=["extraneous", "stages"], horizon=2).case_ids() == []
    assert len(ApbSynthetic(families=["stages"]).case_ids()) == 600
    paired = ApbSynthetic(families=["holistic", "stepwise", "extraneous"], counterparts=True).case_ids()
    assert Counter(name.rpartition("-")[0].partition("-")[0] for name in paired) == {
        "holistic": 150, "stepwise": 150, "extraneous": 1500,
    }  # fmt: skip
    few = ApbSynthetic(families=["stepwise", "stages"], counterparts=True, limit=7).case_ids()
    assert Counter(name.partition("-")[0] for name in few) == {"stepwise": 7, "stages": 14}
    first = ApbSynthetic(limit=20).case_ids()
    assert ApbSynthetic(limit=40).case_ids()[:20] == first


def test_the_reference_runs_in_the_world(some: list[Built]) -> None:
    for built in some:
        if built.kind.task_family == "unsolvable":
            continue
        world, steps = ProgramWorld(built.task), list(done_steps(built))
        state = world.start()
        calls = list(reference(built).calls.items())[len(steps) :]
        for place, call in calls:
            assert call is not None
            state, seen = asyncio.run(world.apply(state, resolve(call, outputs_of(steps))))
            assert not seen.failed, (built.recipe.id, place, seen)
            steps.append(Step(0, Substep(place, "", ""), call, seen))
        assert world.resolved(state), built.recipe.id
        assert set(built.task.wanted) <= {fact for outcome in found(built.task) for fact in outcome.values()}


def test_what_makes_a_case_unsolvable_is_said(some: list[Built]) -> None:
    for built in some:
        assert (search.derivable(built.task) is None) == (built.kind.task_family != "unsolvable")
