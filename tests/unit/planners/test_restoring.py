"""Restoration analysis (tooltree A.2): which decisions are set right, and what stays as it was."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import duckdb
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.tables import restoration
from grid import store
from grid.cells.rows import Outcome
from grid.cells.run import Stamp, run_cell
from grid.core.problem import REFERENCES
from grid.datasets.slate.dataset import Slate
from grid.planners.restoring import Bounds, Restored, Restoring
from grid.settings import make
from grid.settings.build import build, code_of
from grid.settings.check import invalid_reason
from grid.settings.config import BudgetConfig
from grid.settings.roles import with_roles
from grid.settings.setting import Keep, Setting, cells
from grid.sweeps.jobs import with_restored
from grid.text.answers import read_score
from tests.support.configs import yaml
from tests.support.gated import CONFIG, ROOM

ALL: tuple[Restored, ...] = ("none", "false_positives", "false_negatives", "both")
THRESHOLDS = {"pre": 0.3, "post": 0.4}
unit = st.floats(0, 1)
inside = st.floats(0, 1, exclude_min=True, exclude_max=True)


def setting_of(restored: str = "none", dataset: str = "slate", **judge: Any) -> Setting:
    """The gated search, its judge often wrong."""
    config: dict[str, Any] = {
        "model": yaml("model", "simulated") | {"judge_auc": 0.7, "malformed": 0.1},
        "planner": CONFIG,
        "dataset": yaml("dataset", dataset) | {"limit": 6},
        "robustness": {},
        "retriever": yaml("retriever", "bm25"),
        "pool": yaml("pool", "all"),
        "judge": {"restored": restored, "pre_threshold": 0.3, "post_threshold": 0.4, **judge},
    }
    names = {
        "model": "simulated",
        "planner": "gated",
        "dataset": dataset,
        "robustness": "none",
        "retriever": "bm25",
        "pool": "all",
    }
    label = "simulated" if restored == "none" else f"simulated[restored={restored}]"
    with patch.dict(make.ROOMS, ROOM):
        setting = Setting(with_roles(config), names | {"judge": label}, 0)
        return Setting(setting.config, setting.labels, 0, code=code_of(setting.config))


@lru_cache(maxsize=8)
def ran(restored: Restored, form: str = "text") -> Sequence[Outcome]:
    """All cells of a setting."""
    setting = setting_of(restored, form=form, max_retries=0)
    with patch.dict(make.ROOMS, ROOM):
        built = build(setting, BudgetConfig())
        own = list(cells(setting, built.dataset.version, built.dataset.case_ids(), 2))
        stamp = Stamp("restoring", None)
        return [asyncio.run(run_cell(built, setting, cell, stamp, "a", keep=Keep.of("all"))) for cell in own]


def decisions(restored: Restored, form: str = "text") -> pd.DataFrame:
    """All of the judge's: kind, score and whether what was judged is right."""
    nodes = [node for outcome in ran(restored, form) for node in outcome.rows["nodes"]]
    found = [
        {"score": node[f"r_{kind}"], "right": node[f"{kind}_right"], "passed": node[f"r_{kind}"] >= threshold}
        for kind, threshold in THRESHOLDS.items()
        for node in nodes
        if node[f"r_{kind}"] is not None
    ]
    return pd.DataFrame(found)


@given(unit, st.booleans(), inside, st.sampled_from(ALL))
def test_a_wrong_decision_of_the_kind_becomes_a_right_one_and_no_other_score_changes(
    score: float, right: bool, threshold: float, restored: Restored
) -> None:
    bounds = Bounds(threshold, threshold)
    seen = Restoring(restored).restore(score, right, bounds)
    assert 0 <= seen <= 1
    kind = "false_negatives" if right else "false_positives"
    wrong = (score >= threshold) != right
    if wrong and restored in (kind, "both"):
        assert (seen >= threshold) == right
    else:
        assert seen == score


def test_the_surer_the_judge_was_the_farther_its_score_goes() -> None:
    accept = [Restoring("both").restore(score, True, Bounds(0.3, 0.4)) for score in (0.0, 0.1, 0.3)]
    reject = [Restoring("both").restore(score, False, Bounds(0.3, 0.4)) for score in (1.0, 0.65, 0.3)]
    assert accept == pytest.approx([1.0, 0.85, 0.55])
    assert reject == pytest.approx([0.0, 0.15, 0.3])
    assert reject[-1] < 0.3
    assert math.isclose(Restoring("both").restore(1.0, False, Bounds(1.0, 1.0)), 0.0)
    assert Restoring("both").restore(0.0, False, Bounds(0.0, 0.0)) == 0.0


def test_restoring_changes_the_id_and_no_seed() -> None:
    found = {restored: list(cells(setting_of(restored), "v", ["a", "b"], 2)) for restored in ALL}
    first = found["none"]
    for restored in ALL[1:]:
        assert [cell.seed for cell in found[restored]] == [cell.seed for cell in first]
        assert not {cell.cell_id for cell in found[restored]} & {cell.cell_id for cell in first}
    assert [cell.seed for cell in first] == [int(cell.cell_key, 16) >> 1 for cell in first]
    other = cells(setting_of("both", form="digits"), "v", ["a", "b"], 2)
    assert not {cell.seed for cell in other} & {cell.seed for cell in first}


@pytest.mark.long
@pytest.mark.parametrize("form", ["text", "digits"])
def test_each_kind_of_error_goes_where_it_is_fixed_and_stays_where_not(form: str) -> None:
    left = {}
    for restored in ALL:
        found = decisions(restored, form)
        assert found["right"].notna().all()
        right = found["right"].astype(bool)
        left[restored] = (found["passed"] & ~right).sum(), (~found["passed"] & right).sum()
    assert all(left["none"])
    assert left["both"] == (0, 0)
    assert left["false_positives"][0] == 0 < left["false_positives"][1]
    assert left["false_negatives"][1] == 0 < left["false_negatives"][0]


def asked(outcome: Outcome) -> Mapping[str, str]:
    """The judge's own answers by what they were for."""
    return {message.decision: message.answers[0] for message in outcome.messages if message.role == "judge"}


def test_the_judges_own_answers_are_kept_and_the_same() -> None:
    changed = 0
    for plain, restored in zip(ran("none"), ran("both"), strict=True):
        first, again = asked(plain), asked(restored)
        shared = first.keys() & again.keys()
        assert shared
        assert all(first[name] == again[name] for name in shared)
        seen = {node["r_pre"] for node in restored.rows["nodes"]} - {None}
        told = {read_score(text) for name, text in again.items() if "/pre/" in name and '"score"' in text}
        changed += bool(seen - told)
    assert changed


def test_the_first_request_is_the_same_whatever_is_restored() -> None:
    for outcomes in zip(*(ran(restored) for restored in ALL), strict=True):
        firsts = [outcome.messages[0] for outcome in outcomes]
        assert len({(one.decision, one.seed, one.answers) for one in firsts}) == 1


def written(root: Path, *settings: Restored) -> None:
    """A results folder of these settings."""
    outcomes = [outcome for restored in settings for outcome in ran(restored)]
    nodes = [node for outcome in outcomes for node in outcome.rows["nodes"]]
    store.write(root, {"episodes": [outcome.episode for outcome in outcomes], "nodes": nodes})


@pytest.mark.long
def test_table_6_from_the_tables(tmp_path: Path) -> None:
    written(tmp_path, *ALL)
    (table,) = restoration.tables(tmp_path)
    assert [row[5] for row in table.rows] == list(restoration.SHOWN.values())
    frame = restoration.table(tmp_path).rows
    found = {row["restored"]: row for row in frame.to_dict("records")}
    for restored in ALL:
        own = decisions(restored)
        wrong = float((own["passed"] != own["right"].astype(bool)).mean())
        assert found[restored]["decisions"] == len(own)
        assert found[restored]["error"] == pytest.approx(wrong)
        assert found[restored]["gain"] == pytest.approx(found[restored]["success"] - found["none"]["success"])
    assert found["both"]["error"] == 0
    assert found["both"]["gain"] > 0
    told = duckdb.connect().execute(table.query).df().groupby("restored")[["decisions", "false_positives"]].sum()
    assert told["decisions"].to_dict() == {name: row["decisions"] for name, row in found.items()}
    shares = told["false_positives"] / told["decisions"]
    assert shares.to_dict() == pytest.approx({name: row["false_positives"] for name, row in found.items()})
    assert "not the judge's own results" in restoration.notice(tmp_path)


def test_without_restored_settings_there_is_no_table(tmp_path: Path) -> None:
    written(tmp_path, "none")
    assert restoration.tables(tmp_path) == []
    assert restoration.notice(tmp_path) == ""


def test_a_dataset_without_references_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Slate, "provides", Slate.provides - {REFERENCES})
    plain = setting_of("both")
    model = yaml("model", "lexical")
    config = {**plain.config, "model": model, "judge": model | asdict(Restoring("both"))}
    with patch.dict(make.ROOMS, ROOM):
        reason = invalid_reason(Setting(config, plain.labels, 0))
    assert reason == "judge.restored=both needs the cases' references, which conf/dataset/slate.yaml does not have"


@pytest.mark.parametrize(
    ("label", "judge", "expected"),
    [
        ("lexical", {"restored": "none"}, "lexical"),
        ("lexical", {"restored": "both"}, "lexical[restored=both]"),
        ("lexical[form=digits]", {"restored": "both"}, "lexical[form=digits,restored=both]"),
        ("lexical[restored=both]", {"restored": "both"}, "lexical[restored=both]"),
    ],
)
def test_the_label_says_what_is_restored(label: str, judge: dict[str, str], expected: str) -> None:
    assert with_restored(label, judge) == expected
