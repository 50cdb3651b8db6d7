"""Metrics of a user's own by their names: in a report's table, a formula, power and the viewer."""

from __future__ import annotations

import asyncio
import io
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from analysis.errors import AnalysisError
from analysis.papers.study import regressed
from analysis.report import print_report
from analysis.stats import spec
from analysis.tables import measures, regression
from analysis.viewer.index import Index
from analysis.viewer.pages import _shown
from grid import plugins, store
from grid.cells.run import Stamp, run_chunk
from grid.core.errors import ConfigError
from grid.core.metric import METRICS, Metric
from grid.settings.build import build
from grid.settings.check import check_sweep
from launch import power_table
from tests.support.configs import job
from tests.support.plugins import forget
from tests.support.searched import episode

OWN = (
    Metric("desk_minutes", "minutes", "lower", kind="number", meaning="what lookups take"),
    Metric("answered", "share", "higher"),
    Metric("at_once", kind="flag"),
    Metric("remark", kind="text", better="neither"),
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Sixty cases of two planners: of zero_shot's lookups each takes a minute more, and half as many are answered."""
    rng, cells = np.random.default_rng(7), []
    for case in range(60):
        for planner, more in (("react", 0.0), ("zero_shot", 1.0)):
            scores = {"desk_minutes": 2.0 + more + rng.normal(0, 0.1), "answered": 0.8 - 0.4 * more, "at_once": 1.0}
            cell = episode(planner, case, bool(rng.random() < 0.5), scores=scores, texts={"remark": "fine"})
            cells.append(cell | {"depth": 1 + case % 3})
    store.write(tmp_path, {"episodes": cells, "metrics": store.metric_rows([*METRICS, *OWN])})
    return tmp_path


@pytest.mark.long
def test_the_report_has_them_with_unit_and_direction(root: Path) -> None:
    tables = {table.name: table for table in print_report(root, Console(file=io.StringIO(), width=200))}
    table = tables["metrics tiny slate"]
    assert table.figures[2:] == ["answered (%) ↑", "at_once (%) ↑", "desk_minutes (minutes) ↓"]
    rows = {row[1]: row for row in table.rows}
    assert rows["react"][-3].startswith("80.0")
    assert rows["zero_shot"][-3].startswith("40.0")
    assert float(rows["zero_shot"][-1].split()[0]) == pytest.approx(3.0, abs=0.1)
    assert "desk_minutes: what lookups take" in table.caption
    assert not [table for table in measures.tables(root) if "tool_calls" in table.figures]


def test_ours_have_a_table_where_somebody_asks(tmp_path: Path) -> None:
    store.write(tmp_path, {"episodes": [episode("react", case, True, tool_match_rate=0.5) for case in range(4)]})
    assert measures.tables(tmp_path) == []
    (table,) = measures.tables(tmp_path, ["tool_match_rate"])
    assert table.figures[-1] == "tool_match_rate (%) ↑"
    with pytest.raises(
        AnalysisError,
        match=r"metric=tool_macth: there is no metric with this name and numeric values \(did you mean "
        r"tool_match_rate\?\); ",
    ):
        measures.tables(tmp_path, ["tool_macth"])


def test_a_formula_takes_them(root: Path) -> None:
    values = {
        "formula": "desk_minutes ~ depth + SLOW", "rows": {}, "indicators": {"SLOW": {"planner": "zero_shot"}},
        "z_scored": {"columns": [], "within": []}, "cluster": ["cluster"], "families": {}, "per": [], "reference": {},
        "separation": "drop", "correlation": "independence", "few_clusters": "none", "link": "identity",
    }  # fmt: skip
    with pytest.raises(AnalysisError, match="no column 'desk_minutes'"):
        spec.parsed(values)
    wanted = spec.parsed(values, metrics=measures.numbers(root))
    assert measures.numbers(root) == ["answered", "at_once", "desk_minutes"]
    ((_, fit),) = regression.fits(regressed(root, wanted), wanted)
    assert isinstance(fit, regression.Fit)
    slow = next(row for row in fit.coefficients.to_dict("records") if row["name"] == "SLOW")
    assert slow["coefficient"] == pytest.approx(1.0, abs=0.1)
    assert slow["low"] < 1.0 < slow["high"]
    logit = spec.parsed({**values, "link": "logit"}, metrics=measures.numbers(root))
    ((_, refused),) = regression.fits(regressed(root, logit), logit)
    assert isinstance(refused, regression.Refused)
    assert "link: identity" in refused.reason


def test_power_is_of_any_metric_from_0_to_1(root: Path) -> None:
    pilot = power_table.of_folder(root, {}, ["react", "zero_shot"], metric="answered")
    assert [*pilot.counts.rates] == pytest.approx([0.8, 0.4])
    assert pilot.told.endswith("; below, success means the metric answered")
    with pytest.raises(ConfigError, match="metric='desk_minutes': a metric whose values are from 0 to 1"):
        power_table.of_folder(root, {}, ["react", "zero_shot"], metric="desk_minutes")
    with pytest.raises(AnalysisError, match="no metric with this name and numeric values"):
        power_table.of_folder(root, {}, ["react", "zero_shot"], metric="remark")


def test_the_viewer_says_what_they_are(root: Path) -> None:
    index = Index(root)
    (row,) = index.rows("episodes", "SELECT * FROM $files ORDER BY cell_id LIMIT 1", {})
    shown = _shown(row, store.metrics(root))
    assert shown["answered (share, higher is better)"] == pytest.approx(0.8)
    assert shown["remark"] == "fine"
    assert "scores" not in shown


@pytest.fixture
def library() -> Iterator[None]:
    """The example's package may be named."""
    folder = str(Path(__file__).parents[3] / "examples" / "mylab")
    sys.path.insert(0, folder)
    plugins.allow(["mylab"])
    yield
    plugins.allow([])
    sys.path.remove(folder)
    forget("mylab")


@pytest.mark.long
@pytest.mark.usefixtures("library")
def test_a_plugins_sweep_has_them_in_every_table(tmp_path: Path) -> None:
    data = {"_target_": "mylab.datasets.library.Library"}
    plan = check_sweep([job(tmp_path, dataset=data, planner={"_target_": "grid.planners.react.ReAct"})]).plan
    assert {"desk_minutes", "answered_lookups", "nothing_asked_twice", "success"} <= plan.metrics.keys()
    (setting,) = plan.settings
    cells = list(plan.cells_of(setting))
    rows = asyncio.run(run_chunk(build(setting, plan.budget), setting, cells, Stamp("test", None))).take()
    store.write(tmp_path, {"episodes": rows["episodes"], "metrics": store.metric_rows(plan.metrics.values())})
    (table,) = measures.tables(tmp_path)
    assert [figure.split()[0] for figure in table.figures[2:]] == [
        "answered_lookups", "desk_minutes", "nothing_asked_twice"
    ]  # fmt: skip
    assert all(row["desk_minutes"] == 2 * row["tool_calls"] for row in table_rows(tmp_path))


def table_rows(root: Path) -> list[dict[str, float]]:
    found: list[dict[str, float]] = store.read(root, "episodes", ["desk_minutes", "tool_calls"]).to_pylist()
    return found
