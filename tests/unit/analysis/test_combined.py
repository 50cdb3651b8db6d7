"""Figures of published tables that are sums of others: averages over rows and metrics, a drop from a row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from analysis.papers import beside as combined
from analysis.papers.beside import Block
from analysis.papers.files import Published

UNIT = {"column": "tool_f1", "unit": "percent"}


def table(**more: Any) -> Published:
    own = {
        "paper": "p",
        "table": "1",
        "title": "t",
        "labels": ["mode", "planner"],
        "ours": {},
        "metrics": {
            "Tool": UNIT,
            "Exec": UNIT | {"column": "execution_f1"},
            "AVG": {"column": None, "unit": "percent"},
        },
        "rows": [{"labels": [mode, "react"]} for mode in ("step", "end", "mean")],
    }
    return Published.model_validate(own | more)


def block(of: Published, mode: str, cases: dict[str, list[float]] | None, planner: str = "react") -> Block:
    setting = None if cases is None else {"dataset": f"x[{mode}]", "planner": planner, "robustness": "none"}
    names = sorted(cases or {})
    values = np.array([(cases or {})[name] for name in names]).reshape(len(names), 2)
    own = {"tool_f1": values[:, 0], "execution_f1": values[:, 1], "model": "m"}
    rows = pd.DataFrame(own | {"case_id": names, "cluster": names}, index=range(len(names)))
    return Block(of.row([mode, "react"]), setting, rows)


def average(stands: str, *parts: tuple[str | None, str, float]) -> dict[str, Any]:
    of = [{"row": row, "metric": metric, "weight": weight} for row, metric, weight in parts]
    return {"AVG": {"label": "mode", "stands": stands, "of": of}}


HALVES = (("step", "Tool", 0.5), (None, "Exec", 0.5))
STEP = {"a": [1.0, 0.0], "b": [0.0, 0.0], "c": [0.5, 0.0]}
END = {"a": [0.0, 1.0], "b": [0.0, 0.5], "c": [0.0, 0.0]}


def test_the_same_cases_are_averaged_case_by_case() -> None:
    of = table(combined=average("end", *HALVES))
    beside = [block(of, "step", STEP), block(of, "end", END)]
    found = combined.measured(of, beside, beside[1], "m", "AVG")
    assert found is not None
    assert found.cases == 3
    assert found.of.mean == pytest.approx((1.0 + 0.25 + 0.25) / 3)
    assert found.of.low < found.of.mean < found.of.high
    assert combined.measured(of, beside, beside[0], "m", "AVG") is None, "it stands end to end alone"
    assert combined.measured(of, beside, beside[1], "m", "Exec") == beside[1].measured("m", of.metrics["Exec"])


def test_other_cases_weigh_as_rows_and_bounds_are_added_as_squares() -> None:
    of = table(combined=average("mean", ("step", "Tool", 0.5), ("end", "Tool", 0.5)))
    few, many = {f"s{n}": [1.0, 0.0] for n in range(4)}, {f"e{n}": [float(n % 2), 0.0] for n in range(40)}
    beside = [block(of, "step", few), block(of, "end", many), block(of, "mean", None)]
    found = combined.measured(of, beside, beside[2], "m", "AVG")
    assert found is not None
    assert found.cases == 44
    assert found.of.mean == pytest.approx(0.75), "each row alike, however many cases it has"
    one, other = (beside[n].measured("m", of.metrics["Tool"]) for n in (0, 1))
    assert one is not None
    assert other is not None
    assert found.of.mean - found.of.low == pytest.approx(
        0.5 * ((one.of.mean - one.of.low) ** 2 + (other.of.mean - other.of.low) ** 2) ** 0.5
    )


def test_metrics_of_one_row_are_not_taken_for_independent() -> None:
    """Two metrics that are the same have the interval of one, not one that is narrower by the root of two."""
    of = table(combined=average("mean", ("step", "Tool", 0.25), ("step", "Exec", 0.25), ("end", "Tool", 0.5)))
    same = {f"s{n}": [float(n % 2)] * 2 for n in range(20)}
    other = {f"e{n}": [float(n % 2)] * 2 for n in range(20)}
    beside = [block(of, "step", same), block(of, "end", other), block(of, "mean", None)]
    once = table(combined=average("mean", ("step", "Tool", 0.5), ("end", "Tool", 0.5)))
    found = combined.measured(of, beside, beside[2], "m", "AVG")
    expected = combined.measured(once, beside, beside[2], "m", "AVG")
    assert found is not None
    assert expected is not None
    assert found.of == pytest.approx(expected.of)


def test_a_drop_is_of_the_same_cases() -> None:
    of = table(
        metrics={"Tool": UNIT, "drop": {"column": None, "unit": "points"}},
        combined={
            "drop": {
                "label": "mode",
                "of": [{"metric": "Tool", "weight": 1.0}, {"row": "step", "metric": "Tool", "weight": -1.0}],
            }
        },
    )
    beside = [block(of, "step", STEP), block(of, "end", END)]
    found = combined.measured(of, beside, beside[1], "m", "drop")
    assert found is not None
    assert found.of.mean == pytest.approx(-0.5)
    itself = combined.measured(of, beside, beside[0], "m", "drop")
    assert itself is not None
    assert itself.of.mean == 0.0


def test_what_is_missing_or_ambiguous_is_left_out() -> None:
    of = table(combined=average("end", *HALVES))
    end = block(of, "end", END)
    assert combined.measured(of, [end], end, "m", "AVG") is None
    assert combined.measured(of, [block(of, "step", STEP), end], end, "other model", "AVG") is None
    other = block(of, "step", STEP, planner="react[temperature=0]")
    assert combined.measured(of, [other, end], end, "m", "AVG") is None, "another setting's row is not taken"
    of_all = table(combined=average("mean", ("step", "Tool", 0.5), ("end", "Tool", 0.5)))
    blocks = [block(of_all, "step", STEP), other, block(of_all, "end", END), block(of_all, "mean", None)]
    assert combined.measured(of_all, blocks, blocks[-1], "m", "AVG") is None, "two settings: nobody says which"


@pytest.mark.parametrize(
    ("how", "message"),
    [
        (
            {"label": "hub", "of": [{"metric": "Tool", "weight": 1.0}] * 2},
            "combined.AVG.label: hub is not one of the labels",
        ),
        ({"label": "mode", "of": [{"metric": "F2", "weight": 1.0}] * 2}, "combined.AVG: the table has no metric 'F2'"),
        ({"label": "mode", "of": [{"metric": "Tool", "weight": 1.0}]}, "at least 2"),
    ],
)
def test_a_wrong_file_is_refused(how: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        table(combined={"AVG": how})
