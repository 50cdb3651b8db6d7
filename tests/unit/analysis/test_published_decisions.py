"""Published tables of first-pass decisions: bins of entropy, and how often tools are needed."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import yaml

from analysis.errors import AnalysisError
from analysis.page.table import Table
from analysis.papers import files, published
from analysis.papers.files import Published
from analysis.stats.intervals import share
from grid import store
from grid.core.types import to_json
from tests.support.searched import episode

OUTLINE = to_json({"dataset": {"outline": "given"}, "budget": {}})
TABLE: dict[str, Any] = {
    "paper": "paper",
    "table": "1",
    "title": "a title",
    "of": "decisions",
    "metrics": {
        "Steps": {"column": "decisions", "unit": "amount"},
        "Errors": {"column": "errors", "unit": "amount"},
        "Rate": {"column": "error_rate", "unit": "percent"},
    },
    "labels": ["entropy"],
    "ours": {"dataset": "slate", "planner": "egb_logits"},
    "rows": [
        {"labels": ["low"], "entropy": [0, 0.5], "figures": {"Big": [10, 1, 10]}},
        {"labels": ["high"], "entropy": [0.5, None], "figures": {"Big": [4, 3, 75]}},
    ],
}


def cell(case: int, trial: int = 0, **other: Any) -> dict[str, Any]:
    return episode("egb_logits", case, True, trial, config=OUTLINE, **other)


def step(of: dict[str, Any], place: int, entropy: float | None, right: bool, **other: Any) -> dict[str, Any]:
    ids = {"cell_id": of["cell_id"], "attempt_id": of["attempt_id"], "branch": 0, "step": place}
    return ids | {"substep_id": str(place), "tool_required": True, "reference_tool": "t", "entropy": entropy,
                  "tool_matches": right} | other  # fmt: skip


def shown(tmp_path: Path, cells: list[Any], steps: list[Any], table: dict[str, Any] = TABLE) -> list[Table]:
    store.write(tmp_path, {"episodes": cells, "steps": steps})
    return published.tables(tmp_path, [Published.model_validate(table)])


def ours(table: Table, label: str, metric: str, part: str = "mean") -> float:
    rows = table.values[(table.values[table.labels[0]] == label) & (table.values["model"] == "tiny (ours)")]
    return float(rows[metric if part == "mean" else f"{metric} {part}"].iloc[0])


def test_bins_by_hand(tmp_path: Path) -> None:
    """Two trials of case 0 with two decisions each, case 1 with one: bounds belong to the bin above.

    Branches, decisions without need of a tool and those without an entropy are no part of it.
    """
    first, again, second = cell(0), cell(0, 1), cell(1)
    steps = [
        step(first, 0, 0.1, right=True), step(first, 1, 0.5, right=False),
        step(again, 0, 0.2, right=False), step(again, 1, 0.7, right=False),
        step(second, 0, 0.49, right=True),
        step(second, 1, 3.0, right=False, branch=1), step(second, 2, 3.0, right=False, tool_required=False),
        step(second, 3, None, right=False),
    ]  # fmt: skip
    (table,) = shown(tmp_path, [first, again, second], steps)
    assert ours(table, "low", "Steps") == 2, "one of case 0 in each trial, one of case 1"
    assert ours(table, "low", "Errors") == 0.5
    assert ours(table, "low", "Rate") == 25
    assert (ours(table, "high", "Steps"), ours(table, "high", "Rate")) == (1, 100)
    assert table.rows[0][-3:] == ["10", "1", "10.00"], "the paper's figures above"
    assert "branch = 0" in table.query


def test_a_rate_is_that_of_all_decisions_and_its_interval_knows_clusters(tmp_path: Path) -> None:
    """Against sums over all steps; with one decision a case it is the interval of a share of cases."""
    draw = random.Random(5)
    cells = [cell(case) for case in range(40)]
    counts = [draw.randint(1, 6) for _ in cells]
    steps = [
        step(one, place, draw.random(), draw.random() < 0.7)
        for one, n in zip(cells, counts, strict=True)
        for place in range(n)
    ]
    (table,) = shown(tmp_path, cells, steps)
    for label, low, high in (("low", 0.0, 0.5), ("high", 0.5, 9.9)):
        own = [one for one in steps if low <= one["entropy"] < high]
        wrong = sum(not one["tool_matches"] for one in own)
        assert ours(table, label, "Steps") == len(own)
        assert ours(table, label, "Rate") == pytest.approx(100 * wrong / len(own))
        assert 0 <= ours(table, label, "Rate", "low") < ours(table, label, "Rate") < ours(table, label, "Rate", "high")


def test_with_one_decision_a_case_a_rate_is_a_share_of_cases(tmp_path: Path) -> None:
    import pandas as pd

    cells = [cell(case) for case in range(30)]
    steps = [step(one, 0, 0.1, right=place % 3 > 0) for place, one in enumerate(cells)]
    (table,) = shown(tmp_path, cells, steps)
    index = pd.MultiIndex.from_tuples([(one["cluster"], one["case_id"]) for one in cells], names=["cluster", "case_id"])
    expected = share(pd.Series([float(place % 3 == 0) for place in range(30)], index=index))
    found = [ours(table, "low", "Rate", part) for part in ("mean", "low", "high")]
    assert found == pytest.approx([100 * part for part in expected])
    assert [row[:2] for row in table.rows if row[0] == "high"] == [["high", "Big"]], "no decision of ours there"


def test_tools_are_those_of_the_references_counted_once_a_case(tmp_path: Path) -> None:
    """Trials and planners' choices change nothing: three calls of two tools."""
    frame = {key: value for key, value in TABLE.items() if key != "rows"} | {
        "metrics": {
            "All": {"column": None, "unit": "amount"},
            "Used": {"column": "tools", "unit": "amount"},
            "Calls": {"column": "decisions_per_tool", "unit": "mean"},
        },
        "rows": [{"labels": ["data"], "figures": {"published": [1000, 253, 6.3]}}],
    }
    cells = [cell(0), cell(0, 1), cell(1)]
    steps = [step(one, 0, None, right=False, reference_tool="a") for one in cells]
    steps += [step(one, 1, None, right=True, reference_tool="b") for one in cells[:2]]
    (table,) = shown(tmp_path, cells, steps, frame)
    assert (ours(table, "data", "Used"), ours(table, "data", "Calls")) == (2, 1.5)
    assert table.rows[0][-3:] == ["1,000", "253", "6.30"]
    assert table.rows[1][-3] == "–", "what no result tells"


def test_a_sweep_without_decisions_has_no_such_table(tmp_path: Path) -> None:
    assert shown(tmp_path / "none", [cell(0)], []) == []
    other = episode("react", 0, True, config=OUTLINE)
    assert shown(tmp_path / "other", [other], [step(other, 0, 0.1, right=True)]) == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"rows": [{**TABLE["rows"][0], "entropy": [0]}]}, "rows.0.entropy: "),
        ({"rows": [{**TABLE["rows"][0], "entropy": ["low", None]}]}, "rows.0.entropy.0: "),
        (
            {"metrics": {"Steps": {"column": "success", "unit": "percent"}}},
            "'success' is not one of the measures of a first pass's",
        ),
    ],
)
def test_a_wrong_table_of_decisions_names_its_place(changes: Any, said: str, tmp_path: Path) -> None:
    with pytest.raises(AnalysisError) as caught:
        files.load(of_yaml(tmp_path, TABLE | changes))
    assert said in str(caught.value)


def of_yaml(folder: Path, values: Any) -> Path:
    path = folder / "table.yaml"
    path.write_text(yaml.safe_dump(values))
    return path


def test_only_tables_of_decisions_have_bounds_of_entropy(tmp_path: Path) -> None:
    changes = {"of": "cells", "metrics": {"Success": {"column": "success", "unit": "percent"}}}
    rows = [{"labels": ["low"], "entropy": [0, 1]}]
    with pytest.raises(
        AnalysisError, match=r"rows\.0\.entropy: this key is allowed only with `of: decisions`, not with `of: cells`"
    ):
        files.load(of_yaml(tmp_path, TABLE | changes | {"rows": rows}))


def test_the_bins_of_table_6_are_the_papers() -> None:
    """Each rate is errors / steps, but for the first bin's, which has two steps too many, as a note says.

    Bins touch, and are fifths of 3.202.
    """
    table = files.find("egb_slate_table6")
    figures = [row.figures["Qwen2.5-7B-Instruct"] for row in table.rows]
    assert [sum(column) for column in list(zip(*figures, strict=True))[:2]] == [584, 349]
    wrong = []
    for steps, errors, rate in figures:
        assert steps is not None
        assert errors is not None
        wrong += [(steps, rate)] * (round(100 * errors / steps, 1) != rate)
    assert wrong == [(365, 50.7)]
    assert (round(100 * 184 / 363, 1), 584 - 2) == (50.7, 582)
    bounds = [row.entropy or [] for row in table.rows]
    highs, lows = [high for _, high in bounds], [low for low, _ in bounds]
    assert lows == [0, *highs[:-1]]
    assert [round((high or 0) / 3.202 * 5, 2) for high in highs[:-1]] == [1, 2, 3, 4]
    assert highs[-1] is None
