"""What a call of a plan's tool returns: computed from its arguments, the shop and earlier calls (egb_slate §3.4)."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from grid.datasets.slate import values
from grid.datasets.slate.expressions import evaluate
from grid.datasets.slate.shop import Shop
from grid.datasets.slate.stock import Stock
from grid.datasets.slate.values import Value

Outcome = dict[str, Value]


class Ledger:
    """The calls of one case. An identifier that a call issued is a key of what the call took and returned."""

    def __init__(self, stock: Stock, shop: Shop):
        self.stock, self.shop = stock, shop
        self._issued: dict[str, Mapping[str, Any]] = {}
        self._books: dict[str, Callable[..., Value]] = {
            name: partial(self._book, name, spec) for name, spec in stock.books.items()
        }

    def outcome(self, tool: str, arguments: Mapping[str, Value]) -> Outcome:
        """What a call returns: the same for the same arguments; raises ExpressionError where a rule cannot be followed.

        Args:
            tool: the name of one of the stock's tools.
            arguments: name to value, dates as dates.
        """
        results: Outcome = {}
        issued = []
        for name, text in self.stock.tools[tool].results.items():
            spec = values.parse(text)
            if spec.kind == "follows":
                results[name] = self.value(spec.words[0], {**arguments, **results})
            else:
                results[name] = values.fill(spec.words[0], self._digits(tool, name, arguments))
                issued.append(results[name])
        self._issued |= {str(identifier): {**arguments, **results} for identifier in issued}
        return results

    def value(self, expression: str, names: Mapping[str, Any]) -> Any:
        """An expression's value, with the shop's records, the issued identifiers and the stock's books."""
        return evaluate(expression, names, self._record, self._books)

    def _record(self, key: str) -> Mapping[str, Any] | None:
        return self._issued.get(key) or self.shop.index.get(key)

    def _digits(self, tool: str, field: str, arguments: Mapping[str, Value]) -> random.Random:
        given = sorted((name, values.plain(value)) for name, value in arguments.items())
        return random.Random(f"{self.shop.seed}|{tool}|{field}|{given!r}")

    def _book(self, name: str, spec: str, *keys: Value) -> Value:
        return self.shop.book(name, spec, tuple(values.plain(key) for key in keys))


def typed(value: Any, kind: str) -> Value:
    """A value of a file as rules take it: dates as dates."""
    return dt.date.fromisoformat(value) if kind == "date" and isinstance(value, str) else value


def type_of(value: Value) -> str:
    """The type that a value has as an argument."""
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
