"""The generated closed set: every case can be solved, by no short cut, and has GTA's shape."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Hashable, Mapping
from dataclasses import replace

import pytest

from grid.cells.run import Stamp, run_chunk
from grid.core.types import Json, Step, Substep, Trajectory
from grid.datasets.gta import category_of
from grid.datasets.gta_generated.dataset import OF_EACH, TEMPLATES, GtaGenerated, records
from grid.datasets.gta_generated.draft import Record
from grid.datasets.gta_generated.stats import GTA_QUERIES, broken, categories, named_tools, statistics, tools_used
from grid.settings.build import build
from grid.settings.config import BudgetConfig
from grid.settings.setting import cells
from grid.text import references
from grid.worlds.scenes.tools import TOOLS
from grid.worlds.scenes.world import SceneState
from tests.support.configs import setting_of
from tests.support.loops import each
from tests.support.oracle import oracle_of
from tests.support.walks import Walk

RECORDS = records(0)
CASES = list(RECORDS)
F1 = ("tool_f1", "argument_f1", "plan_f1", "execution_f1")
END, STEPS = GtaGenerated(), GtaGenerated(mode="step_by_step")


def played(case_id: str, dataset: GtaGenerated = END) -> tuple[Walk, Trajectory]:
    """The reference's calls behind the case's own steps, made as they are written."""
    problem = dataset.problem(case_id)
    walk, done = Walk(problem.world), list(problem.case.done)
    wanted = problem.reference.part(len(done), problem.case.decisions)
    steps: list[Step] = []
    for place, call in wanted.calls.items():
        assert call
        concrete = references.resolve(call, references.outputs_of([*done, *steps]))
        steps.append(Step(0, Substep(place, "", ""), concrete, walk.make(concrete), written=call))
    return walk, Trajectory(tuple(steps), tuple(steps), walk.state, answer=problem.reference.answer)


@each("case_id", CASES)
def test_the_reference_resolves_its_case_with_full_scores(case_id: str) -> None:
    walk, trajectory = played(case_id)
    assert walk.resolved
    assert not any(step.observation and step.observation.failed for step in trajectory.steps)
    found = dict(END.problem(case_id).measure(trajectory))
    assert all(hits == made == gold for hits, made, gold in json.loads(found.pop("tool_counts")).values())
    assert found.pop("answer_score") == (None if RECORDS[case_id].answer is None else 1)
    assert found == dict.fromkeys(F1, 1.0)


def test_doing_nothing_scores_nothing() -> None:
    for dataset in (END, STEPS):
        for case_id in dataset.case_ids():
            problem = dataset.problem(case_id)
            assert not problem.world.resolved(problem.world.start())
            found = dict(problem.measure(Trajectory((), ())))
            assert not any(hits for hits, *_ in json.loads(found.pop("tool_counts", "{}")).values())
            asked = dataset is STEPS or RECORDS[case_id].answer is not None
            assert found.pop("answer_score", None) == (0 if dataset is END and asked else None)
            assert set(found.values()) == {0.0}


def test_a_step_is_resolved_by_its_call_alone_behind_those_before() -> None:
    ids = STEPS.case_ids()
    assert len(ids) == len(set(ids)) == sum(len(record.calls) for record in RECORDS.values())
    for case_id in ids:
        case = STEPS.problem(case_id).case
        assert case.decisions == 1
        assert case_id.endswith(f"-{len(case.done)}")
        walk, trajectory = played(case_id, STEPS)
        assert walk.resolved
        accuracies = ("instruction_accuracy", "tool_accuracy", "argument_accuracy")
        assert STEPS.problem(case_id).measure(trajectory) == dict.fromkeys((*F1, *accuracies), 1.0)


@pytest.mark.parametrize("seed", [0, 1, 77])
def test_every_seed_keeps_the_rules(seed: int) -> None:
    assert not list(broken(GtaGenerated(seed=seed)))


def _told(record: Record) -> tuple[object, ...]:
    """All that stands in a record."""
    return record.query, record.answer, record.wanted, [(call.written, call.outcome) for call in record.calls]


def test_one_seed_is_one_set() -> None:
    records.cache_clear()
    again = records(0)
    assert list(again) == CASES
    assert [_told(record) for record in again.values()] == [_told(record) for record in RECORDS.values()]
    other = records(1)
    assert not any(_told(other[name]) == _told(record) for name, record in again.items())
    assert END.version != GtaGenerated(seed=1).version != STEPS.version


def test_the_set_has_the_shape_of_gta() -> None:
    found = {one.name: one for one in statistics(END)}
    assert found["queries"].ours == 200 == len(TEMPLATES) * OF_EACH
    assert sum(one.gta for name, one in found.items() if name.endswith(" steps")) == GTA_QUERIES
    assert sum(int(name.split()[2]) * one.gta for name, one in found.items() if name.endswith(" steps")) == 728
    for kind in (" steps", " tools", "answer"):
        assert sum(one.ours for name, one in found.items() if name.endswith(kind)) == 200
    assert sum(one.ours for name, one in found.items() if name.split()[-1].strip("POLC+") == "") == 200
    for one in found.values():
        if one.shares and one.name not in ("tool calls", "images"):
            assert abs(one.shares[0] - one.shares[1]) < 0.1, one.name
    assert {len(record.calls) for record in RECORDS.values()} == set(range(2, 9))
    assert {call.written.tool for record in RECORDS.values() for call in record.calls} == set(TOOLS)


def test_templates_are_the_clusters_and_each_is_worded_in_several_ways() -> None:
    clusters = {END.cluster(name) for name in CASES}
    assert len(clusters) == len(TEMPLATES) >= 25
    assert {END.cluster(name) for name in GtaGenerated(limit=40).case_ids()} == clusters
    by_template: dict[str, list[Record]] = {}
    for record in RECORDS.values():
        by_template.setdefault(record.template, []).append(record)
    for found in by_template.values():
        assert len({(len(one.calls), tools_used(one), categories(one)) for one in found}) == 1
    assert not any(named_tools(record) for record in RECORDS.values())
    assert {name: tool.category for name, tool in TOOLS.items()} == {name: category_of(name) for name in TOOLS}


def test_every_image_of_a_query_is_named_in_it_and_no_two_queries_share_one() -> None:
    names = [name for record in RECORDS.values() for name, _ in record.world.images]
    assert len(names) == len(set(names))
    assert all(name in record.query for record in RECORDS.values() for name, _ in record.world.images)


@each("case_id", CASES)
def test_each_outcome_that_resolves_a_case_is_needed(case_id: str) -> None:
    record = RECORDS[case_id]
    assert record.calls[-1].place in record.resolution
    for wanted in record.world.wanted:
        state = record.calls[-1].state
        others: frozenset[Hashable] = state.obtained - {wanted}
        assert not record.world.resolved(SceneState(state.made, others, state.scenes))
    before = [call for call in record.calls if call.place not in record.resolution]
    assert not before or not record.world.resolved(before[-1].state) or before[-1].place > record.resolution[0]


@each("case_id", CASES)
def test_calls_may_come_in_any_order_that_their_references_allow(case_id: str) -> None:
    record, rng = RECORDS[case_id], random.Random(case_id)
    needs = {call.place: {step for step, _ in references.found_in(call.written)} for call in record.calls}
    outputs: dict[str, Mapping[str, Json]] = {}
    walk, waiting = Walk(record.world), list(record.calls)
    while waiting:
        call = rng.choice([one for one in waiting if needs[one.place] <= outputs.keys()])
        waiting.remove(call)
        outputs[call.place] = walk.make(references.resolve(call.written, outputs)).content
    assert walk.resolved


def test_calls_at_random_resolve_next_to_nothing() -> None:
    resolved = 0
    for case_id in CASES:
        record, rng = RECORDS[case_id], random.Random(case_id)
        walk = Walk(record.world)
        words = [name for name, _ in record.world.images] + record.query.split()
        for _ in range(64):
            tool = TOOLS[rng.choice(list(TOOLS))]
            walk.call(tool.name, **{one.name: rng.choice(words) for one in tool.parameters if one.required})
        resolved += walk.resolved
    assert resolved <= 0.05 * len(CASES)


@pytest.mark.parametrize("mode", ["end_to_end", "step_by_step"])
def test_whoever_knows_the_references_resolves_all_through_a_planner(mode: str) -> None:
    setting = setting_of({"mode": mode, "limit": None}, {"max_calls": 10}, dataset="gta_generated", planner="react")
    built = build(setting, BudgetConfig())
    ids = built.dataset.case_ids()
    some = ids if mode == "end_to_end" else ids[::20]
    rows = []
    for chunk in [some] if mode == "end_to_end" else [[case_id] for case_id in some]:  # steps share a query
        one = replace(built, engine=oracle_of(built.dataset, chunk))
        made = list(cells(setting, built.dataset.version, chunk, 1))
        rows += asyncio.run(run_chunk(one, setting, made, Stamp("test", None))).take()["episodes"]
    assert [row["case_id"] for row in rows if row["success"] is not True or row["error_message"]] == []
    assert len(rows) == len(some)
    assert {row["execution_f1"] for row in rows} == {row["argument_f1"] for row in rows} == {1.0}
