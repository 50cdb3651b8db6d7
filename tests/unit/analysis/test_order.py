"""The order of methods, published and ours: Kendall's tau-b and what is said of it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
from scipy import stats

from analysis.errors import AnalysisError
from analysis.page.table import Table
from analysis.papers import files, order
from analysis.papers import published as tables
from analysis.papers.files import Published
from analysis.papers.order import AGREES, DISAGREES, UNKNOWN, Order
from analysis.stats.intervals import CLUSTER
from grid import store
from tests.support.searched import episode

PLANTED = {"zero_shot": 0.1, "react": 0.35, "tot": 0.6, "tooltree": 0.9}
TABLE: dict[str, Any] = {
    "paper": "paper",
    "table": "1",
    "title": "a title",
    "metrics": {"Success": {"column": "success", "unit": "percent"}},
    "labels": ["data", "method"],
    "ours": {"dataset": "slate"},
    "rows": [
        {"labels": ["shop", name], "ours": {"planner": name}, "figures": {"Big": [100 * share]}}
        for name, share in PLANTED.items()
    ],
}


def by_brute_force(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """By the definition, pair by pair (Kendall 1945)."""
    alike = ours_untied = theirs_untied = 0
    for (one, other), (first, second) in zip(
        itertools.combinations(ours, 2), itertools.combinations(theirs, 2), strict=True
    ):
        alike += int(np.sign(one - other)) * int(np.sign(first - second))
        ours_untied += one != other
        theirs_untied += first != second
    below = (ours_untied * theirs_untied) ** 0.5
    return alike / below if below else float("nan")


@pytest.mark.parametrize("methods", [2, 3, 5, 9])
def test_tau_is_that_of_scipy_and_of_the_definition_ties_or_not(methods: int) -> None:
    random = np.random.default_rng(methods)
    ours = random.integers(0, 4, (60, methods)).astype(float)
    theirs = random.integers(0, 5, methods).astype(float)
    found = order.tau_b(ours, theirs)
    expected = [stats.kendalltau(row, theirs).statistic for row in ours]
    assert found == pytest.approx(expected, nan_ok=True)
    assert found == pytest.approx([by_brute_force(list(row), list(theirs)) for row in ours], nan_ok=True)


def test_rounding_makes_no_order() -> None:
    ours = np.array([[0.1 + 0.2, 0.3, 1.0], [3e5 * (1 + 1e-12), 3e5, 4e5]])
    assert order.tau_b(ours, np.array([1.0, 2.0, 3.0])) == pytest.approx([2 / 6**0.5] * 2)


def drawn(shares: Sequence[float], clusters: int, seed: int, size: int = 2) -> list[pd.Series[float]]:
    """Each method's success on the same cases, in clusters of `size`."""
    random = np.random.default_rng(seed)
    index = pd.MultiIndex.from_tuples(
        [(f"c{place}", f"{place}-{case}") for place in range(clusters) for case in range(size)], names=[CLUSTER, "case"]
    )
    return [pd.Series((random.random(len(index)) < share).astype(float), index) for share in shares]


def compared(methods: Sequence[pd.Series[float]], published: Sequence[float]) -> Order:
    found = order.order(methods, published)
    assert found is not None
    return found


def test_a_planted_order_is_recovered_and_its_reverse_is_the_reverse() -> None:
    methods, published = drawn(list(PLANTED.values()), 40, 1), list(PLANTED.values())
    found = compared(methods, published)
    assert (found.tau, found.alike, found.pairs, found.verdict) == (1, 6, 6, AGREES)
    assert (found.methods, found.cases, found.clusters) == (4, 80, 40)
    assert found.by_chance == pytest.approx(1 / 24), "one of all orders of four"
    reverse = compared(methods, published[::-1])
    assert (reverse.tau, reverse.alike, reverse.verdict) == (-1, 0, DISAGREES)
    assert (reverse.low, reverse.high) == (-found.high, -found.low)


@pytest.mark.long
@pytest.mark.parametrize("methods", [3, 5])
def test_methods_that_are_equal_are_seldom_said_to_have_an_order(methods: int) -> None:
    published = list(range(methods))
    said = [compared(drawn([0.5] * methods, 30, seed), published).verdict for seed in range(100)]
    assert said.count(UNKNOWN) >= 90


def test_the_order_of_cases_and_of_methods_changes_nothing() -> None:
    methods, published = drawn([0.2, 0.4, 0.5, 0.5], 25, 3), [4.0, 1.0, 2.0, 8.0]
    found = compared(methods, published)
    shuffled = [one.sample(frac=1, random_state=place) for place, one in enumerate(methods)]
    assert compared(shuffled, published) == found
    turned = compared(methods[::-1], published[::-1])
    assert turned == found


def test_few_clusters_and_ties_leave_it_open() -> None:
    few = compared(drawn([0.0, 0.5, 1.0], 9, 1), [1, 2, 3])
    assert few.tau == 1
    assert np.isnan(few.low)
    assert few.verdict == UNKNOWN
    tied = compared(drawn([0.0, 0.0, 0.0], 30, 1), [1, 2, 3])
    assert np.isnan(tied.tau)
    assert tied.verdict == UNKNOWN


def test_only_cases_that_all_methods_have_count() -> None:
    methods = drawn([0.1, 0.5, 0.9], 30, 2)
    cut = [methods[0].iloc[:40], methods[1].iloc[10:], methods[2]]
    found = compared(cut, [1, 2, 3])
    assert (found.cases, found.clusters) == (30, 15)
    assert found == compared([one.iloc[10:40] for one in methods], [1, 2, 3])
    assert order.order([methods[0].iloc[:10], methods[1].iloc[20:], methods[2]], [1, 2, 3]) is None


def rows(planners: Mapping[str, float], cases: int = 60, **other: Any) -> list[dict[str, Any]]:
    """Of each planner so many cases solved, spread over them."""
    cells = [
        episode(planner, case, (case * 7 + place) % cases < share * cases, **other)
        for place, (planner, share) in enumerate(planners.items())
        for case in range(cases)
    ]
    for cell in cells:
        own = f"{cell['model']}/{cell['cell_id']}"
        cell |= {"setting_id": f"{cell['model']}/{cell['setting_id']}", "cell_id": own, "cell_key": own}
    return cells


def ordered(root: Path, cells: Sequence[Mapping[str, Any]], **change: Any) -> Table | None:
    store.write(root, {"episodes": list(cells)})
    found = tables.tables(root, [Published.model_validate(TABLE | change)])
    assert [table.name for table in found[:1]] == ["published paper 1"]
    return next((table for table in found if table.name == order.NAME), None)


def test_a_report_has_the_order_behind_the_published_tables(tmp_path: Path) -> None:
    table = ordered(tmp_path, rows(PLANTED))
    assert table is not None
    (row,) = table.rows
    assert row[:6] == ["paper 1", "shop", "Success", "Big", "tiny", "slate"]
    assert row[6:] == ["4", "6 of 6", "30", "+1.00", "[+1.00, +1.00]", "0.04", AGREES]
    assert table.reading == "Of 1 orders, 1 agree with the published order, 0 disagree, and 0 are undecided."
    assert not table.notes, "no simulated policy"
    asked = duckdb.connect().execute(table.query).df().groupby("planner")["success"].mean()
    assert asked.sort_values().index.tolist() == list(PLANTED)


def test_of_a_simulated_policy_it_is_said_to_be_planted(tmp_path: Path) -> None:
    table = ordered(tmp_path, rows(PLANTED, engine="simulated"))
    assert table is not None
    assert "planted" in table.notes[0]


def test_each_model_is_compared_with_each_and_each_data_set_alone(tmp_path: Path) -> None:
    other = [dict(row, figures={"Big": row["figures"]["Big"], "Small": [50.0]}) for row in TABLE["rows"]]
    cells = [*rows(PLANTED), *rows(PLANTED, model="other"), *rows(PLANTED, robustness="extraneous")]
    table = ordered(tmp_path, cells, rows=other)
    assert table is not None
    assert [(row[3], row[4], row[5]) for row in table.rows] == [
        (theirs, ours, data)
        for data, models in (("slate", ("other", "tiny")), ("slate / extraneous", ("tiny",)))
        for theirs in ("Big", "Small")
        for ours in models
    ], table.rows
    assert {row[-1] for row in table.rows if row[3] == "Small"} == {UNKNOWN}, "figures that are all equal"


@pytest.mark.parametrize("change", [{"ours": {"dataset": "slate", "planner": "react"}}, {"metrics": "none"}])
def test_without_three_methods_there_is_no_order(change: dict[str, Any], tmp_path: Path) -> None:
    if change == {"metrics": "none"}:
        change = {"metrics": {"Success": {"column": None, "unit": "percent"}}}
        change["unpublished"] = {"ours": {"column": "success", "unit": "percent"}}
    else:
        change = {"rows": TABLE["rows"][:2]}
    assert ordered(tmp_path, rows(PLANTED), **change) is None


def test_rows_of_other_conditions_are_other_parts_and_a_row_of_two_settings_is_the_unchanged_ones(
    tmp_path: Path,
) -> None:
    other = [
        {"labels": ["shop 2", row["labels"][1]], "ours": row["ours"] | {"retriever": "bm25"}, "figures": row["figures"]}
        for row in TABLE["rows"]
    ]
    changed = {"react[temperature=0]": 0.99, "tot[a=1]": 0.5, "tot[b=1]": 0.5}
    planners = {name: share for name, share in PLANTED.items() if name != "tot"} | changed
    table = ordered(tmp_path, rows(planners), rows=[*TABLE["rows"], *other])
    assert table is not None
    assert [(row[1], row[6], row[9]) for row in table.rows] == [("shop", "3", "+1.00"), ("shop 2", "3", "+1.00")]


def test_a_row_that_is_not_there_is_told_with_the_file_and_what_there_is() -> None:
    table = files.find("tooltree_table5")
    assert table.row(["TorchHub", "ReAct"]).figures["GPT-4o"][0] == 63.5
    with pytest.raises(AnalysisError) as caught:
        table.row(["TorchHub", "LATS"])
    said = str(caught.value)
    assert said.startswith(
        "analysis/papers/tables/tooltree_table5.yaml: there is no row 'TorchHub, LATS'; the rows are: HuggingFace, "
        "Zero-shot;"
    )
    assert "TorchHub, ReAct" in said
    assert "\n" not in said
    with pytest.raises(
        AnalysisError,
        match=r"analysis/papers/tables/tooltree_table99\.yaml: there is no such file; the files are: .*tooltree_table5",
    ):
        files.find("tooltree_table99")
