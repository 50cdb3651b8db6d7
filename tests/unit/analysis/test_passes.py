"""Success at equal completions and scoring passes: by hand, as real runs at that budget, and planted differences."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest

from analysis.tables import search, search_cells
from grid.settings.config import BudgetConfig
from tests.support import planted
from tests.support.searched import BUDGET, episode, improvements, only, tables, write


def test_success_at_limits_by_hand(tmp_path: Path) -> None:
    """Limits 16, 32, 64 of completions and passes, the judge's too.

    a: improvements at 10 (no) and 30 (yes), ended at 50 (yes): 0 1 1
    b: an improvement at 20 (yes), its end at 40 (no): 0 1 0
    c: ended at 12, of which 8 are the judge's (yes): 1 1 1
    d: the infrastructure failed: not known anywhere
    """
    a = episode("mcts", 0, True, llm_calls=30, forward_passes=5, judge_calls=10, judge_passes=5, n_nodes=2)
    b = episode("mcts", 2, False, llm_calls=40, n_nodes=2)
    c = episode("mcts", 4, True, llm_calls=4, judge_calls=8, n_nodes=2)
    d = episode("mcts", 6, None, status="failed", error_kind="infrastructure", n_nodes=2)
    improved = [*improvements(a, (10, 0.1, False), (30, 0.3, True)), *improvements(b, (20, 0.2, True))]
    write(tmp_path, [a, b, c, d], improved)
    found = search.curve(search.at_limits(only(tmp_path), search_cells.improvements(tmp_path), (16, 32, 64)).rows)
    assert found["success"].tolist() == pytest.approx([1 / 3, 1, 2 / 3])
    assert found["cases"].tolist() == [3, 3, 3]
    assert found["less"].isna().all()


def test_no_limit_beyond_the_budget_has_a_column(tmp_path: Path) -> None:
    write(tmp_path, [episode("mcts", 0, False, budget=dict(BUDGET) | {"llm_calls": 100}, n_nodes=3)])
    assert tables(tmp_path)["passes"].figures == ["16", "32", "64"]
    write(tmp_path / "less", [episode("mcts", 0, False, budget=dict(BUDGET) | {"llm_calls": 10}, n_nodes=3)])
    assert "passes" not in tables(tmp_path / "less")


@pytest.mark.long
@pytest.mark.parametrize("planner", ["egb_tree", "tooltree", "lats", "egb_logits"])
def test_a_column_is_what_a_run_with_that_budget_returns(planner: str, tmp_path: Path) -> None:
    keys = {"parallel": False} if planner == "egb_logits" else {"oracle_stop": True}
    found = {
        calls: planted.grid(planner, cases=8, budget=BudgetConfig(llm_calls=calls), planner_values=keys)
        for calls in (32, 64, 200)
    }
    names = ["model", "dataset", "robustness", "planner", "cell_id", "case_id", "cluster", "success", "llm_calls"]
    names += ["forward_passes", "judge_calls", "judge_passes", "critic_calls", "critic_passes"]
    whole = pd.DataFrame({name: [row[name] for row in found[200]["episodes"]] for name in names})
    whole = whole.assign(asked=False, most_calls=200)
    at = search.at_limits(whole, pa.Table.from_pylist(found[200]["improvements"]), (32, 64)).rows
    for calls, own in at.groupby("most"):
        returned = {row["case_id"]: float(row["success"]) for row in found[int(str(calls))]["episodes"]}
        assert own.set_index("case_id")["success"].to_dict() == returned


def test_a_planted_difference_and_who_is_compared_with_whom(tmp_path: Path) -> None:
    """egb_tree resolves three cases of ten more than tooltree, and is on other terms than egb_logits."""
    rows = []
    for case in range(60):
        rows += [
            episode("egb_tree", case, case % 10 < 8, n_nodes=2, llm_calls=20 + case % 30),
            episode("tooltree", case, case % 10 < 5, n_nodes=2, llm_calls=30),
            episode("egb_logits", case, case % 10 < 9, resolved_checks=1, llm_calls=30),
            episode("passes/egb_tree[threshold=0]", case, case % 10 < 9, n_nodes=2, resolved_checks=1, llm_calls=30),
            episode("passes/egb_tree[threshold=1]", case, case % 10 < 6, n_nodes=2, resolved_checks=1, llm_calls=30),
        ]
    write(tmp_path, rows)
    found = search.curve(search.at_limits(only(tmp_path), search_cells.improvements(tmp_path), (16, 64)).rows)
    told = {
        (row["planner"], row["less"], row["limit"]): row
        for row in found.to_dict("records")
        if isinstance(row["less"], str)
    }
    asking, other = (f"passes/egb_tree[threshold={above}]" for above in (0, 1))
    expected = {("egb_tree", "tooltree"), (asking, "egb_logits"), (other, "egb_logits"), (other, asking)}
    assert {key[:2] for key in told} == expected
    assert told[other, asking, 64]["success"] == pytest.approx(-0.3), "two variants are compared once"
    row = told["egb_tree", "tooltree", 64]
    assert row["success"] == pytest.approx(0.3)
    assert 0 < row["success_low"] < 0.3 < row["success_high"]
    assert row["holm"] < 0.01
    assert told["egb_tree", "tooltree", 16]["success"] == 0.0, "nobody has anything by then"
    assert told[asking, "egb_logits", 64]["success"] == 0.0
    table = tables(tmp_path)["passes"]
    shown = {(row[2], row[3]): row[-1] for row in table.rows}
    assert shown["egb_tree", "less tooltree"].startswith("+30.0*† [")
    assert [row[1] for row in table.rows] == ["no"] * 3 + ["yes"] * 6
    assert table.sections == {3}
    assert "Holm" in table.caption
