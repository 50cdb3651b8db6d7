"""The tables recover what was planted in the rows, and print it."""

from __future__ import annotations

import datetime as dt
import io
import json
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from analysis import load, report
from analysis.load import SETTING, answers, partial, provenance, spending
from analysis.page.table import Table
from analysis.report import print_report
from analysis.stats import intervals
from analysis.tables.branches import ENTROPY_BINS, entropy_centres, entropy_errors
from analysis.tables.rates import (
    CHECKS,
    COSTS,
    RATES,
    paired_differences,
    reference_of,
    results,
)
from grid import store
from tests.support import tables as shown_tables

NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
RUN: store.RunRecord = {
    "started_at": "2026-01-01T12:00:00+00:00",
    "command": "agent-grid sweep -m",
    "git_commit": None,
    "versions": {"python": "3.11"},
    "seed": 0,
    "system": "Linux x86_64",
    "cpu": "a CPU",
    "cpus": 2,
    "gpus": {},
}


def row(planner: str, case: int, trial: int, value: float | None, robustness: str = "none") -> dict[str, Any]:
    """One episode whose rates are all `value`; a cell without a value failed."""
    return {
        "model": "lexical",
        "dataset": "slate",
        "robustness": robustness,
        "pool": "all",
        "planner": planner,
        "cell_id": f"{planner}/{robustness}/{case}/{trial}",
        "cell_key": f"{planner}/{robustness}/{case}/{trial}",
        "case_id": f"case-{case}",
        "cluster": f"case-{case}",
        "trial": trial,
        "status": "ok" if value is not None else "failed",
        **dict.fromkeys(RATES, np.nan if value is None else value),
        **{cost: 10.0 * index + trial for index, cost in enumerate(COSTS)},
        "unassigned": None,
        "solvable": None,
        "config": "{}",
    }


def entropies(values: list[float], wrong: list[bool]) -> pd.DataFrame:
    frame = pd.DataFrame({"entropy": values, "error": wrong})
    return frame.assign(model="lexical", dataset="slate", robustness="none", planner="egb")


def of_places(root: Path) -> dict[str, Table]:
    """A report's tables of each model and data set, by name; all its others take as long again."""
    found = load.episodes(root, [*provenance.COLUMNS, *spending.SPENT, *answers.COLUMNS])
    return {table.name: table for table in report._of_places(root, found, partial.planned(root, found))}


def test_results_by_hand() -> None:
    values = np.array([[1.0, 0.0, 0.5], [1.0, 1.0, 0.25]])  # (trials, cases)
    frame = pd.DataFrame([row("react", case, trial, values[trial, case]) for trial in range(2) for case in range(3)])
    (found,) = results(frame).to_dict("records")
    by_trial = values.mean(axis=1)
    for rate in RATES:
        assert found[f"{rate}_mean"] == pytest.approx(by_trial.mean())
        assert found[f"{rate}_std"] == pytest.approx(by_trial.std(ddof=1))
    assert (found["cases"], found["cells"], found["failed"]) == (3, 6, 0)
    for index, cost in enumerate(COSTS[:-1]):
        assert found[cost] == pytest.approx(10 * index + 0.5)


def test_results_keep_settings_apart_and_count_failures() -> None:
    rows = [row("react", case, 0, None if case == 0 else 1.0) for case in range(4)]
    rows += [row("egb", 0, 0, 0.25), row("react", 0, 0, 0.5, "extraneous")]
    found = results(pd.DataFrame(rows)).set_index(["planner", "robustness"])
    assert found["failed"].to_dict() == {("react", "none"): 1, ("egb", "none"): 0, ("react", "extraneous"): 0}
    assert found["success_mean"].to_dict() == {
        ("react", "none"): 1.0,
        ("egb", "none"): 0.25,
        ("react", "extraneous"): 0.5,
    }
    assert found["success_std"].isna().all(), "one trial has no deviation"


@pytest.mark.long
def test_paired_intervals_cover_a_planted_difference() -> None:
    planted, repetitions, cases, trials = 0.1, 200, 25, 2
    rng = np.random.default_rng(0)
    rows = []
    for repetition in range(repetitions):
        hard = rng.normal(0.5, 0.3, cases)  # shared by both planners: only the pairing takes it out
        for case in range(cases):
            for trial in range(trials):
                for planner, effect in (("react", 0.0), ("egb", planted)):
                    value = hard[case] + effect + rng.normal(0, 0.1)
                    rows.append(row(planner, case, trial, value, f"repetition-{repetition}"))
    found = paired_differences(pd.DataFrame(rows))
    assert len(found) == repetitions
    assert (found["cases"] == cases).all()
    assert found["tool_match_rate"].mean() == pytest.approx(planted, abs=0.01)
    covered = (found["tool_match_rate_low"] <= planted) & (planted <= found["tool_match_rate_high"])
    assert 0.90 <= covered.mean() <= 0.99
    # Unpaired, the cases' own spread of 0.3 would give intervals some four times as wide.
    assert (found["tool_match_rate_high"] - found["tool_match_rate_low"]).mean() < 0.12


@pytest.mark.parametrize("cases", [1, 5])
def test_where_nothing_varies_the_number_of_clusters_bounds_the_difference(cases: int) -> None:
    rows = [row(planner, case, 0, value) for planner, value in (("react", 0.0), ("egb", 1.0)) for case in range(cases)]
    (found,) = paired_differences(pd.DataFrame(rows)).to_dict("records")
    assert found["success"] == 1.0
    if cases == 1:
        assert np.isnan([found["success_low"], found["success_high"]]).all()
    else:  # Wilson's bound of 0 of 5 clusters that do otherwise, each by up to 2
        square = 2.7764**2  # Student's t with 4 degrees of freedom
        bounds = (1 - 2 * square / (5 + square), 1)
        assert (found["success_low"], found["success_high"]) == pytest.approx(bounds, abs=1e-4)


def test_a_difference_is_the_same_but_for_rounding() -> None:
    base = [0.1, 0.7, 1 / 3, 0.9]  # b + 0.1 - b is not quite 0.1 in floats
    rows = [row("react", case, 0, value) for case, value in enumerate(base)]
    rows += [row("egb", case, 0, value + 0.1) for case, value in enumerate(base)]
    (found,) = paired_differences(pd.DataFrame(rows)).to_dict("records")
    assert found["success"] == pytest.approx(0.1)
    assert found["success_low"] < -0.5, "four clusters that agree leave much possible"


def test_planners_that_share_their_luck_are_not_settled_by_two_cases() -> None:
    """Of 100 cases three have one trial of three apart: the model of independent trials sees no variance there."""
    rows = []
    for case in range(100):
        for trial in range(3):
            resolved = float(case < 20)
            apart = trial == 0 and case in (0, 1, 50)
            rows += [row("react", case, trial, resolved), row("egb", case, trial, abs(resolved - apart))]
    (found,) = paired_differences(pd.DataFrame(rows)).to_dict("records")
    assert found["success_low"] < found["success"] < 0 < found["success_high"]
    assert np.isnan(found["success_needed"])


def test_cases_that_only_one_planner_finished_are_not_compared() -> None:
    rows = [row("react", 0, 0, 0.0), row("react", 1, 0, 0.0), row("react", 2, 0, None)]
    rows += [row("egb", 1, 0, 1.0), row("egb", 2, 0, 0.0), row("egb", 3, 0, 0.0)]
    (found,) = paired_differences(pd.DataFrame(rows)).to_dict("records")
    assert (found["cases"], found["success"]) == (1, 1.0)


def test_no_differences_without_the_reference() -> None:
    frame = pd.DataFrame([row("egb", case, 0, 1.0) for case in range(3)])
    assert paired_differences(frame).empty
    assert not paired_differences(frame.assign(planner=["react", "egb", "egb"])).empty


@pytest.mark.long
@given(st.lists(st.tuples(st.floats(0, 5, allow_subnormal=False), st.booleans()), min_size=1, max_size=60))
def test_entropy_bins_partition_all_steps(steps: list[tuple[float, bool]]) -> None:
    values, wrong = [value for value, _ in steps], [error for _, error in steps]
    found = entropy_errors(entropies(values, wrong))
    assert len(found) == ENTROPY_BINS
    assert found["steps"].sum() == len(steps)
    assert found["errors"].sum() == sum(wrong)
    assert found["low"].iloc[0] == 0.0
    assert found["high"].iloc[-1] == pytest.approx(max(values), abs=1e-12)
    assert (found["low"].to_numpy()[1:] == found["high"].to_numpy()[:-1]).all()
    assert found["error_rate"].isna().eq(found["steps"] == 0).all()


def test_entropy_bins_have_equal_widths_and_closed_lower_edges() -> None:
    found = entropy_errors(entropies([0.0, 0.5, 1.0, 2.0, 4.5, 5.0], [False, True, True, False, True, False]))
    assert found["low"].tolist() == pytest.approx([0, 1, 2, 3, 4])
    assert found["steps"].tolist() == [2, 1, 1, 0, 2]
    assert found["errors"].tolist() == [1, 1, 0, 0, 1]


@pytest.mark.parametrize("count", [1, 7])
@pytest.mark.parametrize(("value", "place"), [(1.5, ENTROPY_BINS - 1), (0.0, 0)])
def test_equal_entropies_and_single_steps(count: int, value: float, place: int) -> None:
    found = entropy_errors(entropies([value] * count, [True] * count))
    assert found["steps"].tolist() == [count if index == place else 0 for index in range(ENTROPY_BINS)]
    assert found["error_rate"].dropna().tolist() == [1.0]


@pytest.mark.long
@given(st.lists(st.tuples(st.floats(0, 5, allow_subnormal=False), st.booleans()), min_size=1, max_size=60))
def test_centres_of_entropy_are_those_of_right_and_of_wrong_choices(steps: list[tuple[float, bool]]) -> None:
    frame = entropies([value for value, _ in steps], [error for _, error in steps])
    (found,) = entropy_centres(pd.concat([frame, frame.assign(planner="other", entropy=9.0)])).to_dict("records")[:1]
    for name, wrong in (("right", False), ("wrong", True)):
        own = [value for value, error in steps if error == wrong]
        assert found[f"{name}_n"] == len(own)
        expected = [np.mean(own), np.median(own)] if own else [np.nan, np.nan]
        assert [found[f"{name}_mean"], found[f"{name}_median"]] == pytest.approx(expected, nan_ok=True)


def test_entropy_bins_by_setting() -> None:
    frame = pd.concat([entropies([1.0], [True]), entropies([2.0], [False]).assign(planner="other")])
    found = entropy_errors(frame).groupby(SETTING)["high"].max()
    assert found.tolist() == [1.0, 2.0]


@pytest.mark.long
def test_trials_that_are_all_equal_have_no_deviation_and_a_note_says_so(tmp_path: Path) -> None:
    """Argmax and a deterministic fill repeat themselves: `± 0.0` would tell of runs that never were."""
    rows = [row("egb_logits", case, trial, float(case % 2)) for case in range(4) for trial in range(3)]
    rows += [row("react", case, trial, float(case == trial)) for case in range(4) for trial in range(3)]
    matched = {(case, trial): {"tool_match_rate": float(case < trial)} for case in range(4) for trial in range(3)}
    rows += [row("cot", *place, float(place[0] == 3)) | more for place, more in matched.items()]
    found = results(pd.DataFrame(rows)).set_index("planner")
    assert found["success_repeated"].to_dict() == {"egb_logits": True, "react": False, "cot": True}
    assert found["success_std"]["react"] == 0.0, "its trials differ by case, and their means are equal by chance"
    assert np.isnan(found["success_std"]["egb_logits"])
    one = results(pd.DataFrame(rows).query("trial == 0"))
    assert not one["success_repeated"].any(), "one trial repeats nothing"
    costs = {cost: 1 for cost in COSTS if cost not in ("wall_seconds", "unassigned")}
    told = {"created_at": NOON, "attempt_id": "a"} | costs
    store.write(tmp_path, {"episodes": [line | told | {"success": bool(line["success"])} for line in rows]})
    table = print_report(tmp_path, Console(file=io.StringIO()))[0]
    place = [*table.labels, *table.figures].index("success")
    assert {line[1]: line[place] for line in table.rows} == {"egb_logits": "50.0", "react": "25.0 ± 0.0", "cot": "25.0"}
    brief = {line["planner"]: line["success"] for line in shown_tables.printed(table)}
    assert brief == {"egb_logits": "50.0", "react": "25.0", "cot": "25.0"}
    assert table.notes == [
        "no ± for settings in which all trials of a case gave equal results: egb_logits (none)",
        "no ± of success and action acc. for settings in which all trials of a case gave equal values: cot (none)",
    ]


def test_success_on_the_solvable_cases() -> None:
    cells = [(case, trial) for case in range(4) for trial in range(2)]
    rows = [row("react", case, trial, float(case == 0)) | {"solvable": case < 2} for case, trial in cells]
    (found,) = results(pd.DataFrame(rows)).to_dict("records")
    assert (found["success_mean"], found["success_solvable"]) == (0.25, 0.5)


def test_comparisons_say_who_asked_whether_a_case_was_resolved(tmp_path: Path) -> None:
    asked = {"react": 0, "retry": 2, "reflexion": 3, "self_consistency": 0}
    rows = [row(planner, case, 0, float(case == place)) | {CHECKS: checks, "branched_steps": place}
            for place, (planner, checks) in enumerate(asked.items()) for case in range(4)]  # fmt: skip
    told = {"created_at": NOON, "attempt_id": "a", **dict.fromkeys(["input_tokens", "llm_calls"], 1)}
    told |= dict.fromkeys(["output_tokens", "forward_passes"], 1)
    store.write(tmp_path, {"episodes": [line | told | {"success": bool(line["success"])} for line in rows]})
    found = of_places(tmp_path)
    costs = found["costs lexical slate"]
    place = [*costs.labels, *costs.figures].index("checks")
    assert {line[1]: line[place : place + 2] for line in costs.rows} == {
        "react": ["0.0", "0.0"],
        "retry": ["2.0", "1.0"],
        "reflexion": ["3.0", "2.0"],
        "self_consistency": ["0.0", "3.0"],
    }
    to_react = {line[1]: line[-1] for line in found["differences react lexical slate"].rows}
    assert to_react == {"retry": "2.0/0.0", "reflexion": "3.0/0.0", "self_consistency": "0.0/0.0"}
    to_retry = {line[1]: line[-1] for line in found["differences retry lexical slate"].rows}
    assert to_retry == {"reflexion": "3.0/2.0"}, "the control of those who ask"


def test_costs_show_the_judges_beside_the_acting_models(tmp_path: Path) -> None:
    judge: dict[str, Any] = {"judge_input_tokens": 4000, "judge_output_tokens": 30, "judge_calls": 2, "judge_passes": 0}
    told: dict[str, Any] = {cost: 1 for cost in COSTS if not cost.startswith(("wall", "un"))}
    told |= {"created_at": NOON, "attempt_id": "a"}
    spent: dict[str, dict[str, Any]] = {"best_first": judge, "react": dict.fromkeys(judge)}
    rows = [row(planner, case, 0, 1.0) | told | {"success": True} | spent[planner]
            for planner in spent for case in range(3)]  # fmt: skip
    store.write(tmp_path, {"episodes": rows})
    costs = of_places(tmp_path)["costs lexical slate"]
    place = costs.figures.index("judge in")
    shown = ["judge in", "judge out", "judge calls"]
    assert costs.figures[place : place + 3] == shown, "no column of what nobody spent"
    assert [line[2:][place : place + 3] for line in costs.rows] == [["none"] * 3, ["4,000", "30", "2.0"]]
    assert costs.caption.count("the judge's") == 1
    queried = duckdb.connect().execute(costs.query).df().set_index("planner")["judge_input_tokens"]
    assert (queried["best_first"], bool(queried.isna()["react"])) == (4000, True)


def test_costs_tell_how_many_times_reacts_tokens_a_planner_took(tmp_path: Path) -> None:
    """All roles' tokens, over the cases that both have; of ReAct itself, and where it did not run, nothing."""
    told: dict[str, Any] = {cost: 1 for cost in COSTS if not cost.startswith(("wall", "un"))}
    told |= dict.fromkeys([cost for cost in COSTS if cost.startswith(("judge", "cached"))])
    told |= {"created_at": NOON, "attempt_id": "a", "success": True, "output_tokens": 0}
    rows = [row("react", case, 0, 1.0) | told | {"input_tokens": 100 * (case + 1)} for case in range(4)]
    rows += [row("lats", case, 0, 1.0) | told | {"input_tokens": 200 * (case + 1), "judge_input_tokens": 100}
             for case in range(4)]  # fmt: skip
    rows += [row("lats", 9, 0, 1.0) | told | {"input_tokens": 10**6}]
    store.write(tmp_path, {"episodes": rows})
    costs = of_places(tmp_path)["costs lexical slate"]
    assert "cached" not in costs.figures, "no column of what nobody has"
    place = [*costs.labels, *costs.figures].index("x react")
    found = {line[1]: line[place] for line in costs.rows}
    assert found["react"] == "–"
    assert found["lats"].startswith("2.4 ["), "(200 + 400 + 600 + 800 + 4 x 100) / (100 + 200 + 300 + 400)"
    store.write(tmp_path / "alone", {"episodes": rows[4:]})
    alone = of_places(tmp_path / "alone")
    assert "x react" not in alone["costs lexical slate"].figures


def test_costs_tell_what_came_from_a_prefix_cache(tmp_path: Path) -> None:
    told: dict[str, Any] = {cost: 1 for cost in COSTS if not cost.startswith(("wall", "un", "judge"))}
    told |= {"created_at": NOON, "attempt_id": "a", "success": True, "input_tokens": 1000, "cached_input_tokens": 750}
    store.write(tmp_path, {"episodes": [row("react", case, 0, 1.0) | told for case in range(3)]})
    costs = of_places(tmp_path)["costs lexical slate"]
    found = dict(zip([*costs.labels, *costs.figures], costs.rows[0], strict=True))
    assert (found["tokens in"], found["cached"]) == ("1,000", "750")
    assert costs.caption.count("prefix cache") == 1
    assert duckdb.connect().execute(costs.query).df()["cached_input_tokens"].to_list() == [750]


def test_results_tell_what_a_case_cost_where_anything_did(tmp_path: Path) -> None:
    told: dict[str, Any] = {cost: 1 for cost in COSTS if cost not in ("wall_seconds", "unassigned")}
    told |= {"created_at": NOON, "attempt_id": "a", "success": True}
    for name, dollars in (("dear", {"react": 0.25, "best_first": None}), ("free", {"react": 0.0, "best_first": None})):
        rows = [row(planner, case, 0, 1.0) | told | {"money": each and each * case}
                for planner, each in dollars.items() for case in range(3)]  # fmt: skip
        store.write(tmp_path / name, {"episodes": rows})
        tables = of_places(tmp_path / name)
        found = tables["results lexical slate"]
        assert ("USD" in found.figures) == ("USD: cost per case in US dollars" in found.caption) == (name == "dear")
        if name == "dear":
            assert {line[1]: line[-1] for line in found.rows[:2]} == {"react": "0.250000", "best_first": "none"}
            queried = duckdb.connect().execute(found.query).df().set_index("planner")["money"]
            assert (queried["react"], bool(queried.isna()["best_first"])) == (0.25, True)


@pytest.mark.long
def test_one_case_and_one_cluster_have_no_interval_and_say_so(tmp_path: Path) -> None:
    for place, cases in (("case", 1), ("cluster", 3)):
        rows = [
            row(planner, case, 0, float(won)) | {"cluster": "template", "success": won}
            for planner, won in (("react", False), ("egb", True))
            for case in range(cases)
        ]
        costs: dict[str, object] = {"created_at": NOON, "attempt_id": "a"}
        costs |= {cost: 1 for cost in COSTS if cost not in ("wall_seconds", "unassigned")}
        store.write(tmp_path / place, {"episodes": [line | costs for line in rows]})
        tables = {table.name: table for table in print_report(tmp_path / place, Console(file=io.StringIO()))}
        (line,) = tables["differences react lexical slate"].rows
        assert line[2:7] == [str(cases), "1", "+100.0  ", "none", "none"]
        assert "one cluster" in " ".join(tables["differences react lexical slate"].notes)


@pytest.mark.long
@pytest.mark.parametrize("long", [False, True])
def test_tables_fit_100_columns(tmp_path: Path, long: bool) -> None:
    """Labels of any length take several lines; no figure is cut."""
    more = "[trajectories=50,temperature=0.7] / bm25[top_k=50]" if long else ""
    planners = {"react": 0.2, f"egb_logits{more}": 0.6, f"self_consistency_plan{more}": 0.5}
    for robustness in ("none", f"inaccurate_plan{more}"):
        written(tmp_path, planners, robustness)
    text = io.StringIO()
    first, second, *_ = print_report(tmp_path, Console(file=text, width=80))
    told, _, _ = text.getvalue().partition("`agent-grid report ")
    assert max(map(len, told.splitlines())) <= 100
    assert "…" not in told
    for table in (first, second):
        assert table.title in told
        assert all(cell in told for row in shown_tables.printed(table) for cell in list(row.values())[2:])
    whole = io.StringIO()
    print_report(tmp_path, Console(file=whole, width=80), all_columns=True)
    for row in (*first.rows, *second.rows):
        assert all(cell in whole.getvalue() for cell in row), "all columns, whole labels"


@pytest.mark.long
def test_the_reference_stands_first_and_the_best_behind_it(tmp_path: Path) -> None:
    written(tmp_path, {"egb": 0.1, "react": 0.2, "cot": 0.7, "tot": 0.7})
    written(tmp_path, {"egb": 0.9, "react": 0.2, "cot": 0.3}, "extraneous")
    first, differences, costs, *_ = print_report(tmp_path, Console(file=io.StringIO()))
    order = [("none", "react"), ("none", "cot"), ("none", "tot"), ("none", "egb")]
    order += [("extraneous", "react"), ("extraneous", "egb"), ("extraneous", "cot")]
    assert [tuple(row[:2]) for row in first.rows] == order
    assert [tuple(row[:2]) for row in costs.rows] == order
    assert [tuple(row[:2]) for row in differences.rows] == [pair for pair in order if pair[1] != "react"]
    assert first.sections == {4}


def test_success_has_an_interval_over_clusters(tmp_path: Path) -> None:
    """As pass^1 and every other share of cases has it; one cluster has none."""
    for cluster in ("case-{}", "template-{}", "one"):
        rows = [
            row("react", case, trial, float(case % 3 == 0 and trial < 2))
            | {"cluster": cluster.format(case if "case" in cluster else case // 2)}
            for case in range(12)
            for trial in range(3)
        ]
        (found,) = results(pd.DataFrame(rows)).to_dict("records")
        index = pd.MultiIndex.from_tuples([(line["cluster"], line["case_id"]) for line in rows[::3]],
                                          names=["cluster", "case_id"])  # fmt: skip
        expected = intervals.share(pd.Series([2 / 3 if case % 3 == 0 else 0.0 for case in range(12)], index))
        assert found["success_mean"] == pytest.approx(expected.mean)
        bounds = (found["success_low"], found["success_high"])
        assert bounds == pytest.approx((expected.low, expected.high), nan_ok=True)
        assert np.isnan(found["success_low"]) == (cluster == "one")


@pytest.mark.long
def test_a_setting_that_is_not_complete_is_marked(tmp_path: Path) -> None:
    """By the sweep's own record; without one by the largest setting of the same place."""
    written(tmp_path, {"react": 0.2, "egb": 0.5})
    found = row("cot", 0, 0, 1.0) | {"success": True, "created_at": NOON, "attempt_id": "a"}
    costs = {cost: 1 for cost in COSTS if cost not in ("wall_seconds", "unassigned")}
    store.write(tmp_path, {"episodes": [found | costs]})

    def marks() -> tuple[dict[str, str], str]:
        out = io.StringIO()
        table = print_report(tmp_path, Console(file=out, width=400))[0]
        assert "cells" in shown_tables.printed(table)[0]
        assert "shown as finished/planned" in table.short
        return {line["planner"]: line["cells"] for line in shown_tables.printed(table)}, out.getvalue()

    counts, text = marks()
    assert counts == {"react": "10", "egb": "10", "cot": "1/10"}
    assert "1 of 3 settings are not complete (cot on slate (none): 1 of 10 cells)" in text
    assert "+30.0" in text, "egb's is over all cases, and cot's over the one that both have"
    labels = {"model": "lexical", "dataset": "slate", "robustness": "none"}
    asked: dict[str, store.PlannedSetting] = {
        "id-of-tot": {**labels, "planner": "tot", "cells": 40},  # type: ignore[typeddict-item]
        "id-of-cot": {**labels, "planner": "cot", "cells": 30},  # type: ignore[typeddict-item]
    }
    store.record_run(tmp_path, RUN, asked)
    for file in (tmp_path / "episodes").iterdir():
        rows = pq.read_table(file).to_pylist()
        store.write(tmp_path, {"episodes": [line | {"setting_id": f"id-of-{line['planner']}"} for line in rows]})
        file.unlink()
    counts, text = marks()
    assert counts == {"react": "10", "egb": "10", "cot": "1/30"}
    assert "2 of 4 settings are not complete" in text
    assert "tot on slate (none): 0 of 40 cells" in text


@pytest.mark.long
def test_a_complete_sweep_marks_nothing(tmp_path: Path) -> None:
    written(tmp_path, {"react": 0.2, "egb": 0.5})
    out = io.StringIO()
    table = print_report(tmp_path, Console(file=out))[0]
    assert "cells" not in shown_tables.printed(table)[0]
    assert "not complete" not in out.getvalue() + table.caption


@pytest.mark.long
def test_the_largest_difference_that_is_not_told_from_0_says_how_many_cases_would_settle_it(tmp_path: Path) -> None:
    written(tmp_path, {"react": 0.2, "egb": 0.4, "cot": 0.3, "tot": 1.0})
    table = print_report(tmp_path, Console(file=io.StringIO()))[1]
    (note,) = table.notes
    assert note.startswith("largest open difference: egb minus react (none), +20.0 points; about ")
    assert "(now there are 10)" in note
    stars = {line[1]: line[4] for line in table.rows}
    assert stars == {"egb": "+20.0  ", "cot": "+10.0  ", "tot": "+80.0*†"}


@pytest.mark.long
def test_pass_at_k_and_pass_to_the_k_stand_in_the_wide_table_of_results(tmp_path: Path) -> None:
    rows = [row("react", case, trial, float(case == 0 or trial == 0)) | {"success": case == 0 or trial == 0}
            for case in range(4) for trial in range(2)]  # fmt: skip
    costs: dict[str, object] = {"created_at": NOON, "attempt_id": "a"}
    costs |= {cost: 1 for cost in COSTS if cost not in ("wall_seconds", "unassigned")}
    store.write(tmp_path, {"episodes": [line | costs for line in rows]})
    table, together, *_ = print_report(tmp_path, Console(file=io.StringIO()))
    (line,) = table.rows
    named = dict(zip([*table.labels, *table.figures], line, strict=True))
    assert (named["success"].split()[0], named["pass@2"], named["pass^2"]) == ("62.5", "100.0", "25.0")
    assert not {"pass@2", "pass^2"} & set(shown_tables.printed(table)[0])
    assert "pass^2: all do" in table.caption
    assert "pass^" in together.title


def printed(root: Path) -> str:
    out = io.StringIO()
    print_report(root, Console(file=out, width=250))
    return out.getvalue()


def written(
    root: Path,
    planners: dict[str, float],
    robustness: str = "none",
    model: str = "lexical",
    engine: str | None = None,
) -> None:
    """Ten cases a planner, one trial, the planner's share of them resolved; each with one step of one entropy."""
    episodes: list[dict[str, Any]] = []
    steps: list[dict[str, Any]] = []
    for planner, share in planners.items():
        for case in range(10):
            wins = case < 10 * share
            ids = {"cell_id": f"{planner}/{robustness}/{model}/{case}", "attempt_id": "first"}
            found = row(planner, case, 0, float(wins), robustness) | ids | {"cell_key": ids["cell_id"]}
            costs = {cost: int(found[cost]) for cost in COSTS if cost not in ("wall_seconds", "unassigned")}
            costs["judge_passes"] = 0  # of the form `text`; a judge answers in one form
            found |= costs | {"success": wins, "model": model, "engine": engine, "created_at": NOON}
            episodes.append(found)
            entropy = {"branch": 0, "step": 0, "entropy": 0.25 if wins else 2.0}
            steps.append(ids | entropy | {"tool_required": True, "tool_matches": wins, "chosen_tool": "any"})
    store.write(root, {"episodes": episodes, "steps": steps})


@pytest.mark.long
def test_report_shows_planners_and_figures(tmp_path: Path) -> None:
    written(tmp_path, {"react": 0.2, "egb": 0.7})
    text = printed(tmp_path)
    assert "lexical on slate" in text
    first = {line.split()[1]: line for line in text.splitlines()[:9] if line.strip().startswith("none ")}
    assert list(first) == ["react", "egb"]
    assert first["react"].split()[2:5] == ["10", "0", "20.0"]
    assert first["egb"].split()[2:5] == ["10", "0", "70.0"]
    # Five of ten cases differ, by one each: 50 points, with t(9) * sd / sqrt(10) = 2.262 * 0.527 / 3.162 to each side.
    assert "+50.0*" in text
    assert "[+12.3, +87.7]" in text
    assert "8/8 100%" in text, "react's errors lie in the last bin"
    assert "0/7 0%" in text, "egb's right choices in the first"
    assert "0.250" in text
    assert "2.000" in text
    table = next(one for one in print_report(tmp_path, Console(file=io.StringIO())) if one.name.startswith("entropy"))
    (line,) = (dict(zip(table.figures, row[2:], strict=True)) for row in table.rows if row[1] == "egb")
    assert [line[name] for name in ("right", "right median", "right n", "wrong n")] == ["0.250", "0.250", "7", "3"]
    assert table.values.groupby("planner")["wrong_median"].first().to_dict() == {"egb": 2.0, "react": 2.0}
    assert f"{tmp_path}/episodes/*.parquet" in text
    assert "nan" not in text.lower()


@pytest.mark.long
def test_what_went_to_no_option_is_a_column_where_choices_were_scored(tmp_path: Path) -> None:
    written(tmp_path, {"react": 0.2})
    assert "unassigned" not in printed(tmp_path)
    for case, share in enumerate((0.5, 0.9)):
        found = row("egb", case, 0, 1.0) | {"success": True, "created_at": NOON, "attempt_id": "a"}
        store.write(tmp_path, {"episodes": [found | {"unassigned": share}]})
    costs = of_places(tmp_path)["costs lexical slate"]
    place = [*costs.labels, *costs.figures].index("unassigned")
    assert {line[1]: line[place] for line in costs.rows} == {"egb": "70.0%", "react": "none"}


def test_what_answers_were_made_to_begin_with_is_said(tmp_path: Path) -> None:
    for case, (model, prefix) in enumerate((("plain", ""), ("oss", "<|x|>"))):
        found = row("egb", case, 0, 1.0) | {"success": True, "created_at": NOON, "attempt_id": "a", "model": model}
        config = json.dumps({"model": {"answer_prefix": prefix}})
        store.write(tmp_path, {"episodes": [found | {"cell_id": model, "config": config}]})
    tables = of_places(tmp_path)
    assert 'begin with "<|x|>" (model.answer_prefix)' in tables["costs oss slate"].caption
    assert "begin with" not in tables["costs plain slate"].caption


@pytest.mark.long
def test_markup_in_labels_is_shown_literally(tmp_path: Path) -> None:
    written(tmp_path, {"react": 0.2, "egb[samples=3]": 0.7}, "[bold]", "lexical[temperature=1]")
    text = printed(tmp_path)
    for label in ("egb[samples=3]", "[bold]", "lexical[temperature=1]"):
        assert text.count(label) >= 3, "once in each table"
    assert "\\[" not in text


def test_report_of_an_empty_folder(tmp_path: Path) -> None:
    assert "no episodes" in printed(tmp_path)


@pytest.mark.parametrize(
    ("planner", "planners", "expected"),
    [
        ("egb", ["react", "egb"], "react"),
        ("react", ["react", "egb"], None),
        ("egb", ["react[temperature=0]", "egb"], "react[temperature=0]"),
        ("egb[t=0]", ["react", "react[t=0]", "egb[t=0]"], "react[t=0]"),
        ("egb[t=1]", ["react", "react[t=0]", "egb[t=1]"], None),
        ("egb / bm25[top_k=5]", ["react / bm25[top_k=5]", "react / bm25[top_k=9]"], "react / bm25[top_k=5]"),
        ("reactive", ["reactive"], None),
    ],
)
def test_which_reference_a_planner_is_compared_with(planner: str, planners: list[str], expected: str | None) -> None:
    assert reference_of(planner, planners, "react") == expected
