"""pass^k and pass@k against brute force over all subsets of trials, a planted rate, and what the report shows."""

from __future__ import annotations

import io
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from analysis.page.render import FORMATS
from analysis.page.table import Table
from analysis.report import print_report
from analysis.stats.intervals import share
from analysis.tables.rates import by_case
from analysis.tables.success import all_of, any_of, rates
from grid import store
from tests.support import searched


@pytest.mark.parametrize("trials", range(1, 8))
def test_both_are_what_all_subsets_of_trials_have_on_average(trials: int) -> None:
    for won, k in itertools.product(range(trials + 1), range(1, trials + 1)):
        drawn = list(itertools.combinations([True] * won + [False] * (trials - won), k))
        assert all_of(won, trials, k) == pytest.approx(sum(map(all, drawn)) / len(drawn))
        assert any_of(won, trials, k) == pytest.approx(sum(map(any, drawn)) / len(drawn))


@pytest.mark.long
def test_a_planted_rate_is_recovered_and_covered() -> None:
    """Every trial succeeds with the same probability p: pass^k is p^k, pass@k is 1 − (1 − p)^k."""
    p, cases, trials, studies = 0.6, 150, 4, 150
    wanted = {f"all_{k}": p**k for k in range(1, 5)} | {f"any_{k}": 1 - (1 - p) ** k for k in range(2, 5)}
    rng, found = np.random.default_rng(0), []
    for _ in range(studies):
        known = pd.DataFrame({"robustness": "none", "planner": "react", "tried": trials,
                              "won": rng.binomial(trials, p, cases)})  # fmt: skip
        found.append(rates(known.assign(cluster=known.index, case_id=known.index, cells=trials), trials).iloc[0])
    table = pd.DataFrame(found)
    for name, rate in wanted.items():
        assert table[name].mean() == pytest.approx(rate, abs=0.015), name
        covered = ((table[f"{name}_low"] <= rate) & (rate <= table[f"{name}_high"])).mean()
        assert 0.90 <= covered <= 0.99, name


def test_events_of_few_cases_tell_no_more_than_so_many_single_trials() -> None:
    """Three of 40 cases won half of their trials: pass^2 and pass@2 are no surer than shares of 40 single trials."""
    won = pd.Series([2, 2, 2, *[0] * 37])
    known = pd.DataFrame({"robustness": "none", "planner": "react", "tried": 4, "won": won, "cluster": won.index,
                          "case_id": won.index, "cells": 4})  # fmt: skip
    (row,) = rates(known, 4).to_dict("records")
    for name, of, rare in (("all_1", all_of, False), ("all_2", all_of, True), ("any_2", any_of, True)):
        cases = pd.Series([of(one, 4, int(name[-1])) for one in won], index=pd.Index(won.index, name="cluster"))
        bounds, plain = ((found.low, found.high) for found in (share(cases, rare=True), share(cases)))
        assert bounds != pytest.approx(plain), "the rule is met"
        assert (row[f"{name}_low"], row[f"{name}_high"]) == pytest.approx(bounds if rare else plain), name


def written(root: Path, wins: Mapping[str, Sequence[Sequence[bool | None]]]) -> Table | None:
    """The table of a sweep: by planner each case's trials; None: nobody can tell whether it succeeded."""
    cells: list[dict[str, Any]] = [
        searched.episode(planner, case, won, trial)
        for planner, cases in wins.items()
        for case, trials in enumerate(cases)
        for trial, won in enumerate(trials)
    ]
    store.write(root, {"episodes": cells})
    found = [table for table in print_report(root, Console(file=io.StringIO())) if table.name.startswith("pass^k")]
    return found[0] if found else None


@pytest.mark.long
def test_one_trial_has_no_table(tmp_path: Path) -> None:
    assert written(tmp_path, {"react": [[True], [False]]}) is None


@pytest.mark.long
def test_a_case_with_fewer_known_trials_is_left_out_and_counted(tmp_path: Path) -> None:
    wins: list[list[bool | None]] = [[True, True, False], [True, None, True], [None, None, None], [False, False, False]]
    table = written(tmp_path, {"react": wins, "egb": [[True] * 3] * 4})
    assert table is not None
    assert list(table.figures) == ["cases", "clusters", "pass^1", "pass^2", "pass^3", "pass@2", "pass@3"]
    row = table.values.set_index("planner").loc["react"]
    assert row["all_1"] == pytest.approx((2 / 3 + 1 + 0) / 3)
    assert row["all_2"] == pytest.approx((1 / 3 + 1 + 0) / 3)
    assert row["any_2"] == pytest.approx((1 + 1 + 0) / 3)
    assert (row["all_3"], row["any_3"], row["all_3_cases"]) == (0.0, 0.5, 2)
    (note,) = table.notes
    assert note.endswith("1 at k = 1, 1 at k = 2, 2 at k = 3")
    asked = duckdb.connect().execute(table.query).df().set_index(["planner", "case_id"])
    assert asked["tried"]["react"].to_dict() == {"case-0": 3, "case-1": 2, "case-2": 0, "case-3": 3}
    assert asked["success"]["react"].mean() == pytest.approx(row["all_1"])


@pytest.mark.long
def test_a_terminal_shows_four_ks_and_files_all(tmp_path: Path) -> None:
    table = written(tmp_path, {"react": [[True] * 3 + [False] * 3, [True] * 6]})
    assert table is not None
    out = io.StringIO()
    print_report(tmp_path, Console(file=out, width=120))
    assert "pass^4" in out.getvalue()
    assert "pass@4" in out.getvalue()
    assert "pass^5" not in out.getvalue()
    assert "pass@5" not in out.getvalue()
    assert "pass@6" in table.figures
    assert FORMATS["md"](table).count("pass@6") == 1


def test_trials_are_counted_by_setting_and_case() -> None:
    cells = pd.DataFrame([searched.episode("react", case, case == trial, trial) for case in (0, 1) for trial in (0, 1)])
    found = by_case(cells.assign(success=cells["success"].astype(float))).rows
    assert found[["tried", "won"]].to_numpy().tolist() == [[2, 1], [2, 1]]
