"""What people compare besides planners: models, kinds of cases, and planners over several data sets."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from scipy.stats import rankdata

from analysis import load, summary
from analysis.errors import AnalysisError
from analysis.figures import drawings
from analysis.load import provenance
from analysis.page.table import Table
from analysis.report import print_report
from analysis.tables import by_value, rates, win_rates
from grid import store
from tests.unit.analysis.test_tables import NOON, row, written


def of(root: Path, name: str, **how: Any) -> Table:
    return next(one for one in print_report(root, Console(file=io.StringIO()), **how) if one.name.startswith(name))


@pytest.mark.long
def test_models_are_paired_over_the_cases_that_both_have(tmp_path: Path) -> None:
    for model, shares in (("small", {"react": 0.2, "cot": 0.5}), ("large", {"react": 0.9, "cot": 0.5})):
        written(tmp_path, shares, model=model)
    found = of(tmp_path, "models slate")
    by_planner = {entry["planner"]: entry for entry in found.values.to_dict("records")}
    assert {entry["reference"] for entry in by_planner.values()} == {"large"}, "the first by name"
    assert by_planner["react"]["success"] == pytest.approx(-0.7)
    assert by_planner["react"]["success_high"] < 0
    assert by_planner["cot"]["success"] == 0.0
    every = by_planner.pop(rates.EVERY_PLANNER)
    assert every["success"] == pytest.approx(-0.35), "each case's mean over both planners"
    assert every["cases"] == 10
    assert every["success_high"] < 0
    turned = load.episodes(tmp_path).rename(columns={"model": "planner", "planner": "model"})
    paired = rates.paired_differences(turned, "large").set_index("model")
    for planner, entry in by_planner.items():
        assert entry["success_low"] == pytest.approx(paired["success_low"][planner]), "as planners are compared"


def test_a_table_of_models_names_whom_each_is_compared_with() -> None:
    both = [row("react", 0, 0, 1.0) | {"model": model} for model in ("a", "b", "c")]
    later = [row("cot", 0, 0, 1.0) | {"model": model} for model in ("b", "c")]
    for rows, minus in ((both, None), ([*both, *later], {"react": "a", "cot": "b"})):
        paired = rates.corrected(rates.paired_models(rates.by_case(pd.DataFrame(rows)).rows))
        table = rates.models_table(paired, "SELECT 1")
        assert ("difference from a with" in table.title) == (minus is None)
        assert ("minus" in table.figures) == (minus is not None)
        if minus:
            planner, against = table.labels.index("planner"), len(table.labels) + table.figures.index("minus")
            found = {texts[planner]: texts[against] for texts in table.rows}
            assert {name: found[name] for name in minus} == minus


def test_all_planners_are_those_that_have_a_case_with_both_models() -> None:
    values = [("large", "react", 0, 1.0), ("small", "react", 0, 0.0), ("large", "cot", 0, 0.0),
              ("small", "cot", 0, 0.0), ("large", "egb", 0, 1.0),
              ("large", "react", 1, 1.0), ("small", "cot", 1, 1.0)]  # fmt: skip
    rows = [row(planner, case, 0, value) | {"model": model} for model, planner, case, value in values]
    found = rates.paired_models(rates.by_case(pd.DataFrame(rows)).rows).set_index("planner")
    every = found.to_dict("index")[rates.EVERY_PLANNER]
    assert (every["cases"], every["success"]) == (1, -0.5)
    alone = [entry for entry in rows if entry["planner"] == "react"]
    assert list(rates.paired_models(rates.by_case(pd.DataFrame(alone)).rows)["planner"]) == ["react"]


@pytest.mark.long
def test_a_caption_speaks_of_its_own_tables_models(tmp_path: Path) -> None:
    for model, engine in (("lab", "lexical"), ("told", "simulated")):
        for robustness in ("none", "extraneous"):
            written(tmp_path, {"react": 0.2, "cot": 0.5}, robustness, model=model, engine=engine)
    tables = {one.name: one for one in print_report(tmp_path, Console(file=io.StringIO()))}
    lexical, simulated = "lexical engine: it is not a language model", "simulated policy: it is not a language model"
    for model, own, other in (("lab", lexical, simulated), ("told", simulated, lexical)):
        for name in ("results", "differences react", "costs", "disturbances"):
            caption = tables[f"{name} {model} slate"].caption
            assert caption.startswith(own)
            assert other not in caption
        (figure,) = (one for one in drawings.drawings(tmp_path) if one.name == f"failures {model} slate")
        assert figure.caption.startswith(own)
        assert other not in figure.caption
        assert f"{model} on slate" in figure.svg
    assert lexical in tables["models slate"].caption
    assert simulated in tables["models slate"].caption
    (drawing,) = summary.drawings([*tables.values()])
    assert lexical in drawing.caption
    assert simulated in drawing.caption
    first = provenance.headline(tmp_path)
    assert first.startswith("This shows 2 models. lab: a lexical engine")
    assert "language models. told: a simulated policy" in first


@pytest.mark.long
def test_one_model_has_no_table_of_models(tmp_path: Path) -> None:
    written(tmp_path, {"react": 0.2, "cot": 0.5})
    names = [one.name for one in print_report(tmp_path, Console(file=io.StringIO()))]
    assert not [name for name in names if name.startswith(("models", win_rates.NAME))]


def cells(data: int, planners: dict[str, float], cases: int = 30, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng([seed, data])
    rows = [
        row(planner, case, 0, float(rng.random() < share)) | {"dataset": f"data_{data}", "disturbed": False}
        for planner, share in planners.items()
        for case in range(cases)
    ]
    return pd.DataFrame(rows)


def test_ranks_are_those_of_each_data_set_and_their_means() -> None:
    shares = {"a": 0.9, "b": 0.5, "c": 0.5, "d": 0.1}
    episodes = pd.concat([cells(data, shares) for data in range(5)])
    found = win_rates.ranks(episodes).rows.set_index("planner")
    success = episodes.groupby(["dataset", "planner"])["success"].mean().unstack()
    by_hand = rankdata(-success.to_numpy(), axis=1).mean(axis=0)
    assert found.loc[success.columns, "rank"].to_numpy() == pytest.approx(by_hand)
    assert found.index[0] == "a"
    assert found.index[-1] == "d"
    assert found["mean"].to_dict() == pytest.approx(success.mean().to_dict())
    assert (found["rank_low"] <= found["rank"]).all()
    assert (found["rank"] <= found["rank_high"]).all()
    assert found["rank_high"]["a"] < found["rank_low"]["d"], "a planted order is found"


@pytest.mark.long
def test_the_interval_of_a_rank_covers() -> None:
    """Four equal planners have a mean rank of 2.5 each."""
    inside = total = 0
    for seed in range(20):
        episodes = pd.concat([cells(data, dict.fromkeys("abcd", 0.5), seed=seed) for data in range(4)])
        found = win_rates.ranks(episodes).rows
        inside += int(((found["rank_low"] <= 2.5) & (found["rank_high"] >= 2.5)).sum())
        total += len(found)
    assert inside / total > 0.9


def test_a_planner_that_did_not_run_on_all_data_sets_has_no_rank() -> None:
    episodes = pd.concat([cells(0, {"a": 0.9, "b": 0.5, "c": 0.2}), cells(1, {"a": 0.9, "b": 0.5})])
    assert set(win_rates.ranks(episodes).rows["planner"]) == {"a", "b"}
    assert win_rates.ranks(cells(0, {"a": 0.9, "b": 0.5})).rows.empty, "one data set has no mean"
    assert win_rates.ranks(pd.concat([cells(0, {"a": 0.9}), cells(1, {"a": 0.5})])).rows.empty, "nor has one planner"


def with_depth(root: Path) -> None:
    rows = []
    for planner in ("react", "cot"):
        for case in range(12):
            right = case % 3 == 0 or planner == "cot"
            costs = {cost: 1 for cost in rates.COSTS if cost not in ("wall_seconds", "unassigned")}
            told = {"depth": 1 + case % 3, "success": right, "created_at": NOON, "attempt_id": "a"}
            rows.append(row(planner, case, 0, float(right)) | costs | told)
    store.write(root, {"episodes": rows})


@pytest.mark.long
def test_success_is_told_by_the_values_of_a_column(tmp_path: Path) -> None:
    with_depth(tmp_path)
    found = of(tmp_path, "by depth", by=["depth"])
    assert found.figures == ["1 (4)", "2 (4)", "3 (4)"]
    means = {(one["planner"], one["value"]): one["success"] for one in found.values.to_dict("records")}
    assert means == {("react", "1"): 1, ("react", "2"): 0, ("react", "3"): 0, **{("cot", str(d)): 1 for d in (1, 2, 3)}}
    rows = duckdb.connect().execute(found.query).df()
    assert rows.groupby(["planner", "depth"])["success"].mean().to_dict() == {
        (planner, int(value)): mean for (planner, value), mean in means.items()
    }


def test_a_column_that_is_not_there_is_refused_with_what_is(tmp_path: Path) -> None:
    with_depth(tmp_path)
    with pytest.raises(
        AnalysisError, match=r"by=deepness: the table `episodes` has no such column( \(did .*\))?; allowed: category, "
    ):
        by_value.tables(tmp_path, "deepness")
    with pytest.raises(AnalysisError, match="by=breadth: no episode has a value for breadth"):
        by_value.tables(tmp_path, "breadth")


def test_numbers_of_many_values_are_binned_and_texts_of_many_refused() -> None:
    rows = pd.DataFrame([row("react", case, 0, float(case % 2)) | {"depth": case} for case in range(40)])
    found = by_value.by_value(rows, "depth").rows
    assert found["cases"].sum() == 40
    assert len(found) == 5
    with pytest.raises(
        AnalysisError, match="by=case_id: the column has 40 different texts, but a table shows at most 24"
    ):
        by_value.by_value(rows, "case_id")


@pytest.mark.parametrize(
    "values",
    [[12340, 12341, 12345], list(range(100_000, 100_060)), [0, 1], [1e6 + case / 1000 for case in range(5)]],
)
def test_numbers_that_are_almost_equal_are_written_as_different_ones(values: list[float]) -> None:
    found = by_value._binned(pd.Series(values), "input_tokens")
    assert len(found.cat.categories) == min(len(values), 5)
    assert found.notna().all()
    assert found.is_monotonic_increasing, "bins in the order of the numbers"
    if len(values) <= 5:
        assert [float(text) for text in found] == values


@pytest.mark.long
def test_the_query_of_models_gives_their_cases(tmp_path: Path) -> None:
    for model in ("small", "large"):
        written(tmp_path, {"react": 0.2}, model=model)
    rows = duckdb.connect().execute(of(tmp_path, "models slate").query).df()
    assert len(rows) == 20
