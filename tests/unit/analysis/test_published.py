"""The papers' tables as data, and which settings of a sweep stand beside them."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import duckdb
import pytest
import yaml

from analysis.errors import AnalysisError
from analysis.page import html
from analysis.page.table import Table
from analysis.papers import files
from analysis.papers import published as tables
from analysis.papers.files import Published
from grid import store
from grid.core.types import to_json
from tests.support.loops import each
from tests.support.published import SIMPLE, episode
from tests.support.searched import NOON
from tests.support.tables import by_metric

TABLES = {(table.paper, table.table): table for table in files.every()}
ROWS = {
    **{("agent_planning_benchmark", table): found for table, found in {"7": (4, 1), "8": (2, 3), "9": (12, 1)}.items()},
    ("traject_bench", "2"): (2, 10), ("traject_bench", "3"): (1, 10), ("traject_bench", "4"): (12, 2),
    ("traject_bench", "5"): (4, 4),
    ("traject_bench", "6"): (6, 2), ("traject_bench", "7"): (3, 2), ("traject_bench", "10"): (2, 10),
    ("traject_bench", "11"): (1, 10), ("tooltree", "2"): (18, 2), ("tooltree", "3"): (27, 1),
    ("egb_slate", "3"): (5, 1), ("egb_slate", "4"): (5, 1), ("egb_slate", "5"): (6, 2), ("egb_slate", "9"): (11, 1),
    ("egb_slate", "2"): (1, 1), ("egb_slate", "6"): (5, 1), ("egb_slate", "figure 6"): (5, 1),
    ("egb_slate", "10"): (6, 1), ("tooltree", "4"): (7, 1), ("tooltree", "6"): (4, 2), ("tooltree", "12"): (5, 1),
    ("tooltree", "1"): (32, 2), ("tooltree", "5"): (16, 2), ("tooltree", "11"): (8, 1),
    ("egb_slate", "7"): (6, 1),
    ("planning_horizon", "2"): (10, 4), ("planning_horizon", "5"): (10, 4), ("planning_horizon", "4"): (10, 4),
    ("planning_horizon", "2 ratios"): (5, 4), ("planning_horizon", "5 low robustness"): (10, 4),
    ("planning_horizon", "3"): (15, 4), ("planning_horizon", "C.1"): (34, 4),
    ("workbench", "all tools"): (1, 3), ("workbench", "domain tools"): (1, 5),
    ("agent_planning_benchmark", "1"): (2, 12), ("agent_planning_benchmark", "1 extraneous"): (1, 12),
    ("agent_planning_benchmark", "1 broken"): (1, 12), ("agent_planning_benchmark", "1 unsolvable"): (4, 12),
    ("agent_planning_benchmark", "2"): (2, 12), ("agent_planning_benchmark", "4"): (8, 6),
    ("agent_planning_benchmark", "5"): (1, 5), ("agent_planning_benchmark", "10"): (7, 1),
    ("agent_planning_benchmark", "11"): (22, 1), ("agent_planning_benchmark", "14"): (3, 12),
    ("agent_planning_benchmark", "12"): (5, 12), ("agent_planning_benchmark", "18"): (2, 12),
    ("agent_planning_benchmark", "15"): (3, 12), ("agent_planning_benchmark", "16"): (5, 12),
    ("agent_planning_benchmark", "17"): (5, 12), ("agent_planning_benchmark", "3"): (6, 3),
}  # fmt: skip
"""Of each table the rows that the paper has, and its models."""
SUMS = {
    ("agent_planning_benchmark", "7"): 1385.465, ("agent_planning_benchmark", "8"): 567.472,
    ("agent_planning_benchmark", "9"): 1446.613,
    ("traject_bench", "2"): 166.904, ("traject_bench", "3"): 104.029, ("traject_bench", "4"): 165.673,
    ("traject_bench", "5"): 149.022,
    ("traject_bench", "6"): 99.097, ("traject_bench", "7"): 62.3, ("traject_bench", "10"): 158.131,
    ("traject_bench", "11"): 101.483, ("tooltree", "2"): 5953.24, ("tooltree", "3"): 1939.9, ("tooltree", "11"): 463.75,
    ("egb_slate", "2"): 1262.35, ("egb_slate", "6"): 1317.9, ("egb_slate", "figure 6"): 235,
    ("egb_slate", "3"): 833.8, ("egb_slate", "4"): 670.2, ("egb_slate", "5"): 4180061.2, ("egb_slate", "9"): 2220096.9,
    ("egb_slate", "10"): 420.3, ("tooltree", "4"): 154409.56, ("tooltree", "6"): 549.9, ("tooltree", "12"): 272.29,
    ("tooltree", "1"): 10733.66, ("tooltree", "5"): 2183.5, ("egb_slate", "7"): 1425.2,
    ("planning_horizon", "2"): 1302591.697, ("planning_horizon", "5"): 216.4, ("planning_horizon", "4"): -1.681,
    ("planning_horizon", "2 ratios"): 70.281, ("planning_horizon", "5 low robustness"): 294.6,
    ("planning_horizon", "3"): 6.067, ("planning_horizon", "C.1"): 212.429,
    ("workbench", "all tools"): 168.55, ("workbench", "domain tools"): 270.30,
    ("agent_planning_benchmark", "1"): 3242.78, ("agent_planning_benchmark", "1 extraneous"): 1683.94,
    ("agent_planning_benchmark", "1 broken"): 1199.8, ("agent_planning_benchmark", "1 unsolvable"): 2259,
    ("agent_planning_benchmark", "2"): 3709.3, ("agent_planning_benchmark", "4"): 5310.6,
    ("agent_planning_benchmark", "5"): 649.4, ("agent_planning_benchmark", "10"): 4520.9,
    ("agent_planning_benchmark", "11"): 1109, ("agent_planning_benchmark", "14"): 4404.4155,
    ("agent_planning_benchmark", "12"): 16998.5543, ("agent_planning_benchmark", "18"): 2691.69,
    ("agent_planning_benchmark", "15"): 4232.8496, ("agent_planning_benchmark", "16"): 7070.17,
    ("agent_planning_benchmark", "17"): 9506.41, ("agent_planning_benchmark", "3"): 1563.38,
}  # fmt: skip
"""Of each table the sum of all figures, added up from the paper's text or its official notebook."""
LEFT_OUT = {
    ("tooltree", "1"): 160, ("tooltree", "5"): 24, ("planning_horizon", "C.1"): 3,
    ("agent_planning_benchmark", "3"): 30, ("tooltree", "12"): 1,
    ("egb_slate", "3"): 2, ("egb_slate", "4"): 2, ("egb_slate", "5"): 23,
}  # fmt: skip
"""How many places are empty: rows step by step have two of five columns, end to end three; hallucination of one hub; an
intercept that is not printed; a benchmark has reward or similarity, and direct execution has no plan; a baseline has no
drop; Baseline-LLM has no result; of one model seconds alone are printed, of LATS those of one model."""
HIGHEST = {"share": 1, "percent": 100, "score": 10, "amount": 1e7, "change": 1, "ratio": 10, "logit": 25, "p": 1,
           "mean": 2000, "points": 100, "difference": 1, "count": 500, "cases": 2000}  # fmt: skip
SIGNED = ("change", "logit", "points", "difference")
HARD = {**SIMPLE, "level": "hard"}


def figures(table: Published) -> list[float]:
    found = [figure for row in table.rows for values in row.figures.values() for figure in values]
    assert found.count(None) == LEFT_OUT.get((table.paper, table.table), 0)
    return [figure for figure in found if figure is not None]


@each("table", TABLES.values())
def test_every_figure_of_the_paper_is_there(table: Published) -> None:
    key = (table.paper, table.table)
    published = [row for row in table.rows if row.figures]
    assert (len(published), len(table.models)) == ROWS[key]
    every = len(published) * len(table.models) * len(table.metrics)
    assert len(figures(table)) == every - LEFT_OUT.get(key, 0), "every row has every model"
    assert sum(figures(table)) == pytest.approx(SUMS[key], abs=1e-6)
    assert len({tuple(row.labels) for row in table.rows}) == len(table.rows), "rows can be told apart"
    for row in published:
        for values in row.figures.values():
            for figure, metric in zip(values, table.metrics.values(), strict=True):
                lowest = -HIGHEST[metric.unit] if metric.unit in SIGNED else 0
                assert figure is None or lowest <= figure <= HIGHEST[metric.unit]


def test_the_average_of_pass_and_win_is_the_papers_but_for_three() -> None:
    table = TABLES["tooltree", "2"]
    assert list(table.metrics) == ["Pass", "Win", "AVG"]
    others = {}
    for row in table.rows:
        for model, values in row.figures.items():
            passed, won, average = (value for value in values if value is not None)
            if abs((passed + won) / 2 - average) > 0.0051:
                others[row.labels[0], row.labels[1], model] = (passed + won) / 2 - average
            assert won == 50 or row.labels[1] != "Zero-shot", "by definition"
    assert others == {  # as in the paper; a note of the table says so
        ("RestBench-TMDB", "ToolTree", "GPT-4o"): pytest.approx(-0.505),
        ("RestBench-Spotify", "ToolTree", "GPT-4o-mini"): pytest.approx(-0.61),
        ("RestBench-Spotify", "ToolTree", "GPT-4o"): pytest.approx(-1.505),
    }


def test_retrieval_does_not_depend_on_the_model_that_acts() -> None:
    for row in TABLES["traject_bench", "4"].rows:
        rates = {values[0] for values in row.figures.values()}
        assert len(rates) <= 1


@each("path", sorted(files.FOLDER.glob("*.yaml")))
def test_a_file_says_what_it_is_and_is_named_for_it(path: Path) -> None:
    table = files.load(path)
    numbered = f"{table.paper}_table{table.table}"
    assert path.stem == (numbered if table.table.isdigit() else f"{table.paper}_{table.table}".replace(" ", "_"))
    assert path.read_text(encoding="utf-8").startswith("# ")


VALUES: dict[str, Any] = {
    "paper": "paper",
    "table": "1",
    "title": "a title",
    "metrics": {"EM": {"column": "exact_match", "unit": "share"}, "Usage": {"column": "usage", "unit": "percent"}},
    "labels": ["queries"],
    "ours": {"dataset": "traject_bench", "planner": "zero_shot", "dataset.kind": "parallel"},
    "rows": [
        {
            "labels": ["simple"],
            "ours": {"dataset.level": ["simple", None]},
            "figures": {"Big": [0.5, 40], "Small": [0.25, None]},
        },
        {"labels": ["hard"], "ours": {"dataset.level": "hard"}, "figures": {"Big": [0.125, 30]}},
        {"labels": ["another"], "ours": {"dataset.level": "other"}},
        {"labels": ["theirs alone"], "ours": None, "figures": {"Big": [0.0, 0]}},
    ],
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tabel": "1"}, "tabel: Extra inputs"),
        ({"metrics": {"EM": {"column": "exact", "unit": "share"}}}, "'exact' is not one of the columns of episodes"),
        ({"metrics": {"EM": {"column": "se", "unit": "share"}}}, "'se' is not one of the columns of episodes"),
        ({"of": "coefficients"}, "'exact_match' is not one of the figures of a regression's coefficients"),
        ({"against": {"planner": "fh"}}, "metrics.EM.unit: the unit is share, and `against` is"),
        (
            {"metrics": {"EM": {"column": "exact_match", "unit": "change"}}},
            "EM.unit: the unit is change, and `against` is not given",
        ),
        ({"against": {"model": "x"}}, "against.model"),
        ({"metrics": {"EM": {"column": "exact_match", "unit": "%"}}}, "metrics.EM.unit: Input should be 'share'"),
        ({"rows": [{"labels": []}]}, "rows.0: the row has 0 labels, but the table has 1"),
        (
            {"rows": [{"labels": ["x"], "figures": {"Big": [0.5]}}]},
            "rows.0.figures.Big: there are 1 figures, but the table has 2 metrics",
        ),
        ({"rows": [{"labels": ["x"], "figures": {"Big": [0.5, "0.4"]}}]}, "rows.0.figures.Big.1"),
    ],
)
def test_a_wrong_value_names_its_place(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = tmp_path / "table.yaml"
    path.write_text(yaml.safe_dump(VALUES | change))
    with pytest.raises(AnalysisError, match=rf"table\.yaml: .*{message}"):
        files.load(path)


@pytest.mark.parametrize("text", ["!!python/object/apply:os.system [true]", "a: &b 1\nc: *b", "{" * 50])
def test_a_file_is_data_and_bounded(text: str, tmp_path: Path) -> None:
    path = tmp_path / "table.yaml"
    path.write_text(text)
    with pytest.raises(AnalysisError, match=r"table\.yaml"):
        files.load(path)


def beside(root: Path, **change: Any) -> Table:
    (found,) = tables.tables(root, [Published.model_validate(VALUES | change)])
    return found


def by_labels(table: Table) -> dict[tuple[str, ...], dict[str, str]]:
    return {tuple(row[name] for name in ("queries", "our setting", "metric")): row for row in by_metric(table)}


def test_ours_stand_beside_the_rows_that_name_their_settings(tmp_path: Path) -> None:
    cells = [episode(case, exact_match=case < 3, usage=0.5) for case in range(4)]
    cells += [episode(case, data=HARD, exact_match=False) for case in range(4)]
    cells += [episode(case, data={**SIMPLE, "kind": "sequential"}, exact_match=True) for case in range(4)]
    cells += [episode(case, "react", exact_match=True) for case in range(4)]
    store.write(tmp_path, {"episodes": cells})
    table = beside(tmp_path)
    assert table.figures == ["cases", "EM", "Usage, %"]
    models = [row[1] for row in table.rows if row[0] == "simple"]
    assert models == ["Big", "Small", "tiny (ours)"], "ours below theirs"
    rows = by_labels(table)
    em, usage = rows["simple", "zero_shot", "EM"], rows["simple", "zero_shot", "Usage, %"]
    assert em["tiny (ours)"].startswith("0.750 ["), "of the other settings nothing"
    assert (em["cases"], em["Big"], em["Small"]) == ("4", "0.500", "0.250")
    assert (usage["tiny (ours)"], usage["Big"], usage["Small"]) == ("50.00 [0.31, 99.69]", "40.00", "–")
    assert rows["hard", "zero_shot", "Usage, %"]["tiny (ours)"] == "–", "what was not measured is not 0"
    assert rows["hard", "zero_shot", "EM"]["tiny (ours)"].startswith("0.000 ["), "what was, is"
    assert rows["hard", "zero_shot", "EM"]["Small"] == "–"
    assert ("another", "–", "EM") not in rows, "neither the paper nor this sweep has it"
    assert rows["theirs alone", "–", "EM"]["Big"] == "0.000"


def test_a_row_may_have_any_of_several_datasets(tmp_path: Path) -> None:
    store.write(tmp_path, {"episodes": [episode(case, exact_match=True) for case in range(4)]})
    either = VALUES["ours"] | {"dataset": ["another", "traject_bench"]}
    found = by_labels(beside(tmp_path, ours=either))
    setting = "zero_shot / traject_bench[kind=parallel,level=simple]"
    assert found["simple", setting, "EM"]["cases"] == "4", "which of them it is stands beside"


def test_metrics_of_ours_alone_stand_below_the_papers(tmp_path: Path) -> None:
    store.write(tmp_path, {"episodes": [episode(0, success=True)]})
    table = beside(tmp_path, unpublished={"Success": {"column": "success", "unit": "percent"}})
    assert table.figures == ["cases", "EM", "Usage, %", "Success, %"]
    row = by_labels(table)["simple", "zero_shot", "Success, %"]
    assert (row["tiny (ours)"], row["Big"], row["Small"]) == ("100.00", "–", "–")
    assert ("hard", "–", "Success, %") not in by_labels(table), "neither of us has it"


def test_win_rates_are_against_zero_shot_and_their_mean_with_pass_needs_both(tmp_path: Path) -> None:
    cells = [episode(case, planner, passed=1.0) for case in range(2) for planner in ("zero_shot", "react", "cot")]
    by_cell = {(cell["planner"], cell["case_id"]): cell for cell in cells}
    wins: list[dict[str, Any]] = []
    for place, (planner, case, against, win) in enumerate(
        [
            ("react", 0, "zero_shot", 1.0),
            ("react", 1, "zero_shot", 0.5),
            ("react", 1, "zero_shot", 0.0),
            ("cot", 0, "react", 1.0),
        ]
    ):
        own, other = (by_cell[name, f"case-{case}"] for name in (planner, against))
        ids = {"comparison_id": str(place), "cell_id": own["cell_id"], "against_cell_id": other["cell_id"]}
        when = NOON + dt.timedelta(minutes=place)
        wins.append(ids | {"planner": planner, "against": against, "win": win, "evaluator": "who", "created_at": when})
    store.write(tmp_path, {"episodes": cells, "comparisons": wins})
    metrics = {"Win": {"column": "win", "unit": "percent"}, "AVG": {"column": ["passed", "win"], "unit": "percent"}}
    rows = [{"labels": ["a"], "ours": {"planner": ["zero_shot", "react", "cot"]}}]
    found = by_labels(beside(tmp_path, rows=rows, metrics=metrics))
    shown = {key[1:]: (row["cases"], row["tiny (ours)"].partition(" ")[0]) for key, row in found.items()}
    assert shown == {
        ("zero_shot", "Win, %"): ("2", "50.00"),
        ("zero_shot", "AVG, %"): ("2", "75.00"),
        ("react", "Win, %"): ("2", "50.00"),
        ("react", "AVG, %"): ("2", "75.00"),
    }, "of two verdicts the later counts, and none that is against another"


def test_of_a_judges_decisions_the_share_that_is_wrong(tmp_path: Path) -> None:
    """A score at its threshold accepts; what nobody knows of is no decision. The query's rows are the table's."""
    thresholds = {"pre_threshold": 0.5, "post_threshold": 0.25}
    cells = [
        episode(case, judge="j") | {"config": to_json({"dataset": dict(SIMPLE), "judge": thresholds})}
        for case in range(3)
    ]
    scores: list[list[tuple[Any, ...]]] = [
        [(0.5, False, 0.25, True), (0.4, True, None, True)],  # two wrong of three
        [(0.6, None, 0.2, False)],  # none of one
        [(0.6, None, None, False)],  # not known
    ]
    names = ("r_pre", "pre_right", "r_post", "post_right")
    nodes = [
        {"cell_id": cell["cell_id"], "attempt_id": cell["attempt_id"], "node": str(place)}
        | dict(zip(names, one, strict=True))
        for cell, own in zip(cells, scores, strict=True)
        for place, one in enumerate(own)
    ]
    store.write(tmp_path, {"episodes": cells, "nodes": nodes})
    metrics = {name: {"column": name, "unit": "percent"} for name in ("judge_error", "success")}
    found = beside(tmp_path, rows=VALUES["rows"][:1], metrics=metrics)
    assert found.values["judge_error"].iloc[-1] == pytest.approx(100 / 3)
    assert found.values["judge_error cases"].iloc[-1] == 2
    assert duckdb.connect().execute(found.query).df()["judge_error"].dropna().tolist() == pytest.approx([2 / 3, 0])


def test_models_are_lines_and_so_are_further_settings(tmp_path: Path) -> None:
    cells = [episode(case, model=model, exact_match=model == "good") for case in range(4) for model in ("good", "bad")]
    cells += [episode(case, "zero_shot[temperature=1]", model="good", exact_match=False) for case in range(4)]
    cells += [episode(case, robustness="extraneous", model="bad", exact_match=True) for case in range(4)]
    store.write(tmp_path, {"episodes": cells})
    table = beside(tmp_path)
    rows = by_labels(table)
    ours = {
        key[1]: [row[model].partition(" [")[0] for model in ("bad (ours)", "good (ours)")]
        for key, row in rows.items()
        if key[::2] == ("simple", "EM")
    }
    assert ours == {
        "zero_shot": ["0.000", "1.000"],
        "zero_shot[temperature=1]": ["–", "0.000"],
        "zero_shot / extraneous": ["1.000", "–"],
    }


def test_a_sweep_of_other_things_has_no_such_table(tmp_path: Path) -> None:
    for number, cell in enumerate((episode(0, dataset="slate"), episode(0, "react"), episode(0, exact_match=None))):
        root = tmp_path / str(number)
        store.write(root, {"episodes": [cell]})
        assert tables.tables(root, [Published.model_validate(VALUES)]) == []


def test_a_name_in_a_page_is_text(tmp_path: Path) -> None:
    hostile = "<script>alert(1)</script>"
    store.write(tmp_path, {"episodes": [episode(case, model=hostile, exact_match=True) for case in range(2)]})
    page = html.page(tmp_path, [beside(tmp_path, title=hostile, notes=[hostile])], [])
    assert hostile not in page
    assert page.count("&lt;script&gt;alert(1)&lt;/script&gt;") >= 3


def test_a_hub_id_or_a_folder_counts_by_its_last_part(tmp_path: Path) -> None:
    """And the folder, where one is given, whatever the hub's id."""
    hub = {"id": "hub/all-MiniLM-L6-v2"}
    given: list[dict[str, Any]] = [
        {"hub": hub, "path": None},
        {"hub": hub, "path": "/models/bge/"},
        {"path": "/models/all-MiniLM-L6-v2"},
    ]
    cells = [
        episode(0, retriever=one, exact_match=True) | dict.fromkeys(("setting_id", "cell_id", "cell_key"), f"{place}")
        for place, one in enumerate(given)
    ]
    store.write(tmp_path, {"episodes": cells})
    for name, count in (("all-MiniLM-L6-v2", 2), ("bge", 1)):
        rows = [{"labels": ["a"], "ours": {"retriever.model": name}}]
        assert len(by_labels(beside(tmp_path, rows=rows))) == count
