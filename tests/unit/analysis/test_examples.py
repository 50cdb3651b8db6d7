"""Table 6: which trajectories are drawn, and how they are shown; what tables say in words; what a folder shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from analysis.load import provenance
from analysis.page.render import latex, markdown
from analysis.papers import horizon, study
from grid import store
from grid.core.types import to_json
from tests.support import simulated

EVIL = "<script>alert(1)</script>\x1b[31m" + "x" * 400


def steps(cell: str, calls: list[tuple[str, bool]], plans: tuple[int, ...] = ()) -> list[dict[str, Any]]:
    """A step a call of `find` by its name, failed or not; `plans` are those at which FH wrote one."""
    return [
        {"cell_id": cell, "attempt_id": "simulated", "branch": 0, "step": place, "on_path": True, "chosen_tool": "find",
         "written": to_json({"tool": "find", "arguments": {"name": name}}), "arguments": to_json({"name": name}),
         "observation": to_json({"error": "no"} if failed else {"value": name}), "failed": failed,
         "input_tokens": 1, "output_tokens": 5 if not plans or place in plans else 0}
        for place, (name, failed) in enumerate(calls)
    ]  # fmt: skip


def written(root: Path, sh: list[tuple[str, bool]]) -> list[str]:
    """Both planners' trajectories of three cases; those of SH in the first are `sh`. Returns the ids of its cells."""
    rows = [simulated.row(row) for row in simulated.episodes(0, 3, 1).to_dict("records")]
    own = [row for row in rows if row["case_id"] == "case-0"]
    taken = [
        step
        for row in rows
        for step in (
            steps(row["cell_id"], sh if row in own else [("a", True), ("b", False)])
            if row["planner"] == "sh"
            else steps(row["cell_id"], [("a", True), ("b", False), ("c", False)], (0, 1))
        )
    ]
    store.write(root, {"episodes": rows, "steps": taken})
    return [row["cell_id"] for row in own]


def test_the_trajectory_that_repeats_a_failed_call_is_shown_with_fhs_plans(tmp_path: Path) -> None:
    written(tmp_path, [("a", True), ("b", False), ("a", True), (EVIL, False)])
    (table,) = study.example_tables(tmp_path, study.rows(tmp_path))
    assert table.reading.startswith("case-0, tools_forgiving, trial 0: not kept"), "no transcript, no question"
    assert "1 of 3 SH episodes" in table.caption
    assert [row[:2] for row in table.rows] == [*(["SH", str(place)] for place in range(4)), ["FH", "plan"],
                                               ["FH", "plan 2"]]  # fmt: skip
    assert [row[2].endswith("[again]") for row in table.rows] == [False, False, True, False, False, False]
    assert table.rows[2][2:] == ["find(name=a) [again]", '{"error": "no"}']
    assert table.rows[-1][2:] == ["1: find(name=b); 2: find(name=c)", '{"value": "c"}']
    assert all(len(cell) < 700 and "\x1b" not in cell for row in table.rows for cell in row)
    assert table.rows == study.example_tables(tmp_path, study.rows(tmp_path))[0].rows
    assert r"p{0.38\linewidth}" in latex(table)
    assert "<script>" not in markdown(table)


def test_where_no_failed_call_is_repeated_one_is_drawn_and_it_is_said(tmp_path: Path) -> None:
    """A call that succeeds may be made again."""
    written(tmp_path, [("a", False), ("a", False)])
    (table,) = study.example_tables(tmp_path, study.rows(tmp_path))
    assert "no SH episode repeats a failed call" in table.caption
    assert not any("[again]" in row[2] for row in table.rows)


def row(low: float, mean: float, high: float, **further: object) -> pd.DataFrame:
    found = {"success_difference": mean, "success_difference_low": low, "success_difference_high": high}
    place = {"dataset": "kqa", "model": "m", "input_tokens_ratio": 3.04, "output_tokens_ratio": float("nan")}
    return pd.DataFrame([place | found | further])


@pytest.mark.parametrize(
    ("bounds", "told"),
    [
        ((-0.009, 0.005, 0.02), "+0.5 points [-0.9, +2.0]: no difference is shown, but up to 2.0 points"),
        ((0.01, 0.02, 0.03), "+2.0 points [+1.0, +3.0]: SH solves more questions"),
        ((-0.03, -0.02, -0.01), "-2.0 points [-3.0, -1.0]: FH solves more questions"),
        ((float("nan"), 0.5, float("nan")), "+50.0 points, without an interval, because all cases are in one cluster"),
        ((float("nan"),) * 3, "not known, because no case has all the results that are needed"),
    ],
)  # fmt: skip
def test_a_reading_says_what_the_interval_shows_and_no_more(bounds: tuple[float, float, float], told: str) -> None:
    said = horizon.accuracy(row(*bounds))
    assert told in said
    assert said.endswith("; SH used 3.0 times the input tokens of FH.")
    assert "These are 2 comparisons" in horizon.accuracy(pd.concat([row(*bounds)] * 2))


def test_coefficients_are_read_by_their_signs() -> None:
    names = ["depth_edges", "depth_edges:SH", "SH", "last_step[T.Count]", "breadth"]
    found = pd.DataFrame({"name": names, "coefficient": [-1.0, 0.1, 0.5, 2.0, 0.0], "low": [-2.0, -0.1, 0.1, 1.0, -1.0],
                          "high": [-0.5, 0.3, 0.9, 3.0, 1.0], "model": "m"})  # fmt: skip
    said = horizon.coefficients(found, ["model"])
    assert said.startswith(
        "m: depth_edges -1.00 [-2.00, -0.50]: deeper questions are solved less often; depth_edges:SH"
    )
    assert said.count("no effect is shown") == 2
    assert "Count" not in said


@pytest.mark.parametrize(
    ("engine", "dataset", "told"),
    [
        ("lexical", "kqa_synthetic", ["not a language model", "kqa_synthetic (synthetic, generated here from a seed)"]),
        (
            "simulated",
            "slate",
            ["a simulated policy, which is not a language model; it is told the answers", "slate (synthetic"],
        ),
        (
            "vllm",
            "kqapro[limit=5]",
            ["m: a language model, run by vllm", "(read from released files or from your own)"],
        ),
        (None, "kqapro", ["a model whose engine is not recorded"]),
    ],
)
def test_the_first_line_names_engine_and_data(engine: str | None, dataset: str, told: list[str]) -> None:
    cells = pd.DataFrame([{"model": "m", "engine": engine, "dataset": dataset, "dataset_version": "1", "config": "{}"}])
    said = provenance.first_line(cells)
    assert all(part in said for part in told), said
    assert "\n" not in said
    read = cells.assign(dataset="slate", config='{"dataset": {"path": "/data"}}')
    assert "slate (read from released files or from your own)" in provenance.first_line(read)


def test_what_a_folder_lacks_is_said(tmp_path: Path) -> None:
    rows = simulated.episodes(0, 4)
    for name, frame, parts in (
        ("high", rows, ["table 4 is missing"]),
        ("shapeless", rows.assign(depth=None), ["table 4", "table 3 and the figures by depth"]),
        ("alone", rows[rows["planner"] == "sh"], ["of these two planners this folder has sh"]),
    ):
        cells = [simulated.row(row | {"depth": row["depth"] or 1}) for row in frame.to_dict("records")]
        if name == "shapeless":
            cells = [cell | {"depth": None, "breadth": None} for cell in cells]
        store.write(tmp_path / name, {"episodes": cells})
        found = study.missing(tmp_path / name)
        assert len(found) == len(parts)
        assert all(part in sentence for part, sentence in zip(parts, found, strict=True))
    simulated.write(tmp_path / "whole", count=4)
    assert study.missing(tmp_path / "whole") == []
