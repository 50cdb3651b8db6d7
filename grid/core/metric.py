"""The meaning of each metric of a cell, declared by the class that measures the metric; nothing is guessed."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast, get_args

from grid.core.errors import ConfigError, shown_value

Kind = Literal["flag", "count", "tokens", "number", "text", "list"]
"""The kind of a metric's values: true or false, whole numbers (`tokens`: large ones), numbers, texts, or lists of
texts."""
Better = Literal["higher", "lower", "neither"]
MOST = 256
"""Maximum number of metrics that one class may declare; each adds a row to tables and a value to each cell's row."""
TEXTS: tuple[Kind, ...] = ("text", "list")
_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
_UNIT = 40  # characters
_OWN: Mapping[Kind, type] = {"flag": bool, "count": int, "tokens": int, "text": str}
"""For each kind, the Python type whose values are always of that kind."""


@dataclass(frozen=True)
class Metric:
    """A metric of cells: its name, and the facts needed to understand its values.

    Args:
        name: at most 64 characters, only lower-case letters, digits and _.
        unit: the unit as shown in tables, such as `share`, `calls` or `0 to 10`; empty for a metric without a unit.
        better: whether higher values, lower values or neither are better.
        paper: the source of the definition: a paper and its section, or a benchmark.
        kind: the kind of the metric's values.
        meaning: an explanation in one or two sentences.
        null: the condition under which a cell has no value.

    Raises:
        ConfigError: a field has a value that no metric can have.
    """

    name: str
    unit: str = ""
    better: Better = "higher"
    paper: str = ""
    kind: Kind = "number"
    meaning: str = ""
    null: str = ""

    def __post_init__(self) -> None:
        """Refuse names and units that tables and formulas could not contain."""
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            raise ConfigError(
                "metric.name", self.name, "at most 64 lower-case letters, digits and _, with a letter first"
            )
        for key, allowed in (("better", get_args(Better)), ("kind", get_args(Kind))):
            if getattr(self, key) not in allowed:
                raise ConfigError(f"metric {self.name}: {key}", getattr(self, key), " or ".join(allowed))
        if len(self.unit) > _UNIT or not self.unit.isprintable():
            raise ConfigError(f"metric {self.name}: unit", self.unit, f"a printable text of at most {_UNIT} characters")


def declared_by(part: object) -> tuple[Metric, ...]:
    """The metrics that a data set or a planner declares in its attribute `metrics`.

    Raises:
        ConfigError: the attribute is not a list of at most MOST metrics, or contains a metric twice.
    """
    declared, owner = getattr(part, "metrics", ()), type(part).__qualname__
    found = tuple(declared) if isinstance(declared, Iterable) else (declared, declared)  # a single metric is not a list
    names = [getattr(metric, "name", None) for metric in found if isinstance(metric, Metric)]
    if len(names) != len(found) or len(found) > MOST or len({*names}) != len(names):
        raise ConfigError(
            f"{owner}.metrics",
            declared,
            f"a tuple of at most {MOST} objects of the class grid.Metric, each with a different name",
        )
    return found


def together(declared: Iterable[tuple[str, Iterable[Metric]]], reserved: Iterable[str] = ()) -> dict[str, Metric]:
    """All metrics that several owners declare, by name.

    Args:
        declared: the owners' names, each with the metrics that the owner declares; two owners may declare the same
            metric.
        reserved: names that no metric may have.

    Raises:
        ConfigError: two owners declare the same name with a different unit, kind or direction, or a declared name is
            reserved.
    """
    found: dict[str, tuple[str, Metric]] = {}
    taken = frozenset(reserved)
    for owner, metrics in declared:
        for metric in metrics:
            if metric.name in taken:
                raise ConfigError(
                    f"{owner}: metric", metric.name, "must not be the name of a column of the table episodes"
                )
            other, known = found.setdefault(metric.name, (owner, metric))
            if (known.unit, known.kind, known.better) != (metric.unit, metric.kind, metric.better):
                raise ConfigError(
                    f"{owner}: metric {metric.name}", _told(metric), f"must be declared as in {other}: {_told(known)}"
                )
    return {name: metric for name, (_, metric) in found.items()}


def _told(metric: Metric) -> str:
    return f"{metric.kind} in {metric.unit or 'no unit'}, {metric.better} is better"


def checked(found: Mapping[str, Any], known: Mapping[str, Metric]) -> dict[str, Any]:
    """The measured values of a cell, each converted to its metric's kind; values that are None are left out.

    Raises:
        ValueError: a name is not declared, or a value is not finite or has the wrong kind.
    """
    return {
        name: value if name in known and type(value) is _OWN.get(known[name].kind) else _checked(name, value, known)
        for name, value in found.items()
        if value is not None
    }


def _checked(name: str, value: Any, known: Mapping[str, Metric]) -> Any:
    if name not in known:
        raise ValueError(f"metric {shown_value(name)} is not declared; declare a Metric with this name in `metrics`")
    kind = known[name].kind
    if kind == "list" and isinstance(value, (list, tuple)) and all(isinstance(part, str) for part in value):
        return [*value]
    if kind not in TEXTS and hasattr(value, "__float__"):  # includes numpy's numbers
        number = float(value)
        if math.isfinite(number) and (kind != "flag" or number in (0.0, 1.0)):
            return bool(number) if kind == "flag" else number if kind == "number" else int(number)
    raise ValueError(
        f"metric {name}: {shown_value(value)} is not a {kind}" + ", or is not finite" * (kind not in TEXTS)
    )


def split(values: Mapping[str, Any]) -> tuple[dict[str, float], dict[str, str]]:
    """Split values by storage form: numbers (flags as 0 and 1) and texts (lists as JSON)."""
    numbers, texts = {}, {}
    for name, value in values.items():
        if isinstance(value, str):
            texts[name] = value
        elif isinstance(value, (list, tuple)):
            texts[name] = json.dumps(value, ensure_ascii=False)
        else:
            numbers[name] = float(value)
    return numbers, texts


# Our own metrics, from `declared.txt`, in the order used by tables of columns.
#
# A user's data set, planner or scorer declares additional metrics in its attribute `metrics`; nothing else is needed.


_FILE = Path(__file__).with_name("declared.txt")


def _read() -> Iterator[Metric]:
    for line in _FILE.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            name, kind, unit, better, paper, meaning, null = (part.strip() for part in line.split("|"))
            yield Metric(name, unit, cast(Better, better), paper, cast(Kind, kind), meaning, null)


METRICS: tuple[Metric, ...] = tuple(_read())
BY_NAME = {metric.name: metric for metric in METRICS}
