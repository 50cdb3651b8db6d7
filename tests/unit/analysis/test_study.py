"""The study's tables recover what was planted, and their queries give the same numbers."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from analysis.figures import drawings
from analysis.page.table import FIRST_SECTION
from analysis.papers import horizon, study
from analysis.papers import published as beside
from analysis.report import print_report
from analysis.stats.intervals import CLUSTER, ratio
from analysis.stats.spec import load
from grid import store
from grid.core.types import to_json
from tests.support import simulated


def frame(values: dict[tuple[str, str], list[float]]) -> pd.DataFrame:
    """One trial a case; the cases' values by planner and robustness."""
    rows = [
        {
            "dataset": "kqa",
            "model": "lexical",
            "robustness": robustness,
            "planner": planner,
            "case_id": f"case-{case}",
            "cluster": f"template-{case}",
            "success": value,
            "repeated_call": value,
            "input_tokens": (100 if planner == "fh" else 300) * (case + 1),
            "output_tokens": 0,
        }
        for (planner, robustness), own in values.items()
        for case, value in enumerate(own)
    ]
    return pd.DataFrame(rows)


def test_table_2_by_hand() -> None:
    found = horizon.accuracy_and_tokens(frame({("fh", "none"): [0, 0, 1, 1], ("sh", "none"): [1, 0, 1, 1]}))
    (row,) = found.to_dict("records")
    assert (row["success_fh"], row["success_sh"], row["success_difference"]) == (0.5, 0.75, 0.25)
    # Differences 1, 0, 0, 0: deviation 0.5, so t(3) * 0.5 / 2 = 3.182 * 0.25 to each side, and no difference passes 1.
    assert row["success_difference_low"] == pytest.approx(0.25 - 0.7956, abs=1e-4)
    assert row["success_difference_high"] == 1
    assert (row["input_tokens_fh"], row["input_tokens_ratio"]) == (250, 3)
    assert np.isnan(row["input_tokens_ratio_low"]), "thrice in every case: nothing varies"
    assert np.isnan(row["output_tokens_ratio"]), "no output at all has no ratio"
    assert (row["cases"], row["unpaired"]) == (4, 0)


def test_cases_of_one_planner_are_left_out_and_counted() -> None:
    rows = frame({("fh", "none"): [0, 1, 1], ("sh", "none"): [1, 0]})
    (row,) = horizon.accuracy_and_tokens(rows).to_dict("records")
    assert (row["cases"], row["unpaired"], row["success_fh"]) == (2, 1, 0.5)
    (row,) = horizon.accuracy_and_tokens(rows[rows["planner"] == "fh"]).to_dict("records")
    assert (row["cases"], row["success_fh"]) == (0, pytest.approx(2 / 3))
    assert np.isnan(row["success_difference"])


def test_intervals_of_a_ratio_cover_it() -> None:
    rng = np.random.default_rng(0)
    held = []
    for _ in range(400):
        shared = rng.lognormal(5, 0.5, 60)
        below, above = shared * rng.lognormal(0, 0.2, 60), 3 * shared * rng.lognormal(0, 0.2, 60)
        cases = pd.Index(range(60), name=CLUSTER)
        found = ratio(pd.Series(above, cases), pd.Series(below, cases))
        held.append(found.low <= 3 <= found.high)
    assert 0.92 <= np.mean(held) <= 0.98


def test_table_4_by_hand() -> None:
    high, low = horizon.HIGH, horizon.LOW
    rows = frame({("fh", high): [1, 1, 1, 0], ("fh", low): [0, 1, 1, 0],
                  ("sh", high): [1, 1, 1, 1], ("sh", low): [0, 0, 1, 1]})  # fmt: skip
    (row,) = horizon.robustness_change(rows).to_dict("records")
    assert (row["change_fh"], row["change_sh"], row["change_difference"]) == (-0.25, -0.5, -0.25)
    assert row["cases"] == 4
    assert horizon.robustness_change(rows[rows["robustness"] == high]).empty


def test_table_4_takes_changed_settings_where_there_are_no_others() -> None:
    high, low = "tools_forgiving[judge=true,similarity=embeddings]", "tools_strict[similarity=embeddings]"
    rows = frame({("fh", high): [1, 1], ("fh", low): [0, 1], ("sh", high): [1, 1], ("sh", low): [0, 0]})
    (row,) = horizon.robustness_change(rows).to_dict("records")
    assert (row["change_fh"], row["change_sh"]) == (-0.5, -1)
    several = pd.concat([rows, rows.assign(robustness=rows["robustness"].replace({low: "tools_strict[candidates=3]"}))])
    assert horizon.robustness_change(several).empty, "which of them?"
    plain = pd.concat([several, rows.assign(robustness=rows["robustness"].replace({low: horizon.LOW}))])
    (row,) = horizon.robustness_change(plain).to_dict("records")
    assert row["change_sh"] == -1


def test_changed_planners_are_models_of_their_own() -> None:
    rows = frame({("fh", "none"): [0], ("fh[temperature=0] / bm25", "none"): [0], ("sh", "none"): [1]})
    found = horizon.folded(rows)
    assert list(found["planner"]) == ["fh", "fh", "sh"]
    assert list(found["model"]) == ["lexical", "lexical, [temperature=0] / bm25", "lexical"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root: Path = tmp_path_factory.mktemp("results") / "it's simulated"
    simulated.write(root, count=60)
    again = store.read(root, "episodes").slice(0, 50).to_pylist()
    store.write(root, {"episodes": [row | {"success": None, "input_tokens": 10**9, "created_at": EARLIER}
                                    for row in again]})  # fmt: skip
    return root


EARLIER = simulated.NOON.replace(year=2025)


def rows_of(query: str) -> pd.DataFrame:
    return duckdb.connect().execute(query).df()


@pytest.mark.long
def test_every_query_runs_and_gives_the_tables_numbers(folder: Path) -> None:
    tables = {table.name: table for table in print_report(folder, Console(file=io.StringIO()))}
    rows = {name: rows_of(table.query) for name, table in tables.items()}
    frame = rows["accuracy tools_forgiving"].groupby("planner")[["success", "input_tokens"]].mean()
    shown = tables["accuracy tools_forgiving"].values.iloc[0]
    for planner in ("fh", "sh"):
        for name in ("success", "input_tokens"):
            assert frame[name][planner] == pytest.approx(shown[f"{name}_{planner}"]), "earlier tries do not count"
    results = rows["results lexical kqa_synthetic"].set_index(["robustness", "planner"])
    for row in tables["results lexical kqa_synthetic"].values.to_dict("records"):
        found = results.loc[(row["robustness"], row["planner"]), ["success", "success_std", "unassigned"]]
        wanted = (row["success_mean"], row["success_std"], row["unassigned"])
        assert tuple(found) == pytest.approx(wanted, nan_ok=True)
    repeated = rows["repeated tools_strict"].groupby("planner")["repeated_call"].mean()
    assert repeated["sh"] == pytest.approx(tables["repeated tools_strict"].values["repeated_call_sh"].iloc[0])
    assert len(rows["regression"]) == 60 * 3 * 2 * 2
    for drawing in (one for one in drawings.drawings(folder) if one.section == FIRST_SECTION):
        assert len(rows_of(drawing.query)) == (60 if drawing.name == "instances" else 60 * 2 * 2)


def test_queries_of_changed_settings_and_several_models_give_their_rows(tmp_path: Path) -> None:
    changed = "tools_strict[similarity=embeddings]"
    cells = [
        simulated.row(cell)
        for model, dataset in (("one", "d"), ("one", "c"), ("two", "c"))
        for robustness in (horizon.HIGH, changed)
        for cell in simulated.episodes(3, 12, 1, robustness=robustness).assign(model=model, dataset=dataset)
        .to_dict("records")
    ]  # fmt: skip
    store.write(tmp_path, {"episodes": cells})
    tables = {table.name: table for table in study.tables(tmp_path)}
    rows, found = rows_of(tables["robustness"].query), tables["robustness"].values
    assert set(rows["robustness"]) == {horizon.HIGH, changed}
    assert len(rows) == len(cells)
    means = rows[rows["planner"] == "sh"].groupby(["dataset", "model", "robustness"])["success"].mean().unstack()
    assert found.set_index(["dataset", "model"])["change_sh"].to_dict() == pytest.approx(
        (means[changed] - means[horizon.HIGH]).to_dict()
    )
    labels = ["model", "dataset", "robustness", "planner", "cluster", "depth_edges"]
    own, fitted = study.rows(tmp_path, ["depth_edges"]), rows_of(tables["regression"].query)
    assert fitted[labels].astype(str).to_numpy().tolist() == own[labels].astype(str).to_numpy().tolist()


@pytest.mark.long
def test_the_studys_tables_tell_what_was_simulated(folder: Path) -> None:
    tables = {table.name: table for table in study.tables(folder)}
    published = [table for table in beside.tables(folder) if table.name.startswith(study.OF_PAPER)]
    order = [
        table.title.partition(":")[0].removesuffix(" values beside ours")
        for table in study.tables(folder, None, published)
    ]
    paper = "planning_horizon, table"
    assert order == [
        "table 2", "table 2", f"{paper} 2, published", f"{paper} 2 ratios, published", "table 3",
        f"{paper} 3, published", "table 4", f"{paper} 4, published", "table 5", "table 5", f"{paper} 5, published",
        f"{paper} 5 low robustness, published", "all regression coefficients (planning_horizon C.1)",
        f"{paper} C.1, published",
    ]  # fmt: skip
    change = tables["robustness"].values.iloc[0]
    assert change["change_fh_high"] < 0, "strict tools were planted 0.7 lower on the logit scale"
    depth = tables["coefficients"].values.query("name == 'depth_edges'")
    assert (depth["high"] < 0).all()
    assert len(depth) == 2, "a fit for each robustness setting"
    assert tables["regression"].figures[2:] == [
        "depth_edges", "SH", "breadth_edges", "depth_edges:SH", "breadth_edges:SH"
    ]  # fmt: skip


@pytest.mark.long
def test_figures_say_that_a_policy_is_simulated(tmp_path: Path) -> None:
    rows = simulated.episodes(0, 20).assign(engine="simulated")
    store.write(tmp_path, {"episodes": [simulated.row(row) for row in rows.to_dict("records")]})
    assert [drawing.caption.partition(":")[0] for drawing in drawings.drawings(tmp_path)] == ["simulated policy"] * 7


def test_another_regression_is_fitted_where_the_planners_are_others(tmp_path: Path) -> None:
    rows = simulated.episodes(0, 50).assign(planner="react")
    store.write(tmp_path, {"episodes": [simulated.row(row) for row in rows.to_dict("records")]})
    assert study.tables(tmp_path) == []
    assert [one.name for one in drawings.drawings(tmp_path) if one.section == FIRST_SECTION] == []
    spec = load(study.PLANNING_HORIZON).model_copy(update={"formula": "success ~ depth + C(last_step)", "rows": {}})
    regression, _ = study.tables(tmp_path, spec)
    assert regression.title == "regression: success ~ depth + C(last_step)", "no coefficients of the paper's beside it"
    assert regression.rows[0][:5] == ["kqa_synthetic", "lexical", "tools_forgiving", "150", "50"]


def test_the_published_analysis_has_the_same_coefficients_and_the_papers_beside(folder: Path) -> None:
    own, published = (load(study.PLANNING_HORIZON.with_stem(name)) for name in ("planning_horizon", "as_published"))
    ours, theirs = ({table.name: table for table in study.tables(folder, spec)} for spec in (own, published))
    assert [*ours] == [*theirs]
    assert [table.title for table in ours.values()] == [table.title for table in theirs.values()]
    both = ours["coefficients"].values.merge(theirs["coefficients"].values, on=["robustness", "name"])
    assert len(both) == len(ours["coefficients"].values) > 0
    assert both["coefficient_x"].to_numpy() == pytest.approx(both["coefficient_y"].to_numpy())
    assert (both["se_x"] > both["se_y"]).all(), "60 questions are few: the plain sandwich is too small"
    assert "robust standard errors clustered by dataset and case_id" in theirs["regression"].caption
    assert any("not corrected" in note for note in theirs["regression"].notes)


def test_a_regression_that_the_data_cannot_carry_is_told_in_the_table(tmp_path: Path) -> None:
    simulated.write(tmp_path, count=6)
    regression = next(table for table in study.tables(tmp_path) if table.name == "regression")
    assert any("not fitted" in note for note in regression.notes)


@pytest.mark.parametrize(
    ("kind", "told"),
    [("template", "without questions of the case's own template; the paper includes these"),
     ("question", "including questions of the case's own template, as in the paper")],
)  # fmt: skip
def test_a_note_under_table_2_says_what_demonstrations_left_out(kind: str, told: str, tmp_path: Path) -> None:
    config: dict[str, Any] = {"dataset": {"demonstrations_hold_out": kind}, "planner": {"demonstrations": 10}}
    rows = [simulated.row(row) for row in simulated.episodes(0, 20).to_dict("records")]
    store.write(tmp_path, {"episodes": [row | {"config": to_json(config)} for row in rows]})
    tables = [table for table in study.tables(tmp_path) if table.title.startswith("table 2")]
    assert tables
    for table in tables:
        assert any(told in note and f"demonstrations_hold_out={kind}" in note for note in table.notes)
    none = config | {"planner": {"demonstrations": 0}}
    others = pd.DataFrame({"dataset": ["kqapro", "other"], "config": [to_json(none), "{}"]})
    assert study.held_out(others) == [], "no demonstrations, or nothing tells"
