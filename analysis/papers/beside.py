"""Which settings of a sweep stand beside which rows of a published table, and what they measured."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import pandas as pd

from analysis.load import SETTING, name_of
from analysis.papers.files import Combined, Metric, Published, Row, Value, Wanted, value_at
from analysis.papers.horizon import only
from analysis.stats.intervals import CLUSTER, Interval, amount, interval, ratio, share

# Figures of a published table that are sums of others of its own: an average over rows and metrics, a drop.


def measured(published: Published, beside: Sequence[Block], block: Block, model: str, name: str) -> Measured | None:
    """What a model of ours has of a metric in a row, combined where the table says that it is.

    None where a part is known of no case, or stands beside several settings of ours.
    """
    how = published.combined.get(name)
    if how is None or how.stands not in (None, block.row.labels[published.labels.index(how.label)]):
        return block.measured(model, published.every_metric[name])
    rows: dict[str | None, list[pd.Series[float]]] = {}
    for part in how.of:
        found = _part(published, beside, block, how, part.row)
        values = found.values(model, published.every_metric[part.metric]) if found else None
        if values is None or values.empty:
            return None
        rows.setdefault(part.row, []).append(part.weight * values)
    added = [pd.concat(parts, axis=1, join="inner").sum(axis=1) for parts in rows.values()]
    weights = [sum(part.weight for part in how.of if part.row == row) for row in rows]
    most = HIGHEST.get(published.every_metric[name].unit)
    return _together(added, most) or _apart(added, weights, most)


def _part(
    published: Published, beside: Sequence[Block], block: Block, how: Combined, label: str | None
) -> Block | None:
    """Another row's block, of the setting that differs in its data set alone; of a row without a setting, of any."""
    labels = list(block.row.labels)
    if label is not None:
        labels[published.labels.index(how.label)] = label
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


# Which settings of a sweep stand beside which rows of a published table, and what they measured.


NAMED = ("planner", "dataset", "robustness", "retriever", "pool", "refine", "memory")
"""The groups of files in conf/ by whose names a row tells which settings stand beside it."""


EITHER = {"retriever.model": ("retriever.path", "retriever.hub.id")}
"""Keys that no config has: what embeds is a folder or, without one, a model of the hub."""


HIGHEST = {"share": 1.0, "percent": 1.0, "count": 1.0, "score": 10.0}
"""The largest value of a unit's columns, where it has one."""


class Measured(NamedTuple):
    """A metric of one of our models: over how many cases, and its mean over them with its interval."""

    cases: int
    of: Interval


@dataclass(frozen=True)
class Block:
    """A row of a published table and one setting of ours that stands beside it, or none.

    `setting` has the labels of dataset, robustness and planner; `cells` are its episodes, of all models. `alike`: the
    row has, or could have, others whose labels differ in the dataset alone. `others` are the episodes of the setting
    that it is held against, where the table is of such.
    """

    row: Row
    setting: Mapping[str, str] | None
    cells: pd.DataFrame
    alike: bool = False
    others: pd.DataFrame | None = None

    def measured(self, model: str, metric: Metric) -> Measured | None:
        """What a model of ours has of a metric; None where it is known of no case, or of none in both settings."""
        if not metric.columns or self.setting is None:
            return None
        means = _means(self._by_model, model, metric)
        if self.others is not None:
            theirs = _means(self._others_by_model, model, metric)
            pairs = pd.concat([means, theirs], axis=1, join="inner", keys=["own", "other"])
            if pairs.empty:
                return None
            if metric.unit == "ratio":
                return Measured(len(pairs), ratio(pairs["own"], pairs["other"]))
            return Measured(len(pairs), interval(pairs["own"] - pairs["other"], reach=1.0))
        if means.empty:
            return None
        if metric.unit == "cases":
            return Measured(len(means), Interval(float(means.sum()), math.nan, math.nan))
        if metric.unit in ("points", "difference"):
            return Measured(len(means), interval(means, reach=1.0))
        most = HIGHEST.get(metric.unit)
        return Measured(len(means), share(means, most) if most else amount(means))

    def values(self, model: str, metric: Metric) -> pd.Series[float]:
        """Each case's mean over trials of a metric, by cluster and case; empty where a model has none of it."""
        return _means(self._by_model, model, metric)

    @cached_property
    def _by_model(self) -> dict[str, pd.DataFrame]:
        return _by_model(self.cells)

    @cached_property
    def _others_by_model(self) -> dict[str, pd.DataFrame]:
        return {} if self.others is None else _by_model(self.others)


def _by_model(cells: pd.DataFrame) -> dict[str, pd.DataFrame]:
    return {str(model): own for model, own in cells.groupby("model", observed=True)}


def _means(by_model: Mapping[str, pd.DataFrame], model: str, metric: Metric) -> pd.Series[float]:
    """Each case's mean over trials; empty where nothing is known."""
    if model not in by_model or not metric.columns:
        return pd.Series(dtype=float, index=pd.MultiIndex.from_arrays([[], []], names=[CLUSTER, "case_id"]))
    cells = by_model[model]
    values = cells[metric.columns].astype("float64").mean(axis=1, skipna=False)
    return values.groupby([cells[CLUSTER], cells["case_id"]], observed=True).mean().dropna()


Told = tuple[dict[Any, Any], Mapping[str, Any]]
"""A setting: its labels and names, and its config."""


def settings_of(cells: pd.DataFrame) -> list[Told]:
    """The settings that cells are of."""
    columns = list(dict.fromkeys([*SETTING, *NAMED, "config"]))
    found = cells[columns].drop_duplicates().to_dict("records")
    configs = {text: json.loads(text) for text in {str(one["config"]) for one in found}}
    return [(one, configs[str(one["config"])]) for one in found]


def blocks(published: Published, cells: pd.DataFrame, told: Sequence[Told] | None = None) -> list[Block]:
    """The table's rows in their order, each with every setting of ours that stands beside it.

    A row of the paper's that none of ours stands beside has a block without a setting; a row without figures has none.
    There are no blocks where ours have fewer rows than the table's `least`.
    `cells` have NAMED, `SETTING`, `config` and the table's columns; where they have not what tells kinds of cells
    apart, nothing does. `told` are their settings, where many tables ask for them.
    """
    told = settings_of(cells) if told is None else told
    settings = [one for one, _ in told]
    beside: list[Block] = []
    for row in published.rows:
        conditions, kinds = published.conditions(row), {**published.cells, **row.cells}
        fitting = [one for one, config in told if _fits(one, config, conditions)]
        each = [(one, _of(cells, one, fitting, kinds)) for one in _settings(fitting)]
        own = [(one, found) for one, found in each if len(found)]
        alike = Counter((one["robustness"], one["planner"]) for one, _ in own)
        several = len(published.named(row, "dataset")) > 1
        beside += [
            Block(
                row,
                one,
                found,
                several or alike[one["robustness"], one["planner"]] > 1,
                _of(cells, _other(one, published.against, settings), settings, kinds) if published.against else None,
            )
            for one, found in own
        ]
        if not own and row.figures:
            beside.append(Block(row, None, cells.iloc[:0]))
    ours = {tuple(block.row.labels) for block in beside if block.setting}
    return beside if len(ours) >= published.least else []


def _other(
    setting: Mapping[str, str],
    against: Mapping[Literal["planner", "robustness"], str],
    settings: Sequence[Mapping[Any, Any]],
) -> dict[str, str]:
    """The labels of the setting that one is held against: with the same changes, else as `horizon.only` finds it."""
    found = dict(setting)
    for key, name in against.items():
        rest = {part: label for part, label in setting.items() if part != key}
        there = {str(one[key]) for one in settings if all(str(one[part]) == label for part, label in rest.items())}
        same = name + setting[key].removeprefix(name_of(setting[key]))
        found[key] = same if same in there else only(sorted(there), name)
    return found


def _fits(setting: Mapping[Any, Any], config: Mapping[str, Any], conditions: Mapping[str, Wanted] | None) -> bool:
    return conditions is not None and all(
        any(
            _is(name_of(str(setting[key])) if key in NAMED else _found(config, key), value)
            for value in (wanted if isinstance(wanted, list) else [wanted])
        )
        for key, wanted in conditions.items()
    )


def _found(config: Mapping[str, Any], key: str) -> Any:
    """A value of the config, or the first that is not null of those that a name stands for."""
    return next((found for one in EITHER.get(key, (key,)) if (found := value_at(config, one)) is not None), None)


def _is(found: Any, wanted: Value) -> bool:
    """Whether a value is the wanted one; a hub's name or a folder counts by its last part."""
    if isinstance(found, str) and isinstance(wanted, str):
        return wanted in (found, found.rstrip("/").rpartition("/")[2])
    return type(found) is type(wanted) and bool(found == wanted)


def _settings(fitting: Sequence[Mapping[Any, Any]]) -> Iterator[dict[str, str]]:
    """The different labels of settings; those of different models that are else alike are one."""
    seen: dict[tuple[str, ...], None] = dict.fromkeys(tuple(str(one[part]) for part in SETTING[1:]) for one in fitting)
    for labels in seen:
        yield dict(zip(SETTING[1:], labels, strict=True))


def _of(
    cells: pd.DataFrame,
    setting: Mapping[str, str],
    fitting: Sequence[Mapping[Any, Any]],
    kinds: Mapping[str, Wanted],
) -> pd.DataFrame:
    models = {str(one["model"]) for one in fitting if all(str(one[part]) == setting[part] for part in SETTING[1:])}
    mine = cells["model"].isin(models)
    for part, label in setting.items():
        mine &= cells[part] == label
    for name, wanted in kinds.items():
        if name in cells:
            allowed = wanted if isinstance(wanted, list) else [wanted]
            mine &= cells[name].isin([one for one in allowed if one is not None]) | (
                cells[name].isna() if None in allowed else False
            )
    return cells[mine]
