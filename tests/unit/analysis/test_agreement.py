"""Agreement between scorers of plans: its measures, human labels, and the command's tables."""

from __future__ import annotations

import asyncio
import io
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from statsmodels.stats.inter_rater import cohens_kappa

from analysis.errors import AnalysisError
from analysis.page.render import show
from analysis.papers import agreement as plans
from analysis.papers.agreement import Comparison
from analysis.stats import agreement as measures
from analysis.stats.agreement import read_labels
from analysis.stats.intervals import CLUSTER
from grid import store
from grid.cells.run import Stamp, run_chunk
from grid.core.errors import DataError
from grid.core.types import ERRORS
from grid.settings.build import build
from grid.settings.config import BudgetConfig
from grid.settings.setting import cells
from launch import agreement
from launch.agreement import write
from tests.support.apb import write as write_records
from tests.support.configs import setting_of, yaml


def judged(seed: int, size: int = 240, accuracy: float = 0.85, clusters: int = 60) -> pd.DataFrame:
    """Plans of which a judge says what is true with this probability, verdict and each error alone."""
    rng = np.random.default_rng(seed)
    found: dict[str, Any] = {}
    for name in ("correct", *ERRORS):
        true = rng.random(size) < 0.4
        found[f"true_{name}"] = true.astype(float)
        found[f"said_{name}"] = np.where(rng.random(size) < accuracy, true, ~true).astype(float)
    found["true_grade"] = rng.choice([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], size)
    found["said_grade"] = rng.choice([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], size)
    found |= {"same": rng.integers(0, 2, size).astype(float), "model": rng.choice(["big", "small"], size)}
    index = pd.Index([f"c{number}" for number in rng.integers(0, clusters, size)], name=CLUSTER)
    return pd.DataFrame(found, index=index)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(5))
def test_measures_are_those_of_statsmodels_and_scikit_learn(seed: int) -> None:
    sk = pytest.importorskip("sklearn.metrics")
    frame = judged(seed, accuracy=0.55 + 0.1 * seed)
    said, true = frame["said_correct"].astype(bool), frame["true_correct"].astype(bool)
    found = measures.against(frame)
    table = pd.crosstab(said, true).reindex(index=[False, True], columns=[False, True], fill_value=0)
    assert found["kappa"].mean == pytest.approx(cohens_kappa(table.to_numpy()).kappa)
    assert found["agreement"].mean == pytest.approx(sk.accuracy_score(true, said))
    assert found["precision"].mean == pytest.approx(sk.precision_score(true, said))
    assert found["recall"].mean == pytest.approx(sk.recall_score(true, said))
    assert found["f1"].mean == pytest.approx(sk.f1_score(true, said))
    assert found["mae"].mean == pytest.approx(sk.mean_absolute_error(frame["true_grade"], frame["said_grade"]))
    flags = [frame[[f"{who}_{name}" for name in ERRORS]].to_numpy() for who in ("said", "true")]
    assert found["error_types"].mean == pytest.approx(float((flags[0] == flags[1]).mean()))
    for name, error in measures.per_error(frame).items():
        assert error["f1"].mean == pytest.approx(sk.f1_score(frame[f"true_{name}"], frame[f"said_{name}"]))
    for one in found.values():
        assert one.low <= one.mean <= one.high


@pytest.mark.long
def test_resampled_intervals_cover_a_planted_kappa() -> None:
    accuracy, rate = 0.85, 0.4
    said = rate * accuracy + (1 - rate) * (1 - accuracy)
    chance = said * rate + (1 - said) * (1 - rate)
    planted = (accuracy - chance) / (1 - chance)
    covered = [found.low <= planted <= found.high for found in (
        measures.against(judged(seed))["kappa"] for seed in range(60)
    )]  # fmt: skip
    assert sum(covered) >= 51


def test_the_interval_is_wider_where_plans_of_a_cluster_are_alike() -> None:
    frame = judged(3, size=120, clusters=120)
    alike = pd.concat([frame] * 4)
    one, four = (measures.against(found)["kappa"] for found in (frame, alike))
    assert four.mean == pytest.approx(one.mean)
    assert four.high - four.low == pytest.approx(one.high - one.low, rel=0.05)


def test_what_is_not_defined_is_not_told() -> None:
    frame = judged(1)
    assert math.isnan(measures.against(frame.assign(said_correct=1.0, true_correct=1.0))["kappa"].mean)
    assert math.isnan(measures.against(frame.assign(said_correct=0.0, true_correct=0.0))["f1"].mean)
    assert math.isnan(measures.against(frame.assign(said_correct=np.nan))["agreement"].mean)
    assert math.isnan(measures.against(frame.set_index(pd.Index(["c"] * len(frame), name=CLUSTER)))["kappa"].low)
    assert "E4" not in measures.per_error(frame.assign(said_E4=0.0, true_E4=0.0))
    assert measures.against(frame.assign(said_correct=0.0))["kappa"].mean == pytest.approx(0)


def test_a_planted_bias_is_found_and_none_where_there_is_none() -> None:
    frame = judged(2, size=2_000, accuracy=1.0, clusters=400)
    assert measures.bias(frame)["rate_bias"].mean == 0
    kind = frame.assign(said_correct=np.where(np.arange(len(frame)) % 5 == 0, 1.0, frame["true_correct"]))
    found = measures.bias(kind)["rate_bias"]
    assert found.low > 0
    assert found.mean == pytest.approx(0.12, abs=0.03)


def test_random_errors_are_a_bias_that_goes_by_how_many_plans_are_right() -> None:
    """The shares of wrong plans passed and of right ones failed are the judge's own; the difference of rates is not."""
    rng = np.random.default_rng(5)
    for rate, sign in ((0.1, 1), (0.9, -1)):
        true = rng.random(3_000) < rate
        said = np.where(rng.random(3_000) < 0.8, true, ~true)
        index = pd.Index([f"c{n % 300}" for n in range(3_000)], name=CLUSTER)
        grades = {"said_grade": np.nan, "true_grade": np.nan}
        found = measures.bias(
            pd.DataFrame(
                {"said_correct": said.astype(float), "true_correct": true.astype(float), **grades}, index=index
            )
        )
        assert sign * found["rate_bias"].mean > 0.1
        for name in ("passed_wrong", "failed_right"):
            assert found[name].mean == pytest.approx(0.2, abs=0.07)


WRONG = [
    ('{"case_id": "a"}', "`correct` is None"),
    ('{"correct": true}', "the label has no case_id"),
    ('{"case_id": "", "correct": true}', "the label has no case_id"),
    ('{"case_id": "a", "correct": "perhaps"}', "`correct` is 'perhaps'"),
    ('{"case_id": "a", "correct": 2}', "`correct` is 2"),
    ('{"case_id": "a", "correct": true, "grade": 7}', "`grade` is 7"),
    ('{"case_id": "a", "correct": true, "grade": true}', "`grade` is True"),
    ('{"case_id": "a", "correct": false, "errors": ["E9"]}', "`errors` is ['E9']"),
    ('{"case_id": "a", "correct": false, "errors": [1]}', "`errors` is [1]"),
    ('{"case_id": "a", "correct": true, "errors": ["E1"]}', "labeled correct, but has errors"),
    ('{"case_id": "a", "correct": true, "eror": []}', "unknown key 'eror'"),
    ('{"case_id": "a", "correct": true, "trial": 1.5}', "must be texts or whole numbers"),
    ('{"case_id": "a", "correct": true, "same": "so"}', "`same` is 'so'"),
    ('{"case_id": "a", ', "broken JSON"),
    ("[]", "a JSON object is expected"),
]


@pytest.mark.parametrize(("line", "why"), WRONG)
def test_a_wrong_label_is_refused_with_its_line(tmp_path: Path, line: str, why: str) -> None:
    file = tmp_path / "labels.jsonl"
    file.write_text(f'{{"case_id": "b", "correct": true}}\n\n{line}\n', encoding="utf-8")
    with pytest.raises(DataError) as caught:
        read_labels(file)
    assert why in str(caught.value)
    assert ":3" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("case_id,correct\na,true,1\n", "the row has 3 cells, but the header has 2"),
        ("case_id,right\na,true\n", "unknown key 'right'"),
        ("case_id,case_id,correct\na,b,1\n", "names a column twice"),
        ("case_id,correct\na,so\n", "`correct` is 'so'"),
        ('case_id,correct\n"a,true\n', "broken CSV"),
        ("case_id,correct,grade\na,true,nan\n", "`grade` is 'nan'"),
        ("", "the file has 0 labels"),
    ],
)
def test_wrong_tables_of_labels_are_refused(tmp_path: Path, text: str, why: str) -> None:
    file = tmp_path / "labels.csv"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=why):
        read_labels(file)


def test_both_forms_of_labels_say_the_same(tmp_path: Path) -> None:
    rows = [
        {"case_id": "a", "correct": True, "grade": 1.0, "errors": [], "planner": "react", "trial": 2},
        {"case_id": "b", "correct": False, "grade": 0.4, "errors": ["E2", "E5"], "planner": "fh", "trial": 0},
    ]
    lines, table = tmp_path / "l.jsonl", tmp_path / "l.csv"
    lines.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    table.write_text("case_id,correct,grade,errors,planner,trial\r\na,yes,1,,react,2\r\nb,0,.4,E5; E2,fh,0\r\n")
    assert [vars(one) | {"line": 0} for one in read_labels(lines)] == [
        vars(one) | {"line": 0} for one in read_labels(table)
    ]
    with pytest.raises(DataError, match=r"must end in \.jsonl or \.csv"):
        read_labels(tmp_path / "labels.txt")


def episodes(scorer: str = "both", judge: str | None = "big", size: int = 12) -> pd.DataFrame:
    """Episodes of two planners as `plans.episodes` gives them: the judge disagrees on every third plan."""
    rows: list[dict[str, Any]] = []
    for number in range(size):
        true, said = number % 2 == 0, (number % 2 == 0) != (number % 3 == 0)
        computed: dict[str, Any] = {
            "plan_correct": true,
            "plan_grade": 1.0 if true else 0.4,
            "plan_errors": () if true else ("E2",),
        }
        judged: dict[str, Any] = {
            "judged_correct": said,
            "judged_grade": 1.0 if said else 0.6,
            "judged_errors": () if said else ("E5",),
        }
        if scorer == "judge":
            computed = {name.replace("judged", "plan"): value for name, value in judged.items()}
            judged = dict.fromkeys(judged)
        rows.append(
            {"cell_id": f"cell{number}", "case_id": f"case{number // 2}", CLUSTER: f"k{number // 4}", "trial": 0,
             "model": "big" if number % 4 < 2 else "small", "planner": ("react", "fh")[number % 2], "dataset": "apb",
             "robustness": "none", "scorer": scorer, "judge": judge, "exact_match": float(number % 4 == 0),
             "judge_contradicted": number == 5, **computed, **judged}
        )  # fmt: skip
    return pd.DataFrame(rows)


def labels(tmp_path: Path, *rows: dict[str, Any]) -> Path:
    file = tmp_path / "labels.jsonl"
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return file


def test_a_label_meets_one_episode_or_is_refused(tmp_path: Path) -> None:
    frame = episodes()
    found = labels(tmp_path, {"case_id": "case0", "planner": "fh", "correct": True}, {"case_id": "x", "correct": True})
    met = plans.matched(frame, read_labels(found), found)
    assert list(met.cells) == ["cell1"]
    assert met.unmatched == 1
    several = labels(tmp_path, {"case_id": "case0", "correct": True})
    with pytest.raises(
        AnalysisError, match=r"jsonl:1: 2 episodes of case0 fit this label; add planner to tell them apart"
    ):
        plans.matched(frame, read_labels(several), several)
    twice = labels(tmp_path, *[{"case_id": "case0", "planner": "fh", "correct": True}] * 2)
    with pytest.raises(AnalysisError, match=r"jsonl:2: line 1 already labels this episode"):
        plans.matched(frame, read_labels(twice), twice)


def test_without_labels_a_judge_is_held_against_what_is_computed() -> None:
    (found,) = plans.comparisons(episodes(), None)
    assert (found.scorer, found.truth, found.asked, found.unreadable) == ("big", "computed", 12, 0)
    assert (found.contradicted, found.verdicts) == (1, 12)
    assert measures.against(found.plans)["agreement"].mean == pytest.approx(8 / 12)
    assert not plans.comparisons(episodes("symbolic", None), None)
    assert not plans.comparisons(episodes("judge"), None)


def test_with_labels_every_scorer_is_held_against_people(tmp_path: Path) -> None:
    right: dict[str, Any] = {"correct": True, "grade": 1, "errors": []}
    rows = [right | {"case_id": f"case{n // 2}", "planner": ("react", "fh")[n % 2]} for n in range(12)]
    file = labels(tmp_path, *rows)
    for scorer, names in (("both", ["big", "computed"]), ("judge", ["big"]), ("symbolic", ["computed"])):
        frame = episodes(scorer, None if scorer == "symbolic" else "big")
        found = plans.comparisons(frame, plans.matched(frame, read_labels(file), file))
        assert [one.scorer for one in found] == names
        assert all(one.truth == "people" for one in found)
        said = {one.scorer: measures.against(one.plans)["agreement"].mean for one in found}
        assert said.get("computed", 0.5) == 0.5
        assert said.get("big", 0.5) == pytest.approx(0.5)


def test_unreadable_verdicts_are_counted_and_in_no_other_figure() -> None:
    frame = episodes()
    for name in ("judged_correct", "judged_grade", "judged_errors", "judge_contradicted"):
        frame[name] = frame[name].astype(object).where(frame.index > 2, None)
    (found,) = plans.comparisons(frame, None)
    assert (found.asked, found.unreadable, found.verdicts) == (12, 3, 9)
    assert len(found.plans.dropna(subset=["said_correct"])) == 9


def test_the_tables_say_what_was_counted_and_what_the_paper_has(tmp_path: Path) -> None:
    found = [*plans.comparisons(episodes(), None), Comparison("judge [x]", "people", judged(1), 240, 0, 3, 240)]
    shown = {table.name: table for table in plans.tables(tmp_path, found)}
    assert list(shown) == ["agreement", "agreement by error", "agreement on other solutions", "judge by model"]
    overall = shown["agreement"]
    assert [row[0] for row in overall.rows[:3]] == ["big", "always correct", "never correct"]
    assert overall.rows[0][5] == "1 (8.3%)"
    assert overall.rows[1][6].startswith("50.0")
    assert "Gemini 3 Pro (blind): 80.83, 79.44, 89.83, 0.843, 0.118, 81.43" in overall.notes
    bias = [row for row in shown["judge by model"].rows if row[0] == "big"]
    assert [(row[2], row[3]) for row in bias] == [("big", "itself"), ("small", "")]
    assert "Gemini 3 Pro by itself: 78.3, 81.7, 0.033, 0.867, 0.897, 0.03" in shown["judge by model"].notes
    for table in shown.values():
        assert show(Console(file=io.StringIO()), table, wide=True)
    folder = write(tmp_path / "agreement", list(shown.values()))
    told = json.loads((folder / "agreement.json").read_text())
    assert told["agreement"][0]["agreement"] == pytest.approx(8 / 12)
    assert told["agreement"][1]["error_types"] is None
    assert (folder / "judge_by_model.csv").read_text().startswith("scorer,truth,model,itself,plans,true_rate")


def test_the_command_reads_a_folder_and_its_labels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A sweep's rows as they are stored, judged by the lexical engine, against labels of every case."""
    data = yaml("dataset", "apb") | {"path": write_records(tmp_path), "order": "file"}
    setting = setting_of(dataset="apb", dataset_values=data, retriever="none", pool="case")
    built, root = build(setting, BudgetConfig(llm_calls=60)), tmp_path / "results"
    chunk = list(cells(setting, built.version, built.dataset.case_ids(), 1))
    rows = asyncio.run(run_chunk(built, setting, chunk, Stamp("s", None))).take()
    store.write(root, rows)
    file = tmp_path / "labels.csv"
    lines = [f"{case},{'true' if number % 2 else 'false'}" for number, case in enumerate(built.dataset.case_ids())]
    file.write_text("case_id,correct\n" + "\n".join(lines) + "\nnowhere,true\n", encoding="utf-8")
    with pytest.raises(AnalysisError, match="nothing to compare"):
        agreement.held_against(root, None)
    found, notes = agreement.held_against(root, file)
    assert notes == ["10 labels match an episode in these results; 1 match none"]
    said = {row["case_id"]: row["success"] for row in rows["episodes"]}
    alike = [said[case] == bool(number % 2) for number, case in enumerate(built.dataset.case_ids())]
    assert found[0].values["agreement"].iloc[0] == pytest.approx(sum(alike) / len(alike))
    assert found[0].rows[0][:2] == ["lexical", "people"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["agreement.py", str(root), "--labels", str(file)])
        assert agreement.main() == 0
        assert "Bias of a scorer for or against models' plans" in capsys.readouterr().out
        assert (root / "agreement" / "agreement.csv").is_file()
        file.write_text("case_id,correct\na,perhaps\n", encoding="utf-8")
        assert agreement.main() == 2
    assert "labels.csv:2: `correct` is 'perhaps'" in capsys.readouterr().err
