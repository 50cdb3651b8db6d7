"""The seeded shop that SLATE's queries speak of and its outcomes follow from (egb_slate §3.4: coherent outputs).

Customers, orders, products and the rest are drawn once from a seed. A `Scene` is what one case is about: one customer
with what is hers, the product that she bought, and the people and places of the shop.
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import product as pairs
from typing import Any

from grid.datasets.files import read_stock
from grid.datasets.slate.stock import STOCK, load_pools
from grid.datasets.slate.values import Money, Value, draw, fill, parse

CUSTOMERS = 400
COLLEAGUES = 24
Record = dict[str, Value]
Scene = Mapping[str, Record | Value]
_FIRST, _LAST = dt.date(2024, 1, 15), dt.date(2024, 10, 20)


class Shop:
    """All records of one seed.

    Args:
        seed: the library's; the same seed gives the same shop.
        texts: the contents of `stock/shop.yaml`.
        pools: the strings that a book may draw from.
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
        """Every record by each of its keys. People have addresses: a name alone is the key of a thing."""
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
        """What one case is about. The order is the customer's, the product the order's, and so on."""
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
        """What the shop's books say under some keys: drawn once and for all from the seed, the spec and the keys."""
        return draw(parse(spec), random.Random(f"{self.seed}|{name}|{spec}|{keys!r}"), {}, self.pools)

    def _new(self, pattern: str) -> str:
        """An identifier that nothing else in the shop has."""
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
        """A customer and what is hers."""
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
    """The shop of a seed, made of the shipped texts."""
    return Shop(seed, read_stock(STOCK / "shop.yaml"), load_pools())
