"""Thresholds of entropy: the best one by brute force, planted ones recovered, and who may be learned from."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.errors import AnalysisError
from analysis.tables import thresholds
from grid import store
from grid.core.types import to_json
from launch import threshold
from tests.support import planted
from tests.support.in_process import Run, called
from tests.support.searched import episode

POINTS = st.lists(
    st.tuples(st.sampled_from([0.0, 0.1, 0.2, 0.5, 1.3]), st.booleans(), st.sampled_from([0.0, 1.0, 3.0])), max_size=12
)


@settings(deadline=None)
@given(POINTS)
def test_the_best_threshold_is_that_of_brute_force(points: list[tuple[float, bool, float]]) -> None:
    entropy = np.array([point[0] for point in points])
    error = np.array([point[1] for point in points], dtype=np.bool_)
    weights = np.array([point[2] for point in points])
    found = thresholds.best(entropy, error, weights)
    wrong, right = weights[error].sum(), weights[~error].sum()
    values = sorted({value for value, _, weight in points if weight})
    if not (wrong and right and len(values) > 1):
        assert math.isnan(found.j)
        return
    by_hand = {
        (low + high) / 2: weights[error & (entropy > low)].sum() / wrong
        - weights[~error & (entropy > low)].sum() / right
        for low, high in pairwise(values)
    }
    assert found.j == pytest.approx(max(by_hand.values()))
    assert by_hand[found.threshold] == pytest.approx(found.j)


def rows(
    case: int, entropies: list[tuple[float, bool]], trial: int = 0, planner: str = "egb_logits", **other: Any
) -> dict[str, list[dict[str, Any]]]:
    """A cell and the decisions of its first pass: entropy, and whether each was wrong."""
    config = to_json({"planner": {"labels": "numbers"}, "dataset": {"outline": "given"}})
    cell = episode(planner, case, True, trial, **{"config": config, **other})
    ids = {"cell_id": cell["cell_id"], "attempt_id": cell["attempt_id"], "branch": 0}
    return {
        "episodes": [cell],
        "steps": [
            ids
            | {"step": place, "entropy": entropy, "tool_required": True, "tool_matches": not wrong, "reference_rank": 0}
            for place, (entropy, wrong) in enumerate(entropies)
        ],
    }


def write(root: Path, *cells: dict[str, list[dict[str, Any]]]) -> Path:
    tables: dict[str, list[dict[str, Any]]] = {}
    for cell in cells:
        for table, part in cell.items():
            tables.setdefault(table, []).extend(part)
    store.write(root, tables)
    return root


def test_a_planted_threshold_is_recovered(tmp_path: Path) -> None:
    """Four fifths of what is above 0.8 nats is wrong, a tenth of what is below."""
    rng = np.random.default_rng(0)

    def decision() -> tuple[float, bool]:
        entropy = float(rng.uniform(0, 1.6))
        return entropy, bool(rng.random() < (0.8 if entropy > 0.8 else 0.1))

    write(tmp_path, *(rows(case, [decision() for _ in range(6)]) for case in range(80)))
    (row,) = thresholds.learned(thresholds.decisions(tmp_path).rows).to_dict("records")
    assert row["threshold"] == pytest.approx(0.8, abs=0.06)
    assert row["threshold_low"] <= 0.8 <= row["threshold_high"] + 0.02
    assert row["j_low"] < row["j"] < row["j_high"]
    assert (row["unit"], row["cases"], row["clusters"], row["decisions"]) == ("decision", 80, 40, 480)
    assert row["error_above"] == pytest.approx(0.8, abs=0.1)
    assert row["error_below"] == pytest.approx(0.1, abs=0.1)
    again = thresholds.learned(thresholds.decisions(tmp_path).rows)
    assert again.to_dict("records") == [row], "what is drawn is drawn alike"


def test_only_first_trials_and_exact_choices_count(tmp_path: Path) -> None:
    kept = [rows(case, [(0.1, False), (0.9, True)]) for case in range(4)]
    later = [rows(case, [(0.1, True), (0.9, False)], trial=1) for case in range(4)]
    votes = to_json({"planner": {"samples": 10}, "dataset": {"outline": "given"}})
    sampled = [rows(case, [(0.1, True)], config=votes, planner="egb_sampling") for case in range(4)]  # fmt: skip
    write(tmp_path, *kept, *later, *sampled)
    (row,) = thresholds.learned(thresholds.decisions(tmp_path).rows).to_dict("records")
    assert (row["planner"], row["decisions"], row["j"], row["threshold"]) == ("egb_logits", 8, 1.0, 0.5)


@pytest.mark.long
@pytest.mark.parametrize("outline", ["given", "hidden"])
def test_of_a_sweep(outline: str, tmp_path: Path) -> None:
    """Wrong decisions of the simulated policy have higher entropies; without an outline a first pass is one."""
    found = planted.grid(
        "egb_logits",
        cases=30,
        all_offered=True,
        tool_skill=0.7,
        planner_values={"trajectories": 1},
        dataset_values={"outline": outline},
    )
    store.write(tmp_path, {name: found[name] for name in ("episodes", "steps", "improvements")})
    (row,) = thresholds.learned(thresholds.decisions(tmp_path).rows, draws=200).to_dict("records")
    assert row["unit"] == {"given": "decision", "hidden": "first pass"}[outline]
    met, query = thresholds.decisions(tmp_path)
    pasted = duckdb.connect().execute(query).df()
    assert pasted.astype({"cluster": str}).equals(met.astype(pasted.dtypes).astype({"cluster": str}))
    offered = [cell for cell in found["episodes"] if cell["retrieval_rate"] == 1]
    assert row["errors"] == sum(not cell["success"] for cell in offered) or outline == "given"
    assert row["decisions"] == len(offered) > 25 or outline == "given"
    assert row["j"] > 0.2
    assert row["error_above"] > row["error_below"]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return called(threshold.main, monkeypatch, capsys)


def test_the_command_prints_the_keys(run: Run, tmp_path: Path) -> None:
    pilot = write(tmp_path / "pilot", *(rows(case, [(0.1, False), (0.9, case % 3 > 0)]) for case in range(8)))
    tested = write(tmp_path / "tested", *(rows(case, [(0.1, False)]) for case in range(8, 12)))
    ended = run(pilot, tested)
    assert (ended.status, ended.err) == (0, "")
    assert "planner=egb_tree planner.entropy_threshold=0.5 planner.labels=numbers" in ended.out
    assert "tiny, slate, none: planner=egb_tree" in ended.out


def test_tested_cases_of_the_pilot_are_refused(run: Run, tmp_path: Path) -> None:
    pilot = write(tmp_path / "pilot", *(rows(case, [(0.1, False), (0.9, True)]) for case in range(8)))
    other = write(tmp_path / "other", *(rows(case, [(0.1, False)], dataset="ultratool") for case in range(8)))
    tested = write(
        tmp_path / "tested", *(rows(case, [(0.1, False)], dataset="slate[limit=9]") for case in range(6, 12))
    )
    assert run(pilot, other).status == 0, "of another data set"
    ended = run(pilot, other, tested)
    assert (ended.status, ended.out) == (2, "")
    (line,) = ended.err.splitlines()
    assert "tested" in line
    assert "2 of their 6 cases of slate are also in" in line


@pytest.mark.parametrize(
    ("entropies", "told"),
    [([(0.1, False), (0.9, False)], "all decisions are right"),
     ([(0.5, False), (0.5, True)], "all have the same entropy"),
     ([], "to run a pilot: planner=egb_logits")],
)  # fmt: skip
def test_nothing_to_learn_from(run: Run, tmp_path: Path, entropies: list[tuple[float, bool]], told: str) -> None:
    ended = run(write(tmp_path, *(rows(case, entropies) for case in range(4))))
    assert (ended.status, ended.out) == (2, "")
    assert told in ended.err


def test_bad_folders(run: Run, tmp_path: Path) -> None:
    ended = run(tmp_path / "absent")
    assert (ended.status, len(ended.err.splitlines())) == (2, 1)
    with pytest.raises(AnalysisError, match="no first pass"):
        thresholds.decisions(write(tmp_path, {"episodes": [episode("react", 0, True)]}))
