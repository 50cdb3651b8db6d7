"""Solved cases of the other half: never a case's own, whatever is run, and what A* does with them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from grid.cells.run import Stamp, run_chunk
from grid.core.types import Case, Plan
from grid.datasets.dataset import part_of
from grid.planners import astar
from grid.settings.build import Solved, build, solved_of
from grid.settings.config import BudgetConfig
from grid.settings.setting import cells, influential
from tests.support.configs import setting_of, yaml

DATASETS = ("slate", "gta_generated")
ALPHA = 0.4
"""Not β's 0.5, so that the two are told apart."""
MODES = [("gta_generated", {"mode": "step_by_step"}), *((name, {"limit": None}) for name in DATASETS)]


@pytest.mark.parametrize(("name", "values"), MODES)
def test_no_case_meets_its_own_solution_half_or_cluster(name: str, values: dict[str, Any]) -> None:
    config = yaml("dataset", name) | values
    solved, dataset = solved_of(config), build(setting_of(values, dataset=name), BudgetConfig()).dataset
    case_ids = dataset.case_ids()
    test = set(part_of(case_ids, "test"))
    asked: dict[str, set[str]] = {}
    for case_id in case_ids:
        asked.setdefault(dataset.problem(case_id).case.query, set()).add(case_id)
    for case_id in case_ids[:150]:
        found = solved.nearest(dataset.problem(case_id).case, dataset.cluster(case_id), 10)
        assert len(found) == 10
        for one in found:
            theirs = asked[one.question]
            assert case_id not in theirs
            assert any((other in test) != (case_id in test) for other in theirs)
            assert dataset.cluster(case_id) not in {dataset.cluster(other) for other in theirs}
            references = [dataset.problem(other).reference.calls for other in theirs]
            assert one.calls in [{place: call for place, call in calls.items() if call} for calls in references]


def test_what_is_met_does_not_depend_on_which_cases_are_run() -> None:
    whole = yaml("dataset", "slate")
    dataset = build(setting_of(dataset="slate"), BudgetConfig()).dataset
    case_id = dataset.case_ids()[0]
    asked = dataset.problem(case_id).case, dataset.cluster(case_id), 10
    for changes in ({"limit": 4}, {"order": "file"}, {"max_substeps": 5}):
        assert solved_of(whole | changes).nearest(*asked) == solved_of(whole).nearest(*asked) != ()


def test_datasets_with_demonstrations_and_without_references_have_none() -> None:
    case = Case("any", "What is it?", Plan(()))
    assert solved_of(yaml("dataset", "kqa_synthetic")).nearest(case, "any", 10) == ()

    class Unreferenced:
        provides = frozenset[str]()

    assert Solved(Unreferenced()).nearest(case, "any", 10) == ()  # type: ignore[arg-type]
    assert solved_of(yaml("dataset", "slate")).nearest(case, "any", 0) == ()


def test_in_ids_it_stands_where_it_changes_something_and_seeds_are_paired() -> None:
    """And a dataset with demonstrations of its own keeps the ids of before."""

    def of(dataset: str, solved: str) -> Any:
        return setting_of(planner_values={"solved": solved}, dataset=dataset, planner="astar")

    assert of("slate", "other_half").id != of("slate", "none").id
    assert "solved" not in influential(of("slate", "none").config)["planner"]
    assert of("slate", "other_half").seed_id == of("slate", "none").seed_id
    assert of("kqa_synthetic", "other_half").id == of("kqa_synthetic", "none").id


@pytest.mark.long
@pytest.mark.parametrize(("dataset", "outline"), [("slate", "given"), ("slate", "hidden"), ("gta_generated", "hidden")])
def test_all_terms_of_the_score_vary(monkeypatch: pytest.MonkeyPatch, dataset: str, outline: str) -> None:
    """Without solved plans g1 and h1 are unknown everywhere; g2 and h2 vary anyway."""
    without, with_them = (terms(monkeypatch, dataset, outline, solved) for solved in ("none", "other_half"))
    assert without["g1"] == without["h1"] == {None}
    for seen in (without["g2"], without["h2"], *with_them.values()):
        assert len(seen - {None}) > 2


def terms(monkeypatch: pytest.MonkeyPatch, dataset: str, outline: str, solved: str) -> dict[str, set[float | None]]:
    """The values that each term has in the searches of four cases by the simulated policy."""
    seen: dict[str, set[float | None]] = {name: set() for name in ("g1", "g2", "h1", "h2")}

    def mixed(known: float | None, told: float, weight: float) -> float:
        part = "g" if weight == ALPHA else "h"
        seen[f"{part}1"].add(known)
        seen[f"{part}2"].add(told)
        return plain(known, told, weight)

    plain = astar.mixed
    values = {"solved": solved, "alpha": ALPHA, "expansions": 30}
    with monkeypatch.context() as patch:
        patch.setattr(astar, "mixed", mixed)
        given = {"limit": 4, "outline": outline}
        setting = setting_of(given, values, dataset=dataset, planner="astar", model="simulated")
        built = build(setting, BudgetConfig())
        chunk = list(cells(setting, built.version, built.dataset.case_ids(), 1))
        rows = asyncio.run(run_chunk(built, setting, chunk, Stamp("test", None))).take()["episodes"]
    assert [row["error_message"] for row in rows] == [None] * 4
    return seen
