"""Figures of a published table that are sums of others of its own: an average over rows and metrics, a drop."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import pandas as pd

from analysis.intervals import Interval, interval, share
from analysis.published.beside import HIGHEST, Block, Measured
from analysis.published.files import Combined, Published


def measured(table: Published, beside: Sequence[Block], block: Block, model: str, name: str) -> Measured | None:
    """What a model of ours has of a metric in a row, combined where the table says that it is.

    None where a part is known of no case, or stands beside several settings of ours.
    """
    how = table.combined.get(name)
    if how is None or how.stands not in (None, block.row.labels[table.labels.index(how.label)]):
        return block.measured(model, table.every_metric[name])
    rows: dict[str | None, list[pd.Series[float]]] = {}
    for part in how.of:
        found = _part(table, beside, block, how, part.row)
        values = found.values(model, table.every_metric[part.metric]) if found else None
        if values is None or values.empty:
            return None
        rows.setdefault(part.row, []).append(part.weight * values)
    added = [pd.concat(parts, axis=1, join="inner").sum(axis=1) for parts in rows.values()]
    weights = [sum(part.weight for part in how.of if part.row == row) for row in rows]
    most = HIGHEST.get(table.every_metric[name].unit)
    return _together(added, most) or _apart(added, weights, most)


def _part(table: Published, beside: Sequence[Block], block: Block, how: Combined, label: str | None) -> Block | None:
    """Another row's block, of the setting that differs in its data set alone; of a row without a setting, of any."""
    labels = list(block.row.labels)
    if label is not None:
        labels[table.labels.index(how.label)] = label
    own = [one for one in beside if list(one.row.labels) == labels and one.setting is not None]
    if block.setting is not None:
        own = [one for one in own if _alike(one.setting, block.setting)]
    return own[0] if len(own) == 1 else None


def _alike(one: Mapping[str, str] | None, other: Mapping[str, str]) -> bool:
    """Whether settings are the same but for their data set, whose keys tell the rows apart, and their pool."""
    apart = ("dataset", "pool")
    return one is not None and all(one.get(part) == label for part, label in other.items() if part not in apart)


def _together(rows: Sequence[pd.Series[float]], most: float | None) -> Measured | None:
    """Case by case, where the rows are of the same cases."""
    both = pd.concat(rows, axis=1, join="inner")
    if len(both) < max(map(len, rows)):
        return None
    values = both.sum(axis=1)
    return Measured(len(values), share(values, most) if most else interval(values, reach=1.0))


def _apart(rows: Sequence[pd.Series[float]], weights: Sequence[float], most: float | None) -> Measured:
    """Of rows of different cases, with bounds from theirs (square and add: Zou and Donner 2008)."""
    own = [
        share(values, most * weight) if most and weight > 0 else interval(values, reach=abs(weight))
        for values, weight in zip(rows, weights, strict=True)
    ]
    mean = sum(one.mean for one in own)
    below = math.sqrt(sum((one.mean - one.low) ** 2 for one in own))
    above = math.sqrt(sum((one.high - one.mean) ** 2 for one in own))
    return Measured(sum(map(len, rows)), Interval(mean, mean - below, mean + above))
