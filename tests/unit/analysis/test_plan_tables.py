"""Tables of plans find what was planted in rows that no planner made."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from analysis.figures import drawings
from analysis.figures import plans as figures
from analysis.page import html
from analysis.page.drawing import Drawing
from analysis.page.table import Table
from analysis.report import print_report
from analysis.tables import plan_cells
from analysis.tables import plans as efficiency
from analysis.tables.plan_cells import NAMES, SECTION
from analysis.tables.plans import REFUSES
from grid.core.types import BEHAVIOURS, ERRORS
from tests.support.plan_rows import episode, errors, flips, write
from tests.support.tables import printed

_TEXTS = re.compile(r"<!--.*?-->|<t(?:ext|span)[^>]*>[^<]*", re.DOTALL)
RATES = {"E1": 0.05, "E2": 0.3, "E3": 0.1, "E4": 0.25, "E5": 0.4, "E6": 0.0}


def planned(count: int = 100) -> list[dict[str, Any]]:
    """Whole plans and next steps of two planners; fh has the planted errors, sh none."""
    rows = []
    families: dict[str, dict[str, Any]] = {"holistic": {}, "stepwise": {"horizon_k": 1, "stage": "early"}}
    for family, further in families.items():
        held = errors(3, count, RATES)
        for case in range(count):
            own: dict[str, Any] = {
                "plan_correct": not held[case],
                "plan_grade": 0.4 if held[case] else 1.0,
                "plan_errors": held[case],
            }
            rows.append(episode("fh", family, case, success=not held[case], **own, **further))
            right: dict[str, Any] = {"plan_correct": True, "plan_grade": 1.0, "plan_errors": []}
            rows.append(episode("sh", family, case, success=True, **right, **further))
    return rows


def named(found: list[Table]) -> dict[str, Table]:
    return {table.name.partition(" tiny")[0]: table for table in found}


def rows_of(table: Table) -> list[dict[str, str]]:
    names = [*table.labels, *table.figures]
    return [dict(zip(names, row, strict=True)) for row in table.rows]


def at(table: pd.DataFrame, **wanted: str) -> dict[Any, Any]:
    """The one row with these labels."""
    for name, value in wanted.items():
        table = table[table[name].astype(str) == value]
    (row,) = table.to_dict("records")
    return row


def test_planted_error_rates_are_found(tmp_path: Path) -> None:
    write(tmp_path, planned())
    table = named(efficiency.tables(tmp_path))["plans"]
    values = table.values
    whole = at(values, task="holistic", planner="fh")
    for error in ("E1", "E3", "E4", "E5", "E6"):
        assert whole[error] == pytest.approx(RATES[error])
        assert whole[f"{error}_low"] <= RATES[error] <= whole[f"{error}_high"]
    assert whole["E2_holistic"] == pytest.approx(RATES["E2"])
    assert np.isnan(whole["E2_stepwise"])
    assert at(values, task="step-wise", planner="fh")["E2_stepwise"] == pytest.approx(RATES["E2"])
    wrong = np.mean([bool(held) for held in errors(3, 100, RATES)])
    assert whole["success"] == pytest.approx(1 - wrong)
    assert whole["plan_grade"] == pytest.approx(1 - 0.6 * wrong)
    assert (whole["cases"], whole["clusters"]) == (100, 100)
    assert at(values, task="holistic", planner="sh")["E5"] == 0


def test_a_terminal_has_fewer_intervals_and_a_page_all(tmp_path: Path) -> None:
    write(tmp_path, planned())
    table = named(efficiency.tables(tmp_path))["plans"]
    first, brief = table.rows[0], [*printed(table)[0].values()]
    assert all("[" in cell for cell in first[len(table.labels) + 2 :] if cell != "–")
    assert sum("[" in cell for cell in brief) == 1
    assert [cell.partition(" [")[0] for cell in first] == [cell.partition(" [")[0] for cell in brief]


def test_what_refuses_everything_stands_beside_unless_it_ran(tmp_path: Path) -> None:
    write(tmp_path / "without", planned())
    (row,) = [
        row
        for row in rows_of(named(efficiency.tables(tmp_path / "without"))["plans"])
        if row["planner"] == REFUSES and row["task"] == "holistic"
    ]
    assert (row["CR"], row["grade"], row["cases"]) == ("0.0", "–", "100")
    ran = [episode("refuser", "holistic", case, success=False, plan_errors=["E2"]) for case in range(5)]
    write(tmp_path / "with", [*planned(), *ran])
    assert REFUSES not in {row["planner"] for row in rows_of(named(efficiency.tables(tmp_path / "with"))["plans"])}


def test_behaviours_and_refusals_are_shares_of_their_cases(tmp_path: Path) -> None:
    planted = dict(zip(BEHAVIOURS, (40, 20, 25, 10, 5), strict=True))
    names = [name for name, count in planted.items() for _ in range(count)]
    rows = [
        episode("stepwise", "broken", case, success=name in ("replace", "alter"), behaviour=name, horizon_k=1)
        for case, name in enumerate(names)
    ]
    kinds = {"contradictory_constraints": 0.8, "missing_information": 0.3, "tool_removal": 0.5, "attachment_missing": 0}
    for place, (kind, share) in enumerate(kinds.items()):
        passed = flips(place, 20, share)
        rows += [
            episode("holistic", "unsolvable", case, success=passed[case], refused=passed[case], unsolvable_kind=kind)
            for case in range(20)
        ]
    write(tmp_path, rows)
    found = named(efficiency.tables(tmp_path))
    broken = found["broken"].values
    for name, count in planted.items():
        assert at(broken, planner="stepwise")[f"behaved_{name}"] == pytest.approx(count / 100)
    assert at(broken, planner="stepwise")["success"] == pytest.approx(0.6)
    assert at(broken, planner=REFUSES)["behaved_refuse"] == 1
    unsolvable = found["unsolvable"].values
    for kind, share in kinds.items():
        assert at(unsolvable, planner="holistic")[f"passed_{kind}"] == pytest.approx(share)
    assert at(unsolvable, planner=REFUSES)["success"] == 1
    assert found["unsolvable"].notes[-1] == "cases by kind: Conf 20, Info 20, Tool 20, Vis 20"


def distracted(count: int = 60, cost: float = 0.2) -> list[dict[str, Any]]:
    """fh is right in 70% of the cases, with extraneous tools in so many fewer, whatever their number."""
    base = flips(1, count, 0.7)
    right = [case for case in range(count) if base[case]]
    lost = set(right[: round(cost * count)])
    rows = [episode("fh", "holistic", case, success=base[case]) for case in range(count)]
    for number in (2, 4, 6, 8, 10):
        for case in range(count):
            own: dict[str, Any] = {"n_extraneous": number, "extraneous_calls": 2 * int(case in lost), "plan_errors": []}
            rows.append(episode("fh", "extraneous", case, success=base[case] and case not in lost, **own))
    return rows


def test_a_planted_cost_of_extraneous_tools_is_found_case_by_case(tmp_path: Path) -> None:
    write(tmp_path, distracted())
    table = efficiency.by_number(plan_cells.read(tmp_path)).rows
    assert list(table["n_e"]) == ["all", "2", "4", "6", "8", "10"]
    for number in table["n_e"]:
        row = at(table, n_e=number)
        assert row["base_success"] == pytest.approx(0.7)
        assert row["success"] == pytest.approx(0.5)
        assert row["extraneous_change"] == pytest.approx(-0.2)
        assert row["extraneous_change_high"] < 0
        assert row["TC"] == (120 if number == "all" else 24)
    assert at(table, n_e="all")["clusters"] == 60, "variants of a case are no independent draws"
    one, all_ = (at(table, n_e=name) for name in ("2", "all"))
    width = [row["extraneous_change_high"] - row["extraneous_change_low"] for row in (one, all_)]
    assert width[1] == pytest.approx(width[0], rel=0.05), "five variants that agree say no more than one"
    (line,) = named(efficiency.tables(tmp_path))["extraneous"].reading.splitlines()
    assert line.startswith("holistic, fh: with − without = -20.0 points [")
    assert line.endswith("fewer plans are correct with extraneous tools.")


def test_ids_that_say_what_a_case_was_made_of_pair_it_with_that(tmp_path: Path) -> None:
    """Cases of one goal family are one cluster, and still each has its own counterpart."""
    rows = []
    for case in range(40):
        plain = episode("fh", "holistic", case, success=case % 2 == 0) | {"cluster": f"goal-{case // 8}"}
        name = f"extraneous-{plain['case_id']}-4"
        held = episode("fh", "extraneous", case, success=case % 4 == 0, n_extraneous=4) | {"cluster": plain["cluster"]}
        rows += [plain, held | {"case_id": name}]
    write(tmp_path, rows)
    changed = ["base_success", "extraneous_change"]
    own = plan_cells.cases(plan_cells.read(tmp_path), changed, "task_family = 'extraneous'").rows
    assert list(own["base_success"]) == [
        float(int(name.rpartition("/")[2].partition("-")[0]) % 2 == 0) for name in own["case_id"].astype(str)
    ]
    assert own["extraneous_change"].mean() == pytest.approx(-0.25)


def test_where_ids_do_not_tell_it_the_counterpart_asks_for_as_many_steps(tmp_path: Path) -> None:
    """Steps of one released trajectory are one query; those of another k are another task."""
    rows = []
    for case in range(10):
        rows += [episode("stepwise", "stepwise", case, success=k == 1, horizon_k=k) for k in (1, 2, 3)]
        rows.append(episode("stepwise", "extraneous", case, success=True, horizon_k=1, n_extraneous=4))
    write(tmp_path, rows)
    changed = ["base_success", "extraneous_change"]
    own = plan_cells.cases(plan_cells.read(tmp_path), changed, "task_family = 'extraneous'").rows
    assert list(own["base_success"]) == [1.0] * 10
    assert list(own["extraneous_change"]) == [0.0] * 10


def test_early_and_late_stand_beside_the_middle_and_in_no_other_table(tmp_path: Path) -> None:
    rows = [episode("stepwise", "stepwise", case, success=True, horizon_k=1, stage="middle") for case in range(10)]
    for stage in ("early", "late"):
        rows += [episode("stepwise", "stages", case, success=False, horizon_k=1, stage=stage) for case in range(10)]
    write(tmp_path, rows)
    read = plan_cells.read(tmp_path)
    assert list(efficiency.profile(read, "stage").rows["success"]) == [0.0, 1.0, 0.0]
    (plans,) = [table for table in efficiency.tables(tmp_path) if table.name.startswith("plans ")]
    assert set(plans.values["success"]) == {1.0, 0.0}, "the other row is who refuses everything"
    assert list(plans.values["cases"]) == [10, 10]


def test_cases_without_a_counterpart_are_told(tmp_path: Path) -> None:
    rows = [row for row in distracted() if row["task_family"] == "extraneous" or int(row["cluster"][5:]) < 50]
    write(tmp_path, rows)
    table = named(efficiency.tables(tmp_path))["extraneous"]
    assert "up to 50 cases of a row have no counterpart without extraneous tools, so Δ leaves them out" in table.notes


@pytest.mark.long
@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("self[taxonomy=true]", "Self_R+"), ("critic[taxonomy=false]", "Critic_R-"), ("critic", "Critic_R-"),
    ],
)  # fmt: skip
def test_changes_by_refinement_are_counted(label: str, name: str, tmp_path: Path) -> None:
    before, after = flips(5, 80, 0.4), flips(6, 80, 0.65)
    rows = [
        episode(
            "holistic", "holistic", case, success=after[case], refine=label,
            plan_correct=after[case], unrefined_correct=before[case], plan_grade=0.5, unrefined_grade=0.25,
        )
        for case in range(80)
    ]  # fmt: skip
    write(tmp_path, [*rows, *(episode("holistic", "holistic", case, success=before[case]) for case in range(80))])
    (row,) = efficiency.refined(plan_cells.read(tmp_path)).rows.to_dict("records")
    better = sum(b and not a for a, b in zip(before, after, strict=True))
    worse = sum(a and not b for a, b in zip(before, after, strict=True))
    assert (row["better"], row["worse"], row["method"], row["base"]) == (better, worse, name, "holistic")
    assert row["refined_change"] == pytest.approx((better - worse) / 80) == pytest.approx(0.25)
    assert row["refined_change_low"] > 0
    table = named(efficiency.tables(tmp_path))["refinement"]
    assert f"{better} plans became correct, and {worse} became wrong." in table.reading
    assert {row["planner"] for row in rows_of(named(efficiency.tables(tmp_path))["plans"])} >= {
        "holistic", f"holistic / refine {label}",
    }  # fmt: skip


def priced(seed: int) -> list[dict[str, Any]]:
    """Three planners of two models whose plans have costs, and one that solves nothing."""
    rng = np.random.default_rng(seed)
    rows = []
    for model in ("tiny", "small"):
        for planner in ("fh", "sh", "refuser"):
            for case in range(30):
                for trial in range(2):
                    solved = planner != "refuser" and bool(rng.random() < 0.9)
                    rows.append(
                        episode(
                            planner, "costs", case, success=solved, model=model, trial=trial,
                            plan_cost=float(rng.integers(5, 20)), least_cost=4.0 + case % 3, plan_grade=1.0,
                        )
                    )  # fmt: skip
    return rows


@pytest.mark.long
@pytest.mark.parametrize("seed", range(5))
def test_costs_of_what_all_solve_equal_brute_force(seed: int, tmp_path: Path) -> None:
    rows = priced(seed)
    write(tmp_path, rows)
    frame = efficiency.costs(plan_cells.read(tmp_path)).rows
    able = [row for row in rows if row["planner"] != "refuser"]
    common = {
        case
        for case in {row["case_id"] for row in rows}
        if all(row["success"] for row in able if row["case_id"] == case)
    }
    assert common, "the test has something to compare"
    for model in ("tiny", "small"):
        for planner in ("fh", "sh"):
            own = [row for row in rows if (row["model"], row["planner"]) == (model, planner)]
            by_case = pd.DataFrame([row for row in own if row["case_id"] in common]).groupby("case_id")
            found = at(frame, model=model, planner=planner)
            assert found["common"] == len(common)
            assert found["common_cost"] == pytest.approx(by_case["plan_cost"].mean().mean())
            assert found["common_least_cost"] == pytest.approx(by_case["least_cost"].mean().mean())
            solved = pd.DataFrame([row for row in own if row["success"]]).groupby("case_id")
            assert found["solved_cost"] == pytest.approx(solved["plan_cost"].mean().mean())
            every = pd.DataFrame(own).groupby("case_id")["plan_cost"].mean().mean()
            assert found["plan_cost"] == pytest.approx(every)
    (table,) = efficiency.efficiency_tables(tmp_path, plan_cells.read(tmp_path))
    assert any("solve no case" in note and "refuser (tiny)" in note for note in table.notes)


def by_steps() -> list[dict[str, Any]]:
    rows = []
    for k, share in ((1, 0.9), (2, 0.6), (3, 0.3)):
        for stage, change in (("early", 0.0), ("middle", 0.0), ("late", -0.2)):
            right = flips(k, 40, share + change)
            rows += [
                episode("stepwise", "stepwise", case, success=right[case], horizon_k=k, stage=stage, plan_errors=[])
                for case in range(40)
            ]
    return rows


def test_correctness_falls_with_horizon_and_stage_as_planted(tmp_path: Path) -> None:
    write(tmp_path, by_steps())
    read = plan_cells.read(tmp_path)
    horizon = efficiency.profile(read, "horizon_k").rows
    assert list(horizon["horizon_k"]) == [1, 2, 3]
    assert list(horizon["success"].round(4)) == [round(share - 0.2 / 3, 4) for share in (0.9, 0.6, 0.3)]
    stage = efficiency.profile(read, "stage").rows
    assert list(stage["stage"]) == ["early", "middle", "late"]
    assert list(stage["success"].round(4)) == [0.9, 0.9, 0.7], "of one step alone, as in the paper"
    assert "cases of one step (k = 1)" in named(efficiency.tables(tmp_path))["stage"].caption


@pytest.mark.long
def test_errors_are_held_against_each_other_where_several_models_ran(tmp_path: Path) -> None:
    made = {"tiny": ["E1", "E5"], "large": ["E5"], "perfect": []}
    rows = [
        episode(family, family, case, success=not errors, model=model, plan_errors=errors * (case < 8),
                horizon_k=1 if family == "stepwise" else None)
        for model, errors in made.items()
        for family in ("holistic", "stepwise")
        for case in range(10)
    ]  # fmt: skip
    rows += [episode("fh", "holistic", case, success=True, plan_errors=["E2"]) for case in range(10)]
    write(tmp_path, rows)
    read = plan_cells.read(tmp_path)
    shares = figures.error_shares(figures.diagnosed(read, NAMES).rows).set_index(["model", "planner"])
    assert list(shares.loc[("tiny", "holistic"), [*ERRORS]]) == [0.5, 0, 0, 0, 0.5, 0]
    assert list(shares.loc[("large", "stepwise"), [*ERRORS]]) == [0, 0, 0, 0, 1, 0]
    assert list(shares.loc[("perfect", "stepwise"), [*ERRORS]]) == [0] * 6
    drawn = {one.name: one for one in figures.drawings(tmp_path, read)}
    assert {"plans-error-shares", "plans-errors-models"} <= set(drawn)
    for name in ("plans-error-shares", "plans-errors-models"):
        words = set(re.findall(r"\w+", " ".join(_TEXTS.findall(drawn[name].svg))))
        assert {"holistic", "wise", "tiny", "large", "perfect"} <= words
        assert "fh" not in words, "one model alone ran it"
    alone = figures.drawings(tmp_path, read[read["model"] == "tiny"])
    assert {one.name for one in alone} == {"plans-errors"}


def test_tasks_of_one_data_set_that_were_chosen_apart_are_one_table(tmp_path: Path) -> None:
    rows = [
        episode(family, family, case, success=True, refine="self[taxonomy=true]", plan_correct=True,
                dataset=f"apb_synthetic[families=['{family}'],horizon=1]", unrefined_correct=False)
        for family in ("holistic", "stepwise")
        for case in range(4)
    ]  # fmt: skip
    write(tmp_path, rows)
    (table,) = [one for one in efficiency.tables(tmp_path) if one.name.startswith("refinement ")]
    assert table.name == "refinement tiny on apb_synthetic"
    assert [row[:3] for row in table.rows] == [
        ["holistic", "holistic", "Self_R+"],
        ["step-wise", "stepwise", "Self_R+"],
    ]


@pytest.mark.parametrize(
    ("label", "short"),
    [
        ("apb_synthetic", "apb_synthetic"),
        ("apb_synthetic[families=['holistic', 'costs']]", "apb_synthetic"),
        ("apb_synthetic[families=['stepwise'],horizon=1]", "apb_synthetic"),
        ("apb_synthetic[families=['stepwise'],scorer=judge]", "apb_synthetic[scorer=judge]"),
        ("apb_synthetic[scorer=judge,horizon=1]", "apb_synthetic[scorer=judge]"),
        ("apb_synthetic[seed=1]", "apb_synthetic[seed=1]"),
    ],
)
def test_a_data_set_is_named_without_the_choice_of_its_tasks(label: str, short: str) -> None:
    assert plan_cells.data_of(label) == short


def test_a_sweep_without_plans_has_none_of_these(tmp_path: Path) -> None:
    write(tmp_path, [episode("react", None, case, success=True, dataset="slate") for case in range(3)])
    assert efficiency.tables(tmp_path) == []


@pytest.mark.long
def test_every_query_runs_and_a_page_holds_tables_and_figures(tmp_path: Path) -> None:
    write(tmp_path, [*planned(20), *distracted(20), *by_steps(), *priced(1)])
    found = print_report(tmp_path, Console(file=io.StringIO(), width=200))
    mine = [table for table in found if table.section == SECTION]
    assert {table.name.split()[0] for table in mine} >= {"plans", "extraneous", "horizon_k", "stage", "costs"}
    drawn = [one for one in drawings.drawings(tmp_path) if one.section == SECTION]
    assert [one.name for one in drawn] == ["plans-errors", "plans-extraneous", "plans-horizon-k", "plans-stage"]
    parts: list[Table | Drawing] = [*mine, *drawn]
    for part in parts:
        assert len(duckdb.connect().execute(part.query).df()), part.title
        assert "scored by: symbolic" in part.caption or part.name.startswith("published ")
        assert "simulated policy: it is not a language model" in part.caption
    page = html.page(tmp_path, found, drawn)
    assert "E2-H" in page
    assert "plans-stage" in page


def test_a_query_gives_the_numbers_of_its_table(tmp_path: Path) -> None:
    write(tmp_path, planned())
    table = named(efficiency.tables(tmp_path))["plans"]
    own = duckdb.connect().execute(table.query).df()
    whole = own[(own["task_family"] == "holistic") & (own["planner"] == "fh")]
    assert whole["E5"].mean() == pytest.approx(RATES["E5"])
    assert whole["E2_holistic"].mean() == pytest.approx(RATES["E2"])
    assert own[own["task_family"] == "stepwise"]["E2_holistic"].isna().all()
