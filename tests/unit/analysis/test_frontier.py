"""Cost against success: who is on the frontier, what a step gains, and names that do not overlap."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.tables import frontier
from analysis.tables.frontier import MONEY, TOKENS
from analysis.tables.rates import paired_differences
from grid import store
from tests.support import simulated

EVIL = "<script>x</script>$a$\x1b[31m"


def cells(planner: str, solved: Sequence[int], tokens: int, **more: Any) -> list[dict[str, Any]]:
    """One trial a case, two cases a cluster."""
    labels = {"model": "lexical", "dataset": "slate", "robustness": "none"}
    labels |= {name: more.pop(name) for name in tuple(labels) if name in more}
    found = []
    for case, value in enumerate(solved):
        name = "/".join([*labels.values(), planner, str(case)])
        found.append({
            **labels, "planner": planner, "pool": "all", "setting_id": "/".join([*labels.values(), planner]),
            "cell_id": name, "cell_key": name, "case_id": f"case-{case}", "cluster": f"template-{case // 2}",
            "trial": 0, "status": "ok", "success": bool(value), "input_tokens": tokens - 10, "output_tokens": 10,
            "resolved_checks": 0, "dataset_version": "v1", "created_at": simulated.NOON, **more,
        })  # fmt: skip
    return found


def written(root: Path, *parts: list[dict[str, Any]]) -> Path:
    store.write(root, {"episodes": [row for part in parts for row in part]})
    return root


def settings(root: Path) -> pd.DataFrame:
    return frontier.points(frontier.read(root)).rows.set_index("planner")


def test_the_frontier_and_its_steps_by_hand(tmp_path: Path) -> None:
    solved = {"cheap": [1, 0, 0, 0, 0, 0, 0, 0], "good": [1, 1, 1, 1, 0, 0, 1, 0], "costly": [1, 1, 1, 1, 0, 0, 0, 0]}
    tokens = {"cheap": 100, "good": 1_000, "costly": 4_000}
    root = written(tmp_path, *(cells(name, solved[name], tokens[name]) for name in solved))
    found = settings(root)
    assert found["frontier"].to_dict() == {"cheap": True, "costly": False, "good": True}
    assert found[TOKENS].to_dict() == {"cheap": 100.0, "costly": 4_000.0, "good": 1_000.0}
    assert found.loc["good", "gain"] == 0.5
    assert found.loc["good", "times"] == pytest.approx(10.0)
    assert np.isnan(found.loc[["cheap", "costly"], "gain"].to_numpy(float)).all()
    rated = frontier.read(root).assign(tool_match_rate=1.0)
    (expected,) = [row for row in paired_differences(rated, "cheap").to_dict("records") if row["planner"] == "good"]
    bounds = [expected["success_low"], expected["success_high"]]
    assert [found.loc["good", name] for name in ("gain_low", "gain_high")] == bounds
    (table,) = frontier.tables(root)
    assert [row[0] for row in table.rows] == ["cheap", "good"]
    assert table.notes == ["on no frontier: costly"]
    (figure,) = frontier.drawings(root)
    assert all(f">{name}<" in figure.svg for name in solved)
    assert figure == frontier.drawings(root)[0], "the same rows, the same bytes"


def test_the_judge_and_the_critic_count(tmp_path: Path) -> None:
    judged = {"judge_input_tokens": 5, "judge_output_tokens": 6, "critic_input_tokens": 7, "user_input_tokens": 1_000}
    root = written(tmp_path, cells("a", [1, 0], 100, **judged), cells("b", [0, 1], 50))
    assert settings(root)[TOKENS].to_dict() == {"a": 118.0, "b": 50.0}
    (table,) = frontier.tables(root)
    with duckdb.connect() as connection:
        asked = connection.execute(table.query).df().groupby("planner")["tokens"].mean()
    assert asked.to_dict() == {"a": 118.0, "b": 50.0}


def test_money_is_the_cost_where_every_model_has_a_price(tmp_path: Path) -> None:
    priced = [cells("a", [1, 0], 100, money=0.5), cells("b", [1, 1], 50, money=0.9)]
    found = frontier.read(written(tmp_path / "priced", *priced))
    assert frontier.cost_of(found) == MONEY
    assert frontier.points(found).rows.set_index("planner")["frontier"].to_dict() == {"a": True, "b": True}
    partly = written(tmp_path / "partly", *priced, cells("a", [1, 0], 100, model="local", money=0.0))
    assert frontier.cost_of(frontier.read(partly)) == TOKENS
    assert settings(written(tmp_path / "free", cells("a", [1, 0], 100), cells("b", [1, 1], 50)))["frontier"]["a"] == 0


def test_who_asked_has_a_frontier_of_their_own(tmp_path: Path) -> None:
    root = written(tmp_path, cells("told", [1, 1], 10, resolved_checks=1), cells("react", [1, 0], 100),
                   cells("sh", [1, 0], 200))  # fmt: skip
    assert settings(root)["frontier"].to_dict() == {"react": True, "sh": False, "told": True}
    (table,) = frontier.tables(root)
    assert [row[0] for row in table.rows] == ["react", "told (asked)"]
    assert table.sections == {1}


def test_disturbed_settings_are_drawn_apart_and_single_planners_not_at_all(tmp_path: Path) -> None:
    both = [cells(name, [1, 0, value], 50 + value, robustness=robustness)
            for value, name in enumerate("ab") for robustness in ("none", "tools_strict")]  # fmt: skip
    root = written(tmp_path, *both, cells("a", [1, 0], 9, dataset="alone"))
    found = frontier.drawings(root)
    start = found[0].title.partition(":")[0]
    assert [one.title for one in found] == [
        f"{start}: cost against success",
        f"{start}: cost against success, other robustness settings",
    ]
    assert [one.name.split()[:2] for one in found] == [["cost", "undisturbed"], ["cost", "disturbed"]]
    assert not any("alone" in one.svg for one in found)
    (table,) = frontier.tables(root)
    assert [row[:2] for row in table.rows] == [
        ["none", "a"],
        ["none", "b"],
        ["tools_strict", "a"],
        ["tools_strict", "b"],
    ]


@pytest.mark.parametrize("rows", [[], cells("a", [1, 0], 9), cells("a", [1], 0) + cells("b", [0], 0)])
def test_where_nobody_can_be_compared_there_is_none(rows: list[dict[str, Any]], tmp_path: Path) -> None:
    (tmp_path / "episodes").mkdir()
    written(tmp_path, rows)
    assert frontier.tables(tmp_path) == []
    assert frontier.drawings(tmp_path) == []


def test_an_axis_is_logarithmic_only_where_costs_span_more_than_ten(tmp_path: Path) -> None:
    def ticks(name: str, most: int) -> list[str]:
        (figure,) = frontier.drawings(written(tmp_path / name, cells("a", [1, 0], 100), cells("b", [1, 1], most)))
        below = figure.svg[: figure.svg.index('id="cost-1-matplotlib.axis_2"')]
        return re.findall(r">([\d,]+)</text>", below)

    assert "0" in ticks("near", 900), "from 0"
    assert {"100", "10,000"} <= set(ticks("far", 10_000))
    assert "0" not in ticks("far_again", 10_000)


def test_hostile_labels_are_texts(tmp_path: Path) -> None:
    root = written(tmp_path, *(cells(f"{EVIL}{n}", [1, n], 50, model=EVIL, dataset=EVIL) for n in (0, 1)))
    for figure in frontier.drawings(root):
        assert "<script" not in figure.svg
        assert "\x1b" not in figure.svg


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40), st.floats(0.001, 0.025))
def test_names_never_overlap(places: list[float], apart: float) -> None:
    wanted = np.sort(np.array(places))
    found = frontier.spread(wanted, apart)
    assert (np.diff(found) >= apart - 1e-9).all()
    assert found.max() <= 1 + 1e-9
    assert found.min() >= min(wanted.min(), 1 - apart * (len(places) - 1)) - 1e-9, "nobody is moved below all others"
    if len(places) == 1 or np.diff(wanted).min() >= apart:
        assert found == pytest.approx(wanted)
