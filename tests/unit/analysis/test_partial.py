"""Settings whose figures have a gap: a budget that ended most cells, and tool calls of which nearly all failed."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from analysis.load import episodes, partial
from analysis.tables import rates
from grid import store
from tests.support import searched

SETTING = {"model": "m", "dataset": "d", "robustness": "none", "planner": "react"}


def cells(count: int, **own: object) -> pd.DataFrame:
    return pd.DataFrame([SETTING | {"budget_reached": None, "tool_calls": 10, "failed_calls": 0} | own] * count)


@pytest.mark.parametrize(("failed", "warned"), [(0, False), (9, False), (10, True)])
def test_nine_tenths_of_failed_calls_are_no_warning_and_more_are(failed: int, warned: bool) -> None:
    lines = partial.failing(pd.concat([cells(3, failed_calls=failed), cells(2, planner="sh", failed_calls=1)]))
    said = "warning: m on d: nearly all tool calls of react (30 of 30) failed; the steps in `agent-grid view` say why"
    assert lines == [said] * warned


def test_planners_whose_calls_failed_share_a_line() -> None:
    both = pd.concat([cells(300, failed_calls=10), cells(1, planner="sh", failed_calls=10)])
    (line,) = partial.failing(both)
    assert "calls of react (3,000 of 3,000), sh (10 of 10) failed;" in line


def test_failed_calls_are_no_warning_without_calls_and_where_a_disturbance_makes_them_fail() -> None:
    assert partial.failing(cells(3, tool_calls=0)) == []
    assert partial.failing(cells(3, tool_calls=None, failed_calls=None)) == []
    assert partial.failing(cells(3, failed_calls=10, robustness="broken_tool")) == []


@pytest.mark.parametrize(("stopped", "warned"), [(2, False), (3, True)])
def test_half_of_the_cells_ended_by_a_budget_is_no_warning_and_more_is(stopped: int, warned: bool) -> None:
    lines = partial.stopped(pd.concat([cells(4 - stopped), cells(stopped, budget_reached="tokens")]))
    said = (
        f"warning: m, react on d: budget.tokens was used up in {stopped} of 4 cells; they are scored on the best "
        "result that they had by then"
    )
    assert lines == [said] * warned


@pytest.mark.parametrize("waiting", [["second-one"], ["second-one", "third-one"], ["second-one", "second-two"]])
def test_settings_without_cells_are_told_apart_from_all_with_their_labels(tmp_path: Path, waiting: list[str]) -> None:
    """As of a planner with several retrievers, of which the first has run: the record has none of these."""
    cells = [searched.episode("react", case, True, setting_id="first") for case in range(3)]
    searched.write(tmp_path, cells)
    labels = {"model": "tiny", "dataset": "slate", "robustness": "none", "planner": "react"}
    asked: dict[str, store.PlannedSetting] = {
        name: {**labels, "cells": 5}  # type: ignore[typeddict-item]
        for name in ["first", *waiting]
    }
    store.record_run(tmp_path, None, asked)
    found = episodes(tmp_path)
    plan = partial.planned(tmp_path, found)
    assert plan["planner"].tolist() == ["react", *(f"react #{name[:6]}" for name in waiting)]
    assert partial.with_planned(rates.results(found), plan)["planned"].tolist() == [5]
    (line,) = partial.lines(plan)
    assert "react on slate (none): 3 of 5 cells; react #second on slate (none): 0 of 5 cells" in line
