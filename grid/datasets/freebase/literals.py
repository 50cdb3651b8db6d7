"""Numbers and dates that the invented facts of a witness graph hold."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from datetime import date, timedelta

from grid.datasets.freebase.denotation import compares
from grid.worlds.sparql.queries import XSD, Compare, Comparison, Expression, Join, Value, walk

_KINDS = {"type.int": f"{XSD}integer", "type.float": f"{XSD}float", "type.datetime": f"{XSD}date"}
_FIRST, _LAST = date(1850, 1, 1), date(2014, 12, 31)
_TRIES = 60


class Literals:
    """By relation what kind of literal it leads to: as a question has it, else as the schema says.

    `roles`: by relation its domain and its range.
    """

    def __init__(self, roles: Mapping[str, tuple[str, str]], expressions: Iterable[Expression]) -> None:
        self._kinds = {name: _KINDS[target] for name, (_, target) in roles.items() if target in _KINDS}
        self._asked: dict[str, list[Value]] = {}
        for expression in expressions:
            for part in walk(expression):
                value = part.target if isinstance(part, Join) else part.value if isinstance(part, Compare) else None
                if isinstance(value, Value) and isinstance(part, (Join, Compare)):
                    self._kinds[part.relation] = value.datatype
                    self._asked.setdefault(part.relation, []).append(value)

    def __contains__(self, relation: object) -> bool:
        return self._kinds.get(str(relation), "") in _KINDS.values()

    def draw(self, relation: str, rng: random.Random) -> Value:
        """Any value of a relation: of dates a day, of numbers of a `year` a year, else small numbers most often.

        Where questions ask for a value of the relation, numbers lie about those that they ask for.
        """
        kind = self._kinds[relation]
        if kind == _KINDS["type.datetime"]:
            day = _FIRST + timedelta(days=rng.randrange((_LAST - _FIRST).days + 1))
            return Value(day.isoformat(), kind)
        if relation.endswith("year"):
            return self._number(rng.randint(_FIRST.year, _LAST.year), kind)
        asked = self._asked.get(relation)
        if asked:
            return self._number(_about(rng.choice(asked), rng), kind)
        return self._number(rng.lognormvariate(4.0, 1.5), kind)

    def such(self, relation: str, sign: Comparison, value: Value, rng: random.Random) -> Value | None:
        """A value that compares so with another; None where none was found."""
        for attempt in range(_TRIES):
            drawn = self.draw(relation, rng) if attempt % 2 or relation not in self else self._near(value, rng)
            if compares(drawn, sign, value):
                return drawn
        return None

    def _near(self, value: Value, rng: random.Random) -> Value:
        if value.datatype == _KINDS["type.datetime"]:
            try:
                day = date.fromisoformat(value.text) + timedelta(days=rng.randint(-3000, 3000))
            except (ValueError, OverflowError):  # a bare year, a year before Christ
                return value
            return Value(day.isoformat(), value.datatype)
        return self._number(_about(value, rng), value.datatype)

    def _number(self, number: float, kind: str) -> Value:
        whole = kind == _KINDS["type.int"]
        return Value(str(max(1, round(number))) if whole else f"{float(f'{number:.3g}'):.12g}", kind)


def _about(value: Value, rng: random.Random) -> float:
    """A number of the same size; any small one about what is none."""
    try:
        return float(value.text) * rng.lognormvariate(0.0, 0.5)
    except ValueError:
        return rng.lognormvariate(4.0, 1.5)
