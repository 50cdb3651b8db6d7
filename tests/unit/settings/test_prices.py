"""What tokens cost: exact to the cent of hand-computed sums, part of no id, and checked before anything starts."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path
from typing import Any

import pytest

from grid.cells.rows import ChunkResult, attempt_row
from grid.cells.run import Stamp, run_chunk
from grid.core.engine import ACTOR, ASKED, EVALUATOR, JUDGE
from grid.core.errors import ConfigError
from grid.core.types import Usage
from grid.settings.build import Built, build
from grid.settings.check import Job, check_sweep
from grid.settings.plan import Plan
from grid.settings.roles import Price, money
from grid.settings.setting import Setting
from grid.store.schema import SPENT
from tests.support.configs import LABELS, job

LEXICAL = {"_target_": "grid.engines.lexical.engine.Lexical"}
HTTP = {"_target_": "grid.engines.http.engine.OpenAIHTTP", "base_url": "http://127.0.0.1:9/v1", "model": "m"}
ASKS = {"_target_": "grid.planners.best_first.BestFirst"}
PRICE = {"input": 2.5, "cached": 1.25, "output": 10}


def plan(root: Path, **changes: Any) -> Plan:
    return check_sweep([Job(job(root, **changes).config, LABELS | {JUDGE: "judge"})]).plan


def rows_of(checked: Plan) -> tuple[Setting, Built, ChunkResult]:
    (setting,) = checked.settings
    built = build(setting, checked.budget)
    cells, stamp = list(checked.cells_of(setting)), Stamp("x", None)
    return setting, built, asyncio.run(run_chunk(built, setting, cells, stamp))


def test_a_price_by_hand() -> None:
    usage = Usage(llm_calls=3, input_tokens=1_000_000, cached_input_tokens=400_000, output_tokens=50_000)
    assert Price(input=2.5, cached=1.25, output=10).of(usage) == 1.5 + 0.5 + 0.5
    assert Price(input=2.5, output=10).of(usage) == 2.5 + 0.5, "cached tokens are as dear as others"
    assert Price(input=0, output=0).of(usage) == 0.0


def test_the_money_of_several_roles_is_the_sum_of_each_at_its_own_price() -> None:
    spent = {ACTOR: Usage(input_tokens=2_000_000), JUDGE: Usage(output_tokens=3_000_000), EVALUATOR: Usage()}
    prices: dict[Any, Price | None] = {ACTOR: Price(input=1, output=9), JUDGE: Price(input=9, output=5)}
    assert money(prices, spent) == 2.0 + 15.0
    assert money(prices | {EVALUATOR: None}, spent) is None, "a model without a price has the sum unknown"
    assert money({}, spent) is None


@pytest.mark.long
def test_rows_and_attempts_hold_the_sum_over_all_roles(tmp_path: Path) -> None:
    dear = {"input": 100, "cached": None, "output": 1000}
    checked = plan(
        tmp_path, model=LEXICAL | {"price": PRICE}, planner=ASKS, judge=LEXICAL | {"no_tool_bonus": 7.0, "price": dear}
    )
    setting, built, result = rows_of(checked)
    attempt = attempt_row("a", setting.id, built.prices, result, 1.0, None)
    rows = result.take()["episodes"]
    for row in rows:
        actor = row["input_tokens"] - row["cached_input_tokens"], row["cached_input_tokens"], row["output_tokens"]
        own = sum(tokens * price for tokens, price in zip(actor, (2.5, 1.25, 10), strict=True))
        judge = row["judge_input_tokens"] * 100 + row["judge_output_tokens"] * 1000
        assert own > 0
        assert judge > 0
        assert row["money"] == pytest.approx((own + judge) / 1_000_000, rel=1e-12)
    assert attempt["money"] == pytest.approx(math.fsum(row["money"] for row in rows), rel=1e-12)


def test_what_runs_in_the_task_is_free_and_a_judge_that_is_the_actor_costs_as_much(tmp_path: Path) -> None:
    _, _, result = rows_of(plan(tmp_path, planner=ASKS))
    assert {row["money"] for row in result.take()["episodes"]} == {0.0}
    (setting,) = plan(tmp_path, planner=ASKS, model=LEXICAL | {"price": PRICE}).settings
    prices = build(setting, plan(tmp_path).budget).prices
    assert prices[ACTOR] == prices[JUDGE] == Price(input=2.5, cached=1.25, output=10)


def test_a_model_elsewhere_without_a_price_has_unknown_cost(tmp_path: Path) -> None:
    checked = plan(tmp_path, model=HTTP)
    assert build(checked.settings[0], checked.budget).prices == {ACTOR: None}


def test_a_price_is_part_of_no_id_and_no_engine_knows_it(tmp_path: Path) -> None:
    one, other = (plan(tmp_path, planner=ASKS, model=HTTP | part, judge=LEXICAL | part, budget__money=limit)
                  for part, limit in (({}, None), ({"price": PRICE}, 5.0)))  # fmt: skip
    assert [cell.cell_id for cell in one.cells_of(one.settings[0])] == [
        cell.cell_id for cell in other.cells_of(other.settings[0])
    ]
    assert other.settings[0].config["model"]["price"] == PRICE, "the row's config tells it"
    assert (one.dollars, other.dollars) == ({}, {"money": 5.0})
    assert "money" not in other.settings[0].budget


@pytest.mark.parametrize(
    ("given", "key", "said"),
    [
        ({"input": -1, "output": 1}, "model.price.input", "greater than or equal to 0"),
        ({"input": 1}, "model.price.output", "required"),
        ({"input": 1, "output": "2"}, "model.price.output", "number"),
        ({"input": 1, "output": True}, "model.price.output", "number"),
        ({"input": 1, "output": float("inf")}, "model.price.output", "finite"),
        ({"input": 1, "output": 2, "outptu": 3}, "model.price.outptu", "did you mean output?"),
        ({"in": 2, "out": 3}, "model.price.in", "did you mean input?); the keys here are input, cached, output"),
        (3, "model.price", "US dollars per million tokens"),
        ([1, 2], "model.price", "US dollars per million tokens"),
    ],
)
def test_prices_that_are_none(tmp_path: Path, given: object, key: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        plan(tmp_path, model=HTTP | {"price": given})
    assert caught.value.key == key
    assert said in str(caught.value)


def test_one_model_has_one_price_in_all_roles(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"judge\.price=.*model\.price"):
        plan(tmp_path, planner=ASKS, model=HTTP | {"price": PRICE}, judge={"form": "text", **HTTP})


def test_the_money_of_a_cell_and_its_prices_are_part_of_its_id_where_there_is_such_a_limit(tmp_path: Path) -> None:
    def ids(price: dict[str, float], limit: float | None) -> list[str]:
        found = plan(tmp_path, model=HTTP | {"price": price}, budget__cell_money=limit)
        return [cell.cell_id for cell in found.cells_of(found.settings[0])]

    dear = {**PRICE, "output": 2 * PRICE["output"]}
    assert ids(PRICE, None) == ids(dear, None)
    assert len({ids(*one)[0] for one in ((PRICE, None), (PRICE, 1.0), (PRICE, 2.0), (dear, 1.0))}) == 4


@pytest.mark.parametrize("key", ["money", "cell_money"])
@pytest.mark.parametrize("role", ["model", "judge"])
def test_a_limit_on_money_needs_the_price_of_every_model(tmp_path: Path, role: str, key: str) -> None:
    models: dict[str, dict[str, Any]] = {
        "model": HTTP | {"price": PRICE},
        "judge": HTTP | {"model": "j", "price": PRICE, "form": "text"},
    }
    limit: dict[str, Any] = {f"budget__{key}": 1.5}
    assert plan(tmp_path, planner=ASKS, **limit, **models).dollars == {key: 1.5}
    del models[role]["price"]
    with pytest.raises(ConfigError) as caught:
        plan(tmp_path, planner=ASKS, **limit, **models)
    assert caught.value.key == f"{role}.price"
    for part in ("conf/model/", ".yaml", f"budget.{key}=1.5", "input", "output"):
        assert part in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_every_role_has_a_column_that_money_counts() -> None:
    assert set(SPENT) == {ACTOR, *ASKED}
