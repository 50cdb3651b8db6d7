"""Cells: what their ids and seeds depend on, and what not."""

from __future__ import annotations

import copy
import inspect
import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

import grid.settings.setting
from grid.metrics.scores import SCORING
from grid.settings.setting import Cell, Setting, cells

CONFIG: dict[str, Any] = {
    "model": {"_target_": "grid.engines.lexical.engine.Lexical", "temperature": 0.7},
    "planner": {"_target_": "grid.planners.egb.EGBSampling", "samples": 10, "temperature": 1.0},
    "dataset": {"_target_": "grid.datasets.slate.dataset.Slate", "path": None, "limit": 50, "cases": 300},
    "robustness": {"extraneous": {"_target_": "grid.robustness.extraneous.Extraneous", "k": 10}},
    "retriever": {"_target_": "grid.retrievers.scored.BM25", "top_k": 50},
    "pool": {"_target_": "grid.pools.whole.Whole"},
}
LABELS = {
    "model": "lexical",
    "planner": "egb_sampling",
    "dataset": "slate",
    "robustness": "e",
    "retriever": "bm25",
    "pool": "all",
}
CASES = ["case-1", "case-2"]


def changed(group: str, key: str, value: object) -> dict[str, Any]:
    config = copy.deepcopy(CONFIG)
    config[group][key] = value
    return config


def enumerated(
    config: dict[str, Any] = CONFIG,
    *,
    labels: dict[str, str] = LABELS,
    seed: int = 0,
    version: str = "v1",
    cases: Sequence[str] = CASES,
    trials: int = 2,
) -> list[Cell]:
    return list(cells(Setting(config, labels, seed), version, cases, trials))


def reordered() -> dict[str, Any]:
    return {group: dict(reversed(part.items())) for group, part in reversed(CONFIG.items())}


@pytest.mark.parametrize(
    "same",
    [
        lambda: enumerated(labels={group: f"[{label}]" for group, label in LABELS.items()}),
        lambda: enumerated(changed("dataset", "path", "/data/slate")),
        lambda: enumerated(changed("dataset", "limit", None)),
        lambda: enumerated(reordered()),
    ],
    ids=["labels", "dataset.path", "dataset.limit", "key order"],
)
def test_what_cannot_change_a_result_is_not_in_the_id(same: Callable[[], list[Cell]]) -> None:
    assert same() == enumerated()


@pytest.mark.parametrize(
    "other",
    [
        lambda: enumerated(changed("planner", "samples", 11)),
        lambda: enumerated(changed("model", "temperature", 0.8)),
        lambda: enumerated(changed("dataset", "cases", 301)),
        lambda: enumerated(changed("robustness", "extraneous", {"k": 8})),
        lambda: enumerated(changed("retriever", "top_k", 51)),
        lambda: enumerated(seed=1),
        lambda: enumerated(version="v2"),
        lambda: enumerated(cases=["case-3", "case-4"]),
    ],
    ids=["planner", "model", "dataset", "robustness", "retriever", "seed", "dataset version", "case"],
)
def test_what_can_change_a_result_is_in_the_id(other: Callable[[], list[Cell]]) -> None:
    first, second = enumerated(), other()
    assert len(first) == len(second) == 4
    assert not {cell.cell_id for cell in first} & {cell.cell_id for cell in second}
    assert not {cell.seed for cell in first} & {cell.seed for cell in second}


def test_trials_and_cases_have_ids_of_their_own() -> None:
    found = enumerated()
    assert [(cell.trial, cell.case_id) for cell in found] == [
        (0, "case-1"), (0, "case-2"), (1, "case-1"), (1, "case-2"),
    ]  # fmt: skip
    assert len({cell.cell_id for cell in found}) == 4


def test_more_cases_or_trials_leave_the_ids_of_the_others() -> None:
    assert set(enumerated()) < set(enumerated(cases=["case-0", *CASES], trials=3))


def test_a_new_scoring_makes_new_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    before = {cell.cell_id for cell in enumerated()}
    monkeypatch.setattr(grid.settings.setting, "SCORING", "another")
    assert not before & {cell.cell_id for cell in enumerated()}


def test_disturbances_are_alike_for_all_planners_and_models() -> None:
    seeds = [cell.disturbance_seed for cell in enumerated()]
    for config in (changed("planner", "samples", 2), changed("model", "temperature", 0.1)):
        assert [cell.disturbance_seed for cell in enumerated(config)] == seeds
    assert len(set(seeds)) == 4, "one for each case and trial"
    for others in (enumerated(seed=1), enumerated(version="v2"), enumerated(changed("dataset", "cases", 9))):
        assert not set(seeds) & {cell.disturbance_seed for cell in others}


def test_no_two_cells_of_a_large_enumeration_are_alike() -> None:
    case_ids = [f"case-{index}" for index in range(500)]
    found = [
        cell
        for samples in (1, 2)
        for seed in (0, 1)
        for cell in enumerated(changed("planner", "samples", samples), seed=seed, cases=case_ids, trials=20)
    ]
    assert len(found) == 2 * 2 * 500 * 20
    for values in ({cell.cell_id for cell in found}, {cell.seed for cell in found}):
        assert len(values) == len(found)
    assert len({cell.disturbance_seed for cell in found}) == len(found) / 2, "the planners share them"
    assert all(0 <= number < 2**63 for cell in found for number in (cell.seed, cell.disturbance_seed))


@pytest.mark.parametrize("case", ["case-1", 'a "quoted" \\ one', "é\n☃", ""])
def test_a_key_is_the_digest_of_setting_case_and_trial(case: str) -> None:
    whole = {"setting": Setting(CONFIG, LABELS, 0).id, "dataset_version": "v1", "scoring": SCORING}
    (cell,) = enumerated(cases=[case], trials=1)
    assert cell.cell_key == grid.settings.setting._digest([grid.settings.setting._digest(whole), case, 0])


def test_other_code_makes_other_ids_with_the_same_keys_and_seeds() -> None:
    first, second = (
        list(cells(Setting(CONFIG, LABELS, 0, code={"planner": digest, "metrics": "m"}), "v1", CASES, 2))
        for digest in ("a", "b")
    )
    assert not {cell.cell_id for cell in first} & {cell.cell_id for cell in second}
    for name in ("cell_key", "seed", "disturbance_seed"):
        assert [getattr(cell, name) for cell in first] == [getattr(cell, name) for cell in second]


def test_cells_are_made_lazily() -> None:
    stream = cells(Setting(CONFIG, LABELS, 0), "v1", CASES, 10**12)
    assert inspect.isgenerator(stream)
    assert next(stream) == enumerated()[0]


def test_the_budget_and_the_order_of_robustness_settings_are_in_the_id() -> None:
    plain = Setting(CONFIG, LABELS, 0, {"llm_calls": 5000})
    assert plain.id != Setting(CONFIG, LABELS, 0, {"llm_calls": 2}).id
    first, second = {"a": {"k": 1}, "b": {"k": 2}}, {"b": {"k": 2}, "a": {"k": 1}}
    ids = {Setting(CONFIG | {"robustness": order}, LABELS, 0).id for order in (first, second)}
    assert len(ids) == 2
    assert json.loads(plain.text)["budget"] == {"llm_calls": 5000}, "rows say what it was"


def test_with_an_outline_and_without_the_disturbance_is_the_same() -> None:
    given, hidden = (enumerated(changed("dataset", "outline", outline)) for outline in ("given", "hidden"))
    assert [cell.disturbance_seed for cell in given] == [cell.disturbance_seed for cell in hidden]
    assert not {cell.cell_id for cell in given} & {cell.cell_id for cell in hidden}


@pytest.mark.parametrize(("key", "value"), [("answering", "after"), ("plan_f1", "calls")])
def test_what_is_asked_or_counted_behind_the_calls_changes_no_seed(key: str, value: str) -> None:
    after, before = enumerated(changed("dataset", key, value)), enumerated()
    assert [(cell.seed, cell.disturbance_seed) for cell in after] == [(c.seed, c.disturbance_seed) for c in before]


def test_what_is_tried_side_by_side_is_not_in_the_id() -> None:
    assert enumerated(changed("planner", "parallel", False)) == enumerated()


@pytest.mark.parametrize(
    ("key", "default", "other"),
    [
        ("planner.fit_tokens", False, True),
        ("model.least_temperature", 0.0, 1.0),
        ("dataset.demonstrations_hold_out", "template", "question"),
        ("dataset.answering", "none", "after"),
        ("dataset.without", [], ["Finance"]),
        ("retriever.found_by", "all", "description"),
        ("dataset.plan_f1", "links", "calls"),
        ("planner.solved", "none", "other_half"),
        ("planner.state_visits", "below", "own"),
        ("planner.result", "best", "greedy"),
        ("planner.post_pruned", "kept", "left_out"),
        ("planner.stop_by", "trajectory", "root"),
        ("planner.empty_rollouts", "counted", "free"),
    ],
)
def test_a_key_that_came_later_is_in_no_id_at_its_default(key: str, default: object, other: object) -> None:
    group, _, name = key.partition(".")
    assert [cell.cell_id for cell in enumerated(changed(group, name, default))] == [c.cell_id for c in enumerated()]
    assert not {cell.cell_id for cell in enumerated(changed(group, name, other))} & {c.cell_id for c in enumerated()}
