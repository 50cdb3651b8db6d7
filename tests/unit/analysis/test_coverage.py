"""The shipped regression's intervals hold what was planted; no study-shaped folder ends its report."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from analysis.papers import study
from analysis.report import print_report
from analysis.stats.spec import load as read_spec
from analysis.tables import regression
from launch.report import write_page
from tests.studies import regressions as coverage
from tests.support import study_shaped

SHIPPED = read_spec(study.PLANNING_HORIZON)


@pytest.fixture(scope="module")
def shapes() -> pd.DataFrame:
    return coverage.questions()


def shares(shapes: pd.DataFrame, questions: int, studies: int) -> pd.Series[float]:
    rng = np.random.default_rng(questions)
    held = [coverage.holds(coverage.episodes(rng, shapes, questions), SHIPPED, shapes) for _ in range(studies)]
    return pd.concat(held)["holds"].astype(float)


@pytest.mark.long
def test_planted_coefficients_are_those_of_a_very_large_study(shapes: pd.DataFrame) -> None:
    """Every question ten times over: estimates come within their errors of what is called planted."""
    rng = np.random.default_rng(0)
    parts = [coverage.episodes(rng, shapes, len(shapes)) for _ in range(10)]
    rows = pd.concat(
        [
            part.assign(case_id=part["case_id"] + f"-{n}", cluster=part["cluster"] + f"-{n}")
            for n, part in enumerate(parts)
        ]
    )
    ((_, found),) = regression.fits(rows, SHIPPED)
    assert isinstance(found, regression.Fit)
    table = found.coefficients.set_index("name")
    planted = pd.Series(coverage.planted(rows, shapes, coverage.TRUTH, found.references))[table.index]
    assert len(table) == 18
    assert ((table["coefficient"] - planted).abs() < 3.5 * table["se"]).all()
    assert (table["se"] < 0.2).all()


@pytest.mark.long
def test_the_shipped_formula_covers(shapes: pd.DataFrame) -> None:
    """40 studies of 60 questions; `-m slow` makes hundreds of four sizes."""
    held = shares(shapes, 60, 40)
    assert len(held) > 300
    assert 0.92 <= held.mean() <= 0.98


@pytest.mark.slow
@pytest.mark.parametrize("questions", [40, 60, 100, 200])
def test_the_shipped_formula_covers_whatever_the_size(shapes: pd.DataFrame, questions: int) -> None:
    assert 0.93 <= shares(shapes, questions, 500).mean() <= 0.97


def test_12_questions_are_refused_with_what_to_run(shapes: pd.DataFrame) -> None:
    rows = coverage.episodes(np.random.default_rng(0), shapes, 12)
    ((_, found),) = regression.fits(rows, SHIPPED)
    assert isinstance(found, regression.Refused)
    assert "run cases of 30 clusters or more" in found.reason
    short = SHIPPED.model_copy(update={"formula": coverage.SHORT})
    held = coverage.holds(rows, short, shapes)
    assert held is not None
    assert list(held.index) == ["Intercept", "SH"]


@pytest.mark.long
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 7))])
def test_no_study_shaped_folder_ends_its_report(tmp_path: Path, seed: int) -> None:
    study_shaped.write(tmp_path, seed)
    assert write_page(tmp_path, print_report(tmp_path, Console(file=io.StringIO()))).is_file()


@pytest.mark.long
def test_no_study_shaped_rows_end_their_regression() -> None:
    kinds = set()
    for seed in range(2, 8):
        fits = regression.fits(pd.DataFrame(study_shaped.episodes(seed)), SHIPPED)
        regression.tables(("table 3", "table 3"), SHIPPED, fits, "query")
        kinds |= {type(found) for _, found in fits}
    assert kinds == {regression.Fit, regression.Refused}
