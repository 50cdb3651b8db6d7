"""The seeded shop: the subject of SLATE's queries, and the source of its outcomes (egb_slate §3.4: coherent outputs).

Customers, orders, products and all other records are drawn once from a seed. A `Scene` is the subject of one case: one
customer with her records, the product that she bought, and the shop's people and places.
"""

from __future__ import annotations

import datetime as dt
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product as pairs
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from grid.datasets.files import read_stock

# The authored stock from which SLATE's generator draws: tools, their neighbours, and workflows (egb_slate §3.2-3.3).
#
# The stock has one YAML file under `stock/` for each of the twelve query categories; `agent-grid data slate --check`
# reads all of them and prints every broken rule.


STOCK = Path(__file__).parent / "stock"
Complexity = Literal["simple", "moderate", "complex", "advanced"]
ArgumentType = Literal["string", "integer", "number", "date"]
QUERY_CATEGORIES = (
    "Product Management",
    "Inventory Management",
    "Order Processing",
    "Shipping & Fulfillment",
    "Pricing & Promotions",
    "Subscription Management",
    "Customer Service",
    "Returns & Refunds",
    "Analytics & Reporting",
    "Catalog Management",
    "Review Management",
    "Miscellaneous",
)
TOOL_CATEGORIES = (
    "Order Management",
    "Product Management",
    "Inventory Management",
    "Shipping & Logistics",
    "Payment Processing",
    "Customer Management",
    "Returns & Refunds",
    "Pricing & Promotions",
    "Analytics & Reporting",
    "Search & Discovery",
    "Reviews & Ratings",
    "Notifications & Communication",
    "Authentication & Security",
    "Marketplace Integration",
    "Content Management",
)
# Ranges for (steps, substeps per step, substeps in total, calls), based on egb_slate appendix D, figures 10 and 12. The
# total is higher than in the appendix's prompts (8 to 12 for complex), which could not yield the 13.6 substeps per case
# of table 5.
SHAPES: dict[Complexity, tuple[range, range, range, range]] = {
    "simple": (range(2, 4), range(1, 3), range(3, 6), range(1, 3)),
    "moderate": (range(3, 5), range(1, 4), range(9, 13), range(2, 5)),
    "complex": (range(4, 6), range(2, 4), range(12, 16), range(4, 8)),
    "advanced": (range(5, 8), range(2, 5), range(15, 21), range(7, 17)),
}


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Neighbour(_Strict):
    """A tool that no plan uses.

    The tool is similar to its host, a tool that plans use; if `equivalent`, it has the host's function. `arguments`
    maps a name to (type, description). An equivalent tool returns its host's `results`.
    """

    description: str
    arguments: dict[str, tuple[ArgumentType, str]]
    results: list[str] = Field(default_factory=list)
    equivalent: bool = False


class StockTool(_Strict):
    """A tool that plans use. `arguments` maps names to (type, description); `results` maps fields to value texts."""

    category: str
    description: str
    arguments: dict[str, tuple[ArgumentType, str]]
    results: dict[str, str]
    neighbours: dict[str, Neighbour]


class Substep(_Strict):
    """One substep: several wordings, and the tool that it calls (None: no call).

    `with` maps each argument to the name of a value, a field of the scene (`order.id`), or an output (`i.j.field`).
    """

    say: Annotated[list[str], Field(min_length=1)]
    call: str | None = None
    arguments: dict[str, str] = Field(default_factory=dict, alias="with")


class HighLevelStep(_Strict):
    """A high-level step and its substeps."""

    step: str
    substeps: list[Substep]


class Workflow(_Strict):
    """One way to resolve queries of a category, and several queries that are resolved in this way.

    `values` are the workflow's own values, in addition to the scene. Values and scene are drawn again until all
    conditions in `must` are met.
    """

    user: Literal["buyer", "seller"]
    complexity: Complexity
    values: dict[str, str] = Field(default_factory=dict)
    must: list[str] = Field(default_factory=list)
    queries: Annotated[list[str], Field(min_length=2)]
    plan: list[HighLevelStep]

    def calls(self) -> list[tuple[str, Substep]]:
        """The pair (id `i.j`, substep) for every substep that calls a tool, in order."""
        return [
            (f"{i}.{j}", substep)
            for i, step in enumerate(self.plan, 1)
            for j, substep in enumerate(step.substeps, 1)
            if substep.call
        ]


class Stock(_Strict):
    """One query category. `books` maps names of the shop's books to value texts; a book has a value for each key."""

    query_category: str
    books: dict[str, str] = Field(default_factory=dict)
    tools: dict[str, StockTool]
    workflows: dict[str, Workflow]


def load(path: Path) -> Stock:
    """Read one stock file. Raises pydantic's ValidationError or yaml's error; both show where the error is."""
    return Stock.model_validate(read_stock(path))


def load_pools(path: Path = STOCK / "pools.yaml") -> dict[str, tuple[str, ...]]:
    """The pools of strings by name; `pool NAME` draws from the pool with this name."""
    pools: dict[str, list[str]] = read_stock(path)
    return {name: tuple(strings) for name, strings in pools.items()}


def load_all(folder: Path = STOCK) -> list[Stock]:
    """Every category's stock, in the order of the file names."""
    return [load(path) for path in sorted(folder.glob("*.yaml")) if path.name not in ("pools.yaml", "shop.yaml")]


# The value language of the stock files: values are drawn or follow from other values, and are written as people write
# them.
#
# A value is one line of text in YAML:
#
# - `id ORD-{d8}`: {dN} are digits, {lN} capital letters, {xN} hexadecimal digits
# - `date 2024-01-05..2024-03-30`
# - `date order.placed +3..14`: days after another value
# - `int 2..40`
# - `money 15..240`: two decimals
# - `decimal 0.5..9.5`: one decimal
# - `one of: red | blue`: one of the strings
# - `pool topic`: one string of a named pool (`stock/pools.yaml`)
# - `= EXPRESSION`: a value that follows from other values (`drafts.evaluate`)


class Money(float):
    """An amount in dollars with two decimals, written with the dollar sign."""


Value = str | int | float | dt.date
Kind = Literal["id", "date", "offset", "int", "money", "decimal", "choice", "pool", "follows"]
_RANGE = re.compile(r"(\S+?)\.\.(\S+)")
_OFFSET = re.compile(r"([\w.]+) \+(\d+)\.\.(\d+)")
_SLOT = re.compile(r"\{([dlx])(\d+)\}")
_ALPHABETS = {"d": "0123456789", "l": "ABCDEFGHJKLMNPQRSTUVWXYZ", "x": "0123456789ABCDEF"}


@dataclass(frozen=True)
class Spec:
    """One parsed value text: its `kind`, and its parts, which depend on the kind (pattern, bounds, choices or name)."""

    kind: Kind
    words: tuple[str, ...]


def parse(text: str) -> Spec:
    """Parse one value text. Raises ValueError if the text has none of the forms, or if a bound cannot be read."""
    kind, _, rest = text.partition(" ")
    rest = rest.strip()
    span = _RANGE.fullmatch(rest)
    if kind == "=" and rest:
        return Spec("follows", (rest,))
    if kind == "id" and rest:
        return Spec("id", (rest,))
    if kind == "date" and (offset := _OFFSET.fullmatch(rest)):
        return Spec("offset", (offset[1], offset[2], offset[3]))
    if kind == "date" and span:
        dt.date.fromisoformat(span[1]), dt.date.fromisoformat(span[2])
        return Spec("date", (span[1], span[2]))
    if kind in ("int", "money") and span:
        int(span[1]), int(span[2])
        return Spec("int" if kind == "int" else "money", (span[1], span[2]))
    if kind == "decimal" and span:
        float(span[1]), float(span[2])
        return Spec("decimal", (span[1], span[2]))
    if text.startswith("one of:"):
        choices = tuple(choice.strip() for choice in text[7:].split("|") if choice.strip())
        if len(choices) > 1:
            return Spec("choice", choices)
    if kind == "pool" and rest:
        return Spec("pool", (rest,))
    raise ValueError(f"the value {text!r} has none of the forms id, date, int, money, decimal, one of:, pool, =")


def fill(pattern: str, rng: random.Random) -> str:
    """Fill a pattern with random characters. Hexadecimal strings contain a decimal digit, to look hexadecimal."""
    while True:
        text = _SLOT.sub(lambda slot: "".join(rng.choices(_ALPHABETS[slot[1]], k=int(slot[2]))), pattern)
        if "{x" not in pattern or any(letter.isdigit() for letter in text):
            return text


def random_characters(pattern: str) -> int:
    """The number of random characters in a pattern."""
    return sum(int(slot[2]) for slot in _SLOT.finditer(pattern))


def draw(spec: Spec, rng: random.Random, known: Mapping[str, Any], pools: Mapping[str, tuple[str, ...]]) -> Value:
    """Draw one value that does not follow from other values. `known` has the dates to which day offsets refer.

    Raises ValueError if the value follows from others, its pool is unknown, or its day offset refers to no date.
    """
    match spec.kind:
        case "id":
            return fill(spec.words[0], rng)
        case "date":
            first, last = (dt.date.fromisoformat(word) for word in spec.words)
            return first + dt.timedelta(days=rng.randint(0, (last - first).days))
        case "offset":
            start = known.get(spec.words[0])
            if not isinstance(start, dt.date):
                raise ValueError(f"a day offset needs a date, but {spec.words[0]!r} is {start!r}")
            return start + dt.timedelta(days=rng.randint(int(spec.words[1]), int(spec.words[2])))
        case "int":
            return rng.randint(int(spec.words[0]), int(spec.words[1]))
        case "money":
            low, high = (int(word) for word in spec.words)
            return Money(rng.randint(low * 100, high * 100) / 100)
        case "decimal":
            low, high = (round(float(word) * 10) for word in spec.words)
            return rng.randint(low, high) / 10
        case "choice":
            return rng.choice(spec.words)
        case "pool":
            if spec.words[0] not in pools:
                raise ValueError(f"there is no pool {spec.words[0]!r}, only {', '.join(pools)}")
            return rng.choice(pools[spec.words[0]])
        case "follows":
            raise ValueError(f"{spec.words[0]!r} follows from other values and cannot be drawn")


def plain(value: Value) -> str | int | float:
    """The value in its form for JSON: dates in ISO format, and numbers with at most two decimals."""
    if isinstance(value, dt.date):
        return value.isoformat()
    return round(float(value), 2) if isinstance(value, float) else value


def written(value: Value, rng: random.Random) -> str:
    """The value as a person might write it in a message: a date in one of several forms, money as `$1,200.00`."""
    if isinstance(value, dt.date):
        month, day, year = value.strftime("%B"), value.day, value.year
        forms = (
            f"{month} {day}, {year}",
            f"{month} {day}, {year}",
            f"{day} {month} {year}",
            value.isoformat(),
        )
        return rng.choice(forms)
    if isinstance(value, Money):
        return f"${value:,.2f}"
    return f"{value:g}" if isinstance(value, float) else str(value)


def typed(value: Any, kind: str) -> Value:
    """A value from a file in the form that rules need: a date's text becomes a `date` object."""
    return dt.date.fromisoformat(value) if kind == "date" and isinstance(value, str) else value


def type_of(value: Value) -> str:
    """The argument type of a value."""
    match value:
        case bool():
            return "boolean"
        case dt.date():
            return "date"
        case int():
            return "integer"
        case float():
            return "number"
    return "string"


# The seeded shop: the subject of SLATE's queries, and the source of its outcomes (egb_slate §3.4: coherent outputs).


CUSTOMERS = 400
COLLEAGUES = 24
Record = dict[str, Value]
Scene = Mapping[str, Record | Value]
_FIRST, _LAST = dt.date(2024, 1, 15), dt.date(2024, 10, 20)


class Shop:
    """All records of one seed.

    Args:
        seed: the library's seed; the same seed gives the same shop.
        texts: the contents of `stock/shop.yaml`.
        pools: the pools of strings, by name, from which a book may draw.
    """

    def __init__(self, seed: int, texts: Mapping[str, Any], pools: Mapping[str, tuple[str, ...]]):
        self.seed, self.texts, self.pools = seed, texts, pools
        self._rng = random.Random(f"shop-{seed}")
        self._taken: set[str] = set()
        people = [f"{first} {last}" for first, last in pairs(texts["first_names"], texts["last_names"])]
        self._rng.shuffle(people)
        self.suppliers = [self._supplier(name) for name in texts["suppliers"]]
        self.products = [
            self._product(name, department, *bounds)
            for department, names in texts["products"].items()
            for name, bounds in names.items()
        ]
        self.warehouses = [self._warehouse(name, city) for name, city in texts["warehouses"].items()]
        self.carriers = [self._carrier(name) for name in texts["carriers"]]
        self.sellers = [self._seller(people.pop(), store) for store in texts["stores"]]
        self.colleagues = [self._colleague(people.pop()) for _ in range(COLLEAGUES)]
        self._owned = [self._owner(people.pop()) for _ in range(CUSTOMERS)]

    @cached_property
    def index(self) -> dict[str, Record]:
        """Every record by each of its keys.

        Only things have names as keys; people have keys such as email addresses.
        """
        keyed: list[tuple[Sequence[Record], tuple[str, ...]]] = [
            (self.suppliers, ("id", "email")),
            (self.products, ("sku", "name")),
            (self.warehouses, ("code", "name")),
            (self.carriers, ("name",)),
            (self.sellers, ("id", "email")),
            (self.colleagues, ("email",)),
            ([one["customer"] for one in self._owned], ("account", "email", "member")),
            ([one[name] for one in self._owned for name in ("ticket", "review", "subscription")], ("id",)),
            (
                [one[name] for one in self._owned for name in ("order", "earlier")],
                ("id", "tracking", "invoice", "payment"),
            ),
        ]
        return {str(record[key]): record for records, keys in keyed for record in records for key in keys}

    def scene(self, rng: random.Random) -> Scene:
        """The subject of one case. The records belong together: a customer, her order, that order's product, etc."""
        owned = rng.choice(self._owned)
        by_key = self.index
        order, earlier = owned["order"], owned["earlier"]
        product = by_key[str(order["sku"])]
        others = [one for one in self.products if one["sku"] not in (order["sku"], earlier["sku"])]
        other, third = rng.sample(others, 2)
        warehouse, carrier = by_key[str(order["warehouse"])], by_key[str(order["carrier"])]
        delivered = order["delivered"]
        assert isinstance(delivered, dt.date)  # noqa: S101
        return {
            **owned,
            "product": product,
            "earlier_product": by_key[str(earlier["sku"])],
            "other": other,
            "third": third,
            "supplier": by_key[str(product["supplier"])],
            "warehouse": warehouse,
            "depot": rng.choice([one for one in self.warehouses if one is not warehouse]),
            "carrier": carrier,
            "courier": rng.choice([one for one in self.carriers if one is not carrier]),
            "seller": rng.choice(self.sellers),
            "colleague": rng.choice(self.colleagues),
            "today": delivered + dt.timedelta(days=rng.randint(2, 30)),
        }

    def book(self, name: str, spec: str, keys: tuple[Value, ...]) -> Value:
        """A book's entry for the given keys.

        The entry depends only on the seed, the book's name, the spec and the keys.
        """
        return draw(parse(spec), random.Random(f"{self.seed}|{name}|{spec}|{keys!r}"), {}, self.pools)

    def _new(self, pattern: str) -> str:
        """An identifier that is not yet used in the shop."""
        while (text := fill(pattern, self._rng)) in self._taken:
            pass
        self._taken.add(text)
        return text

    def _mail(self, name: str, domain: str) -> str:
        return f"{name.lower().replace(' ', '.')}@{domain}"

    def _supplier(self, name: str) -> Record:
        rng = self._rng
        mail = f"orders@{name.lower().replace(' & ', '-').replace(' ', '-')}.example"
        found: Record = {"id": self._new("SUP-{d4}"), "name": name, "city": rng.choice(list(self.texts["cities"]))}
        return found | {"email": mail, "days": rng.randint(6, 24)}

    def _product(self, name: str, department: str, low: float, high: float, light: float, heavy: float) -> Record:
        rng = self._rng
        price = Money(rng.randint(int(low), int(high)) + rng.choice((0.0, 0.49, 0.5, 0.95, 0.99)))
        return {
            "sku": self._new("{l3}-{d4}-{l2}"),
            "name": name,
            "brand": rng.choice(self.texts["brands"]),
            "department": department,
            "colour": rng.choice(self.texts["colours"]),
            "price": price,
            "cost": Money(round(price * rng.uniform(0.42, 0.66), 2)),
            "weight": round(rng.uniform(light, heavy), 1),
            "supplier": rng.choice(self.suppliers)["id"],
        }

    def _warehouse(self, name: str, city: str) -> Record:
        return {"code": self._new("WH-{l2}{d2}"), "name": name, "city": city}

    def _carrier(self, name: str) -> Record:
        return {"name": name, "days": self._rng.randint(2, 6), "rate": Money(self._rng.randint(90, 420) / 100)}

    def _seller(self, name: str, store: str) -> Record:
        domain = f"{store.lower().replace(' & ', '-').replace(' ', '-')}.example"
        city = self._rng.choice(list(self.texts["cities"]))
        return {
            "id": self._new("SEL-{d5}"),
            "name": name,
            "email": self._mail(name, domain),
            "store": store,
            "city": city,
        }

    def _colleague(self, name: str) -> Record:
        return {"name": name, "email": self._mail(name, "ourshop.example"), "extension": self._new("{d4}")}

    def _owner(self, name: str) -> dict[str, Record]:
        """A customer and her records."""
        rng, texts = self._rng, self.texts
        first = _FIRST + dt.timedelta(days=rng.randint(0, (_LAST - _FIRST).days))
        customer: Record = {
            "account": self._new("AC-{d6}"),
            "name": name,
            "email": self._mail(name, rng.choice(texts["mail_domains"])),
            "phone": self._new("555-{d3}-{d4}"),
            "street": f"{rng.randint(2, 190)} {rng.choice(texts['streets'])}",
            "city": (city := rng.choice(list(texts["cities"]))),
            "postcode": fill("{d5}", rng),
            "country": texts["cities"][city],
            "member": self._new("LM-{d4}-{d4}"),
            "points": rng.randint(40, 4200),
            "card": fill("{d4}", rng),
            "since": first - dt.timedelta(days=rng.randint(90, 1500)),
        }
        earlier_product, product, regular = rng.sample(self.products, 3)
        order = self._order(customer, product, first)
        placed = order["placed"]
        assert isinstance(placed, dt.date)  # noqa: S101
        return {
            "customer": customer,
            "order": order,
            "earlier": self._order(customer, earlier_product, first - dt.timedelta(days=rng.randint(30, 80))),
            "ticket": {
                "id": self._new("TCK-{d6}"),
                "customer": customer["account"],
                "order": order["id"],
                "opened": placed + dt.timedelta(days=rng.randint(6, 14)),
            },
            "review": {
                "id": self._new("RV-{d6}"),
                "sku": product["sku"],
                "customer": customer["account"],
                "order": order["id"],
                "stars": rng.randint(1, 5),
                "posted": placed + dt.timedelta(days=rng.randint(12, 25)),
            },
            "subscription": self._subscription(customer, regular, first),
        }

    def _order(self, customer: Record, product: Record, placed: dt.date) -> Record:
        rng = self._rng
        carrier = rng.choice(self.carriers)
        quantity, price, days = rng.randint(1, 6), product["price"], carrier["days"]
        assert isinstance(price, float)  # noqa: S101
        assert isinstance(days, int)  # noqa: S101
        shipped = placed + dt.timedelta(days=rng.randint(1, 3))
        return {
            "id": self._new("ORD-{d8}"),
            "customer": customer["account"],
            "sku": product["sku"],
            "quantity": quantity,
            "price": price,
            "total": Money(round(quantity * price, 2)),
            "placed": placed,
            "shipped": shipped,
            "delivered": shipped + dt.timedelta(days=days),
            "carrier": carrier["name"],
            "tracking": self._new("TRK{d9}"),
            "warehouse": rng.choice(self.warehouses)["code"],
            "invoice": self._new("INV-{d4}-{d5}"),
            "payment": self._new("PAY-{d7}"),
        }

    def _subscription(self, customer: Record, product: Record, first: dt.date) -> Record:
        rng = self._rng
        weeks, price = rng.choice((2, 3, 4, 6, 8)), product["price"]
        assert isinstance(price, float)  # noqa: S101
        started = first - dt.timedelta(days=rng.randint(60, 420))
        return {
            "id": self._new("SUB-{d6}"),
            "customer": customer["account"],
            "sku": product["sku"],
            "weeks": weeks,
            "price": Money(round(price * 0.9, 2)),
            "started": started,
            "renews": first + dt.timedelta(days=rng.randint(20, 60)),
        }


@lru_cache(maxsize=8)
def shop(seed: int) -> Shop:
    """A seed's shop, made from this project's texts."""
    return Shop(seed, read_stock(STOCK / "shop.yaml"), load_pools())
