"""Calibration in a report: which decisions count, tables equal to their queries, figures, hostile labels."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest
from rich.console import Console

from analysis.page.html import page
from analysis.page.render import FORMATS
from analysis.report import print_report
from analysis.tables import calibrated, calibration
from grid import store
from tests.support import planted, simulated
from tests.support.tables import without_sorting

EVIL = "<script>x</script>$a$\x1b[31m"
MADE = {"egb_logits": {"threshold": 0.01}, "self_consistency": {"samples": 10}}


def option(*probabilities: float | None, tools: Sequence[str] = "abcdefg") -> list[dict[str, Any]]:
    return [{"tool": tool, "probability": p} for tool, p in zip(tools, probabilities, strict=False)]


def step(options: list[dict[str, Any]] | None, reference: str | None = "a", **more: Any) -> dict[str, Any]:
    required = None if reference is None else reference != "no_tool"
    return {"branch": 0, "entropy": 0.3, "options": options, "reference_tool": reference, "tool_required": required,
            "chosen_tool": "a", "tool_matches": None, **more}  # fmt: skip


def written(root: Path, *steps: dict[str, Any], planner: str = "egb_logits", **labels: str) -> Path:
    """A cell for each step, a cluster for each two cells."""
    place = {"model": "lexical", "dataset": "slate", "robustness": "none", **labels}
    episodes, rows = [], []
    for number, one in enumerate(steps):
        cell = "/".join([*place.values(), planner, str(number)])
        episodes.append({
            **place, "planner": planner, "pool": "all", "setting_id": planner, "cell_id": cell, "cell_key": cell,
            "case_id": f"case-{number}", "cluster": f"template-{number // 2}", "trial": 0, "status": "ok",
            "success": True, "attempt_id": "try", "engine": "lexical", "dataset_version": "v1", "code": "code",
            "resolved_checks": 0, "created_at": simulated.NOON,
            "config": json.dumps({"planner": MADE.get(planner, {}), "dataset": {}}),
        })  # fmt: skip
        rows.append(one | {"cell_id": cell, "attempt_id": "try", "step": 0})
    store.write(root, {"episodes": episodes, "steps": rows})
    return root


def test_what_counts_and_what_is_left_out(tmp_path: Path) -> None:
    root = written(
        tmp_path,
        step(option(0.7, 0.3)),
        step(option(0.6, 0.4), reference="b"),
        step(option(0.9, 0.1, tools=["no_tool", "a"]), reference="no_tool", chosen_tool="no_tool"),
        step(option(0.8, 0.2), chosen_tool=None),  # right, though its arguments could not be read
        step(option(0.7, 0.3), reference=None),
        step([], entropy=None, chosen_tool=None),
        step(option(None, None)),
        step(None),
        step(option(0.7, 0.3), branch=1),
    )
    (found,) = calibrated.read(root)
    (row,) = calibrated.table(found.rows).to_dict("records")
    assert (row["decisions"], row["silent"], row["unknown"]) == (4, 3, 1)
    assert (row["accuracy"], row["confidence"]) == (0.75, pytest.approx(0.75))
    assert row["distribution"] == calibrated.EXACT
    (own, _) = calibration.tables(root)
    assert dict(zip(own.figures, own.rows[0][3:], strict=True))["left out"] == "3 + 1"


def test_the_most_probable_option_counts_wherever_it_stands(tmp_path: Path) -> None:
    """Of equal ones the first; what has no name or no number is none."""
    last, first = step(option(0.2, 0.8), reference="b"), step(option(0.5, 0.5))
    unread = step([*option(float("nan"), 0.3), {"tool": None, "probability": 0.9}], reference="b")
    (found,) = calibrated.read(written(tmp_path, last, first, unread))
    assert list(found.rows["confidence"]) == [0.8, 0.5, 0.3]
    assert list(found.rows["right"]) == [1.0, 1.0, 1.0]


def test_votes_are_told_from_exact_choices(tmp_path: Path) -> None:
    for planner in MADE:
        written(tmp_path, *[step(option(0.9, 0.1)), step(option(0.6, 0.4), reference="b")] * 6, planner=planner)
    written(tmp_path, step([], entropy=None), planner="react")
    (own,) = calibrated.read(tmp_path)
    assert own.measured.set_index("planner")["distribution"].to_dict() == {
        "egb_logits": "exact choice",
        "self_consistency": "votes of 10",
    }
    reliability, handed = calibration.drawings(tmp_path)
    assert "self_consistency (votes of 10)" in handed.svg
    assert "exact choice" in reliability.svg


def test_the_query_gives_the_same_decisions(tmp_path: Path) -> None:
    root = written(tmp_path, step(option(0.7, 0.3)), step(option(0.6, 0.4), reference="b"), step(option(0.8)),
                   step(option(0.7), reference=None), step([], entropy=None), dataset="it's")  # fmt: skip
    (own, _) = calibration.tables(root)
    (found,) = calibrated.read(root)
    with duckdb.connect() as connection:
        asked = connection.execute(own.query).df()
    assert list(asked) == list(found.rows)
    assert list(asked["confidence"]) == pytest.approx(list(found.rows["confidence"]), nan_ok=True)
    assert list(asked["right"].astype(float)) == pytest.approx(list(found.rows["right"]), nan_ok=True)
    assert list(asked["cluster"]) == list(found.rows["cluster"].astype(str))


@pytest.mark.parametrize("steps", [[step([], entropy=None)], [step(None)], [step(option(0.9), reference=None)]])
def test_without_a_decision_to_judge_there_is_nothing(steps: list[dict[str, Any]], tmp_path: Path) -> None:
    root = written(tmp_path, *steps)
    assert (calibration.tables(root), calibration.drawings(root)) == ([], [])


@pytest.mark.long
def test_figures_of_many_settings_say_what_they_leave_out(tmp_path: Path) -> None:
    for number in range(13):
        written(tmp_path, step(option(0.9, 0.1)), step(option(0.6, 0.4), reference="b"), planner=f"egb_{number:02}")
    reliability, handed = calibration.drawings(tmp_path)
    assert "the first 12 of 13 settings" in reliability.caption
    assert "the first 7 of 13 planners" in handed.caption
    assert "egb_11" in reliability.svg
    assert "egb_12" not in reliability.svg
    assert "egb_06 (" in handed.svg
    assert "egb_07 (" not in handed.svg
    (table, *_) = calibration.tables(tmp_path)
    assert len(table.rows) == 13


@pytest.mark.long
def test_hostile_labels_are_texts_and_a_single_decision_is_drawn(tmp_path: Path) -> None:
    root = written(tmp_path, step(option(0.9, tools=[EVIL]), reference=EVIL), planner=EVIL, dataset=EVIL)
    found, figures = calibration.tables(root), calibration.drawings(root)
    whole = page(root, found, figures)
    assert "<script" not in without_sorting(whole)
    assert "\x1b" not in whole
    for table in found:
        assert all(rendered(table) for rendered in FORMATS.values())
    assert figures == calibration.drawings(root), "the same rows, the same bytes"


@pytest.mark.long
def test_a_grid_of_the_simulated_policy_has_its_tables(tmp_path: Path) -> None:
    for planner in ("egb_logits", "egb_sampling"):
        store.write(tmp_path, planted.grid(planner, cases=6, planner_values={"trajectories": 1}, tool_skill=0.7))
    out = io.StringIO()
    printed = print_report(tmp_path, Console(file=out, width=100))
    named = [table for table in printed if table.section == calibration.SECTION]
    assert [table.name.split()[0] for table in named] == ["calibration", "against", "handing"]
    assert all("simulated policy" in table.caption for table in named)
    assert "calibration of the choice of tools" in out.getvalue()
    values = named[0].values
    assert list(values["distribution"]) == ["exact choice", "votes of 10"]
    assert values["decisions"].nunique() == 1, "both pass the same substeps"
    assert isinstance(values, pd.DataFrame)
    assert (values["unknown"] == 0).all()
