"""A regression of one's own: a short file, every fault at once, and few clusters told and not pooled away."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from scipy import stats

from analysis.errors import AnalysisError
from analysis.report import print_report
from analysis.stats import spec
from analysis.tables.regression import Fit, fits
from tests.support import simulated

SHORT: dict[str, Any] = {"formula": "success ~ C(planner)", "cluster": ["dataset", "cluster"]}
PLANNERS = ("react", "egb", "lats")


def rows(clusters: int, planners: tuple[str, ...] = PLANNERS) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    return pd.DataFrame(
        [
            {
                "planner": planner,
                "dataset": "slate",
                "cluster": str(cluster),
                "success": float(rng.random() < 0.3 + 0.2 * place),
            }
            for cluster in range(clusters)
            for _ in range(10)
            for place, planner in enumerate(planners)
        ]
    )


def fitted(frame: pd.DataFrame, **more: Any) -> Fit:
    ((_, fit),) = fits(frame, spec.parsed(SHORT | more))
    assert isinstance(fit, Fit), fit
    return fit


def test_six_clusters_have_a_coefficient_a_planner_and_students_t() -> None:
    fit = fitted(rows(6))
    named = fit.coefficients.set_index("name")
    assert list(named.index) == ["Intercept", "planner[T.lats]", "planner[T.react]"]
    (note,) = [note for note in fit.notes if "clusters" in note]
    assert "only 6 clusters for 3 coefficients" in note
    assert "3 degrees of freedom" in note
    one = named.iloc[1]
    assert one["p"] == pytest.approx(2 * stats.t.sf(abs(one["coefficient"] / one["se"]), 3))
    assert one["high"] - one["coefficient"] == pytest.approx(stats.t.ppf(0.975, 3) * one["se"])


def test_levels_are_pooled_by_request_alone() -> None:
    assert len(fitted(rows(6), pooling="few").coefficients) < len(fitted(rows(6)).coefficients)


def test_with_clusters_enough_the_normal_distribution_is_taken() -> None:
    named = fitted(rows(20)).coefficients.iloc[1]
    assert named["p"] == pytest.approx(2 * stats.norm.sf(abs(named["coefficient"] / named["se"])))


def test_no_more_coefficients_than_clusters_are_fitted() -> None:
    ((_, refused),) = fits(rows(3), spec.parsed(SHORT))
    assert "3 clusters are too few for 3 coefficients" in getattr(refused, "reason", "")


def test_a_reference_that_no_row_has_is_refused_with_the_nearest() -> None:
    with pytest.raises(
        AnalysisError, match=r"planner='reactt' \(did you mean react\?\); the levels are egb, lats, react"
    ):
        fits(rows(6), spec.parsed(SHORT | {"reference": {"planner": "reactt"}}))
    assert fitted(rows(6), reference={"planner": "react"}).references == {"planner": "react"}


def test_every_fault_is_told_at_once() -> None:
    with pytest.raises(AnalysisError) as refused:
        spec.parsed({"rows": 3, "link": "log", "extra": 1})
    for key in ("formula: Field required", "cluster: Field required", "rows: ", "link: ", "extra: "):
        assert key in str(refused.value)
    with pytest.raises(AnalysisError) as refused:
        spec.parsed(SHORT | {"cluster": ["clutser"], "per": ["modle"], "rows": {"planer": ["react"]}})
    for meant in ("cluster?", "model?", "planner?"):
        assert f"did you mean {meant}" in str(refused.value)


def test_it_is_printed_with_its_reference_levels(tmp_path: Path) -> None:
    """A terminal leaves tables of coefficients out, but not one that somebody asks for."""
    simulated.write(tmp_path, count=40)
    own = spec.parsed({"formula": "success ~ depth + C(planner)", "cluster": ["dataset", "cluster"]})
    out = io.StringIO()
    print_report(tmp_path, Console(file=out, width=100), own)
    lines = out.getvalue().splitlines()
    assert any(line.split()[:1] == ["planner[T.sh]"] for line in lines)
    assert any(line.split()[:1] == ["Intercept"] for line in lines)
    assert "reference levels, with which the other levels are compared: planner=fh" in " ".join(out.getvalue().split())


def test_a_regression_on_rows_that_are_not_there_says_so(tmp_path: Path) -> None:
    simulated.write(tmp_path, count=5)
    own = spec.parsed(SHORT | {"rows": {"planner": ["react", "cot"]}, "per": ["model"]})
    out = io.StringIO()
    print_report(tmp_path, Console(file=out, width=200), own)
    assert "no regression is shown, because no episode matches its key `rows` (planner=react or cot)" in (
        " ".join(out.getvalue().split())
    )


def test_it_has_a_heading_and_a_section_of_its_own(tmp_path: Path) -> None:
    simulated.write(tmp_path, count=40)
    own = spec.parsed({"formula": "success ~ depth + C(planner)", "cluster": ["dataset", "cluster"]})
    tables = print_report(tmp_path, Console(quiet=True), own)
    (brief,) = [table for table in tables if table.name == "regression"]
    (every,) = [table for table in tables if table.name == "coefficients"]
    assert (brief.title, brief.section) == ("regression: success ~ depth + C(planner)", "Regression")
    assert every.section == "Regression"
    assert not any(
        "planning_horizon" in text or "table 3" in text for text in (brief.caption, every.title, every.caption)
    )
    assert any(name.startswith("planner[T.") for name in brief.figures)
