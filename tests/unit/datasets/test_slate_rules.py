"""SLATE's stock language: expressions, the seeded shop, outcomes that follow, and what a check of them sees."""

from __future__ import annotations

import datetime as dt
import random
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from grid.datasets.slate.drafts import MOST_CHARACTERS, CaseRecord, Draft, DraftError, ExpressionError, Ledger, evaluate
from grid.datasets.slate.shop import Money, Shop, Stock, draw, load_pools, parse, shop, written
from grid.datasets.slate.stats import contradictions, problems, repeated

STOCK = """
query_category: Returns & Refunds
books:
  return_days: int 14..30
tools:
  confirm_sendback_period:
    category: Returns & Refunds
    description: Tells whether a purchased line may still be handed back, and until which day.
    arguments:
      order_id: [string, Number under which the goods were bought]
      sku: [string, Stock code of the line in question]
      request_date: [date, Day on which the customer asks]
    results:
      eligibility_code: id EL-{x6}
      deadline: "= days_after(order_id.delivered, return_days(sku))"
      verdict: "= 'in time' if request_date <= deadline else 'too late'"
    neighbours:
      verify_return_window:
        equivalent: true
        description: Checks that the time allowed for giving back a bought article has not run out.
        arguments:
          order_number: [string, Number that the shop gave the purchase]
          item_sku: [string, Stock code of the article]
          asked_on: [date, Day of the request]
  reckon_refund_sum:
    category: Returns & Refunds
    description: Works out how much money goes back for pieces that may be returned.
    arguments:
      allowance: [string, Code of the allowance to hand back]
      pieces: [integer, Number of pieces that go back]
    results:
      refund_id: id RF-{d7}
      refund_amount: "= money(allowance.sku.price * pieces)"
    neighbours: {}
workflows:
  lamp_return:
    user: buyer
    complexity: moderate
    values:
      asked_on: date order.delivered +3..25
      pieces: int 1..3
    must: ["1.1.deadline >= asked_on", "pieces <= order.quantity"]
    queries:
      - "My {product.name} came on {order.delivered}, order {order.id}, code {product.sku}; it is {asked_on}.
        {pieces} go back. Write to {customer.email}."
      - "On {asked_on}: {pieces} of {product.sku} from {order.id} go back; {customer.email}."
    plan:
      - step: Look at the claim
        substeps:
          - say: ["Find out if the {product.name} can come back", "See whether {asked_on} is early enough"]
            call: confirm_sendback_period
            with: {order_id: order.id, sku: product.sku, request_date: asked_on}
          - say: [Note the wish, Write down what is wanted]
          - say: [Compare the two days, Check which day counts]
      - step: Settle the money
        substeps:
          - say: [Judge if part of it stays, Weigh what stays]
          - say: ["Work out what {pieces} pieces are worth", "See what {pieces} of them cost"]
            call: reckon_refund_sum
            with: {allowance: 1.1.eligibility_code, pieces: pieces}
          - say: [Note the sum, Keep the sum in mind]
      - step: Answer
        substeps:
          - say: [Put the sum into the answer, Write the answer]
          - say: [Go through the message again, Read the message again]
          - say: [Make the answer short, Keep the answer short]
"""


def stock(old: str = "", new: str = "") -> Stock:
    """The stock, with a text replaced that must be there."""
    assert old in STOCK
    return Stock.model_validate(yaml.safe_load(STOCK.replace(old, new) if old else STOCK))


def drafted(part: Stock | None = None, seed: int = 0) -> CaseRecord:
    return Draft(part or stock(), "lamp_return", shop(0), random.Random(seed)).case(f"case-{seed}", seed)


def worked_out(text: str, **names: Any) -> Any:
    records: dict[str, dict[str, Any]] = {"K-1": {"price": 4.5, "next": "K-2"}, "K-2": {"price": 8}}
    return evaluate(text, names, lambda key: records.get(key), {"book": lambda key: 7})


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("1 + 2 * 3 - 4 // 2", 5),
        ("7 % 4 == 3 and not 1 > 2 or False_", True),
        ("'a' if n < 2 else 'b'", "b"),
        ("1 < n <= 5", True),
        ("key.price * n", 22.5),
        ("key.next.price", 8),
        ("money(2.675 * 100 / 100)", 2.68),
        ("money(-1.005)", -1.01),
        ("round(2.5)", 3),
        ("days_between(day, days_after(day, 40))", 40),
        ("book(key) + min(n, 3) + max(1, 2)", 12),
        ("text(n) + ' pieces'", "5 pieces"),
        ("-n", -5),
    ],
)
def test_expressions_by_hand(text: str, wanted: object) -> None:
    assert worked_out(text, n=5, key="K-1", day=dt.date(2024, 1, 31), False_=False) == wanted


@pytest.mark.parametrize(
    "text",
    [
        "",
        "n +",
        "unknown",
        "key.unknown",
        "n.price",
        "'nobody'.price",
        "__import__('os')",
        "key.__class__",
        "[1, 2]",
        "lambda: 1",
        "n ** 9",
        "min(n, key=n)",
        "(n := 1)",
        "n / 0",
        "n + key",
        "f'{n}'",
        "1 if n else unknown if n > 9 else " + "(" * 300 + "1" + ")" * 300,
        "1" + " + 1" * MOST_CHARACTERS,
    ],
)
def test_nothing_else_is_evaluated(text: str) -> None:
    with pytest.raises(ExpressionError):
        worked_out(text, n=5, key="K-1")


@given(st.floats(0, 1e6), st.integers(1, 100))
def test_money_has_two_decimals_and_is_within_half_a_cent(amount: float, pieces: int) -> None:
    paid = worked_out("money(a * n)", a=amount, n=pieces)
    assert isinstance(paid, Money)
    assert paid == round(paid, 2)
    assert abs(paid - amount * pieces) <= 0.005 + 1e-6 * pieces


def test_a_shop_is_one_of_a_seed_and_hangs_together() -> None:
    made, again, other = shop(0), Shop(0, shop(0).texts, load_pools()), shop(1)
    assert made.index == again.index
    assert made.index.keys() & other.index.keys() < made.index.keys()
    rng = random.Random(3)
    for _ in range(200):
        scene: dict[str, Any] = dict(made.scene(rng))
        order: dict[str, Any] = scene["order"]
        customer: dict[str, Any] = scene["customer"]
        product: dict[str, Any] = scene["product"]
        assert made.index[order["customer"]] is customer is made.index[customer["email"]]
        assert made.index[order["sku"]] is product
        assert order["total"] == round(order["quantity"] * product["price"], 2)
        assert scene["earlier"]["delivered"] < order["placed"] < order["shipped"] < order["delivered"] < scene["today"]
        assert scene["ticket"]["order"] == scene["review"]["order"] == order["id"]
        assert len({scene[name]["sku"] for name in ("product", "other", "third")}) == 3
        assert scene["warehouse"]["code"] == order["warehouse"] != scene["depot"]["code"]
        assert product["cost"] < product["price"]
        assert customer["name"].lower().replace(" ", ".") == customer["email"].split("@")[0]


def test_a_book_says_the_same_under_the_same_keys_and_is_the_seeds() -> None:
    said = [shop(0).book("stock", "int 1..1000000", ("A", 1)) for _ in range(3)]
    assert len(set(said)) == 1
    other = (shop(0).book("stock", "int 1..1000000", ("A", 2)), shop(1).book("stock", "int 1..1000000", ("A", 1)))
    assert said[0] not in other


def test_outcomes_follow_from_what_was_given_and_from_earlier_calls() -> None:
    for seed in range(20):
        case = drafted(seed=seed)
        first, last = (sub.call for sub in case.substeps() if sub.call)
        index: dict[str, dict[str, Any]] = dict(shop(0).index)
        order, product = index[first.arguments["order_id"]], index[first.arguments["sku"]]
        deadline = dt.date.fromisoformat(first.outcome["deadline"])
        assert 14 <= (deadline - order["delivered"]).days <= 30
        assert first.outcome["verdict"] == "in time"
        assert last.arguments["allowance"] == "OUTPUT_FROM_STEP_1.1.eligibility_code"
        assert last.outcome["refund_amount"] == round(float(product["price"]) * last.arguments["pieces"], 2)


def test_the_same_call_returns_the_same_in_any_case_and_another_call_another_identifier() -> None:
    scene: dict[str, Any] = dict(shop(0).scene(random.Random(1)))
    order, ledger = scene["order"], Ledger(stock(), shop(0))
    given: dict[str, Any] = {"order_id": order["id"], "sku": order["sku"], "request_date": order["delivered"]}
    one = ledger.outcome("confirm_sendback_period", given)
    assert one == Ledger(stock(), shop(0)).outcome("confirm_sendback_period", dict(reversed(given.items())))
    later = ledger.outcome("confirm_sendback_period", given | {"request_date": order["delivered"] + dt.timedelta(90)})
    assert later["eligibility_code"] != one["eligibility_code"]
    assert (one["verdict"], later["verdict"]) == ("in time", "too late")


def test_a_workflows_next_case_is_worded_differently() -> None:
    one, other = (Draft(stock(), "lamp_return", shop(0), random.Random(5)).case("c", turn) for turn in (0, 1))
    assert one.query != other.query
    assert all(a.text != b.text for a, b in zip(one.substeps(), other.substeps(), strict=True))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('refund_amount: "= money(allowance.sku.price * pieces)"', "refund_amount: money 3..9", "is drawn"),
        ("allowance.sku.price", "allowance.sku.prize", "no field 'prize'"),
        ("allowance.sku.price", "pieces.price", "not the key of a record"),
        ("id RF-{d7}", "id RF-{d3}", "fewer than 5 random characters"),
        ("pieces: pieces}", "pieces: asked_on}", "argument pieces is integer"),
        ("pieces: pieces}", "pieces: order.nothing}", "'order.nothing' is neither a value"),
        ("1.1.eligibility_code", "1.1.no_code", "no earlier output 1.1.no_code"),
        ("1.1.eligibility_code", "2.3.eligibility_code", "no earlier output 2.3.eligibility_code"),
        ("1.1.deadline >= asked_on", "1.1.deadline < order.placed", "none of 300 draws meets"),
        ("1.1.deadline >= asked_on", "9.9.deadline >= asked_on", "no name 'out_9_9_deadline'"),
        ("date order.delivered +3..25", "date order.id +3..25", "a day offset needs a date"),
        ("date order.delivered +3..25", "someday", "has none of the forms"),
        ("int 14..30", "date order.placed +1..2", "depends on other values"),
        ("; {customer.email}.", "; {customer.shoe}.", "which is neither a value nor a field"),
        ("{pieces} of {product.sku}", "{product.sku}", "query 2 lacks pieces"),
        ("[Note the wish, ", "['Note the wish of {nobody}', ", "{nobody}"),
        ("asked_on: [date, Day of", "asked_on: [string, Day of", "argument types differ"),
        ("Find out if the", "Confirm the sendback period of the", "names its tool"),
        ("Tells whether a purchased", "Tells", ""),
    ],
)
def test_rules_see_what_is_broken(old: str, new: str, said: str) -> None:
    found = problems(stock(old, new), shop(0))
    assert any(said in line for line in found) if said else found == []


@pytest.mark.parametrize(
    ("field", "allowance", "told"),
    [
        ("new_amount", "1.1.eligibility_code", True),
        ("amount_left", "1.1.eligibility_code", True),
        ("amount", "1.1.eligibility_code", False),
        ("new_amount", "order.id", False),
    ],
)
def test_what_is_left_of_a_thing_is_told_once(field: str, allowance: str, told: bool) -> None:
    twice = """{allowance: 1.1.eligibility_code, pieces: pieces}
          - say: [Note the sum, Keep the sum in mind]
          - say: [Count what more pieces are worth, See what the others cost]
            call: reckon_refund_sum
            with: {allowance: ALLOWANCE, pieces: pieces}""".replace("ALLOWANCE", allowance)
    made = stock("{allowance: 1.1.eligibility_code, pieces: pieces}", twice)
    results = made.tools["reckon_refund_sum"].results
    results[field] = results.pop("refund_amount")
    wanted = f"2.4 tells {field} of {allowance} as if 2.2 had not changed it"
    assert any(wanted in line for line in problems(made, shop(0))) == told


def test_names_that_come_twice_are_told() -> None:
    found = repeated([stock(), stock()])
    assert "tool reckon_refund_sum is named 2 times" in found
    assert "workflow lamp_return is named 2 times" in found
    assert repeated([stock()]) == []


def test_a_case_that_does_not_follow_is_found() -> None:
    case = drafted()
    assert contradictions([case], [stock()], shop(0)) == []
    data = case.model_dump()
    data["plan"][1]["substeps"][1]["call"]["outcome"]["refund_amount"] += 0.01
    found = contradictions([CaseRecord.model_validate(data)], [stock()], shop(0))
    assert len(found) == 1
    assert "refund_amount is" in found[0]


def test_a_query_of_two_customers_or_of_nobody_is_found() -> None:
    case = drafted()
    stranger = drafted(seed=9)
    address = next(word.strip(".;") for word in stranger.query.split() if "@" in word)
    mixed = case.model_copy(update={"query": f"{case.query} Or to {address}."})
    assert "several customers" in contradictions([mixed], [stock()], shop(0))[0]
    unknown = case.model_copy(update={"query": f"{case.query} Or to no.body@example.com."})
    assert "not the address of anybody" in contradictions([unknown], [stock()], shop(0))[0]


@given(
    st.sampled_from(
        [
            "id A-{d5}-{l2}{x3}",
            "int 3..9",
            "money 2..7",
            "decimal 0.5..2.5",
            "one of: a | b",
            "date 2024-02-01..2024-02-29",
        ]
    ),
    st.integers(),
)
def test_what_is_drawn_is_of_its_form(text: str, seed: int) -> None:
    spec = parse(text)
    value = draw(spec, random.Random(seed), {}, {})
    assert value == draw(spec, random.Random(seed), {}, {})
    match spec.kind:
        case "int":
            assert value in range(3, 10)
        case "money":
            assert isinstance(value, Money)
            assert 2 <= value <= 7
        case "decimal":
            assert isinstance(value, float)
            assert written(value, random.Random(0)).count("$") == 0
        case "date":
            assert isinstance(value, dt.date)
            assert value.month == 2


def test_a_draft_names_what_is_wrong() -> None:
    with pytest.raises(DraftError, match="value asked_on: a day offset needs a date"):
        drafted(stock("date order.delivered +3..25", "date order.id +3..25"))
