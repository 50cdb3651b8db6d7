"""Whose cells run next: settings come equally far, and what a worker keeps of datasets is not read again and again."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grid import store
from grid.cells.run import Stamp, run_chunk
from grid.settings.build import build
from grid.settings.check import check_sweep
from grid.settings.parts import KEPT
from grid.settings.plan import Plan, by_turns, together
from grid.settings.setting import GROUPS, Cell, Setting
from tests.support.configs import job, yaml

PLANNERS = ["react", "self_consistency", "self_consistency_plan"]


def setting(number: int, data: int = 0) -> Setting:
    groups: Mapping[str, Any] = {group: {} for group in GROUPS} | {"dataset": {"n": data}, "planner": {"n": number}}
    return Setting(groups, {"planner": str(number)}, 0)


def cell(place: int) -> Cell:
    return Cell(str(place), 0, str(place), str(place), "")


@given(
    st.lists(st.tuples(st.sets(st.integers(0, 60)), st.lists(st.integers(1, 12), min_size=1)), min_size=1, max_size=7)
)
def test_no_setting_is_ahead_of_another_by_more_than_a_chunk(given: list[tuple[set[int], list[int]]]) -> None:
    """Whatever is done already, and however large each setting's chunks are."""
    asked: Counter[str] = Counter()
    sizes = {str(number): sizes for number, (_, sizes) in enumerate(given)}
    left = {str(number): sorted(places) for number, (places, _) in enumerate(given)}

    def size(one: Setting) -> int:
        name = one.labels["planner"]
        asked[name] += 1
        return sizes[name][asked[name] % len(sizes[name])]

    waiting = [
        (setting(number), iter([(place, cell(place)) for place in left[str(number)]])) for number in range(len(given))
    ]
    for one, chunk in by_turns(waiting, size):
        name = one.labels["planner"]
        begins = min(places[0] for places in left.values() if places)
        assert int(chunk[0].case_id) == begins == left[name][0], "it is the setting that has come least far"
        assert len(chunk) <= max(sizes[name])
        assert [int(each.case_id) for each in chunk] == left[name][: len(chunk)], "in their order, none twice"
        del left[name][: len(chunk)]
    assert not any(left.values()), "all run"


def test_more_datasets_than_a_worker_keeps_take_turns_in_groups() -> None:
    settings = [setting(planner, data) for planner in range(3) for data in range(2 * KEPT + 1)]
    groups = list(together(settings))
    assert [len(group) for group in groups] == [3 * KEPT, 3 * KEPT, 3]
    assert {one.id for group in groups for one in group} == {one.id for one in settings}
    kept = [{one.config["dataset"]["n"] for one in group} for group in groups]
    assert all(len(data) <= KEPT for data in kept)
    assert not kept[0] & kept[1]
    (alone,) = together(settings[:: 2 * KEPT + 1])
    assert [one.labels["planner"] for one in alone] == ["0", "1", "2"], "planners keep their order"


@pytest.mark.long
@pytest.mark.parametrize("chunks", [1, 4, 7])
def test_a_sweep_killed_after_some_chunks_has_about_the_same_cases_of_each_setting(tmp_path: Path, chunks: int) -> None:
    """And goes on so when it is run again, also with a setting that was not there before."""
    plan = plan_of(tmp_path, PLANNERS)
    most = 2
    run(plan, chunks, most)
    rows = store.read(plan.root, "episodes", wide=True).to_pylist()
    by_planner: Counter[str] = Counter({setting.labels["planner"]: 0 for setting in plan.settings})
    by_planner.update(row["planner"] for row in rows)
    assert sum(by_planner.values()) == chunks * most
    assert max(by_planner.values()) - min(by_planner.values()) <= most
    common = set.intersection(*({row["case_id"] for row in rows if row["planner"] == name} for name in by_planner))
    assert len(common) == min(by_planner.values()), "the same cases"
    more = plan_of(tmp_path, [*PLANNERS, "egb_sampling"])
    first = next(more.chunks(more.finished(), lambda _: most, more.settings))
    assert first[0].labels["planner"] == min([*by_planner, "egb_sampling"], key=lambda name: by_planner[name])
    run(more, None, most)
    assert not any(more.missing(more.finished()).values())


def plan_of(root: Path, planners: list[str]) -> Plan:
    jobs = []
    for planner in planners:
        one = job(root, planner=yaml("planner", planner), dataset__limit=6)
        jobs.append(replace(one, labels={**one.labels, "planner": planner}))
    return check_sweep(jobs).plan


def run(plan: Plan, chunks: int | None, cells: int) -> None:
    for place, (one, chunk) in enumerate(plan.chunks(plan.finished(), lambda _: cells, plan.settings)):
        if place == chunks:
            return
        result = asyncio.run(run_chunk(build(one, plan.budget), one, chunk, Stamp("s", None)))
        store.write(plan.root, result.take())
