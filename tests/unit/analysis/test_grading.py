"""An evaluator's verdicts on answers found in a knowledge base, and the planning-horizon study's tables of them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest

from analysis.load import grading, unknowns
from analysis.page.table import Table
from analysis.papers import published as beside
from analysis.papers import study
from analysis.stats.spec import load as read_spec
from grid import store
from grid.core.engine import Prompt
from grid.core.types import Trajectory
from grid.datasets.freebase.dataset import GrailQA
from grid.datasets.grading import FOUND
from grid.datasets.kqa.dataset import KqaSynthetic
from grid.datasets.question_answering import QuestionAnswering
from tests.support import simulated
from tests.support.freebase import write


class Grader:
    """Names a place, and keeps what it was shown."""

    def __init__(self, place: int | None) -> None:
        self.place, self.shown = place, list[str]()

    async def vote(
        self, prompt: Prompt, candidates: Sequence[str], *key: object, temperature: float = 0.0
    ) -> int | None:
        assert candidates == tuple(FOUND.grades.values())
        self.shown.append(prompt.text())
        return self.place


def said(dataset: QuestionAnswering[Any], case_id: str, answer: str | None, grader: Grader) -> Mapping[str, Any]:
    examine = dataset.problem(case_id).examine
    assert examine is not None
    return asyncio.run(examine(Trajectory((), (), answer=answer), grader))  # type: ignore[arg-type]


@pytest.fixture(params=["kqa_synthetic", "grailqa"])
def dataset(request: pytest.FixtureRequest, tmp_path: Path) -> QuestionAnswering[Any]:
    return KqaSynthetic() if request.param == "kqa_synthetic" else GrailQA(path=write(tmp_path), held_out=0.0)


@pytest.mark.long
def test_an_answer_from_a_knowledge_base_has_one_of_four_grades(dataset: QuestionAnswering[Any]) -> None:
    case_id = next(iter(dataset.questions))
    question = dataset.questions[case_id]
    for place, grade in enumerate(("correct", "partially_correct", "incorrect", "refusal")):
        grader = Grader(place)
        assert said(dataset, case_id, "The answer is SAID.", grader) == {
            "verdict": grade, "accuracy": grade == "correct"
        }  # fmt: skip
        (shown,) = grader.shown
        assert shown.count("The answer is SAID.") == 1
        assert question.text in shown
        assert question.right in shown
    nobody = Grader(0)
    for answer in (None, " "):
        assert said(dataset, case_id, answer, nobody) == dataset.unsolved(case_id)
    assert nobody.shown == [], "silence is a refusal, and nobody is asked"
    assert said(dataset, case_id, "SAID", Grader(None)) == {}


def test_right_answers_have_names_and_ids(tmp_path: Path) -> None:
    for question in GrailQA(path=write(tmp_path), held_out=0.0).questions.values():
        for answer in question.answers:
            assert answer.value in question.right
            assert (answer.name or answer.value) in question.right


def graded(root: Path, share: float, robustness: Sequence[str], unread: float = 0.0) -> pd.DataFrame:
    """A study whose evaluator, of these settings, says of a share of what failed that it is correct after all."""
    simulated.write(root, count=60)
    rng = np.random.default_rng(0)
    rows = store.read(root, "episodes", wide=True).to_pylist()
    for row in rows:
        asked = row["robustness"] in robustness
        right = row["success"] or rng.random() < share
        known = rng.random() >= unread
        row["verdict"] = ("correct" if right else "partially_correct") if asked and known else None
        row |= {"evaluator": "grader" if asked else None, "evaluator_failures": int(not known) if asked else None}
    store.write(root, {"episodes": [row | {"created_at": simulated.NOON.replace(year=2027)} for row in rows]})
    return pd.DataFrame(rows)


def by_planner(table: Table) -> dict[str, float]:
    (row,) = table.values.to_dict("records")
    return {planner: float(row[f"success_{planner}"]) for planner in ("fh", "sh")}


@pytest.mark.long
def test_the_studys_tables_take_verdicts_where_there_are_any(tmp_path: Path) -> None:
    rows = graded(tmp_path, 0.5, ["tools_forgiving"])
    tables = {table.name: table for table in study.tables(tmp_path, None, beside.tables(tmp_path))}
    exact = rows.groupby(["robustness", "planner"])["success"].mean()
    said_so = (rows["verdict"] == "correct").groupby([rows["robustness"], rows["planner"]]).mean()
    for planner, found in by_planner(tables["accuracy tools_forgiving"]).items():
        assert found == pytest.approx(said_so["tools_forgiving", planner])
        assert found > exact["tools_forgiving", planner] + 0.05
    for planner, found in by_planner(tables["accuracy tools_strict"]).items():
        assert found == pytest.approx(exact["tools_strict", planner]), "nobody was asked there"
    change = tables["robustness"].values.iloc[0]
    for planner in ("fh", "sh"):
        wanted = exact["tools_strict", planner] - said_so["tools_forgiving", planner]
        assert change[f"change_{planner}"] == pytest.approx(wanted)
    published = tables["published planning_horizon 2"].values.query("model == 'lexical (ours)'")
    ours = published.set_index("planner")["accuracy"].dropna()
    assert ours["FH"] == pytest.approx(said_so["tools_forgiving", "fh"])
    for name in ("accuracy tools_forgiving", "robustness", "regression", "coefficients"):
        assert any("that grader called correct" in note for note in tables[name].notes), name
    assert not any("verdict" in note for note in tables["accuracy tools_strict"].notes)
    assert any("no verdicts" in note for note in tables["robustness"].notes)


@pytest.mark.long
def test_the_regression_is_of_verdicts(tmp_path: Path) -> None:
    plain, other = tmp_path / "plain", tmp_path / "graded"
    simulated.write(plain, count=60)
    graded(other, 0.5, ["tools_forgiving", "tools_strict"])
    spec = read_spec(study.PLANNING_HORIZON)
    before, after = (study.regressed(root, spec) for root in (plain, other))
    assert after["success"].mean() > before["success"].mean() + 0.05
    found = {table.name: table for table in study.tables(other)}["regression"]
    assert duckdb.connect().execute(found.query).df()["success"].mean() == pytest.approx(after["success"].mean())


@pytest.mark.long
@pytest.mark.parametrize("how", ["left_out", "failure"])
def test_a_verdict_that_could_not_be_read_is_unknown_and_counted(tmp_path: Path, how: str) -> None:
    rows = graded(tmp_path, 0.0, ["tools_forgiving"], unread=0.2)
    with unknowns.counted(how):
        table = {table.name: table for table in study.tables(tmp_path)}["accuracy tools_forgiving"]
        found = by_planner(table)
        asked = duckdb.connect().execute(table.query).df().groupby("planner")["success"].mean()
    own = rows[rows["robustness"] == "tools_forgiving"]
    right = (own["verdict"] == "correct").astype(float).where(own["verdict"].notna() | (how == "failure"))
    by_case = right.groupby([own["planner"], own["case_id"]]).mean().unstack("planner").dropna()
    assert found == pytest.approx(by_case.mean().to_dict())
    assert asked[["fh", "sh"]].to_dict() == pytest.approx(right.groupby([own["planner"], own["case_id"]]).mean()
                                                          .groupby("planner").mean().to_dict())  # fmt: skip
    lacking = int(own["verdict"].isna().sum())
    assert lacking > 0
    assert any(
        re.search(rf"in {lacking} of {len(own)} cells the verdict could not be read", note) for note in table.notes
    )


def test_nothing_is_said_where_there_are_no_verdicts(tmp_path: Path) -> None:
    simulated.write(tmp_path, count=20)
    episodes = study.rows(tmp_path)
    assert grading.notes(episodes) == []
